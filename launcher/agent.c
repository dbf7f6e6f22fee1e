#include "launcher/agent.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define LAST_WORDS                                                             \
    (UINT64_C(1) << (SIGTERM - 1) | UINT64_C(1) << (SIGINT - 1) |              \
     UINT64_C(1) << (SIGHUP - 1) | UINT64_C(1) << (SIGQUIT - 1))
#define PAUSE_FIRST_US   (20 * MONO_MS)
#define PAUSE_LONGEST_US (2500 * MONO_MS)
/* What a refused connection is worth, besides a lease: the next server waits so
 * long for us (RECONNECT_US in rendezvous/core/join.c). Above the longest
 * pause, so that each refusal renews it in time. */
#define REFUSED_US        (5 * MONO_S)
#define FAREWELL_US       (1 * MONO_S)
#define COMPLAIN_FIRST_US (3 * MONO_S)
#define COMPLAIN_EVERY_US (30 * MONO_S)
#define BEATS_PER_LEASE   5

struct step {
    struct agent *a;
    const struct agent_event *ev;
    const struct agent_actions *out;
    int64_t now_us;
};

/* -- telling --------------------------------------------------------------- */

static void emit(struct step *s, const struct agent_action *action)
{
    s->out->emit(s->out->ctx, action);
}

static void send(struct step *s, const struct msg *m)
{
    struct agent_action action = {.kind = AGENT_SEND, .msg = m};
    if (s->a->link == AGENT_LINK_IS_UP)
        emit(s, &action);
}

__attribute__((format(printf, 3, 4))) static void
note(struct step *s, enum note_kind kind, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* may be cut */
    va_end(ap);
    struct note n = {
        .kind = kind,
        .run = s->a->conf.join.run,
        .round = s->a->holds ? s->a->world.round : 0,
        .node = s->a->conf.join.name,
        .text = text,
    };
    struct agent_action action = {.kind = AGENT_NOTE, .note = &n};
    emit(s, &action);
}

static void kill_workers(struct step *s, int signo)
{
    struct agent_action action = {.kind = AGENT_KILL, .signo = signo};
    if (s->a->alive > 0)
        emit(s, &action);
}

static enum msg_state state_of(const struct agent *a)
{
    if (a->spare)
        return MSG_STATE_NONE;
    switch (a->work) {
    case AGENT_RUNNING:
        return MSG_STATE_RUNNING;
    case AGENT_DONE:
        return MSG_STATE_DONE;
    case AGENT_STOPPING:
    case AGENT_CHECKING:
        return MSG_STATE_STOPPED;
    case AGENT_NONE:
        return MSG_STATE_READY;
    }
    DDP_WRONG("work");
}

static void send_join(struct step *s)
{
    struct agent *a = s->a;
    struct msg m = {.kind = MSG_KIND_join, .join = a->conf.join};
    m.join.group_rank = -1;
    if (a->holds) {
        msg_set(m.join.instance, a->world.instance);
        m.join.round = a->world.round;
        m.join.group_rank = a->world.group_rank;
        m.join.group_world = a->world.group_world;
        m.join.restarts = a->world.restarts;
        m.join.state = state_of(a);
        m.join.sure = a->sure;
        m.join.recent = a->world.recent;
        m.join.recent_ms = (s->now_us - a->world_at_us) / MONO_MS;
        m.join.barren = a->world.barren;
        m.join.scale_left_ms = mono_ms_until(
            s->now_us,
            mono_after(a->world_at_us, a->world.scale_left_ms * MONO_MS));
        m.join.struck = a->world.struck;
        m.join.aside_ms = mono_ms_until(s->now_us, a->aside_until_us);
    }
    m.join.ended = a->held;
    m.join.end_status = a->held ? a->verdict.end.status : 0;
    if (a->alive > 0)
        m.join.lease_ms = mono_ms_until(s->now_us, a->lease_until_us);
    send(s, &m);
}

static void send_failed(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_failed, .failed = s->a->failed};
    m.failed.age_us = s->now_us - s->a->failed_at_us;
    send(s, &m);
}

static void send_ready(struct step *s, int64_t round)
{
    const struct agent *a = s->a;
    struct msg m = {.kind = MSG_KIND_ready, .ready.round = round};
    if (round == a->world.round) {
        m.ready = a->ends;
        m.ready.round = round;
        m.ready.progress = a->progressed;
    }
    send(s, &m);
}

static void send_done(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_done, .done.round = s->a->world.round};
    send(s, &m);
}

static void send_leave(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_leave, .leave = s->a->leave};
    send(s, &m);
}

static int64_t beat_every_us(const struct agent *a)
{
    return a->conf.join.heartbeat_ms * MONO_MS / BEATS_PER_LEASE;
}

static void send_beat(struct step *s)
{
    struct agent *a = s->a;
    a->beat_seq++;
    a->beat_sent_us[a->beat_seq % AGENT_BEATS] = s->now_us;
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = a->beat_seq;
    m.beat.heard = a->heard_seq;
    m.beat.round = a->holds && !a->spare ? a->world.round : 0;
    send(s, &m);
    a->beat_at_us = mono_after(s->now_us, beat_every_us(a));
}

/* -- stopping and going ---------------------------------------------------- */

static void send_bye(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_bye, .bye.status = s->a->verdict.status};
    send(s, &m);
}

static void finish(struct step *s)
{
    struct agent *a = s->a;
    if (a->exited)
        return;
    if (a->verdict.ended) {
        send_bye(s);
    } else if (a->leaving) {
        send_ready(s, a->holds ? a->world.round : 0);
    }
    a->exited = true;
    struct agent_action action = {.kind = AGENT_EXIT, .verdict = &a->verdict};
    emit(s, &action);
}

/*
 * Whoever ends the run for all (Ctrl-C) waits a moment for the server to say
 * END: then the order has arrived, and was not lost with this connection. And
 * whoever knows of the end before others do waits until they know as well.
 */
static bool waits_for_end(const struct step *s)
{
    const struct agent *a = s->a;
    bool ordered = a->leaving && a->leave.all && !a->verdict.ended && a->was_up;
    return (ordered || (a->held && !a->orphaned)) &&
           s->now_us < a->farewell_at_us;
}

static void finish_unless_waiting(struct step *s)
{
    if (!waits_for_end(s))
        finish(s);
}

/* A lease granted for a round is not carried into the next one: the server
 * forgets it with `ready`. */
static int64_t short_lease_us(const struct agent *a)
{
    int64_t heartbeat_us = a->conf.join.heartbeat_ms * MONO_MS;
    return heartbeat_us - heartbeat_us / 5;
}

/* Not ready before it is known whether the node is fit for another round. */
static void check(struct step *s)
{
    struct agent_action action = {.kind = AGENT_CHECK};
    s->a->work = AGENT_CHECKING;
    emit(s, &action);
}

static void all_dead(struct step *s)
{
    struct agent *a = s->a;
    struct agent_action sweep = {.kind = AGENT_SWEEP};
    emit(s, &sweep);
    a->work = AGENT_NONE;
    a->kill_at_us = MONO_NEVER;
    a->lease_until_us =
        mono_min(a->lease_until_us, mono_after(s->now_us, short_lease_us(a)));
    if (a->going)
        finish_unless_waiting(s);
    else if (a->conf.checks && a->rough)
        check(s);
    else
        send_ready(s, a->world.round);
}

/* Asks the workers to go by `signo`; SIGKILL leaves them no grace. */
static void stop_workers(struct step *s, int signo)
{
    struct agent *a = s->a;
    if (a->work == AGENT_NONE || a->work == AGENT_CHECKING)
        return;
    if (a->alive == 0) {
        all_dead(s);
        return;
    }
    if (a->work == AGENT_STOPPING && !a->asked && signo != SIGKILL)
        return; /* told already */
    a->work = AGENT_STOPPING;
    a->asked = false;
    a->killed = signo == SIGKILL;
    a->kill_at_us =
        a->killed ? MONO_NEVER : mono_after(s->now_us, a->conf.shutdown_us);
    kill_workers(s, signo);
}

/* Asks the workers to leave at a step, as long as they would get between a
 * signal and the next. */
static void ask_workers(struct step *s, enum msg_graceful graceful)
{
    struct agent *a = s->a;
    if (a->work != AGENT_RUNNING) {
        stop_workers(s, SIGTERM);
        return;
    }
    a->work = AGENT_STOPPING;
    a->killed = false;
    a->asked = true;
    a->kill_at_us = mono_after(s->now_us, a->conf.shutdown_us);
    struct agent_action action = {.kind = AGENT_ASK, .graceful = graceful};
    emit(s, &action);
}

/* Goes: exits with `status` once no worker is left. */
static void go(struct step *s, int status, int signo)
{
    struct agent *a = s->a;
    if (!a->going)
        a->verdict.status = status;
    a->going = true;
    if (a->alive > 0)
        stop_workers(s, signo);
    else
        finish_unless_waiting(s);
}

__attribute__((format(printf, 3, 4))) static void
give_up(struct step *s, enum ddp_code code, const char *fmt, ...)
{
    struct agent *a = s->a;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(a->verdict.text, sizeof(a->verdict.text), fmt, ap);
    va_end(ap);
    go(s, ddp_code_exit(code), SIGTERM);
}

/* The lease is over: no worker may run on. Kills first, asks then. That it is
 * over is not forgotten until the server grants another one. */
static void fence(struct step *s)
{
    struct agent *a = s->a;
    note(s, NOTE_fenced,
         "no answer from the rendezvous for %lld ms; the workers are killed, "
         "since another round may start without this node",
         (long long)((s->now_us - a->answered_us) / MONO_MS));
    stop_workers(s, SIGKILL);
}

/* -- the link -------------------------------------------------------------- */

static void connect_now(struct step *s)
{
    struct agent *a = s->a;
    a->link = AGENT_LINK_CONNECTING;
    a->retry_at_us = MONO_NEVER;
    a->tried_at_us = s->now_us;
    note(s, NOTE_connecting, "%s", "");
    struct agent_action action = {.kind = AGENT_CONNECT};
    emit(s, &action);
}

/* How long the server may be away before the agent gives up, once it has
 * nothing else to wait for. */
static int64_t bearable_us(const struct agent *a)
{
    return (a->was_up ? a->conf.join.reconnect_ms : a->conf.join.join_ms) *
           MONO_MS;
}

/* The next try, after a pause that doubles and is jittered by half, so that
 * ten thousand agents do not come back at once. Where the time to come back is
 * short so are the pauses: a server that was away for half of it is found. */
static void schedule_retry(struct step *s)
{
    struct agent *a = s->a;
    int64_t half_us = a->pause_us / 2;
    int64_t jitter_us = rng_below(&a->rng, (uint32_t)half_us + 1);
    a->retry_at_us = mono_after(s->now_us, half_us + jitter_us);
    int64_t longest_us = mono_min(PAUSE_LONGEST_US, bearable_us(a) / 8);
    a->pause_us =
        mono_min(a->pause_us * 2,
                 longest_us > PAUSE_FIRST_US ? longest_us : PAUSE_FIRST_US);
}

/*
 * A refused connection proves that the old server is gone, and all that it
 * would have done once our lease was over (DESIGN decisions 4 and 5). The next
 * one waits for us: so long, counted from when this try began, is safe. A lease
 * that was over before is not revived.
 */
static void take_refusal(struct step *s)
{
    struct agent *a = s->a;
    if (s->now_us >= a->lease_until_us)
        return;
    int64_t until_us =
        mono_after(a->tried_at_us, REFUSED_US + short_lease_us(a));
    if (until_us > a->lease_until_us)
        a->lease_until_us = until_us;
}

/* Nobody needs to hear again from an agent that was refused or gave up; and one
 * that knows of the end could only bring the run back to a server without
 * memory. */
static bool needs_link(const struct agent *a)
{
    return !a->exited &&
           (a->held || (!a->verdict.ended && (!a->going || a->leaving)));
}

static void link_lost(struct step *s, bool refused, const char *why)
{
    struct agent *a = s->a;
    bool was_up = a->link == AGENT_LINK_IS_UP;
    a->link = AGENT_LINK_IS_DOWN;
    a->beat_at_us = MONO_NEVER;
    if (refused)
        take_refusal(s);
    (void)snprintf(a->down_text, sizeof(a->down_text), "%s", why);
    bool worked = was_up && a->heard;
    a->heard = false;
    if (worked) {
        a->down_since_us = s->now_us;
        a->complain_at_us = mono_after(s->now_us, COMPLAIN_FIRST_US);
        note(s, NOTE_link_lost, "%s", why);
    }
    if (!needs_link(a))
        return;
    /* A link that broke off soon may do so again and again. */
    int64_t lived_us = s->now_us - a->heard_since_us;
    if (worked && lived_us >= beat_every_us(a)) {
        a->pause_us = PAUSE_FIRST_US;
        connect_now(s);
    } else {
        schedule_retry(s);
    }
}

static void on_link_up(struct step *s)
{
    struct agent *a = s->a;
    a->link = AGENT_LINK_IS_UP;
    (void)snprintf(a->down_text, sizeof(a->down_text), "%s",
                   "something listens there and does not answer");
    a->retry_at_us = MONO_NEVER;
    a->heard = false;
    a->heard_seq = -1;
    a->answered_us = s->now_us;
    a->beat_sent_us[0] = s->now_us;
    a->beat_seq = 0;
    send_join(s);
    a->beat_at_us = mono_after(s->now_us, beat_every_us(a));
    if (a->held)
        return; /* the join says it all */
    if (a->leaving)
        send_leave(s);
    if (!a->holds || a->spare)
        return;
    if (a->has_failed)
        send_failed(s);
    if (a->work == AGENT_NONE)
        send_ready(s, a->world.round);
    if (a->work == AGENT_DONE)
        send_done(s);
}

/* -- what the server says -------------------------------------------------- */

/* A connection alone says little: whatever listens there may have taken it. */
static void hear(struct step *s)
{
    struct agent *a = s->a;
    if (a->heard)
        return;
    a->heard = true;
    a->heard_since_us = s->now_us;
    if (a->was_up)
        note(s, NOTE_link_back, "%s", "");
    a->was_up = true;
}

/* The newest grant counts, be it longer or shorter than those before. */
static void on_lease(struct step *s, const struct msg_lease *l)
{
    struct agent *a = s->a;
    if (l->seq < 0 || l->seq > a->beat_seq ||
        l->seq <= a->beat_seq - AGENT_BEATS)
        return;
    a->answered_us = s->now_us;
    a->heard_seq = l->seq;
    int64_t lease_us = l->grant_ms * MONO_MS;
    if (a->work == AGENT_NONE)
        lease_us = mono_min(lease_us, short_lease_us(a));
    a->lease_until_us =
        mono_after(a->beat_sent_us[l->seq % AGENT_BEATS], lease_us);
}

/* What a spare knows of the round that runs without it, for the next server. */
static void become_spare(struct step *s, const struct msg_waiting *w)
{
    struct agent *a = s->a;
    if (a->work != AGENT_NONE || w->round == 0)
        return;
    a->world = (struct msg_world){
        .round = w->round,
        .group_rank = -1,
        .group_world = w->group_world,
        .restarts = w->restarts,
        .recent = w->recent,
        .struck = w->struck,
    };
    a->world_at_us = s->now_us;
    msg_set(a->world.instance, w->instance);
    a->holds = a->spare = true;
    a->sure = a->has_failed = false;
}

/* Its place goes to another one, as long as there is one. */
static void on_set_aside(struct step *s, const struct msg_waiting *w)
{
    char why[80] = "its workers were the first to fail again and again";
    if (w->struck > 0)
        (void)snprintf(why, sizeof(why), /* fits */
                       "its workers were the first to fail %lld times in a row",
                       (long long)w->struck);
    note(s, NOTE_set_aside,
         "this node is set aside for %lld s: %s; it is taken before that only "
         "if too few nodes are left",
         (long long)((w->aside_ms + 999) / 1000), why);
}

static void on_waiting(struct step *s, const struct msg_waiting *w)
{
    if (w->spare) {
        become_spare(s, w);
        s->a->aside_until_us = mono_after(s->now_us, w->aside_ms * MONO_MS);
        if (w->aside_ms > 0)
            on_set_aside(s, w);
        else if (w->scales)
            note(s, NOTE_wait,
                 "a round runs; this node joins it in %lld s, with all that "
                 "come until then",
                 (long long)((w->left_ms + 999) / 1000));
        else
            note(s, NOTE_wait,
                 "the round is full (%lld node%s): this node waits as a spare; "
                 "another job needs another --rdzv_id",
                 (long long)w->max, w->max == 1 ? "" : "s");
        return;
    }
    const char *loopback =
        s->a->conf.loopback
            ? "; the endpoint is loopback, where no other machine comes"
            : "";
    int64_t missing = w->min - w->have;
    if (missing > 0)
        note(s, NOTE_wait,
             "%lld of the %lld nodes that are needed are here (%s), after "
             "%lld s; %lld missing: start ddprun there with the same line; "
             "where it runs, it says what keeps it away%s; giving up in %lld s",
             (long long)w->have, (long long)w->min, w->names,
             (long long)(w->since_ms / 1000), (long long)missing, loopback,
             (long long)(w->left_ms / 1000));
    else if (w->last_call)
        note(s, NOTE_wait,
             "%lld node%s here (%s), enough; waiting %lld s more for up to "
             "%lld%s",
             (long long)w->have, w->have == 1 ? " is" : "s are", w->names,
             (long long)((w->left_ms + 999) / 1000), (long long)w->max,
             loopback);
}

static void spawn(struct step *s)
{
    struct agent *a = s->a;
    const struct msg_world *w = &a->world;
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
    note(s, NOTE_spawn, "%s of %lld, node %lld of %lld", ranks,
         (long long)w->world_size, (long long)w->group_rank,
         (long long)w->group_world);
    struct agent_action action = {.kind = AGENT_SPAWN, .world = w};
    emit(s, &action);
}

static void on_world(struct step *s, const struct msg_world *w)
{
    struct agent *a = s->a;
    bool old = a->holds && strcmp(a->world.instance, w->instance) == 0 &&
               w->round <= a->world.round;
    if (a->work != AGENT_NONE || a->going || old) {
        note(s, NOTE_stale, "world of round %lld", (long long)w->round);
        return;
    }
    a->world = *w;
    a->world_at_us = s->now_us;
    a->progressed = false;
    a->ends = (struct msg_ready){.round = 0};
    a->rough = false;
    a->holds = true;
    a->spare = false;
    a->sure = s->now_us < a->lease_until_us;
    a->has_failed = false;
    a->killed = false;
    a->succeeded = 0;
    if (!a->sure) {
        /* It was under way so long that the round may be over. */
        note(s, NOTE_stale, "world of round %lld came after the lease",
             (long long)w->round);
        send_ready(s, w->round);
        return;
    }
    spawn(s);
}

static void on_stop(struct step *s, const struct msg_stop *stop)
{
    struct agent *a = s->a;
    if (a->going)
        return;
    if (a->work == AGENT_NONE) {
        send_ready(s, stop->round);
        return;
    }
    if (a->work == AGENT_CHECKING)
        return; /* ready comes then */
    if (stop->round != a->world.round) {
        note(s, NOTE_stale, "stop of round %lld", (long long)stop->round);
        return;
    }
    bool graceful = stop->graceful != MSG_AT_ONCE;
    a->rough |= !graceful;
    if (a->work == AGENT_STOPPING && graceful)
        return; /* said again */
    note(s, NOTE_stopping, "%s", stop->text);
    if (graceful)
        ask_workers(s, (enum msg_graceful)stop->graceful);
    else
        stop_workers(s, SIGTERM);
}

/*
 * An operator takes this node out of the run. It goes as by SIGTERM, but its
 * workers are asked first: the others leave at the same step.
 */
static void on_drain(struct step *s, const struct msg_drain *drain)
{
    struct agent *a = s->a;
    if (a->going)
        return; /* said again, or it goes for another reason */
    a->going = a->leaving = true;
    a->verdict.status = ddp_code_exit(DDP_E_DRAINED);
    msg_set(a->verdict.text, drain->text);
    a->leave = (struct msg_leave){.all = 0, .signal = 0};
    note(s, NOTE_drained, "%s", drain->text);
    send_leave(s);
    if (a->alive == 0)
        finish(s);
    else if (a->work == AGENT_RUNNING) /* else they were told to go already */
        ask_workers(s, MSG_SCALE_DOWN);
}

static void on_end(struct step *s, const struct msg_end *end)
{
    struct agent *a = s->a;
    a->verdict.ended = true;
    a->verdict.end = *end;
    a->verdict.heard_us = s->now_us;
    a->held = end->hold;
    if (a->held)
        a->farewell_at_us =
            mono_after(s->now_us, a->conf.join.reconnect_ms * MONO_MS);
    if (a->going && !a->leaving && !a->orphaned) { /* it had given up */
        a->verdict.status = (int)end->status;
        a->verdict.text[0] = '\0';
    }
    if (!a->going)
        a->verdict.status = (int)end->status;
    if (a->held)
        send_bye(s);
    go(s, (int)end->status, SIGTERM);
}

/* A server that will not have it needs not hear from it either. */
static bool let_go(struct step *s)
{
    bool held = s->a->held;
    s->a->held = false;
    if (held && s->a->alive == 0)
        finish(s);
    return held;
}

static void on_msg(struct step *s, const struct msg *m)
{
    hear(s);
    switch (m->kind) {
    case MSG_KIND_lease:
        on_lease(s, &m->lease);
        return;
    case MSG_KIND_waiting:
        on_waiting(s, &m->waiting);
        return;
    case MSG_KIND_world:
        on_world(s, &m->world);
        return;
    case MSG_KIND_stop:
        on_stop(s, &m->stop);
        return;
    case MSG_KIND_drain:
        on_drain(s, &m->drain);
        return;
    case MSG_KIND_end:
        on_end(s, &m->end);
        return;
    case MSG_KIND_refused:
        if (let_go(s))
            return;
        give_up(s,
                m->refused.code > 0 && m->refused.code < DDP_E_COUNT
                    ? (enum ddp_code)m->refused.code
                    : DDP_E_PROTO,
                "the rendezvous refused this node: %s", m->refused.text);
        return;
    case MSG_KIND_members:
        return; /* the shell's business */
    case MSG_KIND_join:
    case MSG_KIND_beat:
    case MSG_KIND_failed:
    case MSG_KIND_ready:
    case MSG_KIND_done:
    case MSG_KIND_leave:
    case MSG_KIND_bye:
    case MSG_KIND_order_drain:
    case MSG_KIND_order_end:
    case MSG_KIND_answered:
    case MSG_KIND_COUNT:
        note(s, NOTE_stale, "'%s' is no answer", msg_name(m->kind));
        return;
    }
}

/* -- what happens here ----------------------------------------------------- */

static const char *name_of(int signo)
{
    const char *name = sigabbrev_np(signo);
    return name != NULL ? name : "?";
}

static void describe_failure(const struct agent *a, char *text, size_t size)
{
    const struct msg_failed *f = &a->failed;
    if (f->hung)
        (void)snprintf(text, size, "%.300s", f->text);
    else if (f->signal != 0)
        (void)snprintf(text, size, "signal %lld (SIG%s)", (long long)f->signal,
                       name_of((int)f->signal));
    else
        (void)snprintf(text, size, "exit code %lld", (long long)f->code);
}

/* Tells of a worker that failed, or hung for `silent_us`. */
static void take_failure(struct step *s,
                         const struct agent_worker *w,
                         bool hung,
                         int64_t silent_us)
{
    struct agent *a = s->a;
    char how[320];
    a->has_failed = a->rough = true;
    a->failed_at_us = s->now_us - silent_us;
    a->failed = (struct msg_failed){
        .round = a->world.round,
        .rank = a->world.base_rank + w->local_rank,
        .local_rank = w->local_rank,
        .pid = w->pid,
        .code = w->code,
        .signal = w->signal,
        .permanent = w->permanent,
        .oom = w->oom,
        .hung = hung,
    };
    if (w->text != NULL)
        msg_set(a->failed.text, w->text);
    if (w->tail != NULL)
        msg_set(a->failed.tail, w->tail);
    describe_failure(a, how, sizeof(how));
    if (w->pid > 0)
        note(s, NOTE_worker_failed, "rank %lld (pid %lld): %s",
             (long long)a->failed.rank, (long long)w->pid, how);
    else
        note(s, NOTE_worker_failed, "rank %lld could not be started",
             (long long)a->failed.rank);
    send_failed(s);
}

/*
 * Whether a worker that ends while all are being stopped did not end for that:
 * a killed process's connections break before its end is seen, so that a peer
 * may have failed first. The server weighs the two (rdzv.c).
 */
static bool is_own_death(const struct agent *a, const struct agent_worker *w)
{
    return a->work == AGENT_STOPPING && !a->killed && !a->going &&
           (w->signal == SIGKILL || w->signal == SIGSEGV ||
            w->signal == SIGBUS || w->signal == SIGILL || w->signal == SIGFPE);
}

/* The ways in which one ends that was asked to leave. */
static bool has_obeyed(const struct agent_worker *w)
{
    return w->signal == SIGTERM ||
           (w->signal == 0 && (w->code == 0 || w->code == 128 + SIGTERM));
}

/* For the report on other nodes. */
static void count_end(struct msg_ready *ends, const struct agent_worker *w)
{
    ends->by_term += w->signal == SIGTERM;
    ends->by_kill += w->signal == SIGKILL;
    ends->by_signal +=
        w->signal != 0 && w->signal != SIGTERM && w->signal != SIGKILL;
    ends->by_code += w->signal == 0 && w->code != 0;
}

static void on_worker_exit(struct step *s, const struct agent_worker *w)
{
    struct agent *a = s->a;
    ddp_assert(a->alive > 0);
    a->alive--;
    a->progressed |= w->progressed;
    count_end(&a->ends, w);
    bool ok = w->code == 0 && w->signal == 0;
    if (a->work == AGENT_RUNNING && !ok) {
        take_failure(s, w, false, 0);
        stop_workers(s, SIGTERM);
    } else if (a->work == AGENT_RUNNING) {
        a->succeeded++;
        if (a->alive > 0)
            return;
        a->work = AGENT_DONE;
        struct agent_action sweep = {.kind = AGENT_SWEEP, .gentle = true};
        emit(s, &sweep);
        note(s, NOTE_finished, "%d workers", a->succeeded);
        send_done(s);
    } else {
        if (is_own_death(a, w))
            take_failure(s, w, false, 0);
        if (a->alive == 0)
            all_dead(s);
        else if (a->asked && !has_obeyed(w))
            stop_workers(s, SIGTERM);
    }
}

/* As a failure, of when it was last seen to get on: where many fall silent
 * since they wait for one, that one did so first. */
static void on_worker_hung(struct step *s, const struct agent_event *ev)
{
    struct agent *a = s->a;
    if (a->work != AGENT_RUNNING)
        return;
    take_failure(s, &ev->worker, true, ev->silent_us);
    stop_workers(s, SIGTERM);
}

/* Where nobody looks, all have got the signal already: the grace runs. */
static void on_asked(struct step *s, int attached)
{
    struct agent *a = s->a;
    if (a->asked && attached == 0)
        a->asked = false;
}

static void on_spawn_failed(struct step *s, const struct agent_event *ev)
{
    struct agent *a = s->a;
    ddp_assert(ev->started < a->alive);
    a->alive = ev->started;
    if (a->work == AGENT_RUNNING) {
        take_failure(s, &ev->worker, false, 0);
        stop_workers(s, SIGTERM);
    } else if (a->alive == 0) { /* fenced at this very moment */
        all_dead(s);
    }
}

static bool is_last_word(const struct agent *a, int signo)
{
    return signo > 0 && signo <= 64 &&
           (a->conf.last_words >> (signo - 1) & 1) != 0;
}

static void on_signal(struct step *s, int signo)
{
    struct agent *a = s->a;
    if (!is_last_word(a, signo)) {
        kill_workers(s, signo);
        return;
    }
    if (a->leaving) { /* asked twice: no more grace */
        if (!a->killed)
            note(s, NOTE_killing, "%s", "asked twice to go");
        stop_workers(s, SIGKILL);
        return;
    }
    a->leaving = true;
    a->farewell_at_us = mono_after(s->now_us, FAREWELL_US);
    a->leave.all = signo == SIGINT || signo == SIGQUIT;
    a->leave.signal = signo;
    note(s, NOTE_leaving, "signal %d (SIG%s)", signo, name_of(signo));
    send_leave(s);
    go(s, 128 + signo, signo);
}

/* Without a guard: ends at once, but not before its workers are dead, since
 * the server takes the end of the connection as their death. */
static void on_orphaned(struct step *s)
{
    struct agent *a = s->a;
    a->orphaned = true;
    a->verdict.status = 128 + SIGKILL;
    a->leave.all = false; /* waits for nothing */
    go(s, 128 + SIGKILL, SIGKILL);
    if (a->alive > 0) /* also where they were asked to go before */
        stop_workers(s, SIGKILL);
}

/* -- time ------------------------------------------------------------------ */

/* How long the agent bears to be without the rendezvous: workers that run are
 * never stopped for that alone. */
static int64_t patience_us(const struct agent *a)
{
    if (a->heard || a->work == AGENT_RUNNING || a->work == AGENT_CHECKING ||
        a->going)
        return MONO_NEVER;
    return bearable_us(a);
}

static int status_of(const struct msg_failed *f)
{
    return f->signal != 0 ? 128 + (int)f->signal : (int)f->code;
}

static void lose_patience(struct step *s)
{
    struct agent *a = s->a;
    int64_t for_s = (s->now_us - a->down_since_us) / MONO_S;
    if (a->work == AGENT_DONE) {
        (void)snprintf(a->verdict.text, sizeof(a->verdict.text),
                       "this node's workers all succeeded; the rendezvous is "
                       "gone (%s), so nothing is known of the other nodes",
                       a->down_text);
        go(s, 0, SIGTERM);
    } else if (a->has_failed) {
        (void)snprintf(a->verdict.text, sizeof(a->verdict.text),
                       "a worker failed and the rendezvous did not come back "
                       "in %lld s: %s",
                       (long long)for_s, a->down_text);
        go(s, status_of(&a->failed), SIGTERM);
    } else if (a->was_up) {
        give_up(s, DDP_E_LOST,
                "the rendezvous went away and did not come back in %lld s: %s",
                (long long)for_s, a->down_text);
    } else {
        give_up(s, DDP_E_UNREACHABLE,
                "the rendezvous was not reached in %lld s: %s",
                (long long)for_s, a->down_text);
    }
}

static void complain(struct step *s)
{
    struct agent *a = s->a;
    a->complain_at_us = mono_after(s->now_us, COMPLAIN_EVERY_US);
    note(s, NOTE_unreachable, "%s; tried for %lld s, trying on", a->down_text,
         (long long)((s->now_us - a->down_since_us) / MONO_S));
}

/* A link on which nothing comes back is worth no more than a broken one. */
static int64_t silent_at_us(const struct agent *a)
{
    return a->link == AGENT_LINK_IS_UP
               ? mono_after(a->answered_us, a->conf.join.heartbeat_ms * MONO_MS)
               : MONO_NEVER;
}

static void on_tick(struct step *s)
{
    struct agent *a = s->a;
    if (s->now_us >= a->kill_at_us && a->asked) {
        note(s, NOTE_stopping, "%d workers did not leave when asked", a->alive);
        stop_workers(s, SIGTERM);
    } else if (s->now_us >= a->kill_at_us) {
        note(s, NOTE_killing, "%d workers after the grace", a->alive);
        stop_workers(s, SIGKILL);
    }
    if (s->now_us >= silent_at_us(a)) {
        struct agent_action action = {.kind = AGENT_DISCONNECT};
        emit(s, &action);
        link_lost(s, false, "no answer");
    }
    if (s->now_us >= a->farewell_at_us && a->going && a->alive == 0) {
        finish(s);
        return;
    }
    if (s->now_us >= a->beat_at_us)
        send_beat(s);
    if (s->now_us >= a->retry_at_us)
        connect_now(s);
    if (a->heard)
        return;
    if (s->now_us >= a->complain_at_us)
        complain(s);
    int64_t patience = patience_us(a);
    if (s->now_us >= mono_after(a->down_since_us, patience))
        lose_patience(s);
}

/* -- the whole ------------------------------------------------------------- */

void agent_init(struct agent *a, const struct agent_conf *conf)
{
    *a = (struct agent){
        .conf = *conf,
        .kill_at_us = MONO_NEVER,
        .farewell_at_us = MONO_NEVER,
        .beat_at_us = MONO_NEVER,
        .retry_at_us = MONO_NEVER,
        .complain_at_us = MONO_NEVER,
        .pause_us = PAUSE_FIRST_US,
        .down_text = "no answer yet",
    };
    if (a->conf.last_words == 0)
        a->conf.last_words = LAST_WORDS;
    rng_init(&a->rng, conf->seed);
}

static void seek_server(struct step *s)
{
    struct agent *a = s->a;
    a->down_since_us = s->now_us;
    a->complain_at_us = mono_after(s->now_us, COMPLAIN_FIRST_US);
    connect_now(s);
}

static void on_start(struct step *s)
{
    if (s->a->conf.checks)
        check(s);
    else
        seek_server(s);
}

/* A node that is not fit goes as one that its user sends away: a spare takes
 * its place. */
static void leave_unfit(struct step *s, const char *why)
{
    struct agent *a = s->a;
    (void)snprintf(a->verdict.text, /* a cut text is still a text */
                   sizeof(a->verdict.text), "this node is not fit: %s", why);
    note(s, NOTE_unfit, "%s", why);
    a->leaving = true;
    a->leave = (struct msg_leave){.all = 0};
    send_leave(s);
    go(s, ddp_code_exit(DDP_E_UNFIT), SIGTERM);
}

static void on_checked(struct step *s, const struct agent_event *ev)
{
    struct agent *a = s->a;
    if (a->work != AGENT_CHECKING)
        return;
    a->work = AGENT_NONE;
    if (!ev->fit)
        leave_unfit(s, ev->text);
    else if (a->holds)
        send_ready(s, a->world.round);
    else
        seek_server(s);
}

void agent_step(struct agent *a,
                const struct agent_event *ev,
                const struct agent_actions *out)
{
    struct step s = {.a = a, .ev = ev, .out = out, .now_us = ev->now_us};
    if (a->exited)
        return;
    if (s.now_us >= a->lease_until_us)
        a->sure = false;
    if (a->alive > 0 && !a->killed && s.now_us >= a->lease_until_us)
        fence(&s);
    switch (ev->kind) {
    case AGENT_START:
        on_start(&s);
        return;
    case AGENT_LINK_UP:
        on_link_up(&s);
        return;
    case AGENT_LINK_DOWN:
        link_lost(&s, ev->refused, ev->text);
        return;
    case AGENT_MSG:
        on_msg(&s, ev->msg);
        return;
    case AGENT_WORKER_EXIT:
        on_worker_exit(&s, &ev->worker);
        return;
    case AGENT_CHECKED:
        on_checked(&s, ev);
        return;
    case AGENT_WORKER_HUNG:
        on_worker_hung(&s, ev);
        return;
    case AGENT_SPAWN_FAILED:
        on_spawn_failed(&s, ev);
        return;
    case AGENT_ASKED:
        on_asked(&s, ev->attached);
        return;
    case AGENT_SIGNAL:
        on_signal(&s, ev->signo);
        return;
    case AGENT_ORPHANED:
        on_orphaned(&s);
        return;
    case AGENT_TICK:
        on_tick(&s);
        return;
    }
    DDP_WRONG("event kind");
}

int64_t agent_deadline(const struct agent *a)
{
    if (a->exited)
        return MONO_NEVER;
    int64_t at_us = mono_min(a->kill_at_us, a->beat_at_us);
    if (a->going && a->alive == 0)
        at_us = mono_min(at_us, a->farewell_at_us);
    at_us = mono_min(at_us, a->retry_at_us);
    at_us = mono_min(at_us, silent_at_us(a));
    if (a->alive > 0 && !a->killed)
        at_us = mono_min(at_us, a->lease_until_us);
    if (!a->heard) {
        at_us = mono_min(at_us, a->complain_at_us);
        at_us = mono_min(at_us, mono_after(a->down_since_us, patience_us(a)));
    }
    return at_us;
}

int64_t agent_lease_until_us(const struct agent *a)
{
    return a->alive > 0 && !a->exited ? a->lease_until_us : MONO_NEVER;
}
