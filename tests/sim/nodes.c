/*
 * A node: the agent's core, workers that end as told, a guard that holds the
 * lease, and what is left when they die. The rule that all rests on: farewell
 * is said when the last worker is dead, not before.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

#define TERM_US (20 * MONO_MS)  /* a worker that obeys SIGTERM */
#define STEP_US (400 * MONO_MS) /* one that leaves at a step */
#define TREE_US (50 * MONO_MS)  /* all descendants of a killed launcher */
#define DOWN_US (500 * MONO_MS) /* a death that is known as it begins */

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

static struct event event_of_worker(const struct sim *s,
                                    int i,
                                    int local,
                                    int64_t after_us,
                                    int code,
                                    int signo)
{
    return (struct event){.at_us = s->now_us + after_us,
                          .kind = EV_WORKER_END,
                          .of = i,
                          .gen = s->nodes[i].workers[local].gen,
                          .a = local,
                          .b = code,
                          .c = signo};
}

void node_end_worker(
    struct sim *s, int i, int local, int64_t after_us, int code, int signo)
{
    sim_push(s, event_of_worker(s, i, local, after_us, code, signo));
}

void node_worker_fails(struct sim *s, int i, int local, int code, int signo)
{
    struct worker *w = &s->nodes[i].workers[local];
    int64_t after_us = 0;
    if (sim_random(s) && !w->dying && sim_rnd(s, 2) == 0) {
        struct event dying = event_of_worker(s, i, local, 0, code, signo);
        dying.kind = EV_WORKER_DYING;
        sim_push(s, dying);
        w->dying = true;
        after_us = MONO_MS + sim_rnd(s, DOWN_US);
    }
    node_end_worker(s, i, local, after_us, code, signo);
}

static void start_workers(struct sim *s, int i, const struct msg_world *w)
{
    struct node_sim *n = &s->nodes[i];
    int nproc = (int)n->agent.conf.join.nproc;
    int64_t round = round_spawn(s, i, w);
    int instance = watch_instance(s, w->instance);
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
        worker->dying = false;
        worker->gen++;
        worker->instance = instance;
        worker->round = round;
        int64_t life_us = n->finish_us >= 0 ? n->finish_us : s->finish_us;
        if (life_us >= 0)
            node_end_worker(s, i, k, life_us + sim_rnd(s, 200000), 0, 0);
    }
}

static void kill_worker(struct sim *s, int i, int local, int signo)
{
    const struct node_sim *n = &s->nodes[i];
    if (signo == SIGKILL) {
        int64_t us = sim_random(s) ? sim_rnd(s, KILL_US) : MONO_MS;
        node_end_worker(s, i, local, us, 0, SIGKILL);
        return;
    }
    if (n->stubborn || n->workers[local].dying)
        return;
    int64_t us = sim_random(s) ? sim_rnd(s, TERM_US) : 10 * MONO_MS;
    switch (sim_rnd(s, 3)) {
    case 0:
        node_end_worker(s, i, local, us, 0, signo);
        return;
    case 1:
        node_end_worker(s, i, local, us, 0, 0);
        return;
    default:
        node_end_worker(s, i, local, us, 1, 0);
    }
}

static void
tell_end(struct sim *s, const struct event *ev, enum agent_event_kind kind)
{
    struct agent_event aev = {
        .kind = kind,
        .worker = {.local_rank = ev->a,
                   .pid = 1000 + ev->of * 100 + ev->a,
                   .code = ev->b,
                   .progressed = s->nodes[ev->of].gets_on,
                   .signal = ev->c},
    };
    node_step(s, ev->of, &aev);
}

static void on_worker_dying(struct sim *s, const struct event *ev)
{
    const struct worker *w = &s->nodes[ev->of].workers[ev->a];
    if (!w->alive || w->gen != ev->gen)
        return; /* its launcher stood still, and finds it dead */
    s->count[SIM_WORKER_DYING]++;
    tell_end(s, ev, AGENT_WORKER_FAILED);
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
        else if (!n->stubborn && !n->workers[k].dying)
            node_end_worker(s, i, k, us, 0, SIGTERM);
    }
}

bool node_is_at_its_own(const struct sim *s, int i, int server)
{
    return server == s->nodes[i].machine && node_serves(s, i);
}

/* What binds a node must have been recorded for its guard before, unless that
 * says nothing of its vote. */
static void check_recorded(struct sim *s, int i, const struct msg *m)
{
    const struct msg_vote *f = &s->nodes[i].recorded;
    bool is_promise = m->kind == MSG_KIND_promise && f->term.count > 0;
    bool is_accept = m->kind == MSG_KIND_accept;
    if ((is_promise && term_cmp(&f->term, &m->promise.term) != 0) ||
        (is_accept && (f->round != m->accept.round ||
                       term_cmp(&f->round_term, &m->accept.term) != 0)))
        sim_break(s, "node %d says '%s', and has not recorded it", i,
                  msg_name(m->kind));
}

/* As the shell does, it says how old the launcher is, and whether the server is
 * its own. */
static void send_msg(struct sim *s, int i, const struct msg *m)
{
    const struct node_sim *n = &s->nodes[i];
    struct msg said = *m;
    check_recorded(s, i, m);
    if (m->kind == MSG_KIND_accept)
        round_accept(s, i, &m->accept);
    if (m->kind == MSG_KIND_join) {
        said.join.age_ms = (s->now_us - n->born_us) / MONO_MS;
        said.join.hosts = node_is_at_its_own(s, i, s->conns[n->conn].server);
    }
    net_send(s, n->conn, UP, ITEM_MSG, &said);
}

static void act(void *ctx, const struct agent_action *a)
{
    struct acting *acting = ctx;
    struct sim *s = acting->s;
    struct node_sim *n = &s->nodes[acting->node];
    switch (a->kind) {
    case AGENT_CONNECT:
        dial_connect(s, acting->node, a);
        return;
    case AGENT_DISCONNECT:
        net_node_closes(s, acting->node, ITEM_RST);
        return;
    case AGENT_LOOK:
        beside_ask(s, acting->node, a);
        return;
    case AGENT_LOOK_OVER:
        beside_ask_no_more(s, acting->node);
        return;
    case AGENT_RECORD:
        n->recorded = a->msg->vote;
        return;
    case AGENT_SEND:
        if (n->conn >= 0)
            send_msg(s, acting->node, a->msg);
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

void node_schedule_tick(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    int64_t at_us = clock_when(s, n->machine, agent_deadline(&n->agent));
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

bool node_serves(const struct sim *s, int i)
{
    return s->machines[s->nodes[i].machine].tenant == i;
}

void node_dies(const struct sim *s, struct node_sim *n)
{
    n->alive = false;
    n->died_us = s->now_us;
}

static void after_exit(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    node_dies(s, n);
    if (count_alive(n) > 0)
        sim_break(s, "the launcher of node %d ended and left workers", i);
    net_node_closes(s, i, ITEM_FIN);
    /* A server that is late or stopped is killed, before the guard says that
     * all is dead here; so is one that has no end to tell to other nodes. */
    if (node_serves(s, i) && (n->orphaned || !n->agent.verdict.ended ||
                              server_is_frozen(s, n->machine)))
        server_kill(s, n->machine);
    beside_farewell(s, i);
    if (node_serves(s, i))
        server_try_end(s, n->machine);
    sim_tell(s, n->agent.conf.join.name, "exit %d%s%s", n->exit_status,
             n->agent.verdict.text[0] != '\0' ? ": " : "",
             n->agent.verdict.text);
}

static void step_once(struct sim *s, int i, struct agent_event *ev)
{
    struct node_sim *n = &s->nodes[i];
    struct acting acting = {.s = s, .node = i};
    struct agent_actions out = {.emit = act, .ctx = &acting};
    ev->now_us = clock_of(s, n->machine, s->now_us);
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
        node_schedule_tick(s, i);
}

static void on_tick(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    struct agent_event ev = {.kind = AGENT_TICK};
    n->tick_at_us = -1; /* it is used up */
    node_step(s, i, &ev);
    bool again = n->alive && clock_when(s, n->machine,
                                        agent_deadline(&n->agent)) <= s->now_us;
    n->ticks_in_a_row = again ? n->ticks_in_a_row + 1 : 0;
    if (n->ticks_in_a_row > TICKS_IN_A_ROW)
        sim_break(s, "node %d has a deadline that no tick clears", i);
}

/* -- the death of a tree --------------------------------------------------- */

/* The agent is gone at once, and its connections end; its workers die within
 * TREE_US, then the guard says so. */
void node_tree_dies(struct sim *s, int i)
{
    struct node_sim *n = &s->nodes[i];
    int64_t us = sim_random(s) ? sim_rnd(s, TREE_US) : 5 * MONO_MS;
    node_dies(s, n);
    n->killed = true;
    n->unproven = s->conf.kills_unproven;
    net_node_closes(s, i, sim_rnd(s, 2) == 0 ? ITEM_FIN : ITEM_RST);
    if (node_serves(s, i))
        server_kill(s, n->machine);
    for (int k = 0; k < SIM_PROCS_MAX; k++)
        if (n->workers[k].alive)
            node_end_worker(s, i, k, us, 0, SIGKILL);
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
    node_dies(s, n);
    n->killed = true;
    if (node_serves(s, ev->of))
        server_kill(s, n->machine);
    sim_push(s, (struct event){.at_us = s->now_us + KILL_US,
                               .kind = EV_FAREWELL,
                               .of = ev->of});
}

static void on_farewell(struct sim *s, int i)
{
    if (count_alive(&s->nodes[i]) > 0)
        sim_break(s, "the simulator says farewell too early");
    net_node_closes(s, i, ITEM_FIN);
    beside_farewell(s, i);
}

void node_event(struct sim *s, const struct event *ev)
{
    struct node_sim *n = &s->nodes[ev->of];
    if (ev->kind == EV_NODE_TICK && ev->gen != n->tick_gen)
        return; /* another one took its place */
    if (ev->kind != EV_GUARD && ev->kind != EV_FAREWELL && node_defer(s, ev))
        return;
    switch (ev->kind) {
    case EV_WORKER_DYING:
        on_worker_dying(s, ev);
        return;
    case EV_WORKER_END:
        on_worker_end(s, ev);
        return;
    case EV_REAPED:
        tell_end(s, ev, AGENT_WORKER_EXIT);
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
    case EV_SERVES:
        beside_tick(s, ev->of);
        return;
    case EV_TCP_TIMEOUT:
    case EV_PUMP:
    case EV_SYN:
    case EV_CONNECT_TIMEOUT:
    case EV_SERVER_TICK:
    case EV_SERVER_DIES:
        break;
    }
    DDP_WRONG("no event of a node");
}
