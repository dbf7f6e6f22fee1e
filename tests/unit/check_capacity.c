/* links: CORE rendezvous/proto/exits rendezvous/proto/msg */
/* links: rendezvous/base/err */
/* links: rendezvous/base/mono rendezvous/base/rng */
/* links: rendezvous/base/json rendezvous/base/utf8 rendezvous/base/buf */
/* libs: -lcjson */
/*
 * What gives way where an open server's tables are full, to whom, and what
 * never does.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/core/status.h"
#include "tests/lib/suite.h"

#define CONNS 64
#define US    "10.0.0.1"  /* who comes as people should */
#define THEM  "10.0.0.66" /* who does not */

static struct rdzv *rdzv;
static int64_t now_us;
static struct {
    bool lease, world, dropped;
    char refused[256];
} heard[CONNS];
static int gave_way;
static char account[64]; /* of the last note */

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    if (a->kind == RDZV_NOTE) {
        gave_way += a->note->kind == NOTE_gave_way;
        (void)snprintf(account, sizeof(account), "%s", a->note->account);
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

static void new_server(int runs, int nodes, int runs_share, int nodes_share)
{
    struct rdzv_limits limits = {.runs_max = runs,
                                 .nodes_max = nodes,
                                 .conns_max = CONNS,
                                 .runs_share = runs_share,
                                 .nodes_share = nodes_share,
                                 .embedded = embedded};
    rdzv_del(rdzv);
    rdzv = rdzv_new(&limits, 1);
    memset(heard, 0, sizeof(heard));
    gave_way = 0;
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
    rdzv_step(rdzv, ev, &out);
    rdzv_check(rdzv);
}

/* On connection `conn`, from `addr`, into a run that begins with `least` nodes.
 * Returns whether it got in. */
static struct msg_join
    held; /* what the next join adds: a round that it holds */

static bool
join(int conn, const char *addr, const char *run, int least, int most)
{
    struct msg m = {.kind = MSG_KIND_join,
                    .join = {.version = MSG_VERSION,
                             .nodes_min = least,
                             .nodes_max = most,
                             .nproc = 1,
                             .node_rank = -1,
                             .group_rank = -1,
                             .join_ms = 60000,
                             .heartbeat_ms = 60000,
                             .reconnect_ms = 60000}};
    if (held.round > 0) {
        m.join.round = held.round;
        m.join.state = MSG_STATE_RUNNING;
        m.join.group_rank = held.group_rank;
        m.join.group_world = held.group_world;
        msg_set(m.join.instance, held.instance);
        held.round = 0;
    }
    msg_set(m.join.run, run);
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%032d", conn);
    (void)snprintf(m.join.name, sizeof(m.join.name), "n%d", conn);
    memset(&heard[conn], 0, sizeof(heard[conn]));
    now_us += MONO_MS;
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .now_us = now_us,
                              .conn = conn,
                              .msg = &m,
                              .peer_addr = addr,
                              .here_addr = "10.0.0.9"});
    return heard[conn].lease && !heard[conn].dropped;
}

/* `n` runs of `nodes` each, on connections from `conn` on; returns how many got
 * in. */
static int open_runs(int conn, const char *addr, int n, int nodes)
{
    char run[32];
    int in = 0;
    for (int i = 0; i < n; i++) {
        (void)snprintf(run, sizeof(run), "run%d", conn + i);
        in += join(conn + i, addr, run, nodes, nodes);
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

/* Runs that wait for ever, of one address: the youngest of them goes, and its
 * node is told why. */
START_TEST(test_room_runs_without_a_round_give_way)
{
    new_server(8, 100, 8, 100);
    ck_assert_int_eq(open_runs(10, THEM, 10, 2), 8);
    ck_assert(strstr(heard[19].refused,
                     "full (--max_nodes=100, --max_runs=8)") != NULL);
    ck_assert(join(0, US, "ours", 2, 2));
    ck_assert_int_eq(gave_way, 1);
    ck_assert(heard[17].dropped && still_in(10, 7) == 7);
    ck_assert(strstr(heard[17].refused, "gave way to another") != NULL);
    ck_assert(join(1, US, "ours", 2, 2));
    ck_assert(heard[0].world && heard[1].world);
    /* They may not take it back, and others may have about as many as they. */
    ck_assert(!join(30, THEM, "more", 2, 2));
    ck_assert_int_eq(open_runs(40, "10.0.0.2", 8, 2), 3);
    ck_assert_int_eq(still_in(10, 7), 4);
}
END_TEST

/* The older of an address's runs stand before a flood that comes from there. */
START_TEST(test_room_the_flood_behind_an_old_run_goes_first)
{
    new_server(4, 100, 4, 100);
    ck_assert(join(0, THEM, "old", 2, 2));
    ck_assert_int_eq(open_runs(10, THEM, 3, 2), 3);
    ck_assert(join(1, US, "ours", 1, 1));
    ck_assert(heard[12].dropped && !heard[0].dropped);
    ck_assert(join(2, THEM, "old", 2, 2));
    ck_assert(heard[0].world);
}
END_TEST

/* A new server that newcomers filled before the members came back: whatever
 * their addresses have, they go, and no member is refused. */
START_TEST(test_room_newcomers_give_way_to_a_member)
{
    new_server(8, 8, 8, 8);
    ck_assert_int_eq(open_runs(10, THEM, 4, 2), 4);
    ck_assert_int_eq(open_runs(20, US, 4, 2), 4);
    ck_assert(!join(30, US, "more", 2, 2));
    for (int i = 0; i < 2; i++) {
        held = (struct msg_join){.round = 3, .group_rank = i, .group_world = 2};
        msg_set(held.instance, "0123456789abcdef0123456789abcdef");
        ck_assert(join(i, US, "ours", 2, 2));
    }
    ck_assert_int_eq(gave_way, 2);
    ck_assert_int_eq(still_in(10, 4) + still_in(20, 4), 6);
    ck_assert_int_eq(still_in(0, 2), 2);
}
END_TEST

/* Anybody can say that it is a member: later it helps nobody, so that one host
 * cannot clear the tables. */
START_TEST(test_room_members_are_not_believed_for_ever)
{
    new_server(8, 8, 8, 8);
    ck_assert_int_eq(open_runs(20, US, 1, 2), 1);
    ck_assert_int_eq(open_runs(10, THEM, 7, 2), 7);
    now_us += 31 * MONO_S;
    held = (struct msg_join){.round = 3, .group_rank = 0, .group_world = 2};
    msg_set(held.instance, "0123456789abcdef0123456789abcdef");
    ck_assert(!join(0, THEM, "theirs", 2, 2));
    ck_assert_int_eq(gave_way, 0);
    ck_assert_int_eq(still_in(20, 1), 1);
}
END_TEST

/* What runs never goes; that an address has its share only keeps room. */
START_TEST(test_room_runs_that_run_stay_and_a_share_is_kept_free)
{
    new_server(8, 100, 6, 100);
    ck_assert_int_eq(open_runs(10, THEM, 8, 1), 6);
    ck_assert_str_eq(heard[16].refused,
                     "10.0.0.66 has 6 of 8 runs here already; the others are "
                     "for other addresses (ddprdzvd --max_share)");
    ck_assert_int_eq(open_runs(0, US, 3, 1), 2);
    ck_assert_int_eq(still_in(10, 6), 6);
    ck_assert_int_eq(gave_way, 0);
}
END_TEST

/* A run of many is one run; its nodes are counted by themselves. */
START_TEST(test_room_nodes_without_a_round_give_way)
{
    new_server(4, 6, 4, 5);
    for (int i = 0; i < 5; i++)
        ck_assert(join(10 + i, THEM, "theirs", 6, 6));
    ck_assert(!join(15, THEM, "theirs", 6, 6));
    ck_assert(strstr(heard[15].refused, "has 5 of 6 nodes") != NULL);
    ck_assert(join(0, US, "ours", 2, 2));
    ck_assert_int_eq(gave_way, 0);
    ck_assert(join(1, US, "ours", 2, 2));
    ck_assert_int_eq(gave_way, 1);
    ck_assert(heard[14].dropped && heard[14].refused[0] != '\0');
    ck_assert(heard[0].world && heard[1].world);
}
END_TEST

/* Spares are nobody's loss; members are. */
START_TEST(test_room_spares_give_way_and_members_do_not)
{
    new_server(4, 4, 4, 4);
    ck_assert(join(10, THEM, "theirs", 1, 2));
    ck_assert(join(11, THEM, "theirs", 1, 2));
    for (int turn = 0; turn < 3; turn++)
        step(&(struct rdzv_event){.kind = RDZV_TICK,
                                  .now_us = now_us += MONO_S});
    ck_assert(join(12, THEM, "theirs", 1, 2));
    ck_assert(join(13, THEM, "theirs", 1, 2));
    ck_assert(heard[10].world && !heard[13].world);
    ck_assert(join(0, US, "ours", 3, 3));
    ck_assert(heard[13].dropped && !heard[12].dropped);
    ck_assert(join(1, US, "ours", 3, 3));
    ck_assert(heard[12].dropped);
    ck_assert(!join(2, US, "ours", 3, 3));
    ck_assert(!heard[10].dropped && !heard[11].dropped);
}
END_TEST

/* Found by reading: a spare went though there was no slot for the newcomer's
 * run, which was refused after that. */
START_TEST(test_room_nothing_gives_way_for_who_is_refused)
{
    new_server(2, 4, 2, 4);
    ck_assert(join(10, THEM, "one", 1, 1));
    ck_assert(join(11, THEM, "one", 1, 1));
    ck_assert(join(12, THEM, "one", 1, 1));
    ck_assert(join(13, THEM, "two", 1, 1));
    ck_assert(heard[10].world && heard[13].world && !heard[11].world);
    ck_assert(!join(0, US, "ours", 1, 1));
    ck_assert_str_eq(heard[0].refused,
                     "this rendezvous is full (--max_nodes=4, --max_runs=2): "
                     "wait until a run ends, or start ddprdzvd with higher "
                     "limits");
    ck_assert_int_eq(gave_way, 0);
    ck_assert_int_eq(still_in(10, 4), 4);
}
END_TEST

/* A launcher that serves has no options to raise its limits: what helps is
 * told. */
START_TEST(test_room_of_a_launcher_is_told_as_such)
{
    embedded = true;
    new_server(2, 4, 2, 4);
    embedded = false;
    ck_assert(!join(9, THEM, "large", 5, 5));
    ck_assert_str_eq(heard[9].refused,
                     "--nnodes=5:5: this rendezvous takes at most 4 nodes (a "
                     "launcher serves it: start all nodes with the same "
                     "options, or raise the limit of open files, ulimit -n, on "
                     "its node)");
    for (int i = 10; i < 14; i++)
        ck_assert(join(i, THEM, i < 13 ? "one" : "two", 1, 1));
    ck_assert(!join(0, US, "ours", 1, 1));
    ck_assert_str_eq(heard[0].refused,
                     "this rendezvous is full (a launcher serves it; limit of "
                     "nodes: 4, of runs: 2): wait until a run ends, or start "
                     "ddprdzvd with higher limits");
}
END_TEST

/* Nor is an end forgotten: nobody is in that run, so that it would make no room
 * for a node. */
START_TEST(test_room_an_end_is_not_forgotten_for_who_is_refused)
{
    new_server(3, 3, 3, 3);
    ck_assert(join(10, THEM, "over", 1, 1) && heard[10].world);
    struct msg leave = {.kind = MSG_KIND_leave,
                        .leave = {.all = 1, .signal = 2}};
    step(&(struct rdzv_event){
        .kind = RDZV_MSG, .now_us = now_us, .conn = 10, .msg = &leave});
    step(&(struct rdzv_event){
        .kind = RDZV_CLOSED, .now_us = now_us, .conn = 10, .orderly = true});
    ck_assert(join(11, THEM, "one", 2, 2) && join(12, THEM, "one", 2, 2));
    ck_assert(join(13, THEM, "two", 1, 1) && heard[13].world);
    ck_assert(!join(0, US, "ours", 1, 1));
    ck_assert_int_eq(ended_runs(), 1);
}
END_TEST

/* One run that goes is enough, where it makes room for the node as well. */
START_TEST(test_room_one_eviction_makes_both_kinds_of_room)
{
    new_server(3, 3, 3, 3);
    ck_assert_int_eq(open_runs(10, THEM, 3, 2), 3);
    ck_assert(join(0, US, "ours", 1, 1));
    ck_assert(heard[0].world);
    ck_assert_int_eq(gave_way, 1);
    ck_assert_int_eq(still_in(10, 3), 2);
}
END_TEST

/* With a token there is nobody to be kept out: first come, first served. */
START_TEST(test_room_who_is_trusted_gives_no_way)
{
    new_server(4, 100, 0, 0);
    ck_assert_int_eq(open_runs(10, THEM, 5, 2), 4);
    ck_assert(!join(0, US, "ours", 2, 2));
    ck_assert_int_eq(still_in(10, 4), 4);
}
END_TEST

/* A share is given back by what ends and by what goes. */
START_TEST(test_room_what_is_over_is_counted_no_more)
{
    new_server(8, 8, 2, 2);
    for (int turn = 0; turn < 50; turn++) {
        int conn = turn % 8;
        ck_assert_int_eq(open_runs(conn, THEM, 1, 1), 1);
        ck_assert(heard[conn].world);
        struct msg done = {.kind = MSG_KIND_done, .done.round = 1};
        step(&(struct rdzv_event){
            .kind = RDZV_MSG, .now_us = now_us, .conn = conn, .msg = &done});
        step(&(struct rdzv_event){.kind = RDZV_CLOSED,
                                  .now_us = now_us,
                                  .conn = conn,
                                  .orderly = true});
        ck_assert_int_eq(rdzv_nodes(rdzv), 0);
    }
}
END_TEST

/* A note tells on whose account it is, also of what time does. */
START_TEST(test_room_notes_say_whose_doing_it_is)
{
    new_server(8, 8, 8, 8);
    ck_assert(join(0, US, "ours", 2, 2));
    ck_assert_str_eq(account, US);
    ck_assert(join(1, "2001:db8::1", "theirs", 2, 2));
    ck_assert_str_eq(account, "2001:db8::1");
    step(
        &(struct rdzv_event){.kind = RDZV_CLOSED, .now_us = now_us, .conn = 0});
    ck_assert_str_eq(account, US);
    step(&(struct rdzv_event){.kind = RDZV_TICK,
                              .now_us = now_us += 3600 * MONO_S});
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
    ck_assert_str_eq(account, "2001:db8::/64");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("capacity");
    TCase *tc = tcase_create("capacity");
    tcase_set_tags(tc, "fast");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_room_runs_without_a_round_give_way);
    tcase_add_test(tc, test_room_the_flood_behind_an_old_run_goes_first);
    tcase_add_test(tc, test_room_newcomers_give_way_to_a_member);
    tcase_add_test(tc, test_room_members_are_not_believed_for_ever);
    tcase_add_test(tc, test_room_runs_that_run_stay_and_a_share_is_kept_free);
    tcase_add_test(tc, test_room_nodes_without_a_round_give_way);
    tcase_add_test(tc, test_room_spares_give_way_and_members_do_not);
    tcase_add_test(tc, test_room_nothing_gives_way_for_who_is_refused);
    tcase_add_test(tc, test_room_of_a_launcher_is_told_as_such);
    tcase_add_test(tc, test_room_an_end_is_not_forgotten_for_who_is_refused);
    tcase_add_test(tc, test_room_one_eviction_makes_both_kinds_of_room);
    tcase_add_test(tc, test_room_who_is_trusted_gives_no_way);
    tcase_add_test(tc, test_room_what_is_over_is_counted_no_more);
    tcase_add_test(tc, test_room_notes_say_whose_doing_it_is);
    suite_add_tcase(s, tc);
    return suite_run(s);
}
