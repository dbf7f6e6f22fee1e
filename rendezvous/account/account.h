/*
 * account/account: what the time of a run went to (goodput) and its last rounds
 * (timeline), counted from what happened: one definition for all who tell it.
 * A server feeds it the notes of its core as they come; `ddpctl report` makes
 * the same notes of --events files. Pure, and of a fixed size.
 *
 * A round runs from its first new step on: one that no worker has told before.
 * A program whose workers tell no steps runs as soon as all of them have been
 * started, so that its own start counts as ran; account_knows_start says which
 * it is. It is known with the first step that is told: what had counted as ran
 * until then, in all rounds, was the start.
 *
 * The sums up to a round go with it from server to server, as a text
 * (goodput_print). An account that is told the sums goes on from these and
 * drops its own: a server that was cut off meanwhile knows less.
 */
#ifndef RENDEZVOUS_ACCOUNT_ACCOUNT_H
#define RENDEZVOUS_ACCOUNT_ACCOUNT_H

#include "rendezvous/account/goodput.h"
#include "rendezvous/account/timeline.h"
#include "rendezvous/core/note.h"

/* All 0: nothing is known. */
struct account {
    enum run_phase phase; /* as it was noted last */
    struct goodput goodput;
    struct goodput_parts given; /* of it, to the timeline */
    struct timeline timeline;

    /* The sums up to `round`: their parts, the time of the sums, whether
     * another server told the sums, and what is behind `started_us`. */
    int64_t round;
    struct goodput_parts before;
    int64_t before_us, started_us;
    bool told, news;                     /* news: the text has changed */
    int64_t told_steps, told_started_us; /* as that server told them */
    int64_t ran_round; /* the last one that ran; 0: none did */

    int64_t reached;   /* the most steps that were told, plus 1; 0: none were */
    int64_t new_round; /* the last round with a new step */
    int64_t again_us;  /* since when old ones are done again; 0: none are */
};

/* What the note tells of a run. Notes of other kinds change nothing. Fills the
 * note's `sums`, if it has any, when these have changed. */
void account_take(struct account *a, const struct note *n);

struct goodput_parts account_goodput(const struct account *a, int64_t now_us);

/* Whether the program's own start is known, and counts as restart. */
bool account_knows_start(const struct account *a);

/* The i-th round of its timeline, as it is now. */
struct timeline_round
account_round(const struct account *a, int i, int64_t now_us);

/* Asserts what always holds. */
void account_check(const struct account *a, int64_t now_us);

#endif
