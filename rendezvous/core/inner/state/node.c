/*
 * A node's slot: taken by a join, freed by node_remove; between these it is in
 * three places at once: in the table by agent id (a chain per bucket), in its
 * run's list by arrival, and, while it is connected, at its connection. The
 * run's counts follow each change here, so that nothing has to walk the list to
 * know how many nodes are where.
 *
 * Leases are kept here as well. They are only ever renewed by an answer to the
 * node's own beat; a connection that breaks leaves them as they are.
 */
#include "rendezvous/core/inner/state/node.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

/* No further are numbers of rounds left out for what a node claims to hold:
 * with the highest of all, the next server would not believe ours. */
#define LEAP_MAX 100000

struct node *node_at(const struct rdzv *r, int i)
{
    return i < 0 ? NULL : &r->nodes[i];
}

static int node_index(const struct rdzv *r, const struct node *n)
{
    return (int)(n - r->nodes);
}

/* -- the table by agent id, the run's list, the counts ------------------- */

void node_init(struct rdzv *r)
{
    for (int i = 0; i < r->limits.conns_max; i++)
        r->conn_node[i] = -1;
    for (uint32_t i = 0; i < r->n_buckets; i++)
        r->buckets[i] = -1;
    r->free_node = -1;
    r->fresh_node = 0;
}

/* FNV-1a; ids are 128 random bits of an agent that may be hostile. By a
 * collision it gains no more than a walk along nodes_max nodes of a chain. */
static uint32_t hash_id(const struct rdzv *r, const char *id)
{
    uint32_t h = 2166136261u;
    for (; *id != '\0'; id++)
        h = (h ^ (unsigned char)*id) * 16777619u;
    return h & (r->n_buckets - 1);
}

struct node *node_find(const struct rdzv *r, const char *run, const char *agent)
{
    int i = r->buckets[hash_id(r, agent)];
    for (; i >= 0; i = r->nodes[i].hash_next) {
        struct node *n = &r->nodes[i];
        if (strcmp(n->agent, agent) == 0 &&
            strcmp(r->runs[n->run].id, run) == 0)
            return n;
    }
    return NULL;
}

static void list_append(struct rdzv *r, struct run *run, int i)
{
    rdzv_touch(r, run);
    r->nodes[i].prev = run->tail;
    r->nodes[i].next = -1;
    if (run->tail >= 0)
        r->nodes[run->tail].next = i;
    else
        run->head = i;
    run->tail = i;
}

static void list_remove(struct rdzv *r, struct run *run, int i)
{
    const struct node *n = &r->nodes[i];
    rdzv_touch(r, run);
    if (n->prev >= 0)
        r->nodes[n->prev].next = n->next;
    else
        run->head = n->next;
    if (n->next >= 0)
        r->nodes[n->next].prev = n->prev;
    else
        run->tail = n->prev;
}

uint32_t node_boot(const struct msg_join *j)
{
    char digits[9] = "";
    if (j->owns[0] != '\0')
        msg_set(digits, j->owns + 1);
    return (uint32_t)strtoul(digits, NULL, 16);
}

void node_set_state(struct rdzv *r, struct node *n, enum node_state state)
{
    struct run *run = &r->runs[n->run];
    ddp_assert(n->state != NODE_FREE && state != NODE_FREE);
    rdzv_touch(r, run);
    run->count[n->state]--;
    n->state = state;
    run->count[state]++;
}

void node_bind(struct rdzv *r, struct node *n, int conn)
{
    if (n->conn < 0)
        r->runs[n->run].absent--;
    rdzv_touch(r, &r->runs[n->run]);
    n->conn = conn;
    n->heard_us = r->now_us;
    r->conn_node[conn] = node_index(r, n);
}

void node_clear_bye(struct rdzv *r, struct node *n)
{
    if (n->state == NODE_ENDING)
        node_set_state(r, n, NODE_ENDED);
}

void node_unbind(struct rdzv *r, struct node *n)
{
    if (n->conn < 0)
        return;
    node_clear_bye(r, n); /* who is away is not waited for */
    node_says(r, n, AUTHORITY_AWAY, 0);
    n->asked = 0;
    r->conn_node[n->conn] = -1;
    n->conn = -1;
    n->away_us = r->now_us;
    r->runs[n->run].absent++;
    rdzv_touch(r, &r->runs[n->run]);
}

bool node_set_address(struct node *n, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    const char *addr = j->addr[0] != '\0' ? j->addr : ev->peer_addr;
    bool moved = strcmp(n->addr, addr) != 0 || n->port != (int)j->port;
    msg_set(n->addr, addr);
    msg_set(n->peer_addr, ev->peer_addr);
    msg_set(n->here_addr, ev->here_addr);
    n->port = (int)j->port;
    n->serve_port = (int)j->serve_port;
    n->hosts = j->hosts != 0;
    n->local = node_is_loopback(ev->peer_addr) ||
               strcmp(ev->peer_addr, ev->here_addr) == 0;
    return moved;
}

struct node *
node_new(struct rdzv *r, struct run *run, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    int i = r->free_node >= 0 ? r->free_node : r->fresh_node++;
    struct node *n = &r->nodes[i];
    if (i == r->free_node)
        r->free_node = n->hash_next;
    *n = (struct node){
        .state = NODE_WAITING,
        .run = run_index(r, run),
        .conn = -1,
        .nproc = (int)j->nproc,
        .asked_rank = (int)j->node_rank,
        .arrival = r->arrivals++,
        .since_us = r->now_us,
        .group_rank = -1,
        .launcher = {.echo_us = AUTHORITY_NO_ECHO,
                     .answered_us = AUTHORITY_NO_ECHO},
    };
    node_begin_beats(n);
    msg_set(n->agent, j->agent);
    msg_set(n->launcher.id, j->agent);
    msg_set(n->name, j->name);
    msg_set(n->role, j->role);
    msg_set(n->owns, j->owns);
    r->boots[i] = node_boot(j);
    (void)node_set_address(n, ev); /* it was nowhere */
    run->host_is_silent &= !n->hosts;
    uint32_t h = hash_id(r, n->agent);
    n->hash_next = r->buckets[h];
    r->buckets[h] = i;
    list_append(r, run, i);
    run->count[NODE_WAITING]++;
    run->absent++;
    r->n_nodes++;
    node_bind(r, n, ev->conn);
    return n;
}

void node_remove(struct rdzv *r, struct node *n)
{
    struct run *run = &r->runs[n->run];
    int i = node_index(r, n);
    if (n->conn >= 0)
        reply_drop(r, n->conn);
    else
        run->absent--;
    node_says(r, n, AUTHORITY_GONE, 0);
    run->takeover.changed |= n->state == NODE_JOINING;
    int *link = &r->buckets[hash_id(r, n->agent)];
    while (*link != i)
        link = &r->nodes[*link].hash_next;
    *link = n->hash_next;
    list_remove(r, run, i);
    run->count[n->state]--;
    n->state = NODE_FREE;
    n->hash_next = r->free_node;
    r->free_node = i;
    r->n_nodes--;
}

/* -- leases --------------------------------------------------------------- */

void node_begin_beats(struct node *n)
{
    n->beat_seq = 0;
    n->beat_heard = -1;
    for (int i = 0; i < NODE_SENT; i++)
        n->sent[i].seq = -1;
}

void node_ask(struct rdzv *r, struct node *n)
{
    const struct authority *a = &r->runs[n->run].authority;
    if (n->conn < 0 || a->state == AUTHORITY_FOLLOWER ||
        term_cmp(&n->launcher.term, &a->term) > 0 || n->asked == a->term.count)
        return;
    n->asked = a->term.count;
    n->asked_us = r->now_us;
    reply_prepare(r, &r->runs[n->run], n->conn);
}

void node_says(struct rdzv *r,
               struct node *n,
               enum authority_word word,
               int64_t value)
{
    authority_hear(&r->runs[n->run].authority, &n->launcher, word, value,
                   r->now_us);
}

void node_obeys(struct rdzv *r, struct node *n, const struct term *term)
{
    n->launcher.term = *term;
    node_says(r, n, AUTHORITY_OBEYS, 0);
}

void node_promise(struct rdzv *r, struct node *n)
{
    const struct authority *a = &r->runs[n->run].authority;
    int64_t sent_us =
        n->asked == a->term.count ? n->asked_us : AUTHORITY_NO_ECHO;
    n->asked = 0;
    n->launcher.term = a->term;
    node_says(r, n, AUTHORITY_PROMISE, sent_us);
}

/* Half of the voters, or too many launchers of a strict run, have not answered
 * for too long. */
static void tell_mute(struct rdzv *r, const struct run *run)
{
    struct authority_tally tally = authority_tally(&run->authority, r->now_us);
    if (tally.lacks_launchers)
        note(r, NOTE_no_majority, run, "",
             "nodes that answer: %d, and %d are needed",
             run->authority.launchers.answered, run->conf.nodes_min);
    else
        note(r, NOTE_no_majority, run, "", "%d of %d voters are here",
             tally.here, tally.voters);
}

/* A node was granted something, or not. One that has just joined has answered
 * nothing yet, nor have voters of a round that is proposed. */
static void
note_grant(struct rdzv *r, struct run *run, bool granted, bool to_beat)
{
    enum run_grants *grants = &run->takeover.grants;
    bool mute = !granted && to_beat && run->state != RUN_PENDING;
    if (mute && *grants != RUN_MUTE)
        tell_mute(r, run);
    if (mute)
        *grants = RUN_MUTE;
    else if (*grants == RUN_MUTE ? to_beat : !granted)
        *grants = RUN_OWES;
}

/* When the lease of that number was sent. */
static int64_t sent_us(const struct node *n, int64_t seq)
{
    return seq >= 0 && n->sent[seq % NODE_SENT].seq == seq
               ? n->sent[seq % NODE_SENT].at_us
               : AUTHORITY_NO_ECHO;
}

/* Whether this server may grant the node a lease: not if the node obeys another
 * server, nor if its round may run elsewhere without it. */
static bool may_grant(const struct run *run, const struct node *n)
{
    return term_cmp(&n->launcher.term, &run->authority.term) <= 0 &&
           run->authority.state == AUTHORITY_LEADER &&
           n->state != NODE_JOINING && n->state != NODE_STALE;
}

/* Squared it is in the bounds of messages.def; it divides no AUTHORITY_LEAP, so
 * that first terms of two lines differ. */
#define LOOKS 2999999

/* msg_lease.look: a server that took over counts from 1 again, and nodes know
 * the questions, and what they said to them, by this number alone. */
static int64_t looks_at(const struct run *run, const struct node *n)
{
    int64_t term = run->authority.term.count % LOOKS;
    return run->stands.asked && node_in_round(n)
               ? term * LOOKS + run->stands.looks % LOOKS
               : 0;
}

/*
 * The server counts from the processing of the beat, the agent from its
 * sending, and the grant is less by a fifth: the agent's time to
 * kill. No lease goes beyond what half of the voters vouch for, and in a strict
 * run nodes_min launchers: where these are too few the answer grants nothing.
 * If the voters are the node is asked for its promise instead, which is an
 * answer, too.
 */
void node_grant(struct rdzv *r, struct node *n, int64_t seq, int64_t heard)
{
    struct run *run = &r->runs[n->run];
    int64_t lease_us = run->conf.heartbeat_us;
    n->heard_us = r->now_us;
    n->beat_seq = seq;
    n->beat_heard = heard;
    if (term_cmp(&n->launcher.term, &run->authority.term) == 0)
        node_says(r, n, AUTHORITY_ANSWER, sent_us(n, heard));
    int64_t until_us = mono_after(r->now_us, lease_us);
    if (until_us > n->lease_until_us) /* its loss is not believed before */
        n->lease_until_us = until_us;
    r->lease_check_us = mono_min(r->lease_check_us, n->lease_until_us);
    if (!may_grant(run, n))
        return;
    int64_t since_us = r->now_us + AUTHORITY_MARGIN_US(lease_us);
    struct authority_leases leases =
        authority_leases(&run->authority, r->now_us);
    int64_t voters_us = leases.voters_us - since_us;
    int64_t grant_us = leases.until_us - since_us;
    note_grant(r, run, grant_us >= MONO_MS, seq > 0);
    if (voters_us < MONO_MS) {
        node_ask(r, n);
        return;
    }
    if (grant_us < MONO_MS)
        grant_us = 0;
    n->sent[seq % NODE_SENT].seq = seq;
    n->sent[seq % NODE_SENT].at_us = r->now_us;
    if (seq > 0 && grant_us > 0) /* the answer to a beat */
        n->told_us = mono_after(r->now_us, grant_us);
    struct msg m = {.kind = MSG_KIND_lease,
                    .lease = {.seq = seq,
                              .grant_ms = grant_us / MONO_MS,
                              .look = looks_at(run, n)}};
    if (n->owed_sums)
        msg_set(m.lease.spent, run->round.sums);
    n->owed_sums = false;
    reply_node(r, n, &m);
}

void node_confirm(struct rdzv *r, struct node *n, int64_t round)
{
    struct run *run = &r->runs[n->run];
    if (n->confirmed || !node_in_round(n) || round != run->round.number)
        return;
    n->confirmed = true;
    run->round.confirmed++;
}

void node_cut_lease(struct rdzv *r, struct node *n, int64_t lease_us)
{
    int64_t until_us = mono_after(r->now_us, lease_us);
    n->lease_until_us = mono_min(n->lease_until_us, until_us);
    r->lease_check_us = mono_min(r->lease_check_us, n->lease_until_us);
}

bool node_in_round(const struct node *n)
{
    return n->state == NODE_RUNNING || n->state == NODE_STOPPING ||
           n->state == NODE_DONE || n->state == NODE_LEAVING;
}

bool node_is_loopback(const char *addr)
{
    return strncmp(addr, "127.", 4) == 0 || strcmp(addr, "::1") == 0;
}

void node_make_stale(struct rdzv *r,
                     struct node *n,
                     int64_t round,
                     const char *why)
{
    struct run *run = &r->runs[n->run];
    node_set_state(r, n, NODE_STALE);
    n->stale_round = round;
    if (round > run->recovery.passed && round <= run->round.number + LEAP_MAX)
        run->recovery.passed = round;
    reply_stop(r, n, round, why, MSG_AT_ONCE, 0);
}
