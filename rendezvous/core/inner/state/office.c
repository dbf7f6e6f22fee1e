/*
 * Sets of voters overlap, so that what is known of a voter is kept once
 * (votes), and a set is asked for how many of its voters a condition holds. A
 * set without voters is satisfied by nobody: there was no round before the
 * first one.
 *
 * Happy path: office_adopt for each voter that comes; office_ask; a promise of
 * each; office_win. Then echoes come with each beat, and office_until_us says
 * how far leases may go. For each round office_propose, office_accept of each
 * voter, office_commit.
 *
 * Failure modes: too few voters are here (nobody is asked: office_may_ask);
 * echoes become old (office_until_us is in the past: no lease, the server asks
 * again); a proposal is given up, since one of its members is gone
 * (office_abandon; what was in force before still is); an operator said that a
 * voter is dead, and it comes (office_here: it counts by itself from then on);
 * a voter said farewell, and fewer are needed from then on (office_strike).
 */
#include "rendezvous/core/inner/state/office.h"

#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

struct epoch epoch_make(int64_t count, const char *id)
{
    struct epoch e = {.count = count};
    msg_set(e.id, id);
    return e;
}

int epoch_cmp(const struct epoch *a, const struct epoch *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* -- sets of voters -------------------------------------------------------- */

int voters_find(const struct voters *v, const char *agent)
{
    for (int i = 0; i < v->n; i++)
        if (strncmp(v->id[i], agent, MSG_VOTER_LEN) == 0)
            return i;
    return -1;
}

void voters_add(struct voters *v, const char *agent)
{
    ddp_assert(v->n < MSG_VOTERS_MAX);
    char *id = v->id[v->n++];
    size_t len = strnlen(agent, MSG_VOTER_LEN);
    memset(id, 0, MSG_VOTER_LEN + 1);
    memcpy(id, agent, len);
}

static bool is_id_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool voters_may_add(const char *agent)
{
    for (int i = 0; i < MSG_VOTER_LEN; i++)
        if (!is_id_char(agent[i]))
            return false;
    return true;
}

/* The length of the id that the text begins with; 0: it is none. */
static size_t id_length(const char *text)
{
    size_t len = 0;
    while (is_id_char(text[len]))
        len++;
    return len == MSG_VOTER_LEN && text[len] == ' ' ? len : 0;
}

bool voters_parse(struct voters *v, const char *text)
{
    *v = (struct voters){.n = 0};
    while (*text != '\0') {
        size_t len = id_length(text);
        if (len == 0 || v->n == MSG_VOTERS_MAX || voters_find(v, text) >= 0) {
            v->n = 0;
            return false;
        }
        voters_add(v, text);
        text += len + 1;
    }
    return true;
}

void voters_print(const struct voters *v, char text[VOTERS_TEXT_SIZE])
{
    for (int i = 0; i < v->n; i++) {
        size_t len = strlen(v->id[i]);
        memcpy(text, v->id[i], len);
        text[len] = ' ';
        text += len + 1;
    }
    *text = '\0';
}

/* -- votes ----------------------------------------------------------------- */

const struct vote *office_vote(const struct office *o, const char *agent)
{
    for (int i = 0; i < o->n_votes; i++)
        if (strncmp(o->votes[i].id, agent, MSG_VOTER_LEN) == 0)
            return &o->votes[i];
    return NULL;
}

static struct vote *find_vote(struct office *o, const char *agent)
{
    const struct vote *v = office_vote(o, agent);
    return v == NULL ? NULL : &o->votes[v - o->votes];
}

static const struct vote *
vote_at(const struct office *o, enum office_set set, int i)
{
    return &o->votes[o->vote_of[set][i]];
}

/* Which vote is whose: each lease that is granted asks for all of a set. */
static void index_votes(struct office *o)
{
    for (int s = 0; s < OFFICE_SETS; s++)
        for (int i = 0; i < o->sets[s].n; i++)
            o->vote_of[s][i] =
                (uint8_t)(office_vote(o, o->sets[s].id[i]) - o->votes);
}

/* The sets have changed: forgets who votes no more, adds who does now. */
static void renew_votes(struct office *o)
{
    int kept = 0;
    for (int i = 0; i < o->n_votes; i++) {
        bool votes = false;
        for (int s = 0; s < OFFICE_SETS; s++)
            votes |= voters_find(&o->sets[s], o->votes[i].id) >= 0;
        if (votes)
            o->votes[kept++] = o->votes[i];
    }
    o->n_votes = kept;
    for (int s = 0; s < OFFICE_SETS; s++)
        for (int i = 0; i < o->sets[s].n; i++) {
            if (find_vote(o, o->sets[s].id[i]) != NULL)
                continue;
            struct vote *v = &o->votes[o->n_votes++];
            *v = (struct vote){.echo_us = OFFICE_NO_ECHO};
            memcpy(v->id, o->sets[s].id[i], sizeof(v->id));
        }
    index_votes(o);
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

static bool is_struck(const struct vote *v)
{
    return v->struck;
}

static bool is_given_up(const struct vote *v)
{
    return v->given_up;
}

/* A living voter that nobody gave up: it has a say. */
static bool counts(const struct vote *v)
{
    return !v->given_up && !v->struck;
}

static int count_of(const struct office *o,
                    enum office_set set,
                    bool (*holds)(const struct vote *))
{
    int n = 0;
    for (int i = 0; i < o->sets[set].n; i++)
        n += holds(vote_at(o, set, i));
    return n;
}

static int count_votes(const struct office *o,
                       enum office_set set,
                       bool (*holds)(const struct vote *))
{
    int n = 0;
    for (int i = 0; i < o->sets[set].n; i++) {
        const struct vote *v = vote_at(o, set, i);
        n += counts(v) && holds(v);
    }
    return n;
}

/*
 * Paxos Made Simple, 2.2: "a majority of the acceptors"; here of the living
 * ones. There is no set before the first round, nor while the newest one is in
 * force. A set whose voters are all struck elects nobody: what they let come
 * into force with the last one that lived, nobody can know. Those that an
 * operator gave up decide nothing, by that word.
 */
static bool is_majority(const struct office *o,
                        enum office_set set,
                        bool (*holds)(const struct vote *))
{
    int n = count_of(o, set, counts);
    if (n == 0)
        return o->sets[set].n == 0 || count_of(o, set, is_given_up) > 0;
    return 2 * count_votes(o, set, holds) > n;
}

/* Flexible Paxos, 3: the quorums of a phase need only meet those of the other
 * one, so that half is enough where more than half elect. Half of none is none.
 */
static bool is_half(const struct office *o,
                    enum office_set set,
                    bool (*holds)(const struct vote *))
{
    return 2 * count_votes(o, set, holds) >= count_of(o, set, counts);
}

/* -- what is heard --------------------------------------------------------- */

void office_init(struct office *o)
{
    *o = (struct office){.state = OFFICE_SEEKS, .foreign_us = OFFICE_NO_ECHO};
}

void office_hear(struct office *o, const struct epoch *epoch)
{
    if (epoch->count > o->heard && epoch->count <= OFFICE_COUNT_MAX)
        o->heard = epoch->count;
}

bool office_is_newer(const struct office *o,
                     const struct epoch *epoch,
                     int64_t round)
{
    int order = epoch_cmp(epoch, &o->round_epoch);
    return order > 0 || (order == 0 && round > o->round);
}

/* Of the same round, as others tell it: one of them may know that it is in
 * force. */
static void take_same(struct office *o,
                      const struct epoch *epoch,
                      int64_t round,
                      const struct voters *before)
{
    if (o->round > 0 && round == o->round &&
        epoch_cmp(epoch, &o->round_epoch) == 0 && before->n == 0)
        office_confirm(o);
}

bool office_adopt(struct office *o,
                  const struct epoch *epoch,
                  int64_t round,
                  const struct voters *now,
                  const struct voters *before)
{
    if (!office_is_newer(o, epoch, round)) {
        take_same(o, epoch, round, before);
        return false;
    }
    ddp_assert(o->state != OFFICE_HELD && !o->pending && now->n > 0);
    o->round = round;
    o->round_epoch = *epoch;
    o->sets[OFFICE_NOW] = *now;
    o->sets[OFFICE_BEFORE] = *before;
    renew_votes(o);
    return true;
}

void office_confirm(struct office *o)
{
    if (o->sets[OFFICE_BEFORE].n == 0)
        return;
    o->sets[OFFICE_BEFORE].n = 0;
    renew_votes(o);
}

bool office_is_confirmed(const struct office *o)
{
    return o->sets[OFFICE_BEFORE].n == 0;
}

void office_hear_foreign(struct office *o, int64_t at_us)
{
    if (at_us > o->foreign_us)
        o->foreign_us = at_us;
}

/* -- voters come and go ---------------------------------------------------- */

void office_here(struct office *o, const char *agent)
{
    struct vote *v = find_vote(o, agent);
    if (v == NULL || v->struck)
        return;
    v->here = true;
    v->given_up = false;
}

void office_away(struct office *o, const char *agent)
{
    struct vote *v = find_vote(o, agent);
    if (v != NULL)
        v->here = v->asked = false;
}

/* Its accepts, answers and promises count no more than it does. */
void office_strike(struct office *o, const char *agent)
{
    struct vote *v = find_vote(o, agent);
    if (v == NULL || v->struck)
        return;
    v->struck = true;
    v->here = v->asked = v->promised = v->accepted = v->bye = false;
    v->echo_us = OFFICE_NO_ECHO;
}

void office_leave(struct office *o, const char *agent)
{
    struct vote *v = find_vote(o, agent);
    if (v != NULL)
        v->left = true;
}

void office_give_up(struct office *o)
{
    for (int i = 0; i < o->n_votes; i++)
        o->votes[i].given_up |= !is_here(&o->votes[i]);
    if (o->heard < OFFICE_COUNT_MAX - OFFICE_LEAP)
        o->heard += OFFICE_LEAP;
}

void office_lose(struct office *o, const char *agent)
{
    struct vote *v = find_vote(o, agent);
    if (v == NULL)
        return;
    v->given_up = false;
    v->promised = v->accepted = false;
    v->echo_us = OFFICE_NO_ECHO;
}

/* -- taking office --------------------------------------------------------- */

static bool are_enough(const struct office *o,
                       bool (*holds)(const struct vote *))
{
    return is_majority(o, OFFICE_NOW, holds) &&
           is_majority(o, OFFICE_BEFORE, holds);
}

bool office_may_ask(const struct office *o)
{
    return o->heard < OFFICE_COUNT_MAX && are_enough(o, is_here);
}

void office_ask(struct office *o, const char *server)
{
    ddp_assert(!o->pending && o->heard < OFFICE_COUNT_MAX);
    o->state = OFFICE_ASKED;
    o->epoch = epoch_make(o->heard + 1, server);
    o->heard = o->epoch.count;
    for (int i = 0; i < o->n_votes; i++) {
        struct vote *v = &o->votes[i];
        v->promised = v->accepted = v->asked = false;
        v->echo_us = OFFICE_NO_ECHO;
    }
}

/* One at a time, so that it is clear which one a promise answers. */
bool office_asks(struct office *o, const char *agent, int64_t now_us)
{
    struct vote *v = find_vote(o, agent);
    if (v == NULL)
        return true;
    if (v->asked)
        return false;
    v->asked = true;
    v->asked_us = now_us;
    return true;
}

void office_promise(struct office *o, const char *agent)
{
    struct vote *v = find_vote(o, agent);
    if (v == NULL || !v->here || o->state == OFFICE_SEEKS)
        return;
    v->promised = true;
    if (v->asked)
        office_echo(o, agent, v->asked_us);
    v->asked = false;
}

bool office_is_won(const struct office *o)
{
    return o->state == OFFICE_ASKED && are_enough(o, has_promised);
}

void office_win(struct office *o)
{
    ddp_assert(o->state == OFFICE_ASKED);
    o->state = OFFICE_HELD;
}

void office_resign(struct office *o)
{
    ddp_assert(!o->pending);
    o->state = OFFICE_SEEKS;
    o->epoch = (struct epoch){.count = 0};
}

/* -- being in office ------------------------------------------------------- */

void office_echo(struct office *o, const char *agent, int64_t sent_us)
{
    struct vote *v = find_vote(o, agent);
    if (v != NULL && v->promised && sent_us > v->echo_us)
        v->echo_us = sent_us;
}

/* The newest time that half of the set's living voters have answered: of n the
 * (n+1)/2-th newest echo. */
static int64_t
set_echo_us(const struct office *o, enum office_set set, int64_t now_us)
{
    int64_t echoes[MSG_VOTERS_MAX];
    const struct voters *voters = &o->sets[set];
    int n = 0;
    for (int i = 0; i < voters->n; i++) {
        const struct vote *v = vote_at(o, set, i);
        if (!counts(v))
            continue;
        int at = n++;
        for (; at > 0 && echoes[at - 1] < v->echo_us; at--)
            echoes[at] = echoes[at - 1];
        echoes[at] = v->echo_us;
    }
    return n == 0 ? now_us : echoes[(n + 1) / 2 - 1];
}

/* While a round is pending, the voters of the last round in force vouch alone.
 * If the newest round is in doubt its voters and the voters of the round before
 * vouch together. */
int64_t office_echo_us(const struct office *o, int64_t now_us)
{
    return mono_min(set_echo_us(o, OFFICE_NOW, now_us),
                    set_echo_us(o, OFFICE_BEFORE, now_us));
}

int64_t
office_until_us(const struct office *o, int64_t now_us, int64_t lease_us)
{
    if (o->state != OFFICE_HELD)
        return OFFICE_NO_ECHO;
    return office_echo_us(o, now_us) + lease_us;
}

bool office_may_act(const struct office *o, int64_t now_us, int64_t lease_us)
{
    return office_until_us(o, now_us, lease_us) > now_us;
}

/* It is here, or never comes again as far as anybody knows. */
static bool is_not_missing(const struct vote *v)
{
    return is_here(v) || v->struck || v->left || v->given_up;
}

bool office_all_are_here(const struct office *o)
{
    return count_of(o, OFFICE_NOW, is_not_missing) == o->sets[OFFICE_NOW].n;
}

int64_t office_foreign_us(const struct office *o, int64_t lease_us)
{
    return o->foreign_us + lease_us;
}

/* -- proposals ------------------------------------------------------------- */

void office_propose(struct office *o,
                    int64_t round,
                    const struct voters *next,
                    int64_t now_us)
{
    ddp_assert(o->state == OFFICE_HELD && !o->pending);
    ddp_assert(next->n > 0 && round > o->round);
    o->pending = true;
    o->next_round = round;
    o->proposed_us = now_us;
    o->sets[OFFICE_NEXT] = *next;
    /* Whoever takes over before a round is in force may know of this one alone:
     * its voters have the authority until then, also over other proposals. */
    if (o->sets[OFFICE_NOW].n == 0)
        o->sets[OFFICE_NOW] = *next;
    renew_votes(o);
    for (int i = 0; i < o->n_votes; i++)
        o->votes[i].accepted = false;
}

void office_accept(struct office *o, const char *agent, int64_t round)
{
    struct vote *v = find_vote(o, agent);
    if (v == NULL || v->struck ||
        round != (o->pending ? o->next_round : o->round))
        return;
    v->promised = true;
    v->accepted |= o->pending;
    office_echo(o, agent, o->proposed_us);
}

/* Voters of a first round that had not accepted it could begin another one
 * elsewhere, of which these do not know. */
static bool may_found(const struct office *o)
{
    return o->round > 0 || count_votes(o, OFFICE_NEXT, has_accepted) ==
                               count_of(o, OFFICE_NEXT, counts);
}

bool office_is_in_force(const struct office *o)
{
    return o->pending && may_found(o) &&
           is_half(o, OFFICE_NEXT, has_accepted) &&
           is_half(o, OFFICE_NOW, has_accepted) &&
           is_half(o, OFFICE_BEFORE, has_accepted);
}

void office_commit(struct office *o)
{
    ddp_assert(o->pending);
    o->pending = false;
    o->round = o->next_round;
    o->round_epoch = o->epoch;
    o->sets[OFFICE_NOW] = o->sets[OFFICE_NEXT];
    o->sets[OFFICE_BEFORE].n = o->sets[OFFICE_NEXT].n = 0;
    renew_votes(o);
}

void office_abandon(struct office *o)
{
    o->pending = false;
    o->sets[OFFICE_NEXT].n = 0;
    renew_votes(o);
}

/* -- the end --------------------------------------------------------------- */

void office_bye(struct office *o, const char *agent)
{
    struct vote *v = find_vote(o, agent);
    if (v != NULL && !v->struck)
        v->bye = true;
}

bool office_end_is_known(const struct office *o)
{
    return is_half(o, OFFICE_NOW, knows_end) &&
           is_half(o, OFFICE_BEFORE, knows_end);
}

/* -- for people ------------------------------------------------------------ */

bool office_lacks_voters(const struct office *o)
{
    if (o->sets[OFFICE_NOW].n == 0)
        return false; /* there was no round yet */
    if (o->state == OFFICE_HELD)
        return !is_half(o, OFFICE_NOW, is_here) ||
               !is_half(o, OFFICE_BEFORE, is_here);
    return !is_majority(o, OFFICE_NOW, is_here) ||
           !is_majority(o, OFFICE_BEFORE, is_here);
}

int office_count_here(const struct office *o)
{
    return count_of(o, OFFICE_NOW, is_here);
}

int office_count_struck(const struct office *o)
{
    return count_of(o, OFFICE_NOW, is_struck);
}

int office_count_echoes(const struct office *o, int64_t since_us)
{
    int n = 0;
    for (int i = 0; i < o->sets[OFFICE_NOW].n; i++)
        n += vote_at(o, OFFICE_NOW, i)->echo_us >= since_us;
    return n;
}

void office_check(const struct office *o)
{
    ddp_assert((o->state == OFFICE_SEEKS) == (o->epoch.count == 0));
    ddp_assert(o->epoch.count <= o->heard);
    ddp_assert(!o->pending || o->state == OFFICE_HELD);
    ddp_assert(o->pending == (o->sets[OFFICE_NEXT].n > 0));
    ddp_assert(o->round == 0 || o->sets[OFFICE_NOW].n > 0);
    ddp_assert(o->round > 0 || o->sets[OFFICE_BEFORE].n == 0);
    for (int s = 0; s < OFFICE_SETS; s++)
        for (int i = 0; i < o->sets[s].n; i++)
            ddp_assert(strcmp(vote_at(o, (enum office_set)s, i)->id,
                              o->sets[s].id[i]) == 0);
    for (int i = 0; i < o->n_votes; i++) {
        const struct vote *v = &o->votes[i];
        ddp_assert(!v->given_up || !v->here);
        ddp_assert(!v->struck || (!v->here && !v->promised && !v->accepted));
    }
}
