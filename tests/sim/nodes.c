/*
 * A node: the agent's core, workers that end as told, a guard that holds the
 * lease, and what is left when they die. The rule that all rests on: the FIN
 * is sent when the last worker is dead, not before.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

#define KILL_US      (3 * MONO_MS)   /* SIGKILL works within so long */
#define TERM_US      (20 * MONO_MS)  /* a worker that obeys SIGTERM */
#define STEP_US      (400 * MONO_MS) /* one that leaves at a step */
#define TREE_US      (50 * MONO_MS)  /* all descendants of a killed launcher */
#define TCP_FIRST_US (2 * MONO_S)    /* a cut connection times out, at least */
#define TCP_MORE_US  (13 * MONO_S)

bool node_is_frozen(const struct node_sim *n)
{
    return n->agent_frozen || n->node_frozen;
}

/* Keeps what happens to a node that stands still until it goes on. */
bool node_defer(struct sim *s, const struct event *ev)
{
    struct node_sim *n = &s->nodes[ev->of];
    bool workers = ev->kind == EV_WORKER_END;
    if (!(workers ? n->node_frozen : node_is_frozen(n)))
        return false;
    ddp_assert(n->n_deferred < DEFERRED_MAX);
    n->deferred[n->n_deferred++] = *ev;
    return true;
}

static int count_alive(const struct node_sim *n)
{
    int alive = 0;
    for (int i = 0; i < SIM_PROCS_MAX; i++)
        alive += n->workers[i].alive;
    return alive;
}

/* -- workers --------------------------------------------------------------- */

static void end_worker(
    struct sim *s, int i, int local, int64_t after_us, int code, int signo)
{
    sim_push(s, (struct event){.at_us = s->now_us + after_us,
                               .kind = EV_WORKER_END,
                               .of = i,
                               .gen = s->nodes[i].workers[local].gen,
                               .a = local,
                               .b = code,
                               .c = signo});
}

static void start_workers(struct sim *s, int i, const struct msg_world *w)
{
    struct node_sim *n = &s->nodes[i];
    int nproc = (int)n->agent.conf.join.nproc;
    int instance = watch_spawn(s, i, w);
    int started = nproc;
    if (n->spawn_fails) {
        n->spawn_fails = false;
        n->spawn_failed = true;
        started = (int)sim_rnd(s, (uint32_t)nproc);
        s->count[SIM_SPAWN_FAILED]++;
    }
    n->started = started;
    for (int k = 0; k < started; k++) {
        struct worker *worker = &n->workers[k];
        if (worker->alive)
            sim_break(s, "node %d starts a worker that still runs", i);
        worker->alive = true;
        worker->gen++;
        worker->instance = instance;
        worker->round = w->round;
        int64_t life_us = n->finish_us >= 0 ? n->finish_us : s->finish_us;
        if (life_us >= 0)
            end_worker(s, i, k, life_us + sim_rnd(s, 200000), 0, 0);
    }
}

static void kill_worker(struct sim *s, int i, int local, int signo)
{
    const struct node_sim *n = &s->nodes[i];
    if (signo == SIGKILL) {
        int64_t us = sim_random(s) ? sim_rnd(s, KILL_US) : MONO_MS;
        end_worker(s, i, local, us, 0, SIGKILL);
        return;
    }
    if (n->stubborn)
        return;
    int64_t us = sim_random(s) ? sim_rnd(s, TERM_US) : 10 * MONO_MS;
    switch (sim_rnd(s, 3)) {
    case 0:
        end_worker(s, i, local, us, 0, signo);
        return;
    case 1:
        end_worker(s, i, local, us, 0, 0);
        return;
    default:
        end_worker(s, i, local, us, 1, 0);
    }
}

static void on_worker_end(struct sim *s, const struct event *ev)
{
    struct worker *w = &s->nodes[ev->of].workers[ev->a];
    if (!w->alive || w->gen != ev->gen)
        return;
    w->alive = false;
    struct event reaped = *ev;
    reaped.kind = EV_REAPED;
    reaped.at_us = s->now_us + sim_rnd(s, 200);
    sim_push(s, reaped);
}

static void on_reaped(struct sim *s, const struct event *ev)
{
    struct agent_event aev = {
        .kind = AGENT_WORKER_EXIT,
        .worker = {.local_rank = ev->a,
                   .pid = 1000 + ev->of * 100 + ev->a,
                   .code = ev->b,
                   .progressed = s->nodes[ev->of].gets_on,
                   .signal = ev->c},
    };
    node_step(s, ev->of, &aev);
}

/* -- the core's actions ---------------------------------------------------- */

struct acting {
    struct sim *s;
    int node;
};

static void on_note(struct sim *s, int i, const struct note *note)
{
    s->count[SIM_FENCED] += note->kind == NOTE_fenced;
    s->count[SIM_STUBBORN] += note->kind == NOTE_killing;
    s->count[SIM_SHORT_GRACE] += note->kind == NOTE_killing &&
                                 strstr(note->text, "failure_grace") != NULL;
    sim_tell_note(s, s->nodes[i].agent.conf.join.name, note);
}

/* Those that listen leave at their own pace, a stubborn one never. */
static void ask_workers(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    n->asked = true;
    n->attached = n->listens ? count_alive(n) : 0;
    s->count[SIM_ASKED] += n->listens;
    for (int k = 0; k < SIM_PROCS_MAX; k++) {
        if (!n->workers[k].alive)
            continue;
        int64_t us = sim_random(s) ? sim_rnd(s, STEP_US) : 30 * MONO_MS;
        if (!n->listens)
            kill_worker(s, i, k, SIGTERM);
        else if (!n->stubborn)
            end_worker(s, i, k, us, 0, SIGTERM);
    }
}

static void act(void *ctx, const struct agent_action *a)
{
    struct acting *acting = ctx;
    struct sim *s = acting->s;
    struct node_sim *n = &s->nodes[acting->node];
    switch (a->kind) {
    case AGENT_CONNECT:
        net_connect(s, acting->node);
        return;
    case AGENT_DISCONNECT:
        net_node_closes(s, acting->node, ITEM_RST);
        return;
    case AGENT_SEND:
        if (n->conn >= 0)
            net_send(s, n->conn, UP, ITEM_MSG, a->msg);
        return;
    case AGENT_SPAWN:
        start_workers(s, acting->node, a->world);
        return;
    case AGENT_KILL:
        for (int k = 0; k < SIM_PROCS_MAX; k++)
            if (n->workers[k].alive)
                kill_worker(s, acting->node, k, a->signo);
        return;
    case AGENT_ASK:
        ask_workers(s, acting->node);
        return;
    case AGENT_CHECK:
        sim_break(s, "node %d checks, unasked", acting->node);
        return;
    case AGENT_SWEEP:
        if (count_alive(n) > 0)
            sim_break(s, "node %d sweeps while workers live", acting->node);
        return;
    case AGENT_NOTE:
        on_note(s, acting->node, a->note);
        return;
    case AGENT_EXIT:
        n->exited = true;
        n->exit_status = a->verdict->status;
        watch_exit(s, acting->node, a->verdict);
        return;
    }
    DDP_WRONG("action");
}

static void schedule_tick(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    int64_t at_us = agent_deadline(&n->agent);
    if (at_us == n->tick_at_us)
        return;
    n->tick_at_us = at_us;
    n->tick_gen++;
    if (at_us == MONO_NEVER)
        return;
    if (at_us < s->now_us)
        at_us = s->now_us;
    sim_push(s, (struct event){.at_us = at_us + sim_rnd(s, 1000),
                               .kind = EV_NODE_TICK,
                               .of = i,
                               .gen = n->tick_gen});
}

static void after_exit(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    n->alive = false;
    if (count_alive(n) > 0)
        sim_break(s, "the launcher of node %d ended and left workers", i);
    net_node_closes(s, i, ITEM_FIN);
    sim_tell(s, n->agent.conf.join.name, "exit %d%s%s", n->exit_status,
             n->agent.verdict.text[0] != '\0' ? ": " : "",
             n->agent.verdict.text);
}

static void step_once(struct sim *s, int i, struct agent_event *ev)
{
    struct node_sim *n = &s->nodes[i];
    struct acting acting = {.s = s, .node = i};
    struct agent_actions out = {.emit = act, .ctx = &acting};
    ev->now_us = s->now_us;
    s->count[SIM_STEPS]++;
    agent_step(&n->agent, ev, &out);
    agent_check(&n->agent);
    if (n->agent.work == AGENT_DONE && n->work_seen != AGENT_DONE)
        watch_done(s, i);
    n->work_seen = n->agent.work;
}

void node_step(struct sim *s, int i, struct agent_event *ev)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive || s->broken[0] != '\0')
        return;
    step_once(s, i, ev);
    if (n->spawn_failed) {
        n->spawn_failed = false;
        struct agent_event failed = {
            .kind = AGENT_SPAWN_FAILED,
            .started = n->started,
            .worker = {.local_rank = n->started,
                       .code = 127,
                       .text = "not found"},
        };
        step_once(s, i, &failed);
    }
    if (n->asked) {
        n->asked = false;
        struct agent_event asked = {.kind = AGENT_ASKED,
                                    .attached = n->attached};
        step_once(s, i, &asked);
    }
    if (n->exited)
        after_exit(s, i);
    else
        schedule_tick(s, i);
}

static void on_tick(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    struct agent_event ev = {.kind = AGENT_TICK};
    n->tick_at_us = -1; /* it is used up */
    node_step(s, i, &ev);
    bool again = n->alive && agent_deadline(&n->agent) <= s->now_us;
    n->ticks_in_a_row = again ? n->ticks_in_a_row + 1 : 0;
    if (n->ticks_in_a_row > TICKS_IN_A_ROW)
        sim_break(s, "node %d has a deadline that no tick clears", i);
}

/* -- the death of a tree --------------------------------------------------- */

/* The agent is gone at once; its workers die within TREE_US, then the FIN. */
void node_tree_dies(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    int64_t us = sim_random(s) ? sim_rnd(s, TREE_US) : 5 * MONO_MS;
    n->alive = false;
    n->killed = true;
    for (int k = 0; k < SIM_PROCS_MAX; k++)
        if (n->workers[k].alive)
            end_worker(s, i, k, us, 0, SIGKILL);
    sim_push(s, (struct event){
                    .at_us = s->now_us + us, .kind = EV_FAREWELL, .of = i});
}

/* The guard's: a frozen agent cannot fence itself. */
static void on_guard(struct sim *s, const struct event *ev)
{
    struct node_sim *n = &s->nodes[ev->of];
    if (!n->alive || !n->agent_frozen || n->freeze_gen != ev->gen ||
        count_alive(n) == 0)
        return;
    s->count[SIM_GUARD_FENCED]++;
    sim_tell(s, n->agent.conf.join.name, "guard: the lease is over");
    n->agent_frozen = false; /* dead processes are not frozen */
    for (int k = 0; k < SIM_PROCS_MAX; k++)
        if (n->workers[k].alive)
            kill_worker(s, ev->of, k, SIGKILL);
    n->alive = false;
    n->killed = true;
    sim_push(s, (struct event){.at_us = s->now_us + KILL_US,
                               .kind = EV_FAREWELL,
                               .of = ev->of});
}

static void on_farewell(struct sim *s, int i)
{
    if (count_alive(&s->nodes[i]) > 0)
        sim_break(s, "the simulator sends a FIN too early");
    net_node_closes(s, i, ITEM_FIN);
}

void node_event(struct sim *s, const struct event *ev)
{
    struct node_sim *n = &s->nodes[ev->of];
    if (ev->kind == EV_NODE_TICK && ev->gen != n->tick_gen)
        return; /* another one took its place */
    if (ev->kind != EV_GUARD && ev->kind != EV_TCP_TIMEOUT &&
        ev->kind != EV_FAREWELL && node_defer(s, ev))
        return;
    switch (ev->kind) {
    case EV_WORKER_END:
        on_worker_end(s, ev);
        return;
    case EV_REAPED:
        on_reaped(s, ev);
        return;
    case EV_NODE_TICK:
        if (n->alive)
            on_tick(s, ev->of);
        return;
    case EV_GUARD:
        on_guard(s, ev);
        return;
    case EV_FAREWELL:
        on_farewell(s, ev->of);
        return;
    case EV_TCP_TIMEOUT:
        if (n->off || (ev->gen == n->cut_gen && (n->cut[UP] || n->cut[DOWN])))
            net_break(s, ev->of, true);
        return;
    case EV_PUMP:
    case EV_SYN:
    case EV_CONNECT_TIMEOUT:
    case EV_SERVER_TICK:
    case EV_SERVER_DIES:
        break;
    }
    DDP_WRONG("no event of a node");
}

/* -- what can be done to a node -------------------------------------------- */

static void fill_join(struct sim *s, int i, struct msg_join *j)
{
    *j = (struct msg_join){
        .version = MSG_VERSION,
        .nodes_min = s->conf.nodes_min,
        .nodes_max = s->conf.nodes_max,
        .nproc = s->conf.nproc > 0 ? s->conf.nproc
                                   : 1 + (int)sim_rnd(s, SIM_PROCS_MAX),
        .max_restarts = s->conf.max_restarts,
        .window_ms = s->conf.window_ms,
        .crash_loop = s->conf.crash_loop,
        .node_strikes = s->conf.node_strikes,
        .cooldown_ms = s->conf.cooldown_ms,
        .scale_ms = s->conf.scale_ms,
        .node_rank = -1,
        .port = 20000 + i,
        .join_ms = s->conf.join_ms,
        .last_call_ms = s->conf.last_call_ms,
        .heartbeat_ms = s->conf.heartbeat_ms,
        .reconnect_ms = s->conf.reconnect_ms,
        .group_rank = -1,
    };
    msg_set(j->run, "sim");
    msg_set(j->prog, "train");
    msg_set(j->backend, "c10d");
    msg_set(j->role, "default");
    (void)snprintf(j->name, sizeof(j->name), "n%d", i);
    (void)snprintf(j->agent, sizeof(j->agent), "%032x", i + 1);
}

int sim_launch(struct sim *s)
{
    ddp_assert(s->n_nodes < SIM_AGENTS_MAX);
    int i = s->n_nodes++;
    struct node_sim *n = &s->nodes[i];
    struct agent_conf conf = {.shutdown_us = s->conf.grace_ms * MONO_MS,
                              .failure_us = s->conf.failure_ms * MONO_MS,
                              .seed = s->conf.seed + (uint64_t)i};
    fill_join(s, i, &conf.join);
    *n = (struct node_sim){.alive = true,
                           .conn = -1,
                           .exit_status = -1,
                           .tick_at_us = -1,
                           .finish_us = -1,
                           .listens = sim_rnd(s, 2) == 1,
                           .gets_on = sim_rnd(s, 2) == 1};
    agent_init(&n->agent, &conf);
    s->count[SIM_LATE_JOIN] += s->n_instances > 0;
    struct agent_event ev = {.kind = AGENT_START};
    node_step(s, i, &ev);
    return i;
}

static const char *name_of(const struct sim *s, int i)
{
    return s->nodes[i].agent.conf.join.name;
}

void sim_worker_dies(struct sim *s, int i, int local, int code, int signo)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->workers[local].alive)
        return;
    s->count[signo != 0 ? SIM_WORKER_SIGNAL : SIM_WORKER_EXIT]++;
    sim_tell(s, "fault", "worker %d of %s ends: code %d signal %d", local,
             name_of(s, i), code, signo);
    end_worker(s, i, local, 0, code, signo);
}

void sim_spawn_fails(struct sim *s, int i)
{
    s->nodes[i].spawn_fails = true;
}

void sim_stubborn(struct sim *s, int i)
{
    s->nodes[i].stubborn = true;
}

void sim_listens(struct sim *s, int i)
{
    s->nodes[i].listens = true;
}

void sim_gets_on(struct sim *s, int i)
{
    s->nodes[i].gets_on = true;
}

void sim_kill(struct sim *s, int i)
{
    if (!s->nodes[i].alive || s->nodes[i].node_frozen)
        return; /* nothing reaches a machine that is paused */
    s->count[SIM_KILLED]++;
    sim_tell(s, "fault", "the launcher of %s is killed", name_of(s, i));
    s->nodes[i].agent_frozen = false;
    node_tree_dies(s, i);
}

void sim_orphan(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive || node_is_frozen(n))
        return;
    s->count[SIM_ORPHANED]++;
    sim_tell(s, "fault", "the guard of %s is killed", name_of(s, i));
    n->orphaned = true;
    struct agent_event ev = {.kind = AGENT_GUARD_DIED};
    node_step(s, i, &ev);
}

static void await_timeout(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    n->cut_gen++;
    sim_push(s, (struct event){.at_us = s->now_us + TCP_FIRST_US +
                                        sim_rnd(s, TCP_MORE_US),
                               .kind = EV_TCP_TIMEOUT,
                               .of = i,
                               .gen = n->cut_gen});
}

void sim_power_off(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (n->off || !n->alive)
        return;
    s->count[SIM_POWER_OFF]++;
    sim_tell(s, "fault", "%s has no power", name_of(s, i));
    n->alive = n->agent_frozen = n->node_frozen = false;
    n->killed = n->off = true;
    for (int k = 0; k < SIM_PROCS_MAX; k++)
        n->workers[k].alive = false;
    await_timeout(s, i);
}

void sim_cut(struct sim *s, int i, bool up, bool down)
{
    struct node_sim *n = &s->nodes[i];
    if (n->cut[UP] || n->cut[DOWN] || n->off)
        return;
    s->count[up && down ? SIM_CUT : up ? SIM_CUT_UP : SIM_CUT_DOWN]++;
    sim_tell(s, "fault", "%s is cut off%s", name_of(s, i),
             up && down ? ""
             : up       ? ": it is not heard"
                        : ": it hears nothing");
    n->cut[UP] = up;
    n->cut[DOWN] = down;
    await_timeout(s, i);
}

void sim_reject(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive || n->cut[UP] || n->cut[DOWN] || n->off)
        return;
    s->count[SIM_REJECTED]++;
    sim_tell(s, "fault", "a firewall rejects what %s sends", name_of(s, i));
    n->cut[UP] = n->rejected = true;
    await_timeout(s, i);
    net_reject(s, i);
}

void sim_heal(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->cut[UP] && !n->cut[DOWN])
        return;
    s->count[SIM_HEALED]++;
    sim_tell(s, "fault", "%s is reached again", name_of(s, i));
    n->cut[UP] = n->cut[DOWN] = n->rejected = false;
    net_pump_node(s, i);
}

void sim_reset(struct sim *s, int i)
{
    sim_tell(s, "fault", "the connection of %s breaks", name_of(s, i));
    net_break(s, i, false);
}

void sim_move(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive)
        return;
    s->count[SIM_MOVED]++;
    sim_tell(s, "fault", "%s gets another address", name_of(s, i));
    n->moves++;
    net_break(s, i, false);
}

void sim_freeze_agent(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive || node_is_frozen(n))
        return;
    s->count[SIM_AGENT_FROZEN]++;
    sim_tell(s, "fault", "the agent of %s is stopped", name_of(s, i));
    n->agent_frozen = true;
    n->freeze_gen++;
    int64_t lease_us = agent_lease_until_us(&n->agent);
    if (lease_us == MONO_NEVER)
        return;
    if (lease_us < s->now_us)
        lease_us = s->now_us;
    sim_push(s, (struct event){.at_us = lease_us,
                               .kind = EV_GUARD,
                               .of = i,
                               .gen = n->freeze_gen});
}

void sim_freeze_node(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive || node_is_frozen(n))
        return;
    s->count[SIM_NODE_FROZEN]++;
    sim_tell(s, "fault", "%s is paused", name_of(s, i));
    n->node_frozen = true;
    n->freeze_gen++;
}

void sim_thaw(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!node_is_frozen(n))
        return;
    sim_tell(s, "fault", "%s goes on", name_of(s, i));
    if (n->node_frozen) /* what it finds out of date it kills first */
        n->exempt_until_us = s->now_us + KILL_US + MONO_MS;
    n->agent_frozen = n->node_frozen = false;
    int n_deferred = n->n_deferred;
    n->n_deferred = 0;
    for (int k = 0; k < n_deferred; k++) {
        struct event ev = n->deferred[k];
        ev.at_us = s->now_us + sim_rnd(s, 200);
        sim_push(s, ev);
    }
    net_pump_node(s, i);
    n->tick_at_us = -1;
    schedule_tick(s, i);
}

void sim_signal(struct sim *s, int i, int signo)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive || node_is_frozen(n))
        return;
    s->count[signo == SIGINT ? SIM_SIGINT : SIM_SIGTERM]++;
    sim_tell(s, "fault", "%s gets signal %d", name_of(s, i), signo);
    struct agent_event ev = {.kind = AGENT_SIGNAL, .signo = signo};
    node_step(s, i, &ev);
}

void sim_finish_node(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    n->finish_us = 0;
    for (int k = 0; k < SIM_PROCS_MAX; k++)
        if (n->workers[k].alive)
            end_worker(s, i, k, sim_rnd(s, 500000), 0, 0);
}

void sim_finish(struct sim *s, int64_t after_us)
{
    s->finish_us = after_us;
    for (int i = 0; i < s->n_nodes; i++)
        for (int k = 0; k < SIM_PROCS_MAX; k++)
            if (s->nodes[i].workers[k].alive)
                end_worker(s, i, k, after_us + sim_rnd(s, 500000), 0, 0);
}
