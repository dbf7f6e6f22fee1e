/*
 * What state the agent is in, and the tables of launcher/agent/agent.h as
 * assertions: which fields may be set in which state. agent_check is called at
 * the end of each step, when the event has been dealt with, so that a bug shows
 * in the step that made it and not in a round that is decided on a wrong state
 * later.
 *
 * Nothing here depends on what a server or a user may say: whatever comes in,
 * the agent's own fields fit together. An assertion that fails ends the agent,
 * and with it its workers (the guard sees to that).
 */
#include "launcher/agent/agent_priv.h"

#include <string.h>

bool agent_is_leaving(const struct agent *a)
{
    return a->exit == AGENT_LEAVING || a->exit == AGENT_DRAINED ||
           a->exit == AGENT_ORPHANED_LEAVING;
}

bool agent_is_member(const struct agent *a)
{
    return a->round.evidence >= AGENT_MEMBER_SURE;
}

bool agent_is_sure(const struct agent *a)
{
    return a->round.evidence == AGENT_MEMBER_SURE;
}

bool agent_was_heard(const struct agent *a)
{
    return a->session.heard_since_us != MONO_NEVER;
}

bool agent_has_promised(const struct agent *a)
{
    return a->vote.promised.count > 0;
}

bool agent_obeys(const struct agent *a)
{
    return a->session.obeyed || !agent_has_promised(a);
}

bool agent_has_vote(const struct agent *a)
{
    return a->vote.state != AGENT_VOTE_NONE;
}

bool agent_is_free(const struct agent *a)
{
    return !agent_has_vote(a) && !agent_is_member(a) &&
           a->known == AGENT_END_UNKNOWN && !agent_is_leaving(a);
}

/* -- terms and voters ----------------------------------------------------- */

int agent_ballot_order(const struct agent_ballot *x,
                       const struct agent_ballot *y)
{
    return round_cmp(&x->term, x->round, &y->term, y->round);
}

const char *agent_instance(const struct agent *a)
{
    const struct agent_vote *v = &a->vote;
    if (v->accepted.instance[0] != '\0')
        return v->accepted.instance;
    return v->world.round > 0 ? v->world.instance : a->round.world.instance;
}

bool agent_is_among(const struct agent *a, const char *ids)
{
    while (*ids != '\0') {
        size_t len = strcspn(ids, " ");
        if (len == MSG_VOTER_LEN && strncmp(ids, a->conf.join.agent, len) == 0)
            return true;
        ids += len;
        ids += strspn(ids, " ");
    }
    return false;
}

/* -- which combinations are possible --------------------------------------- */

static void check_work(const struct agent *a)
{
    ddp_assert(a->alive >= 0 && a->alive <= a->conf.join.nproc);
    ddp_assert(a->succeeded >= 0 && a->succeeded <= a->conf.join.nproc);
    ddp_assert((a->alive > 0) ==
               (a->work == AGENT_RUNNING || a->work == AGENT_STOPPING));
    ddp_assert(a->kill_at_us == MONO_NEVER || a->work == AGENT_STOPPING);
    switch (a->work) {
    case AGENT_NONE:
    case AGENT_CHECKING:
        return;
    case AGENT_RUNNING:
        ddp_assert(agent_is_sure(a));
        ddp_assert(a->round.outcome == AGENT_WENT_WELL);
        ddp_assert(a->stop == AGENT_STOP_NOT);
        ddp_assert(a->grace == AGENT_GRACE_LONG);
        ddp_assert(a->exit == AGENT_STAYS);
        ddp_assert(a->alive + a->succeeded == a->conf.join.nproc);
        return;
    case AGENT_STOPPING:
        ddp_assert(agent_is_member(a));
        ddp_assert(a->stop != AGENT_STOP_NOT);
        ddp_assert(a->stop < AGENT_STOP_KILLED || a->kill_at_us == MONO_NEVER);
        ddp_assert(a->stop != AGENT_STOP_AT_STEP ||
                   a->grace == AGENT_GRACE_LONG);
        return;
    case AGENT_DONE:
        ddp_assert(agent_is_member(a));
        ddp_assert(a->stop == AGENT_STOP_NOT);
        ddp_assert(a->succeeded == a->conf.join.nproc);
        return;
    }
    DDP_WRONG("work");
}

static void check_round(const struct agent *a)
{
    const struct agent_round *r = &a->round;
    switch (r->evidence) {
    case AGENT_NO_ROUND:
        ddp_assert(r->world.round == 0 && r->world.instance[0] == '\0');
        ddp_assert(r->outcome == AGENT_WENT_WELL);
        return;
    case AGENT_SPARE:
        ddp_assert(r->world.round > 0 && r->world.group_rank == -1);
        ddp_assert(a->work == AGENT_NONE);
        ddp_assert(r->outcome == AGENT_WENT_WELL && !r->progressed);
        return;
    case AGENT_MEMBER_SURE:
    case AGENT_MEMBER_LAPSED:
        ddp_assert(r->world.round > 0);
        ddp_assert(r->outcome != AGENT_FAILED ||
                   r->failed.round == r->world.round);
        return;
    }
    DDP_WRONG("evidence");
}

static void check_session(const struct agent *a)
{
    const struct agent_session *e = &a->session;
    ddp_assert(e->pause_us >= AGENT_PAUSE_FIRST_US);
    ddp_assert(!e->obeyed || agent_has_promised(a));
    ddp_assert(e->looking == (e->judge_at_us != MONO_NEVER));
    candidates_check(&a->candidates);
    switch (e->state) {
    case AGENT_SESSION_DOWN:
        ddp_assert(e->beat_at_us == MONO_NEVER);
        ddp_assert(!e->obeyed);
        return;
    case AGENT_SESSION_CONNECTING:
        ddp_assert(e->beat_at_us == MONO_NEVER);
        ddp_assert(e->retry_at_us == MONO_NEVER);
        ddp_assert(!e->obeyed);
        return;
    case AGENT_SESSION_UP:
    case AGENT_SESSION_HEARD:
        ddp_assert(e->state == AGENT_SESSION_UP || agent_was_heard(a));
        ddp_assert(e->state == AGENT_SESSION_UP || agent_obeys(a));
        ddp_assert(e->retry_at_us == MONO_NEVER);
        ddp_assert(e->beat_at_us != MONO_NEVER);
        ddp_assert(e->heard_seq >= -1 && e->heard_seq <= e->beat_seq);
        return;
    }
    DDP_WRONG("session");
}

static void check_vote(const struct agent *a)
{
    const struct agent_vote *v = &a->vote;
    ddp_assert(v->state == AGENT_VOTE_NONE || agent_has_promised(a));
    ddp_assert(v->world.round == 0 || v->world.round == v->accepted.round);
    ddp_assert(term_cmp(&v->accepted.term, &v->promised) <= 0);
    switch (v->state) {
    case AGENT_VOTE_NONE:
        ddp_assert(v->accepted.round == 0);
        return;
    case AGENT_VOTE_PENDING:
        ddp_assert(v->accepted.round > 0);
        ddp_assert(v->echoed_us != MONO_NEVER);
        return;
    case AGENT_VOTE_IN_FORCE:
        ddp_assert(v->accepted.round > 0);
        ddp_assert(v->accepted.before[0] == '\0');
        return;
    }
    DDP_WRONG("vote");
}

static void check_exit(const struct agent *a)
{
    ddp_assert(a->verdict.ended == (a->known != AGENT_END_UNKNOWN));
    ddp_assert(!a->hands_over || (a->alive == 0 && a->exit != AGENT_STAYS));
    ddp_assert(a->known != AGENT_END_HELD || a->farewell_at_us != MONO_NEVER);
    switch (a->exit) {
    case AGENT_STAYS:
        ddp_assert(a->known == AGENT_END_UNKNOWN);
        ddp_assert(a->farewell_at_us == MONO_NEVER);
        ddp_assert(a->verdict.text[0] == '\0');
        return;
    case AGENT_GAVE_UP:
        ddp_assert(a->known == AGENT_END_UNKNOWN);
        return;
    case AGENT_ENDED:
        ddp_assert(a->known != AGENT_END_UNKNOWN);
        ddp_assert(a->verdict.status == (int)a->verdict.end.status);
        return;
    case AGENT_LEAVING:
        ddp_assert(a->leave.signal > 0);
        ddp_assert(a->farewell_at_us != MONO_NEVER);
        return;
    case AGENT_DRAINED:
        ddp_assert(a->leave.signal == 0 && a->leave.what == MSG_LEAVE_NODE);
        return;
    case AGENT_ORPHANED:
    case AGENT_ORPHANED_LEAVING:
        ddp_assert(a->alive == 0 || a->stop >= AGENT_STOP_KILLED);
        return;
    case AGENT_GONE:
        ddp_assert(a->alive == 0 || a->stop >= AGENT_STOP_KILLED);
        return;
    }
    DDP_WRONG("exit");
}

void agent_check(const struct agent *a)
{
    check_work(a);
    check_round(a);
    check_session(a);
    check_vote(a);
    check_exit(a);
}
