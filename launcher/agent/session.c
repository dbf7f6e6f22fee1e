/*
 * The session with the rendezvous: the connection, beats, the lease.
 *
 * Happy path: CONNECT; connected; join, and again whatever the server must know
 * of this node; beats, BEATS_PER_LEASE in a lease; each answer renews the
 * lease, counted from when its beat was sent.
 *
 * Failure modes:
 *   - A try to connect fails: the next one after a pause, which doubles.
 *   - Nobody listens (refused): the old server is gone; the lease is renewed by
 *     that (take_refusal).
 *   - Connected, but no answer: something else listens there, or the server is
 *     frozen. Broken off after heartbeat_timeout (agent_silent_at_us).
 *   - The server has no room for this member: as if nobody had answered.
 *   - The connection breaks: the next try at once if it had worked for a
 *     while, else after the pause.
 */
#include "launcher/agent/agent_priv.h"

#include <stdio.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/proto/timing.h"

#define PAUSE_LONGEST_US (2500 * MONO_MS)
_Static_assert(TIMING_REFUSED_US > PAUSE_LONGEST_US,
               "a refusal would not be renewed in time");
#define COMPLAIN_FIRST_US (3 * MONO_S)
#define COMPLAIN_EVERY_US (30 * MONO_S)
#define BEATS_PER_LEASE   5

/* -- beats and leases ------------------------------------------------------ */

static int64_t beat_every_us(const struct agent *a)
{
    return a->conf.join.heartbeat_ms * MONO_MS / BEATS_PER_LEASE;
}

void agent_send_beat(struct step *s)
{
    struct agent *a = s->a;
    a->session.beat_seq++;
    a->session.beat_sent_us[a->session.beat_seq % AGENT_BEATS] = s->now_us;
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = a->session.beat_seq;
    m.beat.heard = a->session.heard_seq;
    m.beat.round = agent_is_member(a) ? a->round.world.round : 0;
    agent_send(s, &m);
    a->session.beat_at_us = mono_after(s->now_us, beat_every_us(a));
}

/* A lease granted for a round is not carried into the next one: the server
 * forgets it with `ready`. */
int64_t agent_short_lease_us(const struct agent *a)
{
    int64_t heartbeat_us = a->conf.join.heartbeat_ms * MONO_MS;
    return heartbeat_us - heartbeat_us / 5;
}

/* -- the connection -------------------------------------------------------- */

void agent_connect_now(struct step *s)
{
    struct agent *a = s->a;
    ddp_assert(a->session.state == AGENT_SESSION_DOWN);
    a->session.state = AGENT_SESSION_CONNECTING;
    a->session.retry_at_us = MONO_NEVER;
    a->session.tried_at_us = s->now_us;
    agent_note(s, NOTE_connecting, "%s", "");
    struct agent_action action = {.kind = AGENT_CONNECT, .target = ""};
    agent_emit(s, &action);
}

int64_t agent_bearable_us(const struct agent *a)
{
    return (agent_was_heard(a) ? a->conf.join.reconnect_ms
                               : a->conf.join.join_ms) *
           MONO_MS;
}

/* The next try, after a pause that doubles and is jittered by half, so that
 * ten thousand agents do not come back at once. If the time to come back is
 * short the pauses are short, too: a server that was away for half of it is
 * found. */
static void schedule_retry(struct step *s)
{
    struct agent *a = s->a;
    int64_t half_us = a->session.pause_us / 2;
    int64_t jitter_us = rng_below(&a->rng, (uint32_t)half_us + 1);
    a->session.retry_at_us = mono_after(s->now_us, half_us + jitter_us);
    int64_t longest_us = mono_min(PAUSE_LONGEST_US, agent_bearable_us(a) / 8);
    a->session.pause_us = mono_min(
        a->session.pause_us * 2,
        longest_us > AGENT_PAUSE_FIRST_US ? longest_us : AGENT_PAUSE_FIRST_US);
}

/*
 * A refused connection proves that the old server is gone, and with it all that
 * it would have done once this lease was over (ddprun-protocol(7), "Leases").
 * The next server waits for TIMING_REFUSED_US, counted from when this try
 * began, before it counts on the death of this node's workers. A lease that was
 * over before is not revived.
 */
static void take_refusal(struct step *s)
{
    struct agent *a = s->a;
    if (s->now_us >= a->lease_until_us)
        return;
    int64_t until_us = mono_after(a->session.tried_at_us,
                                  TIMING_REFUSED_US + agent_short_lease_us(a));
    if (until_us > a->lease_until_us)
        a->lease_until_us = until_us;
}

/* An agent that was refused or gave up has nothing to say any more. One that
 * knows of the final end could only bring the run back to a server without
 * memory. */
static bool needs_session(const struct agent *a)
{
    switch (a->known) {
    case AGENT_END_UNKNOWN:
        return a->exit == AGENT_STAYS || agent_is_leaving(a);
    case AGENT_END_HELD:
        return true;
    case AGENT_END_FINAL:
        return false;
    }
    DDP_WRONG("known");
}

void agent_on_disconnected(struct step *s, bool refused, const char *why)
{
    struct agent *a = s->a;
    ddp_assert(a->session.state != AGENT_SESSION_DOWN);
    ddp_assert(!refused || a->session.state == AGENT_SESSION_CONNECTING);
    bool worked = a->session.state == AGENT_SESSION_HEARD;
    a->session.state = AGENT_SESSION_DOWN;
    a->session.beat_at_us = MONO_NEVER;
    if (refused)
        take_refusal(s);
    (void)snprintf(a->session.down_text, sizeof(a->session.down_text), "%s",
                   why);
    if (worked) {
        a->session.down_since_us = s->now_us;
        a->session.complain_at_us = mono_after(s->now_us, COMPLAIN_FIRST_US);
        agent_note(s, NOTE_link_lost, "%s%s", why,
                   a->work == AGENT_RUNNING ? "; workers run on" : "");
    }
    if (!needs_session(a))
        return;
    /* A connection that broke off soon may do so again and again. */
    if (worked && s->now_us - a->session.heard_since_us >= beat_every_us(a)) {
        a->session.pause_us = AGENT_PAUSE_FIRST_US;
        agent_connect_now(s);
    } else {
        schedule_retry(s);
    }
}

void agent_break_off(struct step *s, const char *why)
{
    struct agent_action action = {.kind = AGENT_DISCONNECT};
    agent_emit(s, &action);
    agent_on_disconnected(s, false, why);
}

void agent_on_connected(struct step *s)
{
    struct agent *a = s->a;
    ddp_assert(a->session.state == AGENT_SESSION_CONNECTING);
    a->session.state = AGENT_SESSION_UP;
    (void)snprintf(a->session.down_text, sizeof(a->session.down_text), "%s",
                   "a program listens on that port, but does not answer as a "
                   "rendezvous does");
    a->session.heard_seq = -1;
    a->session.answered_us = s->now_us;
    a->session.beat_sent_us[0] = s->now_us;
    a->session.beat_seq = 0;
    agent_send_join(s);
    a->session.beat_at_us = mono_after(s->now_us, beat_every_us(a));
    if (a->known == AGENT_END_HELD)
        return; /* the join says it all */
    if (agent_is_leaving(a))
        agent_send_leave(s);
    if (!agent_is_member(a))
        return;
    if (a->round.outcome == AGENT_FAILED)
        agent_send_failed(s);
    if (a->work == AGENT_NONE)
        agent_send_ready(s, a->round.world.round);
    if (a->work == AGENT_DONE)
        agent_send_done(s);
}

/* -- what the server says -------------------------------------------------- */

/* A connection alone says little: whatever listens there may have taken it. */
void agent_hear(struct step *s)
{
    struct agent *a = s->a;
    if (a->session.state != AGENT_SESSION_UP)
        return;
    a->session.state = AGENT_SESSION_HEARD;
    if (agent_was_heard(a))
        agent_note(s, NOTE_link_back, "%s", "");
    a->session.heard_since_us = s->now_us;
}

/* The newest grant counts, be it longer or shorter than those before. */
void agent_on_lease(struct step *s, const struct msg_lease *l)
{
    struct agent *a = s->a;
    if (l->seq < 0 || l->seq > a->session.beat_seq ||
        l->seq <= a->session.beat_seq - AGENT_BEATS)
        return;
    a->session.answered_us = s->now_us;
    a->session.heard_seq = l->seq;
    int64_t lease_us = l->grant_ms * MONO_MS;
    if (a->work == AGENT_NONE)
        lease_us = mono_min(lease_us, agent_short_lease_us(a));
    a->lease_until_us =
        mono_after(a->session.beat_sent_us[l->seq % AGENT_BEATS], lease_us);
}

/* -- time ------------------------------------------------------------------ */

void agent_complain(struct step *s)
{
    struct agent *a = s->a;
    a->session.complain_at_us = mono_after(s->now_us, COMPLAIN_EVERY_US);
    agent_note(s, NOTE_unreachable, "%s; still trying after %lld s",
               a->session.down_text,
               (long long)((s->now_us - a->session.down_since_us) / MONO_S));
}

/* A connection on which nothing comes back is worth no more than a broken one.
 */
int64_t agent_silent_at_us(const struct agent *a)
{
    return agent_is_open(a) ? mono_after(a->session.answered_us,
                                         a->conf.join.heartbeat_ms * MONO_MS)
                            : MONO_NEVER;
}

/* -- the whole ------------------------------------------------------------- */

void agent_seek_server(struct step *s)
{
    struct agent *a = s->a;
    a->session.down_since_us = s->now_us;
    a->session.complain_at_us = mono_after(s->now_us, COMPLAIN_FIRST_US);
    agent_connect_now(s);
}
