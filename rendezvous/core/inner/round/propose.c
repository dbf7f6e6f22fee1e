/*
 * Happy path: round_seal.c has chosen the members and given them ranks
 * (propose_round). Voters of the new round are told the voters and their place,
 * voters of the last round the voters; each stores the proposal and accepts.
 * When half of both have accepted, and of a first round all, the round is in
 * force: voters are told to go, the other members what their place is.
 *
 * Failure modes: a member goes before that: propose_give_up, and another round,
 * with another number, is gathered. Too few voters answer: nothing follows;
 * those that are silent are lost by their leases, and then one gives up.
 *
 * A round of one node, which is also all that voted so far, is in force at
 * once: whoever is to be elected needs that node's promise, and leases need
 * its echo.
 */
#include "rendezvous/core/inner/round/propose.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"

/* Addresses that are told to a node without a vote. */
/* If any minority of the voters is lost, the first one that is left is among
 * these: that is where the others meet. */
#define ADDRS_SOME (MSG_VOTERS_MAX / 2 + 1)

/* -- where they are -------------------------------------------------------- */

/* One of `voters`, or "-"; each is followed by a blank. */
static void address_of(const struct node *n, const char *here, char text[80])
{
    const char *addr = n != NULL ? n->addr : "";
    if (n != NULL && node_is_loopback(addr) && here[0] != '\0')
        addr = here;
    if (n == NULL || n->serve_port == 0 || addr[0] == '\0')
        (void)snprintf(text, 80, "- ");
    else /* fits: 64 and 5 digits */
        (void)snprintf(text, 80, "%s:%d ", addr, n->serve_port);
}

void propose_find_addresses(struct rdzv *r,
                            struct run *run,
                            const struct voters *voters)
{
    const struct node *nodes[MSG_VOTERS_MAX] = {NULL};
    const char *here = "";
    char *at = run->takeover.addrs;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        int place = voters_find(voters, n->agent);
        if (place >= 0)
            nodes[place] = n;
        if (here[0] == '\0' && !node_is_loopback(n->addr) &&
            !node_is_loopback(n->here_addr))
            here = n->here_addr;
    }
    for (int v = 0; v < voters->n; v++) {
        char text[80];
        address_of(nodes[v], here, text);
        size_t len = strlen(text);
        memcpy(at, text, len);
        at += len;
    }
    *at = '\0';
}

/* -- saying who votes ------------------------------------------------------ */

static void fill_voters(const struct run *run, struct msg *m)
{
    const struct authority *a = &run->authority;
    *m = (struct msg){.kind = MSG_KIND_voters};
    struct msg_voters *v = &m->voters;
    v->round = a->pending ? a->next_round : a->round;
    v->term = a->pending ? a->term : a->round_term;
    v->pending = a->pending;
    v->group_world = run->round.group_world;
    v->restarts = round_restarts_before(run);
    msg_set(v->instance, run->instance);
    voters_print(&a->sets[a->pending ? AUTHORITY_NEXT : AUTHORITY_NOW], v->ids);
    if (a->pending)
        /* The last one that is known to have been in force. */
        voters_print(&a->sets[a->sets[AUTHORITY_BEFORE].n > 0 ? AUTHORITY_BEFORE
                                                              : AUTHORITY_NOW],
                     v->before);
    msg_set(v->addrs, run->takeover.addrs);
}

/* A node without a vote only has to know where to go; a spare, that it has none
 * any more in a round that is in force. */
static void leave_some(const struct run *run, struct msg_voters *v, bool ids)
{
    char *at = v->addrs;
    msg_set_name(v->instance, run->instance);
    for (int i = 0; i < ADDRS_SOME && *at != '\0'; i++)
        at = strchr(at, ' ') + 1;
    memset(at, 0, sizeof(v->addrs) - (size_t)(at - v->addrs));
    if (ids)
        memset(v->ids, 0, sizeof(v->ids));
}

void propose_say_voters(struct rdzv *r, struct run *run, const struct node *n)
{
    struct msg m;
    const struct authority *a = &run->authority;
    if (a->round == 0 && !a->pending)
        return;
    fill_voters(run, &m);
    bool in_doubt = !a->pending && a->in_doubt;
    if (in_doubt || authority_vote(a, n->agent) == NULL)
        leave_some(run, &m.voters, in_doubt || a->pending || node_in_round(n));
    reply_node(r, n, &m);
}

void propose_say(struct rdzv *r, struct run *run, const struct node *n)
{
    propose_say_voters(r, run, n);
    round_send_world(r, run, n);
}

/* -- the proposal ---------------------------------------------------------- */

static void ask_voters(struct rdzv *r, struct run *run)
{
    struct msg m;
    fill_voters(run, &m);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->conn < 0 || authority_vote(&run->authority, n->agent) == NULL)
            continue;
        node_says(r, n, AUTHORITY_HERE, 0);
        if (term_cmp(&n->launcher.term, &run->authority.term) ==
            0) /* when it came */
            node_says(r, n, AUTHORITY_PROMISE, AUTHORITY_NO_ECHO);
        reply_node(r, n, &m);
        if (n->state == NODE_PENDING)
            round_send_world(r, run, n);
    }
}

/* Be it as a spare of that round: too few of the others may be here. */
void propose_ask(struct rdzv *r, struct run *run, const struct node *n)
{
    if (run->authority.pending &&
        authority_vote(&run->authority, n->agent) != NULL)
        propose_say_voters(r, run, n);
}

/*
 * All members up to MSG_VOTERS_MAX, else so many spread over the group ranks:
 * the middle one of each part, so that no 16 neighbours (a rack, a switch) of
 * 33 members and more have half of the votes. With the first one of each part
 * 16 of 33 had.
 */
static void pick_voters(const struct rdzv *r, int n_members, struct voters *v)
{
    int n = n_members < MSG_VOTERS_MAX ? n_members : MSG_VOTERS_MAX;
    for (int i = 0; i < n; i++) {
        int place = (int)((2 * (int64_t)i + 1) * n_members / (2 * (int64_t)n));
        const struct node *node = &r->nodes[r->places[place].id];
        if (voters_find(v, node->agent) < 0)
            voters_add(v, node->agent);
    }
}

void propose_round(struct rdzv *r, struct run *run, int n_members)
{
    struct voters next = {.n = 0};
    pick_voters(r, n_members, &next);
    run->state = RUN_PENDING;
    phase_look(r, run); /* the sums up to this round go out with it */
    authority_propose(&run->authority, run->round.number, &next, r->now_us);
    propose_find_addresses(r, run, &next);
    note(r, NOTE_proposed, run, "", "%d node%s, %d voter%s", n_members,
         n_members == 1 ? "" : "s", next.n, next.n == 1 ? "" : "s");
    if (!run->authority.alone)
        ask_voters(r, run);
}

void propose_again(struct rdzv *r, struct run *run)
{
    struct voters same = run->authority.sets[AUTHORITY_NOW];
    int64_t number = run->round.number;
    if (run->recovery.passed > number)
        number = run->recovery.passed;
    authority_propose(&run->authority, number + 1, &same, r->now_us);
    propose_find_addresses(r, run, &same);
    note(r, NOTE_proposed, run, "",
         "its voters once more, since it may not have been in force");
    ask_voters(r, run);
}

void propose_accepted(struct rdzv *r,
                      struct run *run,
                      struct node *n,
                      const struct msg_accept *m)
{
    if (term_cmp(&m->term, &run->authority.term) != 0 ||
        run->authority.state != AUTHORITY_LEADER) {
        note(r, NOTE_stale, run, n->name, "accept of round %lld",
             (long long)m->round);
        return;
    }
    n->launcher.term = m->term;
    node_says(r, n, AUTHORITY_ACCEPT, m->round);
    rdzv_touch(r, run);
}

/* -- in force -------------------------------------------------------------- */

void propose_say_go(struct rdzv *r, const struct run *run, int conn)
{
    struct msg m = {.kind = MSG_KIND_go};
    m.go.round = run->authority.round;
    m.go.term = run->authority.round_term;
    if (conn >= 0)
        reply_send(r, conn, &m);
}

/* Spares had no place in the round; they wait beside it now. */
static void tell_spares(struct rdzv *r, struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->state != NODE_SPARE && n->state != NODE_QUARANTINED)
            continue;
        propose_say_voters(r, run, n);
        round_send_waiting(r, run, n);
    }
}

static void begin_round(struct rdzv *r, struct run *run)
{
    run->state = RUN_ACTIVE;
    run->round.sealed_us = r->now_us;
    note(r, NOTE_sealed, run, "", "%d node%s, world %d, master %s:%d",
         run->round.group_world, run->round.group_world == 1 ? "" : "s",
         run->round.world_size, run->round.master_addr, run->round.master_port);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->state != NODE_PENDING)
            continue;
        node_set_state(r, n, NODE_RUNNING);
        if (!run->authority.alone &&
            authority_vote(&run->authority, n->agent) != NULL)
            propose_say_go(r, run, n->conn);
        else
            propose_say(r, run, n);
    }
    tell_spares(r, run);
}

void propose_try_commit(struct rdzv *r, struct run *run)
{
    struct authority *a = &run->authority;
    if (authority_advance(a, r->now_us) != AUTHORITY_COMMITTED)
        return;
    rdzv_touch(r, run);
    run->takeover.without[0] = '\0';
    if (run->state == RUN_PENDING) {
        begin_round(r, run);
        return;
    }
    run->round.number = a->round;
    run->recovery.inherited = false; /* all leases of it are over */
}

void propose_give_up(struct rdzv *r, struct run *run, const char *why)
{
    ddp_assert(run->state == RUN_PENDING);
    note(r, NOTE_round_over, run, "", "it was not in force yet: %s", why);
    authority_abandon(&run->authority, false);
    run->state = RUN_GATHER;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_PENDING)
            node_set_state(r, &r->nodes[i], NODE_WAITING);
}
