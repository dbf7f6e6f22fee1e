/* links: CORE rendezvous/proto/{msg,term,exits} */
/* links: rendezvous/base/{err,mono,rng,json,utf8,buf} */
/* libs: -lcjson */
/*
 * One run of 65,536 nodes in the real core of the server: they join, beat, one
 * is lost, one falls silent, all go on; they move to another server; and as
 * many nodes wait as spares, or bear a role of their own. Nothing may cost more
 * than its share of the time: what grows with the square of the nodes shows as
 * a test that does not end. The agents are played in a few lines here, each
 * sees but what it is told.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/rdzv.h"
#include "tests/lib/suite.h"

#define NODES     65536
#define SPARES    16384
#define CONNS     (NODES + SPARES)
#define HEARTBEAT (1000 * MONO_MS)

struct peer {
    int worlds, stops, leases, grants, waits;
    bool dropped, asked, proposed;
    struct msg_world world;     /* the last one */
    struct msg_prepare prepare; /* the last one */
    struct msg_voters *voters;  /* NULL: it has no vote */
};

static struct rdzv *rdzv;
static struct peer *peers;
static int64_t now_us;
static uint8_t seen[NODES];

static void hear_voters(struct peer *p, const struct msg_voters *v)
{
    if (v->ids[0] == '\0')
        return;
    if (p->voters == NULL)
        p->voters = malloc(sizeof(*v));
    ck_assert_ptr_nonnull(p->voters);
    *p->voters = *v;
    p->proposed = v->pending != 0;
}

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    if (a->kind == RDZV_NOTE)
        return;
    struct peer *p = &peers[a->conn];
    ck_assert(!p->dropped);
    p->dropped = a->kind == RDZV_DROP;
    if (a->kind == RDZV_DROP)
        return;
    p->worlds += a->msg->kind == MSG_KIND_world;
    p->stops += a->msg->kind == MSG_KIND_stop;
    p->leases += a->msg->kind == MSG_KIND_lease;
    p->grants += a->msg->kind == MSG_KIND_lease && a->msg->lease.grant_ms > 0;
    p->waits += a->msg->kind == MSG_KIND_waiting;
    if (a->msg->kind == MSG_KIND_world)
        p->world = a->msg->world;
    if (a->msg->kind == MSG_KIND_voters)
        hear_voters(p, &a->msg->voters);
    if (a->msg->kind != MSG_KIND_prepare)
        return;
    p->asked = true;
    p->prepare = a->msg->prepare;
}

static void step(const struct rdzv_event *ev)
{
    struct rdzv_event now = *ev;
    struct rdzv_actions out = {.emit = emit};
    now.now_us = now_us;
    rdzv_step(rdzv, &now, &out);
}

static void say(int conn, const struct msg *m)
{
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .conn = conn,
                              .msg = m,
                              .peer_addr = "10.0.0.1",
                              .here_addr = "10.0.0.9"});
}

static struct msg make_join(int conn, bool own_role)
{
    struct msg m = {.kind = MSG_KIND_join};
    m.join = (struct msg_join){
        .version = MSG_VERSION,
        .nodes_min = NODES - 2,
        .nodes_max = NODES,
        .nproc = 1 + conn % 8,
        .max_restarts = 3,
        .node_rank = -1,
        .group_rank = -1,
        .answered_ms = -1,
        .join_ms = 600000,
        .last_call_ms = 60000,
        .heartbeat_ms = HEARTBEAT / MONO_MS,
        .reconnect_ms = 10000,
    };
    msg_set(m.join.run, "large");
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%016x%016x", conn,
                   conn);
    (void)snprintf(m.join.name, sizeof(m.join.name), "node%d", NODES - conn);
    (void)snprintf(m.join.role, sizeof(m.join.role), "r%d",
                   own_role ? conn : 0);
    return m;
}

static void join(int conn, bool own_role)
{
    struct msg m = make_join(conn, own_role);
    say(conn, &m);
}

/* A run of one node. */
static void join_run(int conn, int run)
{
    struct msg m = make_join(conn, false);
    m.join.nodes_min = m.join.nodes_max = 1;
    (void)snprintf(m.join.run, sizeof(m.join.run), "run%d", run);
    say(conn, &m);
}

static void beat(int conn, int64_t seq, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = seq;
    m.beat.heard = seq - 1;
    m.beat.round = round;
    say(conn, &m);
}

static void ready(int conn, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_ready};
    m.ready.round = round;
    say(conn, &m);
}

/* The launcher there is dead, and its guard says so. */
static void farewell(int conn)
{
    struct msg join_msg = make_join(conn, false);
    struct msg m = {
        .kind = MSG_KIND_vote,
        .vote = {.version = MSG_VERSION, .last = 1, .group_rank = -1}};
    msg_set(m.vote.run, join_msg.join.run);
    msg_set(m.vote.agent, join_msg.join.agent);
    step(&(struct rdzv_event){.kind = RDZV_CLOSED, .conn = conn});
    peers[conn].asked = peers[conn].proposed = false;
    say(conn, &m);
}

static void open_server(const char *id)
{
    struct rdzv_limits limits = {
        .runs_max = 4, .nodes_max = CONNS, .conns_max = CONNS, .trusted = true};
    msg_set(limits.server, id);
    rdzv = rdzv_new(&limits, 1);
}

/* Of the processor, so that who else uses it does not count. What grows with
 * the square of the nodes takes minutes. */
static void limit_cpu(rlim_t seconds)
{
    struct rlimit limit = {seconds, seconds + 1};
    ck_assert_int_eq(setrlimit(RLIMIT_CPU, &limit), 0);
}

static int64_t cpu_now_us(void)
{
    struct timespec t;
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (int64_t)t.tv_sec * MONO_S + t.tv_nsec / 1000;
}

static void setup(void)
{
    limit_cpu((rlim_t)(20 * suite_slow()));
    now_us = 1000 * MONO_S;
    open_server("0123456789abcdef");
    peers = calloc(CONNS, sizeof(peers[0]));
    ck_assert_ptr_nonnull(peers);
}

static void teardown(void)
{
    rdzv_check(rdzv);
    rdzv_del(rdzv);
    for (int i = 0; i < CONNS; i++)
        free(peers[i].voters);
    free(peers);
}

/* Every member of this round was told a place of its own, the places are all
 * that there are, and base ranks count the workers before them. */
static void check_world(int64_t round, int members)
{
    static int nproc_of[NODES];
    int64_t told = 0;
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < NODES; i++) {
        const struct msg_world *w = &peers[i].world;
        if (peers[i].dropped || w->round != round)
            continue;
        told++;
        ck_assert_int_eq(w->group_world, members);
        ck_assert_int_lt(w->group_rank, members);
        ck_assert_int_eq(seen[w->group_rank]++, 0);
        nproc_of[w->group_rank] = 1 + i % 8;
    }
    ck_assert_int_eq(told, members);
    static int64_t base_of[NODES];
    for (int g = 1; g < members; g++)
        base_of[g] = base_of[g - 1] + nproc_of[g - 1];
    for (int i = 0; i < NODES; i++) {
        const struct msg_world *w = &peers[i].world;
        if (!peers[i].dropped && w->round == round)
            ck_assert_int_eq(w->base_rank, base_of[w->group_rank]);
    }
}

/* -- what voters answer ---------------------------------------------------- */

static void promise(int conn)
{
    struct msg m = {.kind = MSG_KIND_promise};
    m.promise.term = peers[conn].prepare.term;
    peers[conn].asked = false;
    say(conn, &m);
    beat(conn, 1, 0);
}

static void accept_round(int conn)
{
    const struct msg_voters *v = peers[conn].voters;
    struct msg m = {.kind = MSG_KIND_accept};
    m.accept.round = v->round;
    m.accept.term = v->term;
    peers[conn].proposed = false;
    say(conn, &m);
}

static void answer_all(void)
{
    for (int i = 0; i < CONNS; i++)
        if (peers[i].asked)
            promise(i);
    for (int i = 0; i < CONNS; i++)
        if (peers[i].proposed)
            accept_round(i);
}

/* -- rounds ---------------------------------------------------------------- */

/* Joins, a loss by a farewell and one by silence: each round has all that are
 * left. */
TEST(test_scale_65536_nodes_lose_two_and_go_on)
{
    for (int i = 0; i < NODES; i++)
        join(i, false);
    answer_all();
    rdzv_check(rdzv);
    check_world(1, NODES);
    farewell(12345);
    peers[12345].dropped = true;
    for (int i = 0; i < NODES; i++) {
        ck_assert_int_eq(peers[i].stops, i == 12345 ? 0 : 1);
        if (i != 12345)
            ready(i, 1);
    }
    answer_all();
    rdzv_check(rdzv);
    check_world(2, NODES - 1);
    for (int seq = 1; seq <= 5; seq++) {
        now_us += HEARTBEAT / 5;
        for (int i = 0; i < NODES; i++)
            if (i != 12345 && i != 777)
                beat(i, seq, 2);
        if (now_us >= rdzv_deadline(rdzv))
            step(&(struct rdzv_event){.kind = RDZV_TICK});
    }
    ck_assert(peers[777].dropped); /* its lease is over */
    for (int i = 0; i < NODES; i++)
        if (!peers[i].dropped)
            ready(i, 2);
    answer_all();
    check_world(3, NODES - 2);
}

/* -- another server -------------------------------------------------------- */

static void vote(int conn)
{
    const struct msg_voters *v = peers[conn].voters;
    const struct msg_world *w = &peers[conn].world;
    struct msg m = {.kind = MSG_KIND_vote};
    msg_set(m.vote.instance, w->instance);
    m.vote.round = v->round;
    m.vote.round_term = v->term;
    m.vote.group_rank = w->group_rank;
    m.vote.group_world = w->group_world;
    msg_set(m.vote.voters, v->ids);
    say(conn, &m);
}

/* It runs its round under a lease. */
static void join_next(int conn)
{
    struct msg m = make_join(conn, false);
    const struct msg_world *w = &peers[conn].world;
    msg_set(m.join.instance, w->instance);
    m.join.round = w->round;
    m.join.state = MSG_STATE_RUNNING;
    m.join.group_rank = w->group_rank;
    m.join.lease_ms = 500;
    m.join.via = 1;
    m.join.term = peers[conn].prepare.term;
    say(conn, &m);
    if (peers[conn].voters != NULL)
        vote(conn);
}

/* Their server is killed: the next one is elected, and all have a lease of
 * it, in the round in which they are. */
TEST(test_scale_65536_nodes_move_to_another_server)
{
    rdzv_del(rdzv);
    open_server("aaaaaaaaaaaaaaaa");
    for (int i = 0; i < NODES; i++)
        join(i, false);
    answer_all();
    check_world(1, NODES);
    rdzv_del(rdzv);
    open_server("bbbbbbbbbbbbbbbb");
    now_us += 100 * MONO_MS;
    for (int i = 0; i < NODES; i++) {
        peers[i].grants = peers[i].worlds = 0;
        join_next(i);
    }
    answer_all();
    rdzv_check(rdzv);
    for (int i = 0; i < NODES; i++) {
        ck_assert_int_eq(peers[i].prepare.term.count, 2);
        ck_assert_int_ge(peers[i].grants, 1);
        ck_assert_int_eq(peers[i].worlds + peers[i].stops, 0);
    }
}

/* Spares are told so, and one of them takes a lost node's place. */
TEST(test_scale_16384_spares_cost_no_more_than_themselves)
{
    for (int i = 0; i < NODES; i++)
        join(i, false);
    answer_all();
    for (int i = NODES; i < CONNS; i++)
        join(i, false);
    check_world(1, NODES);
    for (int i = NODES; i < CONNS; i++)
        ck_assert_int_eq(peers[i].waits, 1);
    farewell(5);
    for (int i = 0; i < NODES; i++)
        if (i != 5)
            ready(i, 1);
    answer_all();
    rdzv_check(rdzv);
    ck_assert_int_eq(peers[NODES].worlds, 1);
    ck_assert_int_eq(peers[NODES].world.group_rank, peers[5].world.group_rank);
    ck_assert_int_eq(peers[0].worlds, 2);
}

/* As many roles as nodes: each is alone in its own. */
TEST(test_scale_65536_roles_are_numbered)
{
    for (int i = 0; i < NODES; i++)
        join(i, true);
    answer_all();
    check_world(1, NODES);
    for (int i = 0; i < NODES; i++) {
        ck_assert_int_eq(peers[i].world.role_rank, 0);
        ck_assert_int_eq(peers[i].world.role_world, 1 + i % 8);
    }
}

/* -- many runs ------------------------------------------------------------- */

#define RUNS   4096
#define EVENTS 20000

/* The best of five, since others use this machine: µs for a number of beats of
 * one node, each with what the shell asks then. */
static int64_t cost_beside(int runs)
{
    int64_t best_us = MONO_NEVER;
    static int64_t seq;
    struct rdzv_limits limits = {.runs_max = runs,
                                 .nodes_max = CONNS,
                                 .conns_max = CONNS,
                                 .trusted = true};
    msg_set(limits.server, "0123456789abcdef");
    rdzv_del(rdzv);
    rdzv = rdzv_new(&limits, 1);
    memset(peers, 0, CONNS * sizeof(peers[0]));
    for (int i = 0; i < runs; i++)
        join_run(i, i);
    for (int turn = 0; turn < 5; turn++) {
        int64_t began_us = cpu_now_us();
        for (int i = 0; i < EVENTS; i++) {
            beat(0, ++seq, 1);
            ck_assert(rdzv_deadline(rdzv) > now_us);
        }
        best_us = mono_min(best_us, cpu_now_us() - began_us);
    }
    return best_us;
}

/* What one run does must not cost more because others are there. */
TEST(test_scale_event_costs_the_same_beside_4096_runs)
{
    int64_t few_us = cost_beside(2);
    int64_t many_us = cost_beside(RUNS);
    ck_assert_msg(many_us < 3 * few_us,
                  "%d events: %lld us, and %lld us beside "
                  "%d runs",
                  EVENTS, (long long)few_us, (long long)many_us, RUNS);
}

/* The limit is limit_cpu(). */
SUITE("scale", "large", .tags = "sim", .limit_s = 400, FIXTURE(setup, teardown))
