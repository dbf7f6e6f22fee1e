/*
 * trainer/data: what the trainer learns from. Images and labels in IDX files
 * (the format of MNIST, plain or gzip), or samples made up from a seed. Every
 * rank holds the whole set: the sampler says which samples are whose.
 *
 * Legend:  N  samples in the set
 *          F  features of a sample (pixels of an image)
 *          T  targets of a sample, if they are numbers
 *          C  classes, where targets are classes
 *          B  samples in a batch
 */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "worker_rt/ddp.h"

/* Where Debian's package dataset-fashion-mnist puts its files. */
#define DATA_DIR_DEFAULT "/usr/share/datasets/fashion-mnist"

/*
 * Either images with classes (`pixels`, `labels`, C > 0, T = 0), or numbers
 * with numbers (`x`, `y`, C = 0, T > 0). The arrays are owned.
 */
struct dataset {
    size_t N;
    size_t F;
    size_t T;
    size_t C;
    uint8_t *pixels; /* (N,F) as in the file, 0..255 */
    uint8_t *labels; /* (N), each < C */
    float mean;      /* of the training set's pixels, and their deviation: */
    float deviation; /* a batch is handed out as (pixel - mean) / deviation */
    float *x;        /* (N,F) */
    float *y;        /* (N,T) */
};

struct data {
    struct dataset train;
    struct dataset test; /* N = 0: there is none */
};

/*
 * Reads train-{images-idx3,labels-idx1}-ubyte and the same of t10k from the
 * folder `dir`, each with or without ".gz". Borrows `dir` for the call.
 * Errors: DDP_ERR_NOINPUT (a file is missing or cannot be read),
 * DDP_ERR_CORRUPT (a file is not IDX, cut short, too long, or does not match
 * the others), DDP_ERR_NOMEM. `d` is empty then.
 */
int data_load_idx(struct data *d, const char *dir, struct ddp_error *err);

/*
 * 2,048 samples of 20 random numbers and one random target, all in [0,1).
 * There is nothing to learn but the mean; it shows the machinery. No test set.
 * Errors: DDP_ERR_NOMEM.
 */
int data_make_linear(struct data *d, uint64_t seed, struct ddp_error *err);

/*
 * 100,000 samples of y = a*x + noise with x and noise normal and a slope in
 * [1,10), all from the seed; 10,000 more of the same as the test set.
 * Errors: DDP_ERR_NOMEM.
 */
int data_make_regression(struct data *d, uint64_t seed, struct ddp_error *err);

void data_free(struct data *d);

/* Where a batch goes: the caller's arrays. */
struct data_batch {
    float *x;        /* (B,F) */
    uint8_t *labels; /* (B), filled where C > 0 */
    float *y;        /* (B,T), filled where T > 0 */
};

/* Gathers the samples index (B), each < N, into `out`. */
void data_gather(const struct dataset *d,
                 const uint32_t *index,
                 size_t B,
                 struct data_batch *out);

#endif
