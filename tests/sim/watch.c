/*
 * The server's side, and the invariants of ddprun-protocol(7) as somebody sees
 * them who looks at all nodes at once: what is sealed, who runs what, how it
 * ends.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

/* -- invariants ------------------------------------------------------------ */

static int find_instance(struct sim *s, const char *id)
{
    for (int i = 0; i < s->n_instances; i++)
        if (strcmp(s->instances[i].id, id) == 0)
            return i;
    if (s->n_instances == INSTANCES_MAX) {
        sim_break(s, "more than %d instances of one run", INSTANCES_MAX);
        return 0;
    }
    struct instance *in = &s->instances[s->n_instances];
    *in = (struct instance){.end_status = -1};
    msg_set(in->id, id);
    return s->n_instances++;
}

/* Invariant 1. Workers of a paused machine do not run; when it wakes they are
 * killed before anything else. */
static void check_none_runs(struct sim *s, int instance, int64_t but_round)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const struct node_sim *n = &s->nodes[i];
        if (n->node_frozen || s->now_us < n->exempt_until_us)
            continue;
        for (int k = 0; k < SIM_PROCS_MAX; k++) {
            const struct worker *w = &n->workers[k];
            if (w->alive && w->instance == instance && w->round != but_round)
                sim_break(s,
                          "invariant 1: a worker of round %lld runs on n%d "
                          "while round %lld is there",
                          (long long)w->round, i,
                          (long long)s->instances[instance].round);
        }
    }
}

/*
 * Invariant 3, with a window: charge number n comes at least a window after
 * number n - max. Each comes after the end of its round, and before the seal of
 * the next one, which is now.
 */
static void check_window(struct sim *s, struct instance *in, int restarts)
{
    int before = restarts - s->conf.max_restarts;
    in->over_us[restarts % SIM_CHARGES_MAX] = s->over_us;
    if (s->conf.window_ms > 0 && before > 0 &&
        s->now_us - in->over_us[before % SIM_CHARGES_MAX] <
            s->conf.window_ms * MONO_MS)
        sim_break(s, "invariant 3: restart %d comes too early", restarts);
}

/* Invariants 2 and 3, what can be said before all places are known. */
static void open_seal(struct sim *s, int instance, const struct msg_world *w)
{
    struct instance *in = &s->instances[instance];
    if (s->sealed >= 0)
        sim_break(s, "two rounds were sealed in one step");
    if (w->round < in->round)
        sim_break(s, "invariant 3: round %lld after round %lld",
                  (long long)w->round, (long long)in->round);
    if (w->group_world < s->conf.nodes_min ||
        w->group_world > s->conf.nodes_max)
        sim_break(s, "invariant 2: a round of %lld nodes",
                  (long long)w->group_world);
    int charged = (int)w->restarts - in->restarts;
    if (in->round == 0)
        charged = 0; /* a new instance of an old run */
    if (charged < 0 && in->seal_epoch != s->epoch) {
        /* The round that was charged was known to nodes that are gone. */
        s->count[SIM_FORGOTTEN]++;
        charged = 0;
    }
    if (charged < 0 || charged > 1 ||
        (s->conf.window_ms == 0 && w->restarts > s->conf.max_restarts))
        sim_break(s, "invariant 3: %d restarts, then %lld", in->restarts,
                  (long long)w->restarts);
    if (charged == 1)
        check_window(s, in, (int)w->restarts);
    s->count[SIM_ROUNDS]++;
    s->count[SIM_CHARGED] += charged;
    in->round = w->round;
    in->seal_epoch = s->epoch;
    in->restarts = (int)w->restarts;
    in->group_world = (int)w->group_world;
    in->world_size = (int)w->world_size;
    msg_set(in->master_addr, w->master_addr);
    memset(in->seats, 0, sizeof(in->seats));
    s->sealed = instance;
    check_none_runs(s, instance, -1);
}

void watch_world(struct sim *s, int node, const struct msg_world *w)
{
    int instance = find_instance(s, w->instance);
    struct instance *in = &s->instances[instance];
    if (s->nodes[node].drained_epoch == s->epoch)
        sim_break(s, "n%d was drained and is given a place", node);
    if (w->round != in->round)
        open_seal(s, instance, w);
    if (w->group_world != in->group_world || w->world_size != in->world_size ||
        strcmp(w->master_addr, in->master_addr) != 0 ||
        w->group_rank >= in->group_world) {
        sim_break(s, "invariant 2: two worlds of one round differ");
        return;
    }
    struct seat *seat = &in->seats[w->group_rank];
    int nproc = (int)s->nodes[node].agent.conf.join.nproc;
    if (seat->seen && (seat->node != node || seat->base_rank != w->base_rank))
        sim_break(s, "invariant 2: a place was given twice");
    if (!seat->seen && s->sealed != instance)
        sim_break(s, "invariant 2: a place was given after the seal");
    *seat = (struct seat){.seen = true,
                          .node = node,
                          .base_rank = (int)w->base_rank,
                          .nproc = nproc};
}

/* Invariant 2, once all places are known. */
static void close_seal(struct sim *s)
{
    if (s->sealed < 0)
        return;
    const struct instance *in = &s->instances[s->sealed];
    int next = 0;
    for (int g = 0; g < in->group_world; g++) {
        const struct seat *seat = &in->seats[g];
        if (!seat->seen || seat->base_rank != next)
            sim_break(s, "invariant 2: group rank %d has no ranks from %d", g,
                      next);
        next += seat->nproc;
    }
    char first[32];
    int node = in->seats[0].node;
    net_addr(node, s->nodes[node].moves_told, first);
    if (strcmp(in->master_addr, first) != 0)
        sim_break(s, "invariant 2: the master is at %s, n%d at %s",
                  in->master_addr, node, first);
    if (next != in->world_size)
        sim_break(s, "invariant 2: %d ranks, the world is %d", next,
                  in->world_size);
    s->sealed = -1;
}

int watch_spawn(struct sim *s, int node, const struct msg_world *w)
{
    int instance = find_instance(s, w->instance);
    const struct instance *in = &s->instances[instance];
    if (w->round != in->round || in->seats[w->group_rank].node != node)
        sim_break(s,
                  "invariant 1: n%d starts workers of round %lld, round %lld "
                  "is there",
                  node, (long long)w->round, (long long)in->round);
    check_none_runs(s, instance, w->round);
    return instance;
}

void watch_done(struct sim *s, int node)
{
    const struct msg_world *w = &s->nodes[node].agent.round.world;
    struct instance *in = &s->instances[find_instance(s, w->instance)];
    if (w->round == in->round)
        in->seats[w->group_rank].done = true;
}

/* Invariant 5, at the server: success is said only where all were done. */
void watch_end(struct sim *s, int node, const struct msg_end *e)
{
    s->nodes[node].end_epoch = s->epoch;
    if (e->status != 0)
        return;
    const struct instance *in = &s->instances[find_instance(s, e->instance)];
    if (in->round == 0)
        sim_break(s, "invariant 5: success, and there was no round");
    for (int g = 0; g < in->group_world && in->round == e->round; g++)
        if (!in->seats[g].done)
            sim_break(s, "invariant 5: success, and n%d was not done",
                      in->seats[g].node);
}

/*
 * Whoever is in a round, with a lease that was never over, is in that instance
 * for good: no younger one has it sent away.
 */
static void watch_refused(struct sim *s, int node, const struct msg_refused *m)
{
    const struct agent *a = &s->nodes[node].agent;
    if (agent_is_sure(a) && s->now_us < a->lease_until_us &&
        strstr(m->text, "started anew") != NULL)
        sim_break(s, "n%d is a member and is sent away: %s", node, m->text);
}

static void count_exit(struct sim *s,
                       const struct node_sim *n,
                       const struct agent_verdict *v)
{
    enum sim_count c = SIM_END_REFUSED;
    if (n->orphaned)
        c = SIM_END_ORPHANED;
    else if (v->status == ddp_code_exit(DDP_E_DRAINED))
        c = SIM_END_DRAINED;
    else if (v->ended && v->status == ddp_code_exit(DDP_E_ORDERED))
        c = SIM_END_ORDERED;
    else if (agent_is_leaving(&n->agent) ||
             (v->ended && v->status > 128 && v->end.rank < 0))
        c = SIM_END_SIGNAL;
    else if (v->ended && v->status == 0)
        c = SIM_END_SUCCESS;
    else if (v->ended && v->end.crash_loop > 0)
        c = SIM_END_CRASHLOOP;
    else if (v->ended && v->end.rank >= 0)
        c = SIM_END_FAILURE;
    else if (v->ended)
        c = SIM_END_TIMEOUT;
    else if (v->status == 0)
        c = SIM_END_ALONE;
    s->count[c]++;
}

/* Invariant 5, at the nodes. A daemon that was killed after it had told some
 * of the end may come to another one with the others: its memory of a run is
 * soft. That is counted, not hidden. */
void watch_exit(struct sim *s, int node, const struct agent_verdict *v)
{
    const struct node_sim *n = &s->nodes[node];
    const struct agent *a = &n->agent;
    count_exit(s, n, v);
    if (n->orphaned || agent_is_leaving(a))
        return;
    if (!v->ended) {
        int64_t down_us = s->now_us - a->session.down_since_us;
        bool alone = a->session.state != AGENT_SESSION_HEARD &&
                     v->text[0] != '\0' &&
                     down_us >= s->conf.reconnect_ms * MONO_MS;
        if (v->status == 0 && !alone)
            sim_break(s, "invariant 5: n%d exits 0 and was not told to", node);
        return;
    }
    if (v->end.crash_loop > 0 && (v->end.crash_loop != s->conf.crash_loop ||
                                  v->end.round < v->end.crash_loop))
        sim_break(s, "a crash loop of %lld rounds in round %lld",
                  (long long)v->end.crash_loop, (long long)v->end.round);
    if (v->status != v->end.status)
        sim_break(s, "invariant 5: n%d exits %d, the run ended with %lld", node,
                  v->status, (long long)v->end.status);
    bool held_a_round = agent_is_member(a);
    if (v->status == 0 && held_a_round &&
        strcmp(a->round.world.instance, v->end.instance) != 0)
        sim_break(s, "invariant 5: n%d exits 0 for what it had no part in",
                  node);
    if (v->end.instance[0] == '\0')
        return;
    struct instance *in = &s->instances[find_instance(s, v->end.instance)];
    if (in->end_status >= 0 && in->end_status != v->status) {
        if (in->end_epoch == n->end_epoch)
            sim_break(s, "invariant 5: a run ended with %d and with %d",
                      in->end_status, v->status);
        s->count[SIM_FORGOTTEN]++;
    }
    in->end_status = v->status;
    in->end_epoch = n->end_epoch;
}

/* -- the server ------------------------------------------------------------ */

/* It may come back as a newcomer, if it never heard of the order. */
static void forget_drain(struct sim *s, const char *name)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (strcmp(s->nodes[i].agent.conf.join.name, name) == 0)
            s->nodes[i].drained_epoch = 0;
}

static void on_note(struct sim *s, const struct note *note)
{
    if (note->kind == NOTE_left || note->kind == NOTE_lost)
        forget_drain(s, note->node);
    if (note->kind == NOTE_round_over)
        s->over_us = s->now_us;
    if (note->kind == NOTE_outdated && s->other.rdzv == NULL)
        sim_break(s, "the only server believes that there was another one");
    s->count[SIM_GROUPED] +=
        note->kind == NOTE_spare && strstr(note->text, "grows") != NULL;
    s->count[SIM_GAVE_WAY] +=
        note->kind == NOTE_rebuilt && strstr(note->text, "gives way") != NULL;
    s->count[SIM_REBUILT] += note->kind == NOTE_rebuilt;
    s->count[SIM_SPARE] += note->kind == NOTE_spare;
    s->count[SIM_QUARANTINED] += note->kind == NOTE_quarantined;
    s->count[SIM_KEPT] += note->kind == NOTE_kept;
    s->count[SIM_RECALLED] += note->kind == NOTE_recalled;
    s->count[SIM_REFUND] += note->kind == NOTE_refund;
    sim_tell_note(s, "rdzv", note);
}

static void die_after(struct sim *s, int64_t us)
{
    sim_push(s, (struct event){.at_us = s->now_us + us,
                               .kind = EV_SERVER_DIES,
                               .gen = (uint32_t)s->epoch});
}

/* Whether it is killed instead of what it would do now. */
static bool server_dies(struct sim *s)
{
    if (s->kill_in == 0 || --s->kill_in > 0)
        return false;
    s->server_dying = true;
    die_after(s, 0);
    return true;
}

static void emit(void *ctx, const struct rdzv_action *a)
{
    struct sim *s = ctx;
    if (a->conn == CONN_ORDERS) {
        s->answered |=
            a->kind == RDZV_SEND && a->msg->kind == MSG_KIND_answered;
        return;
    }
    if (s->server_dying || (a->kind == RDZV_SEND && server_dies(s)))
        return;
    switch (a->kind) {
    case RDZV_SEND:
        if (a->msg->kind == MSG_KIND_world)
            watch_world(s, s->conns[a->conn].node, &a->msg->world);
        else if (a->msg->kind == MSG_KIND_end)
            watch_end(s, s->conns[a->conn].node, &a->msg->end);
        else if (a->msg->kind == MSG_KIND_refused)
            watch_refused(s, s->conns[a->conn].node, &a->msg->refused);
        if (s->conns[a->conn].server_open)
            net_send(s, a->conn, DOWN, ITEM_MSG, a->msg);
        return;
    case RDZV_DROP:
        if (s->conns[a->conn].server_open)
            net_server_closes(s, a->conn, ITEM_FIN);
        return;
    case RDZV_NOTE:
        on_note(s, a->note);
        return;
    }
    DDP_WRONG("action");
}

static void schedule_tick(struct sim *s)
{
    int64_t at_us = rdzv_deadline(s->rdzv);
    if (at_us == s->server_tick_us)
        return;
    s->server_tick_us = at_us;
    s->server_gen++;
    if (at_us == MONO_NEVER)
        return;
    if (at_us < s->now_us)
        at_us = s->now_us;
    sim_push(s, (struct event){.at_us = at_us + sim_rnd(s, 1000),
                               .kind = EV_SERVER_TICK,
                               .of = s->in_hand,
                               .gen = s->server_gen});
}

void sim_use(struct sim *s, int server)
{
    if (server == s->in_hand)
        return;
    struct rdzv *rdzv = s->rdzv;
    uint32_t gen = s->server_gen;
    int64_t tick_us = s->server_tick_us;
    s->rdzv = s->other.rdzv;
    s->server_gen = s->other.gen;
    s->server_tick_us = s->other.tick_us;
    s->other.rdzv = rdzv;
    s->other.gen = gen;
    s->other.tick_us = tick_us;
    s->in_hand = server;
}

void server_step(struct sim *s, struct rdzv_event *ev)
{
    if (s->rdzv == NULL || s->broken[0] != '\0' || s->server_dying ||
        (ev->kind == RDZV_MSG && server_dies(s)))
        return;
    struct rdzv_actions out = {.emit = emit, .ctx = s};
    ev->now_us = s->now_us;
    s->count[SIM_STEPS]++;
    s->before.acted_us = s->now_us;
    rdzv_step(s->rdzv, ev, &out);
    rdzv_check(s->rdzv);
    if (s->server_dying)
        s->sealed = -1; /* not all were told of their places */
    close_seal(s);
    schedule_tick(s);
    if (s->server_ending && rdzv_owed(s->rdzv) == 0)
        die_after(s, 0);
}

void server_tick(struct sim *s, int64_t lag_us)
{
    struct rdzv_event ev = {.kind = RDZV_TICK, .lag_us = lag_us};
    s->server_tick_us = -1; /* it is used up */
    server_step(s, &ev);
    bool again = rdzv_deadline(s->rdzv) <= s->now_us;
    s->server_ticks_in_a_row = again ? s->server_ticks_in_a_row + 1 : 0;
    if (s->server_ticks_in_a_row > TICKS_IN_A_ROW)
        sim_break(s, "the server has a deadline that no tick clears");
}

/* -- orders ---------------------------------------------------------------- */

static bool give_order(struct sim *s, const struct msg *m)
{
    struct rdzv_event ev = {.kind = RDZV_MSG,
                            .conn = CONN_ORDERS,
                            .msg = m,
                            .peer_addr = "10.0.0.99",
                            .here_addr = "10.0.0.254"};
    s->answered = false;
    sim_use(s, 0);
    if (s->rdzv != NULL && !s->server_frozen)
        server_step(s, &ev);
    return s->answered;
}

bool sim_drain(struct sim *s, int i, bool force)
{
    struct node_sim *n = &s->nodes[i];
    struct msg m = {.kind = MSG_KIND_order_drain};
    m.order_drain.version = MSG_VERSION;
    m.order_drain.force = force;
    msg_set(m.order_drain.node, n->agent.conf.join.name);
    sim_tell(s, "fault", "an operator drains %s", n->agent.conf.join.name);
    if (!give_order(s, &m))
        return false;
    s->count[SIM_DRAINED]++;
    n->drained_epoch = s->epoch;
    return true;
}

bool sim_end(struct sim *s)
{
    struct msg m = {.kind = MSG_KIND_order_end};
    m.order_end.version = MSG_VERSION;
    msg_set(m.order_end.run, "sim");
    sim_tell(s, "fault", "an operator ends the run");
    if (!give_order(s, &m))
        return false;
    s->count[SIM_ENDED]++;
    return true;
}

void sim_server_start(struct sim *s)
{
    if (s->rdzv != NULL)
        return;
    char id[RDZV_SERVER_ID_LEN + 1];
    const struct rdzv_before none = {.acted_us = 0};
    struct rdzv_limits limits = {
        .runs_max = 4, .nodes_max = SIM_AGENTS_MAX, .conns_max = CONNS_MAX + 1};
    s->rdzv = rdzv_new(&limits, rng_next(&s->rng));
    (void)snprintf(id, sizeof(id), "%016d", s->epoch + 1);
    /* It may run on another machine, and know of none before it. */
    bool knows = !sim_random(s) || sim_rnd(s, 4) != 0;
    rdzv_name(s->rdzv, id, s->now_us, knows ? &s->before : &none);
    s->before = none;
    msg_set(s->before.server, id);
    s->server_frozen = s->server_ending = false;
    s->server_tick_us = -1;
    s->epoch++;
    s->count[SIM_SERVER_BACK] += s->epoch > 1;
    sim_tell(s, "fault", "the server starts");
}

void sim_server_beside(struct sim *s)
{
    sim_use(s, 1);
    sim_server_start(s);
    sim_use(s, 0);
}

void sim_lands_beside(struct sim *s, int i)
{
    s->nodes[i].lands_at = 1;
}

void sim_server_kill(struct sim *s)
{
    sim_use(s, 0);
    if (s->rdzv == NULL)
        return;
    sim_tell(s, "fault", "the server is killed");
    s->count[SIM_SERVER_KILLED]++;
    rdzv_del(s->rdzv);
    s->rdzv = NULL;
    s->server_frozen = s->server_dying = s->server_ending = false;
    s->kill_in = 0;
    s->server_gen++;
    net_server_dies(s);
    net_pump_server(s); /* what it had not read: nobody does now */
}

void sim_server_end(struct sim *s)
{
    struct rdzv_event ev = {.kind = RDZV_ENDING};
    sim_use(s, 0);
    if (s->rdzv == NULL || s->server_frozen || s->server_ending)
        return;
    sim_tell(s, "fault", "the server ends in order");
    s->count[SIM_SERVER_ENDED]++;
    s->server_ending = true;
    die_after(s, 500 * MONO_MS);
    server_step(s, &ev);
}

void sim_server_kill_at(struct sim *s, int n)
{
    s->kill_in = n;
}

bool sim_server_was_killed(const struct sim *s)
{
    return s->rdzv == NULL;
}

void sim_server_freeze(struct sim *s)
{
    sim_use(s, 0);
    if (s->rdzv == NULL || s->server_frozen)
        return;
    sim_tell(s, "fault", "the server is stopped");
    s->count[SIM_SERVER_FROZEN]++;
    s->server_frozen = true;
    s->frozen_at_us = s->now_us;
    s->server_gen++;
}

/* It finds its timers late and its sockets full, in whichever order; the shell
 * measures how late it is. */
void sim_server_thaw(struct sim *s)
{
    sim_use(s, 0);
    if (s->rdzv == NULL || !s->server_frozen)
        return;
    sim_tell(s, "fault", "the server goes on");
    int64_t lag_us = s->now_us - s->frozen_at_us;
    s->server_frozen = false;
    if (sim_rnd(s, 2) == 0) {
        server_tick(s, lag_us);
        net_pump_server(s);
    } else {
        net_pump_server(s);
        if (s->broken[0] == '\0')
            server_tick(s, lag_us);
    }
}
