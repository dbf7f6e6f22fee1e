/* links: tests/lib/obey CORE rendezvous/proto/{msg,exits,term} */
/* links: rendezvous/base/{err,mono,rng,json,utf8,buf} */
/* libs: -lcjson -lm */
/*
 * What the end of a run tells of a round's workers and of a node that was lost,
 * as the nodes said it, hostile ones included.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/proto/exits.h"
#include "tests/lib/obey.h"
#include "tests/lib/suite.h"

#define NODES 3

static struct rdzv *rdzv;
static int64_t now_us;
static struct msg_end end; /* the last one, of any node */
static int64_t round_no;
static int64_t base[NODES]; /* by connection, of the last world */

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    if (a->kind != RDZV_SEND)
        return;
    if (a->msg->kind == MSG_KIND_end)
        end = a->msg->end;
    if (a->msg->kind == MSG_KIND_world) {
        round_no = a->msg->world.round;
        base[a->conn] = a->msg->world.base_rank;
    }
}

static void step(struct rdzv_event ev)
{
    struct rdzv_actions out = {.emit = emit};
    ev.now_us = now_us;
    obey_step(rdzv, &ev, &out);
    rdzv_check(rdzv);
}

static void say(int conn, const struct msg *m)
{
    step((struct rdzv_event){.kind = RDZV_MSG,
                             .conn = conn,
                             .msg = m,
                             .peer_addr = "10.0.0.1",
                             .here_addr = "10.0.0.9"});
}

/* So many nodes of two workers each; the round runs. */
static void run(int nodes)
{
    for (int i = 0; i < nodes; i++) {
        struct msg m = {.kind = MSG_KIND_join,
                        .join = {.version = MSG_VERSION,
                                 .nodes_min = nodes,
                                 .nodes_max = nodes,
                                 .nproc = 2,
                                 .node_rank = i,
                                 .group_rank = -1,
                                 .answered_ms = -1,
                                 .join_ms = 3000,
                                 .heartbeat_ms = 1000,
                                 .reconnect_ms = 1000}};
        (void)snprintf(m.join.agent, sizeof(m.join.agent), "%016d%016d", i, i);
        (void)snprintf(m.join.name, sizeof(m.join.name), "n%d", i);
        msg_set(m.join.run, "r");
        say(i, &m);
    }
    ck_assert_int_eq(round_no, 1);
}

static void failed(int conn, int local_rank, int code)
{
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 1,
                               .rank = base[conn] + local_rank,
                               .local_rank = local_rank,
                               .pid = 7,
                               .code = code}};
    msg_set(m.failed.trace, "Traceback: here");
    say(conn, &m);
}

static void ready(int conn, int64_t term, int64_t code, const char *ends)
{
    struct msg m = {.kind = MSG_KIND_ready,
                    .ready = {.round = 1, .base_rank = base[conn]}};
    exits_print_counts(&(struct exits_counts){.by_term = term, .by_code = code},
                       m.ready.counts);
    msg_set(m.ready.ends, ends);
    say(conn, &m);
}

static void setup(void)
{
    struct rdzv_limits limits = {
        .runs_max = 2, .nodes_max = 8, .conns_max = 8, .trusted = true};
    msg_set(limits.server, "00000000000000aa");
    rdzv = rdzv_new(&limits, 1);
    now_us = 1000 * MONO_S;
    end = (struct msg_end){.status = -1};
}

static void teardown(void)
{
    rdzv_del(rdzv);
}

/* By rank, whoever was ready first; those that were told to stop apart; the
 * first failure is listed and not counted. */
TEST(test_round_end_lists_all_nodes)
{
    run(3);
    failed(1, 0, 3);
    ready(2, 1, 1, "0=77 1=-15 ");
    ready(1, 1, 1, "0=3 1=-15 ");
    ready(0, 2, 0, "0-1=-15 ");
    ck_assert_int_eq(end.status, 3);
    ck_assert_int_eq(end.rank, 2);
    ck_assert_str_eq(end.ends, "@2 n1 0=3 @4 n2 0=77 ");
    ck_assert_str_eq(end.stopped, "@0 n0 0-1=-15 @2 n1 1=-15 @4 n2 1=-15 ");
    ck_assert_str_eq(end.counts, "4 0 0 1");
    ck_assert_str_eq(end.trace, "Traceback: here");
    ck_assert_str_eq(end.lost, "");
}

/* A single node's as well. */
TEST(test_round_end_lists_a_single_node)
{
    run(1);
    failed(0, 1, 3);
    ready(0, 1, 1, "0=-15 1=3 ");
    ck_assert_str_eq(end.ends, "@0 n0 1=3 ");
    ck_assert_str_eq(end.stopped, "@0 n0 0=-15 ");
    ck_assert_str_eq(end.counts, "1 0 0 0");
}

/* A worker that could not be started is no end that was counted. */
TEST(test_round_end_of_a_start_that_failed)
{
    struct msg m = {
        .kind = MSG_KIND_failed,
        .failed = {.round = 1, .rank = 1, .local_rank = 1, .code = 71}};
    run(2);
    say(0, &m);
    ready(0, 0, 1, "0=9 ");
    ready(1, 2, 0, "0-1=-15 ");
    ck_assert_int_eq(end.status, 71);
    ck_assert_str_eq(end.counts, "2 0 0 1");
    ck_assert_str_eq(end.ends, "@0 n0 0=9 ");
}

/* Nothing is passed on as it came. */
TEST_LOOP(test_round_end_passes_no_nonsense_on, 0, 5)
{
    static const char *const said[] = {
        "\033[2J", "@9 root 0=1 ", "0=1 \n@9 x 0=1 ", "0=9999 ", "",
    };
    static const char *const kept[] = {"", "", "@2 n1 0=1 ", "", ""};
    run(2);
    failed(0, 0, 3);
    ready(1, 0, 1, said[_i]);
    ready(0, 1, 1, "");
    ck_assert_int_eq(end.status, 3);
    ck_assert_str_eq(end.ends, kept[_i]);
}

/* The root's node dies without a word, its peers end by 77: that is charged to
 * nobody, and where no other node comes the end names the loss. */
TEST_LOOP(test_round_end_names_the_lost_node, 0, 2)
{
    run(2);
    failed(0, 1, 77);
    ready(0, 1, 1, "0=-15 1=77 ");
    ck_assert_int_eq(end.status, -1);
    if (_i == 0) {
        struct msg m = {
            .kind = MSG_KIND_vote,
            .vote = {.version = MSG_VERSION, .last = 1, .group_rank = -1}};
        msg_set(m.vote.run, "r");
        (void)snprintf(m.vote.agent, sizeof(m.vote.agent), "%016d%016d", 1, 1);
        step((struct rdzv_event){.kind = RDZV_CLOSED, .conn = 1});
        say(1, &m);
    }
    for (int i = 0; i < 60 && end.status < 0; i++) {
        struct msg beat = {.kind = MSG_KIND_beat, .beat.seq = i + 1};
        now_us += 200 * MONO_MS;
        step((struct rdzv_event){.kind = RDZV_TICK});
        if (end.status < 0)
            say(0, &beat);
    }
    ck_assert_int_eq(end.status, 75);
    ck_assert_str_eq(end.node, "");
    ck_assert_str_eq(end.lost, "n1");
    ck_assert_str_eq(end.lost_how, _i == 0 ? "is gone: its launcher ended"
                                           : "is silent: its lease is over");
    ck_assert_int_ge(end.age_us, 3 * MONO_S);
    ck_assert_str_eq(end.ends, "@0 n0 1=77 ");
    ck_assert_str_eq(end.stopped, "@0 n0 0=-15 ");
    ck_assert_str_eq(end.counts, "1 0 0 1");
    ck_assert_ptr_nonnull(strstr(end.text, "node n1 is "));
    ck_assert_ptr_nonnull(strstr(end.text, "; too few nodes joined in "));
}

SUITE("round_ends", "ends", .tags = "fast", FIXTURE(setup, teardown))
