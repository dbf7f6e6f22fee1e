/*
 * Rounds, and the authority over them.
 *
 * Happy path: `prepare`, the promise to obey; `voters` of a round that is
 * pending, which is stored and accepted, and its world; `go`, and the workers
 * start. To a node that is no voter `world` is a round that has begun.
 *
 * Failure modes:
 *   - Another server is elected: its term is higher, and from the promise on
 *     nothing that is lower counts. This node keeps its lease: who is elected
 *     waits for it.
 *   - A leader that was deposed unawares says `prepare` of a lower term:
 *     silence. Its voters, worlds and leases do not count either, since the
 *     agent obeys only a server that has shown its term on this connection.
 *   - The server dies between `voters` and `go`: the vote stays PENDING, and
 *     the next server is told (`vote`). It goes on with that round, or
 *     proposes another one, which is newer by its term.
 *   - The connection breaks before `accept` or `go` came over: `vote` and
 *     `accept` are said again behind the next join.
 */
#include "launcher/agent/agent_priv.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"

/* -- rounds ---------------------------------------------------------------- */

static struct agent_ballot ballot_of(const struct msg_world *w)
{
    return (struct agent_ballot){.round = w->round, .term = w->term};
}

/* Newer than the round in hand; another instance's is. */
static bool is_newer(const struct agent *a, const struct msg_world *w)
{
    const struct msg_world *mine = &a->round.world;
    struct agent_ballot that = ballot_of(w);
    struct agent_ballot this = ballot_of(mine);
    return a->round.evidence == AGENT_NO_ROUND ||
           !msg_same_instance(mine->instance, w->instance) ||
           agent_ballot_order(&that, &this) > 0;
}

/* The round is in force. */
static void enter(struct step *s, const struct msg_world *w, int64_t told_at_us)
{
    struct agent *a = s->a;
    if (a->work != AGENT_NONE || a->exit != AGENT_STAYS || !is_newer(a, w)) {
        agent_note(s, NOTE_stale, "world of round %lld", (long long)w->round);
        return;
    }
    a->round = (struct agent_round){
        .evidence = s->now_us < a->lease_until_us ? AGENT_MEMBER_SURE
                                                  : AGENT_MEMBER_LAPSED,
        .world = *w,
        .told_at_us = told_at_us,
    };
    a->stop = AGENT_STOP_NOT;
    a->grace = AGENT_GRACE_LONG;
    a->succeeded = 0;
    if (!agent_is_sure(a)) {
        /* It came so late that the round may be over. */
        agent_note(s, NOTE_stale, "world of round %lld came after the lease",
                   (long long)w->round);
        agent_send_ready(s, w->round);
        return;
    }
    agent_spawn(s);
}

/* -- the authority --------------------------------------------------------- */

/* A node that leaves has told the server that it obeys, which counts that as
 * its vote from then on: it has none for another server. */
static bool is_bound(const struct agent *a, const struct term *e)
{
    return agent_has_promised(a) && agent_is_leaving(a) &&
           strcmp(e->id, a->vote.promised.id) != 0;
}

/* It has a part in another one. */
static bool is_other_instance(const struct agent *a, const char *instance)
{
    const char *own = agent_instance(a);
    return instance[0] != '\0' && own[0] != '\0' &&
           !msg_same_instance(own, instance) && a->known == AGENT_END_UNKNOWN;
}

/* What it had accepted counts no more. */
static void forget_vote(struct agent_vote *v)
{
    v->state = AGENT_VOTE_NONE;
    v->accepted = (struct agent_ballot){.round = 0};
    v->world = (struct msg_world){.round = 0};
}

/* Its vote in that instance counts no more, as that of an agent that is dead:
 * else it could bring back, alone, what gave way. */
static void leave_instance(struct agent *a)
{
    struct agent_vote *v = &a->vote;
    msg_set(v->left, agent_instance(a));
    v->left_term = v->promised;
    forget_vote(v);
}

/*
 * A leader has the run as an older instance (it takes no nodes of an
 * older one than its own), which has had fewer servers. What was promised in
 * the younger one says nothing there. Once only: of two instances that this
 * node was in before, it would not know which promises were whose.
 */
static bool gives_way(const struct agent *a, const struct msg_prepare *prepare)
{
    return a->vote.left[0] == '\0' && a->exit == AGENT_STAYS &&
           is_other_instance(a, prepare->instance) &&
           msg_same_instance(a->vote.promised_in, agent_instance(a));
}

static bool was_left(const struct agent *a,
                     const struct msg_prepare *prepare,
                     const struct term *e)
{
    return prepare->instance[0] != '\0' &&
           msg_same_instance(prepare->instance, a->vote.left) &&
           term_cmp(e, &a->vote.left_term) <= 0;
}

void agent_on_prepare(struct step *s, const struct msg_prepare *prepare)
{
    struct agent *a = s->a;
    struct term e = prepare->term;
    if (term_cmp(&e, &a->vote.promised) < 0 && gives_way(a, prepare)) {
        leave_instance(a);
        a->vote.promised = (struct term){.count = 0};
    }
    int order = term_cmp(&e, &a->vote.promised);
    if (order < 0 || is_bound(a, &e) || was_left(a, prepare, &e)) {
        agent_note(s, NOTE_stale,
                   "a server of term %lld asks for obedience; this node obeys "
                   "term %lld",
                   (long long)e.count, (long long)a->vote.promised.count);
        return;
    }
    a->vote.promised = e;
    msg_set(a->vote.promised_in, prepare->instance);
    a->vote.echoed_us = s->now_us;
    a->session.obeyed = true;
    agent_send_promise(s);
    if (order == 0)
        return; /* asked again, in place of a lease */
    a->session.answered_us = s->now_us;
    if (prepare->without[0] != '\0')
        agent_note(s, NOTE_by_count,
                   "enough nodes are here, and go on without %s; one of these "
                   "that comes back is a newcomer",
                   prepare->without);
    agent_send_beat(s); /* so that the lease does not wait for the next one */
}

/* -- proposals ------------------------------------------------------------- */

static void accept_ballot(struct step *s, const struct agent_ballot *ballot)
{
    struct agent_vote *v = &s->a->vote;
    v->accepted = *ballot;
    v->world = (struct msg_world){.round = 0};
}

/* The vote says nothing of workers: that none runs is said by `ready`. */
static void on_proposal(struct step *s, const struct agent_ballot *b)
{
    struct agent_vote *v = &s->a->vote;
    int order = agent_ballot_order(b, &v->accepted);
    bool now = term_cmp(&b->term, &v->promised) == 0;
    if (!now || order < 0 || s->a->exit == AGENT_GAVE_UP ||
        agent_is_leaving(s->a)) {
        agent_note(s, NOTE_stale, "proposal of round %lld",
                   (long long)b->round);
        return;
    }
    if (order > 0) {
        accept_ballot(s, b);
        v->state = AGENT_VOTE_PENDING;
    }
    v->echoed_us = s->now_us;
    agent_send_accept(s);
    agent_drop_end(s);
}

static void put_in_force(struct agent_vote *v)
{
    v->state = AGENT_VOTE_IN_FORCE;
    v->accepted.before[0] = '\0';
}

/* Who has no vote in it has none any more: it may have been given up, and would
 * go back with others to the round that it had accepted. */
static void on_round_in_force(struct step *s, const struct agent_ballot *b)
{
    struct agent_vote *v = &s->a->vote;
    int order = agent_ballot_order(b, &v->accepted);
    if (order < 0 || term_cmp(&b->term, &v->promised) > 0)
        return; /* what it proposes next will be newer */
    if (!agent_is_among(s->a, b->voters)) {
        forget_vote(v);
        return;
    }
    if (order > 0)
        accept_ballot(s, b);
    put_in_force(v);
}

/* The server that it has promised to obey tells of its run. */
static void learn_instance(struct agent *a, const char *instance)
{
    if (a->session.obeyed && instance[0] != '\0')
        msg_set(a->vote.promised_in, instance);
}

void agent_on_voters(struct step *s, const struct msg_voters *voters)
{
    learn_instance(s->a, voters->instance);
    /* That one gave way, or this node is a newcomer there. */
    if (s->a->vote.state != AGENT_VOTE_NONE &&
        is_other_instance(s->a, voters->instance))
        leave_instance(s->a);
    struct agent_ballot b = {
        .round = voters->round,
        .term = voters->term,
        .group_world = voters->group_world,
        .restarts = voters->restarts,
    };
    msg_set(b.instance, voters->instance);
    msg_set(b.voters, voters->ids);
    msg_set(b.before, voters->before);
    agent_learn_places(s, voters->addrs);
    if (b.voters[0] == '\0')
        return; /* this node has no vote */
    if (voters->pending)
        on_proposal(s, &b);
    else if (b.before[0] == '\0')
        on_round_in_force(s, &b);
}

static bool is_of_accepted(const struct agent_vote *v,
                           const struct agent_ballot *b)
{
    return v->state != AGENT_VOTE_NONE &&
           agent_ballot_order(b, &v->accepted) == 0;
}

/* The workers wait for `go`. If `voters` did not tell the instance of a first
 * round the place does, and nothing is accepted before. */
static void take_place(struct step *s)
{
    struct agent *a = s->a;
    a->vote.echoed_us = s->now_us;
    if (a->round.evidence == AGENT_NO_ROUND &&
        a->vote.accepted.instance[0] == '\0')
        agent_send_accept(s);
}

void agent_on_world(struct step *s, const struct msg_world *w)
{
    struct agent *a = s->a;
    struct agent_vote *v = &a->vote;
    struct agent_ballot b = ballot_of(w);
    bool accepted = is_of_accepted(v, &b);
    learn_instance(a, w->instance);
    if (w->pending && !accepted) {
        agent_note(s, NOTE_stale, "world of round %lld, which is not accepted",
                   (long long)w->round);
        return;
    }
    if (accepted) {
        v->world = *w;
        v->world_at_us = s->now_us;
    }
    if (w->pending) {
        take_place(s);
        return;
    }
    if (accepted)
        put_in_force(v);
    enter(s, w, s->now_us);
}

void agent_on_go(struct step *s, const struct msg_go *go)
{
    struct agent_vote *v = &s->a->vote;
    struct agent_ballot b = {.round = go->round, .term = go->term};
    if (!is_of_accepted(v, &b)) {
        agent_note(s, NOTE_stale, "go for round %lld", (long long)go->round);
        return;
    }
    put_in_force(v);
    if (v->world.round > 0 && is_newer(s->a, &v->world))
        enter(s, &v->world, v->world_at_us);
}

/* -- where ----------------------------------------------------------------- */

void agent_on_missing_voters(struct step *s, const struct msg_waiting *w)
{
    char why[200], silent[340] = "", names[300];
    const struct agent *a = s->a;
    const char *target = candidates_target(&a->candidates);
    const char *plural = w->voters == 1 ? "" : "s";
    bool counts = 2 * a->conf.join.nodes_min > a->conf.join.nodes_max;
    if (a->session.looking && a->session.stage != CANDIDATES_WAITS &&
        candidates_unreached(&a->candidates, names, sizeof(names)) > 0)
        (void)snprintf(silent, sizeof(silent), /* fits */
                       " (no answer to this node: %s)", names);
    (void)snprintf(why, sizeof(why), /* fits */
                   "a server answers there, but reaches %lld of the %lld "
                   "voter%s of the last round, and needs more than half",
                   (long long)w->voters_here, (long long)w->voters, plural);
    if (!agent_is_answered_in_vain(s, why))
        return;
    if (counts) /* more than half, or so many by count */
        agent_note(
            s, NOTE_wait,
            "%lld of the %lld voter%s of the last round (the nodes that "
            "decide on the next one) can be reached%s; bring the missing "
            "nodes, or the network to them, back, or start others: with "
            "%lld node%s at one place the run goes on",
            (long long)w->voters_here, (long long)w->voters, plural, silent,
            (long long)a->conf.join.nodes_min,
            a->conf.join.nodes_min == 1 ? "" : "s");
    else
        agent_note(s, NOTE_wait,
                   "%lld of the %lld voter%s of the last round (the nodes that "
                   "decide on the next one) can be reached, and more than half "
                   "are needed%s; bring the missing nodes, or the network to "
                   "them, back; if they are dead for good, see go-on in "
                   "ddpctl(1): this node asks at %s",
                   (long long)w->voters_here, (long long)w->voters, plural,
                   silent, target[0] != '\0' ? target : "the endpoint");
}

/* A node that has a lease stays with its leader unless the other term is as
 * high. One that has none has no leader, though it may have promised a higher
 * term to a server that never led: the leader that it comes to hears of that,
 * and begins a term that is higher still. A newcomer may have obeyed servers
 * that had nothing, of any term: it begins anew. To another instance a node is
 * sent that is to give up its own (gives_way). Without an address it is sent to
 * a daemon that is back: at the first endpoint, or where the search for a
 * leader, which follows if none is there, finds it. */
void agent_on_serves(struct step *s, const struct msg_serves *to)
{
    struct agent *a = s->a;
    struct term e = to->term;
    bool is_later = term_cmp(&e, &a->vote.promised) >= 0;
    bool is_other = is_other_instance(a, to->instance);
    bool has_leader = s->now_us < a->lease_until_us;
    if (to->addr[0] == '\0' && is_later) {
        candidates_take(&a->candidates, 0);
        agent_go_there(s, "a daemon at the endpoint has the run again", false);
        return;
    }
    if ((!is_later && has_leader && !agent_is_free(a) && !is_other) ||
        !candidates_is_addr(to->addr) ||
        strcmp(to->addr, candidates_target(&a->candidates)) == 0) {
        agent_note(s, NOTE_stale, "the run is said to be served at %s",
                   to->addr);
        return;
    }
    bool pause = candidates_moved(&a->candidates, to->addr);
    agent_go_there(s, "the run is served elsewhere", pause);
    if (!is_later && agent_is_free(a)) {
        a->vote.promised = (struct term){.count = 0};
        a->vote.promised_in[0] = '\0';
    }
}
