/*
 * account/timeline: the last rounds of a run: what each was, why it ended, and
 * what that cost. Pure, and of a fixed size.
 */
#ifndef RENDEZVOUS_ACCOUNT_TIMELINE_H
#define RENDEZVOUS_ACCOUNT_TIMELINE_H

#include "rendezvous/account/goodput.h"
#include "rendezvous/core/note.h"

#define TIMELINE_ROUNDS   64
#define TIMELINE_TEXT_MAX 160

struct timeline_round {
    int64_t number, term;
    int64_t sealed_us;
    int nodes, world_size; /* world_size 0: not known */
    enum round_end end;
    char text[TIMELINE_TEXT_MAX + 1]; /* why it ended; "": not known */
    struct goodput_parts cost; /* ran and detect while it was the last one;
                                  waited and restart since it has ended, up to
                                  the end of the next one */
};

struct timeline {
    int64_t known; /* ever; the newest one stands at (known - 1) % ROUNDS */
    struct timeline_round rounds[TIMELINE_ROUNDS];
};

const char *timeline_word(enum round_end end); /* "failed" */

/* Another round has begun. The caller fills it; all else is 0. */
struct timeline_round *timeline_add(struct timeline *t, int64_t number);

/* NULL if there is none. */
struct timeline_round *timeline_last(struct timeline *t);

/* Asserts that all but the last one have ended. */
void timeline_check(const struct timeline *t);

/* How many there are; and one of them, 0 is the oldest. */
int timeline_len(const struct timeline *t);
const struct timeline_round *timeline_at(const struct timeline *t, int i);

/* Time that has passed: ran and detect of it are the last round's, waited and
 * restart the last one's that has ended. What was before the first round is
 * nobody's. The first only adds the i-th round's share of it to `cost`. */
void timeline_share(const struct timeline *t,
                    int i,
                    const struct goodput_parts *more,
                    struct goodput_parts *cost);
void timeline_spend(struct timeline *t, const struct goodput_parts *more);

/* No round has run: what counted as ran or detect was a restart, for which the
 * round before pays. */
void timeline_start_over(struct timeline *t);

#endif
