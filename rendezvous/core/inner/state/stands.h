/*
 * core/inner/state/stands: inside the rendezvous core: which nodes tell, by a
 * beat, that their workers stand still, and which node asks what the ranks of
 * all nodes do. Only passed on and shown: nothing that the server does depends
 * on it. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_STANDS_H
#define RENDEZVOUS_CORE_INNER_STATE_STANDS_H

#include "rendezvous/core/rdzv.h"

struct node;
struct run;

#define STANDS_TEXT_MAX 200 /* as messages.def has it */

struct run_stands {
    int64_t looks; /* so many times in this round a node began to ask */
    bool asked;    /* one asks now: the leases of the round's nodes say so */
    char node[65]; /* that told of ranks that stand still, "": none does ... */
    char text[STANDS_TEXT_MAX + 1]; /* ... what it told first ... */
    int64_t since_us;               /* ... and when */
};

/* A round is sealed: nothing is known of it. */
void stands_begin(struct run *run);

/* A beat of a node. */
void stands_beat(struct rdzv *r,
                 struct run *run,
                 struct node *n,
                 const struct msg_beat *b);

#endif
