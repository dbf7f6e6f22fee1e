/* links: rendezvous/core/rdzv rendezvous/core/join rendezvous/core/round */
/* links: rendezvous/core/room rendezvous/core/source */
/* links: rendezvous/core/node rendezvous/core/ranks rendezvous/core/note */
/* links: rendezvous/proto/msg rendezvous/base/err rendezvous/base/mono */
/* links: rendezvous/proto/ends */
/* links: rendezvous/base/rng */
/* links: rendezvous/core/budget rendezvous/core/order */
/* links: rendezvous/core/strikes */
/* libs: -lcjson */
/*
 * The server's table of states and events, cell by cell: what each message and
 * each kind of end of a connection does to a node in each state, and what is
 * said to whom. Agents are played by hand here, so that they may also do what
 * ours never would.
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/budget.h"
#include "rendezvous/core/rdzv.h"

#define CONNS     40
#define HEARTBEAT (1000 * MONO_MS)

static struct rdzv *rdzv;
static int64_t now_us;
static char said[8000];         /* since the last look: "0:world 1:world ..." */
static char notes[8000];        /* "joined sealed ..." */
static struct msg last[CONNS];  /* the last one that was sent there */
static struct msg_join like;    /* what joins look like */
static char members_said[4000]; /* "ROUND: ADDRESS ADDRESS ..." */
static int members_pieces;

static void append(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text + len, size - len, fmt, ap);
    va_end(ap);
}

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    switch (a->kind) {
    case RDZV_SEND:
        last[a->conn] = *a->msg;
        if (a->msg->kind == MSG_KIND_members) {
            if (members_pieces++ == 0)
                append(members_said, sizeof(members_said),
                       "%d: ", (int)a->msg->members.round);
            append(members_said, sizeof(members_said), "%s",
                   a->msg->members.addrs);
        }
        append(said, sizeof(said), "%d:%s ", a->conn, msg_name(a->msg->kind));
        return;
    case RDZV_DROP:
        append(said, sizeof(said), "%d:drop ", a->conn);
        return;
    case RDZV_NOTE:
        append(notes, sizeof(notes), "%s ", note_name(a->note->kind));
        return;
    }
}

static void step(const struct rdzv_event *ev)
{
    struct rdzv_event now = *ev;
    struct rdzv_actions out = {.emit = emit};
    now.now_us = now_us;
    said[0] = notes[0] = '\0';
    rdzv_step(rdzv, &now, &out);
    rdzv_check(rdzv);
}

static void say(int conn, const struct msg *m)
{
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .conn = conn,
                              .msg = m,
                              .peer_addr = "10.0.0.1",
                              .here_addr = "10.0.0.9"});
}

static void tick(int64_t lag_us)
{
    step(&(struct rdzv_event){.kind = RDZV_TICK, .lag_us = lag_us});
}

/* Runs the clock on, with ticks where the core wants them. */
static void pass(int64_t us)
{
    int64_t end_us = now_us + us;
    for (int turns = 0; rdzv_deadline(rdzv) <= end_us; turns++) {
        ck_assert_int_lt(turns, 1000);
        if (rdzv_deadline(rdzv) > now_us)
            now_us = rdzv_deadline(rdzv);
        tick(0);
    }
    now_us = end_us;
    said[0] = notes[0] = '\0';
    tick(0);
}

static void closed(int conn, bool orderly)
{
    step(&(struct rdzv_event){
        .kind = RDZV_CLOSED, .conn = conn, .orderly = orderly});
}

/* -- what agents say ------------------------------------------------------- */

/* The agent of node `who`, on connection `conn`; `j` may be changed after. */
static struct msg make_join(int who)
{
    struct msg m = {.kind = MSG_KIND_join, .join = like};
    (void)snprintf(m.join.name, sizeof(m.join.name), "n%d", who);
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%032d", who);
    return m;
}

static void join(int who)
{
    struct msg m = make_join(who);
    say(who, &m);
}

/* The same agent again on another connection, with what it holds. */
static struct msg
make_rejoin(int who, int64_t round, enum msg_state state, bool sure)
{
    struct msg m = make_join(who);
    (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", 77);
    m.join.round = round;
    m.join.state = (int64_t)state;
    m.join.sure = sure;
    m.join.group_rank = state == MSG_STATE_NONE ? -1 : who;
    m.join.group_world = 2;
    return m;
}

static void
rejoin(int conn, int who, int64_t round, enum msg_state state, bool sure)
{
    struct msg m = make_rejoin(who, round, state, sure);
    say(conn, &m);
}

static void beat_of(int conn, int64_t seq, int64_t heard, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = seq;
    m.beat.heard = heard;
    m.beat.round = round;
    say(conn, &m);
}

static void ready(int conn, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_ready, .ready.round = round};
    say(conn, &m);
}

static void done(int conn, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_done, .done.round = round};
    say(conn, &m);
}

static void leave(int conn, bool all)
{
    struct msg m = {.kind = MSG_KIND_leave,
                    .leave = {.all = all, .signal = 15}};
    say(conn, &m);
}

static void bye(int conn)
{
    struct msg m = {.kind = MSG_KIND_bye};
    say(conn, &m);
}

static void failed(int conn, int64_t round, int code, int64_t age_us)
{
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.pid = 7,
                               .round = round,
                               .rank = conn,
                               .code = code,
                               .age_us = age_us}};
    say(conn, &m);
}

/* An operator's orders, on connection ORDERS. */
#define ORDERS (CONNS - 1)

static void order_drain(const char *run, const char *node, bool force)
{
    struct msg m = {.kind = MSG_KIND_order_drain};
    m.order_drain.version = MSG_VERSION;
    m.order_drain.force = force;
    msg_set(m.order_drain.run, run);
    msg_set(m.order_drain.node, node);
    say(ORDERS, &m);
}

static void order_end(const char *run)
{
    struct msg m = {.kind = MSG_KIND_order_end};
    m.order_end.version = MSG_VERSION;
    msg_set(m.order_end.run, run);
    say(ORDERS, &m);
}

static bool told(int conn, const char *what)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%d:%s ", conn, what);
    return strstr(said, text) != NULL;
}

static bool noted(const char *what)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%s ", what);
    return strstr(notes, text) != NULL;
}

/* -- worlds ---------------------------------------------------------------- */

static void new_server(void)
{
    struct rdzv_limits limits = {
        .runs_max = 2, .nodes_max = 8, .conns_max = CONNS};
    rdzv_del(rdzv);
    rdzv = rdzv_new(&limits, 1);
}

static void setup(void)
{
    rdzv = NULL;
    members_said[0] = '\0';
    members_pieces = 0;
    now_us = 1000 * MONO_S;
    new_server();
    like = (struct msg_join){.version = MSG_VERSION,
                             .nodes_min = 2,
                             .nodes_max = 2,
                             .nproc = 1,
                             .max_restarts = 1,
                             .node_rank = -1,
                             .group_rank = -1,
                             .join_ms = 60000,
                             .last_call_ms = 2000,
                             .heartbeat_ms = 1000,
                             .reconnect_ms = 30000};
    msg_set(like.run, "r");
    msg_set(like.prog, "train");
    msg_set(like.backend, "c10d");
}

static void teardown(void)
{
    rdzv_del(rdzv);
}

static void limits_of(int min, int max)
{
    like.nodes_min = min;
    like.nodes_max = max;
}

/* Nodes 0 and 1 run round 1 of min..max. */
static void run_two(int min, int max)
{
    limits_of(min, max);
    like.last_call_ms = 0;
    join(0);
    join(1);
    if (!told(0, "world"))
        tick(0);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(last[0].world.round, 1);
}

/* Both have stopped, and the round after `round` is sealed. */
static void both_ready(int64_t round)
{
    ready(0, round);
    ready(1, round);
}

/* -- joining --------------------------------------------------------------- */

START_TEST(test_rdzv_round_is_sealed_when_the_most_are_there)
{
    join(0);
    ck_assert(told(0, "lease") && told(0, "waiting") && !told(0, "world"));
    join(1);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(last[0].world.group_world, 2);
    ck_assert_int_eq(last[0].world.world_size, 2);
    ck_assert_str_eq(last[0].world.instance, last[1].world.instance);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
}
END_TEST

/* Group rank 0, if it asks, is told where the members are, before its world and
 * nobody else is; who came over loopback is known by the server's address. */
START_TEST(test_rdzv_members_are_told_to_the_first_alone)
{
    struct msg m;
    limits_of(3, 3);
    like.members = 1;
    msg_set(like.addr, "10.0.0.7");
    join(0);
    m = make_join(1);
    msg_set(m.join.addr, "2001:db8::1");
    say(1, &m);
    m = make_join(2);
    msg_set(m.join.addr, "127.0.0.1");
    say(2, &m);
    ck_assert(told(0, "members") && !told(1, "members") && !told(2, "members"));
    ck_assert(strstr(said, "0:members ") < strstr(said, "0:world "));
    ck_assert_str_eq(members_said, "1: 10.0.0.7 2001:db8::1 10.0.0.9 ");
}
END_TEST

/* As many messages as it takes, each address whole. */
START_TEST(test_rdzv_members_come_in_pieces)
{
    static const char addr[] = "2001:db8:1111:2222:3333:4444:5555:";
    rdzv_del(rdzv);
    rdzv = rdzv_new(&(struct rdzv_limits){.runs_max = 1,
                                          .nodes_max = 40,
                                          .conns_max = CONNS},
                    1);
    limits_of(40, 40);
    for (int i = 0; i < 40; i++) {
        struct msg m = make_join(i);
        m.join.members = i == 0;
        (void)snprintf(m.join.addr, sizeof(m.join.addr), "%s%x", addr, i + 16);
        say(i, &m);
    }
    int words = 0;
    for (const char *p = members_said; (p = strstr(p, addr)) != NULL; p++)
        words++;
    ck_assert_int_eq(words, 40);
    ck_assert_int_eq(members_pieces, 2);
}
END_TEST

START_TEST(test_rdzv_no_members_where_nobody_asks)
{
    join(0);
    join(1);
    ck_assert_int_eq(members_pieces, 0);
}
END_TEST

START_TEST(test_rdzv_last_call_ends_the_wait_for_more)
{
    limits_of(1, 4);
    like.last_call_ms = 500;
    join(0);
    ck_assert(noted("last_call"));
    now_us += 499 * MONO_MS;
    tick(0);
    ck_assert(!told(0, "world"));
    now_us += MONO_MS;
    tick(0);
    ck_assert(told(0, "world"));
}
END_TEST

/* Who drops below the least during last call calls it off. */
START_TEST(test_rdzv_last_call_is_called_off)
{
    limits_of(2, 4);
    like.last_call_ms = 500;
    join(0);
    join(1);
    closed(1, true);
    now_us += 600 * MONO_MS;
    tick(0);
    ck_assert(!told(0, "world"));
    join(2);
    ck_assert(noted("last_call") && !told(0, "world"));
}
END_TEST

START_TEST(test_rdzv_too_few_end_by_timeout)
{
    join(0);
    for (int s = 0; s < 60; s++) {
        pass(1000 * MONO_MS - 1);
        now_us++;
        beat_of(0, s + 1, s, 0);
    }
    ck_assert_int_ne(last[0].kind, MSG_KIND_end);
    tick(0);
    ck_assert_int_eq(last[0].kind, MSG_KIND_end);
    ck_assert_int_eq(last[0].end.status, 75);
    ck_assert_ptr_nonnull(strstr(last[0].end.text, "n0"));
}
END_TEST

static void spoil_join(struct msg_join *j, int how)
{
    switch (how) {
    case 0:
        j->version = 2;
        return;
    case 1:
        j->nodes_min = 1;
        return;
    case 2:
        j->nodes_max = 3;
        return;
    case 3:
        j->nodes_max = 9;
        return;
    case 4:
        j->nodes_min = 3;
        return;
    case 5:
        j->max_restarts = 2;
        return;
    case 6:
        msg_set(j->prog, "other");
        return;
    case 7:
        msg_set(j->backend, "static");
        return;
    case 8:
        j->heartbeat_ms = 999;
        return;
    case 9:
        j->reconnect_ms = 1;
        return;
    case 10:
        j->window_ms = 90000;
        return;
    case 11:
        j->crash_loop = 3;
        return;
    case 13:
        j->node_strikes = 2;
        return;
    case 14:
        j->cooldown_ms = 1000;
        return;
    case 12:
        j->window_ms = 90000;
        j->max_restarts = BUDGET_WINDOW_MAX + 1;
        return;
    default:
        return;
    }
}

/* Somebody else's job never becomes our spare. */
START_TEST(test_rdzv_join_that_differs_is_refused_and_told_why)
{
    join(0);
    struct msg m = make_join(1);
    spoil_join(&m.join, _i);
    say(1, &m);
    ck_assert(told(1, "refused") && told(1, "drop") && noted("refused"));
    ck_assert_uint_gt(strlen(last[1].refused.text), 20);
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    join(1);
    ck_assert(told(1, "world"));
}
END_TEST

START_TEST(test_rdzv_join_beyond_capacity_is_refused)
{
    limits_of(8, 8);
    for (int i = 0; i < 8; i++)
        join(i);
    ck_assert(told(7, "world"));
    join(8);
    ck_assert(told(8, "refused") && told(8, "drop"));
    ck_assert_int_eq(last[8].refused.code, DDP_E_NOMEM);
}
END_TEST

START_TEST(test_rdzv_runs_beyond_capacity_are_refused)
{
    for (int i = 0; i < 3; i++) {
        struct msg m = make_join(i);
        (void)snprintf(m.join.run, sizeof(m.join.run), "run%d", i);
        say(i, &m);
    }
    ck_assert(told(2, "refused"));
    closed(0, true); /* a run that nobody is in makes room */
    struct msg m = make_join(3);
    msg_set(m.join.run, "run3");
    say(3, &m);
    ck_assert(told(3, "waiting"));
}
END_TEST

/* -- out of order ---------------------------------------------------------- */

START_TEST(test_rdzv_anything_before_join_closes_the_connection)
{
    struct msg m = {.kind = (enum msg_kind)_i};
    if (m.kind == MSG_KIND_join || msg_sender(m.kind) == MSG_CTL)
        return;
    say(3, &m);
    ck_assert_str_eq(said, "3:drop ");
}
END_TEST

START_TEST(test_rdzv_what_only_a_server_says_closes_the_connection)
{
    struct msg m = {.kind = (enum msg_kind)_i};
    if (msg_sender(m.kind) == MSG_AGENT && m.kind != MSG_KIND_join)
        return;
    run_two(2, 2);
    say(0, &m);
    ck_assert(told(0, "drop"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 2); /* its lease runs */
}
END_TEST

START_TEST(test_rdzv_end_of_an_unknown_connection_is_nothing)
{
    closed(5, true);
    ck_assert_str_eq(said, "");
}
END_TEST

/* -- failures -------------------------------------------------------------- */

START_TEST(test_rdzv_failure_stops_all_and_is_charged_once)
{
    run_two(2, 2);
    failed(0, 1, 3, 0);
    ck_assert(told(0, "stop") && told(1, "stop"));
    failed(1, 1, 4, 0);
    ck_assert(!told(0, "stop"));
    ready(0, 1);
    ck_assert(!told(0, "world"));
    ready(1, 1);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(last[0].world.round, 2);
    ck_assert_int_eq(last[0].world.restarts, 1);
    ck_assert_int_eq(last[1].world.restarts, 1);
}
END_TEST

/* The one that was earlier, not the one whose message was. */
START_TEST(test_rdzv_root_cause_is_the_oldest_failure)
{
    like.max_restarts = 0;
    run_two(2, 2);
    now_us += 10 * MONO_S;
    failed(0, 1, 3, 1000);
    failed(1, 1, 4, 5000);
    both_ready(1);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.status, 4);
    ck_assert_str_eq(last[0].end.node, "n1");
    ck_assert_int_eq(last[0].end.age_us, 5000);
}
END_TEST

START_TEST(test_rdzv_spent_budget_ends_the_run)
{
    run_two(2, 2);
    failed(0, 1, 3, 0);
    both_ready(1);
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 2, .rank = 1, .signal = 11}};
    say(1, &m);
    both_ready(2);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.status, 128 + 11);
    ck_assert_int_eq(last[0].end.restarts, 1);
}
END_TEST

/* Found by fuzzing: an age that grew beyond what messages.def allows made an
 * end that every agent refuses. */
START_TEST(test_rdzv_age_in_the_end_stays_within_its_bounds)
{
    like.max_restarts = 0;
    join(0);
    join(1);
    failed(0, 1, 3, 86400000000000);
    now_us += 10 * MONO_MS;
    ready(0, 1);
    ready(1, 1);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.age_us, 86400000000000);
}
END_TEST

START_TEST(test_rdzv_permanent_failure_is_not_tried_again)
{
    run_two(2, 2);
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 1, .code = 127, .permanent = 1}};
    say(0, &m);
    both_ready(1);
    ck_assert_int_eq(last[0].end.status, 127);
    ck_assert_int_eq(last[0].end.restarts, 0);
}
END_TEST

START_TEST(test_rdzv_failure_of_another_round_is_stale)
{
    run_two(2, 2);
    failed(0, 7, 3, 0);
    ck_assert(noted("stale") && !told(1, "stop"));
}
END_TEST

/* A newcomer's round_over is no fault; what fails then is its consequence,
 * unless its age shows that it came before. */
START_TEST(test_rdzv_failure_after_the_round_was_over_is_not_charged)
{
    run_two(2, 3);
    join(2);
    ck_assert(told(0, "stop"));
    now_us += 100 * MONO_MS;
    failed(0, 1, 3, _i == 0 ? 50 * MONO_MS : 150 * MONO_MS);
    both_ready(1);
    ck_assert_int_eq(last[2].kind, MSG_KIND_world);
    ck_assert_int_eq(last[2].world.restarts, _i);
}
END_TEST

START_TEST(test_rdzv_failure_is_given_back_when_a_node_is_lost)
{
    limits_of(1, 2);
    like.max_restarts = 0;
    join(0);
    join(1);
    failed(0, 1, 3, 0);
    ready(0, 1);
    closed(1, true);
    ck_assert(noted("refund") && told(0, "world"));
    ck_assert_int_eq(last[0].world.restarts, 0);
}
END_TEST

/* -- the budget, the crash loop -------------------------------------------- */

START_TEST(test_rdzv_budgets_that_differ_are_named)
{
    like.window_ms = 3600000;
    join(0);
    struct msg m = make_join(1);
    m.join.window_ms = 500;
    m.join.crash_loop = 2;
    say(1, &m);
    ck_assert_ptr_nonnull(
        strstr(last[1].refused.text,
               "--max_restarts=1/0.5s, --crash_loop=2, run 'r' has 1/3600s;"));
    ck_assert_int_eq(last[1].refused.code, DDP_E_CONFLICT);
}
END_TEST

/* The clock goes on, and nodes 0 to n-1 beat. */
static void later(int64_t us, int n, int64_t round)
{
    static int64_t seq;
    int64_t end_us = now_us + us;
    while (now_us < end_us) {
        now_us = mono_min(end_us, now_us + 400 * MONO_MS);
        seq++;
        for (int i = 0; i < n; i++)
            beat_of(i, seq, seq - 1, round);
    }
}

/* Fails in the round, and both nodes stop. */
static void fail_round(int64_t round, bool progress)
{
    failed(1, round, 9, 0);
    struct msg m = {.kind = MSG_KIND_ready,
                    .ready = {.round = round, .progress = progress}};
    ready(1, round);
    say(0, &m);
}

/* What followed from it, on all nodes: without the one that failed first, and
 * not what a hostile node makes of it. */
START_TEST(test_rdzv_end_sums_up_how_workers_ended)
{
    struct msg m = {.kind = MSG_KIND_ready};
    like.max_restarts = 0;
    run_two(2, 2);
    failed(1, 1, 9, 0);
    m.ready = (struct msg_ready){
        .round = 1, .by_term = 3, .by_code = 1, .by_kill = 409600000};
    say(1, &m);
    m.ready = (struct msg_ready){.round = 1, .by_term = 1, .by_kill = 5};
    say(1, &m); /* said twice: once is enough */
    say(0, &m);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.by_term, 4);
    ck_assert_int_eq(last[0].end.by_code, 0);
    ck_assert_int_eq(last[0].end.by_kill, 409600000);
}
END_TEST

START_TEST(test_rdzv_budget_comes_back_with_its_window)
{
    like.window_ms = 10000;
    run_two(2, 2);
    fail_round(1, false);
    ck_assert_int_eq(last[0].world.restarts, 1);
    ck_assert_int_eq(last[0].world.recent, 1);
    for (int i = 2; i < 6; i++) {
        later(10 * MONO_S, 2, i);
        fail_round(i, false);
        ck_assert(told(0, "world"));
        ck_assert_int_eq(last[0].world.restarts, i);
        ck_assert_int_eq(last[0].world.recent, 1);
    }
    later(10 * MONO_S - 1, 2, 6);
    fail_round(6, false);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.status, 9);
    ck_assert_int_eq(last[0].end.restarts, 5);
    ck_assert_str_eq(last[0].end.text,
                     "rank 1 on n1 failed (exit code 9); 1 of 1 restarts "
                     "were used in the last 10 s");
}
END_TEST

/* The next server knows how many counted when a round began, and takes them
 * for charged then. */
START_TEST(test_rdzv_window_is_told_to_the_next_server)
{
    like.window_ms = 10000;
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING, true);
        m.join.restarts = 7;
        m.join.recent = 1;
        m.join.recent_ms = 4000;
        say(i, &m);
    }
    later(6000 * MONO_MS - (_i == 0 ? 0 : 1), 2, 5);
    fail_round(5, false);
    if (_i == 0) {
        ck_assert(told(0, "world"));
        ck_assert_int_eq(last[0].world.restarts, 8);
    } else {
        ck_assert(told(0, "end"));
        ck_assert_int_eq(last[0].end.restarts, 7);
    }
}
END_TEST

START_TEST(test_rdzv_crash_loop_ends_the_run_early)
{
    like.max_restarts = 100;
    like.crash_loop = 3;
    run_two(2, 2);
    fail_round(1, false);
    fail_round(2, false);
    fail_round(3, true); /* one worker got on: counted anew */
    fail_round(4, false);
    later(60 * MONO_S, 2, 5);
    fail_round(5, false); /* long enough not to be one */
    fail_round(6, false);
    fail_round(7, false);
    ck_assert(told(0, "world"));
    fail_round(8, false);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.status, ddp_code_exit(DDP_E_CRASHLOOP));
    ck_assert_int_eq(last[0].end.crash_loop, 3);
    ck_assert_int_eq(last[0].end.code, 9);
    ck_assert_str_eq(last[0].end.text,
                     "rank 1 on n1 failed (exit code 9); crash loop, 3 rounds "
                     "in a row without progress; 7 of 100 restarts were used");
}
END_TEST

START_TEST(test_rdzv_crash_loop_is_off_by_default)
{
    like.max_restarts = 100;
    run_two(2, 2);
    for (int i = 1; i <= 100; i++) {
        fail_round(i, false);
        ck_assert(told(0, "world"));
    }
    fail_round(101, false);
    ck_assert_int_eq(last[0].end.status, 9);
}
END_TEST

/* With it goes the age of the round: one that has run for an hour when it fails
 * soon after the daemon was started again is none of a crash loop. */
START_TEST(test_rdzv_crash_loop_is_told_to_the_next_server)
{
    like.max_restarts = 100;
    like.crash_loop = 3;
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING, true);
        m.join.restarts = 7;
        m.join.barren = 2;
        m.join.recent_ms = _i == 0 ? 1000 : 3600000;
        say(i, &m);
    }
    fail_round(5, false);
    ck_assert(told(0, _i == 0 ? "end" : "world"));
    if (_i == 0)
        ck_assert_int_eq(last[0].end.crash_loop, 3);
    else
        ck_assert_int_eq(last[0].world.barren, 0);
}
END_TEST

/* Or so many nodes that come one by one would each restart all. */
START_TEST(test_rdzv_scale_interval_is_told_to_the_next_server)
{
    like.scale_ms = 5000;
    limits_of(2, 4);
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING, true);
        m.join.scale_left_ms = i == 0 ? 3000 : 86400000;
        if (i == 1)
            join(3); /* in between, and first of all */
        say(i, &m);
    }
    ck_assert(!told(0, "stop"));
    join(2);
    ck_assert(!told(0, "stop") && last[2].waiting.scales);
    ck_assert_int_eq(last[2].waiting.left_ms, 5000); /* not for a day */
    later(5 * MONO_S, 4, 5);
    tick(0);
    ck_assert(last[0].kind == MSG_KIND_stop);
    ready(0, 5);
    ready(1, 5);
    ck_assert_int_eq(last[3].world.group_world, 4);
    ck_assert_int_eq(last[3].world.scale_left_ms, 5000);
}
END_TEST

/* -- nodes that fail first again and again ---------------------------------
 */

/* A worker on node `who` failed, and the nodes of `members` are ready. */
static void fail_on(int who, int64_t round, const char *members)
{
    failed(who, round, 9, 0);
    for (const char *c = members; *c != '\0'; c++)
        if (*c != '0' + who)
            ready(*c - '0', round);
    ready(who, round);
}

/* Nodes 0 and 1 run, 2 and so on up to `n` wait; K failures in a row. */
static void run_strikes(int strikes, int n)
{
    like.max_restarts = 100;
    like.node_strikes = strikes;
    like.cooldown_ms = 10000;
    run_two(2, 2);
    for (int i = 2; i < n; i++)
        join(i);
}

START_TEST(test_rdzv_node_that_fails_first_k_times_is_set_aside)
{
    run_strikes(3, 3);
    fail_on(1, 1, "01");
    fail_on(0, 2, "01"); /* another one: counted anew */
    fail_on(1, 3, "01");
    fail_on(1, 4, "01");
    ck_assert(!noted("set_aside") && told(1, "world"));
    ck_assert_int_eq(last[1].world.struck, 2);
    ck_assert_int_eq(last[0].world.struck, 0);
    fail_on(1, 5, "01");
    ck_assert(noted("set_aside") && told(0, "world") && told(2, "world"));
    ck_assert(told(1, "waiting") && !told(1, "world"));
    ck_assert_int_eq(last[1].waiting.spare, 1);
    ck_assert_int_eq(last[1].waiting.struck, 3);
    ck_assert_int_eq(last[1].waiting.aside_ms, 10000);
    ck_assert_int_eq(last[2].world.group_rank, 1); /* the place of node 1 */
}
END_TEST

START_TEST(test_rdzv_node_that_the_minimum_needs_is_never_set_aside)
{
    run_strikes(2, 2);
    fail_on(1, 1, "01");
    ck_assert(!noted("kept"));
    fail_on(1, 2, "01");
    ck_assert(noted("kept") && !noted("set_aside") && told(1, "world"));
    join(2); /* a spare: the next failure finds that it is needed no more */
    fail_on(0, 3, "01");
    ck_assert(noted("set_aside") && told(2, "world") && told(1, "waiting"));
}
END_TEST

/* The last resort: with its own rank, since nobody else has had it. */
START_TEST(test_rdzv_node_set_aside_is_taken_where_too_few_are_left)
{
    run_strikes(2, 3);
    fail_on(1, 1, "01");
    fail_on(1, 2, "01");
    ck_assert(told(1, "waiting") && told(2, "world"));
    closed(2, true);
    ready(0, 3);
    ck_assert(noted("recalled") && told(0, "world") && told(1, "world"));
    join(3); /* the cool-down still runs: at the next end it goes again */
    fail_on(0, 4, "01");
    ck_assert(noted("set_aside") && told(3, "world") && told(1, "waiting"));
    ck_assert_int_gt(last[1].waiting.aside_ms, 0);
}
END_TEST

/* It makes no round larger meanwhile, and does so afterwards. */
START_TEST(test_rdzv_node_set_aside_comes_back_after_its_cool_down)
{
    like.max_restarts = 100;
    like.node_strikes = 1;
    like.cooldown_ms = 10000;
    run_two(1, 2);
    fail_on(1, 1, "01");
    ck_assert(told(0, "world") && !told(1, "world"));
    ck_assert_int_eq(last[0].world.group_world, 1);
    later(10 * MONO_S - 1, 2, 2);
    tick(0);
    ck_assert(!told(0, "stop"));
    now_us += 1;
    tick(0);
    ck_assert(noted("recalled") && told(0, "stop"));
    ready(0, 2);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(last[1].world.struck, 0);
}
END_TEST

/* What it was told comes back with its join: a broken connection, or another
 * server, gives it no place. */
START_TEST(test_rdzv_cool_down_survives_connection_and_server)
{
    run_strikes(2, 3);
    fail_on(1, 1, "01");
    fail_on(1, 2, "01");
    closed(1, false); /* removed, as any spare */
    if (_i == 1)
        new_server();
    for (int who = 0; who < 3 && _i == 1; who += 2) {
        struct msg m = make_rejoin(who, 3, MSG_STATE_RUNNING, true);
        m.join.group_rank = who / 2;
        say(who, &m);
    }
    struct msg m = make_rejoin(1, 3, MSG_STATE_NONE, true);
    if (_i == 0) /* the instance that this server made */
        msg_set(m.join.instance, last[2].world.instance);
    m.join.struck = 2;
    m.join.aside_ms = 4000;
    say(1, &m);
    ck_assert(noted("set_aside") && told(1, "waiting"));
    ck_assert_int_eq(last[1].waiting.struck, 2);
    ck_assert_int_eq(last[1].waiting.aside_ms, 4000);
}
END_TEST

START_TEST(test_rdzv_failures_in_a_row_are_told_to_the_next_server)
{
    like.max_restarts = 100;
    like.node_strikes = 3;
    like.cooldown_ms = 10000;
    for (int who = 0; who < 2; who++) {
        struct msg m = make_rejoin(who, 5, MSG_STATE_RUNNING, true);
        m.join.struck = who == 1 ? 2 : 0;
        say(who, &m);
    }
    join(2);
    fail_on(1, 5, "01");
    ck_assert(noted("set_aside") && told(2, "world"));
}
END_TEST

START_TEST(test_rdzv_node_set_aside_can_be_drained)
{
    run_strikes(1, 3);
    fail_on(1, 1, "01");
    order_drain("", "n1", false);
    ck_assert(told(ORDERS, "answered") && told(1, "drain"));
    leave(1, false);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
}
END_TEST

/* -- preemption -------------------------------------------------------------
 */

/* The notice comes to a node's workers too, perhaps earlier: the failure is
 * given back when the node says that it goes, also where it was ready. */
START_TEST(test_rdzv_failure_on_a_node_that_leaves_is_given_back)
{
    limits_of(1, 2);
    like.max_restarts = 0;
    join(0);
    join(1);
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 1, .rank = 1, .signal = 15}};
    say(1, &m);
    if (_i > 0)
        ready(1, 1);
    if (_i == 2)
        closed(1, true); /* killed outright */
    else
        leave(1, false);
    ready(0, 1);
    if (_i == 0)
        ready(1, 1);
    ck_assert(noted("refund") || told(0, "world"));
    ck_assert_int_eq(last[0].kind, MSG_KIND_world);
    ck_assert_int_eq(last[0].world.restarts, 0);
    ck_assert_int_eq(last[0].world.group_world, 1);
}
END_TEST

/* -- growing ----------------------------------------------------------------
 */

/* The first one at once; those of the next interval together. */
START_TEST(test_rdzv_late_joiners_are_taken_together)
{
    like.scale_ms = 5000;
    run_two(2, 6);
    join(2);
    ck_assert(told(0, "stop") && noted("joined"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_UP);
    both_ready(1);
    ck_assert_int_eq(last[2].world.group_world, 3);
    later(2 * MONO_S, 3, 2);
    join(3);
    ck_assert(!told(0, "stop") && told(3, "waiting") && noted("spare"));
    ck_assert(last[3].waiting.spare && last[3].waiting.scales);
    ck_assert_int_eq(last[3].waiting.left_ms, 3000);
    later(2 * MONO_S, 4, 2);
    join(4);
    ck_assert(!told(0, "stop"));
    ck_assert_int_eq(last[4].waiting.left_ms, 1000);
    later(1 * MONO_S - 1, 5, 2);
    tick(0);
    ck_assert(!told(0, "stop"));
    ck_assert_int_eq(rdzv_deadline(rdzv), now_us + 1);
    now_us += 1;
    tick(0);
    ck_assert(told(0, "stop") && told(1, "stop") && told(2, "stop"));
    ready(0, 2);
    ready(1, 2);
    ready(2, 2);
    ck_assert_int_eq(last[4].world.group_world, 5);
    later(5 * MONO_S, 5, 3); /* quiet: the next one is a first one */
    join(5);
    ck_assert(told(0, "stop"));
}
END_TEST

/* One that waits for others to come takes a lost node's place meanwhile. */
START_TEST(test_rdzv_late_joiner_replaces_a_lost_node_at_once)
{
    like.scale_ms = 5000;
    run_two(2, 6);
    join(2);
    both_ready(1);
    join(3);
    ck_assert(!told(0, "stop"));
    closed(1, true);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_AT_ONCE);
    ready(0, 2);
    ready(2, 2);
    ck_assert_int_eq(last[3].world.round, 3);
    ck_assert_int_eq(last[3].world.group_rank, 1);
}
END_TEST

/* Nobody has time any more once something failed or was lost. */
START_TEST(test_rdzv_graceful_stop_is_hurried_by_a_loss)
{
    run_two(2, 3);
    join(2);
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_UP);
    closed(1, true);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_AT_ONCE);
}
END_TEST

START_TEST(test_rdzv_stop_for_a_node_that_leaves_is_graceful)
{
    run_two(1, 2);
    leave(1, false);
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_DOWN);
    ck_assert(!told(1, "stop"));
}
END_TEST

/* -- the table of DESIGN and rdzv.h: state by state ------------------------ */

enum state {
    WAITING,
    SPARE,
    RUNNING,
    DONE,
    STOPPING,
    STALE,
    LEAVING,
    DRAINED
};

/* Brings node 2 into a state; nodes 0 and 1 are there too, 2 are the least and
 * 3 the most. */
static void bring(enum state state)
{
    limits_of(2, 3);
    if (state == WAITING) { /* round 1 is over, node 0 not ready yet */
        bring(STOPPING);
        ready(2, 1);
        return;
    }
    if (state == SPARE || state == DRAINED)
        like.nodes_max = 2;
    join(0);
    join(1);
    join(2);
    if (state == SPARE || state == DRAINED) {
        ck_assert(noted("spare"));
        if (state == DRAINED)
            order_drain("", "n2", false);
        return;
    }
    ck_assert(told(2, "world"));
    if (state == DONE)
        done(2, 1);
    if (state == STOPPING)
        failed(0, 1, 3, 0);
    if (state == LEAVING)
        leave(2, false);
    if (state == STALE) { /* lost, and back with the old round */
        for (int i = 0; i < 2; i++) {
            now_us += 600 * MONO_MS;
            beat_of(0, 1 + i, i, 1);
            beat_of(1, 1 + i, i, 1);
        }
        tick(0);
        ck_assert(noted("lost") && told(2, "drop"));
        both_ready(1);
        ck_assert(told(0, "world"));
        struct msg m = make_rejoin(2, 1, MSG_STATE_STOPPED, false);
        msg_set(m.join.instance, last[0].world.instance);
        say(2, &m);
        ck_assert(noted("stale") && told(2, "stop"));
    }
}

struct cell {
    enum state state;
    const char *event;
    const char *noted;  /* stands among the notes */
    const char *others; /* what node 0 is told, "" for nothing */
    int nodes;          /* that there are afterwards */
};

static const struct cell cells[] = {
    {WAITING, "beat", "", "", 3},
    {WAITING, "failed", "", "", 3},
    {WAITING, "done", "", "", 3},
    {WAITING, "ready", "", "", 3},
    {WAITING, "leave", "left", "", 2},
    {WAITING, "fin", "left", "", 2},
    {WAITING, "broken", "absent", "", 3},
    {WAITING, "silence", "left", "", 2},
    {SPARE, "failed", "", "", 3},
    {SPARE, "done", "", "", 3},
    {SPARE, "ready", "", "", 3},
    {SPARE, "leave", "left", "", 2},
    {SPARE, "fin", "left", "", 2},
    {SPARE, "broken", "left", "", 2},
    {SPARE, "silence", "left", "", 2},
    {RUNNING, "failed", "round_over", "stop", 3},
    {RUNNING, "done", "done", "", 3},
    {RUNNING, "ready", "round_over", "stop", 3},
    {RUNNING, "leave", "round_over", "stop", 3},
    {RUNNING, "fin", "lost", "stop", 2},
    {RUNNING, "broken", "absent", "", 3},
    {RUNNING, "silence", "lost", "stop", 2},
    {DONE, "failed", "", "", 3},
    {DONE, "done", "", "", 3},
    {DONE, "ready", "", "", 3},
    {DONE, "leave", "left", "", 2},
    {DONE, "fin", "left", "", 2},
    {DONE, "broken", "absent", "", 3},
    {DONE, "silence", "left", "", 2},
    {STOPPING, "failed", "", "", 3},
    {STOPPING, "done", "", "", 3},
    {STOPPING, "ready", "", "", 3},
    {STOPPING, "leave", "left", "", 3},
    {STOPPING, "fin", "lost", "", 2},
    {STOPPING, "broken", "absent", "", 3},
    {STOPPING, "silence", "lost", "", 2},
    {STALE, "failed", "stale", "", 3},
    {STALE, "done", "stale", "", 3},
    {STALE, "ready", "joined", "stop", 3},
    {STALE, "leave", "left", "", 2},
    {STALE, "fin", "left", "", 2},
    {STALE, "broken", "left", "", 2},
    {LEAVING, "failed", "", "", 3},
    {LEAVING, "done", "", "", 3},
    {LEAVING, "ready", "left", "", 2},
    {LEAVING, "leave", "", "", 3},
    {LEAVING, "fin", "left", "", 2},
    {LEAVING, "broken", "absent", "", 3},
    {LEAVING, "silence", "left", "", 2},
    {DRAINED, "beat", "", "", 3},
    {DRAINED, "failed", "", "", 3},
    {DRAINED, "done", "", "", 3},
    {DRAINED, "ready", "", "", 3},
    {DRAINED, "leave", "left", "", 2},
    {DRAINED, "fin", "left", "", 2},
    {DRAINED, "broken", "absent", "", 3},
    {DRAINED, "silence", "left", "", 2},
    {WAITING, "drain", "ordered", "", 3},
    {SPARE, "drain", "ordered", "", 3},
    {RUNNING, "drain", "round_over", "stop", 3},
    {DONE, "drain", "ordered", "", 3},
    {STOPPING, "drain", "ordered", "", 3},
    {STALE, "drain", "ordered", "", 3},
    {LEAVING, "drain", "", "", 3},
    {DRAINED, "drain", "", "", 3},
};
#define CELLS (int)(sizeof(cells) / sizeof(cells[0]))

static void happen(const char *event)
{
    if (strcmp(event, "beat") == 0)
        beat_of(2, 1, 0, 1);
    else if (strcmp(event, "failed") == 0)
        failed(2, 1, 3, 0);
    else if (strcmp(event, "done") == 0)
        done(2, 1);
    else if (strcmp(event, "ready") == 0)
        ready(2, 1);
    else if (strcmp(event, "leave") == 0)
        leave(2, false);
    else if (strcmp(event, "drain") == 0)
        order_drain("", "n2", false);
    else if (strcmp(event, "fin") == 0)
        closed(2, true);
    else if (strcmp(event, "broken") == 0)
        closed(2, false);
    else
        ck_abort_msg("no such event");
}

/* Node 2 says nothing more; the others do. */
static void fall_silent(void)
{
    for (int i = 0; i < 2; i++) {
        now_us += HEARTBEAT / 2 + 1;
        beat_of(0, 10 + i, 9 + i, 1);
        beat_of(1, 10 + i, 9 + i, 1);
    }
    tick(0);
}

START_TEST(test_rdzv_each_event_in_each_state)
{
    const struct cell *c = &cells[_i];
    bring(c->state);
    if (strcmp(c->event, "silence") == 0)
        fall_silent();
    else
        happen(c->event);
    ck_assert_msg(c->noted[0] == '\0' ? notes[0] == '\0' : noted(c->noted),
                  "%d %s: notes '%s'", c->state, c->event, notes);
    if (c->others[0] == '\0')
        ck_assert_msg(strstr(said, "0:") == NULL, "%d %s: said '%s'", c->state,
                      c->event, said);
    else
        ck_assert_msg(told(0, c->others), "%d %s: said '%s'", c->state,
                      c->event, said);
    ck_assert_int_eq(rdzv_nodes(rdzv), c->nodes);
}
END_TEST

/* -- orders ---------------------------------------------------------------- */

/* It is told, the others stop at a step, nothing is charged. */
START_TEST(test_rdzv_drained_node_leaves_and_the_others_go_on)
{
    run_two(1, 2);
    order_drain("", "n1", false);
    ck_assert(told(1, "drain") && !told(1, "stop"));
    ck_assert(told(ORDERS, "answered") && told(ORDERS, "drop"));
    ck_assert_str_eq(last[1].drain.text, "drained by ddpctl from 10.0.0.1");
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_DOWN);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "at a step"));
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "1 node is left"));
    leave(1, false); /* as the agent answers */
    failed(1, 1, 3, 0);
    ready(0, 1);
    ready(1, 1);
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    ck_assert_int_eq(last[0].world.round, 2);
    ck_assert_int_eq(last[0].world.restarts, 0);
    ck_assert_int_eq(last[0].world.group_world, 1);
}
END_TEST

/* One that has not heard of it, in whatever state, is told when it is back, and
 * gets into no other round. */
START_TEST(test_rdzv_drain_that_was_lost_is_said_again)
{
    static const enum state states[] = {RUNNING, DONE, STOPPING, SPARE};
    static const enum msg_state holds[] = {MSG_STATE_RUNNING, MSG_STATE_DONE,
                                           MSG_STATE_STOPPED, MSG_STATE_NONE};
    bring(states[_i]);
    order_drain("", "n2", false);
    ck_assert(told(ORDERS, "answered") && told(2, "drain"));
    closed(2, false);
    struct msg m = make_rejoin(2, 1, holds[_i], true);
    msg_set(m.join.instance, last[0].world.instance);
    say(12, &m);
    ck_assert(told(12, "drain"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 3);
    ready(12, 1); /* as one says that was told to stop before that */
    ck_assert(!told(12, "world"));
    both_ready(1);
    ck_assert(!told(12, "world"));
    leave(12, false);
    ready(12, 1);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
    closed(12, true);
}
END_TEST

/* Not below the fewest nodes, nor the one that serves, without force. */
START_TEST(test_rdzv_drain_that_would_stop_the_run_needs_force)
{
    like.hosts = _i == 1;
    if (_i == 0)
        run_two(2, 3);
    else
        run_two(1, 3);
    order_drain("", "n1", false);
    ck_assert(noted("order_refused") && !noted("ordered"));
    ck_assert(told(ORDERS, "refused") && !told(1, "drain") && !told(0, "stop"));
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_USAGE);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "--force"));
    order_drain("", "n1", true);
    ck_assert(told(ORDERS, "answered") && told(1, "drain") && told(0, "stop"));
    ready(0, 1);
    leave(1, false);
    ready(1, 1);
    ck_assert(told(0, _i == 0 ? "waiting" : "world"));
    join(2); /* the other one */
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
}
END_TEST

/* One of the nodes that wait for a first round: the last call is off. */
START_TEST(test_rdzv_drain_while_nodes_gather_calls_the_seal_off)
{
    like.last_call_ms = 1000;
    limits_of(2, 4);
    join(0);
    join(1);
    ck_assert(noted("last_call"));
    order_drain("", "n1", true);
    ck_assert(told(1, "drain"));
    now_us += 2 * MONO_S / 5;
    beat_of(0, 1, 0, 0);
    beat_of(1, 1, 0, 0);
    now_us += 2 * MONO_S / 5;
    beat_of(0, 2, 1, 0);
    beat_of(1, 2, 1, 0);
    now_us += 2 * MONO_S / 5;
    tick(0);
    ck_assert(!told(0, "world"));
    leave(1, false);
    ck_assert(told(1, "drop"));
    join(2);
    ck_assert(noted("last_call"));
}
END_TEST

/* Which node: by name, by the beginning of an agent id, in one run or all. */
START_TEST(test_rdzv_drain_finds_the_one_node_that_is_meant)
{
    run_two(1, 4);
    struct msg m = make_join(7);
    msg_set(m.join.name, "n1"); /* the same host, another launcher */
    msg_set(m.join.agent, "cafe0000000000000000000000000007");
    say(7, &m);
    order_drain("", "n1", false);
    ck_assert(told(ORDERS, "refused") && !told(1, "drain"));
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "2 nodes are meant "
                                                            "by 'n1'"));
    ck_assert_ptr_nonnull(
        strstr(last[ORDERS].refused.text, "cafe0000 of run 'r'"));
    order_drain("", "caf", false); /* too short for an id */
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "no node 'caf'"));
    order_drain("r", "n9", false);
    ck_assert_ptr_nonnull(
        strstr(last[ORDERS].refused.text, "no node 'n9' in run 'r'"));
    order_drain("other", "n1", false);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "no run 'other'"));
    order_drain("", "cafe", false);
    ck_assert(told(ORDERS, "answered") && told(7, "drain"));
    order_drain("r", "cafe", false);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "already"));
    ck_assert(!told(7, "drain"));
}
END_TEST

/* The same name twice in another run: the run tells which. */
START_TEST(test_rdzv_drain_in_one_of_two_runs)
{
    run_two(1, 2);
    struct msg m = make_join(1);
    msg_set(m.join.run, "r2");
    msg_set(m.join.agent, "beef0000000000000000000000000001");
    say(5, &m);
    order_drain("", "n1", false);
    ck_assert(told(ORDERS, "refused"));
    order_drain("r2", "n1", true);
    ck_assert(told(5, "drain") && !told(1, "drain"));
}
END_TEST

START_TEST(test_rdzv_order_ends_a_run_for_all)
{
    run_two(2, 2);
    order_end("r");
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert(told(ORDERS, "answered") && told(ORDERS, "drop"));
    ck_assert_int_eq(last[0].end.status, 84);
    ck_assert_str_eq(last[1].end.text, "ended by ddpctl from 10.0.0.1");
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "its 2 nodes"));
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
    order_end("r");
    ck_assert(told(ORDERS, "refused"));
    ck_assert_ptr_nonnull(
        strstr(last[ORDERS].refused.text, "over already, with status 84"));
    order_drain("", "n1", true);
    ck_assert(told(ORDERS, "refused"));
    order_end("nope");
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "no run 'nope'"));
}
END_TEST

/* Neither another version's, nor on a connection that has joined. */
START_TEST(test_rdzv_order_that_is_out_of_order_is_refused)
{
    struct msg m = {.kind = MSG_KIND_order_end};
    run_two(2, 2);
    m.order_end.version = MSG_VERSION + 1;
    msg_set(m.order_end.run, "r");
    say(ORDERS, &m);
    ck_assert(told(ORDERS, "refused") && !told(0, "end"));
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_CONFLICT);
    m.order_end.version = MSG_VERSION;
    say(0, &m);
    ck_assert(told(0, "drop") && !told(1, "end"));
    m = (struct msg){.kind = MSG_KIND_answered};
    say(ORDERS, &m);
    ck_assert(told(ORDERS, "drop") && !told(ORDERS, "answered"));
}
END_TEST

/* -- done and the end ------------------------------------------------------ */

START_TEST(test_rdzv_run_ends_when_all_are_done)
{
    run_two(2, 2);
    done(0, 1);
    ck_assert(!told(0, "end"));
    done(1, 1);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.status, 0);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
    /* Not final before both know. */
    ck_assert_int_eq(last[0].end.hold, 1);
    bye(0);
    ck_assert_str_eq(said, "");
    bye(1);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.hold, 0);
    bye(0);
    ck_assert(told(0, "drop"));
    closed(1, true);
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
}
END_TEST

/* One that says nothing keeps the others for half a second, one that is gone or
 * away does not; a single node is told once. */
START_TEST(test_rdzv_end_is_final_without_those_that_cannot_know)
{
    run_two(2, 2);
    done(0, 1);
    done(1, 1);
    bye(0);
    if (_i == 0) {
        pass(499 * MONO_MS);
        ck_assert_int_eq(last[0].end.hold, 1);
        now_us += MONO_MS;
        tick(0);
    } else {
        closed(1, _i == 1);
    }
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.hold, 0);
}
END_TEST

START_TEST(test_rdzv_end_of_a_single_node_is_final_at_once)
{
    limits_of(1, 1);
    join(0);
    done(0, 1);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.hold, 0);
    bye(0);
    ck_assert(told(0, "drop"));
}
END_TEST

/* The server that said the end is no more: whoever of that instance is here
 * already, or comes, is told; newcomers to the run's name are not concerned. */
START_TEST(test_rdzv_end_of_a_server_that_is_no_more_holds)
{
    struct msg m = make_rejoin(4, 5, MSG_STATE_DONE, true);
    m.join.ended = 1;
    m.join.end_status = 3;
    if (_i == 0)
        rejoin(0, 0, 5, MSG_STATE_DONE, true);
    else
        run_two(2, 2);
    say(9, &m);
    ck_assert(told(9, "end") && told(9, "drop"));
    ck_assert_int_eq(last[9].end.status, 3);
    ck_assert(_i == 0 ? told(0, "end") : !told(0, "end") && !told(1, "end"));
    if (_i == 0) {
        ck_assert_int_eq(last[0].end.status, 3);
        return;
    }
    m = make_rejoin(3, 5, MSG_STATE_DONE, true);
    say(8, &m);
    ck_assert(told(8, "end") && !told(8, "lease"));
    ck_assert_int_eq(last[8].end.status, 3);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
}
END_TEST

START_TEST(test_rdzv_done_node_that_is_gone_counts)
{
    run_two(2, 2);
    done(0, 1);
    closed(0, true);
    done(1, 1);
    ck_assert(told(1, "end"));
    ck_assert_int_eq(last[1].end.status, 0);
}
END_TEST

START_TEST(test_rdzv_done_node_runs_again_with_the_next_round)
{
    run_two(2, 2);
    done(0, 1);
    failed(1, 1, 3, 0);
    ck_assert(told(0, "stop"));
    both_ready(1);
    ck_assert(told(0, "world"));
    done(1, 2);
    ck_assert(!told(1, "end"));
}
END_TEST

START_TEST(test_rdzv_leave_all_ends_the_run_for_all)
{
    run_two(2, 2);
    leave(0, true);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[1].end.status, 128 + 15);
}
END_TEST

/* Whoever did not hear of the end hears of it when it comes back, though a new
 * run of the same name has begun. */
START_TEST(test_rdzv_straggler_gets_the_result_of_its_own_instance)
{
    run_two(2, 2);
    struct msg m = make_rejoin(1, 1, MSG_STATE_DONE, true);
    msg_set(m.join.instance, last[1].world.instance);
    done(0, 1);
    closed(1, true); /* as by a lost connection's FIN from another time */
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    ready(0, 1);
    leave(0, true);
    ck_assert(told(0, "end"));
    join(5);
    ck_assert(told(5, "waiting"));
    say(8, &m);
    ck_assert(told(8, "end") && told(8, "drop"));
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
    pass(601 * MONO_S);
    say(9, &m); /* after ten minutes it is forgotten */
    ck_assert(!told(9, "end"));
}
END_TEST

/* -- connections that break ------------------------------------------------ */

START_TEST(test_rdzv_absent_node_is_waited_for_until_its_lease_is_over)
{
    run_two(1, 3);
    now_us += HEARTBEAT / 2;
    beat_of(0, 5, 4, 1);
    closed(1, false);
    failed(0, 1, 3, 0);
    ready(0, 1);
    ck_assert(!told(0, "world"));
    now_us += HEARTBEAT / 2 - MONO_MS;
    beat_of(0, 6, 5, 1);
    tick(0);
    ck_assert(!told(0, "world"));
    now_us += 2 * MONO_MS;
    tick(0);
    ck_assert(told(0, "world") && noted("lost"));
    ck_assert_int_eq(last[0].world.group_world, 1);
}
END_TEST

START_TEST(test_rdzv_world_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    struct msg world = last[1];
    closed(1, false);
    struct msg m = make_join(1);
    say(11, &m);
    ck_assert_str_eq(said, "11:lease 11:world ");
    ck_assert_mem_eq(&last[11].world, &world.world, sizeof(world.world));
    /* Who has it is not told again. */
    m = make_rejoin(1, 1, MSG_STATE_RUNNING, true);
    msg_set(m.join.instance, world.world.instance);
    say(12, &m);
    ck_assert_str_eq(said, "11:drop 12:lease ");
}
END_TEST

START_TEST(test_rdzv_stop_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    closed(1, false);
    failed(0, 1, 3, 0);
    rejoin(11, 1, 1, MSG_STATE_RUNNING, true);
    ck_assert(told(11, "stop"));
    ck_assert_int_eq(last[11].stop.round, 1);
    ready(0, 1);
    ready(11, 1);
    ck_assert(told(11, "world"));
}
END_TEST

START_TEST(test_rdzv_end_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    closed(1, false);
    leave(0, true);
    ck_assert(!told(1, "end"));
    rejoin(11, 1, 1, MSG_STATE_RUNNING, true);
    ck_assert(told(11, "end"));
}
END_TEST

/* -- leases ---------------------------------------------------------------- */

/* Two of two, and both have said that they hold the round. */
START_TEST(test_rdzv_long_lease_where_nobody_could_go_on)
{
    run_two(2, 2);
    ck_assert_int_eq(last[0].kind, MSG_KIND_world);
    beat_of(0, 1, 0, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 800);
    beat_of(1, 1, 0, 1);
    ck_assert_int_eq(last[1].lease.grant_ms, 24000);
    beat_of(0, 2, 1, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 24000);
    now_us += 29 * MONO_S;
    tick(0);
    ck_assert_str_eq(notes, "");
    now_us += 2 * MONO_S;
    tick(0);
    ck_assert(noted("lost"));
}
END_TEST

/* A spare makes leases short; the long one is honoured until the agent says
 * that it got a short one. */
START_TEST(test_rdzv_long_lease_is_honoured_until_a_short_one_is_heard)
{
    run_two(2, 2);
    beat_of(0, 1, 0, 1);
    beat_of(1, 1, 0, 1);
    beat_of(0, 2, 1, 1);
    join(2);
    ck_assert(noted("spare"));
    beat_of(0, 3, 2, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 800);
    beat_of(1, 2, 1, 1);
    now_us += HEARTBEAT / 2;
    beat_of(1, 3, 2, 1);
    now_us += HEARTBEAT;
    tick(0);
    /* 1 has heard a short one and is lost; 0 has not, and may run. */
    ck_assert(noted("lost") && told(1, "drop") && !told(0, "drop"));
}
END_TEST

START_TEST(test_rdzv_own_lag_is_nobodys_fault)
{
    run_two(1, 3);
    now_us += 10 * HEARTBEAT;
    tick(10 * HEARTBEAT);
    ck_assert_str_eq(notes, "");
    now_us += HEARTBEAT + MONO_MS;
    tick(0);
    ck_assert(noted("lost"));
}
END_TEST

/* -- rebuilding ------------------------------------------------------------ */

START_TEST(test_rdzv_round_is_rebuilt_and_nobody_is_stopped)
{
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    ck_assert(noted("rebuilt") && noted("back"));
    ck_assert_str_eq(said, "0:lease ");
    rejoin(1, 1, 5, MSG_STATE_DONE, true);
    ck_assert_str_eq(said, "1:lease ");
    done(0, 5);
    ck_assert(told(0, "end") && told(1, "end"));
}
END_TEST

/* The lost place is waited for: 30 s of reconnect_timeout and 5 s. */
START_TEST(test_rdzv_hole_is_waited_for_before_the_next_round)
{
    limits_of(2, 3);
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    join(2); /* does not make it forget */
    ck_assert(noted("spare"));
    for (int i = 0; i < 69; i++) {
        now_us += HEARTBEAT / 2;
        beat_of(0, i + 1, i, 5);
        beat_of(2, i + 1, i, 0);
        tick(0);
        ck_assert_str_eq(notes, "");
    }
    now_us += HEARTBEAT / 2;
    tick(0);
    ck_assert(noted("lost") && told(0, "stop"));
    ready(0, 5);
    ck_assert(told(0, "world") && told(2, "world"));
    ck_assert_int_eq(last[0].world.round, 6);
}
END_TEST

/* A place that was claimed, lost and claimed again is one hole, not two. */
START_TEST(test_rdzv_hole_is_filled_only_once)
{
    limits_of(1, 3);
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    now_us += HEARTBEAT + MONO_MS;
    tick(0);
    ck_assert(noted("lost"));
    rejoin(2, 0, 5, MSG_STATE_READY, false);
    ck_assert(noted("stale"));
    ready(2, 5);
    ck_assert(!told(2, "world"));
    now_us += 100 * MONO_MS;
    rejoin(3, 1, 5, MSG_STATE_RUNNING, true);
    ck_assert(told(3, "stop"));
    ready(3, 5);
    ck_assert(told(2, "world") && told(3, "world"));
}
END_TEST

/* Members that were ready may have missed one round: its number is left out,
 * and its members' short leases are waited for. */
START_TEST(test_rdzv_round_that_all_may_have_missed_is_reckoned_with)
{
    rejoin(0, 0, 5, MSG_STATE_READY, true);
    rejoin(1, 1, 5, MSG_STATE_READY, true);
    both_ready(5);
    ck_assert(!told(0, "world"));
    for (int i = 0; i < 11; i++) {
        now_us += HEARTBEAT / 2;
        beat_of(0, i + 1, i, 5);
        beat_of(1, i + 1, i, 5);
        tick(0);
        ck_assert(!told(0, "world"));
    }
    now_us += HEARTBEAT / 2;
    tick(0);
    ck_assert(told(0, "world"));
    ck_assert_int_eq(last[0].world.round, 7);
    ck_assert_str_eq(last[0].world.instance,
                     make_rejoin(0, 5, 1, 1).join.instance);
}
END_TEST

/* Members whose lease was over may have missed any number: after the longest
 * lease another instance begins. */
START_TEST(test_rdzv_round_that_nobody_is_sure_of_ends_its_instance)
{
    rejoin(0, 0, 5, MSG_STATE_READY, false);
    rejoin(1, 1, 5, MSG_STATE_READY, false);
    both_ready(5);
    for (int i = 0; i < 69; i++) {
        now_us += HEARTBEAT / 2;
        beat_of(0, i + 1, i, 5);
        beat_of(1, i + 1, i, 5);
        tick(0);
        ck_assert(!told(0, "world"));
    }
    now_us += HEARTBEAT / 2;
    tick(0);
    ck_assert(told(0, "world"));
    ck_assert_str_ne(last[0].world.instance,
                     make_rejoin(0, 5, 1, 1).join.instance);
    rejoin(9, 3, 9, MSG_STATE_RUNNING, true);
    ck_assert(told(9, "refused"));
}
END_TEST

/* One that knows a later round is believed. */
START_TEST(test_rdzv_later_round_replaces_the_one_rebuilt)
{
    rejoin(0, 0, 5, MSG_STATE_READY, true);
    rejoin(1, 1, 6, MSG_STATE_RUNNING, true);
    ck_assert(noted("rebuilt") && told(0, "stop") && !told(1, "stop"));
    ready(0, 5);
    ck_assert(noted("spare"));
    ck_assert_int_eq(last[0].waiting.round, 6);
}
END_TEST

START_TEST(test_rdzv_spare_alone_does_not_make_a_server_forget)
{
    rejoin(2, 2, 5, MSG_STATE_NONE, false);
    ck_assert(noted("rebuilt") && noted("spare"));
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    rejoin(1, 1, 5, MSG_STATE_RUNNING, true);
    ck_assert_str_eq(said, "1:lease ");
}
END_TEST

START_TEST(test_rdzv_newcomer_alone_does_not_make_a_server_forget)
{
    limits_of(1, 3);
    join(2);
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    ck_assert(told(2, "waiting"));
    ck_assert_int_eq(last[2].waiting.spare, 1);
    rejoin(1, 1, 5, MSG_STATE_RUNNING, true);
    ck_assert(told(0, "stop")); /* all are there: the round grows */
}
END_TEST

/* One that was in round 5, and is unknown here, with that group rank. */
static void member_joins(int who, int group_rank)
{
    struct msg m = make_rejoin(who, 5, MSG_STATE_RUNNING, true);
    m.join.group_rank = group_rank;
    say(who, &m);
}

/* Newcomers that came first run an instance of their own: it gives way to the
 * one whose workers run, restarts that it used and all. */
START_TEST(test_rdzv_newcomers_instance_gives_way_to_a_running_one)
{
    run_two(2, 2);
    failed(0, 1, 1, 0);
    both_ready(1);
    ck_assert_int_eq(last[0].world.restarts, 1);
    member_joins(2, 0);
    ck_assert(noted("rebuilt"));
    ck_assert(told(0, "stop") && told(1, "stop") && !told(2, "stop"));
    member_joins(3, 1);
    ck_assert(!told(2, "stop") && !told(3, "stop"));
    both_ready(2);
    ck_assert_int_eq(last[0].waiting.spare, 1);
    ck_assert_int_eq(last[1].waiting.round, 5);
    failed(2, 5, 1, 0);
    ready(2, 5);
    ready(3, 5);
    ck_assert_int_eq(last[2].world.round, 6);
    ck_assert_int_eq(last[2].world.restarts, 1);
    ck_assert_str_eq(last[2].world.instance,
                     make_rejoin(0, 5, 1, 1).join.instance);
}
END_TEST

/* Found by the simulator (SEED=251660 then): a node that was told to stop round
 * 2 of such newcomers said ready of round 1, late. That is no answer. */
START_TEST(test_rdzv_stale_node_is_ready_of_the_round_it_was_told_to_stop)
{
    run_two(2, 2);
    failed(0, 1, 1, 0);
    both_ready(1);
    member_joins(2, 0);
    ready(0, 1);
    ck_assert(!told(0, "waiting"));
    ready(0, 2);
    ck_assert_int_eq(last[0].waiting.spare, 1);
}
END_TEST

/* Found by the simulator (SEED=993330): nor is it one of a node that leaves. */
START_TEST(test_rdzv_leaving_node_is_gone_by_a_ready_of_its_round)
{
    run_two(1, 2);
    failed(0, 1, 1, 0);
    both_ready(1);
    leave(0, false);
    ready(1, 2);
    ready(0, 1);
    ck_assert(!told(1, "world"));
    ready(0, 2);
    ck_assert(told(1, "world"));
}
END_TEST

/* Not to one that may have been given up, nor when no lease of a server before
 * can be out any more, nor where this server took the round over itself. */
START_TEST(test_rdzv_instance_gives_way_to_no_other)
{
    if (_i == 2) {
        limits_of(2, 2);
        rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    } else {
        run_two(2, 2);
    }
    for (int i = 1; _i == 1 && i < 80; i++) { /* 36 s: 30 s and 5 s */
        now_us += HEARTBEAT / 2;
        beat_of(0, i, i - 1, 1);
        beat_of(1, i, i - 1, 1);
    }
    struct msg m = make_rejoin(2, 5, MSG_STATE_RUNNING, _i != 0);
    (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", 78);
    say(2, &m);
    ck_assert(told(2, "refused") && !told(0, "stop"));
}
END_TEST

/* Found by fuzzing: the server that took a round over knows nothing of it that
 * it could tell a member again; it told a world of 0 workers. */
START_TEST(test_rdzv_member_that_forgot_a_rebuilt_round_ends_it)
{
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    rejoin(1, 1, 5, MSG_STATE_RUNNING, true);
    rejoin(2, 1, 0, MSG_STATE_NONE, true);
    ck_assert(!told(2, "world"));
    ck_assert(told(0, "stop") && told(2, "stop"));
    ready(0, 5);
    ready(2, 5);
    ck_assert_int_eq(last[2].world.round, 6);
    ck_assert_int_gt(last[2].world.world_size, 0);
}
END_TEST

/* Found by fuzzing: with the highest number of messages.def believed, the next
 * round's number was one that every agent refuses. */
START_TEST(test_rdzv_round_number_without_a_next_one_is_not_believed)
{
    rejoin(0, 0, 1000000000, MSG_STATE_RUNNING, true);
    ck_assert(!noted("rebuilt"));
    ck_assert(told(0, "stop"));
    ready(0, 1000000000);
    join(1);
    ck_assert_int_eq(last[0].world.round, 1);
}
END_TEST

/* -- nonsense -------------------------------------------------------------- */

/* Whatever one says of its round: no assertion, at most a refusal. */
START_TEST(test_rdzv_hostile_claims_are_survived)
{
    static const int64_t values[] = {-1, 0, 1, 2, 3, 7, 8, 99999, 1000000};
    int n = (int)(sizeof(values) / sizeof(values[0]));
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            for (int c = 0; c < n; c++) {
                new_server();
                struct msg m = make_rejoin(0, values[c] < 0 ? 0 : values[c],
                                           (enum msg_state)(_i % 5), _i > 4);
                m.join.group_rank = values[a];
                m.join.group_world = values[b] < 0 ? 0 : values[b];
                m.join.restarts = m.join.group_world;
                m.join.lease_ms = 86400000000;
                say(0, &m);
                say(1, &m); /* the same agent again */
                m = make_rejoin(1, 1000000000, (enum msg_state)(_i % 5), true);
                say(2, &m);
                ready(2, 3);
                done(2, 1000000000);
                failed(2, 1000000000, 1, 86400000000000);
                leave(1, false);
                closed(2, true);
                pass(100 * MONO_S);
            }
}
END_TEST

static void add_tables(TCase *t)
{
    tcase_add_loop_test(t, test_rdzv_join_that_differs_is_refused_and_told_why,
                        0, 15);
    tcase_add_loop_test(t, test_rdzv_anything_before_join_closes_the_connection,
                        0, MSG_KIND_COUNT);
    tcase_add_loop_test(t,
                        test_rdzv_what_only_a_server_says_closes_the_connection,
                        0, MSG_KIND_COUNT);
    tcase_add_loop_test(
        t, test_rdzv_failure_after_the_round_was_over_is_not_charged, 0, 2);
    tcase_add_loop_test(t, test_rdzv_each_event_in_each_state, 0, CELLS);
    tcase_add_loop_test(t, test_rdzv_drain_that_was_lost_is_said_again, 0, 4);
    tcase_add_loop_test(t, test_rdzv_drain_that_would_stop_the_run_needs_force,
                        0, 2);
    tcase_add_loop_test(
        t, test_rdzv_end_is_final_without_those_that_cannot_know, 0, 3);
    tcase_add_loop_test(t, test_rdzv_end_of_a_server_that_is_no_more_holds, 0,
                        2);
    tcase_add_loop_test(t, test_rdzv_instance_gives_way_to_no_other, 0, 3);
    tcase_add_loop_test(t, test_rdzv_hostile_claims_are_survived, 0, 10);
    tcase_add_loop_test(t, test_rdzv_window_is_told_to_the_next_server, 0, 2);
    tcase_add_loop_test(t, test_rdzv_crash_loop_is_told_to_the_next_server, 0,
                        2);
    tcase_add_loop_test(t, test_rdzv_cool_down_survives_connection_and_server,
                        0, 2);
    tcase_add_loop_test(
        t, test_rdzv_failure_on_a_node_that_leaves_is_given_back, 0, 3);
}

/* -- who is not there keeps nobody out ------------------------------------- */

/* A node of a round of a server before this one, with the longest lease that
 * can be told, which breaks off. */
static void haunt(int conn, const char *run, int rank)
{
    struct msg m = make_rejoin(conn, 3, MSG_STATE_RUNNING, true);
    msg_set(m.join.run, run);
    m.join.group_rank = rank;
    m.join.group_world = like.nodes_max;
    m.join.lease_ms = INT64_C(86400000000);
    say(conn, &m);
    ck_assert(told(conn, "lease"));
    closed(conn, false);
    ck_assert(noted("absent"));
}

/* Runs of which everybody is away fill the server: the last one gives way to
 * one that comes, and is rebuilt when a node of it is back. */
START_TEST(test_rdzv_run_of_which_all_are_away_gives_way)
{
    like.reconnect_ms = INT64_C(86400000000);
    haunt(0, "x", 0);
    now_us++;
    haunt(1, "y", 0);
    join(2);
    ck_assert(told(2, "waiting") && noted("forgotten"));
    join(3);
    ck_assert(told(2, "world") && told(3, "world"));
    haunt(1, "y", 0); /* in x's place */
    ck_assert_int_eq(rdzv_live_runs(rdzv), 2);
    struct msg m = make_join(5);
    msg_set(m.join.run, "z");
    say(5, &m);
    ck_assert(told(5, "waiting"));
    m = make_join(6); /* who is there is not sent away */
    msg_set(m.join.run, "other");
    say(6, &m);
    ck_assert(told(6, "refused") && told(6, "drop"));
}
END_TEST

/* The same of nodes. Those of the newcomer's own run are not forgotten. */
START_TEST(test_rdzv_nodes_that_are_away_give_way)
{
    limits_of(8, 8);
    for (int i = 0; i < 8; i++)
        haunt(i, "x", i);
    ck_assert_int_eq(rdzv_nodes(rdzv), 8);
    struct msg m = make_join(8);
    msg_set(m.join.run, "x");
    say(8, &m);
    ck_assert(told(8, "refused"));
    join(9);
    ck_assert(told(9, "waiting"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
}
END_TEST

/* No server grants a longer lease than the run allows: none is believed. */
START_TEST(test_rdzv_lease_that_cannot_be_is_cut)
{
    haunt(0, "r", 0);
    pass(29 * MONO_S);
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    pass(60 * MONO_S);
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
}
END_TEST

static void add_tests(TCase *t)
{
    const TTest *const tests[] = {
        test_rdzv_round_is_sealed_when_the_most_are_there,
        test_rdzv_members_are_told_to_the_first_alone,
        test_rdzv_members_come_in_pieces,
        test_rdzv_no_members_where_nobody_asks,
        test_rdzv_last_call_ends_the_wait_for_more,
        test_rdzv_last_call_is_called_off,
        test_rdzv_too_few_end_by_timeout,
        test_rdzv_join_beyond_capacity_is_refused,
        test_rdzv_runs_beyond_capacity_are_refused,
        test_rdzv_end_of_an_unknown_connection_is_nothing,
        test_rdzv_failure_stops_all_and_is_charged_once,
        test_rdzv_root_cause_is_the_oldest_failure,
        test_rdzv_spent_budget_ends_the_run,
        test_rdzv_age_in_the_end_stays_within_its_bounds,
        test_rdzv_permanent_failure_is_not_tried_again,
        test_rdzv_failure_of_another_round_is_stale,
        test_rdzv_failure_is_given_back_when_a_node_is_lost,
        test_rdzv_run_ends_when_all_are_done,
        test_rdzv_end_of_a_single_node_is_final_at_once,
        test_rdzv_done_node_that_is_gone_counts,
        test_rdzv_done_node_runs_again_with_the_next_round,
        test_rdzv_leave_all_ends_the_run_for_all,
        test_rdzv_drained_node_leaves_and_the_others_go_on,
        test_rdzv_drain_while_nodes_gather_calls_the_seal_off,
        test_rdzv_drain_finds_the_one_node_that_is_meant,
        test_rdzv_drain_in_one_of_two_runs,
        test_rdzv_order_ends_a_run_for_all,
        test_rdzv_order_that_is_out_of_order_is_refused,
        test_rdzv_straggler_gets_the_result_of_its_own_instance,
        test_rdzv_absent_node_is_waited_for_until_its_lease_is_over,
        test_rdzv_world_is_said_again_to_who_missed_it,
        test_rdzv_stop_is_said_again_to_who_missed_it,
        test_rdzv_end_is_said_again_to_who_missed_it,
        test_rdzv_long_lease_where_nobody_could_go_on,
        test_rdzv_long_lease_is_honoured_until_a_short_one_is_heard,
        test_rdzv_own_lag_is_nobodys_fault,
        test_rdzv_round_is_rebuilt_and_nobody_is_stopped,
        test_rdzv_hole_is_waited_for_before_the_next_round,
        test_rdzv_hole_is_filled_only_once,
        test_rdzv_round_that_all_may_have_missed_is_reckoned_with,
        test_rdzv_round_that_nobody_is_sure_of_ends_its_instance,
        test_rdzv_later_round_replaces_the_one_rebuilt,
        test_rdzv_spare_alone_does_not_make_a_server_forget,
        test_rdzv_newcomer_alone_does_not_make_a_server_forget,
        test_rdzv_member_that_forgot_a_rebuilt_round_ends_it,
        test_rdzv_newcomers_instance_gives_way_to_a_running_one,
        test_rdzv_stale_node_is_ready_of_the_round_it_was_told_to_stop,
        test_rdzv_leaving_node_is_gone_by_a_ready_of_its_round,
        test_rdzv_round_number_without_a_next_one_is_not_believed,
        test_rdzv_budgets_that_differ_are_named,
        test_rdzv_end_sums_up_how_workers_ended,
        test_rdzv_budget_comes_back_with_its_window,
        test_rdzv_crash_loop_ends_the_run_early,
        test_rdzv_crash_loop_is_off_by_default,
        test_rdzv_scale_interval_is_told_to_the_next_server,
        test_rdzv_node_that_fails_first_k_times_is_set_aside,
        test_rdzv_node_that_the_minimum_needs_is_never_set_aside,
        test_rdzv_node_set_aside_is_taken_where_too_few_are_left,
        test_rdzv_node_set_aside_comes_back_after_its_cool_down,
        test_rdzv_failures_in_a_row_are_told_to_the_next_server,
        test_rdzv_node_set_aside_can_be_drained,
        test_rdzv_late_joiners_are_taken_together,
        test_rdzv_late_joiner_replaces_a_lost_node_at_once,
        test_rdzv_graceful_stop_is_hurried_by_a_loss,
        test_rdzv_stop_for_a_node_that_leaves_is_graceful,
        test_rdzv_run_of_which_all_are_away_gives_way,
        test_rdzv_nodes_that_are_away_give_way,
        test_rdzv_lease_that_cannot_be_is_cut,
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(t, tests[i]);
}

int main(void)
{
    Suite *suite = suite_create("rdzv");
    TCase *tcase = tcase_create("rdzv");
    tcase_set_tags(tcase, "fast");
    tcase_add_checked_fixture(tcase, setup, teardown);
    add_tests(tcase);
    add_tables(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}
