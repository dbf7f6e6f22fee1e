/*
 * What the server is told, and what people are. Each message is made of the
 * agent's state when it is sent, so that it can be said again after a reconnect
 * as it is then.
 */
#include "launcher/agent/agent_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

void agent_emit(struct step *s, const struct agent_action *action)
{
    s->out->emit(s->out->ctx, action);
}

bool agent_is_open(const struct agent *a)
{
    return a->session.state == AGENT_SESSION_UP ||
           a->session.state == AGENT_SESSION_HEARD;
}

/* Paxos Made Simple, 2.5: "an acceptor records its intended response in stable
 * storage before actually sending the response". What survives the agent here
 * is its guard. A beat says nothing new. */
void agent_send(struct step *s, const struct msg *m)
{
    struct agent_action action = {.kind = AGENT_SEND, .msg = m};
    if (m->kind != MSG_KIND_beat)
        agent_record(s);
    if (agent_is_open(s->a))
        agent_emit(s, &action);
}

static void emit_note(struct step *s,
                      enum note_kind kind,
                      const char *text,
                      int64_t detect_us)
{
    struct note n = {
        .kind = kind,
        .run = s->a->conf.join.run,
        .round = s->a->round.world.round, /* 0: there is none */
        .node = s->a->conf.join.name,
        .text = text,
        .detect_us = detect_us,
    };
    struct agent_action action = {.kind = AGENT_NOTE, .note = &n};
    agent_emit(s, &action);
}

void agent_note(struct step *s, enum note_kind kind, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* may be cut */
    va_end(ap);
    emit_note(s, kind, text, 0);
}

void agent_note_stop(struct step *s, const struct msg_stop *stop)
{
    emit_note(s, NOTE_stopping, stop->text, stop->detect_ms * MONO_MS);
}

static enum msg_state state_of(const struct agent *a)
{
    if (a->round.evidence == AGENT_SPARE)
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

#define AGE_MS_MAX INT64_C(86400000000) /* of messages.def */
#define VIA_VOTER  31                   /* ... of join.via */

void agent_send_join(struct step *s)
{
    const struct agent *a = s->a;
    int64_t held_ms = (s->now_us - a->round.told_at_us) / MONO_MS;
    struct msg m = {.kind = MSG_KIND_join, .join = a->conf.join};
    m.join.group_rank = -1;
    if (a->round.evidence != AGENT_NO_ROUND) {
        msg_set(m.join.instance, a->round.world.instance);
        m.join.instance_ms =
            mono_min(a->round.world.instance_ms + held_ms, AGE_MS_MAX);
        m.join.round = a->round.world.round;
        m.join.group_rank = a->round.world.group_rank;
        m.join.restarts = a->round.world.restarts;
        m.join.state = state_of(a);
        m.join.recent = a->round.world.recent;
        m.join.recent_ms = mono_min(held_ms, AGE_MS_MAX);
        m.join.no_progress = a->round.world.no_progress;
        msg_set(m.join.spent, a->round.world.spent);
        m.join.strikes = a->round.world.strikes;
        m.join.cooldown_left_ms =
            mono_ms_until(s->now_us, a->quarantined_until_us);
    }
    if (a->known ==
        AGENT_END_HELD) { /* of an instance that it was perhaps never in */
        m.join.ended = a->verdict.end.status + 1;
        msg_set(m.join.instance, a->verdict.end.instance);
        m.join.round = a->verdict.end.round;
    }
    m.join.via = candidates_target(&a->candidates)[0] != '\0'
                     ? VIA_VOTER
                     : candidates_which(&a->candidates);
    m.join.term = a->vote.promised;
    if (a->vote.left[0] == '\0')
        msg_set(m.join.term_of, a->vote.promised_in);
    m.join.answered_ms =
        a->vote.echoed_us == MONO_NEVER
            ? -1
            : mono_min((s->now_us - a->vote.echoed_us) / MONO_MS, AGE_MS_MAX);
    m.join.lease_ms = mono_ms_until(s->now_us, a->lease_until_us);
    agent_send(s, &m);
}

/* What it has accepted. False: nothing in which it has a vote. */
static bool fill_vote(const struct agent *a, struct msg_vote *m)
{
    const struct agent_vote *v = &a->vote;
    if (v->state == AGENT_VOTE_NONE || agent_instance(a)[0] == '\0')
        return false;
    if (!agent_is_among(a, v->accepted.voters) &&
        !agent_is_among(a, v->accepted.before))
        return false;
    bool in_it = v->world.round > 0;
    m->version = MSG_VERSION;
    msg_set(m->instance, agent_instance(a));
    m->round = v->accepted.round;
    m->round_term = v->accepted.term;
    m->group_rank = in_it ? v->world.group_rank : -1;
    m->group_world = in_it ? v->world.group_world : a->round.world.group_world;
    if (v->accepted.group_world > 0)
        m->group_world = v->accepted.group_world;
    m->restarts = v->accepted.restarts;
    msg_set(m->voters, v->accepted.voters);
    msg_set(m->before, v->accepted.before);
    m->end_term = v->ended;
    return true;
}

void agent_send_vote(struct step *s)
{
    const struct agent *a = s->a;
    struct msg m = {.kind = MSG_KIND_vote};
    /* who leaves has voted for the server that it told so */
    if (agent_is_leaving(a) || !fill_vote(a, &m.vote))
        return;
    agent_send(s, &m);
}

/* -- the farewell ---------------------------------------------------------- */

/* Without a vote: the round that it is in, so that its place is not waited for.
 */
static void fill_place(const struct agent *a, struct msg_vote *f)
{
    const struct msg_world *w = &a->round.world;
    f->group_rank = -1;
    msg_set(f->instance, a->vote.promised_in);
    if (!agent_is_member(a))
        return;
    msg_set(f->instance, w->instance);
    f->round = w->round;
    f->round_term = w->term;
    f->group_rank = w->group_rank;
    f->group_world = w->group_world;
}

static void fill_farewell(const struct agent *a, struct msg_vote *f)
{
    char instance[MSG_INSTANCE_LEN + 1];
    memset(f, 0, sizeof(*f)); /* it is compared by its bytes */
    /* The run is over for all, or it never came to a server: nobody waits. */
    if (a->known == AGENT_END_FINAL || a->session.sought_us == MONO_NEVER)
        return;
    if (!fill_vote(a, f))
        fill_place(a, f);
    f->version = MSG_VERSION;
    f->last = 1;
    msg_set(f->run, a->conf.join.run);
    msg_set(f->agent, a->conf.join.agent);
    msg_set(f->name, a->conf.join.name);
    msg_set(instance, f->instance);
    msg_set_name(f->instance, instance);
    /* Of an instance that it gave up it tells nothing: its voters there have to
     * do without its last word, and wait for it. */
    if (a->vote.left[0] == '\0' || f->instance[0] != '\0')
        f->term = a->vote.promised;
    f->done = a->work == AGENT_DONE && f->round == a->round.world.round;
    bool holds = a->known == AGENT_END_HELD;
    f->ended = holds ? a->verdict.end.status + 1 : 0;
    f->end_term = holds ? a->vote.ended : (struct term){.count = 0};
}

void agent_record(struct step *s)
{
    struct agent *a = s->a;
    struct msg m = {.kind = MSG_KIND_vote};
    struct agent_action action = {.kind = AGENT_RECORD, .msg = &m};
    fill_farewell(a, &m.vote);
    if (memcmp(&m.vote, &a->recorded, sizeof(a->recorded)) == 0)
        return;
    a->recorded = m.vote;
    agent_emit(s, &action);
}

/* To a server of a later term it says `vote` alone: that counts whom it
 * promised to obey. What it could not tell a later server it does not accept.
 */
void agent_send_accept(struct step *s)
{
    const struct agent_vote *v = &s->a->vote;
    struct msg m = {.kind = MSG_KIND_accept, .accept.round = v->accepted.round};
    if (v->state != AGENT_VOTE_PENDING || agent_is_leaving(s->a) ||
        agent_instance(s->a)[0] == '\0' ||
        term_cmp(&v->accepted.term, &v->promised) != 0)
        return;
    m.accept.term = v->accepted.term;
    agent_send(s, &m);
}

void agent_send_promise(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_promise,
                    .promise.term = s->a->vote.promised};
    agent_send(s, &m);
}

void agent_send_failed(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_failed, .failed = s->a->round.failed};
    m.failed.age_us = s->now_us - s->a->round.failed_at_us;
    agent_send(s, &m);
}

void agent_send_ready(struct step *s, int64_t round)
{
    const struct agent *a = s->a;
    struct msg m = {.kind = MSG_KIND_ready, .ready.round = round};
    if (round == a->round.world.round) {
        m.ready.progress = a->round.progressed;
        m.ready.base_rank = a->round.world.base_rank;
        exits_print_counts(&a->round.ends, m.ready.counts);
        exits_print(&a->round.ended, m.ready.ends);
    }
    agent_send(s, &m);
}

void agent_send_done(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_ready,
                    .ready = {.round = s->a->round.world.round, .done = 1}};
    agent_send(s, &m);
}

void agent_send_leave(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_leave, .leave = s->a->leave};
    agent_send(s, &m);
}

void agent_send_bye(struct step *s)
{
    struct msg m = {.kind = MSG_KIND_leave, .leave.what = MSG_LEAVE_ENDED};
    agent_send(s, &m);
}
