/*
 * The session with the rendezvous: the connection, beats, the lease.
 *
 * Happy path: CONNECT; connected; join, and again whatever the server must know
 * of this node; beats, AGENT_BEATS_PER_LEASE in a lease; each answer renews the
 * lease, counted from when its beat was sent.
 *
 * Failure modes:
 *   - A try to connect fails: the next one after a pause, which doubles.
 *   - Nobody listens (refused): nothing follows. It may be a firewall that
 *     answers for a server that lives.
 *   - Connected, but nothing comes: something else listens there, or the server
 *     is frozen. Broken off after heartbeat_timeout (agent_silent_at_us).
 *   - The server has no room for this member: as if nobody had answered.
 *   - The connection breaks: the next try at once if it had worked for a
 *     while, else after the pause.
 *
 * If there are several places where the run may be served, the agent looks at
 * all of them while the leader does not answer (search.c). A connection that
 * breaks is tried at the same place once, meanwhile.
 */
#include "launcher/agent/agent_priv.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define PAUSE_LONGEST_US  (2500 * MONO_MS)
#define COMPLAIN_FIRST_US (3 * MONO_S)
#define COMPLAIN_EVERY_US (30 * MONO_S)

/* -- beats and leases ------------------------------------------------------ */

static int64_t heartbeat_us(const struct agent *a)
{
    return a->conf.join.heartbeat_ms * MONO_MS;
}

/* A lease is old when it comes: the server counts it from the answer of its
 * voters before. */
static int64_t beat_every_us(const struct agent *a)
{
    return heartbeat_us(a) / AGENT_BEATS_PER_LEASE;
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

void agent_send_beat_between(struct step *s)
{
    int64_t next_us = s->a->session.beat_at_us;
    agent_send_beat(s);
    s->a->session.beat_at_us = next_us;
}

/* -- the connection -------------------------------------------------------- */

void agent_connect_now(struct step *s)
{
    struct agent *a = s->a;
    const char *target = candidates_target(&a->candidates);
    ddp_assert(a->session.state == AGENT_SESSION_DOWN);
    a->session.state = AGENT_SESSION_CONNECTING;
    a->session.retry_at_us = MONO_NEVER;
    a->session.tried_us = s->now_us;
    agent_note(s, NOTE_connecting, "%s", target);
    struct agent_action action = {
        .kind = AGENT_CONNECT,
        .target = target,
        .which = candidates_which(&a->candidates),
    };
    agent_emit(s, &action);
}

/* How long the server may be away, if no worker runs. */
static int64_t bearable_us(const struct agent *a)
{
    return (agent_was_heard(a) ? a->conf.join.reconnect_ms
                               : a->conf.join.join_ms) *
           MONO_MS;
}

int64_t agent_patient_until_us(const struct agent *a)
{
    int64_t until_us = mono_after(a->session.down_since_us, bearable_us(a));
    /* One that is a member or a spare, or on whose vote somebody counts. */
    if (!agent_was_heard(a) || a->round.evidence != AGENT_NO_ROUND ||
        agent_has_vote(a))
        return until_us;
    int64_t joined_us =
        mono_after(a->session.sought_us, a->conf.join.join_ms * MONO_MS);
    int64_t least_us = mono_after(a->session.down_since_us, heartbeat_us(a));
    return mono_min(until_us, joined_us > least_us ? joined_us : least_us);
}

/* The longest pause. If the time to come back is short the pauses are short,
 * too: a server that was away for half of it is found. */
static int64_t longest_pause_us(const struct agent *a)
{
    int64_t longest_us = mono_min(PAUSE_LONGEST_US, bearable_us(a) / 8);
    return longest_us > AGENT_PAUSE_FIRST_US ? longest_us
                                             : AGENT_PAUSE_FIRST_US;
}

/* The next try, after a pause that doubles and is jittered by half, so that
 * ten thousand agents do not come back at once. */
static void schedule_retry(struct step *s)
{
    struct agent *a = s->a;
    int64_t half_us = a->session.pause_us / 2;
    int64_t jitter_us = rng_below(&a->rng, (uint32_t)half_us + 1);
    a->session.retry_at_us = mono_after(s->now_us, half_us + jitter_us);
    a->session.pause_us =
        mono_min(a->session.pause_us * 2, longest_pause_us(a));
}

/* An agent that was refused or gave up has nothing to say any more. One that
 * knows of the final end could only bring the run back to a server without
 * memory. */
bool agent_needs_session(const struct agent *a)
{
    switch (a->known) {
    case AGENT_END_UNKNOWN:
        return a->exit == AGENT_STAYS ||
               (agent_is_leaving(a) && !a->hands_over);
    case AGENT_END_HELD:
        return true;
    case AGENT_END_FINAL:
        return false;
    }
    DDP_WRONG("known");
}

/* Those that know of the end end by themselves, if no server is left that could
 * tell it to the others. */
static void end_alone(struct step *s)
{
    struct agent *a = s->a;
    int64_t at_us = mono_after(a->session.down_since_us, 2 * heartbeat_us(a));
    if (a->known != AGENT_END_HELD || !a->session.looking ||
        a->session.stage == CANDIDATES_WAITS)
        return;
    a->farewell_at_us =
        mono_min(a->farewell_at_us, at_us > s->now_us ? at_us : s->now_us);
}

/* -- places ---------------------------------------------------------------- */

static void begin_search(struct step *s)
{
    struct agent *a = s->a;
    candidates_forget(&a->candidates);
    a->session.looking = true;
    a->session.stage = CANDIDATES_WAITS;
    a->session.look_turn = 0;
    a->session.search_us = a->session.judge_at_us = s->now_us;
}

void agent_seek(struct step *s)
{
    const struct agent *a = s->a;
    if (!a->session.looking && candidates_count(&a->candidates) > 1 &&
        agent_needs_session(a))
        begin_search(s);
}

void agent_seek_over(struct agent *a)
{
    a->session.looking = false;
    a->session.judge_at_us = MONO_NEVER;
}

void agent_learn_places(struct step *s, const char *addrs)
{
    struct agent *a = s->a;
    if (candidates_learn(&a->candidates, addrs) && a->session.looking)
        begin_search(s);
}

int agent_found(const struct agent *a)
{
    return a->session.looking
               ? candidates_choose(&a->candidates, a->session.stage)
               : -1;
}

/* The place in hand is of no use; another one may be. If none is known to be,
 * the same one is tried again after a pause. */
static void try_next(struct step *s)
{
    struct agent *a = s->a;
    struct candidates *c = &a->candidates;
    if (!agent_needs_session(a))
        return;
    agent_seek(s);
    candidates_failed(c, candidates_at(c));
    end_alone(s);
    int place = agent_found(a);
    if (place < 0) {
        schedule_retry(s);
        return;
    }
    candidates_take(c, place);
    agent_connect_now(s);
}

static void tell_loss(struct step *s, const char *why)
{
    const struct agent *a = s->a;
    int64_t left_us = a->lease_until_us - s->now_us;
    if (a->work != AGENT_RUNNING)
        agent_note(s, NOTE_link_lost, "%s", why);
    else /* a server has to be found until then */
        agent_note(s, NOTE_link_lost,
                   "%s; the lease of the workers runs for %.1f s more", why,
                   (double)left_us / MONO_S);
}

/* True: a server was there. */
static bool lose_connection(struct step *s, const char *why)
{
    struct agent *a = s->a;
    bool worked = a->session.state == AGENT_SESSION_HEARD;
    ddp_assert(a->session.state != AGENT_SESSION_DOWN);
    a->session.told = a->session.state == AGENT_SESSION_UP;
    a->session.state = AGENT_SESSION_DOWN;
    a->session.obeyed = false;
    a->session.beat_at_us = MONO_NEVER;
    (void)snprintf(a->session.down_text, sizeof(a->session.down_text), "%s",
                   why);
    if (worked) {
        a->session.down_since_us = s->now_us;
        a->session.complain_at_us = mono_after(s->now_us, COMPLAIN_FIRST_US);
        tell_loss(s, why);
    }
    return worked;
}

void agent_on_disconnected(struct step *s, const char *why)
{
    struct agent *a = s->a;
    bool worked = lose_connection(s, why);
    /* A connection that broke off soon may do so again and again. */
    if (worked && agent_needs_session(a) &&
        s->now_us - a->session.heard_since_us >= beat_every_us(a)) {
        a->session.pause_us = AGENT_PAUSE_FIRST_US;
        agent_connect_now(s);
        agent_seek(s);
    } else {
        try_next(s);
    }
}

static void disconnect(struct step *s)
{
    struct agent_action action = {.kind = AGENT_DISCONNECT};
    agent_emit(s, &action);
}

void agent_break_off(struct step *s, const char *why)
{
    disconnect(s);
    agent_on_disconnected(s, why);
}

static void leave_place(struct step *s, const char *why)
{
    if (s->a->session.state == AGENT_SESSION_DOWN)
        return;
    disconnect(s);
    if (lose_connection(s, why))
        s->a->session.pause_us = AGENT_PAUSE_FIRST_US;
}

void agent_go_elsewhere(struct step *s, const char *why)
{
    struct candidates *c = &s->a->candidates;
    leave_place(s, why);
    agent_seek(s);
    candidates_bar(c, candidates_at(c));
    try_next(s);
}

void agent_go_there(struct step *s, const char *why, bool pause)
{
    leave_place(s, why);
    if (!agent_needs_session(s->a))
        return;
    if (pause)
        schedule_retry(s);
    else
        agent_connect_now(s);
}

void agent_take_silence(struct step *s)
{
    const struct agent *a = s->a;
    char why[sizeof(a->session.down_text)]; /* what it is told by now */
    bool said = a->session.state == AGENT_SESSION_UP &&
                candidates_count(&a->candidates) > 1;
    (void)snprintf(why, sizeof(why), "%s",
                   said ? a->session.down_text : "no answer");
    agent_break_off(s, why);
}

static void say_what_counts(struct step *s)
{
    struct agent *a = s->a;
    agent_send_join(s);
    agent_send_vote(s);
    agent_send_accept(s);
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

void agent_on_connected(struct step *s, bool own)
{
    struct agent *a = s->a;
    ddp_assert(a->session.state == AGENT_SESSION_CONNECTING);
    a->session.state = AGENT_SESSION_UP;
    a->session.own = own;
    /* Until the server answers. What came of the last connection to the only
     * place says more than that there is another connection. */
    if (a->session.own)
        (void)snprintf(a->session.down_text, sizeof(a->session.down_text), "%s",
                       "the server of this launcher does not lead the run yet");
    else if (!a->session.told || candidates_count(&a->candidates) != 1)
        (void)snprintf(a->session.down_text, sizeof(a->session.down_text), "%s",
                       "a program listens on that port, but does not answer as "
                       "a rendezvous does");
    a->session.heard_seq = -1;
    a->session.answered_us = a->session.spoke_us = s->now_us;
    a->session.beat_sent_us[0] = s->now_us;
    a->session.beat_seq = 0;
    a->session.beat_at_us = mono_after(s->now_us, beat_every_us(a));
    say_what_counts(s);
}

/* -- what the server says -------------------------------------------------- */

/* Told again if the run is served at another place than before; the places of
 * the list are all the rendezvous that the user named. */
static void tell_where(struct step *s)
{
    const struct agent *a = s->a;
    const char *target = candidates_target(&a->candidates);
    if (strcmp(a->session.served, target) == 0)
        agent_note(s, NOTE_link_back, "%s", "");
    else if (target[0] == '\0')
        agent_note(s, NOTE_link_back, "%s",
                   "it is served at the endpoint from now on");
    else
        agent_note(s, NOTE_link_back, "it is served at %s from now on", target);
}

/* A connection alone says little: whatever listens there may have taken it. */
void agent_hear(struct step *s)
{
    struct agent *a = s->a;
    if (a->session.state != AGENT_SESSION_UP)
        return;
    a->session.state = AGENT_SESSION_HEARD;
    if (agent_was_heard(a))
        tell_where(s);
    a->session.heard_since_us = s->now_us;
    a->session.vain_told_us = MONO_NEVER;
    msg_set(a->session.served, candidates_target(&a->candidates));
}

/* For the report: another server than before has the authority. */
static void note_place(struct step *s)
{
    struct agent *a = s->a;
    struct agent_place now = {.term = a->vote.promised,
                              .at_us = s->now_us,
                              .which = candidates_which(&a->candidates)};
    msg_set(now.target, candidates_target(&a->candidates));
    if (a->leased.term.count > 0 &&
        strcmp(a->leased.term.id, now.term.id) != 0) {
        a->takeover.count++;
        a->takeover.from = a->leased;
        a->takeover.to = now;
        a->takeover.gap_us = now.at_us - a->leased.at_us;
    }
    a->leased = now;
}

/* The workers are of an instance that this node has given up. Its server waits
 * for their lease, and knows of no other server's grants. */
static bool are_of_another_instance(const struct agent *a)
{
    return a->alive > 0 && a->vote.promised_in[0] != '\0' &&
           a->round.world.instance[0] != '\0' &&
           !msg_same_instance(a->vote.promised_in, a->round.world.instance);
}

/* The newest grant counts, be it longer or shorter than those before. A leader
 * that grants nothing has too few launchers, and another one may have them. */
void agent_on_lease(struct step *s, const struct msg_lease *l)
{
    struct agent *a = s->a;
    if (l->seq < 0 || l->seq > a->session.beat_seq ||
        l->seq <= a->session.beat_seq - AGENT_BEATS)
        return;
    a->session.answered_us = s->now_us;
    a->session.heard_seq = l->seq;
    a->vote.echoed_us = s->now_us;
    if (l->grant_ms == 0) {
        agent_seek(s);
        return;
    }
    agent_seek_over(a);
    if (agent_is_member(a) && l->spent[0] != '\0')
        msg_set(a->round.world.spent, l->spent);
    candidates_served(&a->candidates);
    note_place(s);
    int64_t sent_us = a->session.beat_sent_us[l->seq % AGENT_BEATS];
    int64_t until_us = mono_after(sent_us, l->grant_ms * MONO_MS);
    if (are_of_another_instance(a))
        until_us = mono_min(until_us, a->lease_until_us);
    a->lease_until_us = until_us;
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

bool agent_is_answered_in_vain(struct step *s, const char *why)
{
    struct agent_session *e = &s->a->session;
    (void)snprintf(e->down_text, sizeof(e->down_text), "%s", why);
    e->complain_at_us = mono_after(s->now_us, COMPLAIN_EVERY_US);
    if (s->now_us < mono_after(e->down_since_us, COMPLAIN_FIRST_US) ||
        (e->vain_told_us != MONO_NEVER &&
         s->now_us < mono_after(e->vain_told_us, COMPLAIN_EVERY_US)))
        return false; /* the nodes may just come; or told, perhaps by another */
    e->vain_told_us = s->now_us;
    return true;
}

/* A connection on which nothing comes back is worth no more than a broken one;
 * nor is that of a leader that has given leases, and gives none any more. */
int64_t agent_silent_at_us(const struct agent *a)
{
    bool heard = a->session.state == AGENT_SESSION_HEARD;
    int64_t since_us = heard ? a->session.answered_us : a->session.spoke_us;
    return agent_is_open(a) && !a->hands_over
               ? mono_after(since_us, heartbeat_us(a))
               : MONO_NEVER;
}

/* -- the whole ------------------------------------------------------------- */

void agent_seek_server(struct step *s)
{
    struct agent *a = s->a;
    a->session.sought_us = a->session.down_since_us = s->now_us;
    a->session.answered_us = s->now_us;
    a->session.complain_at_us = mono_after(s->now_us, COMPLAIN_FIRST_US);
    agent_connect_now(s);
}
