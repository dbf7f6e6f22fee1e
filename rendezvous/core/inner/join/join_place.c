/*
 * Where a node goes that the run has taken in, the first case that holds:
 *
 *     it was drained              it only waits to be told so
 *     its cool-down runs          QUARANTINED, unless too few are there
 *     a round runs                SPARE; the round grows by it, now or when
 *                                 --scale_interval is over, or it waits for a
 *                                 place
 *     a round is being gathered   WAITING, and perhaps the last one needed
 *     a round is being stopped    WAITING for the next one
 */
#include "rendezvous/core/inner/join/join_place.h"

#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/inherited.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/*
 * A round runs without it. If it can grow, the newcomer makes it larger, at
 * once or with those that come in the same --scale_interval: it is a spare
 * until then, and takes a lost node's place as one.
 */
static void join_running(struct rdzv *r, struct run *run, struct node *n)
{
    char why[128];
    bool grows = run_can_grow(run);
    node_set_state(r, n, NODE_SPARE);
    if (!grows)
        note(r, NOTE_spare, run, n->name, "the round is full");
    else if (r->now_us < run->scale_next_us)
        note(r, NOTE_spare, run, n->name, "the round grows in %lld ms",
             (long long)mono_ms_until(r->now_us, run->scale_next_us));
    else
        note(r, NOTE_joined, run, n->name, "nproc %d, %d of %d..%d", n->nproc,
             run->round.group_world + run->count[NODE_SPARE],
             run->conf.nodes_min, run->conf.nodes_max);
    if (!grows || r->now_us < run->scale_next_us)
        round_send_waiting(r, run, n);
    (void)snprintf(why, sizeof(why), "node %s joins", n->name);
    round_try_scale(r, run, why);
}

void join_place(struct rdzv *r, struct run *run, struct node *n)
{
    n->group_rank = -1;
    if (n->drained) {
        node_set_state(r, n, NODE_DRAINED);
        return;
    }
    if (strikes_hold_back(r, run, n)) {
        round_send_waiting(r, run, n);
        round_try_seal(r, run); /* it may be needed */
        return;
    }
    if (run->state == RUN_ACTIVE) {
        join_running(r, run, n);
        return;
    }
    if (run->state == RUN_PENDING) { /* it is told more when that is sealed */
        node_set_state(r, n, NODE_SPARE);
        note(r, NOTE_spare, run, n->name, "a round is about to be sealed");
        return;
    }
    node_set_state(r, n, NODE_WAITING);
    note(r, NOTE_joined, run, n->name, "nproc %d, %d of %d..%d", n->nproc,
         run->count[NODE_WAITING], run->conf.nodes_min, run->conf.nodes_max);
    if (run->state == RUN_GATHER)
        round_send_waiting(r, run, n);
    round_try_seal(r, run);
}
