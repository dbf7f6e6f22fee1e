/*
 * What can be done to a node: launched, killed, cut off, frozen, told to go.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

/* -- what can be done to a node -------------------------------------------- */

static void fill_join(struct sim *s, int i, int machine, struct msg_join *j)
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
        .answered_ms = -1,
        .serve_port = SERVE_PORT + machine,
    };
    msg_set(j->run, "sim");
    msg_set(j->options, "train");
    msg_set(j->role, "default");
    (void)snprintf(j->name, sizeof(j->name), "n%d", machine);
    (void)snprintf(j->agent, sizeof(j->agent), "%016x%016x", i + 1, i + 1);
    (void)snprintf(j->owns, sizeof(j->owns), "p%08x%08x", machine + 1,
                   machine + 1);
}

static int launch_on(struct sim *s, int machine)
{
    ddp_assert(s->n_nodes < SIM_AGENTS_MAX);
    int i = s->n_nodes++;
    struct node_sim *n = &s->nodes[i];
    struct agent_conf conf = {.shutdown_us = s->conf.grace_ms * MONO_MS,
                              .failure_us = s->conf.failure_ms * MONO_MS,
                              .death_us = s->conf.failure_ms * MONO_MS,
                              .endpoints = s->conf.endpoints,
                              .seed = s->conf.seed + (uint64_t)i};
    fill_join(s, i, machine < 0 ? i : machine, &conf.join);
    *n = (struct node_sim){.alive = true,
                           .born_us = s->now_us,
                           .conn = -1,
                           .exit_status = -1,
                           .tick_at_us = -1,
                           .server = -1,
                           .next_places = {-1, -1, -1},
                           .finish_us = -1,
                           .machine = machine < 0 ? i : machine,
                           .listens = sim_rnd(s, 2) == 1,
                           .gets_on = sim_rnd(s, 2) == 1};
    s->machines[n->machine].tenant = i;
    agent_init(&n->agent, &conf);
    s->count[SIM_LATE_JOIN] += s->n_instances > 0;
    struct agent_event ev = {.kind = AGENT_START};
    node_step(s, i, &ev);
    beside_tick(s, i);
    return i;
}

int sim_launch(struct sim *s)
{
    return launch_on(s, -1);
}

/* Less a margin for clocks that differ. */
bool sim_may_launch(const struct sim *s)
{
    int64_t within_us = s->conf.heartbeat_ms * MONO_MS * 11 / 10;
    int n = 0;
    for (int i = 0; i < s->n_nodes; i++)
        n += s->nodes[i].alive ||
             s->now_us < mono_after(s->nodes[i].died_us, within_us);
    return 2 * s->conf.nodes_min <= s->conf.nodes_max ||
           n + 1 < 2 * s->conf.nodes_min;
}

/* What its predecessor left is gone: the machine began anew, or the guard had
 * ended all before its last word. */
int sim_launch_again(struct sim *s, int i)
{
    const struct node_sim *n = &s->nodes[i];
    int machine = n->machine;
    int before = s->machines[machine].tenant;
    if (s->nodes[before].alive || !s->nodes[before].killed ||
        sim_workers(s, before) > 0 || server_is_up(s, machine))
        return -1;
    s->count[SIM_LAUNCHED_AGAIN]++;
    sim_tell(s, "fault", "n%d is launched again", machine);
    return launch_on(s, machine);
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
    node_worker_fails(s, i, local, code, signo);
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

void sim_power_off(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (n->off || !n->alive)
        return;
    s->count[SIM_POWER_OFF]++;
    sim_tell(s, "fault", "%s has no power", name_of(s, i));
    node_dies(s, n);
    n->agent_frozen = n->node_frozen = false;
    n->killed = n->off = true;
    for (int k = 0; k < SIM_PROCS_MAX; k++)
        n->workers[k].alive = false;
    if (node_serves(s, i))
        server_power_off(s, n->machine);
    net_await_timeouts(s);
}

void sim_cut(struct sim *s, int i, bool up, bool down)
{
    if (!s->nodes[i].off)
        sim_cut_machine(s, s->nodes[i].machine, up, down);
}

void sim_heal(struct sim *s, int i)
{
    sim_heal_machine(s, s->nodes[i].machine);
}

void sim_reset(struct sim *s, int i)
{
    sim_tell(s, "fault", "the connection of %s breaks", name_of(s, i));
    net_break_node(s, i);
}

void sim_move(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!n->alive)
        return;
    s->count[SIM_MOVED]++;
    sim_tell(s, "fault", "%s gets another address", name_of(s, i));
    s->machines[n->machine].moves++;
    net_break_node(s, i);
    if (node_serves(s, i))
        net_break_server(s, n->machine);
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
    int64_t lease_us =
        clock_when(s, n->machine, agent_lease_until_us(&n->agent));
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
    if (node_serves(s, i))
        server_freeze(s, n->machine);
}

void sim_thaw(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    if (!node_is_frozen(n))
        return;
    sim_tell(s, "fault", "%s goes on", name_of(s, i));
    if (n->node_frozen) /* what it finds out of date it kills first */
        n->exempt_until_us = s->now_us + KILL_US + MONO_MS;
    bool all = n->node_frozen || s->servers[n->machine].of_frozen;
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
    node_schedule_tick(s, i);
    if (node_serves(s, i) && all)
        server_thaw(s, n->machine);
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
            node_end_worker(s, i, k, sim_rnd(s, 500000), 0, 0);
}

void sim_finish(struct sim *s, int64_t after_us)
{
    s->finish_us = after_us;
    for (int i = 0; i < s->n_nodes; i++)
        for (int k = 0; k < SIM_PROCS_MAX; k++)
            if (s->nodes[i].workers[k].alive)
                node_end_worker(s, i, k, after_us + sim_rnd(s, 500000), 0, 0);
}
