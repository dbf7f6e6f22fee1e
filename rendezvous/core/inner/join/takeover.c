/*
 * Happy path: the server that was in office is gone. Its nodes come, this run
 * is a CANDIDATE (claim.c). More than half of the voters are here: all are
 * asked for their promise (ask). More than half have promised: the server is in
 * office (win), the newest round that was told of is rebuilt, and what each
 * node claimed counts as if it joined now (settle).
 *
 * Failure modes: all that knew of a round go away again: the newcomers may
 * begin anew (release). A voter had accepted the end of the run: the end is
 * said again (complete_end). A node comes to a server in office and has
 * promised another one more: that one may have been in office, and have let
 * nodes run that this one took for lost. So what is known here counts no more:
 * all nodes have to come again, and tell it (claim_forget).
 * Too few voters come: nothing follows, until an operator gives up those that
 * are missing (go-on in command.c). A server that was in office begins another
 * epoch then, so that what it does from now on differs from what others may do.
 * Members do not come: they are waited for as long as an earlier server may
 * have let them run (round_known_at_us), or until they said farewell.
 */
#include "rendezvous/core/inner/join/takeover.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/claim.h"
#include "rendezvous/core/inner/join/farewell.h"
#include "rendezvous/core/inner/join/join_rebuild.h"
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
static bool has_accepted(const struct run *run, const struct claim *c)
{
    return c->voted && c->round == run->office.round &&
           epoch_cmp(&c->epoch, &run->office.round_epoch) == 0;
}

/* Its place in the newest round, -1: none is known. It may not have been told
 * of that: but where all members vote the order of voters is that of places. */
static int place_of(const struct run *run, const struct claim *c)
{
    const struct voters *now = &run->office.sets[OFFICE_NOW];
    if (has_accepted(run, c) && c->group_rank >= 0)
        return c->group_rank;
    return run->round.group_world == now->n ? voters_find(now, c->join.agent)
                                            : -1;
}

/* Whether the node never began the newest round, or has not heard of that
 * round: it runs nothing, and obeys this server by now. */
static bool has_not_begun(const struct run *run, const struct claim *c)
{
    const struct msg_join *j = &c->join;
    bool idle = j->state == MSG_STATE_NONE || j->state == MSG_STATE_READY;
    if (has_accepted(run, c))
        return j->round != c->round || j->state == MSG_STATE_NONE;
    return idle && place_of(run, c) >= 0;
}

/* As if it joined now. */
static struct msg_join
as_of_now(const struct rdzv *r, const struct run *run, const struct claim *c)
{
    struct msg_join j = c->join;
    int64_t ms = (r->now_us - c->at_us) / MONO_MS;
    j.instance_ms = mono_min(j.instance_ms + ms, AGE_MS_MAX);
    j.recent_ms = mono_min(j.recent_ms + ms, AGE_MS_MAX);
    if (has_not_begun(run, c)) {
        msg_set(j.instance, run->instance);
        j.round = run->office.round;
        j.group_rank = place_of(run, c);
        j.state = j.group_rank >= 0 ? MSG_STATE_READY : MSG_STATE_NONE;
    }
    return j;
}

/* What it said after its join. It may be gone by that. */
static void
repeat(struct rdzv *r, struct run *run, struct node *n, const struct claim *c)
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
    struct claim c = *claim_of(r, n);
    c.join = as_of_now(r, run, &c);
    node_set_state(r, n, NODE_WAITING);
    n->untold = false;
    node_ask(r, n);
    if (c.join.ended) { /* an end that is newer would have been completed */
        claim_void_end(r, run, &c.join, n->conn);
        node_remove(r, n);
        return;
    }
    join_settle(r, run, n, &c.join);
    repeat(r, run, n, &c);
}

/* Of all that CLAIM, or of those alone that obey by now. */
static void settle_all(struct rdzv *r, struct run *run, bool obeying)
{
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        next = n->next;
        if (obeying && epoch_cmp(&n->epoch, &run->office.epoch) != 0)
            continue;
        if (n->state == NODE_CLAIMS) {
            settle(r, run, n);
        } else if (n->untold) {
            n->untold = false;
            join_tell_again(r, run, n, &claim_of(r, n)->join);
        }
    }
}

/* -- nothing to take over -------------------------------------------------- */

static bool knows_of_a_round(const struct claim *c)
{
    return c->voted || (c->join.instance[0] != '\0' &&
                        (c->join.round > 0 || c->join.ended));
}

/* Nobody here knows of a round, and there is one that may begin another run. */
static bool may_begin_anew(const struct rdzv *r, const struct run *run)
{
    bool first = false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct claim *c = claim_of(r, &r->nodes[i]);
        if (knows_of_a_round(c))
            return false;
        first |= claim_may_begin(run, &c->join);
    }
    return first;
}

static void release(struct rdzv *r, struct run *run)
{
    int64_t heard = run->office.heard;
    claim_open(r, run);
    run->office.heard = heard;
    claim_take_office(r, run);
    office_win(&run->office);
    round_gather(r, run);
    settle_all(r, run, false);
}

/* -- taking office --------------------------------------------------------- */

static void ask(struct rdzv *r, struct run *run)
{
    run->takeover.outbid = false;
    claim_take_office(r, run);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        node_ask(r, &r->nodes[i]);
}

/* In office, and an operator gave up the voters that it lacked. What is known
 * of the run still is; what was proposed to them is not. */
static void ask_again(struct rdzv *r, struct run *run)
{
    if (run->state == RUN_PENDING)
        propose_give_up(r, run, "its voters were given up");
    if (run->office.pending)
        office_abandon(&run->office);
    ask(r, run);
}

/* A voter had accepted the end that a server in office said, and it heard of no
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
           epoch_cmp(&run->takeover.end_epoch, &run->office.round_epoch) >= 0;
}

/* Members of an older instance than the one of which this server has the
 * majority: theirs may be elsewhere, and no word of ours is to end it. */
static void refuse_older(struct rdzv *r, struct run *run)
{
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        const struct msg_join *j = &claim_of(r, n)->join;
        next = n->next;
        if (j->state == MSG_STATE_NONE || j->round == 0 ||
            join_is_of_instance(run, j) || join_is_younger(r, run, j))
            continue;
        note(r, NOTE_refused, run, n->name,
             "it holds an older instance; connection closed");
        node_remove(r, n);
    }
}

/* A CANDIDATE is in office. */
static void take_over(struct rdzv *r, struct run *run)
{
    run->state = RUN_GATHER;
    round_gather(r, run);
    join_rebuild(r, run);
    refuse_older(r, run);
    if (ended_before(run)) {
        complete_end(r, run);
        return;
    }
    farewell_close_holes(r, run); /* newcomers are no spares then */
    propose_find_addresses(r, run, &run->office.sets[OFFICE_NOW]);
    settle_all(r, run, false);
}

/* Their last beats are answered now. */
static void grant_all(struct rdzv *r, struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->conn >= 0 && n->state != NODE_CLAIMS && n->beat_seq > 0)
            node_grant(r, n, n->beat_seq, n->beat_heard);
    }
}

static void win(struct rdzv *r, struct run *run)
{
    struct office *o = &run->office;
    office_win(o);
    round_be_calm(r, run);
    if (run->state == RUN_CANDIDATE)
        take_over(r, run);
    int struck = office_count_struck(o);
    char dead[40] = "";
    if (struck > 0)
        (void)snprintf(dead, sizeof(dead), /* fits */ "; %d said farewell",
                       struck);
    if (run->state == RUN_ACTIVE) /* its workers run: there was no outage */
        run->takeover.calm_us = r->now_us;
    note(r, NOTE_took_office, run, "", "term %lld, %d of %d voters are here%s",
         (long long)o->epoch.count, office_count_here(o), o->sets[OFFICE_NOW].n,
         dead);
    if (run->state != RUN_ENDED)
        grant_all(r, run);
}

/* -- all that may follow from a step --------------------------------------- */

/* By an epoch that is believed (office_hear). */
static bool is_outbid(const struct rdzv *r, const struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->conn >= 0 && n->epoch.count <= run->office.heard &&
            epoch_cmp(&n->epoch, &run->office.epoch) > 0)
            return true;
    }
    return false;
}

static bool wants_office(const struct rdzv *r, struct run *run)
{
    if (run->state == RUN_CANDIDATE)
        return run->office.state == OFFICE_SEEKS && run->office.round > 0;
    run->takeover.outbid = run->takeover.outbid && is_outbid(r, run);
    return run->takeover.outbid;
}

static void look_in_office(struct rdzv *r, struct run *run)
{
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
    if (run->state == RUN_CANDIDATE && t->changed && may_begin_anew(r, run))
        release(r, run);
    t->changed = false;
    if (t->ordered && run->state != RUN_CANDIDATE &&
        office_may_ask(&run->office))
        ask_again(r, run);
    t->ordered = false;
    if (wants_office(r, run) && office_may_ask(&run->office)) {
        if (run->round.number > 0)
            claim_forget(r, run, "");
        else
            ask(r, run);
    }
    if (office_is_won(&run->office))
        win(r, run);
    if (run->office.state == OFFICE_HELD && run_is_live(run))
        look_in_office(r, run);
}
