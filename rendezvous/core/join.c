/*
 * Joining: who may come in, and what a node that comes is given. A node that
 * the server knows is told again what it must know; one that it does not know
 * may hold a round of a server that is no more, which is then rebuilt.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/round.h"

/* -- runs ----------------------------------------------------------------- */

struct run *run_find(const struct rdzv *r, const char *id)
{
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (run->used && run->state != RUN_ENDED && strcmp(run->id, id) == 0)
            return run;
    }
    return NULL;
}

/* The ended run whose result a straggler must get; others of the same id may
 * have started and ended since. */
static struct run *run_find_ended(const struct rdzv *r,
                                  const struct msg_join *j)
{
    if (j->instance[0] == '\0')
        return NULL;
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (run->used && run->state == RUN_ENDED &&
            strcmp(run->id, j->run) == 0 &&
            strcmp(run->instance, j->instance) == 0)
            return run;
    }
    return NULL;
}

bool run_is_abandoned(const struct run *run)
{
    return run->head < 0 && run->holes == 0;
}

void run_forget(struct rdzv *r, struct run *run)
{
    note(r, NOTE_forgotten, run, "", "%s", "");
    while (run->head >= 0)
        node_remove(r, &r->nodes[run->head]);
    run_drop_source(r, run);
    run->used = false;
}

static struct run *run_open(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct run *run = room_for_run(r, ev->peer_addr);
    if (run == NULL)
        return NULL;
    *run = (struct run){
        .used = true,
        .nodes_min = (int)j->nodes_min,
        .nodes_max = (int)j->nodes_max,
        .join_us = j->join_ms * MONO_MS,
        .last_call_us = j->last_call_ms * MONO_MS,
        .heartbeat_us = j->heartbeat_ms * MONO_MS,
        .reconnect_us = j->reconnect_ms * MONO_MS,
        .scale_us = j->scale_ms * MONO_MS,
        .opened_us = r->now_us,
        .source = sources_take(r->run_sources, ev->peer_addr),
        .head = -1,
        .tail = -1,
    };
    budget_init(&run->budget, (int)j->max_restarts, j->window_ms * MONO_MS,
                (int)j->crash_loop);
    strikes_init(&run->strikes, (int)j->node_strikes, j->cooldown_ms * MONO_MS);
    msg_set(run->id, j->run);
    msg_set(run->prog, j->prog);
    msg_set(run->backend, j->backend);
    note(r, NOTE_run_new, run, "", "%d..%d nodes, %d restarts, program %s",
         run->nodes_min, run->nodes_max, run->budget.max, run->prog);
    round_gather(r, run);
    return run;
}

/* -- refusing ------------------------------------------------------------- */

__attribute__((format(printf, 5, 6))) static void
refuse(struct rdzv *r,
       int conn,
       const struct msg_join *j,
       enum ddp_code code,
       const char *fmt,
       ...)
{
    struct msg m = {.kind = MSG_KIND_refused};
    m.refused.code = code;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(m.refused.text, sizeof(m.refused.text), fmt, ap);
    va_end(ap);
    note(r, NOTE_refused, run_find(r, j->run), j->name, "%s", m.refused.text);
    reply_send(r, conn, &m);
    reply_drop(r, conn);
}

/* Whether a join makes sense by itself. */
static bool is_sound(struct rdzv *r, const struct msg_join *j, int conn)
{
    if (j->version != MSG_VERSION)
        refuse(r, conn, j, DDP_E_CONFLICT,
               "this launcher speaks version %lld of the protocol, the "
               "rendezvous version %d; install the same ddprun everywhere",
               (long long)j->version, MSG_VERSION);
    else if (j->nodes_min > j->nodes_max || j->nodes_max > r->limits.nodes_max)
        refuse(r, conn, j, DDP_E_USAGE,
               "--nnodes=%lld:%lld does not fit: at most %d nodes here",
               (long long)j->nodes_min, (long long)j->nodes_max,
               r->limits.nodes_max);
    else if (j->window_ms > 0 && j->max_restarts > BUDGET_WINDOW_MAX)
        refuse(r, conn, j, DDP_E_USAGE,
               "--max_restarts=%lld/...: at most %d restarts in a window",
               (long long)j->max_restarts, BUDGET_WINDOW_MAX);
    else
        return true;
    return false;
}

static bool same_budget(const struct budget *b, const struct msg_join *j)
{
    return j->max_restarts == b->max &&
           j->window_ms * MONO_MS == b->window_us &&
           j->crash_loop == b->crash_loop;
}

/* "3" or "3/90s", and ", --crash_loop=2" where it is on. */
static void describe_budget(int64_t max,
                            int64_t window_us,
                            int64_t crash_loop,
                            char text[80])
{
    char window[32] = "";
    char loop[32] = "";
    if (window_us > 0)
        (void)snprintf(window, sizeof(window), "/%.12gs",
                       (double)window_us / (double)MONO_S);
    if (crash_loop > 0)
        (void)snprintf(loop, sizeof(loop), ", --crash_loop=%d",
                       (int)crash_loop);
    (void)snprintf(text, 80, "%d%s%s", (int)max, window, loop); /* fits */
}

static void refuse_budget(struct rdzv *r,
                          const struct run *run,
                          const struct msg_join *j,
                          int conn)
{
    const struct budget *b = &run->budget;
    char theirs[80], ours[80];
    describe_budget(j->max_restarts, j->window_ms * MONO_MS, j->crash_loop,
                    theirs);
    describe_budget(b->max, b->window_us, b->crash_loop, ours);
    refuse(r, conn, j, DDP_E_CONFLICT,
           "this node was started with --max_restarts=%s, run '%s' has %s; "
           "give every node the same line",
           theirs, run->id, ours);
}

/* "2"; "2:4": as on the command line. */
static const char *nodes_text(int64_t min, int64_t max, char text[48])
{
    int n = snprintf(text, 48, "%lld", (long long)min);
    if (max != min)
        (void)snprintf(text + n, 48 - (size_t)n, ":%lld", (long long)max);
    return text;
}

/* What must agree between nodes of a run: else somebody else's job on the same
 * endpoint could become our spare. */
static bool agrees(struct rdzv *r,
                   const struct run *run,
                   const struct msg_join *j,
                   int conn)
{
    char theirs[48], ours[48];
    if (j->nodes_min != run->nodes_min || j->nodes_max != run->nodes_max)
        refuse(r, conn, j, DDP_E_CONFLICT,
               "this node was started with --nnodes=%s, run '%s' has %s; give "
               "every node the same line, or this job another --rdzv_id",
               nodes_text(j->nodes_min, j->nodes_max, theirs), run->id,
               nodes_text(run->nodes_min, run->nodes_max, ours));
    else if (!same_budget(&run->budget, j))
        refuse_budget(r, run, j, conn);
    else if (j->node_strikes != run->strikes.max ||
             j->cooldown_ms * MONO_MS != run->strikes.cooldown_us)
        refuse(r, conn, j, DDP_E_CONFLICT,
               "this node was started with --node_strikes=%lld/%.12gs, run "
               "'%s' has %d/%.12gs; give every node the same line",
               (long long)j->node_strikes, (double)j->cooldown_ms / 1000.0,
               run->id, run->strikes.max,
               (double)run->strikes.cooldown_us / (double)MONO_S);
    else if (strcmp(j->prog, run->prog) != 0)
        refuse(r, conn, j, DDP_E_CONFLICT,
               "this node would run '%s', run '%s' runs '%s'; give every node "
               "the same line, or this job another --rdzv_id",
               j->prog, run->id, run->prog);
    else if (strcmp(j->backend, run->backend) != 0)
        refuse(r, conn, j, DDP_E_CONFLICT,
               "this node was started with --rdzv_backend=%s, run '%s' has %s",
               j->backend, run->id, run->backend);
    else if (j->heartbeat_ms * MONO_MS != run->heartbeat_us ||
             j->reconnect_ms * MONO_MS != run->reconnect_us)
        refuse(r, conn, j, DDP_E_CONFLICT,
               "heartbeat_timeout or reconnect_timeout in --rdzv_conf of this "
               "node differ from those of run '%s'; leases depend on them",
               run->id);
    else
        return true;
    return false;
}

/* -- a place -------------------------------------------------------------- */

/*
 * A round runs without it. Where it has room, the newcomer makes it larger, at
 * once or with those that come in the same --scale_interval: it is a spare
 * until then, and takes a lost node's place as one.
 */
static void join_running(struct rdzv *r, struct run *run, struct node *n)
{
    char why[128];
    bool room = round_has_room(run);
    node_set_state(r, n, NODE_SPARE);
    if (!room)
        note(r, NOTE_spare, run, n->name, "no room");
    else if (r->now_us < run->scale_next_us)
        note(r, NOTE_spare, run, n->name, "the round grows in %lld ms",
             (long long)mono_ms_until(r->now_us, run->scale_next_us));
    else
        note(r, NOTE_joined, run, n->name, "nproc %d, %d of %d..%d", n->nproc,
             run->group_world + run->count[NODE_SPARE], run->nodes_min,
             run->nodes_max);
    if (!room || r->now_us < run->scale_next_us)
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
    node_set_state(r, n, NODE_WAITING);
    note(r, NOTE_joined, run, n->name, "nproc %d, %d of %d..%d", n->nproc,
         run->count[NODE_WAITING], run->nodes_min, run->nodes_max);
    if (run->state == RUN_GATHER)
        round_send_waiting(r, run, n);
    round_try_seal(r, run);
}

/* -- rebuilding a round --------------------------------------------------- */

static uint8_t *taken_bits(const struct rdzv *r, const struct run *run)
{
    size_t size = (size_t)r->limits.nodes_max / 8 + 1;
    return r->taken + (size_t)run_index(r, run) * size;
}

/* When the instance that it tells of had its first round. */
static int64_t born_us(const struct rdzv *r, const struct msg_join *j)
{
    return r->now_us - j->instance_ms * MONO_MS;
}

static bool is_of_instance(const struct run *run, const struct msg_join *j)
{
    return strcmp(j->instance, run->instance) == 0;
}

/* Whoever was counted to another round than that of the join is in none now. */
static void
demote_all(struct rdzv *r, struct run *run, const struct msg_join *j)
{
    const char *why = is_of_instance(run, j)
                          ? "a later round is known"
                          : "an older round of this run still runs";
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        next = n->next;
        n->group_rank = -1;
        n->confirmed = false;
        if (n->state == NODE_LEAVING) {
            node_remove(r, n);
        } else if (n->state == NODE_WAITING) {
            node_set_state(r, n, NODE_SPARE);
        } else if (node_in_round(n)) {
            node_make_stale(r, n, run->round, why);
        }
    }
}

/*
 * A daemon that has no memory of a run takes the round over from what a node
 * tells of it. The other members are holes until they show up. A node that
 * knows a later round than those who came first is the one to believe.
 */
static void
run_rebuild(struct rdzv *r, struct run *run, const struct msg_join *j)
{
    bool anew = run->instance[0] != '\0' && !is_of_instance(run, j);
    demote_all(r, run, j);
    if (!run->rebuilt)
        run->rebuilt_at_us = r->now_us;
    if (anew) { /* what was charged was another instance's */
        budget_init(&run->budget, run->budget.max, run->budget.window_us,
                    run->budget.crash_loop);
        strikes_forget(&run->strikes);
    }
    if (anew && run->round > run->passed)
        run->passed = run->round;
    msg_set(run->instance, j->instance);
    run->born_us = born_us(r, j);
    run->round = j->round;
    run->rebuilt = true;
    run->anchor = ANCHOR_NONE;
    run->confirmed = 0;
    run->group_world = (int)j->group_world;
    run->holes = (int)j->group_world;
    memset(taken_bits(r, run), 0, (size_t)r->limits.nodes_max / 8 + 1);
    run->gone_done = 0;
    run->charged = run->lost_since = run->root.known = false;
    run->ends = (struct msg_ready){.round = 0};
    run->progressed = false;
    run->sealed_us = r->now_us;
    run->state = RUN_ACTIVE;
    note(r, NOTE_rebuilt, run, j->name, "%d nodes%s", run->group_world,
         anew ? "; what newcomers began gives way" : "");
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_SPARE || r->nodes[i].state == NODE_ASIDE)
            round_send_waiting(r, run, &r->nodes[i]);
}

/* No run comes so far; whoever says that it did would have us run out of
 * numbers, which end at 10^9 (messages.def). */
#define ROUND_BELIEVED_MAX 999000000

/* Whether what it holds had been begun beside this run, and gives way to it:
 * the node is a newcomer here once it has stopped that. */
static bool is_younger(const struct rdzv *r,
                       const struct run *run,
                       const struct msg_join *j)
{
    return born_us(r, j) >= run->born_us;
}

/*
 * A daemon without memory cannot know newcomers from members: where enough
 * newcomers come before the first member, they make another instance of the
 * run. That yields to the older one, whose workers may have run for days: to
 * the first member whose lease was never over, as long as such a lease may
 * still be out; what its own workers do matters not, since those of others may
 * run. The newcomers' workers are stopped, and they come into the older
 * instance as any newcomer does. So it is where the younger one was taken over
 * from a daemon that was gone before a member came.
 */
static bool
yields(const struct rdzv *r, const struct run *run, const struct msg_join *j)
{
    return j->sure && !is_of_instance(run, j) && !is_younger(r, run, j) &&
           r->now_us < mono_after(run->opened_us, round_foreign_lease_us(run));
}

/* Whether what this node tells is news of its run. */
static bool
is_news(const struct rdzv *r, const struct run *run, const struct msg_join *j)
{
    if (j->round == 0 || j->round > ROUND_BELIEVED_MAX ||
        j->instance[0] == '\0' || j->group_world < run->nodes_min ||
        j->group_world > run->nodes_max)
        return false;
    if (run->instance[0] == '\0' || yields(r, run, j))
        return true;
    return run->rebuilt && j->round > run->round && is_of_instance(run, j);
}

/* Whether it is the first to claim its place. One who was lost and is back has
 * not filled another hole: that one's workers may still run. */
static bool
is_hole(const struct rdzv *r, const struct run *run, const struct msg_join *j)
{
    if (run->holes == 0 || !is_of_instance(run, j) || j->round != run->round ||
        j->group_rank < 0 || j->group_rank >= run->group_world)
        return false;
    int g = (int)j->group_rank;
    return (taken_bits(r, run)[g / 8] & 1u << (g % 8)) == 0;
}

static void take_anchor(struct run *run, const struct msg_join *j)
{
    enum anchor anchor =
        j->state == MSG_STATE_READY ? ANCHOR_READY : ANCHOR_HELD;
    if (j->sure && anchor > run->anchor)
        run->anchor = anchor;
}

/* A node that was a member of the round which was rebuilt takes its place. */
static void fill_hole(struct rdzv *r,
                      struct run *run,
                      struct node *n,
                      const struct msg_join *j)
{
    int g = (int)j->group_rank;
    taken_bits(r, run)[g / 8] |= (uint8_t)(1u << (g % 8));
    run->holes--;
    n->group_rank = g;
    run->sealed_us =
        mono_min(run->sealed_us, r->now_us - j->recent_ms * MONO_MS);
    take_anchor(run, j);
    note(r, NOTE_back, run, n->name, "%d more to come", run->holes);
    bool runs = j->sure && j->state == MSG_STATE_RUNNING;
    bool done = j->sure && j->state == MSG_STATE_DONE;
    if (run->state == RUN_ACTIVE && (runs || done)) {
        node_set_state(r, n, done ? NODE_DONE : NODE_RUNNING);
        round_try_done(r, run);
    } else {
        node_set_state(r, n, NODE_STOPPING);
        node_send_stop(r, n, run->round, "the round is over", MSG_AT_ONCE);
        round_over(r, run, "a node stopped its workers", MSG_AT_ONCE);
    }
    node_confirm(r, n, j->round);
    round_reckon(r, run);
    round_try_scale(r, run, "nodes wait to join");
}

/* -- who joins ------------------------------------------------------------ */

/* A node that the server knows, on a new connection: the server's answer was
 * perhaps lost with the old one, so it says again what the node must know. */
static void
rejoin(struct rdzv *r, struct node *n, const struct msg_join *j, int conn)
{
    struct run *run = &r->runs[n->run];
    if (n->conn >= 0) {
        int old = n->conn;
        node_unbind(r, n);
        reply_drop(r, old);
    }
    node_bind(r, n, conn);
    n->short_seq = -1; /* they count from 0 on each connection */
    note(r, NOTE_back, run, n->name, "%s", "");
    node_grant(r, n, 0, -1);
    if (n->drained && n->state != NODE_ENDING)
        node_send_drain(r, n);
    switch (n->state) {
    case NODE_RUNNING:
        if (j->round == run->round && j->group_rank >= 0)
            return;
        /* The server before us sealed a rebuilt round and told its members of
         * it: nothing is known of it here that could be told again. */
        if (run->rebuilt)
            round_over(r, run, "a node does not hold the round any more",
                       MSG_AT_ONCE);
        else
            round_send_world(r, run, n);
        return;
    case NODE_STOPPING:
        node_send_stop(r, n, run->round, "the round is over", run->graceful);
        return;
    case NODE_STALE:
        node_make_stale(r, n, j->round, "that round is over");
        return;
    case NODE_ENDING:
        round_send_end(r, run, n);
        return;
    case NODE_WAITING:
    case NODE_SPARE:
    case NODE_ASIDE:
        round_send_waiting(r, run, n);
        round_try_seal(r, run);
        return;
    case NODE_DONE:
    case NODE_LEAVING:
    case NODE_DRAINED:
        return; /* it says so again itself */
    case NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}

/* What a server before us counted, as a node tells it. */
static void
restore(const struct rdzv *r, struct run *run, const struct msg_join *j)
{
    int64_t left_us = mono_min(j->scale_left_ms * MONO_MS, run->scale_us);
    int64_t next_us = mono_after(r->now_us, left_us);
    budget_restore(&run->budget, (int)j->restarts, (int)j->recent,
                   r->now_us - j->recent_ms * MONO_MS);
    budget_restore_barren(&run->budget, (int)j->barren);
    if (next_us > run->scale_next_us)
        run->scale_next_us = next_us;
}

/* A node that the server does not know. It may hold a round all the same. */
static void
join_new(struct rdzv *r, struct run *run, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct node *n = node_new(r, run, ev);
    bool may_run = j->state != MSG_STATE_NONE && j->round > 0;
    bool member = may_run && is_hole(r, run, j);
    bool knows = run->rebuilt && is_of_instance(run, j);
    if (knows)
        restore(r, run, j);
    strikes_believe(r, run, n, knows ? j->struck : 0, j->aside_ms);
    /* A lease of the server before us, which ours may not reach in time. It
     * granted none that is longer. */
    if (may_run)
        n->lease_until_us =
            mono_after(r->now_us, mono_min(j->lease_ms * MONO_MS,
                                           round_foreign_lease_us(run)) +
                                      run->heartbeat_us);
    node_grant(r, n, 0, -1);
    if (member) {
        fill_hole(r, run, n, j);
    } else if (may_run) {
        note(r, NOTE_stale, run, n->name, "it holds round %lld",
             (long long)j->round);
        node_make_stale(r, n, j->round, "that round is over");
    } else {
        join_place(r, run, n);
    }
}

/* One who could have all is told that all is taken. */
static bool is_over(int have, int share, int all)
{
    return share > 0 && share < all && have >= share;
}

/* Whether its address may have one more node, and one more run where `run` is
 * NULL; else it was refused. */
static bool is_within_share(struct rdzv *r,
                            const struct run *run,
                            const struct rdzv_event *ev)
{
    const struct rdzv_limits *max = &r->limits;
    char source[SOURCE_TEXT_MAX];
    int runs = sources_count_of(r->run_sources, ev->peer_addr);
    int nodes = sources_count_of(r->node_sources, ev->peer_addr);
    bool too_many_runs =
        run == NULL && is_over(runs, max->runs_share, max->runs_max);
    bool too_many_nodes = is_over(nodes, max->nodes_share, max->nodes_max);
    if (!too_many_runs && !too_many_nodes)
        return true;
    source_of(ev->peer_addr, source);
    refuse(r, ev->conn, &ev->msg->join, DDP_E_NOMEM,
           "%s has %d of %d %s here already; the others are for other "
           "addresses (ddprdzvd --max_share)",
           source, too_many_runs ? runs : nodes,
           too_many_runs ? max->runs_max : max->nodes_max,
           too_many_runs ? "runs" : "nodes");
    return false;
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
    if (run != NULL && !agrees(r, run, j, conn))
        return NULL;
    if (run != NULL && j->state != MSG_STATE_NONE && j->round > 0 &&
        run->instance[0] != '\0' && !is_of_instance(run, j) &&
        !is_younger(r, run, j) && !is_news(r, run, j)) {
        refuse(r, conn, j, DDP_E_CONFLICT,
               "run '%s' was started anew while this node was away", run->id);
        return NULL;
    }
    if (!is_within_share(r, run, ev))
        return NULL;
    if (!room_for_node(r, run, ev->peer_addr) ||
        (run == NULL && (run = run_open(r, ev)) == NULL)) {
        refuse(r, conn, j, DDP_E_NOMEM,
               "this rendezvous is full (%d nodes, %d runs)",
               r->limits.nodes_max, r->limits.runs_max);
        return NULL;
    }
    return run;
}

/* A run that ended elsewhere, to be kept for those that come; NULL: there is no
 * room, since who makes such ends up must take none from what is known. */
static struct run *run_of_stragglers(struct rdzv *r, const struct msg_join *j)
{
    struct run *run = room_free_run(r);
    if (run == NULL)
        return NULL;
    *run = (struct run){.used = true,
                        .opened_us = r->now_us,
                        .source = -1,
                        .head = -1,
                        .tail = -1};
    msg_set(run->id, j->run);
    msg_set(run->instance, j->instance);
    run->round = j->round;
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
        msg_set(m.end.text, "the run had ended before the rendezvous was "
                            "started anew; other nodes know why");
    if (j->instance[0] != '\0' &&
        (run == NULL || strcmp(run->instance, j->instance) != 0))
        run = run_of_stragglers(r, j);
    if (j->instance[0] != '\0' && run != NULL)
        run_end(r, run, &m.end);
    reply_send(r, conn, &m);
    reply_drop(r, conn);
}

void join_step(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    if (!is_sound(r, j, ev->conn))
        return;
    struct node *known = node_find(r, j->run, j->agent);
    if (known != NULL) {
        rejoin(r, known, j, ev->conn);
        return;
    }
    const struct run *ended = run_find_ended(r, j);
    if (ended != NULL) {
        struct msg m = {.kind = MSG_KIND_end, .end = ended->end};
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
    if (is_news(r, run, j))
        run_rebuild(r, run, j);
    join_new(r, run, ev);
}
