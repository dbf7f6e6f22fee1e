/*
 * The workers of this node, and the agent's own end.
 *
 * Happy path: SPAWN; each worker exits 0; DONE. At a stop: a signal (or a
 * request to leave at a step first), the grace, all dead, SWEEP, ready.
 *
 * Failure modes:
 *   - A worker fails or hangs: the server is told, with the age of the failure;
 *     the other workers are stopped without waiting for its answer, nor for the
 *     end of one that is known to end (AGENT_WORKER_FAILED). They have
 *     the short grace: a SIGTERM handler that runs a collective would wait for
 *     the dead until the grace is over.
 *   - A worker dies while all are being stopped: perhaps it failed first
 *     (is_own_death); the server weighs that.
 *   - A worker ignores the signal: SIGKILL after the grace.
 *   - Some workers cannot be started: those that run are stopped.
 *   - The lease is over: SIGKILL at once (agent_fence).
 *   - SIGKILL does not end a worker (state D): if the user has set a limit, the
 *     node goes without a word that its workers are dead (agent_abandon).
 */
#include "launcher/agent/agent_priv.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"

#define HANDOVER_US (1 * MONO_S)

/* -- stopping and going ---------------------------------------------------- */

void agent_kill_workers(struct step *s, int signo)
{
    struct agent_action action = {.kind = AGENT_KILL, .signo = signo};
    if (s->a->alive > 0)
        agent_emit(s, &action);
}

bool agent_forget_end(struct agent *a)
{
    a->known = AGENT_END_UNKNOWN;
    a->verdict.ended = false;
    if (a->exit != AGENT_ENDED)
        return false;
    a->exit = AGENT_GAVE_UP;
    a->verdict.status = ddp_code_exit(DDP_E_LOST);
    return true;
}

/* It exits, and holds an end, which is not final: it may not end with that. */
static void doubt_end(struct agent *a)
{
    const struct msg_end *end = &a->verdict.end;
    bool succeeded = a->work == AGENT_DONE && end->status == 0;
    if (a->known != AGENT_END_HELD || !agent_forget_end(a))
        return;
    if (succeeded) {
        a->verdict.status = 0;
        (void)snprintf(a->verdict.text, sizeof(a->verdict.text),
                       "this node's workers all succeeded, and the run was "
                       "about to end so; the rendezvous was lost before that "
                       "was final, so nothing is known of the other nodes");
        return;
    }
    (void)snprintf(a->verdict.text, /* may be cut */
                   sizeof(a->verdict.text),
                   "the rendezvous was lost while it ended the run (status "
                   "%lld%s%.300s); that was not final, and the other nodes may "
                   "have gone on: look at how they end",
                   (long long)end->status, end->text[0] != '\0' ? ": " : "",
                   end->text);
}

static void exit_now(struct step *s)
{
    struct agent *a = s->a;
    struct agent_action action = {.kind = AGENT_EXIT, .verdict = &a->verdict};
    agent_record(s);
    agent_emit(s, &action);
    a->exit = AGENT_GONE;
}

void agent_finish(struct step *s)
{
    struct agent *a = s->a;
    ddp_assert(a->alive == 0 && a->exit != AGENT_STAYS);
    if (a->exit == AGENT_GONE)
        return;
    doubt_end(a);
    if (a->known != AGENT_END_UNKNOWN)
        agent_send_bye(s);
    else if (agent_is_leaving(a) && !a->hands_over)
        agent_send_ready(s, a->round.world.round);
    exit_now(s);
}

void agent_abandon(struct step *s)
{
    ddp_assert(s->a->stop >= AGENT_STOP_KILLED && s->a->exit != AGENT_STAYS);
    doubt_end(s->a);
    exit_now(s);
}

/*
 * A node that ends the run for all (Ctrl-C) waits a moment for the server's
 * END: then the order has arrived, and was not lost with this connection. A
 * node that knows of the end before others do waits until they know as well.
 */
static bool waits_for_end(const struct step *s)
{
    const struct agent *a = s->a;
    bool orphaned =
        a->exit == AGENT_ORPHANED || a->exit == AGENT_ORPHANED_LEAVING;
    bool ordered = agent_is_leaving(a) && a->leave.what == MSG_LEAVE_ALL &&
                   a->known == AGENT_END_UNKNOWN && agent_was_heard(a);
    return (ordered || (a->known == AGENT_END_HELD && !orphaned)) &&
           s->now_us < a->farewell_at_us;
}

/*
 * The leader is our own, and ends with this launcher: not in the
 * midst of a proposal, if that is soon over (round/handover.h in the core).
 */
static bool hands_over(struct step *s)
{
    struct agent *a = s->a;
    bool leaves = (a->exit == AGENT_LEAVING || a->exit == AGENT_DRAINED) &&
                  a->leave.what != MSG_LEAVE_ALL &&
                  a->known == AGENT_END_UNKNOWN;
    bool serves = a->session.own && a->session.obeyed &&
                  a->session.state == AGENT_SESSION_HEARD;
    if (!leaves || !serves)
        return false;
    if (!a->hands_over) {
        a->hands_over = true;
        a->farewell_at_us = mono_after(s->now_us, HANDOVER_US);
        agent_send_ready(s, a->round.world.round);
    }
    return s->now_us < a->farewell_at_us;
}

static void finish_unless_waiting(struct step *s)
{
    if (!waits_for_end(s) && !hands_over(s))
        agent_finish(s);
}

/* The node is ready only once it is known to be fit for another round. */
void agent_look_at_health(struct step *s)
{
    struct agent_action action = {.kind = AGENT_CHECK};
    s->a->work = AGENT_CHECKING;
    agent_emit(s, &action);
}

static void all_dead(struct step *s)
{
    struct agent *a = s->a;
    struct agent_action sweep = {.kind = AGENT_SWEEP};
    agent_emit(s, &sweep);
    a->work = AGENT_NONE;
    a->kill_at_us = MONO_NEVER;
    if (a->exit != AGENT_STAYS)
        finish_unless_waiting(s);
    else if (a->conf.checks && a->round.outcome != AGENT_WENT_WELL)
        agent_look_at_health(s);
    else
        agent_send_ready(s, a->round.world.round);
}

static int64_t grace_us(const struct agent *a)
{
    return a->grace == AGENT_GRACE_SHORT   ? a->conf.failure_us
           : a->grace == AGENT_GRACE_DEATH ? a->conf.death_us
                                           : a->conf.shutdown_us;
}

int64_t agent_grace_us(const struct agent *a)
{
    return mono_min(grace_us(a), a->conf.shutdown_us);
}

const char *agent_grace_option(const struct agent *a)
{
    return a->grace != AGENT_GRACE_LONG && grace_us(a) <= a->conf.shutdown_us
               ? "--failure_grace"
               : "--shutdown_timeout";
}

static void stop_workers(struct step *s, int signo, enum agent_grace grace)
{
    struct agent *a = s->a;
    if (a->work == AGENT_NONE || a->work == AGENT_CHECKING)
        return;
    if (a->alive == 0) {
        all_dead(s);
        return;
    }
    if (a->stop >= AGENT_STOP_BY_SIGNAL && signo != SIGKILL)
        return; /* told already */
    a->work = AGENT_STOPPING;
    if (a->stop != AGENT_STOP_KILLED_LATE)
        a->stop = signo == SIGKILL ? AGENT_STOP_KILLED : AGENT_STOP_BY_SIGNAL;
    if (signo != SIGKILL)
        a->grace = grace;
    a->kill_at_us = signo == SIGKILL ? MONO_NEVER
                                     : mono_after(s->now_us, agent_grace_us(a));
    struct agent_action kill = {
        .kind = AGENT_KILL,
        .signo = signo,
        .why = grace != AGENT_GRACE_LONG ? STOP_PAGE_FAILED : STOP_PAGE_SIGNAL};
    agent_emit(s, &kill);
}

void agent_stop_workers(struct step *s, int signo)
{
    stop_workers(s, signo, AGENT_GRACE_LONG);
}

void agent_stop_after_failure(struct step *s)
{
    stop_workers(s, SIGTERM, AGENT_GRACE_SHORT);
}

void agent_stop_after_death(struct step *s)
{
    stop_workers(s, SIGTERM, AGENT_GRACE_DEATH);
}

/* The end of that worker is the failure. */
static void stop_others(struct step *s, const struct agent_worker *w)
{
    if (w->signal != 0)
        agent_stop_after_death(s);
    else
        agent_stop_after_failure(s);
}

/* They have as long as they would have between SIGTERM and SIGKILL. */
void agent_ask_workers(struct step *s, enum msg_graceful graceful)
{
    struct agent *a = s->a;
    if (a->work != AGENT_RUNNING) {
        agent_stop_workers(s, SIGTERM);
        return;
    }
    a->work = AGENT_STOPPING;
    a->stop = AGENT_STOP_AT_STEP;
    a->kill_at_us = mono_after(s->now_us, a->conf.shutdown_us);
    struct agent_action action = {.kind = AGENT_ASK, .graceful = graceful};
    agent_emit(s, &action);
}

static enum agent_exit exit_after(enum agent_exit now, enum agent_exit why)
{
    switch (why) {
    case AGENT_GAVE_UP:
        return now == AGENT_STAYS ? why : now;
    case AGENT_ENDED:
        return now == AGENT_STAYS || now == AGENT_GAVE_UP ? why : now;
    case AGENT_LEAVING:
    case AGENT_DRAINED:
        return now == AGENT_ORPHANED || now == AGENT_ORPHANED_LEAVING
                   ? AGENT_ORPHANED_LEAVING
                   : why;
    case AGENT_ORPHANED:
        return now == AGENT_LEAVING || now == AGENT_DRAINED ||
                       now == AGENT_ORPHANED_LEAVING
                   ? AGENT_ORPHANED_LEAVING
                   : why;
    case AGENT_STAYS:
    case AGENT_ORPHANED_LEAVING:
    case AGENT_GONE:
        break;
    }
    DDP_WRONG("no reason to go");
}

void agent_decide(struct agent *a, enum agent_exit why, int status)
{
    ddp_assert(a->exit != AGENT_GONE);
    if (a->exit == AGENT_STAYS)
        a->verdict.status = status;
    a->exit = exit_after(a->exit, why);
}

void agent_go(struct step *s, enum agent_exit why, int status, int signo)
{
    struct agent *a = s->a;
    agent_decide(a, why, status);
    if (a->alive > 0)
        agent_stop_workers(s, signo);
    else
        finish_unless_waiting(s);
}

void agent_give_up(struct step *s, enum ddp_code code, const char *fmt, ...)
{
    struct agent *a = s->a;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(a->verdict.text, sizeof(a->verdict.text), fmt, ap);
    va_end(ap);
    agent_go(s, AGENT_GAVE_UP, ddp_code_exit(code), SIGTERM);
}

void agent_fence(struct step *s)
{
    struct agent *a = s->a;
    if (a->session.obeyed) /* it answers, by no lease */
        agent_note(
            s, NOTE_fenced,
            "the rendezvous hears of too few nodes of the last round to renew "
            "the lease; the workers are killed, since another round may start "
            "without this node");
    else
        agent_note(s, NOTE_fenced,
                   "no answer from the rendezvous for %lld ms; the workers are "
                   "killed, since another round may start without this node",
                   (long long)((s->now_us - a->vote.echoed_us) / MONO_MS));
    agent_stop_workers(s, SIGKILL);
}

/* -- what the server says -------------------------------------------------- */

void agent_spawn(struct step *s)
{
    struct agent *a = s->a;
    const struct msg_world *w = &a->round.world;
    a->alive = (int)a->conf.join.nproc;
    a->work = AGENT_RUNNING;
    char ranks[64];
    if (a->alive > 1)
        (void)snprintf(ranks, sizeof(ranks), "ranks %lld to %lld",
                       (long long)w->base_rank,
                       (long long)w->base_rank + a->alive - 1);
    else
        (void)snprintf(ranks, sizeof(ranks), "rank %lld",
                       (long long)w->base_rank);
    char used[80] = "", most[32] = "";
    if (a->conf.join.window_ms == 0)
        (void)snprintf(most, sizeof(most), " of %lld",
                       (long long)a->conf.join.max_restarts);
    if (w->restarts > 0)
        (void)snprintf(used, sizeof(used), "; restarts used %lld%s",
                       (long long)w->restarts, most);
    agent_note(s, NOTE_spawn, "%s of %lld, node %lld of %lld%s", ranks,
               (long long)w->world_size, (long long)w->group_rank,
               (long long)w->group_world, used);
    struct agent_action action = {.kind = AGENT_SPAWN, .world = w};
    agent_emit(s, &action);
    agent_send_beat_between(s);
}

/* -- what happens here ----------------------------------------------------- */

static void describe_failure(const struct agent *a, char *text, size_t size)
{
    const struct msg_failed *f = &a->round.failed;
    if (f->how == MSG_FAILED_HUNG)
        (void)snprintf(text, size, "%s", f->text);
    else if (f->signal != 0)
        (void)snprintf(text, size, "signal %lld (%s)", (long long)f->signal,
                       signals_name((int)f->signal));
    else
        (void)snprintf(text, size, "exit code %lld", (long long)f->code);
}

static enum msg_failed_how how_of(const struct agent_worker *w, bool hung)
{
    if (hung)
        return MSG_FAILED_HUNG;
    if (w->oom)
        return MSG_FAILED_OOM;
    return w->permanent ? MSG_FAILED_FOR_GOOD : MSG_FAILED_ENDED;
}

/* Tells of a worker that failed, or hung for `silent_us`. */
static void take_failure(struct step *s,
                         const struct agent_worker *w,
                         bool hung,
                         int64_t silent_us)
{
    struct agent *a = s->a;
    char how[sizeof(a->round.failed.text)];
    a->round.outcome = AGENT_FAILED;
    a->round.failed_at_us = s->now_us - silent_us;
    a->round.failed = (struct msg_failed){
        .round = a->round.world.round,
        .rank = a->round.world.base_rank + w->local_rank,
        .local_rank = w->local_rank,
        .pid = w->pid,
        .code = w->code,
        .signal = w->signal,
        .how = how_of(w, hung),
    };
    if (w->text != NULL)
        msg_set(a->round.failed.text, w->text);
    if (w->tail != NULL)
        msg_set(a->round.failed.tail, w->tail);
    if (w->trace != NULL)
        msg_set(a->round.failed.trace, w->trace);
    describe_failure(a, how, sizeof(how));
    if (w->pid > 0)
        agent_note(s, NOTE_worker_failed, "rank %lld (pid %lld): %s",
                   (long long)a->round.failed.rank, (long long)w->pid, how);
    else
        agent_note(s, NOTE_worker_failed, "rank %lld could not be started",
                   (long long)a->round.failed.rank);
    agent_send_failed(s);
}

/*
 * Whether a worker that ends while all are being stopped did not end for that:
 * a killed process's connections break before its end is seen, so that a peer
 * may have failed first. The server weighs the two (cause.c).
 */
static bool is_own_death(const struct agent *a, const struct agent_worker *w)
{
    return a->work == AGENT_STOPPING && a->stop < AGENT_STOP_KILLED &&
           a->exit == AGENT_STAYS &&
           (w->signal == SIGKILL || w->signal == SIGSEGV ||
            w->signal == SIGBUS || w->signal == SIGILL || w->signal == SIGFPE);
}

/* The ways in which one ends that was asked to leave. */
static bool has_obeyed(const struct agent_worker *w)
{
    return w->signal == SIGTERM ||
           (w->signal == 0 && (w->code == 0 || w->code == 128 + SIGTERM));
}

/* Its failure was told before its end: it has ended by that, however its
 * process ended in the end. */
static bool was_told(const struct agent *a, const struct agent_worker *w)
{
    const struct msg_failed *f = &a->round.failed;
    return a->round.outcome == AGENT_FAILED && f->how != MSG_FAILED_HUNG &&
           f->pid == w->pid;
}

/* Killed by us when its grace was over, and not by the kernel or a person. */
static bool is_unstopped(const struct agent *a, const struct agent_worker *w)
{
    return w->signal == SIGKILL && !w->oom && !was_told(a, w) &&
           a->stop == AGENT_STOP_KILLED_LATE;
}

/* For the report on other nodes. */
static void take_end(struct agent *a, const struct agent_worker *w)
{
    int how = w->signal != 0 ? -w->signal : w->code;
    if (w->code == 0 && w->signal == 0)
        return;
    exits_count(&a->round.ends, w->signal);
    exits_add(&a->round.ended, w->local_rank,
              is_unstopped(a, w) ? EXITS_UNSTOPPED : how);
}

void agent_on_worker_exit(struct step *s, const struct agent_worker *ended)
{
    struct agent *a = s->a;
    struct agent_worker as_failed = *ended;
    const struct agent_worker *w = &as_failed;
    bool told = was_told(a, ended);
    if (told) {
        as_failed.code = (int)a->round.failed.code;
        as_failed.signal = (int)a->round.failed.signal;
    }
    ddp_assert(a->alive > 0);
    a->alive--;
    a->round.progressed |= w->progressed;
    take_end(a, w);
    bool ok = w->code == 0 && w->signal == 0;
    if (a->work == AGENT_RUNNING && !ok) {
        take_failure(s, w, false, 0);
        stop_others(s, w);
    } else if (a->work == AGENT_RUNNING) {
        a->succeeded++;
        if (a->alive > 0)
            return;
        a->work = AGENT_DONE;
        struct agent_action sweep = {.kind = AGENT_SWEEP, .gentle = true};
        agent_emit(s, &sweep);
        agent_note(s, NOTE_finished, "%d worker%s", a->succeeded,
                   a->succeeded == 1 ? "" : "s");
        agent_send_done(s);
    } else {
        if (!told && is_own_death(a, w))
            take_failure(s, w, false, 0);
        if (a->alive == 0)
            all_dead(s);
        else if (a->stop == AGENT_STOP_AT_STEP && !has_obeyed(w))
            stop_others(s, w);
    }
}

/* A failure at the time of its last progress: if many fall silent because they
 * wait for one, that one did so first. */
void agent_on_worker_hung(struct step *s, const struct agent_event *ev)
{
    struct agent *a = s->a;
    if (a->work != AGENT_RUNNING)
        return;
    take_failure(s, &ev->worker, true, ev->silent_us);
    agent_stop_after_death(s);
}

void agent_on_worker_failed(struct step *s, const struct agent_worker *w)
{
    if (s->a->work != AGENT_RUNNING)
        return;
    take_failure(s, w, false, 0);
    stop_others(s, w);
}

/* If no worker looks whether it is asked, all have got the signal already, and
 * the grace runs. */
void agent_on_asked(struct step *s, int attached)
{
    struct agent *a = s->a;
    if (a->stop == AGENT_STOP_AT_STEP && attached == 0)
        a->stop = AGENT_STOP_BY_SIGNAL;
}

void agent_on_spawn_failed(struct step *s, const struct agent_event *ev)
{
    struct agent *a = s->a;
    ddp_assert(ev->started < a->alive);
    a->alive = ev->started;
    if (a->work == AGENT_RUNNING) {
        take_failure(s, &ev->worker, false, 0);
        agent_stop_after_failure(s);
    } else if (a->alive == 0) { /* fenced at this very moment */
        all_dead(s);
    }
}
