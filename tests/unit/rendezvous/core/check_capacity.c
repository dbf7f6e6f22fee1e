/* links: tests/lib/obey CORE rendezvous/proto/{exits,msg,term} */
/* links: rendezvous/base/{err,mono,rng,json,utf8,buf} */
/* libs: -lcjson */
/*
 * What gives way where a server's tables are full, and what never does.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/core/status.h"
#include "tests/lib/obey.h"
#include "tests/lib/suite.h"

#define CONNS 64

static struct rdzv *rdzv;
static int64_t now_us;
static struct {
    bool lease, world, dropped;
    char refused[256];
} heard[CONNS];

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    if (a->kind == RDZV_NOTE) {
        return;
    } else if (a->kind == RDZV_DROP) {
        heard[a->conn].dropped = true;
    } else if (a->msg->kind == MSG_KIND_refused) {
        msg_set(heard[a->conn].refused, a->msg->refused.text);
    } else {
        heard[a->conn].lease |= a->msg->kind == MSG_KIND_lease;
        heard[a->conn].world |= a->msg->kind == MSG_KIND_world;
    }
}

static bool embedded; /* of the next server */

static void new_server(int runs, int nodes)
{
    struct rdzv_limits limits = {.runs_max = runs,
                                 .nodes_max = nodes,
                                 .conns_max = CONNS,
                                 .embedded = embedded};
    rdzv_del(rdzv);
    msg_set(limits.server, "00000000000000aa");
    rdzv = rdzv_new(&limits, 1);
    memset(heard, 0, sizeof(heard));
}

static void setup(void)
{
    rdzv = NULL;
    now_us = 1000 * MONO_S;
}

static void teardown(void)
{
    rdzv_del(rdzv);
}

static void step(const struct rdzv_event *ev)
{
    struct rdzv_actions out = {.emit = emit};
    obey_step(rdzv, ev, &out);
    rdzv_check(rdzv);
}

/* On connection `conn`, into a run that begins with `least` nodes. Returns
 * whether it got in. */
static bool join(int conn, const char *run, int least, int most)
{
    struct msg m = {.kind = MSG_KIND_join,
                    .join = {.version = MSG_VERSION,
                             .nodes_min = least,
                             .nodes_max = most,
                             .nproc = 1,
                             .node_rank = -1,
                             .group_rank = -1,
                             .answered_ms = -1,
                             .join_ms = 60000,
                             .heartbeat_ms = 60000,
                             .reconnect_ms = 60000}};
    msg_set(m.join.run, run);
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%016d%016d", conn,
                   conn);
    (void)snprintf(m.join.name, sizeof(m.join.name), "n%d", conn);
    memset(&heard[conn], 0, sizeof(heard[conn]));
    now_us += MONO_MS;
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .now_us = now_us,
                              .conn = conn,
                              .msg = &m,
                              .peer_addr = "10.0.0.1",
                              .here_addr = "10.0.0.9"});
    return heard[conn].lease && !heard[conn].dropped;
}

/* The launcher there is dead, and its guard says so. */
static void farewell(int conn, const char *run)
{
    struct msg m = {
        .kind = MSG_KIND_vote,
        .vote = {.version = MSG_VERSION, .last = 1, .group_rank = -1}};
    msg_set(m.vote.run, run);
    (void)snprintf(m.vote.agent, sizeof(m.vote.agent), "%016d%016d", conn,
                   conn);
    step(&(struct rdzv_event){
        .kind = RDZV_CLOSED, .now_us = now_us, .conn = conn});
    step(&(struct rdzv_event){
        .kind = RDZV_MSG, .now_us = now_us, .conn = conn, .msg = &m});
}

/* `n` runs of `nodes` each, on connections from `conn` on; returns how many got
 * in. */
static int open_runs(int conn, int n, int nodes)
{
    char run[32];
    int in = 0;
    for (int i = 0; i < n; i++) {
        (void)snprintf(run, sizeof(run), "run%d", conn + i);
        in += join(conn + i, run, nodes, nodes);
    }
    return in;
}

static int ended_runs(void)
{
    struct status_total total;
    status_total(rdzv, &total);
    return (int)total.runs[STATUS_ENDED];
}

static int still_in(int conn, int n)
{
    int in = 0;
    for (int i = conn; i < conn + n; i++)
        in += heard[i].lease && !heard[i].dropped;
    return in;
}

/* First come, first served: what runs stays, and so does what waits. */
TEST(test_room_what_is_here_stays)
{
    new_server(8, 100);
    ck_assert_int_eq(open_runs(10, 4, 1), 4);
    ck_assert_int_eq(open_runs(20, 5, 2), 4);
    ck_assert(!join(0, "ours", 2, 2));
    ck_assert(strstr(heard[0].refused,
                     "full (--max_nodes=100, --max_runs=8)") != NULL);
    ck_assert_int_eq(still_in(10, 4) + still_in(20, 4), 8);
    /* Room in a run that is here is room. */
    ck_assert(join(1, "run20", 2, 2) && heard[1].world && heard[20].world);
}

/* A run whose connections all broke gives way after a while, not at once. */
TEST(test_room_a_deserted_run_gives_way)
{
    new_server(2, 2);
    ck_assert_int_eq(open_runs(10, 2, 1), 2);
    step(&(struct rdzv_event){
        .kind = RDZV_CLOSED, .now_us = now_us, .conn = 10});
    ck_assert(!join(0, "ours", 1, 1));
    now_us += 6 * MONO_S;
    ck_assert(join(0, "ours", 1, 1) && heard[0].world);
    ck_assert_int_eq(still_in(11, 1), 1);
}

/* Found by reading: a spare went though there was no slot for the newcomer's
 * run, which was refused after that. */
TEST(test_room_nothing_gives_way_for_who_is_refused)
{
    new_server(2, 4);
    ck_assert(join(10, "one", 2, 2));
    ck_assert(join(11, "one", 2, 2));
    ck_assert(join(12, "one", 2, 2));
    ck_assert(join(13, "two", 1, 1));
    ck_assert(heard[10].world && heard[13].world && !heard[12].world);
    ck_assert(!join(0, "ours", 1, 1));
    ck_assert_str_eq(heard[0].refused,
                     "this rendezvous is full (--max_nodes=4, --max_runs=2): "
                     "wait until a run ends, or start ddprdzvd with higher "
                     "limits");
    ck_assert_int_eq(still_in(10, 4), 4);
}

/* A launcher that serves has no options to raise its limits: what helps is
 * told. */
TEST(test_room_of_a_launcher_is_told_as_such)
{
    embedded = true;
    new_server(2, 4);
    embedded = false;
    ck_assert(!join(9, "large", 5, 5));
    ck_assert_str_eq(heard[9].refused,
                     "--nnodes=5:5: this rendezvous takes at most 4 nodes (a "
                     "launcher serves it: start all nodes with the same "
                     "options, or raise the limit of open files, ulimit -n, on "
                     "its node)");
    for (int i = 10; i < 14; i++)
        ck_assert(i < 13 ? join(i, "one", 2, 2) : join(i, "two", 1, 1));
    ck_assert(!join(0, "ours", 1, 1));
    ck_assert_str_eq(heard[0].refused,
                     "this rendezvous is full (a launcher serves it; limit of "
                     "nodes: 4, of runs: 2): wait until a run ends, or start "
                     "ddprdzvd with higher limits");
}

/* Nor is an end forgotten: nobody is in that run, so that it would make no room
 * for a node. */
TEST(test_room_an_end_is_not_forgotten_for_who_is_refused)
{
    new_server(3, 3);
    ck_assert(join(10, "over", 1, 1) && heard[10].world);
    struct msg leave = {.kind = MSG_KIND_leave,
                        .leave = {.what = MSG_LEAVE_ALL, .signal = 2}};
    step(&(struct rdzv_event){
        .kind = RDZV_MSG, .now_us = now_us, .conn = 10, .msg = &leave});
    farewell(10, "over");
    ck_assert(join(11, "one", 2, 2) && join(12, "one", 2, 2));
    ck_assert(join(13, "two", 1, 1) && heard[13].world);
    ck_assert(!join(0, "ours", 1, 1));
    ck_assert_int_eq(ended_runs(), 1);
}

/* A share is given back by what ends and by what goes. */
TEST(test_room_what_is_over_is_counted_no_more)
{
    new_server(8, 8);
    for (int turn = 0; turn < 50; turn++) {
        int conn = turn % 8;
        ck_assert_int_eq(open_runs(conn, 1, 1), 1);
        ck_assert(heard[conn].world);
        struct msg done = {.kind = MSG_KIND_ready,
                           .ready = {.round = 1, .done = 1}};
        step(&(struct rdzv_event){
            .kind = RDZV_MSG, .now_us = now_us, .conn = conn, .msg = &done});
        char run[32];
        (void)snprintf(run, sizeof(run), "run%d", conn);
        farewell(conn, run);
        ck_assert_int_eq(rdzv_nodes(rdzv), 0);
    }
}

SUITE("capacity", "capacity", .tags = "fast", FIXTURE(setup, teardown))
