/*
 * worker_rt/own_part: how long this rank's own part of a step takes: the step
 * without the time that the rank spent in libddp's collectives, where it waits
 * for the others. The rank that waits least has the longest part, and is the
 * one that the others wait for.
 *
 * A step is what lies between two calls of ddp_beat with different numbers; a
 * save of a keeper is such a call, too. Each thread counts for itself: of a
 * thread that beats and another one that waits, no part is told apart. What a
 * rank waits for elsewhere (on a GPU, in another library's collectives) counts
 * as its own, and is then the same on all ranks.
 */
#ifndef WORKER_RT_OWN_PART_H
#define WORKER_RT_OWN_PART_H

#include <stdbool.h>
#include <stdint.h>

#define OWN_PART_STEPS 20 /* of the mean */
#define OWN_PART_KEPT  64 /* for the noise */

/* All 0: no step has begun. */
struct own_part {
    int64_t step;                /* that was told last .. */
    int64_t began_us, waited_us; /* .. then; 0: none was */
    int64_t parts_us[OWN_PART_KEPT];
    int64_t n; /* steps that were measured */
};

/* This thread's. */
struct own_part *own_part_here(void);

/* The thread waited for other ranks so long. */
static inline void own_part_wait(struct own_part *o, int64_t us)
{
    o->waited_us += us;
}

/* A number of a step is told now. The same one again says nothing; a lower one
 * begins anew. */
void own_part_step(struct own_part *o, int64_t step, int64_t now_us);

/*
 * What is usual of the last OWN_PART_STEPS steps: the mean without the four
 * shortest and the four longest parts, so that a checkpoint now and then is
 * none of it. And the noise of one step: from by how much each of the last
 * OWN_PART_KEPT steps differs from the one before, which one change of the
 * pace does not change. False: too few steps were measured.
 */
bool own_part_usual(const struct own_part *o,
                    int64_t *mean_us,
                    int64_t *noise_us);

#endif
