/*
 * The search for a leader. To look at a place is to ask its server, beside the
 * session, who leads the run; only the session joins.
 *
 * Happy path: no leader answers for a while, or the connection to it is gone.
 * All places are asked at once. The first one in the order that can have the
 * run answers: the session goes there, as those of the other nodes do. The
 * server there is elected, and its first answer to a beat ends the search.
 *
 * Failure modes:
 *   - A place does not answer: that costs the time until the search is settled,
 *     which is the same for one place and for thirty.
 *   - No leader comes of that: all places are asked again (look_every_us), and
 *     then the place counts that most voters reach (candidates.h).
 *   - Another place leads already: the session goes there at once, whatever it
 *     waits for.
 *   - The session goes to a place whose server answers looks, but the session's
 *     connection, which is older, does not come up, or brings nothing: the
 *     network was cut meanwhile. It is made anew.
 *
 * Only nodes with a vote ask all places at once, of which there are 31 at most.
 * The others, perhaps thousands, begin later, when the voters have perhaps met,
 * and ask one place after the other, so that most of them ask two places in
 * all; but each place within half a lease. Several servers may stand behind an
 * endpoint: where one answers that does not lead, the connection is made anew.
 */
#include "launcher/agent/agent_priv.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"

#define RESEND_US       (250 * MONO_MS)
#define SETTLE_MIN_US   (50 * MONO_MS)
#define LOOK_LEAST_US   (50 * MONO_MS)
#define LOOK_LONGEST_US (500 * MONO_MS)

static int64_t heartbeat_us(const struct agent *a)
{
    return a->conf.join.heartbeat_ms * MONO_MS;
}

/* A quarter of a lease. If the heartbeat is short that is less than the time in
 * which TCP sends a lost segment again, which is waited for if the lease is
 * long enough. */
static int64_t quarter_us(const struct agent *a)
{
    int64_t us = heartbeat_us(a) / 4;
    int64_t least_us = mono_min(RESEND_US, heartbeat_us(a) * 2 / 5);
    return us > least_us ? us : least_us;
}

/* How long the leader's answer may stay away. */
static int64_t patience_us(const struct agent *a)
{
    bool leased = a->lease_until_us > a->session.answered_us;
    if (!agent_has_promised(a))
        return heartbeat_us(a);
    if (leased && !agent_has_vote(a) && a->known != AGENT_END_HELD)
        return 2 * quarter_us(a);
    return quarter_us(a);
}

/* The places have so long to answer. */
static int64_t settle_us(const struct agent *a)
{
    int64_t us = heartbeat_us(a) / 10;
    return us > SETTLE_MIN_US ? us : SETTLE_MIN_US;
}

static int64_t look_every_us(const struct agent *a)
{
    int64_t us = mono_min(heartbeat_us(a) / 4, LOOK_LONGEST_US);
    return us > LOOK_LEAST_US ? us : LOOK_LEAST_US;
}

/* -- asking ---------------------------------------------------------------- */

static bool asks_one_by_one(const struct agent *a)
{
    return !agent_has_vote(a) && candidates_has_voters(&a->candidates);
}

/* Until the places are asked again, or the next of them is. */
static int64_t look_next_us(const struct agent *a)
{
    int n = candidates_count(&a->candidates);
    if (a->session.stage == CANDIDATES_WAITS && !asks_one_by_one(a))
        return settle_us(a);
    return asks_one_by_one(a) && a->session.look_turn <= n
               ? heartbeat_us(a) / 2 / n
               : look_every_us(a);
}

static void look_at(struct step *s, int place)
{
    struct agent *a = s->a;
    const struct candidates *c = &a->candidates;
    candidates_ask(&a->candidates, place);
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    if (agent_has_vote(a))
        memcpy(m.serves.voter, a->conf.join.agent, MSG_VOTER_LEN);
    msg_set(m.serves.run, a->conf.join.run);
    const char *target = candidates_addr(c, place);
    struct agent_action action = {
        .kind = AGENT_LOOK,
        .place = place,
        .target = target,
        .which = target[0] == '\0' ? place : 0,
        .anew = target[0] == '\0' && a->session.stage == CANDIDATES_COUNTED,
        .msg = &m,
    };
    agent_emit(s, &action);
}

static void look_around(struct step *s)
{
    struct agent *a = s->a;
    int n = candidates_count(&a->candidates);
    int first = asks_one_by_one(a) ? a->session.look_turn % n : 0;
    int end = asks_one_by_one(a) ? first + 1 : n;
    a->session.looks = true;
    for (int i = first; i < end; i++)
        look_at(s, i);
    a->session.look_turn++;
    a->session.judge_at_us = mono_after(s->now_us, look_next_us(a));
}

/* -- choosing -------------------------------------------------------------- */

/* Its session with the place in hand is no older than that: more time than the
 * others needed for theirs. */
static bool is_stuck(const struct step *s)
{
    const struct agent_session *e = &s->a->session;
    int64_t since_us =
        e->state == AGENT_SESSION_CONNECTING ? e->tried_us : e->answered_us;
    return e->state != AGENT_SESSION_DOWN &&
           s->now_us >= mono_after(since_us, quarter_us(s->a));
}

static bool leads(const struct agent *a, int place)
{
    return a->candidates.seen[place].state == CANDIDATES_LEADS;
}

/* The place in hand is the best one: whether the session has to be made anew.
 */
static bool is_to_renew(const struct step *s, int place)
{
    const struct agent *a = s->a;
    if (a->session.state == AGENT_SESSION_DOWN)
        return leads(a, place);
    return is_stuck(s) &&
           (leads(a, place) || a->session.state == AGENT_SESSION_CONNECTING);
}

static void decide(struct step *s)
{
    struct agent *a = s->a;
    int place = agent_found(a);
    if (place < 0 ||
        (place == candidates_at(&a->candidates) && !is_to_renew(s, place)))
        return;
    char why[sizeof(a->session.down_text)] = "no answer";
    if (leads(a, place))
        (void)snprintf(why, sizeof(why), "the run is served elsewhere");
    else if (a->session.state == AGENT_SESSION_UP) /* what it is told by now */
        (void)snprintf(why, sizeof(why), "%s", a->session.down_text);
    candidates_take(&a->candidates, place);
    agent_go_there(s, why, false);
}

/* A leader of a term below the one that this node promised is none for it,
 * unless nobody counts on that promise. A server that has had no round yet
 * gathers nodes, and is no better than the others. */
static bool is_leader(const struct agent *a, const struct msg_serves *m)
{
    return m->term.count > 0 && m->addr[0] == '\0' && m->instance[0] != '\0' &&
           (agent_is_free(a) || term_cmp(&m->term, &a->vote.promised) >= 0);
}

static struct candidates_seen seen_of(const struct agent *a,
                                      const struct msg_serves *m)
{
    struct candidates_seen seen = {
        .state = is_leader(a, m) ? CANDIDATES_LEADS : CANDIDATES_ANSWERS,
        .term = m->term,
        .reached = (int)m->reached,
    };
    return seen;
}

/* Once the search is settled, counts are compared when all have been asked
 * again. */
void agent_on_seen(struct step *s, int place, const struct msg *answer)
{
    struct agent *a = s->a;
    struct candidates *c = &a->candidates;
    if (!a->session.looking || place >= candidates_count(c))
        return;
    if (answer == NULL) {
        candidates_failed(c, place);
    } else if (answer->kind == MSG_KIND_serves) {
        struct candidates_seen seen = seen_of(a, &answer->serves);
        candidates_saw(c, place, &seen);
        if (place == candidates_at(c))
            a->session.spoke_us = s->now_us;
    }
    bool found = agent_found(a) >= 0 && leads(a, agent_found(a));
    if (found || a->session.stage != CANDIDATES_COUNTED)
        decide(s);
}

/* -- time ------------------------------------------------------------------ */

/* When the leader's answer has stayed away for too long. */
static int64_t begins_at_us(const struct agent *a)
{
    return candidates_count(&a->candidates) > 1 && agent_needs_session(a) &&
                   a->session.state != AGENT_SESSION_DOWN
               ? mono_after(a->session.answered_us, patience_us(a))
               : MONO_NEVER;
}

int64_t agent_search_at_us(const struct agent *a)
{
    return a->session.looking ? a->session.judge_at_us : begins_at_us(a);
}

static void look_no_more(struct step *s)
{
    const struct agent_action action = {.kind = AGENT_LOOK_OVER};
    if (s->a->session.looks)
        agent_emit(s, &action);
    s->a->session.looks = false;
}

static void judge(struct step *s)
{
    struct agent *a = s->a;
    int64_t settled_us = mono_after(a->session.search_us, settle_us(a));
    if (s->now_us >= mono_after(settled_us, look_every_us(a)))
        a->session.stage = CANDIDATES_COUNTED;
    else if (s->now_us >= settled_us)
        a->session.stage = CANDIDATES_SETTLED;
    if (a->session.look_turn == 0)
        look_no_more(s); /* what is open is for another list of places */
    decide(s);
    look_around(s);
}

void agent_search_go_on(struct step *s)
{
    struct agent *a = s->a;
    if (a->exit == AGENT_GONE)
        return;
    if (a->session.looking && !agent_needs_session(a))
        agent_seek_over(a);
    if (!a->session.looking && s->now_us >= begins_at_us(a))
        agent_seek(s);
    if (!a->session.looking)
        look_no_more(s);
    else if (s->now_us >= a->session.judge_at_us)
        judge(s);
}
