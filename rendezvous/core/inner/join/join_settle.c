/*
 * Happy path: the node waits, or becomes a spare (join_place.c).
 *
 * Failure modes: it holds the round that was inherited, and fills a hole of it;
 * it holds another one, and is told to stop that. It gets here only once this
 * server is the leader, and it has been asked to obey it.
 */
#include "rendezvous/core/inner/join/join_settle.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/join_place.h"
#include "rendezvous/core/inner/join/inherit.h"
#include "rendezvous/core/inner/round/propose.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/inherited.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* -- a node that was not known --------------------------------------------- */

void join_settle(struct rdzv *r,
                 struct run *run,
                 struct node *n,
                 const struct msg_join *j)
{
    bool may_run = j->state != MSG_STATE_NONE && j->round > 0;
    bool member = may_run && inherit_is_hole(r, run, j);
    bool pending =
        run->authority.pending; /* else it is asked with the others */
    /* A spare may have been told of a round that never was in force. */
    bool knows = run->recovery.inherited && inherit_is_of_instance(run, j) &&
                 j->round <= run->round.number;
    if (knows && may_run)
        inherit_sums(r, run, j);
    strikes_believe(r, run, n, knows ? j->strikes : 0, j->cooldown_left_ms);
    /* A lease of the server before us, which ours may not reach in time. */
    if (may_run && j->state != MSG_STATE_READY)
        n->lease_until_us = mono_after(
            r->now_us, mono_min(j->lease_ms * MONO_MS, run->conf.heartbeat_us) +
                           run->conf.heartbeat_us);
    node_grant(r, n, n->beat_seq, n->beat_seq > 0 ? n->beat_heard : -1);
    if (member) {
        inherit_fill_hole(r, run, n, j);
    } else if (may_run) {
        note(r, NOTE_stale, run, n->name, "it holds round %lld",
             (long long)j->round);
        node_make_stale(r, n, j->round, "that round is over");
        propose_say_voters(r, run, n); /* it may have no vote any more */
    } else {
        if (!pending) /* where to go if this server is lost */
            propose_say_voters(r, run, n);
        join_place(r, run, n);
    }
    if (pending)
        propose_ask(r, run, n);
}

/* -- one that is back ------------------------------------------------------ */

/* What a member has to be told again of the round that runs. */
static void tell_running(struct rdzv *r,
                         struct run *run,
                         const struct node *n,
                         const struct msg_join *j)
{
    if (inherit_is_of_instance(run, j) && j->round == run->round.number &&
        j->group_rank >= 0)
        return;
    /* The server before us sealed an inherited round and told its members of
     * it: nothing is known of it here that could be told again. */
    if (run->recovery.inherited) {
        round_over(r, run, "a node came back without the workers of the round",
                   MSG_AT_ONCE);
    } else if (n->moved && n->group_rank == 0) {
        round_over(r, run,
                   "the first node has another address than the one at which "
                   "the others look for it",
                   MSG_AT_ONCE);
    } else {
        propose_say_voters(r, run, n);
        round_send_world(r, run, n);
    }
}

void join_tell_again(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_join *j)
{
    node_grant(r, n, n->beat_seq, n->beat_seq > 0 ? n->beat_heard : -1);
    if (n->drained && run->state != RUN_ENDED)
        reply_drain(r, n);
    switch (n->state) {
    case NODE_RUNNING:
        tell_running(r, run, n, j);
        return;
    case NODE_STOPPING:
        reply_stop(r, n, run->round.number, "the round is over",
                   run->round.graceful, phase_detect_us(r, run));
        return;
    case NODE_STALE:
        node_make_stale(r, n, j->round, "that round is over");
        propose_ask(r, run, n);
        return;
    case NODE_ENDING:
    case NODE_ENDED:
        run_send_end(r, run, n);
        return;
    case NODE_PENDING:
        propose_say(r, run, n);
        return;
    case NODE_WAITING:
    case NODE_SPARE:
    case NODE_QUARANTINED:
        propose_say_voters(r, run, n);
        round_send_waiting(r, run, n);
        round_try_seal(r, run);
        return;
    case NODE_LEAVING:
        if (run->round.graceful == MSG_AT_ONCE)
            reply_stop(r, n, run->round.number, "the round is over",
                       MSG_AT_ONCE, phase_detect_us(r, run));
        return;
    case NODE_DONE:
    case NODE_DRAINED:
        return; /* it says so again itself */
    case NODE_JOINING:
    case NODE_FREE:
    case NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}
