/*
 * One loop, one thread. Callbacks of link, workers, guard, timers and signals
 * each become one event (step); the core's actions come back through act,
 * which never steps: what fails at once is kept in `pending` and told when the
 * step is over.
 *
 * The end: AGENT_EXIT closes the link in order; a server of ours is waited for
 * (other nodes may not have heard of the end yet), then the loop stops.
 */
#include "launcher/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/agent/agent.h"
#include "launcher/health/health.h"
#include "launcher/output/output.h"
#include "launcher/proc/guard.h"
#include "launcher/proc/sweep.h"
#include "launcher/proc/tmpfolder.h"
#include "launcher/rdzv/client.h"
#include "launcher/rdzv/store_host.h"
#include "launcher/report/event_log.h"
#include "launcher/report/report.h"
#include "launcher/worker/first_progress.h"
#include "launcher/worker/hang_watch.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/open_files.h"

#define CHORE_MS 1000

struct drive {
    const struct conf *conf;
    uv_loop_t loop;
    struct agent agent;
    struct link *link;
    struct workers *workers;
    struct output *output;
    struct event_log event_log;
    struct hang_watch *hang_watch;
    struct first_progress *first_progress; /* NULL: nobody asks for it */
    struct health *health;
    int guard_fd;
    bool debug;
    int64_t start_us;
    uv_timer_t timer;
    uv_poll_t guard_poll;
    uv_signal_t sigchld;
    uv_timer_t chore; /* once, when the workers have been running a moment */

    struct store_host store;
    struct sweep sweep;

    bool asked; /* pending as well */
    int attached;
    bool spawn_failed; /* pending: told when the step is over */
    int spawned;
    struct ddp_err spawn_err;

    bool exit_pending; /* until what workers left behind is gone */
    bool exiting;
    struct agent_verdict verdict;
};

static void step(struct drive *d, struct agent_event *ev);

/* -- the core's actions ---------------------------------------------------- */

static void on_chore(uv_timer_t *timer)
{
    const struct drive *d = timer->data;
    tmpfolder_sweep(workers_temporary(d->workers));
}

static void start_workers(struct drive *d, const struct msg_world *world)
{
    store_host_renew(&d->store, world->round);
    event_log_world(&d->event_log, world, mono_now_us());
    guard_wait();
    d->spawn_failed =
        workers_start(d->workers, world, &d->spawned, &d->spawn_err) != 0;
    guard_folder(workers_temporary(d->workers));
    if (d->event_log.rounds == 1)
        (void)uv_timer_start(&d->chore, on_chore, CHORE_MS, 0);
    hang_watch_start(d->hang_watch, world->base_rank);
    first_progress_watch(d->first_progress);
}

static void check_health(struct drive *d)
{
    static pid_t pids[HEALTH_PIDS_MAX]; /* large */
    int n = workers_last_pids(d->workers, pids, HEALTH_PIDS_MAX);
    health_start(d->health, pids, n);
}

static int helpers(void *ctx, pid_t pids[SWEEP_KEEP_MAX])
{
    const struct drive *d = ctx;
    pids[0] = link_server(d->link);
    pids[1] = d->store.pid;
    pids[2] = output_pid(d->output);
    return 3;
}

static void on_server_late(uv_timer_t *timer)
{
    struct drive *d = timer->data;
    link_server_kill(d->link);
    uv_stop(&d->loop);
}

/* Other nodes may still have to hear of the end from our server. */
static void leave_loop(struct drive *d)
{
    d->exiting = true;
    store_host_kill(&d->store);
    health_stop(d->health);
    link_finish(d->link);
    (void)uv_timer_stop(&d->timer);
    if (link_server(d->link) > 0 && d->verdict.ended)
        (void)uv_timer_start(&d->timer, on_server_late,
                             (uint64_t)(d->conf->close_timeout_us / MONO_MS),
                             0);
    else
        uv_stop(&d->loop);
}

/* The end of our connection says that all here is dead, so it waits. */
static void leave(struct drive *d, const struct agent_verdict *v)
{
    d->verdict = *v;
    d->exit_pending = d->sweep.busy;
    if (!d->exit_pending)
        leave_loop(d);
}

static void on_swept(void *ctx)
{
    struct drive *d = ctx;
    if (d->exit_pending)
        leave_loop(d);
}

static const struct sweep_handler sweep_handler = {
    .keep = helpers,
    .on_swept = on_swept,
};

static void send_msg(struct drive *d, const struct msg *m)
{
    if (m->kind == MSG_KIND_ready)
        store_host_end(&d->store);
    if (m->kind != MSG_KIND_join) {
        link_send(d->link, m);
        return;
    }
    struct msg join = *m;
    join.join.hosts = link_server(d->link) > 0;
    if (join.join.hosts && d->store.give >= 0)
        join.join.port = link_port(d->link);
    if (join.join.addr[0] == '\0')
        link_local_addr(d->link, join.join.addr, sizeof(join.join.addr));
    link_send(d->link, &join);
}

static void act(void *ctx, const struct agent_action *a)
{
    struct drive *d = ctx;
    switch (a->kind) {
    case AGENT_CONNECT:
        link_connect(d->link);
        return;
    case AGENT_DISCONNECT:
        link_disconnect(d->link);
        return;
    case AGENT_SEND:
        send_msg(d, a->msg);
        return;
    case AGENT_SPAWN:
        start_workers(d, a->world);
        return;
    case AGENT_KILL:
        if (workers_exits(a->signo))
            hang_watch_stop(d->hang_watch);
        workers_kill(d->workers, a->signo);
        return;
    case AGENT_ASK:
        hang_watch_stop(d->hang_watch);
        d->asked = true;
        d->attached = workers_ask(d->workers, a->graceful);
        return;
    case AGENT_CHECK:
        check_health(d);
        return;
    case AGENT_SWEEP:
        hang_watch_stop(d->hang_watch);
        if (a->gentle)
            sweep_gently(&d->sweep);
        else
            sweep_hard(&d->sweep);
        return;
    case AGENT_NOTE:
        report_note(d->conf, a->note, &d->event_log, d->debug);
        event_log_note(&d->event_log, a->note, mono_now_us());
        return;
    case AGENT_EXIT:
        leave(d, a->verdict);
        return;
    }
    DDP_WRONG("action");
}

/* -- events ---------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct agent_event ev = {.kind = AGENT_TICK};
    step(timer->data, &ev);
}

static void arm(struct drive *d)
{
    int64_t at_us = agent_deadline(&d->agent);
    if (d->exiting)
        return;
    if (at_us == MONO_NEVER) {
        (void)uv_timer_stop(&d->timer);
        return;
    }
    uint64_t ms = (uint64_t)mono_ms_until(mono_now_us(), at_us);
    uv_update_time(&d->loop);
    (void)uv_timer_start(&d->timer, on_timer, ms, 0);
}

static void step_once(struct drive *d, struct agent_event *ev)
{
    struct agent_actions out = {.emit = act, .ctx = d};
    ev->now_us = mono_now_us();
    agent_step(&d->agent, ev, &out);
}

static void tell_spawn_failure(struct drive *d)
{
    struct agent_event ev = {
        .kind = AGENT_SPAWN_FAILED,
        .started = d->spawned,
        .worker = {.local_rank = d->spawned,
                   .code = ddp_code_exit(d->spawn_err.code),
                   .text = d->spawn_err.text},
    };
    d->spawn_failed = false;
    log_warnx("%s", d->spawn_err.text);
    step_once(d, &ev);
}

static void step(struct drive *d, struct agent_event *ev)
{
    step_once(d, ev);
    if (d->spawn_failed)
        tell_spawn_failure(d);
    if (d->asked) {
        struct agent_event asked = {.kind = AGENT_ASKED,
                                    .attached = d->attached};
        d->asked = false;
        step_once(d, &asked);
    }
    guard_lease(d->guard_fd, agent_lease_until_us(&d->agent));
    arm(d);
}

static void on_link_up(void *ctx)
{
    struct drive *d = ctx;
    struct agent_event ev = {.kind = AGENT_LINK_UP};
    event_log_joined(&d->event_log, mono_now_us());
    step(d, &ev);
    output_prepare(d->output); /* while the join is on its way */
}

static void on_link_msg(void *ctx, const struct msg *m)
{
    struct drive *d = ctx;
    struct agent_event ev = {.kind = AGENT_MSG, .msg = m};
    if (m->kind == MSG_KIND_members)
        store_host_members(&d->store, &m->members);
    step(d, &ev);
}

static void on_link_down(void *ctx, bool refused, const char *why)
{
    struct agent_event ev = {
        .kind = AGENT_LINK_DOWN, .refused = refused, .text = why};
    step(ctx, &ev);
}

static const struct link_handler link_handler = {
    .on_up = on_link_up,
    .on_msg = on_link_msg,
    .on_down = on_link_down,
};

#define HELPERS 5
typedef void died_fn(struct drive *d);

static void server_died(struct drive *d)
{
    link_server_ended(d->link);
    if (d->exiting)
        uv_stop(&d->loop); /* it was waited for */
}

static void store_died(struct drive *d)
{
    log_warnx("the workers' store ended unexpectedly; a new, empty one takes "
              "its place");
    store_host_fell(&d->store, d->agent.world.round);
}

static void relay_died(struct drive *d)
{
    (void)waitpid(output_pid(d->output), NULL, WNOHANG);
    output_restart(d->output);
}

static void hang_watch_helper_died(struct drive *d)
{
    hang_watch_helper_ended(d->hang_watch);
}

static void health_helper_died(struct drive *d)
{
    health_helper_ended(d->health);
}

/* Whatever died that is no worker: our own processes, and orphans. */
static void reap_others(struct drive *d)
{
    static died_fn *const died[] = {server_died, store_died, relay_died,
                                    hang_watch_helper_died, health_helper_died};
    for (;;) {
        const pid_t ours[HELPERS] = {
            link_server(d->link), d->store.pid, output_pid(d->output),
            hang_watch_helper(d->hang_watch), health_helper(d->health)};
        pid_t pid = workers_reap_orphans(d->workers, ours, HELPERS);
        if (pid == 0)
            return;
        for (int i = 0; i < HELPERS; i++)
            if (ours[i] == pid)
                died[i](d);
    }
}

/* Whoever was frozen and finds the lease over fences first: that the workers
 * are dead then is the guard's doing, and no failure of theirs. */
static void on_worker_exit(void *ctx, const struct agent_worker *w)
{
    struct drive *d = ctx;
    struct agent_event tick = {.kind = AGENT_TICK};
    struct agent_event ev = {.kind = AGENT_WORKER_EXIT, .worker = *w};
    first_progress_exited(d->first_progress, w);
    event_log_exited(&d->event_log, w);
    if (mono_now_us() >= agent_lease_until_us(&d->agent))
        step(d, &tick);
    step(d, &ev);
    reap_others(d); /* what the dead worker's SIGCHLD could not look behind */
}

static void on_first_beat(void *ctx, int local_rank, int64_t pid, int64_t step)
{
    struct drive *d = ctx;
    event_log_first_progress(&d->event_log, local_rank, pid, step);
}

static const struct first_progress_handler first_progress_handler = {
    .on_beat = on_first_beat,
};

static void on_worker_start(void *ctx, int local_rank, int64_t pid)
{
    struct drive *d = ctx;
    event_log_started(&d->event_log, local_rank, pid);
}

static const struct workers_handler workers_handler = {
    .on_exit = on_worker_exit,
    .on_start = on_worker_start,
};

static void
on_hang(void *ctx, const struct hang_verdict *v, int64_t pid, const char *text)
{
    struct agent_event ev = {
        .kind = AGENT_WORKER_HUNG,
        .silent_us = v->silent_us,
        .worker = {.local_rank = v->local_rank,
                   .pid = pid,
                   .code = ddp_code_exit(DDP_E_HANG),
                   .text = text},
    };
    step(ctx, &ev);
}

static void on_checked(void *ctx, bool fit, const char *why)
{
    struct agent_event ev = {.kind = AGENT_CHECKED, .fit = fit, .text = why};
    step(ctx, &ev);
}

static const struct health_handler health_handler = {.on_checked = on_checked};

static const struct hang_watch_handler hang_watch_handler = {.on_hang =
                                                                 on_hang};

static void on_sigchld(uv_signal_t *handle, int signo)
{
    struct drive *d = handle->data;
    (void)signo;
    reap_others(d);
    sweep_look(&d->sweep);
}

static void pause_workers(struct drive *d, bool paused)
{
    hang_watch_pause(d->hang_watch, paused);
    workers_pause(d->workers, paused);
}

static void hear_guard(struct drive *d, const struct guard_word *word)
{
    struct agent_event ev = {.kind = AGENT_SIGNAL, .signo = word->signo};
    if (word->kind == GUARD_SIGNAL) {
        step(d, &ev);
        if (d->exit_pending && workers_exits(word->signo))
            sweep_hurry(&d->sweep);
    } else if (word->kind == GUARD_PAUSE || word->kind == GUARD_RESUME) {
        pause_workers(d, word->kind == GUARD_PAUSE);
    }
}

static void on_guard(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct drive *d = poll->data;
    struct guard_word word;
    ssize_t n = recv(d->guard_fd, &word, sizeof(word), MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(word)) {
        hear_guard(d, &word);
    } else if (status != 0 || n >= 0) { /* else nothing is there after all */
        struct agent_event ev = {.kind = AGENT_ORPHANED};
        (void)uv_poll_stop(poll);
        step(d, &ev);
        sweep_hurry(&d->sweep);
    }
}

/* -- starting -------------------------------------------------------------- */

static void fill_join(const struct drive *d, int store_port, struct msg_join *j)
{
    const struct conf *c = d->conf;
    char name[256] = "";
    (void)gethostname(name, sizeof(name) - 1);
    *j = (struct msg_join){
        .version = MSG_VERSION,
        .nodes_min = c->nnodes_min,
        .nodes_max = c->nnodes_max,
        .nproc = c->nproc,
        .max_restarts = c->max_restarts,
        .window_ms = c->restart_window_us / MONO_MS,
        .crash_loop = c->crash_loop,
        .node_strikes = c->node_strikes,
        .cooldown_ms = c->node_strikes > 0 ? c->cooldown_us / MONO_MS : 0,
        .scale_ms = c->scale_interval_us / MONO_MS,
        .node_rank = c->node_rank,
        .port = store_port,
        .members = c->store_for_nodes,
        .join_ms = c->join_timeout_us / MONO_MS,
        .last_call_ms = c->last_call_timeout_us / MONO_MS,
        .heartbeat_ms = c->heartbeat_timeout_us / MONO_MS,
        .reconnect_ms = c->reconnect_timeout_us / MONO_MS,
    };
    msg_set(j->run, c->run_id);
    rng_id(j->agent);
    msg_set(j->name, name);
    msg_set(j->backend, c->backend == CONF_STATIC ? "static" : "c10d");
    msg_set(j->prog, c->prog_name);
    msg_set(j->role, c->role);
    msg_set(j->addr, c->local_addr);
}

static void open_handles(struct drive *d)
{
    (void)uv_timer_init(&d->loop, &d->timer); /* cannot fail */
    (void)uv_timer_init(&d->loop, &d->chore);
    int rc = uv_poll_init(&d->loop, &d->guard_poll, d->guard_fd);
    if (rc == 0)
        rc = uv_poll_start(&d->guard_poll, UV_READABLE | UV_DISCONNECT,
                           on_guard);
    if (rc == 0)
        rc = uv_signal_init(&d->loop, &d->sigchld);
    if (rc == 0)
        rc = uv_signal_start(&d->sigchld, on_sigchld, SIGCHLD);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "cannot watch over workers: %s",
               uv_strerror(rc));
    d->timer.data = d->guard_poll.data = d->sigchld.data = d->chore.data = d;
}

/* All that it drives. What is needed to join comes to `join`. */
static void open_rooms(struct drive *d,
                       const struct spawn_origin *origin,
                       struct msg_join *join)
{
    struct ddp_err err;
    int port = store_host_open(&d->store, &d->loop, d->conf, &err);
    if (port < 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    fill_join(d, port, join);
    sweep_init(&d->sweep, &d->loop, &sweep_handler, d);
    d->link = link_new(&d->loop, d->conf, d->guard_fd, &link_handler, d,
                       d->store.give, d->debug);
    d->output = output_new(d->conf);
    event_log_init(&d->event_log, d->conf, d->output, join->name, d->start_us);
    d->workers =
        workers_new(&d->loop, d->conf, origin, d->output, &workers_handler, d);
    if (d->conf->output.events[0] != '\0')
        d->first_progress = first_progress_new(
            &d->loop, d->workers, d->conf->nproc, &first_progress_handler, d);
    d->health = health_new(&d->loop, d->conf, &health_handler, d);
    d->hang_watch =
        hang_watch_new(&d->loop, d->conf, d->workers, &hang_watch_handler, d);
}

/* All is over: tells whoever wants to know, and cleans up. */
static void close_rooms(struct drive *d, const char *node)
{
    const struct agent_verdict *v = &d->verdict;
    const char *folder = workers_folder(d->workers);
    event_log_finish(&d->event_log, v->status, mono_now_us());
    output_finish(d->output, v->status != 0, d->guard_fd);
    report_end(d->conf, v, &d->event_log, folder);
    if (d->conf->output.report[0] != '\0')
        report_write(d->conf, v, &d->event_log, folder, d->guard_fd);
    const struct msg_end *end = &v->end;
    if (v->ended && strcmp(end->node, node) == 0)
        workers_pass_on(d->workers, (int)end->local_rank, (pid_t)end->pid,
                        (int)(end->signal > 0 ? -end->signal : end->code));
    workers_clean(d->workers);
}

int drive_run(const struct conf *conf,
              const struct spawn_origin *origin,
              int guard_fd)
{
    static struct drive d; /* large; there is one */
    struct agent_conf ac = {.shutdown_us = conf->shutdown_timeout_us,
                            .last_words = conf->signals,
                            .checks = conf->health_check[0] != '\0' ||
                                      conf->gpu_health_check,
                            .loopback = conf->loopback,
                            .seed = rng_seed()};
    const char *level = getenv("LOGLEVEL");
    d.conf = conf;
    d.guard_fd = guard_fd;
    d.start_us = mono_now_us();
    d.debug = level != NULL && strcasecmp(level, "debug") == 0;
    (void)open_files_raise();
    if (uv_loop_init(&d.loop) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "cannot start an event loop");
    open_handles(&d);
    open_rooms(&d, origin, &ac.join);
    agent_init(&d.agent, &ac);
    struct agent_event start = {.kind = AGENT_START};
    step(&d, &start);
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    close_rooms(&d, ac.join.name);
    return d.verdict.status;
}
