/*
 * Happy path of a candidate: a member joins and tells in which round it is and
 * which epoch it promised (claim_join); if it is a voter, `voted` follows: the
 * newest round that it accepted, and who votes in that (claim_voted). The run
 * takes the newest of all that is told (office_adopt). Once enough voters are
 * here takeover.c asks for promises.
 *
 * A server in office hears claims as well: of a node that promised a higher
 * epoch to another server, which was not in office for long, or never. It
 * CLAIMS until this server has raised its own epoch above that.
 *
 * Failure modes: what a node tells makes no sense, or is of another instance
 * than the one that more voters tell of: it is not heard. A node that may be a
 * stranger tells of an absurd epoch: only what voters tell is believed beyond
 * HEARD_MAX, or no epoch would be left.
 */
#include "rendezvous/core/inner/join/claim.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/join_check.h"
#include "rendezvous/core/inner/join/join_rebuild.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* No run comes this far; numbers end at 10^9 (messages.def). */
#define ROUND_BELIEVED_MAX 999000000
/* Epochs that are believed of any node. */
#define HEARD_MAX 1000000

#define NOTICE_EVERY_US (3 * MONO_S)
/* A run that was forgotten is kept for its nodes to come back. */
#define KEPT_US (60 * MONO_S)

#define VIA_VOTER 31 /* of join.via: no address of the list */

/* Each node tells all servers what it has accepted: so a second run would need
 * as many nodes again. Who starts that many more than a round may have can have
 * two, and the younger one gives way (moved.c). A node that has obeyed a server
 * with rounds of the run knows that there is one: perhaps that server waits for
 * voters. */
bool claim_may_begin(const struct run *run, const struct msg_join *j)
{
    return j->via == 0 || (j->via < VIA_VOTER && j->epoch_of[0] == '\0' &&
                           2 * run->conf.nodes_min > run->conf.nodes_max);
}

void claim_take_office(struct rdzv *r, struct run *run)
{
    struct office *o = &run->office;
    if (o->heard < r->epochs)
        o->heard = r->epochs;
    office_ask(o, r->limits.server);
    if (o->epoch.count <= HEARD_MAX) /* no voter can use up those of others */
        r->epochs = o->epoch.count;
}

void claim_open(struct rdzv *r, struct run *run)
{
    office_init(&run->office);
    run->takeover.end_status = -1;
    run->takeover.notice_at_us = MONO_NEVER;
    claim_take_office(r, run);
    office_win(&run->office);
}

/* -- joins ----------------------------------------------------------------- */

static void take_epoch(struct run *run, struct node *n, const struct epoch *e)
{
    if (epoch_cmp(e, &n->epoch) > 0)
        n->epoch = *e;
    if (e->count <= HEARD_MAX || office_vote(&run->office, n->agent) != NULL)
        office_hear(&run->office, e);
}

/* It knows of a round, be it as a spare. */
static bool holds(const struct msg_join *j)
{
    return j->instance[0] != '\0' && (j->round > 0 || j->ended);
}

/* The epoch that the node promised; none if the promise was made in another
 * instance than ours. The node is to give that instance up, which is not older
 * than ours (run_for in join.c). */
static struct epoch epoch_of(const struct run *run, const struct msg_join *j)
{
    bool ours = run->round.number == 0 || j->epoch_of[0] == '\0' || j->ended ||
                msg_same_instance(j->instance, run->instance) ||
                msg_same_instance(j->epoch_of, run->instance);
    return ours ? epoch_make(j->epoch, j->epoch_id)
                : (struct epoch){.count = 0};
}

/* Of an agent that has a vote the whole id is known as long as it is here. */
static bool
is_double(const struct rdzv *r, const struct run *run, const char *agent)
{
    if (office_vote(&run->office, agent) == NULL)
        return false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (strncmp(r->nodes[i].agent, agent, MSG_VOTER_LEN) == 0)
            return true;
    return false;
}

bool claim_is_sound(struct rdzv *r,
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
    run->state = RUN_CANDIDATE;
    run->gather.seal_at_us = MONO_NEVER;
    run->takeover.notice_at_us = mono_after(r->now_us, NOTICE_EVERY_US);
    office_resign(&run->office);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        n->quarantined_until_us = 0;
        n->drained = false; /* it was told, and will say `leave` */
        node_set_state(r, n, NODE_CLAIMS);
    }
}

static void make_claim(struct rdzv *r, struct run *run, struct node *n)
{
    node_set_state(r, n, NODE_CLAIMS);
    n->lease_until_us = mono_after(r->now_us, run->conf.heartbeat_us);
    r->lease_check_us = mono_min(r->lease_check_us, n->lease_until_us);
    round_send_waiting(r, run, n);
}

/* All that it has accepted is known: it told of this instance, or holds
 * nothing.
 */
static bool has_told(const struct claim *c, const char *instance)
{
    if (c->voted)
        return strcmp(c->join.instance, instance) == 0;
    return c->join.instance[0] == '\0' && !c->nonsense;
}

/* It may be a voter of the newest round that is known. */
static void
mark_here(const struct rdzv *r, struct run *run, const struct node *n)
{
    if (run->state == RUN_CANDIDATE &&
        has_told(claim_of(r, n), run->takeover.instance))
        office_here(&run->office, n->agent);
}

/* It has promised somebody, and may have accepted a first round that was never
 * in force. It tells so before it promises here: it has no place before. */
static bool may_be_voter(const struct run *run, const struct msg_join *j)
{
    return run->state == RUN_GATHER && run->round.number == 0 && j->epoch > 0;
}

bool claim_join(struct rdzv *r,
                struct run *run,
                struct node *n,
                const struct msg_join *j)
{
    struct epoch epoch = epoch_of(run, j);
    *claim_of(r, n) =
        (struct claim){.join = *j, .at_us = r->now_us, .group_rank = -1};
    take_epoch(run, n, &epoch);
    bool is_first = run->head == run->tail; /* it has opened the run */
    bool may_begin = !is_first || claim_may_begin(run, j);
    if ((holds(j) || !may_begin) && run->state == RUN_GATHER &&
        run->round.number == 0)
        become_candidate(r, run);
    run->takeover.changed = true;
    if (run->state == RUN_CANDIDATE || may_be_voter(run, j) ||
        epoch_cmp(&n->epoch, &run->office.epoch) > 0) {
        make_claim(r, run, n);
        mark_here(r, run, n);
        node_ask(r, n);
        run->takeover.outbid |=
            run->state != RUN_CANDIDATE && run->round.number == 0;
        return true;
    }
    office_here(&run->office, n->agent);
    node_ask(r, n);
    return false;
}

bool claim_is_foreign(const struct run *run, const struct msg_join *j)
{
    return run_is_live(run) && run->instance[0] != '\0' && holds(j) &&
           !msg_same_instance(j->instance, run->instance);
}

bool claim_rejoin(struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_join *j)
{
    struct epoch epoch = epoch_of(run, j);
    struct claim *c = claim_of(r, n);
    *c = (struct claim){.join = *j, .at_us = r->now_us, .group_rank = -1};
    take_epoch(run, n, &epoch);
    n->untold = epoch_cmp(&n->epoch, &run->office.epoch) > 0;
    if (n->untold)
        office_lose(&run->office, n->agent);
    if (n->state == NODE_CLAIMS) {
        make_claim(r, run, n);
        mark_here(r, run, n);
        node_ask(r, n);
        return true;
    }
    if (!n->untold)
        office_here(&run->office, n->agent);
    node_ask(r, n);
    return n->untold;
}

bool claim_outdates(const struct run *run, const struct msg_join *j)
{
    struct epoch epoch = epoch_of(run, j);
    return run->round.number > 0 && run->state != RUN_ENDED &&
           join_is_of_instance(run, j) && !j->ended &&
           j->round > run->round.number && j->round <= ROUND_BELIEVED_MAX &&
           epoch_cmp(&epoch, &run->office.epoch) > 0;
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

void claim_forget(struct rdzv *r, struct run *run, const char *node)
{
    int64_t own_us = longest_lease(r, run);
    note(r, NOTE_outdated, run, node,
         "another server may have been in office; all nodes are to come again");
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
    claim_open(r, run);
    round_gather(r, run);
    become_candidate(r, run);
    run->takeover.notice_at_us = mono_after(r->now_us, KEPT_US);
}

/* -- voted ----------------------------------------------------------------- */

struct told {
    struct epoch epoch;
    struct voters now, before;
};

/* False: it makes no sense. */
static bool
read_sets(const struct run *run, const struct msg_voted *v, struct told *told)
{
    told->epoch = epoch_make(v->epoch, v->epoch_id);
    return v->round > 0 && v->round <= ROUND_BELIEVED_MAX && v->epoch > 0 &&
           v->epoch <= OFFICE_COUNT_MAX && v->group_rank < v->group_world &&
           v->group_world >= run->conf.nodes_min &&
           v->group_world <= run->conf.nodes_max &&
           voters_parse(&told->now, v->voters) &&
           voters_parse(&told->before, v->before) && told->now.n > 0 &&
           told->now.n <= v->group_world;
}

static bool
read_voted(const struct run *run, const struct msg_voted *v, struct told *told)
{
    return msg_is_whole(v->instance) && read_sets(run, v, told);
}

/* How many voters of that instance are here. */
static int
count_of_instance(const struct rdzv *r, const struct run *run, const char *id)
{
    int n = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct claim *c = claim_of(r, &r->nodes[i]);
        n += c->voted && r->nodes[i].state == NODE_CLAIMS &&
             strcmp(c->join.instance, id) == 0;
    }
    return n;
}

/* What voters of this instance told was not noted, since another one had more:
 * they have to come again. */
static void send_away(struct rdzv *r, struct run *run, const struct node *but)
{
    const char *instance = claim_of(r, but)->join.instance;
    for (int i = run->head, next; i >= 0; i = next) {
        struct node *n = &r->nodes[i];
        const struct claim *c = claim_of(r, n);
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
    const char *instance = claim_of(r, n)->join.instance;
    if (strcmp(t->instance, instance) == 0)
        return true;
    if (t->instance[0] != '\0' && count_of_instance(r, run, instance) <=
                                      count_of_instance(r, run, t->instance))
        return false;
    int64_t heard = run->office.heard;
    office_init(&run->office);
    run->office.heard = heard;
    *t = (struct run_takeover){
        .end_status = -1, .own_us = t->own_us, .notice_at_us = t->notice_at_us};
    msg_set(t->instance, instance);
    send_away(r, run, n);
    return true;
}

/* Voters of the newest round that came before that was known. What they have
 * accepted they tell right behind their join: in any case before they promise.
 */
static void mark_all_here(const struct rdzv *r, struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        const struct claim *c = claim_of(r, n);
        if (n->conn < 0 || !has_told(c, run->takeover.instance))
            continue;
        office_here(&run->office, n->agent);
        if (office_vote(&run->office, n->agent) != NULL)
            office_hear(&run->office, &n->epoch);
    }
}

/* `status`: of the end that a voter holds. */
static void take_end(struct run *run, int64_t status, const struct msg_voted *v)
{
    struct run_takeover *t = &run->takeover;
    struct epoch epoch = epoch_make(v->end_epoch, v->end_epoch_id);
    if (epoch.count == 0 ||
        (t->end_status >= 0 && epoch_cmp(&epoch, &t->end_epoch) <= 0))
        return;
    t->end_status = (int)status;
    t->end_epoch = epoch;
}

/* The newest round that is told of is the one to go on with. True: there is a
 * newer one than before. */
static bool take_newest(struct rdzv *r,
                        struct run *run,
                        const struct msg_voted *v,
                        const struct told *told)
{
    struct office *o = &run->office;
    struct run_takeover *t = &run->takeover;
    if (o->state == OFFICE_ASKED && office_is_newer(o, &told->epoch, v->round))
        office_resign(o); /* others have to promise */
    if (!office_adopt(o, &told->epoch, v->round, &told->now, &told->before))
        return false;
    t->group_world = (int)v->group_world;
    t->restarts = (int)v->restarts;
    mark_all_here(r, run);
    return true;
}

/* It was told to go: the round was in force. */
static void confirm_by_place(struct run *run, const struct claim *c)
{
    const struct msg_join *j = &c->join;
    if (j->round == run->office.round && j->state != MSG_STATE_NONE &&
        j->group_rank >= 0)
        office_confirm(&run->office);
}

/* Kept for as long as the node CLAIMS. */
static void
keep_voted(struct claim *c, const struct msg_voted *v, const struct told *told)
{
    c->voted = true;
    c->epoch = told->epoch;
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
                       const struct msg_voted *v,
                       const struct told *told)
{
    const struct claim *c = claim_of(r, n);
    if (v->answered_ms >= 0)
        office_hear_foreign(&run->office, r->now_us - v->answered_ms * MONO_MS);
    bool is_newer = take_newest(r, run, v, told);
    if (is_newer)
        run->takeover.born_us = r->now_us - c->join.instance_ms * MONO_MS;
    office_here(&run->office, n->agent);
    take_epoch(run, n, &n->epoch);
    confirm_by_place(run, c);
    if (c->join.ended)
        take_end(run, c->join.ended - 1, v);
    /* More is known of who is missing: others may know that it is dead. */
    if (is_newer)
        claim_tell(r, run);
    else
        round_send_waiting(r, run, n);
}

bool claim_voted(struct rdzv *r,
                 struct run *run,
                 struct node *n,
                 const struct msg_voted *v)
{
    struct claim *c = claim_of(r, n);
    struct told told;
    if (!read_voted(run, v, &told)) {
        note(r, NOTE_stale, run, n->name, "voted of round %lld",
             (long long)v->round);
        c->nonsense = true;
        office_away(&run->office, n->agent);
        return true;
    }
    rdzv_touch(r, run);
    bool is_same =
        run->round.number > 0 && strcmp(v->instance, run->instance) == 0;
    if (is_same && v->round > run->recovery.passed)
        run->recovery.passed = v->round;
    if (is_same && epoch_cmp(&told.epoch, &run->office.epoch) > 0)
        return false;
    if (run->state == RUN_GATHER && run->round.number == 0)
        become_candidate(r, run);
    if (run->state != RUN_CANDIDATE && run->round.number > 0) {
        office_here(&run->office, n->agent);
        take_epoch(run, n, &n->epoch);
        run->takeover.outbid |= epoch_cmp(&n->epoch, &run->office.epoch) > 0;
    }
    if (n->state != NODE_CLAIMS)
        return true;
    keep_voted(c, v, &told);
    if (run->state == RUN_CANDIDATE && is_of_interest(r, run, n))
        take_voted(r, run, n, v, &told);
    return true;
}

/* -- farewells ------------------------------------------------------------- */

static struct msg_voted voted_of(const struct msg_farewell *f)
{
    struct msg_voted v = {.round = f->round,
                          .epoch = f->round_epoch,
                          .group_rank = f->group_rank,
                          .group_world = f->group_world,
                          .restarts = f->restarts,
                          .end_epoch = f->end_epoch};
    msg_set(v.epoch_id, f->round_epoch_id);
    msg_set(v.voters, f->voters);
    msg_set(v.before, f->before);
    msg_set(v.end_epoch_id, f->end_epoch_id);
    return v;
}

/* False: it makes no sense. */
static bool read_last_vote(const struct run *run,
                           const struct msg_farewell *f,
                           struct msg_voted *v,
                           struct told *told)
{
    *v = voted_of(f);
    return read_sets(run, v, told);
}

/*
 * Paxos Made Simple, 2.2, phase 1b: an acceptor tells the newest proposal that
 * it has accepted; this one told it as its last word. When it last answered a
 * server it does not tell: not after this was heard.
 */
static void take_last_vote(struct rdzv *r,
                           struct run *run,
                           const struct msg_farewell *f,
                           int64_t heard_us)
{
    struct msg_voted v;
    struct told told;
    office_hear_foreign(&run->office, heard_us);
    if (f->voters[0] == '\0' || !read_last_vote(run, f, &v, &told))
        return;
    (void)take_newest(r, run, &v, &told);
    if (f->ended)
        take_end(run, f->end_status, &v);
}

/* It voted in this run's instance, as far as that is known here, or in none. */
static bool is_of_run(const struct run *run, const struct msg_farewell *f)
{
    const char *instance =
        run->state == RUN_CANDIDATE ? run->takeover.instance : run->instance;
    return f->instance[0] == '\0' ||
           (instance[0] != '\0' && msg_same_instance(f->instance, instance));
}

/* Of a round of which nobody that is here knows. */
static bool tells_newer(const struct run *run, const struct msg_farewell *f)
{
    struct epoch epoch = epoch_make(f->round_epoch, f->round_epoch_id);
    return run->state == RUN_CANDIDATE && f->voters[0] != '\0' &&
           office_is_newer(&run->office, &epoch, f->round);
}

bool claim_farewell(struct rdzv *r,
                    struct run *run,
                    const struct msg_farewell *f,
                    int64_t heard_us)
{
    struct office *o = &run->office;
    struct epoch epoch = epoch_make(f->epoch, f->epoch_id);
    const struct vote *v = office_vote(o, f->agent);
    if (epoch.count == 0 || !is_of_run(run, f) ||
        (v != NULL ? v->struck : !tells_newer(run, f)))
        return true;
    office_hear(o, &epoch);
    /* See office_strike. */
    if (o->state == OFFICE_HELD && epoch_cmp(&epoch, &o->epoch) > 0)
        return run->round.number == 0; /* nothing is lost by asking for it */
    if (o->state == OFFICE_ASKED && epoch_cmp(&epoch, &o->epoch) > 0)
        office_resign(o);
    if (run->state == RUN_CANDIDATE)
        take_last_vote(r, run, f, heard_us);
    office_strike(o, f->agent);
    rdzv_touch(r, run);
    return true;
}

/* -- promises -------------------------------------------------------------- */

void claim_promise(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg_promise *p)
{
    struct epoch epoch = epoch_make(p->epoch, p->epoch_id);
    if (run->office.state == OFFICE_SEEKS ||
        epoch_cmp(&epoch, &run->office.epoch) != 0) {
        note(r, NOTE_stale, run, n->name, "promise of term %lld",
             (long long)p->epoch);
        return;
    }
    n->epoch = epoch;
    office_promise(&run->office, n->agent);
    run->takeover.obeyed |= n->state == NODE_CLAIMS || n->untold;
    rdzv_touch(r, run);
}

/* A voter has told by now what it accepted. */
void claim_beat(struct run *run, const struct node *n)
{
    if (run->state != RUN_CANDIDATE &&
        epoch_cmp(&n->epoch, &run->office.epoch) > 0)
        run->takeover.outbid = true;
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

void claim_note(struct rdzv *r,
                struct run *run,
                struct node *n,
                const struct msg *m)
{
    struct claim *c = claim_of(r, n);
    if (m->kind == MSG_KIND_failed)
        note_failure(r, run, n, &m->failed);
    else if (m->kind == MSG_KIND_ready && m->ready.round == c->join.round)
        c->join.state = MSG_STATE_READY;
    else if (m->kind == MSG_KIND_done && m->done.round == c->join.round)
        c->join.state = MSG_STATE_DONE;
    else if (m->kind == MSG_KIND_leave) {
        c->leaves = true;
        c->leave = m->leave;
    }
}

/* Its end was proposed to voters of which most have promised this server since:
 * had it been final, one of them would have told. */
void claim_void_end(struct rdzv *r,
                    const struct run *run,
                    const struct msg_join *j,
                    int conn)
{
    note(r, NOTE_stale, run, j->name,
         "it was told of an end that was not final; the run goes on");
    reply_office(r, run, conn);
    struct msg m = {.kind = MSG_KIND_refused, .refused.code = DDP_E_LOST};
    (void)snprintf(
        m.refused.text, sizeof(m.refused.text), /* fits */
        "the run did not end with status %lld as this node was told; "
        "it went on without it",
        (long long)j->ended - 1);
    reply_send(r, conn, &m);
}

void claim_tell(struct rdzv *r, struct run *run)
{
    run->takeover.notice_at_us = mono_after(r->now_us, NOTICE_EVERY_US);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_CLAIMS)
            round_send_waiting(r, run, &r->nodes[i]);
}
