/*
 * One loop, one thread. Happy path: a callback of the rendezvous client, the
 * workers, the guard, a timer or a signal becomes one event of the agent's core
 * (step); the core's actions come back through act. After each step the guard
 * is told of the lease, and the timer is set to the core's deadline.
 *
 * act never steps, since the core must not be called from its own action. What
 * an action finds out at once (workers that did not start, how many look
 * whether they are asked to stop) is pending until the step is over, and is the
 * next event.
 *
 * The end: RUNNING -> (SWEEPING) -> CLOSING. AGENT_EXIT first waits for the end
 * of what workers left behind. Then the connection is closed in order; that all
 * here is dead says the guard. If this
 * launcher serves the rendezvous, the server is waited for, since other nodes
 * may not have heard of the end yet; then the loop stops.
 *
 * Failure modes:
 *  - A helper process ends (loop_helpers.c lists them): SIGCHLD tells, and its
 *    owner starts another one.
 *  - The guard ends: its socket closes, and everything here is killed.
 *  - This process was frozen: what is read first after that may be old. A
 *    worker's exit therefore steps with a tick before it if the lease is over.
 *  - The server does not end: on_server_late kills it.
 */
#include "launcher/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "launcher/agent/agent.h"
#include "launcher/cluster/whole_step.h"
#include "launcher/health/alive_port.h"
#include "launcher/health/drain_check.h"
#include "launcher/health/health.h"
#include "launcher/loop_priv.h"
#include "launcher/output/output.h"
#include "launcher/proc/aborts.h"
#include "launcher/proc/cgroup.h"
#include "launcher/proc/children.h"
#include "launcher/proc/guard.h"
#include "launcher/proc/janitor.h"
#include "launcher/proc/sweep.h"
#include "launcher/rdzv/client.h"
#include "launcher/rdzv/own_join.h"
#include "launcher/rdzv/own_name.h"
#include "launcher/rdzv/store_host.h"
#include "launcher/report/event_log.h"
#include "launcher/report/may_die.h"
#include "launcher/report/report.h"
#include "launcher/standby/standby.h"
#include "launcher/worker/file_timer.h"
#include "launcher/worker/first_progress.h"
#include "launcher/worker/unkilled.h"
#include "launcher/hang/hang_watch.h"
#include "launcher/hang/own_store.h"
#include "launcher/hang/show_stacks.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/open_files.h"
#include "rendezvous/net/addr.h"

#define CHORE_MS   1000
#define AGE_MS_MAX INT64_C(86400000000) /* of messages.def */

static void step(struct loop *l, struct agent_event *ev);

/* -- signals --------------------------------------------------------------- */

/* A node that leaves may have got a signal that the scheduler sends to all
 * nodes, and tell of it faster than the one that is for this node comes. */
static int ask_workers(struct loop *l, enum msg_graceful graceful)
{
    int64_t now_us = mono_now_us();
    bool comes = l->conf->in_task && whole_step_comes(&l->whole_step, SIGTERM);
    return workers_ask(l->workers, graceful,
                       comes ? now_us - WHOLE_STEP_MS * MONO_MS : INT64_MIN);
}

/* -- the core's actions ---------------------------------------------------- */

static void on_chore(uv_timer_t *timer)
{
    (void)loop_of(timer->data);
    cgroup_sweep();
}

static void tell_what_may_die(const struct loop *l,
                              const struct msg_world *world)
{
    char text[MAY_DIE_MAX];
    if (l->event_log.rounds == 1 && world->round == 1 &&
        may_die_describe(l->conf, world, text))
        log_info("%s", text);
}

static void start_workers(struct loop *l, const struct msg_world *world)
{
    store_host_renew(&l->store, world->round);
    event_log_world(&l->event_log, world, mono_now_us());
    tell_what_may_die(l, world);
    guard_lease(l->guard_fd, agent_lease_until_us(&l->agent));
    guard_wait();
    ddp_assert(l->pending == PENDING_NOTHING && l->state == LOOP_RUNNING);
    file_timer_round(l->file_timer);
    if (workers_start(l->workers, world, &l->spawned, &l->spawn_err) != 0)
        l->pending = PENDING_SPAWN_FAILED;
    janitor_folder(JANITOR_TEMPORARY, workers_temporary(l->workers));
    if (l->event_log.rounds == 1)
        (void)uv_timer_start(&l->chore, on_chore, CHORE_MS, 0);
    hang_watch_start(l->hang_watch, world);
    if (world->group_rank == 0)
        own_store_watch(l->own_store, OWN_STORE_AFTER_MS, OWN_STORE_APART_MS);
    standby_round(l->standby, world);
    first_progress_watch(l->first_progress); /* may tell at once */
}

static void check_health(struct loop *l)
{
    static pid_t pids[HEALTH_PIDS_MAX]; /* large */
    int n = workers_last_pids(l->workers, pids, HEALTH_PIDS_MAX);
    health_start(l->health, pids, n);
}

static void on_server_late(uv_timer_t *timer)
{
    struct loop *l = loop_of(timer->data);
    rdzv_client_server_kill(l->client);
    uv_stop(&l->uv);
}

/* Other nodes may still have to hear of the end from our server. */
static void leave_loop(struct loop *l)
{
    ddp_assert(l->state != LOOP_CLOSING && !l->sweep.busy);
    l->state = LOOP_CLOSING;
    store_host_kill(&l->store);
    health_stop(l->health);
    drain_check_stop(l->drain_check);
    unkilled_stop(l->unkilled);
    standby_stop(l->standby);
    rdzv_client_finish(l->client);
    (void)uv_timer_stop(&l->timer);
    if (rdzv_client_hosts(l->client) && l->verdict.ended)
        (void)uv_timer_start(&l->timer, on_server_late,
                             (uint64_t)(l->conf->close_timeout_us / MONO_MS),
                             0);
    else
        uv_stop(&l->uv);
}

/* --crash_loop of a job that its scheduler submits again and again: a worker
 * failed, and so many launches in a row left no newer step on the disk. */
static bool is_barren(const struct loop *l)
{
    const struct agent_verdict *v = &l->verdict;
    int64_t launches = workers_barren(l->workers) + 1; /* with this one */
    if (l->conf->crash_loop == 0 || launches < l->conf->crash_loop ||
        launches == 0 || !v->ended || v->status == 0 ||
        v->status == ddp_code_exit(DDP_E_CRASHLOOP) || v->end.node[0] == '\0')
        return false;
    log_warnx("%lld launch%s of this job in a row left no newer step on the "
              "disk than it had found (--crash_loop=%d): it should not be "
              "submitted again before the cause is found",
              (long long)launches, launches == 1 ? "" : "es",
              l->conf->crash_loop);
    return true;
}

/* What workers left behind ends first. That the
 * run succeeded is no success of a node that never was in it: it may have been
 * a job of its own, by mistake in another one's run. */
static void leave(struct loop *l, const struct agent_verdict *v)
{
    ddp_assert(l->state == LOOP_RUNNING);
    l->verdict = *v;
    if (v->ended && v->status == 0 && l->event_log.rounds == 0)
        l->verdict.status = ddp_code_exit(DDP_E_UNNEEDED);
    if (is_barren(l))
        l->verdict.status = ddp_code_exit(DDP_E_BARREN);
    l->state = LOOP_SWEEPING;
    if (!l->sweep.busy)
        leave_loop(l);
}

static void on_swept(void *ctx)
{
    struct loop *l = loop_of(ctx);
    if (l->state == LOOP_SWEEPING)
        leave_loop(l);
}

static const struct sweep_handler sweep_handler = {
    .keep = loop_helpers_keep,
    .session = loop_helpers_session,
    .on_swept = on_swept,
};

/* The workers are about to end. */
static void stop_looking(struct loop *l)
{
    hang_watch_stop(l->hang_watch);
    show_stacks_stop(l->show_stacks);
    own_store_stop(l->own_store);
}

static void send_msg(struct loop *l, const struct msg *m)
{
    struct msg full = *m;
    if (m->kind == MSG_KIND_ready && !m->ready.done)
        store_host_end(&l->store);
    if (m->kind == MSG_KIND_join) {
        int64_t age_ms = (mono_now_us() - l->start_us) / MONO_MS;
        full.join.age_ms = mono_min(age_ms, AGE_MS_MAX);
        rdzv_client_complete(l->client, &full.join);
    }
    if (m->kind == MSG_KIND_beat && m->beat.round > 0) {
        workers_tell_steps(l->workers, &full.beat);
        hang_watch_fill(l->hang_watch, &full.beat);
        event_log_steps(&l->event_log, full.beat.steps, mono_now_us());
    }
    rdzv_client_send(l->client, &full);
}

static void act(void *ctx, const struct agent_action *a)
{
    struct loop *l = loop_of(ctx);
    switch (a->kind) {
    case AGENT_CONNECT:
        rdzv_client_connect(l->client, a->target, a->which);
        return;
    case AGENT_LOOK:
        rdzv_client_look(l->client, a->place, a->target, a->which, a->anew,
                         a->msg);
        return;
    case AGENT_LOOK_OVER:
        rdzv_client_look_over(l->client);
        return;
    case AGENT_DISCONNECT:
        rdzv_client_disconnect(l->client);
        return;
    case AGENT_RECORD:
        rdzv_client_record(l->client, &a->msg->vote);
        return;
    case AGENT_SEND:
        send_msg(l, a->msg);
        return;
    case AGENT_SPAWN:
        start_workers(l, a->world);
        return;
    case AGENT_KILL:
        if (workers_exits(a->signo))
            stop_looking(l);
        if (a->why != STOP_PAGE_NOT)
            workers_tell(l->workers, a->why);
        if (a->why != STOP_PAGE_NOT && a->signo == SIGINT)
            output_interrupted(l->output);
        workers_kill(l->workers, a->signo,
                     a->signo == l->step_signal ? l->step_sent_us : INT64_MIN);
        if (a->signo == SIGKILL)
            unkilled_watch(l->unkilled, l->agent.round.world.base_rank);
        return;
    case AGENT_ASK:
        stop_looking(l);
        ddp_assert(l->pending == PENDING_NOTHING);
        l->pending = PENDING_ASKED;
        l->attached = ask_workers(l, a->graceful);
        return;
    case AGENT_CHECK:
        check_health(l);
        return;
    case AGENT_SWEEP:
        stop_looking(l);
        unkilled_stop(l->unkilled);
        if (a->gentle)
            sweep_gently(&l->sweep);
        else
            sweep_hard(&l->sweep);
        return;
    case AGENT_NOTE:
        report_note(l->conf, a->note, &l->event_log, l->debug);
        if (a->note->kind == NOTE_worker_failed)
            event_log_failed(&l->event_log, &l->agent.round.failed,
                             a->note->text, mono_now_us());
        else
            event_log_note(&l->event_log, a->note, mono_now_us());
        return;
    case AGENT_EXIT:
        leave(l, a->verdict);
        return;
    }
    DDP_WRONG("action");
}

/* -- events ---------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct agent_event ev = {.kind = AGENT_TICK};
    step(loop_of(timer->data), &ev);
}

static void arm(struct loop *l)
{
    int64_t at_us = agent_deadline(&l->agent);
    if (l->state == LOOP_CLOSING)
        return;
    if (at_us == MONO_NEVER) {
        (void)uv_timer_stop(&l->timer);
        return;
    }
    uint64_t ms = (uint64_t)mono_ms_until(mono_now_us(), at_us);
    uv_update_time(&l->uv);
    (void)uv_timer_start(&l->timer, on_timer, ms, 0);
}

static void step_once(struct loop *l, struct agent_event *ev)
{
    struct agent_actions out = {.emit = act, .ctx = l};
    ev->now_us = mono_now_us();
    agent_step(&l->agent, ev, &out);
    event_log_taken_over(&l->event_log, &l->agent.takeover, ev->now_us);
}

static void tell_spawn_failure(struct loop *l)
{
    struct agent_event ev = {
        .kind = AGENT_SPAWN_FAILED,
        .started = l->spawned,
        .worker = {.local_rank = l->spawned,
                   .code = ddp_code_exit(l->spawn_err.code),
                   .text = l->spawn_err.text},
    };
    log_warnx("%s", l->spawn_err.text);
    step_once(l, &ev);
}

static void step(struct loop *l, struct agent_event *ev)
{
    ddp_assert(l->pending == PENDING_NOTHING);
    step_once(l, ev);
    enum loop_pending pending = l->pending;
    struct agent_event asked = {.kind = AGENT_ASKED, .attached = l->attached};
    l->pending = PENDING_NOTHING;
    switch (pending) {
    case PENDING_NOTHING:
        break;
    case PENDING_SPAWN_FAILED:
        tell_spawn_failure(l);
        break;
    case PENDING_ASKED:
        step_once(l, &asked);
        break;
    }
    guard_lease(l->guard_fd, agent_lease_until_us(&l->agent));
    arm(l);
}

static void on_connected(void *ctx)
{
    struct loop *l = loop_of(ctx);
    struct agent_event ev = {.kind = AGENT_CONNECTED,
                             .own = rdzv_client_hosts(l->client)};
    event_log_joined(&l->event_log, mono_now_us());
    step(l, &ev);
    output_prepare(l->output); /* while the join is on its way */
    workers_prepare(l->workers);
}

static void on_msg(void *ctx, const struct msg *m)
{
    struct loop *l = loop_of(ctx);
    struct agent_event ev = {.kind = AGENT_MSG, .msg = m};
    if (m->kind == MSG_KIND_members && agent_obeys(&l->agent))
        store_host_members(&l->store, &m->members);
    if (m->kind == MSG_KIND_look && agent_obeys(&l->agent))
        show_stacks_begin(l->show_stacks, &m->look, &l->agent.round.world);
    step(l, &ev);
    if (m->kind == MSG_KIND_lease && agent_obeys(&l->agent))
        hang_watch_asked(l->hang_watch, m->lease.look);
}

static void on_disconnected(void *ctx, const char *why)
{
    struct agent_event ev = {.kind = AGENT_DISCONNECTED, .text = why};
    step(loop_of(ctx), &ev);
}

/* Nothing that is still under way when the agent has ended matters. */
static void on_seen(void *ctx, int place, const struct msg *answer)
{
    struct agent_event ev = {.kind = AGENT_SEEN, .place = place, .msg = answer};
    step(loop_of(ctx), &ev);
}

static void on_unreached(void *ctx, const char *text)
{
    (void)loop_of(ctx);
    log_warnx("%s", text);
}

static const struct rdzv_client_handler client_handler = {
    .on_seen = on_seen,
    .on_unreached = on_unreached,
    .on_connected = on_connected,
    .on_msg = on_msg,
    .on_disconnected = on_disconnected,
};

/* A node that was frozen and finds the lease over fences first: the guard has
 * killed its workers then, and that is no failure of theirs. */
static void step_fenced(struct loop *l, struct agent_event *ev)
{
    struct agent_event tick = {.kind = AGENT_TICK};
    if (mono_now_us() >= agent_lease_until_us(&l->agent))
        step(l, &tick);
    step(l, ev);
}

static void on_worker_exit(void *ctx, const struct agent_worker *w)
{
    struct loop *l = loop_of(ctx);
    struct agent_event ev = {.kind = AGENT_WORKER_EXIT, .worker = *w};
    first_progress_exited(l->first_progress, w);
    event_log_exited(&l->event_log, w);
    standby_worker_ended(l->standby, w);
    step_fenced(l, &ev);
}

static void on_worker_failed(void *ctx, const struct agent_worker *w)
{
    struct agent_event ev = {.kind = AGENT_WORKER_FAILED, .worker = *w};
    step_fenced(loop_of(ctx), &ev);
}

static void on_uncovered(void *ctx)
{
    loop_helpers_reap(loop_of(ctx));
}

static void on_first_beat(void *ctx, int local_rank, int64_t pid, int64_t step)
{
    struct loop *l = loop_of(ctx);
    event_log_first_progress(&l->event_log, local_rank, pid, step);
    standby_progress(l->standby, local_rank);
}

static const struct first_progress_handler first_progress_handler = {
    .on_beat = on_first_beat,
};

static void on_worker_start(void *ctx, int local_rank, int64_t pid)
{
    struct loop *l = loop_of(ctx);
    event_log_started(&l->event_log, local_rank, pid);
}

static const struct workers_handler workers_handler = {
    .on_exit = on_worker_exit,
    .on_uncovered = on_uncovered,
    .on_start = on_worker_start,
    .on_failed = on_worker_failed,
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
    standby_worker_ended(loop_of(ctx)->standby, &ev.worker);
    step(loop_of(ctx), &ev);
}

static void on_stands(void *ctx, const char *text)
{
    struct loop *l = loop_of(ctx);
    event_log_stands(&l->event_log, text, mono_now_us());
}

static void on_asks(void *ctx)
{
    struct agent_event ev = {.kind = AGENT_NEWS};
    step(loop_of(ctx), &ev);
}

static void on_checked(void *ctx, bool fit, const char *why)
{
    struct agent_event ev = {.kind = AGENT_CHECKED, .fit = fit, .text = why};
    step(loop_of(ctx), &ev);
}

static const struct health_handler health_handler = {.on_checked = on_checked};

static void on_unkilled(void *ctx, const char *text)
{
    on_checked(ctx, false, text);
}

static const struct unkilled_handler unkilled_handler = {.on_unkilled =
                                                             on_unkilled};

static void on_drain_due(void *ctx)
{
    struct agent_event ev = {.kind = AGENT_DRAIN_DUE};
    step(loop_of(ctx), &ev);
}

static const struct drain_check_handler drain_handler = {.on_drain_due =
                                                             on_drain_due};

static void send_stacks(void *ctx, const struct msg *part)
{
    rdzv_client_send(loop_of(ctx)->client, part);
}

static bool is_store_unused(void *ctx)
{
    return store_host_is_unused(&loop_of(ctx)->store);
}

static const struct hang_watch_handler hang_watch_handler = {
    .on_hang = on_hang,
    .on_asks = on_asks,
    .on_stands = on_stands,
};

static void on_children(uv_poll_t *poll, int status, int events)
{
    struct loop *l = loop_of(poll->data);
    pid_t pid;
    (void)status;
    (void)events;
    while ((pid = children_next()) > 0)
        workers_ended(l->workers, pid);
    loop_helpers_reap(l);
    sweep_look(&l->sweep);
}

static void hear_guard(struct loop *l, const struct guard_msg *msg)
{
    struct agent_event ev = {.kind = AGENT_SIGNAL, .signo = msg->signo};
    if (msg->kind == GUARD_SIGNAL && msg->signo == SIGWINCH)
        output_resize(l->output); /* before the workers hear of it */
    if (msg->kind == GUARD_SIGNAL) {
        /* A worker that was started just before it was perhaps not seen by the
         * scheduler, and gets the signal from here as well. */
        l->step_sent_us = mono_now_us() - WHOLE_STEP_MS * MONO_MS;
        if (l->conf->in_task &&
            whole_step_got(&l->whole_step, msg->signo, msg->sender))
            l->step_signal = msg->signo;
        step(l, &ev);
        l->step_signal = 0;
        if (l->state == LOOP_SWEEPING && workers_exits(msg->signo))
            sweep_hurry(&l->sweep);
    } else if (msg->kind == GUARD_PAUSE || msg->kind == GUARD_RESUME) {
        hang_watch_pause(l->hang_watch, msg->kind == GUARD_PAUSE);
        output_resize(l->output); /* the window may have changed meanwhile */
        workers_pause(l->workers, msg->kind == GUARD_PAUSE);
    }
}

static void on_guard(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct loop *l = loop_of(poll->data);
    struct guard_msg msg;
    ssize_t n = recv(l->guard_fd, &msg, sizeof(msg), MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(msg)) {
        hear_guard(l, &msg);
    } else if (status != 0 || n >= 0) { /* else nothing is there after all */
        struct agent_event ev = {.kind = AGENT_GUARD_DIED};
        (void)uv_poll_stop(poll);
        step(l, &ev);
        sweep_hurry(&l->sweep);
    }
}

/* -- starting -------------------------------------------------------------- */

static void open_handles(struct loop *l)
{
    (void)uv_timer_init(&l->uv, &l->timer); /* cannot fail */
    (void)uv_timer_init(&l->uv, &l->chore);
    int children_fd = children_watch();
    int rc = children_fd < 0 ? uv_translate_sys_error(errno)
                             : uv_poll_init(&l->uv, &l->children, children_fd);
    if (rc == 0)
        rc = uv_poll_start(&l->children, UV_READABLE, on_children);
    if (rc == 0)
        rc = uv_poll_init(&l->uv, &l->guard_poll, l->guard_fd);
    if (rc == 0)
        rc = uv_poll_start(&l->guard_poll, UV_READABLE | UV_DISCONNECT,
                           on_guard);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "cannot watch the workers: %s",
               uv_strerror(rc));
    l->timer.data = l->guard_poll.data = l->children.data = l->chore.data = l;
}

/* All that it drives. What is needed to join comes to `join`. */
static void open_parts(struct loop *l,
                       const struct spawn_origin *origin,
                       struct msg_join *join)
{
    struct ddp_err err;
    int port = store_host_open(&l->store, &l->uv, l->conf, &err);
    if (port < 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    own_join(l->conf, port, join);
    sweep_init(&l->sweep, &l->uv, &sweep_handler, l);
    l->client = rdzv_client_new(&l->uv, l->conf, &client_handler, l,
                                l->store.give, l->debug);
    l->output = output_new(l->conf);
    event_log_init(&l->event_log, l->conf, l->output, join->name, l->start_us);
    l->workers =
        workers_new(&l->uv, l->conf, origin, l->output, &workers_handler, l);
    janitor_folder(JANITOR_MPI, workers_mpi_folder(l->workers));
    l->file_timer = file_timer_new(&l->uv, l->workers, l->conf->nproc);
    l->standby = standby_new(&l->uv, l->conf, origin, l->workers);
    if (l->standby != NULL)
        workers_set_taker(l->workers, standby_take, l->standby);
    if (l->conf->output.events[0] != '\0' || l->standby != NULL)
        l->first_progress = first_progress_new(
            &l->uv, l->workers, l->conf->nproc, &first_progress_handler, l);
    (void)alive_port_open(&l->uv); /* it says why not */
    l->health = health_new(&l->uv, l->conf, &health_handler, l);
    l->unkilled = unkilled_new(&l->uv, l->conf, l->workers, join->name,
                               &unkilled_handler, l);
    l->drain_check = drain_check_new(&l->uv, l->conf, &drain_handler, l);
    l->hang_watch =
        hang_watch_new(&l->uv, l->conf, l->workers, &hang_watch_handler, l);
    l->show_stacks =
        show_stacks_new(&l->uv, l->workers, l->conf->nproc, send_stacks, l);
    l->own_store =
        own_store_new(&l->uv, l->workers, l->conf->nproc, is_store_unused, l);
    own_name_check(&l->uv, l->conf->local_addr); /* starts a thread */
}

/* Other messages, such as a new size of the window, are taken away. */
static bool asks_to_end(int guard_fd)
{
    struct guard_msg msg;
    for (;;) {
        ssize_t n = recv(guard_fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_PEEK);
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n != (ssize_t)sizeof(msg) ||
            (msg.kind == GUARD_SIGNAL && workers_exits(msg.signo)))
            return true;
        (void)recv(guard_fd, &msg, sizeof(msg), MSG_DONTWAIT); /* is there */
    }
}

/* All is over: writes the report, and cleans up. */
static void close_parts(struct loop *l, const char *node)
{
    const struct agent_verdict *v = &l->verdict;
    const char *folder = workers_folder(l->workers);
    const struct output_hurry hurry = {.now = l->agent.leave.signal != 0,
                                       .fd = l->guard_fd,
                                       .asks = asks_to_end};
    ddp_assert(l->state == LOOP_CLOSING);
    ddp_assert(v->status >= 0 && v->status <= 255);
    event_log_finish(&l->event_log, &l->agent.round.ended, v->status,
                     v->ended ? v->end.spent : "", mono_now_us());
    output_finish(l->output, v->status != 0, &hurry);
    report_end(l->conf, v, &l->event_log, folder);
    if (l->conf->output.report[0] != '\0')
        report_write(l->conf, v, &l->event_log, folder, &hurry);
    const struct msg_end *end = &v->end;
    if (v->ended && strcmp(end->node, node) == 0)
        workers_pass_on(l->workers, (int)end->local_rank, (pid_t)end->pid,
                        (int)(end->signal > 0 ? -end->signal : end->code));
    workers_clean(l->workers);
    file_timer_end(l->file_timer);
}

int loop_run(const struct conf *conf,
             const struct spawn_origin *origin,
             int guard_fd)
{
    static struct loop l; /* large; there is one */
    struct agent_conf ac = {.shutdown_us = conf->shutdown_timeout_us,
                            .failure_us = conf->failure_grace_us,
                            .death_us = conf->death_grace_us,
                            .last_words = conf->signals,
                            .notices = conf->notices,
                            .checks = conf->health_check[0] != '\0' ||
                                      conf->gpu_health_check,
                            .loopback = conf->loopback,
                            .starter = conf->starter,
                            .endpoints = conf->endpoints_len,
                            .seed = rng_seed()};
    const char *level = getenv("LOGLEVEL");
    char endpoints[CONF_ENDPOINTS_TEXT_MAX];
    conf_endpoints_text(conf, endpoints);
    (void)snprintf(ac.endpoint, sizeof(ac.endpoint), /* may be cut */
                   " at %.295s", endpoints);
    l.magic = LOOP_MAGIC;
    l.conf = conf;
    l.guard_fd = guard_fd;
    l.start_us = mono_now_us();
    l.debug = level != NULL && strcasecmp(level, "debug") == 0;
    (void)open_files_raise();
    aborts_explain();
    int rc = uv_loop_init(&l.uv);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "cannot start an event loop: %s",
               uv_strerror(rc));
    open_handles(&l);
    open_parts(&l, origin, &ac.join);
    agent_init(&l.agent, &ac);
    struct agent_event start = {.kind = AGENT_START};
    step(&l, &start);
    (void)uv_run(&l.uv, UV_RUN_DEFAULT);
    close_parts(&l, ac.join.name);
    return l.verdict.status;
}
