/*
 * Happy path: a server is the leader, and the voters have told which round is
 * the newest one. It is taken up with all of its members as holes
 * (inherit_round); each that is here, or comes, fills its own. When all are
 * there ranks are reckoned anew, and nobody's workers were stopped.
 *
 * Failure modes: a member comes that stopped its workers: the round is over.
 * Some never come: their leases are waited for (inherited.c). One said
 * farewell: it is not waited for (inherit_close_hole).
 */
#include "rendezvous/core/inner/join/inherit.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_end.h"
#include "rendezvous/core/inner/round/inherited.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* When the instance that it tells of had its first round. */
static int64_t born_us(const struct rdzv *r, const struct msg_join *j)
{
    return r->now_us - j->instance_ms * MONO_MS;
}

bool inherit_is_of_instance(const struct run *run, const struct msg_join *j)
{
    bool is_spare = j->state == MSG_STATE_NONE;
    return (is_spare || msg_is_whole(j->instance)) &&
           msg_same_instance(j->instance, run->instance);
}

bool inherit_is_younger(const struct rdzv *r,
                        const struct run *run,
                        const struct msg_join *j)
{
    return born_us(r, j) >= run->born_us;
}

/* -- taking over ----------------------------------------------------------- */

void inherit_round(struct rdzv *r, struct run *run)
{
    const struct run_takeover *t = &run->takeover;
    msg_set(run->instance, t->instance);
    run->born_us = t->born_us;
    run->round.number = run->authority.round;
    run->round.confirmed = 0;
    run->recovery.heard_us = 0;
    run->round.group_world = t->group_world;
    run->recovery.inherited = true;
    run->recovery.holes = run->round.group_world;
    round_open_holes(r, run);
    round_begin(r, run);
    run->round.ran = true; /* as far as is known */
    budget_restore(&run->budget, t->restarts, 0, r->now_us, r->now_us);
    run->state = RUN_ACTIVE;
    note(r, NOTE_inherited, run, "", "%d node%s", run->round.group_world,
         run->round.group_world == 1 ? "" : "s");
}

void inherit_sums(struct rdzv *r, struct run *run, const struct msg_join *j)
{
    int64_t began_us = r->now_us - j->recent_ms * MONO_MS;
    int64_t next_us = mono_after(began_us, run->conf.scale_us);
    budget_restore(&run->budget, (int)j->restarts, (int)j->recent, began_us,
                   r->now_us);
    budget_restore_no_progress(&run->budget, (int)j->no_progress);
    if (next_us > run->scale_next_us)
        run->scale_next_us = next_us;
    phase_restore(r, run, j);
}

/* -- members come back ----------------------------------------------------- */

bool inherit_is_hole(const struct rdzv *r,
                     const struct run *run,
                     const struct msg_join *j)
{
    if (run->recovery.holes == 0 || !inherit_is_of_instance(run, j) ||
        j->round != run->round.number || j->group_rank < 0 ||
        j->group_rank >= run->round.group_world)
        return false;
    return !round_is_taken(r, run, (int)j->group_rank);
}

void inherit_fill_hole(struct rdzv *r,
                       struct run *run,
                       struct node *n,
                       const struct msg_join *j)
{
    n->group_rank = (int)j->group_rank;
    round_fill_hole(r, run, n->group_rank);
    run->round.sealed_us =
        mono_min(run->round.sealed_us, r->now_us - j->recent_ms * MONO_MS);
    note(r, NOTE_back, run, n->name, "%d more to come", run->recovery.holes);
    bool runs = j->state == MSG_STATE_RUNNING;
    bool done = j->state == MSG_STATE_DONE;
    if (run->state == RUN_ACTIVE && (runs || done)) {
        node_set_state(r, n, done ? NODE_DONE : NODE_RUNNING);
        round_try_done(r, run);
    } else {
        node_set_state(r, n, NODE_STOPPING);
        reply_stop(r, n, run->round.number, "the round is over", MSG_AT_ONCE,
                   0);
        round_over(r, run, "a node stopped its workers", MSG_AT_ONCE);
    }
    node_confirm(r, n, j->round);
    if (run->recovery.holes == 0)
        round_reckon(r, run); /* looks at all nodes */
    round_try_scale(r, run, "nodes wait to join");
}

void inherit_close_hole(struct rdzv *r,
                        struct run *run,
                        int group_rank,
                        bool done)
{
    if ((run->state != RUN_ACTIVE && run->state != RUN_DRAIN) ||
        run->recovery.holes == 0 || round_is_taken(r, run, group_rank))
        return;
    char why[100];
    round_fill_hole(r, run, group_rank);
    if (done && run->state == RUN_ACTIVE) {
        run->round.gone_done++;
        round_try_done(r, run);
        return;
    }
    note(r, NOTE_lost, run, "", "the node of group rank %d is dead",
         group_rank);
    round_blame_node(run);
    (void)snprintf(
        why, sizeof(why), /* fits */
        "the node of group rank %d was lost while the rendezvous was "
        "away",
        group_rank);
    round_over(r, run, why, MSG_AT_ONCE);
    round_try_drained(r, run);
}
