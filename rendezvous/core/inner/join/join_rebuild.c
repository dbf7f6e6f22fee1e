/*
 * Taking over from a server that is gone.
 *
 * Happy path: the first member that joins tells instance, round, size and its
 * group rank; the round is rebuilt from that with everyone else as a hole
 * (join_rebuild). Each further member fills its hole. When all are there ranks
 * are reckoned anew, and nobody's workers were stopped.
 *
 * Failure modes: a member comes that stopped its workers: the round is over.
 * One comes that knows a later round: that one is rebuilt instead
 * (join_is_news). Some never come: round_roll.c says when to go on without
 * them. Newcomers came first and began an instance of their own: it gives way
 * (yields). What a single node tells is never believed against nodes that are
 * here (join_outdates). A member said farewell: it is not waited for
 * (join_close_hole).
 */
#include "rendezvous/core/inner/join/join_rebuild.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_end.h"
#include "rendezvous/core/inner/round/round_roll.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* No run comes this far. A node that claims it would make us run out of
 * numbers, which end at 10^9 (messages.def). */
#define ROUND_BELIEVED_MAX 999000000
/* Before those that wait are told that too few members came. */
#define NOTICE_FIRST_US (3 * MONO_S)

/* When the instance that it tells of had its first round. */
static int64_t born_us(const struct rdzv *r, const struct msg_join *j)
{
    return r->now_us - j->instance_ms * MONO_MS;
}

bool join_is_of_instance(const struct run *run, const struct msg_join *j)
{
    bool is_spare = j->state == MSG_STATE_NONE;
    return (is_spare || msg_is_whole(j->instance)) &&
           msg_same_instance(j->instance, run->instance);
}

bool join_is_younger(const struct rdzv *r,
                     const struct run *run,
                     const struct msg_join *j)
{
    return born_us(r, j) >= run->born_us;
}

/*
 * Only another server can have sealed a later round than we did. That its lease
 * was never over proves less: a join may have been under way for long. As long
 * as others are here, one node's word is not enough, unless it is one of them.
 */
bool join_outdates(const struct run *run, const struct msg_join *j, bool known)
{
    bool later = j->round > run->round.number && j->round <= ROUND_BELIEVED_MAX;
    if (!later || j->ended || run->instance[0] == '\0' ||
        !join_is_of_instance(run, j))
        return false;
    if (run->state == RUN_ENDED)
        return run->end.lapsed;
    return known ||
           (run->head < 0 && !run->recovery.rebuilt); /* else it is news */
}

/*
 * A daemon without memory cannot know newcomers from members: if enough
 * newcomers come before the first member, they make another instance of the
 * run. That yields to the older one, whose workers may have run for days: to
 * the first member whose lease was never over, as long as such a lease may
 * still be out; what its own workers do matters not, since those of others may
 * run. The newcomers' workers are stopped, and they come into the older
 * instance as any newcomer does. The same holds if the younger one was taken
 * over from a daemon that was gone before a member came.
 */
static bool
yields(const struct rdzv *r, const struct run *run, const struct msg_join *j)
{
    return j->sure && !join_is_of_instance(run, j) &&
           !join_is_younger(r, run, j) &&
           r->now_us < mono_after(run->opened_us, round_foreign_lease_us(run));
}

bool join_began_beside(const struct rdzv *r,
                       const struct run *run,
                       const struct msg_join *j)
{
    return j->round > 0 && run->instance[0] != '\0' &&
           join_is_younger(r, run, j) && born_us(r, j) < run->end.at_us;
}

/* A spare knows the name alone; who says to be a member must know all of it. */
static bool names_instance(const struct msg_join *j)
{
    return msg_is_whole(j->instance) ||
           (j->state == MSG_STATE_NONE && j->instance[0] != '\0');
}

bool join_is_news(const struct rdzv *r,
                  const struct run *run,
                  const struct msg_join *j)
{
    if (j->round == 0 || j->round > ROUND_BELIEVED_MAX || !names_instance(j) ||
        j->group_world < run->conf.nodes_min ||
        j->group_world > run->conf.nodes_max)
        return false;
    if (run->instance[0] == '\0' || yields(r, run, j))
        return true;
    return run->recovery.rebuilt && j->round > run->round.number &&
           join_is_of_instance(run, j);
}

/* -- taking over ----------------------------------------------------------- */

/* Nodes of another round than that of the join are in no round now. */
static void
demote_all(struct rdzv *r, struct run *run, const struct msg_join *j)
{
    bool same = join_is_of_instance(run, j);
    const char *why = same ? "a later round is known"
                           : "an older round of this run still runs";
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        next = n->next;
        n->group_rank = -1;
        n->confirmed = n->knows_long = false;
        n->came_ready &= same;
        if (n->state == NODE_LEAVING && !n->drained) {
            node_remove(r, n);
        } else if (n->state == NODE_WAITING) {
            node_set_state(r, n, NODE_SPARE);
        } else if (node_in_round(n)) {
            node_make_stale(r, n, run->round.number, why);
        }
    }
}

/* What was charged, counted and waited for was another instance's. */
static void give_way(struct rdzv *r, struct run *run)
{
    budget_init(&run->budget, run->budget.max, run->budget.window_us,
                run->budget.crash_loop);
    strikes_forget(&run->strikes);
    run->scale_next_us = 0;
    phase_begin(r, run);
    if (run->round.number > run->recovery.passed)
        run->recovery.passed = run->round.number;
    run_leave_instance(run);
}

void join_rebuild(struct rdzv *r, struct run *run, const struct msg_join *j)
{
    bool anew = run->instance[0] != '\0' && !join_is_of_instance(run, j);
    demote_all(r, run, j);
    if (!run->recovery.rebuilt)
        run->recovery.rebuilt_at_us = r->now_us;
    if (anew)
        give_way(r, run);
    msg_set(run->instance, j->instance);
    run->born_us = born_us(r, j);
    run->round.number = j->round;
    run->recovery.rebuilt = true;
    run->recovery.was_over = run->recovery.long_out = false;
    run->recovery.anchor = ANCHOR_NONE;
    run->recovery.ready_members = run->recovery.joins = 0;
    run->recovery.heard_us = 0;
    run->round.confirmed = run->round.knowing = 0;
    run->round.group_world = (int)j->group_world;
    run->round.roll = j->roll;
    run->recovery.roll_at_us = MONO_NEVER;
    run->recovery.holes = (int)j->group_world;
    run->recovery.base = run->recovery.holes;
    run->recovery.notice_at_us = mono_after(r->now_us, NOTICE_FIRST_US);
    round_open_holes(r, run);
    round_begin(r, run);
    run->state = RUN_ACTIVE;
    note(r, NOTE_rebuilt, run, j->name, "%d node%s%s", run->round.group_world,
         run->round.group_world == 1 ? "" : "s",
         anew ? "; what newcomers began gives way" : "");
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_SPARE ||
            r->nodes[i].state == NODE_QUARANTINED)
            round_send_waiting(r, run, &r->nodes[i]);
}

void join_restore(struct rdzv *r, struct run *run, const struct msg_join *j)
{
    int64_t left_us = mono_min(j->scale_left_ms * MONO_MS, run->conf.scale_us);
    int64_t next_us = mono_after(r->now_us, left_us);
    budget_restore(&run->budget, (int)j->restarts, (int)j->recent,
                   r->now_us - j->recent_ms * MONO_MS);
    budget_restore_no_progress(&run->budget, (int)j->barren);
    if (next_us > run->scale_next_us)
        run->scale_next_us = next_us;
    phase_restore(r, run, j);
}

/* -- members come back ----------------------------------------------------- */

bool join_is_hole(const struct rdzv *r,
                  const struct run *run,
                  const struct msg_join *j)
{
    if (run->recovery.holes == 0 || !join_is_of_instance(run, j) ||
        j->round != run->round.number || j->group_rank < 0 ||
        j->group_rank >= run->round.group_world)
        return false;
    return !round_is_taken(r, run, (int)j->group_rank);
}

/*
 * Its lease was over, but the server that had granted it was dead before it
 * could give this node up. A join may have been under way for long: it was sent
 * after we had begun to listen.
 */
static bool was_not_given_up(const struct rdzv *r,
                             const struct run *run,
                             const struct msg_join *j)
{
    int64_t beat_us = r->opened_us - (j->granted_ms + 1) * MONO_MS;
    return r->before.server[0] != '\0' &&
           strcmp(j->server, r->before.server) == 0 &&
           r->before.acted_us < beat_us + run->conf.heartbeat_us;
}

static void take_anchor(struct run *run,
                        struct node *n,
                        const struct msg_join *j,
                        bool sure)
{
    enum anchor anchor =
        j->state == MSG_STATE_READY ? ANCHOR_READY : ANCHOR_HELD;
    if (sure && anchor > run->recovery.anchor)
        run->recovery.anchor = anchor;
    n->sure_ready = sure && anchor == ANCHOR_READY;
    run->recovery.ready_members += n->sure_ready;
}

/* A server before us knew that no other member can come. */
static void take_rest(struct run *run, const struct msg_join *j)
{
    if (j->over && j->rest > 0 && j->rest < run->recovery.base)
        run->recovery.base = (int)j->rest;
}

void join_fill_hole(struct rdzv *r,
                    struct run *run,
                    struct node *n,
                    const struct msg_join *j)
{
    bool was_ours = run_is_ours(run);
    bool sure = j->sure || (!run->failover && was_not_given_up(r, run, j));
    n->group_rank = (int)j->group_rank;
    msg_set(run->instance, j->instance); /* perhaps a spare told of it first */
    round_fill_hole(r, run, n->group_rank);
    run->round.sealed_us =
        mono_min(run->round.sealed_us, r->now_us - j->recent_ms * MONO_MS);
    take_anchor(run, n, j, sure);
    take_rest(run, j);
    run->recovery.was_over |= j->over != 0;
    run->recovery.long_out |= j->long_out != 0;
    if (!run->failover && j->joins > run->recovery.joins)
        run->recovery.joins = (int)j->joins;
    round_call_roll(r, run);
    note(r, NOTE_back, run, n->name, "%d more to come", run->recovery.holes);
    bool runs = j->sure && j->state == MSG_STATE_RUNNING;
    bool done = sure && j->state == MSG_STATE_DONE;
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
    if (!was_ours && run_is_ours(run))
        round_take_over(r, run);
    round_try_scale(r, run, "nodes wait to join");
}

void join_close_hole(struct rdzv *r, struct run *run, int group_rank)
{
    if ((run->state != RUN_ACTIVE && run->state != RUN_DRAIN) ||
        run->recovery.holes == 0 || round_is_taken(r, run, group_rank))
        return;
    char why[100];
    round_fill_hole(r, run, group_rank);
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
