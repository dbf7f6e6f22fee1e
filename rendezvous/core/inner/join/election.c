/*
 * Happy path of a candidate: a member joins and tells in which round it is and
 * which term it promised (election_join); if it is a voter, `vote` follows:
 * the newest round that it accepted, and who votes in that (election_voted).
 * The run takes the newest of all that is told (authority_adopt). Once enough
 * voters are here takeover.c asks for promises.
 *
 * A leader hears claims as well: of a node that promised a higher
 * term to another server, which did not lead for long, or never. It
 * is JOINING until this server has raised its own term above that.
 *
 * Failure modes: what a node tells makes no sense, or is of another instance
 * than the one that more voters tell of: it is not heard. A node that may be a
 * stranger tells of an absurd term: only what voters tell is believed beyond
 * HEARD_MAX, or no term would be left.
 */
#include "rendezvous/core/inner/join/election.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/join_check.h"
#include "rendezvous/core/inner/join/inherit.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* No run comes this far; numbers end at 10^9 (messages.def). */
#define ROUND_BELIEVED_MAX 999000000
/* Terms that are believed of any node: those of strict runs leap. */
#define HEARD_MAX (AUTHORITY_COUNT_MAX / 2)
/* ... and of a line, by which no voter can use up those of others. */
#define OWN_MAX (AUTHORITY_LEAP / 2)

#define NOTICE_EVERY_US (3 * MONO_S)
/* A run that was forgotten is kept for its nodes to come back. */
#define KEPT_US (60 * MONO_S)

#define VIA_VOTER 31 /* of join.via: no address of the list */

/* Each node tells all servers what it has accepted: so a second run would need
 * as many nodes again. Who starts that many more than a round may have can have
 * two, and the younger one gives way (moved.c). A node that has obeyed a server
 * with rounds of the run knows that there is one: perhaps that server waits for
 * voters. */
bool election_may_found(const struct run *run, const struct msg_join *j)
{
    return j->via == 0 || (j->via < VIA_VOTER && j->term_of[0] == '\0' &&
                           2 * run->conf.nodes_min > run->conf.nodes_max);
}

void election_begin(struct rdzv *r, struct run *run)
{
    struct authority *a = &run->authority;
    int64_t own = AUTHORITY_LINE(a->heard) * AUTHORITY_LEAP + r->terms;
    if (a->heard < own)
        a->heard = own;
    authority_campaign(a, r->limits.server);
    if (a->term.count % AUTHORITY_LEAP <= OWN_MAX)
        r->terms = a->term.count % AUTHORITY_LEAP;
}

/* No voter is known of. */
static void forget_voters(struct run *run, int64_t heard)
{
    const struct run_conf *c = &run->conf;
    struct authority_rules rules = {.lease_us = c->heartbeat_us,
                                    .nodes_min = c->nodes_min,
                                    .strict = 2 * c->nodes_min > c->nodes_max};
    authority_init(&run->authority, &rules);
    run->authority.heard = heard;
}

void election_open(struct rdzv *r, struct run *run, int64_t heard)
{
    forget_voters(run, heard <= HEARD_MAX ? heard : 0);
    run->takeover.end_status = -1;
    run->takeover.born_us = MONO_NEVER;
    run->takeover.notice_at_us = run->takeover.count_at_us = MONO_NEVER;
    election_begin(r, run);
    /* Of no voters all have promised. */
    (void)authority_advance(&run->authority, r->now_us);
}

/* -- joins ----------------------------------------------------------------- */

static void hear_term(struct rdzv *r,
                      const struct run *run,
                      struct node *n,
                      const struct term *e)
{
    if (e->count <= HEARD_MAX ||
        authority_vote(&run->authority, n->agent) != NULL)
        node_says(r, n, AUTHORITY_TERM, e->count);
}

/* When it last answered a server before it came here; nothing of a node that is
 * back, and has answered no other server than this one since. */
static void note_other_server(const struct rdzv *r,
                              struct node *n,
                              const struct msg_join *j)
{
    if (j->answered_ms >= 0)
        n->launcher.answered_us = r->now_us - j->answered_ms * MONO_MS;
}

static void
take_term(struct rdzv *r, struct run *run, struct node *n, const struct term *e)
{
    if (term_cmp(e, &n->launcher.term) > 0)
        node_obeys(r, n, e);
    hear_term(r, run, n, e);
}

/* It knows of a round, be it as a spare. */
static bool holds(const struct msg_join *j)
{
    return j->instance[0] != '\0' && (j->round > 0 || j->ended);
}

/* The term that the node promised; none if the promise was made in another
 * instance than ours. The node is to give that instance up, which is not older
 * than ours (run_for in join.c). */
static struct term term_of(const struct run *run, const struct msg_join *j)
{
    bool ours = run->round.number == 0 || j->term_of[0] == '\0' || j->ended ||
                msg_same_instance(j->instance, run->instance) ||
                msg_same_instance(j->term_of, run->instance);
    return ours ? j->term : (struct term){.count = 0};
}

/* Of an agent that has a vote the whole id is known as long as it is here. */
static bool
is_double(const struct rdzv *r, const struct run *run, const char *agent)
{
    if (authority_vote(&run->authority, agent) == NULL)
        return false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (strncmp(r->nodes[i].agent, agent, MSG_VOTER_LEN) == 0)
            return true;
    return false;
}

bool election_is_sound(struct rdzv *r,
                       const struct run *run,
                       const struct msg_join *j,
                       int conn)
{
    if (voters_may_add(j->agent) &&
        (run == NULL || !is_double(r, run, j->agent)))
        return true;
    join_refuse(r, conn, j, DDP_E_PROTO,
                "this node's agent id is not its own: it must be 128 random "
                "bits in hexadecimal");
    return false;
}

/* No round was sealed here, and one is known to be elsewhere: this server has
 * nothing to say until a majority is here. */
static void become_candidate(struct rdzv *r, struct run *run)
{
    ddp_assert(run->state == RUN_GATHER && run->round.number == 0);
    rdzv_touch(r, run);
    run->state = RUN_ELECTING;
    run->gather.seal_at_us = MONO_NEVER;
    run->takeover.notice_at_us = mono_after(r->now_us, NOTICE_EVERY_US);
    authority_resign(&run->authority);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        n->quarantined_until_us = 0;
        n->drained = false; /* it was told, and will say `leave` */
        node_set_state(r, n, NODE_JOINING);
    }
}

static void make_joining(struct rdzv *r, struct run *run, struct node *n)
{
    node_set_state(r, n, NODE_JOINING);
    n->lease_until_us = mono_after(r->now_us, run->conf.heartbeat_us);
    r->lease_check_us = mono_min(r->lease_check_us, n->lease_until_us);
    round_send_waiting(r, run, n);
}

/* All that it has accepted is known: it told of this instance, or holds
 * nothing.
 */
static bool has_told(const struct statement *c, const char *instance)
{
    if (c->voted)
        return strcmp(c->join.instance, instance) == 0;
    return c->join.instance[0] == '\0' && !c->nonsense;
}

/* It may be a voter of the newest round that is known. */
static void mark_here(struct rdzv *r, const struct run *run, struct node *n)
{
    if (run->state == RUN_ELECTING &&
        has_told(statement_of(r, n), run->takeover.instance))
        node_says(r, n, AUTHORITY_HERE, 0);
}

/* It has promised somebody, and may have accepted a first round that was never
 * in force. It tells so before it promises here: it has no place before. */
static bool may_be_voter(const struct run *run, const struct msg_join *j)
{
    return run->state == RUN_GATHER && run->round.number == 0 &&
           j->term.count > 0;
}

/* It has promised more than this server asks for, or leads by. Else nobody need
 * be looked for who has, which takes the longer the more nodes there are. */
static bool outbids(const struct run *run, const struct node *n)
{
    const struct authority *a = &run->authority;
    return a->state != AUTHORITY_FOLLOWER &&
           term_cmp(&n->launcher.term, &a->term) > 0;
}

bool election_join(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg_join *j)
{
    struct term term = term_of(run, j);
    *statement_of(r, n) =
        (struct statement){.join = *j, .at_us = r->now_us, .group_rank = -1};
    note_other_server(r, n, j);
    take_term(r, run, n, &term);
    bool is_first = run->head == run->tail; /* it has opened the run */
    bool may_begin = !is_first || election_may_found(run, j);
    if ((holds(j) || !may_begin) && run->state == RUN_GATHER &&
        run->round.number == 0)
        become_candidate(r, run);
    run->takeover.changed = true;
    if (run->state == RUN_ELECTING || may_be_voter(run, j) ||
        term_cmp(&n->launcher.term, &run->authority.term) > 0) {
        make_joining(r, run, n);
        mark_here(r, run, n);
        node_ask(r, n);
        run->takeover.outbid |= run->state == RUN_ELECTING
                                    ? outbids(run, n)
                                    : run->round.number == 0;
        return true;
    }
    node_says(r, n, AUTHORITY_HERE, 0);
    node_ask(r, n);
    return false;
}

bool election_is_foreign(const struct run *run, const struct msg_join *j)
{
    return run_is_live(run) && run->instance[0] != '\0' && holds(j) &&
           !msg_same_instance(j->instance, run->instance);
}

bool election_rejoin(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_join *j)
{
    struct term term = term_of(run, j);
    struct statement *c = statement_of(r, n);
    *c = (struct statement){.join = *j, .at_us = r->now_us, .group_rank = -1};
    if (strcmp(j->term.id, r->limits.server) != 0)
        note_other_server(r, n, j);
    take_term(r, run, n, &term);
    n->untold = term_cmp(&n->launcher.term, &run->authority.term) > 0;
    if (n->untold)
        node_says(r, n, AUTHORITY_DESERTS, 0);
    if (n->state == NODE_JOINING) {
        make_joining(r, run, n);
        mark_here(r, run, n);
        node_ask(r, n);
        run->takeover.outbid |= outbids(run, n);
        return true;
    }
    if (!n->untold)
        node_says(r, n, AUTHORITY_HERE, 0);
    node_ask(r, n);
    return n->untold;
}

bool election_outdates(const struct run *run, const struct msg_join *j)
{
    struct term term = term_of(run, j);
    return run->round.number > 0 && run->state != RUN_ENDED &&
           inherit_is_of_instance(run, j) && !j->ended &&
           j->round > run->round.number && j->round <= ROUND_BELIEVED_MAX &&
           term_cmp(&term, &run->authority.term) > 0;
}

/* Leases of ours may be out all the same. */
static int64_t longest_lease(const struct rdzv *r, const struct run *run)
{
    int64_t at_us = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (node_in_round(&r->nodes[i]) && r->nodes[i].lease_until_us > at_us)
            at_us = r->nodes[i].lease_until_us;
    return at_us;
}

void election_forget(struct rdzv *r, struct run *run, const char *node)
{
    int64_t own_us = longest_lease(r, run);
    note(r, NOTE_outdated, run, node,
         "another server may have led the run; all nodes are to come again");
    while (run->head >= 0)
        node_remove(r, &r->nodes[run->head]);
    run->instance[0] = '\0';
    run->round = (struct run_round){.number = 0};
    run->recovery = (struct run_recovery){.holes = 0};
    run->report = (struct run_report){.loss = {.node = ""}};
    budget_init(&run->budget, run->budget.max, run->budget.window_us,
                run->budget.crash_loop);
    strikes_forget(&run->strikes);
    run->takeover = (struct run_takeover){.own_us = own_us};
    election_open(r, run, 0);
    round_gather(r, run);
    become_candidate(r, run);
    run->takeover.notice_at_us = mono_after(r->now_us, KEPT_US);
}

/* -- voted ----------------------------------------------------------------- */

/* False: it makes no sense. */
static bool
read_sets(const struct run *run, const struct msg_vote *v, struct ballot *told)
{
    *told = (struct ballot){.term = v->round_term,
                            .round = v->round,
                            .answered_us = AUTHORITY_NO_ECHO};
    return v->round > 0 && v->round <= ROUND_BELIEVED_MAX &&
           v->round_term.count > 0 &&
           v->round_term.count <= AUTHORITY_COUNT_MAX &&
           v->group_rank < v->group_world &&
           v->group_world >= run->conf.nodes_min &&
           v->group_world <= run->conf.nodes_max &&
           voters_parse(&told->now, v->voters) &&
           voters_parse(&told->before, v->before) && told->now.n > 0 &&
           told->now.n <= v->group_world;
}

static bool
read_voted(const struct run *run, const struct msg_vote *v, struct ballot *told)
{
    return msg_is_whole(v->instance) && read_sets(run, v, told);
}

/* How many voters of that instance are here. */
static int
count_of_instance(const struct rdzv *r, const struct run *run, const char *id)
{
    int n = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct statement *c = statement_of(r, &r->nodes[i]);
        n += c->voted && r->nodes[i].state == NODE_JOINING &&
             strcmp(c->join.instance, id) == 0;
    }
    return n;
}

/* What voters of this instance told was not noted, since another one had more:
 * they have to come again. */
static void send_away(struct rdzv *r, struct run *run, const struct node *but)
{
    const char *instance = statement_of(r, but)->join.instance;
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        const struct statement *c = statement_of(r, n);
        next = n->next;
        if (n != but && c->voted && strcmp(c->join.instance, instance) == 0)
            node_remove(r, n);
    }
}

/* Of two instances the one counts of which more voters are here. */
static bool
is_of_interest(struct rdzv *r, struct run *run, const struct node *n)
{
    struct run_takeover *t = &run->takeover;
    const char *instance = statement_of(r, n)->join.instance;
    if (strcmp(t->instance, instance) == 0)
        return true;
    if (t->instance[0] != '\0' && count_of_instance(r, run, instance) <=
                                      count_of_instance(r, run, t->instance))
        return false;
    forget_voters(run, run->authority.heard);
    *t = (struct run_takeover){.end_status = -1,
                               .born_us = MONO_NEVER,
                               .own_us = t->own_us,
                               .notice_at_us = t->notice_at_us,
                               .count_at_us = MONO_NEVER};
    msg_set(t->instance, instance);
    send_away(r, run, n);
    return true;
}

/* Voters of the newest round that came before that was known. What they have
 * accepted they tell right behind their join: in any case before they promise.
 */
static void mark_all_here(struct rdzv *r, const struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        const struct statement *c = statement_of(r, n);
        if (n->conn < 0 || !has_told(c, run->takeover.instance))
            continue;
        node_says(r, n, AUTHORITY_HERE, 0);
        if (authority_vote(&run->authority, n->agent) != NULL)
            node_says(r, n, AUTHORITY_TERM, n->launcher.term.count);
    }
}

/* `status`: of the end that a voter holds. */
static void take_end(struct run *run, int64_t status, const struct msg_vote *v)
{
    struct run_takeover *t = &run->takeover;
    if (v->end_term.count == 0 ||
        (t->end_status >= 0 && term_cmp(&v->end_term, &t->end_term) <= 0))
        return;
    t->end_status = (int)status;
    t->end_term = v->end_term;
}

/* The newest round that is told of is the one to go on with. True: there is a
 * newer one than before. */
static bool take_newest(struct rdzv *r,
                        struct run *run,
                        const struct msg_vote *v,
                        const struct ballot *told)
{
    struct run_takeover *t = &run->takeover;
    if (!authority_learn(&run->authority, told))
        return false;
    t->group_world = (int)v->group_world;
    t->restarts = (int)v->restarts;
    mark_all_here(r, run);
    return true;
}

/* It was told to go: the round was in force. */
static void
confirm_by_place(struct rdzv *r, struct node *n, const struct msg_join *j)
{
    if (j->state != MSG_STATE_NONE && j->group_rank >= 0)
        node_says(r, n, AUTHORITY_RUNS, j->round);
}

/* Kept for as long as the node is JOINING. */
static void keep_voted(struct statement *c,
                       const struct msg_vote *v,
                       const struct ballot *told)
{
    c->voted = true;
    c->term = told->term;
    c->round = v->round;
    c->group_rank = (int)v->group_rank;
    msg_set(c->join.instance, v->instance);
    if (c->join.round == 0)
        c->join.round = v->round; /* the first one; it was not in force */
}

/* What a candidate makes of it. */
static void take_voted(struct rdzv *r,
                       struct run *run,
                       struct node *n,
                       const struct msg_vote *v,
                       struct ballot *told)
{
    const struct statement *c = statement_of(r, n);
    if (c->join.answered_ms >= 0)
        told->answered_us = c->at_us - c->join.answered_ms * MONO_MS;
    bool is_newer = take_newest(r, run, v, told);
    run->takeover.born_us = mono_min(run->takeover.born_us,
                                     c->at_us - c->join.instance_ms * MONO_MS);
    node_says(r, n, AUTHORITY_HERE, 0);
    hear_term(r, run, n, &n->launcher.term);
    confirm_by_place(r, n, &c->join);
    if (c->join.ended)
        take_end(run, c->join.ended - 1, v);
    /* More is known of who is missing: others may know that it is dead. */
    if (is_newer)
        election_tell(r, run);
    else
        round_send_waiting(r, run, n);
}

static bool is_newer(const struct run *run, const struct ballot *b)
{
    const struct authority *a = &run->authority;
    return round_cmp(&b->term, b->round, &a->round_term, a->round) > 0;
}

/* A strict run's server may have been elected by fewer launchers than it acts
 * with: what the others have accepted comes late. */
static bool is_unknown(const struct run *run, const struct ballot *told)
{
    return run->authority.rules.strict && !run->authority.pending &&
           term_cmp(&told->term, &run->authority.term) != 0 &&
           is_newer(run, told);
}

bool election_voted(struct rdzv *r,
                    struct run *run,
                    struct node *n,
                    const struct msg_vote *v)
{
    struct statement *c = statement_of(r, n);
    struct ballot told;
    if (!read_voted(run, v, &told)) {
        note(r, NOTE_stale, run, n->name, "voted of round %lld",
             (long long)v->round);
        c->nonsense = true;
        node_says(r, n, AUTHORITY_AWAY, 0);
        return true;
    }
    rdzv_touch(r, run);
    bool is_same =
        run->round.number > 0 && strcmp(v->instance, run->instance) == 0;
    if (is_same && v->round > run->recovery.passed)
        run->recovery.passed = v->round;
    if (is_same && (term_cmp(&told.term, &run->authority.term) > 0 ||
                    is_unknown(run, &told)))
        return false;
    if (run->state == RUN_GATHER && run->round.number == 0)
        become_candidate(r, run);
    if (run->state != RUN_ELECTING && run->round.number > 0) {
        node_says(r, n, AUTHORITY_HERE, 0);
        hear_term(r, run, n, &n->launcher.term);
        run->takeover.outbid |=
            term_cmp(&n->launcher.term, &run->authority.term) > 0;
    }
    if (n->state != NODE_JOINING)
        return true;
    keep_voted(c, v, &told);
    if (run->state == RUN_ELECTING && is_of_interest(r, run, n))
        take_voted(r, run, n, v, &told);
    return true;
}

/* -- farewells ------------------------------------------------------------- */

/* What it had accepted last; false: nothing, or it makes no sense. */
static bool read_last_vote(const struct run *run,
                           const struct msg_vote *f,
                           struct ballot *told)
{
    return f->voters[0] != '\0' && read_sets(run, f, told);
}

/*
 * Paxos Made Simple, 2.2, phase 1b: an acceptor tells the newest proposal that
 * it has accepted; this one told it as its last word. When it last answered a
 * server it does not tell: not after this was heard.
 */
static void take_last_vote(struct rdzv *r,
                           struct run *run,
                           const struct msg_vote *f,
                           int64_t heard_us)
{
    struct ballot told;
    bool voted = read_last_vote(run, f, &told);
    if (!voted)
        told = (struct ballot){.round = 0};
    told.answered_us = heard_us;
    (void)take_newest(r, run, f, &told);
    if (voted && f->ended)
        take_end(run, f->ended - 1, f);
}

/* It voted in this run's instance, as far as that is known here, or in none. */
static bool is_of_run(const struct run *run, const struct msg_vote *f)
{
    const char *instance =
        run->state == RUN_ELECTING ? run->takeover.instance : run->instance;
    return f->instance[0] == '\0' ||
           (instance[0] != '\0' && msg_same_instance(f->instance, instance));
}

/* Of a round of which nobody that is here knows: a candidate that takes it
 * knows of it then, so this is said of each farewell once. */
static bool tells_newer(const struct run *run, const struct msg_vote *f)
{
    struct ballot told;
    return run->state == RUN_ELECTING && read_last_vote(run, f, &told) &&
           is_newer(run, &told);
}

bool election_farewell(struct rdzv *r,
                       struct run *run,
                       const struct msg_vote *f,
                       int64_t heard_us)
{
    struct authority *a = &run->authority;
    struct term term = f->term;
    const struct vote *v = authority_vote(a, f->agent);
    struct launcher gone = {.term = term};
    msg_set(gone.id, f->agent);
    if (term.count == 0 || !is_of_run(run, f) ||
        (v != NULL ? v->dead : !tells_newer(run, f)))
        return true;
    authority_hear(a, &gone, AUTHORITY_TERM, term.count, r->now_us);
    bool is_outbid =
        a->state != AUTHORITY_FOLLOWER && term_cmp(&term, &a->term) > 0;
    /* See AUTHORITY_FAREWELL. */
    if (is_outbid &&
        (run->state != RUN_ELECTING || a->state == AUTHORITY_LEADER))
        return run->round.number == 0; /* nothing is lost by asking for it */
    if (is_outbid)
        authority_resign(a);
    if (run->state == RUN_ELECTING)
        take_last_vote(r, run, f, heard_us);
    authority_hear(a, &gone, AUTHORITY_FAREWELL, 0, r->now_us);
    rdzv_touch(r, run);
    return true;
}

/* -- promises -------------------------------------------------------------- */

void election_promise(struct rdzv *r,
                      struct run *run,
                      struct node *n,
                      const struct msg_promise *p)
{
    if (run->authority.state == AUTHORITY_FOLLOWER ||
        term_cmp(&p->term, &run->authority.term) != 0) {
        note(r, NOTE_stale, run, n->name, "promise of term %lld",
             (long long)p->term.count);
        return;
    }
    node_promise(r, n);
    run->takeover.obeyed |= n->state == NODE_JOINING || n->untold;
    rdzv_touch(r, run);
}

/* A voter has told by now what it accepted. */
void election_beat(struct run *run, const struct node *n)
{
    run->takeover.outbid |= outbids(run, n);
}

/* -- what members say meanwhile -------------------------------------------- */

/* The first failure is the cause of others. */
static void note_failure(struct rdzv *r,
                         struct run *run,
                         const struct node *n,
                         const struct msg_failed *f)
{
    struct run_takeover *t = &run->takeover;
    int64_t at_us = r->now_us - f->age_us;
    if (t->failed_agent[0] != '\0' && t->failed_at_us <= at_us)
        return;
    t->failed = *f;
    t->failed_at_us = at_us;
    msg_set(t->failed_agent, n->agent);
}

void election_note(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg *m)
{
    struct statement *c = statement_of(r, n);
    if (m->kind == MSG_KIND_failed)
        note_failure(r, run, n, &m->failed);
    else if (m->kind == MSG_KIND_ready && m->ready.round == c->join.round)
        c->join.state = m->ready.done ? MSG_STATE_DONE : MSG_STATE_READY;
    else if (m->kind == MSG_KIND_leave) {
        c->leaves = true;
        c->leave = m->leave;
    }
}

/* Its end was proposed to voters of which most have promised this server since:
 * had it been final, one of them would have told. */
void election_void_end(struct rdzv *r,
                       const struct run *run,
                       const struct msg_join *j,
                       int conn)
{
    note(r, NOTE_stale, run, j->name,
         "it was told of an end that was not final; the run goes on");
    reply_prepare(r, run, conn);
    struct msg m = {.kind = MSG_KIND_refused, .refused.code = DDP_E_LOST};
    (void)snprintf(
        m.refused.text, sizeof(m.refused.text), /* fits */
        "the run did not end with status %lld as this node was told; "
        "it went on without it",
        (long long)j->ended - 1);
    reply_send(r, conn, &m);
}

void election_tell(struct rdzv *r, struct run *run)
{
    run->takeover.notice_at_us = mono_after(r->now_us, NOTICE_EVERY_US);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_JOINING)
            round_send_waiting(r, run, &r->nodes[i]);
}
