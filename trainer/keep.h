/*
 * trainer/keep: saves and loads snapshots, and tells a person of it. What a
 * snapshot holds is in trainer/resume. libddp's keeper does the work, in the
 * background.
 */
#ifndef TRAINER_KEEP_H
#define TRAINER_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/progress.h"
#include "trainer/resume.h"

struct keep {
    struct resume resume; /* windows on all that a snapshot holds */
    struct progress *progress;
    struct ddp_keeper *keeper;
    /* On its way to the disk; step -1: nothing is. */
    struct {
        int64_t epoch;
        int64_t step;
    } ordered;
    bool unsaved;  /* the last attempt to save failed .. */
    int told_code; /* .. with this error, of which a line was printed */
    bool told_memory;
};

/* Whether the options want snapshots on the disk. */
bool keep_saves(const struct options *o);

/* Collective, with `resume` but for its keeper, and `progress`, filled in.
 * Errors: those of ddp_keeper_new. */
int keep_open(struct keep *k, struct ddp_comm *comm, struct ddp_error *err);
void keep_close(struct keep *k);

/*
 * Collective: goes on from the newest snapshot that any rank has, and tells
 * so. Errors: those of resume_load; NOINPUT is a fresh start.
 */
int keep_load(struct keep *k, struct train_place *at, struct ddp_error *err);

/*
 * Saves `next`, the place to go on from, in the background; call it on all
 * ranks, libddp knows which of them has anything to do. `epoch` is the one that
 * a person has just seen. A full disk is told and does not end the training,
 * since there may be room again at the next attempt.
 */
void keep_save(struct keep *k,
               const struct train_place *next,
               int64_t epoch,
               bool to_disk);

/* Between the gradients and their sum: what was saved after the step before has
 * been copied meanwhile. From here on it may be changed, and no rank gets more
 * than one step ahead of what is held. */
void keep_settle(struct keep *k);

/* After each step: tells what has reached the disk, and whether there is no
 * memory. */
void keep_tell(struct keep *k);

/* Waits until all that was ordered is on the disk, and tells so. */
void keep_finish(struct keep *k);

#endif
