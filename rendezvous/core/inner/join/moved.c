/*
 * That a run is served elsewhere cannot be proven to a server that knows
 * nothing of the run: any agent that may join may say so. The word is believed
 * for a short time only, and until a node comes that was there: that node has
 * lost the other server. The word counts for nothing if this server has a round
 * of the same instance and may act for it. If the instances differ the younger
 * one gives way: it was begun by nodes that knew nothing of the older one.
 * Where strangers may join it gives way only while it is young, or any stranger
 * could move it. An agent that is sent somewhere obeys only a leader
 * there.
 *
 * An agent that asks is counted as long as it asks again: a connection alone
 * may be that of a host that has lost its power. There is room for LOOKS_MAX
 * agents, as many as all voters of eight runs; others are answered, and not
 * counted.
 *
 * Ages are compared, not terms: either instance may have had more servers.
 * Both sides compare the same two ages, but for the time that a message takes,
 * by which each believes the other one to be younger: so never do both give
 * way.
 */
#include "rendezvous/core/inner/join/moved.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/election.h"
#include "rendezvous/core/inner/join/handback.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/state/run.h"

#define MOVED_MAX  64
#define HOLDS_US   (3 * MONO_S)
#define YOUNG_US   (300 * MONO_S)
#define LOOKS_MAX  256
#define LOOKS_US   (2 * MONO_S)         /* it asks again each half a second */
#define AGE_MS_MAX INT64_C(86400000000) /* of messages.def */

struct moved_run {
    char run[129]; /* "": the slot was never used */
    char instance[RNG_ID_LEN + 1];
    int64_t born_us; /* when that had its first round */
    struct term term;
    char addr[73];
    int conn; /* on which it was said */
    int64_t until_us;
};

/* A launcher with a vote that looks for a leader. */
struct moved_look {
    char run[129];
    char voter[MSG_VOTER_LEN + 1];
    int conn;
    int64_t until_us; /* in the past: the slot is free */
};

struct moved {
    struct moved_run runs[MOVED_MAX];
    struct moved_look looks[LOOKS_MAX];
};

struct moved *moved_new(void)
{
    return calloc(1, sizeof(struct moved));
}

void moved_del(struct moved *m)
{
    free(m);
}

/* -- the table ------------------------------------------------------------- */

static struct moved_run *find(const struct rdzv *r, const char *run)
{
    for (int i = 0; i < MOVED_MAX; i++) {
        struct moved_run *m = &r->moved->runs[i];
        if (r->now_us < m->until_us && strcmp(m->run, run) == 0)
            return m;
    }
    return NULL;
}

/* NULL: all slots are taken. */
static struct moved_run *find_free(const struct rdzv *r)
{
    for (int i = 0; i < MOVED_MAX; i++)
        if (r->now_us >= r->moved->runs[i].until_us)
            return &r->moved->runs[i];
    return NULL;
}

static int64_t born_us(const struct rdzv *r, int64_t age_ms)
{
    return r->now_us - age_ms * MONO_MS;
}

/* Of two that say so, the older instance, or the higher term of one. */
static bool is_worse(const struct rdzv *r,
                     const struct msg_serves *s,
                     const struct moved_run *m)
{
    if (!msg_same_instance(s->instance, m->instance))
        return born_us(r, s->instance_ms) >= m->born_us;
    return term_cmp(&s->term, &m->term) < 0;
}

/* NULL: it is not believed. */
static struct moved_run *
remember(struct rdzv *r, const struct msg_serves *s, int conn, bool *is_new)
{
    struct moved_run *m = find(r, s->run);
    *is_new = m == NULL || strcmp(m->addr, s->addr) != 0;
    if (m != NULL && is_worse(r, s, m))
        return NULL;
    if (m == NULL && (m = find_free(r)) == NULL)
        return NULL;
    msg_set(m->run, s->run);
    msg_set(m->instance, s->instance);
    m->born_us = born_us(r, s->instance_ms);
    m->term = s->term;
    msg_set(m->addr, s->addr);
    m->conn = conn;
    m->until_us = mono_after(r->now_us, HOLDS_US);
    return m;
}

/* -- sending nodes there --------------------------------------------------- */

static void
send_where(struct rdzv *r, const struct moved_run *to, int reached, int conn)
{
    struct msg m = {.kind = MSG_KIND_serves, .serves.reached = reached};
    m.serves.term = to->term;
    msg_set(m.serves.addr, to->addr);
    msg_set_name(m.serves.instance, to->instance);
    m.serves.instance_ms =
        mono_min((r->now_us - to->born_us) / MONO_MS, AGE_MS_MAX);
    reply_send(r, conn, &m);
}

static void send_there(struct rdzv *r, const struct moved_run *to, int conn)
{
    send_where(r, to, 0, conn);
}

/* It has rounds of the run, and may act for it. */
static bool has_run(const struct rdzv *r, const struct run *run)
{
    return run->round.number > 0 && run_may_act(run, r->now_us);
}

/* Who may join has the token, or an option says that all hosts are trusted. */
static bool are_trusted(const struct rdzv *r)
{
    return r->limits.trusted;
}

/* Of a run of which nothing is known here, or nothing that still counts, or
 * that is another, younger instance. */
static bool is_given_up(const struct rdzv *r,
                        const struct run *run,
                        const struct moved_run *to)
{
    bool claims = run->state == RUN_ELECTING;
    const char *instance = claims ? run->takeover.instance : run->instance;
    int64_t born = claims ? run->takeover.born_us : run->born_us;
    bool begun = run->round.number > 0;
    if (instance[0] != '\0' && !msg_same_instance(instance, to->instance))
        return to->born_us < born &&
               (!begun || are_trusted(r) ||
                r->now_us < mono_after(run->opened_us, YOUNG_US));
    return !begun ||
           (!has_run(r, run) && term_cmp(&to->term, &run->authority.term) > 0);
}

/* This server knows of an older instance than `s` tells of. The agent at the
 * other end passes the answer on to its own server, to which nobody else would
 * tell it. */
static void tell_older(struct rdzv *r,
                       const struct run *run,
                       const struct msg_serves *s,
                       int conn)
{
    const struct moved_run *to = find(r, s->run);
    struct moved_run here = {.addr = ""};
    if (run != NULL && has_run(r, run)) {
        here.term = run->authority.term;
        here.born_us = run->born_us;
        msg_set(here.instance, run->instance);
        to = &here;
    }
    if (to != NULL && !msg_same_instance(to->instance, s->instance) &&
        to->born_us < born_us(r, s->instance_ms))
        send_there(r, to, conn);
}

/* -- who asks -------------------------------------------------------------- */

static bool is_of(const struct rdzv *r, const struct moved_look *l, int conn)
{
    return r->now_us < l->until_us && l->conn == conn;
}

static void note_look(struct rdzv *r, const struct msg_serves *s, int conn)
{
    struct moved_look *to = NULL;
    for (int i = 0; i < LOOKS_MAX; i++) {
        struct moved_look *l = &r->moved->looks[i];
        if (is_of(r, l, conn)) {
            to = l;
            break;
        }
        if (to == NULL && r->now_us >= l->until_us)
            to = l;
    }
    if (to == NULL)
        return;
    msg_set(to->run, s->run);
    msg_set(to->voter, s->voter);
    to->conn = conn;
    to->until_us = mono_after(r->now_us, LOOKS_US);
}

static bool
is_about(const struct rdzv *r, const struct moved_look *l, const char *run)
{
    return r->now_us < l->until_us && strcmp(l->run, run) == 0;
}

/* The same voter has a slot before that one: two places of its list lead here,
 * as the endpoint and the spare port of one launcher do. */
static bool is_counted(const struct rdzv *r, int slot)
{
    const struct moved_look *l = &r->moved->looks[slot];
    for (int i = 0; i < slot; i++) {
        const struct moved_look *other = &r->moved->looks[i];
        if (strcmp(other->voter, l->voter) == 0 && is_about(r, other, l->run))
            return true;
    }
    return false;
}

static int count_looks(const struct rdzv *r, const char *run)
{
    int n = 0;
    for (int i = 0; i < LOOKS_MAX; i++)
        n += is_about(r, &r->moved->looks[i], run) && !is_counted(r, i);
    return n;
}

bool moved_is_sought(const struct rdzv *r, const char *run)
{
    return count_looks(r, run) > 0;
}

/* This server is the leader, and if the run had a round half of the voters
 * vouch for that: launchers that a strict run lacks are to come here. */
static bool leads(const struct rdzv *r, const struct run *run)
{
    return run != NULL && run->authority.state == AUTHORITY_LEADER &&
           (run->round.number == 0 || run_has_voters(run, r->now_us));
}

static void answer_look(struct rdzv *r, const struct msg_serves *s, int conn)
{
    struct run *run = run_find(r, s->run);
    const struct moved_run *elsewhere = find(r, s->run);
    struct moved_run to = {.born_us = r->now_us, .addr = ""};
    if (s->voter[0] != '\0')
        note_look(r, s, conn);
    if (run != NULL)
        rdzv_touch(r, run); /* what is sought is not founded (takeover.c) */
    if (leads(r, run)) {
        to.term = run->authority.term;
        msg_set(to.instance, run->instance);
        if (run->round.number > 0)
            to.born_us = run->born_us;
    } else if (elsewhere != NULL) {
        to = *elsewhere;
    }
    send_where(r, &to, count_looks(r, s->run), conn);
}

/* A server that has not seen the run names it, too: it may have many. */
static void note_moved(struct rdzv *r,
                       const struct run *run,
                       const char *name,
                       const struct moved_run *to)
{
    char text[sizeof(to->addr) + 40];
    (void)snprintf(text, sizeof(text), "to %s, term %lld", to->addr, /* fits */
                   (long long)to->term.count);
    note_about(r, run,
               &(struct note){
                   .kind = NOTE_moved, .run = name, .node = "", .text = text});
}

/* Its own instance, which no other one gives way to. */
static bool is_of_its_run(const struct rdzv *r,
                          const struct node *n,
                          const struct msg_serves *s)
{
    const char *own = r->runs[n->run].instance;
    return own[0] != '\0' && msg_same_instance(s->instance, own);
}

void moved_heard(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_serves *s = &ev->msg->serves;
    struct node *n = node_at(r, r->conn_node[ev->conn]);
    bool is_new;
    if (s->addr[0] == '\0') {
        answer_look(r, s, ev->conn);
        return;
    }
    if (n != NULL && is_of_its_run(r, n, s)) {
        handback_hear(r, n, s);
        return;
    }
    if (strcmp(s->term.id, r->limits.server) == 0)
        return; /* two addresses lead here */
    struct moved_run *to = remember(r, s, ev->conn, &is_new);
    struct run *run = run_find(r, s->run);
    tell_older(r, run, s, ev->conn);
    if (to == NULL)
        return;
    if (is_new)
        note_moved(r, run, s->run, to);
    if (run != NULL && !is_given_up(r, run, to))
        return;
    handback_offer(r, s, ev->conn);
    if (run == NULL)
        return;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].conn >= 0)
            send_there(r, to, r->nodes[i].conn);
    run_forget(r, run);
}

void moved_closed(struct rdzv *r, int conn)
{
    for (int i = 0; i < MOVED_MAX; i++)
        if (r->moved->runs[i].conn == conn)
            r->moved->runs[i].until_us = 0;
    for (int i = 0; i < LOOKS_MAX; i++)
        if (r->moved->looks[i].conn == conn)
            r->moved->looks[i].until_us = 0;
}

/* It was there, or another server led since: so nobody is sent there
 * until that is said again. A node that holds no round knows nothing of it; one
 * of a younger instance is to give that up, one of an older one is of no use
 * there. */
static bool
has_left(const struct rdzv *r, struct moved_run *to, const struct msg_join *j)
{
    if (j->instance[0] == '\0')
        return false;
    if (!msg_same_instance(j->instance, to->instance))
        return born_us(r, j->instance_ms) <= to->born_us;
    if (term_cmp(&j->term, &to->term) < 0)
        return false;
    to->until_us = 0;
    return true;
}

bool moved_answer(struct rdzv *r, const struct msg_join *j, int conn)
{
    struct moved_run *to = find(r, j->run);
    const struct run *run = run_find(r, j->run);
    if (to == NULL || (run != NULL && has_run(r, run)) || has_left(r, to, j))
        return false;
    send_there(r, to, conn);
    reply_drop(r, conn);
    return true;
}
