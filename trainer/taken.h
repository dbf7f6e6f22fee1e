/*
 * trainer/taken: which samples each step takes, as this rank's lines of
 * FILE.RANK:
 *
 *     ROUND EPOCH STEP SAMPLE...
 *
 * A line is written before the step's gradients are added up, so every step
 * that counts has the lines of all ranks. If a later round takes a step again,
 * its lines count instead. Each line is one write, so a worker that is killed
 * leaves no half of one.
 */
#ifndef TRAINER_TAKEN_H
#define TRAINER_TAKEN_H

#include <stddef.h>
#include <stdint.h>

#include "worker_rt/ddp.h"

struct taken {
    int fd;     /* -1: --samples_taken is not given */
    char *line; /* owned */
    size_t room;
    const char *file; /* borrowed; without .RANK */
    int rank;
    int64_t round;
};

/* Opens FILE.RANK to append lines of at most `max` samples. Errors: IO, NOMEM;
 * `t` is empty then. */
int taken_open(struct taken *t,
               const char *file,
               int rank,
               int64_t round,
               size_t max,
               struct ddp_error *err);
void taken_free(struct taken *t);

/* Before a step on `n` samples. IO: the last line may be a part. */
int taken_add(struct taken *t,
              int64_t epoch,
              int64_t step,
              const uint32_t *samples,
              size_t n,
              struct ddp_error *err);

#endif
