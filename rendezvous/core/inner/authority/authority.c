/*
 * Sets of voters overlap, so that what is known of a voter is kept once
 * (votes), and a set is asked for how many of its voters a condition holds. A
 * set without voters is satisfied by nobody: there was no round before the
 * first one.
 *
 * Happy path: authority_learn for each voter that comes; authority_campaign; a
 * PROMISE of each; authority_advance: it is elected. Then an ANSWER comes with
 * each beat, and authority_leases says how far leases may go. For each round
 * authority_propose, an ACCEPT of each voter, authority_advance: it is in
 * force.
 *
 * Failure modes: too few voters are here (nobody is asked: may_campaign);
 * answers become old (authority_leases is in the past: no lease, the server
 * asks again); a proposal is given up, since one of its members is gone
 * (authority_abandon; what was in force before still is); a voter was given up,
 * and it comes (HERE: it counts by itself from then on); a voter said farewell,
 * and fewer are needed from then on (FAREWELL).
 */
#include "rendezvous/core/inner/authority/authority.h"

#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/authority/launchers_priv.h"

/* -- votes ----------------------------------------------------------------- */

const struct vote *authority_vote(const struct authority *a, const char *agent)
{
    for (int i = 0; i < a->n_votes; i++)
        if (strncmp(a->votes[i].id, agent, MSG_VOTER_LEN) == 0)
            return &a->votes[i];
    return NULL;
}

static struct vote *find_vote(struct authority *a, const char *agent)
{
    const struct vote *v = authority_vote(a, agent);
    return v == NULL ? NULL : &a->votes[v - a->votes];
}

static const struct vote *
vote_at(const struct authority *a, enum authority_set set, int i)
{
    return &a->votes[a->vote_of[set][i]];
}

/* Which vote is whose: each lease that is granted asks for all of a set. */
static void index_votes(struct authority *a)
{
    for (int s = 0; s < AUTHORITY_SETS; s++)
        for (int i = 0; i < a->sets[s].n; i++)
            a->vote_of[s][i] =
                (uint8_t)(authority_vote(a, a->sets[s].id[i]) - a->votes);
}

/* The sets have changed: forgets who votes no more, adds who does now. */
static void renew_votes(struct authority *a)
{
    int kept = 0;
    for (int i = 0; i < a->n_votes; i++) {
        bool votes = false;
        for (int s = 0; s < AUTHORITY_SETS; s++)
            votes |= voters_find(&a->sets[s], a->votes[i].id) >= 0;
        if (votes)
            a->votes[kept++] = a->votes[i];
    }
    a->n_votes = kept;
    for (int s = 0; s < AUTHORITY_SETS; s++)
        for (int i = 0; i < a->sets[s].n; i++) {
            if (find_vote(a, a->sets[s].id[i]) != NULL)
                continue;
            struct vote *v = &a->votes[a->n_votes++];
            *v = (struct vote){.echo_us = AUTHORITY_NO_ECHO};
            memcpy(v->id, a->sets[s].id[i], sizeof(v->id));
        }
    index_votes(a);
}

static bool is_here(const struct vote *v)
{
    return v->here;
}

static bool has_promised(const struct vote *v)
{
    return v->promised;
}

static bool has_accepted(const struct vote *v)
{
    return v->accepted;
}

static bool knows_end(const struct vote *v)
{
    return v->bye;
}

static bool is_dead(const struct vote *v)
{
    return v->dead;
}

/* It is here, or never comes again as far as anybody knows. */
static bool is_not_missing(const struct vote *v)
{
    return is_here(v) || v->dead || v->left || v->given_up;
}

static bool is_given_up(const struct vote *v)
{
    return v->given_up;
}

/* A living voter that nobody gave up: it has a say. */
static bool counts(const struct vote *v)
{
    return !v->given_up && !v->dead;
}

static int count_of(const struct authority *a,
                    enum authority_set set,
                    bool (*holds)(const struct vote *))
{
    int n = 0;
    for (int i = 0; i < a->sets[set].n; i++)
        n += holds(vote_at(a, set, i));
    return n;
}

static int count_votes(const struct authority *a,
                       enum authority_set set,
                       bool (*holds)(const struct vote *))
{
    int n = 0;
    for (int i = 0; i < a->sets[set].n; i++) {
        const struct vote *v = vote_at(a, set, i);
        n += counts(v) && holds(v);
    }
    return n;
}

/*
 * Paxos Made Simple, 2.2: "a majority of the acceptors"; here of the living
 * ones. There is no set before the first round, nor while the newest one is in
 * force. A set whose voters are all dead elects nobody: what they let come
 * into force with the last one that lived, nobody can know. Those that an
 * operator gave up decide nothing, by that word.
 */
static bool is_majority(const struct authority *a,
                        enum authority_set set,
                        bool (*holds)(const struct vote *))
{
    int n = count_of(a, set, counts);
    if (n == 0)
        return a->sets[set].n == 0 || count_of(a, set, is_given_up) > 0;
    return 2 * count_votes(a, set, holds) > n;
}

/* Flexible Paxos, 3: the quorums of a phase need only meet those of the other
 * one, so that half is enough where more than half elect. Half of none is none.
 */
static bool is_half(const struct authority *a,
                    enum authority_set set,
                    bool (*holds)(const struct vote *))
{
    return 2 * count_votes(a, set, holds) >= count_of(a, set, counts);
}

/* -- quorums --------------------------------------------------------------- */

static bool are_enough(const struct authority *a,
                       bool (*holds)(const struct vote *))
{
    return is_majority(a, AUTHORITY_NOW, holds) &&
           is_majority(a, AUTHORITY_BEFORE, holds);
}

/* Voters of a first round that had not accepted it could begin another one
 * elsewhere, of which these do not know. */
static bool all_have_accepted(const struct authority *a)
{
    return count_votes(a, AUTHORITY_NEXT, has_accepted) ==
           count_of(a, AUTHORITY_NEXT, counts);
}

static bool is_in_force(const struct authority *a)
{
    return a->pending && (a->round > 0 || all_have_accepted(a)) &&
           is_half(a, AUTHORITY_NEXT, has_accepted) &&
           is_half(a, AUTHORITY_NOW, has_accepted) &&
           is_half(a, AUTHORITY_BEFORE, has_accepted);
}

/* The newest time that half of the set's living voters have answered: of n the
 * (n+1)/2-th newest echo. */
static int64_t
set_echo_us(const struct authority *a, enum authority_set set, int64_t now_us)
{
    int64_t echoes[MSG_VOTERS_MAX];
    const struct voters *voters = &a->sets[set];
    int n = 0;
    for (int i = 0; i < voters->n; i++) {
        const struct vote *v = vote_at(a, set, i);
        if (!counts(v))
            continue;
        int at = n++;
        for (; at > 0 && echoes[at - 1] < v->echo_us; at--)
            echoes[at] = echoes[at - 1];
        echoes[at] = v->echo_us;
    }
    return n == 0 ? now_us : echoes[(n + 1) / 2 - 1];
}

/* Half of the voters have answered a message that was sent at this time or
 * later. While a round is pending, the voters of the last round in force vouch
 * alone. If the newest round is in doubt its voters and the voters of the round
 * before vouch together. */
static int64_t echo_us(const struct authority *a, int64_t now_us)
{
    return mono_min(set_echo_us(a, AUTHORITY_NOW, now_us),
                    set_echo_us(a, AUTHORITY_BEFORE, now_us));
}

/* -- what is heard --------------------------------------------------------- */

void authority_init(struct authority *a, const struct authority_rules *rules)
{
    *a = (struct authority){.rules = *rules,
                            .state = AUTHORITY_FOLLOWER,
                            .earlier_us = AUTHORITY_NO_ECHO,
                            .line_until_us = AUTHORITY_NO_ECHO};
}

/* The newest round is in force, as one of its members tells. */
static void confirm(struct authority *a)
{
    if (!a->in_doubt)
        return;
    a->in_doubt = false;
    a->sets[AUTHORITY_BEFORE].n = 0;
    renew_votes(a);
}

bool authority_learn(struct authority *a, const struct ballot *b)
{
    if (b->answered_us > a->earlier_us)
        a->earlier_us = b->answered_us;
    if (b->round == 0)
        return false;
    int order = round_cmp(&b->term, b->round, &a->round_term, a->round);
    if (order == 0 && b->before.n == 0) /* it may know that it is in force */
        confirm(a);
    if (order <= 0)
        return false;
    if (a->state == AUTHORITY_CANDIDATE)
        authority_resign(a); /* others have to promise */
    ddp_assert(a->state != AUTHORITY_LEADER && !a->pending && b->now.n > 0);
    a->round = b->round;
    a->round_term = b->term;
    a->in_doubt = b->before.n > 0;
    a->sets[AUTHORITY_NOW] = b->now;
    a->sets[AUTHORITY_BEFORE] = b->before;
    renew_votes(a);
    return true;
}

static void answer(struct vote *v, int64_t sent_us)
{
    if (v->promised && sent_us > v->echo_us)
        v->echo_us = sent_us;
}

static void promise(const struct authority *a, struct vote *v, int64_t sent_us)
{
    if (!v->here || a->state == AUTHORITY_FOLLOWER)
        return;
    v->promised = true;
    answer(v, sent_us);
}

static void accept(const struct authority *a, struct vote *v, int64_t round)
{
    if (v->dead || round != (a->pending ? a->next_round : a->round))
        return;
    v->promised = true;
    v->accepted |= a->pending;
    answer(v, a->proposed_us);
}

static void desert(struct vote *v)
{
    v->given_up = v->promised = v->accepted = false;
    v->echo_us = AUTHORITY_NO_ECHO;
}

/* Its accepts, answers and promises count no more than it does. */
static void die(struct vote *v)
{
    v->dead = true;
    v->here = v->promised = v->accepted = v->bye = false;
    v->echo_us = AUTHORITY_NO_ECHO;
}

static void come(struct vote *v)
{
    if (v->dead)
        return;
    v->here = true;
    v->given_up = false;
}

/* Of a voter. */
static void hear_voter(const struct authority *a,
                       struct vote *v,
                       enum authority_word word,
                       int64_t value)
{
    switch (word) {
    case AUTHORITY_HERE:
        come(v);
        return;
    case AUTHORITY_AWAY:
    case AUTHORITY_GONE:
        v->here = false;
        return;
    case AUTHORITY_DESERTS:
        desert(v);
        return;
    case AUTHORITY_PROMISE:
        promise(a, v, value);
        return;
    case AUTHORITY_ANSWER:
        answer(v, value);
        return;
    case AUTHORITY_ACCEPT:
        accept(a, v, value);
        return;
    case AUTHORITY_LEAVES:
        v->left = true;
        return;
    case AUTHORITY_FAREWELL:
        die(v);
        return;
    case AUTHORITY_BYE:
        v->bye = !v->dead;
        return;
    case AUTHORITY_OBEYS:
    case AUTHORITY_TERM:
    case AUTHORITY_RUNS:
    case AUTHORITY_HOLDS:
        return;
    }
    DDP_WRONG("word");
}

/* Of a launcher, voter or not. */
static void hear_launcher(struct authority *a,
                          struct launcher *l,
                          enum authority_word word,
                          int64_t value,
                          int64_t now_us)
{
    if (word == AUTHORITY_OBEYS || word == AUTHORITY_PROMISE ||
        word == AUTHORITY_ACCEPT)
        launchers_obey(a, l);
    if (word == AUTHORITY_PROMISE || word == AUTHORITY_ANSWER)
        launchers_answer(a, l, value, now_us);
    if (word == AUTHORITY_ACCEPT && a->pending && value == a->next_round)
        launchers_answer(a, l, a->proposed_us, now_us);
    if (word == AUTHORITY_HOLDS)
        launchers_hold(a, value);
    if (word == AUTHORITY_GONE)
        launchers_remove(a, l);
}

void authority_hear(struct authority *a,
                    struct launcher *l,
                    enum authority_word word,
                    int64_t value,
                    int64_t now_us)
{
    struct vote *v = find_vote(a, l->id);
    if (word == AUTHORITY_TERM && value > a->heard &&
        value <= AUTHORITY_COUNT_MAX)
        a->heard = value;
    if (word == AUTHORITY_RUNS && value == a->round)
        confirm(a);
    hear_launcher(a, l, word, value, now_us);
    if (v != NULL)
        hear_voter(a, v, word, value);
}

/* -- elections ------------------------------------------------------------- */

static void forget_answers(struct authority *a)
{
    a->launchers = (struct launchers){.newest = NULL};
    for (int i = 0; i < a->n_votes; i++) {
        struct vote *v = &a->votes[i];
        v->promised = v->accepted = false;
        v->echo_us = AUTHORITY_NO_ECHO;
    }
}

void authority_campaign(struct authority *a, const char *server)
{
    ddp_assert(!a->pending && a->heard < AUTHORITY_COUNT_MAX);
    a->state = AUTHORITY_CANDIDATE;
    a->term = term_make(a->heard + 1, server);
    a->heard = a->term.count;
    forget_answers(a);
}

void authority_give_up(struct authority *a)
{
    for (int i = 0; i < a->n_votes; i++)
        a->votes[i].given_up |= !is_here(&a->votes[i]);
}

/* Of two lines that somebody led the later one began half a lease after the
 * other one, or more: whoever promised that one counts in the next a lease
 * later, and within half a lease of the question for it. So numbers by age, of
 * half a lease each, are in order as long as clocks are that exact. */
void authority_begin_line(struct authority *a,
                          int64_t age_us,
                          bool by_count,
                          int64_t now_us)
{
    int64_t half_us = a->rules.lease_us / 2;
    int64_t line = age_us / half_us;
    if (line <= AUTHORITY_LINE(a->heard))
        line = AUTHORITY_LINE(a->heard) + 1;
    if (line < AUTHORITY_LINE(AUTHORITY_COUNT_MAX))
        a->heard = line * AUTHORITY_LEAP;
    a->by_count |= by_count;
    if (by_count)
        a->line_until_us = mono_after(now_us, half_us);
}

bool authority_is_broken(const struct authority *a, int64_t now_us)
{
    return (a->state == AUTHORITY_LEADER || a->by_count) &&
           launchers_are_needed(a) && a->line_until_us < now_us;
}

void authority_resign(struct authority *a)
{
    ddp_assert(!a->pending);
    a->state = AUTHORITY_FOLLOWER;
    a->term = (struct term){.count = 0};
    a->launchers = (struct launchers){.newest = NULL};
}

/* -- rounds ---------------------------------------------------------------- */

/* A round of one launcher, which is also all that voted so far, needs no
 * message: its promise elects any other leader, and leases need its answers. */
static void accept_alone(struct authority *a)
{
    struct vote *v = &a->votes[0];
    a->alone =
        !a->in_doubt && a->sets[AUTHORITY_NEXT].n == 1 && a->n_votes == 1;
    if (!a->alone)
        return;
    come(v);
    accept(a, v, a->next_round);
}

void authority_propose(struct authority *a,
                       int64_t round,
                       const struct voters *next,
                       int64_t now_us)
{
    ddp_assert(a->state == AUTHORITY_LEADER && !a->pending);
    ddp_assert(next->n > 0 && round > a->round);
    a->pending = true;
    a->next_round = round;
    a->proposed_us = now_us;
    a->sets[AUTHORITY_NEXT] = *next;
    /* Whoever takes over before a round is in force may know of this one alone:
     * its voters have the authority until then, also over other proposals. */
    if (a->sets[AUTHORITY_NOW].n == 0)
        a->sets[AUTHORITY_NOW] = *next;
    renew_votes(a);
    for (int i = 0; i < a->n_votes; i++)
        a->votes[i].accepted = false;
    accept_alone(a);
}

void authority_abandon(struct authority *a, bool ended)
{
    a->ended = ended;
    a->pending = false;
    a->sets[AUTHORITY_NEXT].n = 0;
    renew_votes(a);
}

static void commit(struct authority *a)
{
    if (a->round == 0) /* the first line begins */
        a->line_until_us = mono_after(a->proposed_us, a->rules.lease_us);
    a->pending = a->in_doubt = a->by_count = false;
    a->round = a->next_round;
    a->round_term = a->term;
    a->sets[AUTHORITY_NOW] = a->sets[AUTHORITY_NEXT];
    a->sets[AUTHORITY_BEFORE].n = a->sets[AUTHORITY_NEXT].n = 0;
    renew_votes(a);
}

enum authority_news authority_advance(struct authority *a, int64_t now_us)
{
    if (a->state == AUTHORITY_CANDIDATE && are_enough(a, has_promised) &&
        (!a->by_count || launchers_until_us(a) > now_us)) {
        a->state = AUTHORITY_LEADER;
        return AUTHORITY_ELECTED;
    }
    if (a->state == AUTHORITY_LEADER && is_in_force(a) &&
        launchers_until_us(a) > now_us) {
        commit(a);
        return AUTHORITY_COMMITTED;
    }
    return AUTHORITY_NOTHING;
}

/* -- what is asked --------------------------------------------------------- */

struct authority_leases authority_leases(const struct authority *a,
                                         int64_t now_us)
{
    struct authority_leases leases = {AUTHORITY_NO_ECHO, AUTHORITY_NO_ECHO,
                                      a->earlier_us + a->rules.lease_us};
    if (a->state != AUTHORITY_LEADER)
        return leases;
    leases.voters_us = echo_us(a, now_us) + a->rules.lease_us;
    leases.until_us = mono_min(leases.voters_us, launchers_until_us(a));
    return leases;
}

static void check(const struct authority *a)
{
    ddp_assert((a->state == AUTHORITY_FOLLOWER) == (a->term.count == 0));
    ddp_assert(a->term.count <= a->heard);
    ddp_assert(!a->pending || a->state == AUTHORITY_LEADER);
    ddp_assert(a->pending == (a->sets[AUTHORITY_NEXT].n > 0));
    ddp_assert(a->in_doubt == (a->sets[AUTHORITY_BEFORE].n > 0));
    ddp_assert(a->round == 0 || a->sets[AUTHORITY_NOW].n > 0);
    ddp_assert(a->round > 0 || !a->in_doubt);
    for (int s = 0; s < AUTHORITY_SETS; s++)
        for (int i = 0; i < a->sets[s].n; i++)
            ddp_assert(strcmp(vote_at(a, (enum authority_set)s, i)->id,
                              a->sets[s].id[i]) == 0);
    for (int i = 0; i < a->n_votes; i++) {
        const struct vote *v = &a->votes[i];
        ddp_assert(!v->given_up || !v->here);
        ddp_assert(!v->dead || (!v->here && !v->promised && !v->accepted));
    }
}

static bool lacks_voters(const struct authority *a)
{
    if (a->sets[AUTHORITY_NOW].n == 0)
        return false; /* there was no round yet */
    if (a->state == AUTHORITY_LEADER)
        return !is_half(a, AUTHORITY_NOW, is_here) ||
               !is_half(a, AUTHORITY_BEFORE, is_here);
    return !are_enough(a, is_here);
}

struct authority_tally authority_tally(const struct authority *a,
                                       int64_t since_us)
{
    int n = a->sets[AUTHORITY_NOW].n, answered = 0;
    check(a);
    for (int i = 0; i < n; i++)
        answered += vote_at(a, AUTHORITY_NOW, i)->echo_us >= since_us;
    return (struct authority_tally){
        .voters = n,
        .here = count_of(a, AUTHORITY_NOW, is_here),
        .dead = count_of(a, AUTHORITY_NOW, is_dead),
        .missing = n - count_of(a, AUTHORITY_NOW, is_not_missing),
        .answered = answered,
        .may_campaign =
            a->heard < AUTHORITY_COUNT_MAX && are_enough(a, is_here),
        .lacks_voters = lacks_voters(a),
        .lacks_launchers = launchers_until_us(a) == AUTHORITY_NO_ECHO,
        .end_is_known = is_half(a, AUTHORITY_NOW, knows_end) &&
                        is_half(a, AUTHORITY_BEFORE, knows_end)};
}
