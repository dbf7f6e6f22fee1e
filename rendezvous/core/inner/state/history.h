/*
 * core/inner/state/history: inside the rendezvous core: what a run's time went
 * to (goodput), its last rounds (timeline), and its steps. Only to be shown:
 * nothing that the server does depends on it. Nothing outside rendezvous/core
 * includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_HISTORY_H
#define RENDEZVOUS_CORE_INNER_STATE_HISTORY_H

#include "rendezvous/core/goodput.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/core/timeline.h"

struct node;
struct run;

/* In each run; its timeline is struct rdzv's. */
struct run_history {
    struct goodput goodput;
    struct goodput_parts spent; /* what the timeline has been given of that */
    int64_t ran_round; /* the last round of which all ranks ran; 0: none did */
    int64_t heard_us;  /* after a take-over: the last answer of the server
                          before us that a member tells of */
    /* Steps: the least one of the last round that told any, plus 1, and the
     * pace then; and the round that was compared with that. */
    int64_t steps, micro;
    int64_t compared_round;
};

/* A run was opened in this slot. */
void history_begin(struct rdzv *r, struct run *run);

/* Whatever may have changed of the run has: after each step, and before what
 * the end of a round forgets. */
void history_look(struct rdzv *r, struct run *run);

/* Its round is over, and all that its nodes told is still there. */
void history_round_over(struct rdzv *r, struct run *run);

/* Why it is, for people; what is told later counts. */
void history_why(struct rdzv *r, struct run *run, const char *why);

/* A node of the round is lost whose last sign of life was then. */
void history_lost(struct run *run, const struct node *n);

/* How long it is since the first sign that not all went well in its round, if a
 * worker failed or a node is lost; 0: none did, or its ranks never all ran. */
int64_t history_detect_us(const struct rdzv *r, const struct run *run);

/* The i-th round of its timeline, as it is now. */
struct timeline_round history_round(const struct rdzv *r,
                                    const struct run *run,
                                    int i,
                                    int64_t now_us);

/* A beat of a node. */
void history_beat(const struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_beat *b);

/* Two names of nodes, and the rest. */
#define HISTORY_APART_MAX 384

/* For people: which nodes of the round cannot have been at one step, as far as
 * their beats tell; "": none. */
void history_apart(const struct rdzv *r,
                   const struct run *run,
                   char text[HISTORY_APART_MAX]);

/* What an earlier server counted, as a member of the run tells it. */
void history_restore(const struct rdzv *r,
                     struct run *run,
                     const struct msg_join *j);

/* The same, for the server after us: msg_world.spent. */
void history_tell(const struct rdzv *r,
                  const struct run *run,
                  char text[GOODPUT_TEXT_MAX + 1]);

#endif
