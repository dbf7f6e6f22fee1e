/*
 * Servers: each the real core, on a machine of its own or on a node's. The
 * latter begins with the first connection to it and ends with its launcher; or,
 * if that has ended in order, once no run needs it; or when a run has ended
 * there: the next connection begins another one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

bool server_is_up(const struct sim *s, int server)
{
    return s->servers[server].rdzv != NULL;
}

/* The launcher whose process it is; NULL: it is nobody's. */
static const struct node_sim *host_of(const struct sim *s, int server)
{
    int tenant = s->machines[server].tenant;
    return tenant < 0 ? NULL : &s->nodes[tenant];
}

bool server_is_frozen(const struct sim *s, int server)
{
    return s->servers[server].frozen;
}

/* -- what a core does ------------------------------------------------------ */

/* It may come back as a newcomer, if it never heard of the order. */
static void forget_drain(struct sim *s, const char *name)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (strcmp(s->nodes[i].agent.conf.join.name, name) == 0)
            s->nodes[i].drained_life = 0;
}

/* Another server had the run meanwhile: this one gave it up, with its orders,
 * and knows what nodes tell. */
static void forget_drains_of(struct sim *s, int server)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].drained_life == s->servers[server].life)
            s->nodes[i].drained_life = 0;
}

/* "rdzv" is the only one of most tests. */
static const char *server_name(int server, char text[16])
{
    if (server < OUTSIDE)
        (void)snprintf(text, 16, "at n%d", server);
    else
        (void)snprintf(text, 16, server == OUTSIDE ? "rdzv" : "rdzv%d",
                       server - OUTSIDE);
    return text;
}

static void on_note(struct sim *s, const struct note *note)
{
    char name[16];
    if (note->kind == NOTE_left || note->kind == NOTE_lost)
        forget_drain(s, note->node);
    if (note->kind == NOTE_new_run || note->kind == NOTE_outdated)
        forget_drains_of(s, s->acting);
    if (note->kind == NOTE_round_over)
        s->over_us = s->now_us;
    s->count[SIM_GROUPED] +=
        note->kind == NOTE_spare && strstr(note->text, "grows") != NULL;
    s->count[SIM_INHERITED] += note->kind == NOTE_inherited;
    s->count[SIM_WORD_TAKEOVER] +=
        note->kind == NOTE_elected && strstr(note->text, "farewell") != NULL;
    s->count[SIM_BY_COUNT] += note->kind == NOTE_by_count;
    s->count[SIM_HANDED_BACK] += note->kind == NOTE_handed_back;
    s->count[SIM_TOLD_WHERE] += note->kind == NOTE_moved;
    s->count[SIM_OUTDATED] += note->kind == NOTE_outdated;
    s->count[SIM_SPARE] += note->kind == NOTE_spare;
    s->count[SIM_QUARANTINED] += note->kind == NOTE_quarantined;
    s->count[SIM_KEPT] += note->kind == NOTE_kept;
    s->count[SIM_RECALLED] += note->kind == NOTE_recalled;
    s->count[SIM_REFUND] += note->kind == NOTE_refund;
    sim_tell_note(s, server_name(s->acting, name), note);
}

static void die_after(struct sim *s, int server, int64_t us)
{
    sim_push(s, (struct event){.at_us = s->now_us + us,
                               .kind = EV_SERVER_DIES,
                               .of = server,
                               .gen = (uint32_t)s->servers[server].life});
}

/* Whether it is killed instead of what it would do now. */
static bool dies_now(struct sim *s, int server)
{
    struct server_sim *srv = &s->servers[server];
    if (srv->midst_in == 0 || --srv->midst_in > 0)
        return false;
    switch (srv->midst) {
    case SIM_MIDST_KILL:
        srv->dying = true;
        die_after(s, server, 0);
        return true;
    case SIM_MIDST_FREEZE: /* once this step is over */
        server_freeze(s, server);
        return false;
    case SIM_MIDST_CUT:
        sim_cut_machine(s, server, true, true);
        return false;
    }
    DDP_WRONG("midst");
}

static void watch_msg(struct sim *s, int node, const struct msg *m)
{
    switch (m->kind) {
    case MSG_KIND_world:
        watch_world(s, node, &m->world);
        return;
    case MSG_KIND_end:
        watch_end(s, &m->end);
        return;
    case MSG_KIND_refused:
        watch_refused(s, node, &m->refused);
        return;
    case MSG_KIND_voters:
        round_voters(s, &m->voters);
        return;
    case MSG_KIND_go:
        round_go(s, node, &m->go);
        return;
    case MSG_KIND_prepare:
        round_prepare(s, &m->prepare);
        return;
    case MSG_KIND_lease:
        round_lease(s, &m->lease);
        return;
    case MSG_KIND_waiting:
        round_waiting(s, &m->waiting);
        return;
    default:
        return;
    }
}

static void emit(void *ctx, const struct rdzv_action *a)
{
    struct sim *s = ctx;
    const struct server_sim *srv = &s->servers[s->acting];
    if (a->conn == CONN_ORDERS) {
        s->answered |=
            a->kind == RDZV_SEND && a->msg->kind == MSG_KIND_answered;
        return;
    }
    if (srv->dying || (a->kind == RDZV_SEND && dies_now(s, s->acting)))
        return;
    switch (a->kind) {
    case RDZV_SEND:
        watch_msg(s, s->conns[a->conn].node, a->msg);
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

/* -- time ------------------------------------------------------------------ */

static void schedule_tick(struct sim *s, int server)
{
    struct server_sim *srv = &s->servers[server];
    int64_t at_us = clock_when(s, server, rdzv_deadline(srv->rdzv));
    if (at_us == srv->tick_at_us)
        return;
    srv->tick_at_us = at_us;
    srv->tick_gen++;
    if (at_us == MONO_NEVER)
        return;
    if (at_us < s->now_us)
        at_us = s->now_us;
    sim_push(s, (struct event){.at_us = at_us + sim_rnd(s, 1000),
                               .kind = EV_SERVER_TICK,
                               .of = server,
                               .gen = srv->tick_gen});
}

/* Nobody needs it (server.c in rendezvous/daemon): its launcher waits for
 * nothing else, or has a new one begin with the next connection. */
static bool is_done(const struct sim *s, int server)
{
    const struct rdzv *r = s->servers[server].rdzv;
    const struct node_sim *host = host_of(s, server);
    if (r == NULL || host == NULL || rdzv_nodes(r) > 0 || rdzv_live_runs(r) > 0)
        return false;
    return !host->alive || rdzv_ended_runs(r) > 0;
}

static void forget(struct sim *s, int server)
{
    struct server_sim *srv = &s->servers[server];
    rdzv_del(srv->rdzv);
    srv->rdzv = NULL;
    srv->frozen = srv->of_frozen = srv->dying = false;
    srv->midst_in = 0;
    srv->tick_gen++;
}

void server_try_end(struct sim *s, int server)
{
    if (!is_done(s, server))
        return;
    s->count[SIM_IDLE_END] += s->nodes[s->machines[server].tenant].alive;
    forget(s, server);
    net_server_dies(s, server, ITEM_FIN);
}

void server_step(struct sim *s, int server, struct rdzv_event *ev)
{
    struct server_sim *srv = &s->servers[server];
    if (srv->rdzv == NULL || s->broken[0] != '\0' || srv->dying ||
        (ev->kind == RDZV_MSG && dies_now(s, server)))
        return;
    struct rdzv_actions out = {.emit = emit, .ctx = s};
    ev->now_us = clock_of(s, server, s->now_us);
    s->acting = server;
    s->count[SIM_STEPS]++;
    rdzv_step(srv->rdzv, ev, &out);
    rdzv_check(srv->rdzv);
    schedule_tick(s, server);
    server_try_end(s, server);
}

static void tick(struct sim *s, int server, int64_t lag_us)
{
    struct server_sim *srv = &s->servers[server];
    struct rdzv_event ev = {.kind = RDZV_TICK, .lag_us = lag_us};
    srv->tick_at_us = -1; /* it is used up */
    server_step(s, server, &ev);
    bool again = srv->rdzv != NULL &&
                 clock_when(s, server, rdzv_deadline(srv->rdzv)) <= s->now_us;
    srv->ticks_in_a_row = again ? srv->ticks_in_a_row + 1 : 0;
    if (srv->ticks_in_a_row > TICKS_IN_A_ROW)
        sim_break(s, "the server has a deadline that no tick clears");
}

void server_event(struct sim *s, const struct event *ev)
{
    const struct server_sim *srv = &s->servers[ev->of];
    if (ev->kind == EV_SERVER_DIES) {
        if (srv->dying && ev->gen == (uint32_t)srv->life)
            server_kill(s, ev->of);
    } else if (ev->gen == srv->tick_gen && srv->rdzv != NULL && !srv->frozen) {
        tick(s, ev->of, 0);
    }
}

/* -- life ------------------------------------------------------------------ */

static void tell(struct sim *s, int server, const char *what)
{
    if (server < OUTSIDE)
        sim_tell(s, "fault", "the server of n%d %s", server, what);
    else if (server == OUTSIDE)
        sim_tell(s, "fault", "the server %s", what);
    else
        sim_tell(s, "fault", "server %d %s", server - OUTSIDE, what);
}

void server_start(struct sim *s, int server)
{
    struct server_sim *srv = &s->servers[server];
    const struct node_sim *host = host_of(s, server);
    struct rdzv_limits limits = {.runs_max = 4,
                                 .nodes_max = SIM_AGENTS_MAX,
                                 .conns_max = CONNS_MAX + 1,
                                 .trusted = true,
                                 .embedded = server < OUTSIDE};
    if (srv->rdzv != NULL)
        return;
    srv->life = ++s->lives;
    /* Of which no order can be told beforehand. */
    (void)snprintf(limits.server, sizeof(limits.server), "%016" PRIx64,
                   (uint64_t)srv->life * UINT64_C(0x9e3779b97f4a7c15));
    msg_set(srv->id, limits.server);
    limits.began_us = clock_of(s, server, s->now_us);
    srv->rdzv = rdzv_new(&limits, rng_next(&s->rng));
    srv->of_frozen = srv->frozen = host != NULL && host->agent_frozen;
    srv->frozen_at_us = s->now_us;
    srv->tick_at_us = -1;
    srv->term.count = 0;
    srv->acts = srv->waits = false;
    s->count[SIM_SERVER_BACK] += s->lives > 1;
    tell(s, server, "starts");
}

void server_kill(struct sim *s, int server)
{
    if (!server_is_up(s, server))
        return;
    tell(s, server, "is killed");
    s->count[SIM_SERVER_KILLED]++;
    forget(s, server);
    net_server_dies(s, server, ITEM_RST);
    net_pump_server(s, server); /* what it had not read: nobody does now */
}

void server_power_off(struct sim *s, int server)
{
    if (server_is_up(s, server))
        forget(s, server);
    net_server_off(s, server);
}

void server_freeze(struct sim *s, int server)
{
    struct server_sim *srv = &s->servers[server];
    if (srv->rdzv == NULL || srv->frozen)
        return;
    tell(s, server, "is stopped");
    s->count[SIM_SERVER_FROZEN]++;
    srv->frozen = true;
    srv->frozen_at_us = s->now_us;
    srv->tick_gen++;
}

/* It finds its timers late and its sockets full, in whichever order; the shell
 * measures how late it is. */
void server_thaw(struct sim *s, int server)
{
    struct server_sim *srv = &s->servers[server];
    if (srv->rdzv == NULL || !srv->frozen)
        return;
    tell(s, server, "goes on");
    int64_t lag_us = s->now_us - srv->frozen_at_us;
    srv->frozen = srv->of_frozen = false;
    if (sim_rnd(s, 2) == 0) {
        tick(s, server, lag_us);
        net_pump_server(s, server);
        return;
    }
    net_pump_server(s, server);
    if (s->broken[0] == '\0' && srv->rdzv != NULL)
        tick(s, server, lag_us);
}

/* -- orders ---------------------------------------------------------------- */

int sim_serving(const struct sim *s)
{
    int clients[MACHINES_MAX] = {0};
    int best = OUTSIDE;
    for (int i = 0; i < CONNS_MAX; i++)
        if (s->conns[i].used && s->conns[i].server_open &&
            s->conns[i].node_open && !s->conns[i].is_beside)
            clients[s->conns[i].server]++;
    for (int i = 0; i < MACHINES_MAX; i++)
        if (clients[i] > clients[best])
            best = i;
    return best;
}

int server_life(const struct sim *s)
{
    return s->servers[sim_serving(s)].life;
}

static bool give_order_to(struct sim *s, int server, const struct msg *m)
{
    struct rdzv_event ev = {.kind = RDZV_MSG,
                            .conn = CONN_ORDERS,
                            .msg = m,
                            .peer_addr = "10.0.0.99",
                            .here_addr = "10.0.0.254",
                            .trusted = true};
    s->answered = false;
    if (server_is_up(s, server) && !server_is_frozen(s, server))
        server_step(s, server, &ev);
    return s->answered;
}

static bool give_order(struct sim *s, const struct msg *m)
{
    return give_order_to(s, sim_serving(s), m);
}

bool sim_drain(struct sim *s, int i, bool force)
{
    struct node_sim *n = &s->nodes[i];
    struct msg m = {.kind = MSG_KIND_order, .order.verb = MSG_ORDER_DRAIN};
    m.order.version = MSG_VERSION;
    m.order.sure = force;
    msg_set(m.order.node, n->agent.conf.join.name);
    sim_tell(s, "fault", "an operator drains %s", n->agent.conf.join.name);
    if (!give_order(s, &m))
        return false;
    s->count[SIM_DRAINED]++;
    n->drained_life = s->servers[s->acting].life;
    return true;
}

bool sim_end(struct sim *s)
{
    struct msg m = {.kind = MSG_KIND_order, .order.verb = MSG_ORDER_END};
    m.order.version = MSG_VERSION;
    msg_set(m.order.run, "sim");
    sim_tell(s, "fault", "an operator ends the run");
    if (!give_order(s, &m))
        return false;
    s->count[SIM_ENDED]++;
    return true;
}

static bool is_at(const struct sim *s, int i, int server)
{
    for (int k = 0; k < CONNS_MAX; k++) {
        const struct conn *c = &s->conns[k];
        if (c->used && c->node == i && c->server == server && !c->is_beside &&
            c->node_open && c->server_open)
            return true;
    }
    return false;
}

/* It answers an operator who asks there, and may have the votes of nodes that
 * were killed. One that is stopped does not answer. */
static bool another_has_run(const struct sim *s, int server)
{
    for (int i = 0; i < MACHINES_MAX; i++)
        if (i != server && server_is_up(s, i) && !server_is_frozen(s, i) &&
            s->servers[i].acts)
            return true;
    return false;
}

static bool has_ended(const struct instance *in)
{
    for (int i = 0; i < in->n_lines; i++)
        if (in->lines[i].final_status >= 0)
            return true;
    return false;
}

bool sim_go_on(struct sim *s)
{
    struct msg m = {.kind = MSG_KIND_order, .order.verb = MSG_ORDER_GO_ON};
    int server = sim_serving(s);
    int here = 0;
    if (another_has_run(s, server))
        return false;
    for (int i = 0; i < s->n_instances; i++)
        if (has_ended(&s->instances[i]))
            return false; /* the others are not dead, but have ended */
    for (int i = 0; i < s->n_nodes; i++) {
        if (s->nodes[i].alive && !is_at(s, i, server))
            return false;
        here += s->nodes[i].alive;
    }
    m.order.version = MSG_VERSION;
    m.order.sure = 1;
    msg_set(m.order.run, "sim");
    if (here == 0 || !give_order_to(s, server, &m))
        return false;
    sim_tell(s, "fault", "an operator tells s%d to go on", server);
    s->count[SIM_GONE_ON]++;
    return true;
}

/* -- the first machine outside --------------------------------------------- */

void sim_server_start(struct sim *s)
{
    server_start(s, OUTSIDE);
}

void sim_server_kill(struct sim *s)
{
    server_kill(s, OUTSIDE);
}

void sim_server_end(struct sim *s)
{
    sim_end_on(s, OUTSIDE);
}

void sim_server_kill_at(struct sim *s, int n)
{
    sim_in_midst(s, OUTSIDE, SIM_MIDST_KILL, n);
}

bool sim_server_was_killed(const struct sim *s)
{
    return !server_is_up(s, OUTSIDE);
}

void sim_server_freeze(struct sim *s)
{
    server_freeze(s, OUTSIDE);
}

void sim_server_thaw(struct sim *s)
{
    server_thaw(s, OUTSIDE);
}

/* -- any ------------------------------------------------------------------- */

void sim_start_on(struct sim *s, int machine)
{
    ddp_assert(machine >= OUTSIDE);
    server_start(s, machine);
}

void sim_lands_on(struct sim *s, int i, int machine)
{
    ddp_assert(machine >= OUTSIDE);
    s->nodes[i].lands_on = machine;
}

void sim_kill_on(struct sim *s, int machine)
{
    server_kill(s, machine);
}

/* What it has sent is on its way. */
void sim_end_on(struct sim *s, int machine)
{
    struct server_sim *srv = &s->servers[machine];
    if (srv->rdzv == NULL || srv->frozen)
        return;
    tell(s, machine, "ends in order");
    s->count[SIM_SERVER_ENDED]++;
    forget(s, machine);
    net_server_dies(s, machine, ITEM_FIN);
}

void sim_in_midst(struct sim *s, int machine, enum sim_midst what, int n)
{
    s->servers[machine].midst = what;
    s->servers[machine].midst_in = n;
}

void sim_freeze_on(struct sim *s, int machine)
{
    server_freeze(s, machine);
}

void sim_thaw_on(struct sim *s, int machine)
{
    const struct node_sim *host = host_of(s, machine);
    bool waits =
        host != NULL && (host->node_frozen || s->servers[machine].of_frozen);
    if (!waits)
        server_thaw(s, machine);
}
