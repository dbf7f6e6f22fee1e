/*
 * Happy path: the leader is gone. Its nodes come, this run
 * is ELECTING (election.c). More than half of the voters are here: all are
 * asked for their promise (ask). More than half have promised: the server is
 * the leader (win), the newest round that was told of is inherited, and what
 * each node claimed counts as if it joined now (settle).
 *
 * Failure modes: all that knew of a round go away again: the newcomers may
 * begin anew (release). A voter had accepted the end of the run: the end is
 * said again (complete_end). A node comes to a leader and has
 * promised another one more: that one may have led, and have let
 * nodes run that this one took for lost. So what is known here counts no more:
 * all nodes have to come again, and tell it (election_forget).
 * Too few voters come: nothing follows, until an operator gives up those that
 * are missing (go-on in command.c), or in a strict run enough launchers are
 * here without them for a lease (go_on_by_count). A server that led
 * begins another term then, so that what it does from now on differs from what
 * others may do. Members do not come: they are waited for as long as an earlier
 * server may have let them run (round_known_at_us), or until they said
 * farewell.
 */
#include "rendezvous/core/inner/join/takeover.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/election.h"
#include "rendezvous/core/inner/join/farewell.h"
#include "rendezvous/core/inner/join/inherit.h"
#include "rendezvous/core/inner/join/join_settle.h"
#include "rendezvous/core/inner/join/member.h"
#include "rendezvous/core/inner/join/moved.h"
#include "rendezvous/core/inner/round/propose.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/state/run.h"

#define AGE_MS_MAX INT64_C(86400000000) /* of messages.def */

/* -- what was claimed counts ----------------------------------------------- */

/* It has accepted the newest round. */
static bool has_accepted(const struct run *run, const struct statement *c)
{
    return c->voted && c->round == run->authority.round &&
           term_cmp(&c->term, &run->authority.round_term) == 0;
}

/* Its place in the newest round, -1: none is known. It may not have been told
 * of that: but where all members vote the order of voters is that of places. */
static int place_of(const struct run *run, const struct statement *c)
{
    const struct voters *now = &run->authority.sets[AUTHORITY_NOW];
    if (has_accepted(run, c) && c->group_rank >= 0)
        return c->group_rank;
    return run->round.group_world == now->n ? voters_find(now, c->join.agent)
                                            : -1;
}

/* Whether the node never began the newest round, or has not heard of that
 * round: it runs nothing, and obeys this server by now. */
static bool has_not_begun(const struct run *run, const struct statement *c)
{
    const struct msg_join *j = &c->join;
    bool idle = j->state == MSG_STATE_NONE || j->state == MSG_STATE_READY;
    if (has_accepted(run, c))
        return j->round != c->round || j->state == MSG_STATE_NONE;
    return idle && place_of(run, c) >= 0;
}

/* As if it joined now. */
static struct msg_join as_of_now(const struct rdzv *r,
                                 const struct run *run,
                                 const struct statement *c)
{
    struct msg_join j = c->join;
    int64_t ms = (r->now_us - c->at_us) / MONO_MS;
    j.instance_ms = mono_min(j.instance_ms + ms, AGE_MS_MAX);
    j.recent_ms = mono_min(j.recent_ms + ms, AGE_MS_MAX);
    if (has_not_begun(run, c)) {
        msg_set(j.instance, run->instance);
        j.round = run->authority.round;
        j.group_rank = place_of(run, c);
        j.state = j.group_rank >= 0 ? MSG_STATE_READY : MSG_STATE_NONE;
    }
    return j;
}

/* What it said after its join. It may be gone by that. */
static void repeat(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct statement *c)
{
    struct run_takeover *t = &run->takeover;
    if (strcmp(t->failed_agent, n->agent) == 0) {
        member_failed(r, run, n, &t->failed);
        t->failed_agent[0] = '\0';
    }
    if (n->state == NODE_STOPPING && c->join.state == MSG_STATE_READY) {
        struct msg_ready ready = {.round = run->round.number};
        member_ready(r, run, n, &ready);
    }
    if (c->leaves)
        member_leave(r, run, n, &c->leave);
}

static void settle(struct rdzv *r, struct run *run, struct node *n)
{
    struct statement c = *statement_of(r, n);
    c.join = as_of_now(r, run, &c);
    node_set_state(r, n, NODE_WAITING);
    n->untold = false;
    node_ask(r, n);
    if (c.join.ended) { /* an end that is newer would have been completed */
        election_void_end(r, run, &c.join, n->conn);
        node_remove(r, n);
        return;
    }
    join_settle(r, run, n, &c.join);
    repeat(r, run, n, &c);
}

/* Of all that are JOINING, or of those alone that obey by now. */
static void settle_all(struct rdzv *r, struct run *run, bool obeying)
{
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        next = n->next;
        if (obeying && term_cmp(&n->launcher.term, &run->authority.term) != 0)
            continue;
        if (n->state == NODE_JOINING) {
            settle(r, run, n);
        } else if (n->untold) {
            n->untold = false;
            join_tell_again(r, run, n, &statement_of(r, n)->join);
        }
    }
}

/* -- nothing to take over -------------------------------------------------- */

static bool knows_of_a_round(const struct statement *c)
{
    return c->voted || (c->join.instance[0] != '\0' &&
                        (c->join.round > 0 || c->join.ended));
}

/* Nobody here knows of a round, and there is one that may begin another run. */
static bool may_begin_anew(const struct rdzv *r, const struct run *run)
{
    bool first = false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct statement *c = statement_of(r, &r->nodes[i]);
        if (knows_of_a_round(c))
            return false;
        first |= election_may_found(run, &c->join);
    }
    return first;
}

static void release(struct rdzv *r, struct run *run)
{
    election_open(r, run, run->authority.heard);
    round_gather(r, run);
    settle_all(r, run, false);
}

/* -- elections --------------------------------------------------------- */

static void ask(struct rdzv *r, struct run *run)
{
    run->takeover.outbid = false;
    election_begin(r, run);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        node_ask(r, &r->nodes[i]);
}

/* The voters that the server lacked were given up. What is known of the run
 * still is; what was proposed to them is not. */
static void ask_again(struct rdzv *r, struct run *run)
{
    if (run->state == RUN_PENDING)
        propose_give_up(r, run, "its voters were given up");
    if (run->authority.pending)
        authority_abandon(&run->authority, false);
    ask(r, run);
}

/* A voter had accepted the end that a leader said, and it heard of no
 * later round: the end is said again. */
static void complete_end(struct rdzv *r, struct run *run)
{
    struct msg_end end = {.status = run->takeover.end_status,
                          .round = run->round.number,
                          .restarts = run->takeover.restarts,
                          .rank = -1,
                          .local_rank = -1};
    if (end.status != 0)
        msg_set(end.text, "the run ended before another server took it over; "
                          "the reports of other nodes say why");
    run_end(r, run, &end);
}

static bool ended_before(const struct run *run)
{
    return run->takeover.end_status >= 0 &&
           term_cmp(&run->takeover.end_term, &run->authority.round_term) >= 0;
}

/* Members of an older instance than the one of which this server has the
 * majority: theirs may be elsewhere, and no word of ours is to end it. */
static void refuse_older(struct rdzv *r, struct run *run)
{
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        const struct msg_join *j = &statement_of(r, n)->join;
        next = n->next;
        if (j->state == MSG_STATE_NONE || j->round == 0 ||
            inherit_is_of_instance(run, j) || inherit_is_younger(r, run, j))
            continue;
        note(r, NOTE_refused, run, n->name,
             "it holds an older instance; connection closed");
        node_remove(r, n);
    }
}

/* Those of the line that it goes on with: while one is out nobody can have
 * begun another line. */
static void hear_leases(struct rdzv *r, struct run *run)
{
    int64_t line = AUTHORITY_LINE(run->authority.round_term.count);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct statement *c = statement_of(r, &r->nodes[i]);
        if (msg_same_instance(c->join.instance, run->takeover.instance) &&
            AUTHORITY_LINE(c->join.term.count) == line)
            node_says(r, &r->nodes[i], AUTHORITY_HOLDS,
                      c->at_us + mono_min(c->join.lease_ms * MONO_MS,
                                          run->conf.heartbeat_us));
    }
}

/* This server has become the leader. */
static void take_over(struct rdzv *r, struct run *run)
{
    hear_leases(r, run);
    run->state = RUN_GATHER;
    round_gather(r, run);
    inherit_round(r, run);
    refuse_older(r, run);
    if (ended_before(run)) {
        complete_end(r, run);
        return;
    }
    farewell_close_holes(r, run); /* newcomers are no spares then */
    propose_find_addresses(r, run, &run->authority.sets[AUTHORITY_NOW]);
    settle_all(r, run, false);
}

/* Their last beats, or joins, are answered now: a round that came to a node
 * before its lease would be over at once. Not those of a node that is silent,
 * whose loss would be put off. */
static void grant_all(struct rdzv *r, struct run *run)
{
    int64_t silent_us = r->now_us - run->conf.heartbeat_us / 2;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->conn >= 0 && n->state != NODE_JOINING && n->heard_us > silent_us)
            node_grant(r, n, n->beat_seq, n->beat_seq > 0 ? n->beat_heard : -1);
    }
}

static void win(struct rdzv *r, struct run *run)
{
    struct authority *a = &run->authority;
    if (run->state == RUN_ELECTING || !a->by_count) /* else it has waited */
        round_be_calm(r, run);
    if (run->state == RUN_ELECTING)
        take_over(r, run);
    struct authority_tally tally = authority_tally(a, r->now_us);
    char dead[40] = "";
    if (tally.dead > 0)
        (void)snprintf(dead, sizeof(dead), /* fits */ "; %d said farewell",
                       tally.dead);
    if (run->state == RUN_ACTIVE) /* its workers run: there was no outage */
        run->takeover.calm_us = r->now_us;
    note(r, NOTE_elected, run, "", "term %lld, %d of %d voters are here%s",
         (long long)a->term.count, tally.here, tally.voters, dead);
    if (run->state != RUN_ENDED)
        grant_all(r, run);
}

static bool can_campaign(const struct run *run)
{
    return authority_tally(&run->authority, 0).may_campaign;
}

/* -- by count -------------------------------------------------------------- */

/* Those of the last round that are not here: how many of how many, and their
 * group ranks, if all of its nodes vote. */
static void describe_missing(const struct run *run, char *text, size_t size)
{
    const struct voters *now = &run->authority.sets[AUTHORITY_NOW];
    bool ranked =
        now->n == run->round.group_world || now->n == run->takeover.group_world;
    int n = now->n - authority_tally(&run->authority, 0).here;
    size_t len = (size_t)snprintf(
        text, size, "%d of the %d node%s that decide%s on the next round", n,
        now->n, now->n == 1 ? "" : "s", now->n == 1 ? "s" : "");
    for (int i = 0, told = 0; ranked && i < now->n && len + 24 < size; i++) {
        if (authority_vote(&run->authority, now->id[i])->here)
            continue;
        len += (size_t)snprintf(text + len, size - len, "%s%d",
                                told == 0 ? " (group rank " : ", ", i);
        if (++told == n)
            (void)snprintf(text + len, size - len, ")");
    }
}

/* How many nodes are here, and were heard in half a lease. */
static int nodes_heard(const struct rdzv *r, const struct run *run)
{
    int n = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        n += r->nodes[i].conn >= 0 &&
             r->nodes[i].heard_us > r->now_us - run->conf.heartbeat_us / 2;
    return n;
}

/* Whether enough launchers of a strict run are here, and too few voters, or the
 * line is broken. */
static bool may_count(const struct rdzv *r, const struct run *run)
{
    const struct authority *a = &run->authority;
    return a->rules.strict && a->round > 0 && a->heard < AUTHORITY_COUNT_MAX &&
           (authority_tally(a, 0).lacks_voters ||
            authority_is_broken(a, r->now_us)) &&
           nodes_heard(r, run) >= run->conf.nodes_min;
}

/* When those that are here have answered nobody else for a lease, so that they
 * count; if too few voters of another server's are here, at least half a lease
 * from now, in which they may come. */
static int64_t all_count_at_us(const struct rdzv *r, const struct run *run)
{
    int64_t lease_us = run->conf.heartbeat_us;
    bool awaits = run->state == RUN_ELECTING && !can_campaign(run);
    int64_t last_us = r->now_us - (awaits ? lease_us / 2 : lease_us);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].launcher.answered_us > last_us)
            last_us = r->nodes[i].launcher.answered_us;
    return mono_after(last_us, lease_us);
}

/* A leader that lacks voters waits for a lease after they answered. */
static int64_t count_at_us(const struct rdzv *r, const struct run *run)
{
    const struct authority *a = &run->authority;
    int64_t at_us = run->takeover.count_at_us;
    if (!may_count(r, run))
        return MONO_NEVER;
    if (a->state != AUTHORITY_LEADER)
        return at_us != MONO_NEVER ? at_us : all_count_at_us(r, run);
    at_us = all_count_at_us(r, run);
    int64_t voters_us = authority_leases(a, r->now_us).voters_us;
    return authority_tally(a, 0).lacks_voters && voters_us > at_us ? voters_us
                                                                   : at_us;
}

static void go_on_without(struct rdzv *r, struct run *run)
{
    struct run_takeover *t = &run->takeover;
    char missing[sizeof(t->without)];
    describe_missing(run, missing, sizeof(missing));
    msg_set(t->without, missing);
    note(r, NOTE_by_count, run, "",
         "enough nodes are here (%d); the run goes on without %s",
         run_nodes_here(run), t->without);
    run_give_up_missing(r, run);
}

static void go_on_by_count(struct rdzv *r, struct run *run)
{
    struct run_takeover *t = &run->takeover;
    t->without[0] = '\0';
    if (!can_campaign(run))
        go_on_without(r, run);
    run_begin_line(r, run, true);
    t->count_at_us = MONO_NEVER;
    if (run->state == RUN_ELECTING &&
        run->authority.state == AUTHORITY_CANDIDATE)
        authority_resign(&run->authority);
}

/* -- all that may follow from a step --------------------------------------- */

/* By a term that is believed (authority_hear). */
static bool is_outbid(const struct rdzv *r, const struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->conn >= 0 && n->launcher.term.count <= run->authority.heard &&
            term_cmp(&n->launcher.term, &run->authority.term) > 0)
            return true;
    }
    return false;
}

static bool wants_election(const struct rdzv *r, struct run *run)
{
    const struct authority *a = &run->authority;
    bool outbid = run->takeover.outbid && is_outbid(r, run);
    run->takeover.outbid = outbid;
    if (run->state == RUN_ELECTING)
        return a->round > 0 && (a->state == AUTHORITY_FOLLOWER || outbid);
    return outbid;
}

/* It gave no leases, and could give some now that are of use. */
static bool may_grant_again(const struct rdzv *r, const struct run *run)
{
    return run_may_act(run, mono_after(r->now_us, run->conf.heartbeat_us / 4));
}

static void look_as_leader(struct rdzv *r, struct run *run)
{
    if (run->takeover.grants != RUN_GRANTS && may_grant_again(r, run)) {
        run->takeover.grants = RUN_GRANTS;
        grant_all(r, run);
    }
    if (run->takeover.obeyed) {
        run->takeover.obeyed = false;
        settle_all(r, run, true);
    }
    run->takeover.sought = moved_is_sought(r, run->id);
    propose_try_commit(r, run);
    round_try_seal(r, run);
}

void takeover_look(struct rdzv *r, struct run *run)
{
    struct run_takeover *t = &run->takeover;
    if (!run_is_live(run))
        return;
    if (run->state == RUN_ELECTING && t->changed && may_begin_anew(r, run))
        release(r, run);
    t->changed = false;
    t->count_at_us = count_at_us(r, run);
    if (r->now_us >= t->count_at_us)
        go_on_by_count(r, run);
    if (t->ordered && run->state != RUN_ELECTING && can_campaign(run))
        ask_again(r, run);
    t->ordered = false;
    if (wants_election(r, run) && can_campaign(run)) {
        if (run->round.number > 0)
            election_forget(r, run, "");
        else
            ask(r, run);
    }
    if (run->authority.state == AUTHORITY_CANDIDATE &&
        authority_advance(&run->authority, r->now_us) == AUTHORITY_ELECTED)
        win(r, run);
    if (run->authority.state == AUTHORITY_LEADER && run_is_live(run))
        look_as_leader(r, run);
}
