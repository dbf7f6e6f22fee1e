/*
 * Joining: what a node that comes is given. Which nodes are refused is in
 * join_check.c. A node that the server knows is told again what it must know;
 * one that it does not know may hold a round of a server that is no more, which
 * is then rebuilt (join_rebuild.c).
 */
#include "rendezvous/core/inner/join.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/capacity.h"
#include "rendezvous/core/inner/join_check.h"
#include "rendezvous/core/inner/join_place.h"
#include "rendezvous/core/inner/join_rebuild.h"
#include "rendezvous/core/inner/rdzv_priv.h"
#include "rendezvous/core/inner/reply.h"
#include "rendezvous/core/inner/round.h"
#include "rendezvous/core/inner/round_roll.h"
#include "rendezvous/core/inner/round_seal.h"
#include "rendezvous/core/inner/round_tell.h"
#include "rendezvous/core/inner/run.h"
#include "rendezvous/core/inner/strikes.h"

/* What a member has to be told again of the round that runs. */
static void rejoin_running(struct rdzv *r,
                           struct run *run,
                           const struct node *n,
                           const struct msg_join *j,
                           bool moved)
{
    if (join_is_of_instance(run, j) && j->round == run->round.number &&
        j->group_rank >= 0)
        return;
    /* The server before us sealed a rebuilt round and told its members of it:
     * nothing is known of it here that could be told again. */
    if (run->recovery.rebuilt)
        round_over(r, run, "a node came back without the workers of the round",
                   MSG_AT_ONCE);
    else if (moved && n->group_rank == 0)
        round_over(r, run,
                   "the first node has another address than the one at which "
                   "the others look for it",
                   MSG_AT_ONCE);
    else
        round_send_world(r, run, n);
}

/* A node that the server knows, on a new connection: the server's answer was
 * perhaps lost with the old one, so it says again what the node must know. */
static void rejoin(struct rdzv *r, struct node *n, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct run *run = &r->runs[n->run];
    bool moved = node_set_address(n, ev);
    if (n->conn >= 0) {
        int old = n->conn;
        node_unbind(r, n);
        reply_drop(r, old);
    }
    node_bind(r, n, ev->conn);
    n->short_seq = -1; /* they count from 0 on each connection */
    note(r, NOTE_back, run, n->name, "%s", "");
    node_grant(r, n, 0, -1);
    if (n->drained && run->state != RUN_ENDED)
        reply_drain(r, n);
    switch (n->state) {
    case NODE_RUNNING:
        rejoin_running(r, run, n, j, moved);
        return;
    case NODE_STOPPING:
        reply_stop(r, n, run->round.number, "the round is over",
                   run->round.graceful);
        return;
    case NODE_STALE:
        node_make_stale(r, n, j->round, "that round is over");
        return;
    case NODE_ENDING:
    case NODE_ENDED:
        run_send_end(r, run, n);
        return;
    case NODE_WAITING:
    case NODE_SPARE:
    case NODE_QUARANTINED:
        round_send_waiting(r, run, n);
        round_try_seal(r, run);
        return;
    case NODE_LEAVING:
        if (run->round.graceful == MSG_AT_ONCE)
            reply_stop(r, n, run->round.number, "the round is over",
                       MSG_AT_ONCE);
        return;
    case NODE_DONE:
    case NODE_DRAINED:
        return; /* it says so again itself */
    case NODE_FREE:
    case NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}

/* A node that the server does not know. It may hold a round all the same. */
static void
join_new(struct rdzv *r, struct run *run, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct node *n = node_new(r, run, ev);
    round_forget_refusal(run, j->name);
    bool may_run = j->state != MSG_STATE_NONE && j->round > 0;
    bool member = may_run && join_is_hole(r, run, j);
    bool knows = run->recovery.rebuilt && join_is_of_instance(run, j);
    if (knows)
        join_restore(r, run, j);
    n->came_ready = knows && j->state == MSG_STATE_READY;
    strikes_believe(r, run, n, knows ? j->struck : 0, j->aside_ms);
    /* A lease of the server before us, which ours may not reach in time. It
     * granted none that is longer. */
    if (may_run)
        n->lease_until_us =
            mono_after(r->now_us, mono_min(j->lease_ms * MONO_MS,
                                           round_foreign_lease_us(run)) +
                                      run->conf.heartbeat_us);
    node_grant(r, n, 0, -1);
    if (member) {
        join_fill_hole(r, run, n, j);
    } else if (may_run) {
        note(r, NOTE_stale, run, n->name, "it holds round %lld",
             (long long)j->round);
        node_make_stale(r, n, j->round, "that round is over");
    } else {
        join_place(r, run, n);
    }
}

/* -- the run it comes into ------------------------------------------------- */

/* In a slot that is free. */
static struct run *run_open(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct run *run = capacity_free_run(r);
    ddp_assert(run != NULL);
    *run = (struct run){
        .state = RUN_GATHER,
        .conf = {.nodes_min = (int)j->nodes_min,
                 .nodes_max = (int)j->nodes_max,
                 .join_us = j->join_ms * MONO_MS,
                 .last_call_us = j->last_call_ms * MONO_MS,
                 .heartbeat_us = j->heartbeat_ms * MONO_MS,
                 .reconnect_us = j->reconnect_ms * MONO_MS,
                 .scale_us = j->scale_ms * MONO_MS},
        .opened_us = r->now_us,
        .source = quota_take(r->run_sources, ev->peer_addr),
        .recovery = {.roll_at_us = MONO_NEVER},
        .head = -1,
        .tail = -1,
    };
    budget_init(&run->budget, (int)j->max_restarts, j->window_ms * MONO_MS,
                (int)j->crash_loop);
    strikes_init(&run->strikes, (int)j->node_strikes, j->cooldown_ms * MONO_MS);
    msg_set(run->id, j->run);
    msg_set(run->conf.prog, j->prog);
    msg_set(run->conf.backend, j->backend);
    note(r, NOTE_new_run, run, "", "nodes %d..%d, restarts %d, program %s",
         run->conf.nodes_min, run->conf.nodes_max, run->budget.max,
         run->conf.prog);
    round_gather(r, run);
    return run;
}

/* The run that an unknown node may come into, or NULL: it was refused. */
static struct run *run_for(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    int conn = ev->conn;
    struct run *run = run_find(r, j->run);
    if (run != NULL && j->round == 0 && run_is_abandoned(run)) {
        run_forget(r, run); /* a fresh start is a new instance */
        run = NULL;
    }
    if (run != NULL && !join_agrees(r, run, j, conn))
        return NULL;
    if (run != NULL && j->state != MSG_STATE_NONE && j->round > 0 &&
        run->instance[0] != '\0' && !join_is_of_instance(run, j) &&
        !join_is_younger(r, run, j) && !join_is_news(r, run, j)) {
        join_refuse(r, conn, j, DDP_E_CONFLICT,
                    "run '%s' was started again while this node was absent: "
                    "start ddprun on this node again",
                    run->id);
        return NULL;
    }
    if (!join_is_within_share(r, run, ev))
        return NULL;
    bool is_member = j->round > 0 && j->group_rank >= 0 &&
                     j->state != MSG_STATE_NONE && j->instance[0] != '\0';
    if (!capacity_make(r, run, ev->peer_addr, is_member)) {
        char limits[CAPACITY_TEXT_MAX];
        capacity_text(r, limits);
        join_refuse(r, conn, j, DDP_E_NOMEM,
                    "this rendezvous is full (%s): wait until a run ends, or "
                    "start ddprdzvd with higher limits",
                    limits);
        return NULL;
    }
    return run != NULL ? run : run_open(r, ev);
}

/* -- ends ------------------------------------------------------------------ */

/* The ended run whose result a straggler must get, also one of an instance that
 * gave way to it, or would have; others of the same id may have started and
 * ended since. */
static const struct run *run_find_ended(const struct rdzv *r,
                                        const struct msg_join *j)
{
    const struct run *beside = NULL;
    if (j->instance[0] == '\0')
        return NULL;
    const struct run *live = run_find(r, j->run);
    bool lives = live != NULL && run_had_instance(live, j->instance);
    for (int i = 0; i < r->limits.runs_max; i++) {
        const struct run *run = &r->runs[i];
        if (run->state == RUN_FREE || run->state != RUN_ENDED ||
            strcmp(run->id, j->run) != 0)
            continue;
        if (run_had_instance(run, j->instance))
            return run;
        if (!lives && join_began_beside(r, run, j))
            beside = run;
    }
    return beside;
}

/* A run that ended elsewhere, to be kept for those that come; NULL: the
 * table is full. Nothing gives way for it: such an end may be made up. */
static struct run *run_of_stragglers(struct rdzv *r, const struct msg_join *j)
{
    struct run *run = capacity_free_run(r);
    if (run == NULL)
        return NULL;
    *run = (struct run){.state = RUN_GATHER,
                        .born_us = MONO_NEVER,
                        .opened_us = r->now_us,
                        .source = -1,
                        .head = -1,
                        .tail = -1};
    msg_set(run->id, j->run);
    msg_set(run->instance, j->instance);
    run->round.number = j->round;
    return run;
}

/*
 * A server before us said the end to this node, and was gone before all knew:
 * that end holds. What others of its instance may be here, or come, are told.
 */
static void join_of_ended(struct rdzv *r, const struct msg_join *j, int conn)
{
    struct run *run = run_find(r, j->run);
    struct msg m = {.kind = MSG_KIND_end};
    m.end = (struct msg_end){.status = j->end_status,
                             .round = j->round,
                             .restarts = j->restarts,
                             .rank = -1,
                             .local_rank = -1};
    msg_set(m.end.instance, j->instance);
    if (j->end_status != 0)
        msg_set(m.end.text, "the run ended before the rendezvous was "
                            "restarted; the reports of other nodes say why");
    if (j->instance[0] != '\0' &&
        (run == NULL || strcmp(run->instance, j->instance) != 0))
        run = run_of_stragglers(r, j);
    if (j->instance[0] != '\0' && run != NULL)
        run_end(r, run, &m.end);
    reply_send(r, conn, &m);
    reply_drop(r, conn);
}

/* It is as if this server had been started anew: nodes that are here come
 * again, and tell what they hold. True where `known` is no more. */
static bool forget_outdated(struct rdzv *r,
                            const struct msg_join *j,
                            const struct node *known)
{
    bool forgot = false;
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        bool is_here = known != NULL && known->run == i;
        if (run->state == RUN_FREE || strcmp(run->id, j->run) != 0 ||
            !join_outdates(run, j, is_here))
            continue;
        note(r, NOTE_outdated, run, j->name,
             "it holds round %lld, which another server has sealed",
             (long long)j->round);
        run_forget(r, run);
        forgot |= is_here;
    }
    return forgot;
}

/* -- all joins ------------------------------------------------------------- */

void join_step(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    if (!join_is_sound(r, j, ev->conn))
        return;
    struct node *known = node_find(r, j->run, j->agent);
    if (forget_outdated(r, j, known))
        known = NULL;
    if (known != NULL) {
        rejoin(r, known, ev);
        return;
    }
    const struct run *ended = run_find_ended(r, j);
    if (ended != NULL) {
        struct msg m = {.kind = MSG_KIND_end, .end = ended->end.msg};
        reply_send(r, ev->conn, &m);
        reply_drop(r, ev->conn);
        return;
    }
    if (j->ended) {
        join_of_ended(r, j, ev->conn);
        return;
    }
    struct run *run = run_for(r, ev);
    if (run == NULL)
        return;
    if (join_is_news(r, run, j))
        join_rebuild(r, run, j);
    join_new(r, run, ev);
}
