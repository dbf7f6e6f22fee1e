/*
 * Events come in here, and become what the tables in launcher/agent/agent.h
 * say: messages of the server, signals, the guard's death, time.
 *
 * Happy path on a node: START, connect; join; `waiting` until enough nodes are
 * there; `world`, workers start; beats and leases; all workers exit 0, `done`;
 * `end`, exit.
 *
 * Failure modes, each of which ends in a state of the tables:
 *   - A message of an old round or of another instance: noted and ignored.
 *   - A message that came too late (the lease is over): the node is ready for
 *     the next round instead.
 *   - The server stays away: without workers the agent gives up after
 *     join_timeout (it was never there) or reconnect_timeout, before its first
 *     round after join_timeout in all. Workers that run do so until the lease
 *     is over.
 *   - The server refuses: the agent gives up, with the server's reason.
 *   - A server that has not the authority refuses, or
 *     says that the run is over: that counts for nothing.
 */
#include "launcher/agent/agent.h"

#include <signal.h>
#include <stdio.h>

#include "launcher/agent/agent_priv.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"

#define LAST_WORDS                                                             \
    (UINT64_C(1) << (SIGTERM - 1) | UINT64_C(1) << (SIGINT - 1) |              \
     UINT64_C(1) << (SIGHUP - 1) | UINT64_C(1) << (SIGQUIT - 1))
#define FAREWELL_US (1 * MONO_S)

/* -- what the server says -------------------------------------------------- */

static bool is_spare(const struct msg_waiting *w)
{
    return w->what_for == MSG_FOR_A_PLACE || w->what_for == MSG_FOR_GROWTH;
}

/* What a spare knows of the round that runs without it, for the next server. */
static void become_spare(struct step *s, const struct msg_waiting *w)
{
    struct agent *a = s->a;
    if (a->work != AGENT_NONE || w->round == 0)
        return;
    a->round = (struct agent_round){
        .evidence = AGENT_SPARE,
        .told_at_us = s->now_us,
    };
    a->round.world = (struct msg_world){
        .instance_ms = w->instance_ms,
        .round = w->round,
        .group_rank = -1,
        .strikes = w->strikes,
    };
    msg_set(a->round.world.instance, w->instance);
}

/* Another node gets its place, as long as there is one. */
static void on_quarantined(struct step *s, const struct msg_waiting *w)
{
    char why[120] = "its workers were the first to fail again and again";
    if (w->strikes > 0)
        (void)snprintf(
            why, sizeof(why), /* fits */
            "its workers were the first to fail, or one of them was slow, %lld "
            "time%s in a row",
            (long long)w->strikes, w->strikes == 1 ? "" : "s");
    agent_note(s, NOTE_quarantined,
               "this node is quarantined for %lld s: %s; it gets a place "
               "before that only if too few nodes are left",
               (long long)((w->cooldown_left_ms + 999) / 1000), why);
}

static void on_wait_for_the_first(struct step *s)
{
    const struct agent *a = s->a;
    const char *target = candidates_target(&a->candidates);
    char at[100], why[200];
    int64_t until_us = agent_patient_until_us(a);
    if (target[0] != '\0')
        (void)snprintf(at, sizeof(at), /* fits */ "the server at %s", target);
    else
        (void)snprintf(at, sizeof(at), /* fits */
                       "address %d of --rdzv_endpoint",
                       candidates_which(&a->candidates) + 1);
    (void)snprintf(why, sizeof(why), /* fits */
                   "%s answers, but a run begins only at the first address of "
                   "--rdzv_endpoint",
                   at);
    if (agent_is_answered_in_vain(s, why))
        agent_note(s, NOTE_wait,
                   "%s; start the server there, or look why it cannot be "
                   "reached; giving up in %lld s",
                   why, (long long)(mono_ms_until(s->now_us, until_us) / 1000));
}

/* What is to be done about it: nothing, where they are started already. */
static void tell_missing(struct step *s,
                         const struct msg_waiting *w,
                         int64_t missing,
                         const char *loopback)
{
    char what[160];
    const struct agent_conf *c = &s->a->conf;
    bool placed = c->join.node_rank >= 0;
    if (c->starter != NULL)
        (void)snprintf(what, sizeof(what), /* fits */
                       "%lld more %s to be started by %s", (long long)missing,
                       missing == 1 ? "is" : "are", c->starter);
    else
        (void)snprintf(what, sizeof(what), /* fits */
                       "run ddprun on %lld more node%s with the same command "
                       "line%s",
                       (long long)missing, missing == 1 ? "" : "s",
                       placed ? " and another --node_rank" : "");
    agent_note(s, NOTE_wait,
               "%lld of %lld node%s joined (%s) in %lld s; %s%s; giving up in "
               "%lld s%s",
               (long long)w->have, (long long)c->join.nodes_min,
               c->join.nodes_min == 1 ? "" : "s", w->names,
               (long long)(w->since_ms / 1000), what, loopback,
               (long long)(w->left_ms / 1000),
               c->starter != NULL ? " at the latest" : "");
}

static void on_waiting(struct step *s, const struct msg_waiting *w)
{
    int64_t most = s->a->conf.join.nodes_max;
    /* A run begins at the first address of the list alone, or it would begin in
     * two places. A leader shows that before. */
    if (!agent_has_promised(s->a) &&
        (candidates_which(&s->a->candidates) > 0 ||
         candidates_target(&s->a->candidates)[0] != '\0')) {
        on_wait_for_the_first(s);
        return;
    }
    if (is_spare(w)) {
        become_spare(s, w);
        s->a->quarantined_until_us =
            mono_after(s->now_us, w->cooldown_left_ms * MONO_MS);
        if (w->cooldown_left_ms > 0)
            on_quarantined(s, w);
        else if (w->what_for == MSG_FOR_GROWTH)
            agent_note(
                s, NOTE_wait,
                "a round is running; this node joins it in %lld s, together "
                "with all nodes that come until then",
                (long long)((w->left_ms + 999) / 1000));
        else
            agent_note(
                s, NOTE_wait,
                "the round is full (%lld node%s): this node waits as a spare "
                "until a place is free; if this is another job, give it "
                "another --rdzv_id",
                (long long)most, most == 1 ? "" : "s");
        return;
    }
    const char *loopback =
        s->a->conf.loopback
            ? "; the endpoint is a loopback address, which no other machine "
              "can reach"
            : "";
    int64_t missing = s->a->conf.join.nodes_min - w->have;
    if (w->refused[0] != '\0')
        agent_note(s, NOTE_refused, "%s", w->refused);
    if (missing > 0)
        tell_missing(s, w, missing, loopback);
    else if (w->what_for == MSG_FOR_LAST_CALL && w->left_ms > 0)
        agent_note(
            s, NOTE_wait,
            "%lld node%s here (%s), which is enough; waiting %lld s more for "
            "up to %lld%s",
            (long long)w->have, w->have == 1 ? " is" : "s are", w->names,
            (long long)((w->left_ms + 999) / 1000), (long long)most, loopback);
}

static bool is_graceful(const struct msg_stop *stop)
{
    return stop->graceful == MSG_SCALE_UP || stop->graceful == MSG_SCALE_DOWN;
}

static void stop_at_once(struct step *s, const struct msg_stop *stop)
{
    agent_note_stop(s, stop);
    if (stop->graceful == MSG_AFTER_DEATH)
        agent_stop_after_death(s);
    else
        agent_stop_after_failure(s);
}

/* Its workers were asked to leave, and may wait for a peer that is gone. */
static void hurry_workers(struct step *s, const struct msg_stop *stop)
{
    const struct agent *a = s->a;
    if (a->stop == AGENT_STOP_AT_STEP && !is_graceful(stop) &&
        stop->round == a->round.world.round)
        stop_at_once(s, stop);
}

static void on_stop(struct step *s, const struct msg_stop *stop)
{
    struct agent *a = s->a;
    if (a->exit != AGENT_STAYS) {
        hurry_workers(s, stop);
        return;
    }
    if (a->work == AGENT_NONE) {
        agent_send_ready(s, stop->round);
        return;
    }
    if (a->work == AGENT_CHECKING)
        return; /* ready comes then */
    if (stop->round != a->round.world.round) {
        agent_note(s, NOTE_stale, "stop of round %lld", (long long)stop->round);
        return;
    }
    bool graceful = is_graceful(stop);
    if (!graceful && a->round.outcome == AGENT_WENT_WELL)
        a->round.outcome = AGENT_DISTURBED;
    if (a->work == AGENT_STOPPING && graceful)
        return; /* said again */
    if (graceful) {
        agent_note_stop(s, stop);
        agent_ask_workers(s, (enum msg_graceful)stop->graceful);
    } else {
        stop_at_once(s, stop);
    }
}

/*
 * An operator takes this node out of the run. It goes as by SIGTERM, but its
 * workers are asked first: the others leave at the same step.
 */
static void on_drain(struct step *s, const char *why)
{
    struct agent *a = s->a;
    if (a->exit != AGENT_STAYS)
        return; /* said again, or it goes for another reason */
    agent_decide(a, AGENT_DRAINED, ddp_code_exit(DDP_E_DRAINED));
    msg_set(a->verdict.text, why);
    a->leave = (struct msg_leave){.what = MSG_LEAVE_NODE};
    agent_note(
        s, NOTE_drained, "%s%s", why,
        a->alive > 0
            ? ": asking this node's workers to stop; a signal to ddprun kills "
              "them"
            : "");
    agent_send_leave(s);
    if (a->alive == 0)
        agent_go(s, AGENT_DRAINED, ddp_code_exit(DDP_E_DRAINED), SIGTERM);
    else if (a->work == AGENT_RUNNING) /* else they were told to go already */
        agent_ask_workers(s, MSG_SCALE_DOWN);
}

/*
 * A server that has no room for a member is no reason to end its workers: it
 * may be new, and filled by newcomers before its members came back. A strict
 * run may have as many launchers as it takes at once. The agent tries again, as
 * if nobody had answered.
 */
static bool is_put_off(const struct agent *a, const struct msg *m)
{
    if (m->kind != MSG_KIND_refused || a->exit != AGENT_STAYS)
        return false;
    return m->refused.code == DDP_E_UNREACHABLE ||
           (m->refused.code == DDP_E_NOMEM && agent_is_member(a));
}

/* A place may be free when the next lease is over. */
static void put_off(struct step *s, const struct msg_refused *m)
{
    struct agent *a = s->a;
    int64_t quarter_us = a->conf.join.heartbeat_ms * MONO_MS / 4;
    a->session.pause_us = mono_min(a->session.pause_us, quarter_us);
    if (m->code == DDP_E_UNREACHABLE && agent_is_answered_in_vain(s, m->text))
        agent_note(s, NOTE_wait, "%s", m->text);
    agent_break_off(s, m->text);
}

/* What it says has a meaning wherever the authority is. */
static bool on_msg_of_any_server(struct step *s, const struct msg *m)
{
    if (m->kind == MSG_KIND_prepare)
        agent_on_prepare(s, &m->prepare);
    else if (m->kind == MSG_KIND_serves)
        agent_on_serves(s, &m->serves);
    else if (m->kind == MSG_KIND_waiting && m->waiting.voters > 0)
        agent_on_missing_voters(s, &m->waiting);
    else
        return false;
    /* That it is a spare is told once, perhaps just when the voters'
     * connections have broken. */
    return m->kind != MSG_KIND_waiting || !is_spare(&m->waiting) ||
           !agent_obeys(s->a);
}

/* A server without the authority, for example an old one, or one that knows
 * nothing of the run: what it says of this node counts for nothing. */
static void on_msg_unheeded(struct step *s, const struct msg *m)
{
    if (m->kind == MSG_KIND_refused)
        agent_go_elsewhere(s, m->refused.text);
    else if (m->kind != MSG_KIND_waiting && m->kind != MSG_KIND_lease)
        agent_note(s, NOTE_stale,
                   "message '%s' of a server without the authority",
                   msg_name(m->kind));
}

/* A server that has not the authority, or not half of the voters, says words,
 * but does nothing: that is not what this node waits for. */
static bool is_act(const struct msg *m)
{
    return m->kind == MSG_KIND_lease || m->kind == MSG_KIND_go ||
           m->kind == MSG_KIND_end ||
           (m->kind == MSG_KIND_stop && m->stop.drain) ||
           m->kind == MSG_KIND_refused ||
           (m->kind == MSG_KIND_world && !m->world.pending);
}

static void on_msg(struct step *s, const struct msg *m)
{
    s->a->session.spoke_us = s->now_us;
    if (on_msg_of_any_server(s, m))
        return;
    if (!agent_obeys(s->a)) {
        on_msg_unheeded(s, m);
        return;
    }
    if (is_put_off(s->a, m)) {
        put_off(s, &m->refused);
        return;
    }
    if (is_act(m))
        agent_hear(s);
    if (s->a->hands_over) {
        if (m->kind == MSG_KIND_go)
            agent_finish(s);
        return;
    }
    switch (m->kind) {
    case MSG_KIND_lease:
        agent_on_lease(s, &m->lease);
        return;
    case MSG_KIND_waiting:
        on_waiting(s, &m->waiting);
        return;
    case MSG_KIND_world:
        agent_on_world(s, &m->world);
        return;
    case MSG_KIND_stop:
        if (m->stop.drain)
            on_drain(s, m->stop.text);
        else
            on_stop(s, &m->stop);
        return;
    case MSG_KIND_end:
        agent_on_end(s, &m->end);
        return;
    case MSG_KIND_refused:
        if (agent_lets_go(s))
            return;
        agent_give_up(s,
                      m->refused.code > 0 && m->refused.code < DDP_E_COUNT
                          ? (enum ddp_code)m->refused.code
                          : DDP_E_PROTO,
                      "the rendezvous refused this node: %s", m->refused.text);
        return;
    case MSG_KIND_look:
    case MSG_KIND_members:
        return; /* the shell's business */
    case MSG_KIND_voters:
        agent_on_voters(s, &m->voters);
        return;
    case MSG_KIND_go:
        agent_on_go(s, &m->go);
        return;
    case MSG_KIND_prepare: /* dealt with before */
    case MSG_KIND_serves:
        return;
    case MSG_KIND_join:
    case MSG_KIND_vote:
    case MSG_KIND_promise:
    case MSG_KIND_accept:
    case MSG_KIND_beat:
    case MSG_KIND_failed:
    case MSG_KIND_ready:
    case MSG_KIND_leave:
    case MSG_KIND_order:
    case MSG_KIND_answered:
    case MSG_KIND_COUNT:
        agent_note(s, NOTE_stale, "message '%s', which no server sends",
                   msg_name(m->kind));
        return;
    }
}

/* -- what happens here ----------------------------------------------------- */

static bool is_in(uint64_t signals, int64_t signo)
{
    return signo > 0 && signo <= 64 && (signals >> (signo - 1) & 1) != 0;
}

/* It leaves already. Asked twice means no more grace; but a notice is told in
 * advance, and SIGTERM after it is the first word that is meant so. */
static void on_signal_again(struct step *s, int signo)
{
    struct agent *a = s->a;
    bool noticed =
        a->exit == AGENT_LEAVING && is_in(a->conf.notices, a->leave.signal);
    if (is_in(a->conf.notices, signo))
        return; /* known */
    if (noticed && a->alive > 0) {
        a->leave.signal = signo;
        agent_note(s, NOTE_leaving,
                   "signal %d (%s): stopping this node's "
                   "workers; another signal kills them",
                   signo, signals_name(signo));
        agent_stop_workers(s, signo);
        return;
    }
    if (a->alive == 0)
        agent_note(s, NOTE_leaving, "a second signal (%s): leaving now",
                   signals_name(signo));
    else if (a->stop < AGENT_STOP_KILLED)
        agent_note(s, NOTE_killing, "%s", "a second signal came");
    agent_stop_workers(s, SIGKILL);
    a->farewell_at_us =
        mono_min(a->farewell_at_us, mono_after(s->now_us, FAREWELL_US));
}

/* The job ends soon, and its workers can still leave at a step of theirs. If
 * they were told to stop before, they are on their way. */
static void on_notice(struct step *s, int signo)
{
    struct agent *a = s->a;
    agent_note(s, NOTE_leaving, "signal %d (%s)%s", signo, signals_name(signo),
               a->alive > 0 ? ": asking this node's workers to leave at a step"
                            : ": leaving");
    agent_send_leave(s);
    if (a->alive == 0)
        agent_go(s, AGENT_LEAVING, 128 + signo, signo);
    else if (a->work == AGENT_RUNNING)
        agent_ask_workers(s, MSG_SCALE_DOWN);
}

static void on_signal(struct step *s, int signo)
{
    struct agent *a = s->a;
    int64_t farewell_us = mono_after(s->now_us, FAREWELL_US);
    if (!is_in(a->conf.last_words, signo)) {
        agent_kill_workers(s, signo);
        return;
    }
    if (agent_is_leaving(a)) {
        on_signal_again(s, signo);
        return;
    }
    agent_decide(a, AGENT_LEAVING, 128 + signo);
    a->farewell_at_us = farewell_us;
    bool all = signo == SIGINT || signo == SIGQUIT;
    a->leave.what = all && agent_is_member(a) /* others speak for themselves */
                        ? MSG_LEAVE_ALL
                        : MSG_LEAVE_NODE;
    a->leave.signal = signo;
    if (is_in(a->conf.notices, signo)) {
        on_notice(s, signo);
        return;
    }
    agent_note(s, NOTE_leaving, "signal %d (%s)%s", signo, signals_name(signo),
               a->alive > 0
                   ? ": stopping this node's workers; a second signal kills "
                     "them"
                   : ": leaving");
    agent_send_leave(s);
    agent_go(s, AGENT_LEAVING, 128 + signo, signo);
}

/* The server decides, since others may be about to go as well. If it cannot be
 * asked now, the next event of this kind asks it. */
static void on_drain_due(struct step *s)
{
    const struct agent *a = s->a;
    const struct msg m = {.kind = MSG_KIND_leave, .leave.what = MSG_LEAVE_ASKS};
    if (a->exit == AGENT_STAYS && a->session.state == AGENT_SESSION_HEARD &&
        agent_obeys(a))
        agent_send(s, &m);
}

static void on_news(struct step *s)
{
    if (s->a->session.state == AGENT_SESSION_HEARD)
        agent_send_beat_between(s);
}

/* Without a guard it ends at once, but not before its workers are dead. */
static void on_guard_died(struct step *s)
{
    struct agent *a = s->a;
    agent_decide(a, AGENT_ORPHANED, 128 + SIGKILL);
    a->verdict.status = 128 + SIGKILL; /* also if it was going already */
    a->leave.what = MSG_LEAVE_NODE;    /* waits for nothing */
    agent_go(s, AGENT_ORPHANED, 128 + SIGKILL, SIGKILL);
}

/* -- time ------------------------------------------------------------------ */

/* When the agent gives up waiting for a rendezvous that is away. While workers
 * run, their lease decides. */
static int64_t give_up_at_us(const struct agent *a)
{
    if (a->session.state == AGENT_SESSION_HEARD || a->work == AGENT_RUNNING ||
        a->work == AGENT_CHECKING || a->exit != AGENT_STAYS)
        return MONO_NEVER;
    return agent_patient_until_us(a);
}

static void on_tick(struct step *s)
{
    struct agent *a = s->a;
    if (s->now_us >= a->kill_at_us && a->stop == AGENT_STOP_AT_STEP) {
        agent_note(s, NOTE_stopping,
                   "%d worker%s did not stop at a step when asked; sending "
                   "SIGTERM",
                   a->alive, a->alive == 1 ? "" : "s");
        agent_stop_workers(s, SIGTERM);
    } else if (s->now_us >= a->kill_at_us) {
        agent_note(s, NOTE_killing, "%d worker%s, after %g s (%s)", a->alive,
                   a->alive == 1 ? "" : "s", (double)agent_grace_us(a) / MONO_S,
                   agent_grace_option(a));
        agent_stop_workers(s, SIGKILL);
        a->stop = AGENT_STOP_KILLED_LATE;
    }
    if (s->now_us >= agent_silent_at_us(a))
        agent_take_silence(s);
    if (s->now_us >= a->farewell_at_us && a->exit != AGENT_STAYS &&
        a->alive == 0) {
        agent_finish(s);
        return;
    }
    if (s->now_us >= a->session.beat_at_us)
        agent_send_beat(s);
    if (s->now_us >= a->session.retry_at_us)
        agent_connect_now(s);
    if (a->session.state == AGENT_SESSION_HEARD)
        return;
    if (s->now_us >= a->session.complain_at_us)
        agent_complain(s);
    if (s->now_us >= give_up_at_us(a))
        agent_lose_patience(s);
}

/* -- the whole ------------------------------------------------------------- */

void agent_init(struct agent *a, const struct agent_conf *conf)
{
    *a = (struct agent){
        .conf = *conf,
        .kill_at_us = MONO_NEVER,
        .farewell_at_us = MONO_NEVER,
        .session = {.heard_since_us = MONO_NEVER,
                    .sought_us = MONO_NEVER,
                    .beat_at_us = MONO_NEVER,
                    .retry_at_us = MONO_NEVER,
                    .complain_at_us = MONO_NEVER,
                    .vain_told_us = MONO_NEVER,
                    .judge_at_us = MONO_NEVER,
                    .pause_us = AGENT_PAUSE_FIRST_US,
                    .down_text = "no answer yet"},
        .vote = {.echoed_us = MONO_NEVER},
    };
    candidates_init(&a->candidates, conf->endpoints > 1 ? conf->endpoints : 1);
    if (a->conf.last_words == 0)
        a->conf.last_words = LAST_WORDS;
    rng_init(&a->rng, conf->seed);
}

/* A node that is not fit goes in the same way as one that is drained: a spare
 * takes its place. */
static void leave_unfit(struct step *s, const char *why)
{
    struct agent *a = s->a;
    (void)snprintf(a->verdict.text, /* a cut text is still a text */
                   sizeof(a->verdict.text), "this node is not fit: %s", why);
    agent_note(s, NOTE_unfit, "%s", why);
    agent_decide(a, AGENT_DRAINED, ddp_code_exit(DDP_E_UNFIT));
    a->leave = (struct msg_leave){.what = MSG_LEAVE_NODE};
    agent_send_leave(s);
    agent_go(s, AGENT_DRAINED, ddp_code_exit(DDP_E_UNFIT), SIGTERM);
}

/* SIGKILL does not end a worker. A node that goes already goes now. */
static void leave_held(struct step *s, const char *why)
{
    if (s->a->exit == AGENT_STAYS)
        leave_unfit(s, why);
    else
        agent_note(s, NOTE_unfit, "%s", why);
    agent_abandon(s);
}

static void on_checked(struct step *s, const struct agent_event *ev)
{
    struct agent *a = s->a;
    if (!ev->fit && a->work == AGENT_STOPPING && a->stop >= AGENT_STOP_KILLED) {
        leave_held(s, ev->text);
        return;
    }
    if (a->work != AGENT_CHECKING)
        return;
    a->work = AGENT_NONE;
    if (a->exit != AGENT_STAYS)
        return; /* it goes for another reason, and perhaps waits for an answer
                   (waits_for_end): its health matters to nobody any more */
    if (!ev->fit)
        leave_unfit(s, ev->text);
    else if (a->round.evidence != AGENT_NO_ROUND)
        agent_send_ready(s, a->round.world.round);
    else
        agent_seek_server(s);
}

static void on_event(struct step *s, const struct agent_event *ev)
{
    switch (ev->kind) {
    case AGENT_START:
        if (s->a->conf.checks)
            agent_look_at_health(s);
        else
            agent_seek_server(s);
        return;
    case AGENT_CONNECTED:
        agent_on_connected(s, ev->own);
        return;
    case AGENT_DISCONNECTED:
        if (s->a->hands_over)
            agent_finish(s); /* the server whose word it waits for is gone */
        else
            agent_on_disconnected(s, ev->text);
        return;
    case AGENT_MSG:
        on_msg(s, ev->msg);
        return;
    case AGENT_SEEN:
        agent_on_seen(s, ev->place, ev->msg);
        return;
    case AGENT_WORKER_EXIT:
        agent_on_worker_exit(s, &ev->worker);
        return;
    case AGENT_CHECKED:
        on_checked(s, ev);
        return;
    case AGENT_WORKER_HUNG:
        agent_on_worker_hung(s, ev);
        return;
    case AGENT_WORKER_FAILED:
        agent_on_worker_failed(s, &ev->worker);
        return;
    case AGENT_SPAWN_FAILED:
        agent_on_spawn_failed(s, ev);
        return;
    case AGENT_ASKED:
        agent_on_asked(s, ev->attached);
        return;
    case AGENT_SIGNAL:
        on_signal(s, ev->signo);
        return;
    case AGENT_DRAIN_DUE:
        on_drain_due(s);
        return;
    case AGENT_NEWS:
        on_news(s);
        return;
    case AGENT_GUARD_DIED:
        on_guard_died(s);
        return;
    case AGENT_TICK:
        on_tick(s);
        return;
    }
    DDP_WRONG("event kind");
}

/* Before all else: a node that slept fences first and reads its messages then.
 * That the lease was over is not forgotten in this round. */
static void check_lease(struct step *s)
{
    struct agent *a = s->a;
    if (s->now_us < a->lease_until_us)
        return;
    if (a->round.evidence == AGENT_MEMBER_SURE)
        a->round.evidence = AGENT_MEMBER_LAPSED;
    if (a->alive > 0 && a->stop < AGENT_STOP_KILLED)
        agent_fence(s);
}

void agent_step(struct agent *a,
                const struct agent_event *ev,
                const struct agent_actions *out)
{
    struct step s = {.a = a, .out = out, .now_us = ev->now_us};
    if (a->exit == AGENT_GONE)
        return;
    check_lease(&s);
    on_event(&s, ev);
    agent_search_go_on(&s);
    if (a->exit != AGENT_GONE)
        agent_record(&s);
    agent_check(a);
}

int64_t agent_deadline(const struct agent *a)
{
    if (a->exit == AGENT_GONE)
        return MONO_NEVER;
    int64_t at_us = mono_min(a->kill_at_us, a->session.beat_at_us);
    if (a->exit != AGENT_STAYS && a->alive == 0)
        at_us = mono_min(at_us, a->farewell_at_us);
    at_us = mono_min(at_us, a->session.retry_at_us);
    at_us = mono_min(at_us, agent_silent_at_us(a));
    at_us = mono_min(at_us, agent_search_at_us(a));
    if (a->alive > 0 && a->stop < AGENT_STOP_KILLED)
        at_us = mono_min(at_us, a->lease_until_us);
    if (a->session.state != AGENT_SESSION_HEARD) {
        at_us = mono_min(at_us, a->session.complain_at_us);
        at_us = mono_min(at_us, give_up_at_us(a));
    }
    return at_us;
}

int64_t agent_lease_until_us(const struct agent *a)
{
    return a->alive > 0 && a->exit != AGENT_GONE ? a->lease_until_us
                                                 : MONO_NEVER;
}
