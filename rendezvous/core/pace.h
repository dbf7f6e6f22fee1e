/*
 * core/pace: how fast one node goes on, from what its beats tell of its
 * workers' progress files. Pure.
 */
#ifndef RENDEZVOUS_CORE_PACE_H
#define RENDEZVOUS_CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* All 0: nothing was told. */
struct pace {
    int64_t steps; /* the least number in its workers' files plus 1; 0: none */
    int64_t ahead; /* the greatest one is so much more */
    int slow;      /* the local rank of the least one */
    int64_t at_us; /* when that was told last ... */
    int64_t moved_us; /* ... and first */
    /* What was told before: the newer one in the last five seconds in which the
     * steps moved, the older one five seconds or more before that. Workers that
     * tell their step when they save do so seldom. */
    struct pace_mark {
        int64_t steps, at_us;
    } newer, older, before; /* `before`: by the beat before the last */
    bool anew; /* the steps were fewer once than before: they do not tell how
                  far the workers are */
};

/* A beat tells this now. `steps` 0: nothing is known, and nothing changes. */
void pace_take(
    struct pace *p, int64_t steps, int64_t ahead, int slow, int64_t now_us);

/* From the older mark to when the steps moved last, in millionths of a step a
 * second. 0: not known, or it stands still: for ten seconds, and for half as
 * long again as that time. */
int64_t pace_micro(const struct pace *p);

/* The steps that were told by then, if not the last ones then older ones; 0:
 * none is known. */
int64_t pace_steps_by(const struct pace *p, int64_t at_us);

#endif
