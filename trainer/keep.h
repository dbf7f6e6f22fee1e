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
    struct resume resume; /* windows on all that a snapshot holds; the keeper */
    struct progress *progress;
    /* On its way to the disk; step -1: nothing is. */
    struct {
        int64_t epoch;
        int64_t step;
    } ordered;
    int told_code; /* of the failure of which a line was printed; 0: of none */
    bool unsaved;  /* after keep_finish: the last save failed on some rank */
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
 * Collective. Saves `next`, the place to go on from, in the background. `epoch`
 * is the one that a person has just seen. A full disk is told and does not end
 * the training, since there may be room again at the next attempt. Errors end
 * it: CORRUPT (this rank has wrong bits), PEER (another one has, or died).
 */
int keep_save(struct keep *k,
              const struct train_place *next,
              int64_t epoch,
              bool to_disk,
              struct ddp_error *err);

/* Whether this rank has not written its part of what was ordered last. */
bool keep_writes(const struct keep *k);

/* After each step: tells what has reached the disk, if all ranks have written
 * their parts, and whether there is no memory. */
void keep_tell(struct keep *k, bool all_wrote);

/* Collective. Waits until all that was ordered is on the disk, and tells so. */
void keep_finish(struct keep *k, struct ddp_comm *comm);

#endif
