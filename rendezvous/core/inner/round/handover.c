/*
 * Happy path: our launcher says `ready` behind its `leave` and is removed; the
 * other nodes are ready; a round is proposed and comes in force; its voters,
 * asked for their promise once more, answer, so that they know; `go` tells our
 * launcher, and it ends, and this server with it. The others run the new round,
 * in which it has no place, and take the run over.
 *
 * Failure modes: the others stop their workers for long: the launcher waits for
 * `go` a second at most. No round can be proposed, such as if too few nodes are
 * left: `go` of the round before. The run never had a round: the connection
 * is closed instead.
 */
#include "rendezvous/core/inner/round/handover.h"

#include "rendezvous/core/inner/round/propose.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/state/run.h"

bool handover_is_ours(const struct rdzv *r, const struct node *n)
{
    return r->limits.embedded && n->hosts && n->local;
}

void handover_begin(struct rdzv *r, struct node *n)
{
    if (n->conn < 0 || r->handover.conn >= 0 || !handover_is_ours(r, n))
        return;
    r->handover.conn = n->conn;
    r->handover.run = n->run;
    r->handover.left_round = r->runs[n->run].round.number;
    r->handover.asked_round = 0;
    node_unbind(r, n);
}

bool handover_is_at(const struct rdzv *r, int conn)
{
    return r->handover.conn == conn;
}

void handover_closed(struct rdzv *r)
{
    r->handover.conn = r->handover.run = -1;
}

/* Who hears this has heard before that the round is in force, and its answer
 * says so. */
static void ask_voters(struct rdzv *r, const struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (authority_vote(&run->authority, r->nodes[i].agent) != NULL)
            node_ask(r, &r->nodes[i]);
}

/* All voters of the round that began since know that it is in force. */
static bool is_known(struct rdzv *r, const struct run *run)
{
    if (run->round.number == r->handover.left_round)
        return true;
    if (run->round.number != r->handover.asked_round) {
        r->handover.asked_round = run->round.number;
        ask_voters(r, run);
    }
    struct authority_tally tally =
        authority_tally(&run->authority, run->round.sealed_us);
    return tally.answered + tally.dead == tally.voters;
}

/* The next server would be in doubt of it. */
static bool is_under_way(struct rdzv *r, const struct run *run)
{
    return run->state == RUN_DRAIN || run->state == RUN_PENDING ||
           run->authority.pending ||
           (run->state == RUN_ACTIVE && !is_known(r, run));
}

void handover_look(struct rdzv *r, struct run *run)
{
    int conn = r->handover.conn;
    if (r->handover.run != run_index(r, run) || is_under_way(r, run))
        return;
    r->handover.run = -1;
    if (run->state != RUN_FREE && run->authority.round > 0) {
        propose_say_go(r, run, conn);
        return;
    }
    handover_closed(r);
    reply_drop(r, conn);
}
