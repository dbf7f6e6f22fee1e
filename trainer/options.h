/*
 * trainer/options: the command line of ddptrain, from the table options.def.
 */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "trainer/model.h"
#include "worker_rt/ddp.h"

/* Where the model lives and who adds up gradients. */
enum options_where {
    OPTIONS_AUTO,
    OPTIONS_CPU, /* over TCP */
    OPTIONS_GPU, /* by NCCL */
};

/* What each kind of row is in struct options. */
#define OPTIONS_TYPE_INT int64_t
#define OPTIONS_TYPE_STR const char *

/* Texts are borrowed from argv or the table. */
struct options {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    OPTIONS_TYPE_##kind name;
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
    int64_t total_epochs;
    int64_t save_every; /* epochs; 0: no snapshot at an epoch's end */

    /* What the texts came to. Where the model has its own default, the fields
     * above have been filled with it. */
    const struct model_spec *spec;
    float rate;                  /* of `lr` */
    enum options_where on, sums; /* of `device` and `comm` */

    bool help;    /* nothing else was looked at */
    bool version; /* the same */
};

/*
 * Reads argv[1..]. Options may stand before, between and after the two
 * arguments. Dashes and underscores in their names mean the same, and a name
 * may be cut as long as it stays unique. Reorders argv, and writes underscores
 * into it. Not for two threads at once (getopt).
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
