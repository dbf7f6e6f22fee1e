/*
 * trainer/resume: where training stands, to a snapshot and back. A snapshot
 * holds everything that the next step depends on, so a run that was killed and
 * resumed ends with the same parameters, bit by bit, as one that was not.
 */
#ifndef TRAINER_RESUME_H
#define TRAINER_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/model.h"
#include "trainer/ops/optim.h"
#include "trainer/options.h"
#include "worker_rt/ddp.h"

/* With parameters and the optimizer's state, all that a snapshot holds. The
 * same on all ranks after each step. */
struct train_place {
    int64_t epoch;    /* from 0; being trained, or next */
    int64_t position; /* samples of this epoch that all ranks have taken */
    int64_t step;     /* steps since the beginning of training */
    double loss;      /* summed over the epoch's samples so far */
    int64_t correct;  /* of them */
    int64_t seen;     /* how many they are */
};

/* What is saved, and loaded into; all borrowed. */
struct resume {
    struct ddp *ddp;
    struct ddp_keeper *keeper;
    const struct options *o;
    struct model *model;
    struct optim *optim;
    int64_t samples; /* in the training set */
};

/* On every rank. Errors: those of ddp_keeper_save. */
int resume_save(const struct resume *r,
                const struct train_place *next,
                bool to_disk,
                struct ddp_error *err);

/* What was found. */
struct resume_found {
    struct ddp_kept kept;
    int64_t world;      /* the number of ranks that wrote it .. */
    int64_t batch_size; /* .. with such batches */
};

/*
 * Fills parameters, the optimizer's state, `at` and `found`. Collective; what
 * is wrong with a snapshot all ranks find alike. Errors: NOINPUT (there is
 * none: a fresh start, and nothing was touched); CORRUPT and IO as of
 * ddp_keeper_load; CONFLICT (it is of another run or model, which this one
 * would not continue but ruin). The text says what to do about it.
 */
int resume_load(const struct resume *r,
                struct train_place *at,
                struct resume_found *found,
                struct ddp_error *err);

#endif
