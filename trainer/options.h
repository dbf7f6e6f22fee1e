/*
 * trainer/options: the command line of ddptrain.
 */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "trainer/model.h"
#include "worker_rt/ddp.h"

/* Where the model is computed. */
enum options_device {
    OPTIONS_DEVICE_AUTO,
    OPTIONS_DEVICE_CPU,
    OPTIONS_DEVICE_CUDA,
};

/* How gradients are summed over the ranks. */
enum options_comm {
    OPTIONS_COMM_AUTO,
    OPTIONS_COMM_TCP,
    OPTIONS_COMM_NCCL,
};

/* Texts are borrowed from argv. The defaults of the model are filled in. */
struct options {
    int64_t total_epochs;
    int64_t save_every; /* epochs; 0: no snapshot at the end of an epoch */

    const struct model_spec *spec; /* of --model */
    const char *data;              /* the folder of the images */
    int64_t train_samples;         /* 0: all */
    int64_t hidden;                /* 0: the model has no hidden layer */
    int64_t batch_size;            /* per rank */
    float lr;
    int device; /* enum options_device */
    int comm;   /* enum options_comm */
    int64_t seed;
    bool shard; /* each rank has a part of the optimizer's state */

    const char *snapshot_path;
    int64_t keep;
    int64_t save_steps; /* 0: never, as the next one */
    int64_t memory_steps;
    const char *samples_taken; /* NULL: no such file */

    bool help;    /* nothing behind it was looked at */
    bool version; /* the same */
};

/*
 * Reads argv[1..]. Options may stand before, between and after the two
 * arguments. Dashes and underscores in their names mean the same, and a name
 * may be cut as long as it stays unique. Reorders argv. Not for two threads at
 * once (getopt).
 * Errors: DDP_ERR_USAGE, with a sentence that names the option, its value and
 * what would be right.
 */
int options_parse(struct options *o,
                  int argc,
                  char *argv[],
                  struct ddp_error *err);

/* The line for errors, and all of --help, 80 columns. */
void options_usage(FILE *f);
void options_help(FILE *f);

#endif
