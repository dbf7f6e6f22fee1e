/*
 * core/inner/state/strikes: inside the rendezvous core: --node_strikes. The end
 * of a round strikes the node whose workers are the root cause of a charged
 * failure; if there is none, the node of the slowest rank, if one is slow
 * (slow_ranks.h). After K strikes in a row the node is quarantined: it gets no
 * place while its cool-down runs, unless there would be fewer nodes than the
 * run needs. A strike of another node starts the count again. Nothing outside
 * rendezvous/core includes this.
 *
 * The server tells each node its count and its cool-down (world, waiting). The
 * node sends both with its joins, so that the next server knows them, too.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_STRIKES_H
#define RENDEZVOUS_CORE_INNER_STATE_STRIKES_H

#include "rendezvous/core/inner/state/node.h"

/* At most one node of a run has a streak. */
struct strikes {
    int max;                    /* K; 0: off */
    int64_t cooldown_us;        /* how long a node is quarantined */
    int count;                  /* strikes in a row ... */
    char agent[RNG_ID_LEN + 1]; /* ... of this node */
    int64_t check_us;           /* no cool-down ends before this */
};

void strikes_init(struct strikes *s, int max, int64_t cooldown_us);

/* Another instance of the run: nobody has anything against it. */
void strikes_forget(struct strikes *s);

/* How many strikes in a row this node has against it. */
int strikes_of(const struct run *run, const struct node *n);

/* The round is over: counts its strike. `failed`: a failure ended it and was
 * charged. One that is a consequence of a failure that nobody told of is no
 * node's. */
void strikes_charge(struct rdzv *r, struct run *run, bool failed);

/* The nodes of the next round gather, and none has workers: quarantines those
 * that are due. */
void strikes_quarantine(struct rdzv *r, struct run *run);

/* Takes quarantined nodes back, as many as it needs to have the fewest nodes.
 */
void strikes_recall(struct rdzv *r, struct run *run);

/* A node without workers that is to get a place. True: its cool-down runs, so
 * that it was quarantined instead. */
bool strikes_hold_back(struct rdzv *r, struct run *run, struct node *n);

/* What an unknown node tells of itself in its join; of its strikes in a row
 * only a server that took its run over knows less. */
void strikes_believe(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     int64_t count,
                     int64_t quarantined_ms);

/* A node whose cool-down is over, to be placed by the caller before the next
 * call; its count begins anew. NULL: there is none now. Ask until then. */
struct node *strikes_take_due(struct rdzv *r, struct run *run);

/* When there is one to place; MONO_NEVER: none. */
int64_t strikes_deadline(const struct run *run);

#endif
