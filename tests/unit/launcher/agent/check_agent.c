/* links: tests/lib/agent_hand */
/* libs: -lcjson */
/*
 * How the agent goes: the end of the run, signals, a dead guard; and
 * what it tells of rounds that are over.
 */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/agent_hand.h"

/* -- going ----------------------------------------------------------------- */

TEST(test_agent_end_stops_workers_and_says_bye)
{
    run();
    end(0);
    ck_assert_str_eq(did, "kill:15 ");
    worker_exits(0, 0, 15);
    worker_exits(1, 0, 15);
    ck_assert_str_eq(did, "sweep send:bye exit:0 ");
    ck_assert(verdict.ended);
    ck_assert_int_eq(agent_deadline(&agent), MONO_NEVER);
    tick();
    ck_assert_str_eq(did, "");
}

TEST(test_agent_end_after_a_fence_is_the_end)
{
    run();
    now_us += 900 * MONO_MS;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    end(3);
    worker_exits(0, 0, 9);
    worker_exits(1, 0, 9);
    ck_assert_str_eq(did, "sweep send:bye exit:3 ");
}

static void end_held(int status)
{
    struct msg m = {.kind = MSG_KIND_end, .end = {.status = status, .hold = 1}};
    hear(&m);
}

/* Told of an end that not all know of yet: its workers go at once, it stays; a
 * server that takes over is told, and one that says the same again makes it go
 * with that status. One that will not have it, or none, makes it go as lost:
 * the end was not final. */
TEST_LOOP(test_agent_stays_until_all_know_of_the_end, 0, 4)
{
    run();
    end_held(3);
    ck_assert_str_eq(did, "send:bye kill:15 ");
    both_die(15);
    ck_assert_str_eq(did, "sweep ");
    if (_i == 0) {
        end(3);
        ck_assert_str_eq(did, "send:bye exit:3 ");
        return;
    }
    disconnected();
    pass(MONO_S);
    ck_assert_ptr_nonnull(strstr(did, "connect "));
    ck_assert(!exited);
    if (_i == 1) {
        pass(20 * MONO_S);
        ck_assert_ptr_nonnull(strstr(did, "exit:72 "));
        return;
    }
    connected();
    ck_assert_str_eq(did, "send:join ");
    ck_assert_int_eq(joined.join.ended, 1 + 3);
    if (_i == 2) {
        end(3);
        ck_assert_str_eq(did, "send:bye exit:3 ");
        return;
    }
    struct msg m = {.kind = MSG_KIND_refused, .refused.code = 1};
    hear(&m);
    ck_assert_str_eq(did, "exit:72 ");
}

/* Found by fuzzing: it stayed for reconnect_timeout, whoever asked. */
TEST(test_agent_that_stays_for_others_goes_when_it_is_asked_twice)
{
    run();
    signal_comes(SIGTERM);
    end_held(3);
    both_die(15);
    disconnected();
    pass(MONO_S);
    ck_assert(!exited);
    signal_comes(SIGTERM);
    pass(1 * MONO_S);
    ck_assert(exited);
}

TEST(test_agent_that_knows_of_the_end_does_not_come_back)
{
    run();
    end(1);
    disconnected();
    ck_assert_str_eq(did, "");
    pass(400 * MONO_MS);
    ck_assert_str_eq(did, "");
    both_die(15);
    ck_assert_str_eq(did, "sweep exit:1 ");
}

TEST(test_agent_sigterm_leaves_with_the_same_signal)
{
    run();
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "send:leave kill:15 ");
    ck_assert_int_eq(last.leave.what, MSG_LEAVE_NODE);
    both_die(15);
    ck_assert_str_eq(did, "sweep send:ready exit:143 ");
}

TEST(test_agent_second_signal_ends_the_grace)
{
    run();
    signal_comes(SIGTERM);
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "kill:9 ");
}

TEST(test_agent_other_signals_are_passed_on)
{
    run();
    signal_comes(SIGUSR1);
    ck_assert_str_eq(did, "pass:10 ");
    ck_assert(!exited);
}

/* --signals_to_handle says which one is an order to go, and which is the
 * workers' own business. */
TEST(test_agent_signals_to_go_can_be_chosen)
{
    agent.conf.last_words = UINT64_C(1) << (SIGUSR1 - 1);
    run();
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "pass:15 ");
    ck_assert(!exited);
    signal_comes(SIGUSR1);
    ck_assert_str_eq(did, "send:leave kill:10 ");
    ck_assert_int_eq(last.leave.what, MSG_LEAVE_NODE);
    signal_comes(SIGUSR1);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    both_die(9);
    ck_assert_ptr_nonnull(strstr(did, "exit:138"));
}

/* The order to end the run must not be lost with the connection. */
TEST_LOOP(test_agent_interrupt_waits_for_the_servers_end, 0, 2)
{
    run();
    signal_comes(SIGINT);
    ck_assert_str_eq(did, "send:leave kill:2 ");
    ck_assert_int_eq(last.leave.what, MSG_LEAVE_ALL);
    both_die(2);
    ck_assert_str_eq(did, "sweep ");
    if (_i == 0) {
        end(130);
        ck_assert_str_eq(did, "send:bye exit:130 ");
    } else {
        pass(1000 * MONO_MS);
        ck_assert_ptr_nonnull(strstr(did, "exit:130"));
    }
}

TEST(test_agent_interrupt_before_the_server_was_reached_ends_at_once)
{
    step((struct agent_event){.kind = AGENT_START});
    signal_comes(SIGINT);
    ck_assert_str_eq(did, "exit:130 ");
}

/* The server takes the end of the connection as the death of all: so it comes
 * after it, and nothing is said before. */
TEST(test_agent_orphan_ends_when_its_workers_are_dead)
{
    run();
    step((struct agent_event){.kind = AGENT_GUARD_DIED});
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    ck_assert_ptr_null(strstr(did, "send"));
    ck_assert(!exited);
    worker_exits(0, 0, 9);
    worker_exits(1, 0, 9);
    ck_assert_str_eq(did, "sweep exit:137 ");
}

TEST(test_agent_orphan_without_workers_ends_at_once)
{
    start();
    step((struct agent_event){.kind = AGENT_GUARD_DIED});
    ck_assert_str_eq(did, "exit:137 ");
}

TEST(test_agent_refused_by_the_server_goes_and_does_not_come_back)
{
    run();
    struct msg m = {.kind = MSG_KIND_refused,
                    .refused = {.code = DDP_E_CONFLICT}};
    msg_set(m.refused.text, "because");
    hear(&m);
    ck_assert_str_eq(did, "kill:15 ");
    disconnected();
    ck_assert_str_eq(did, "");
    both_die(15);
    ck_assert_str_eq(did, "sweep exit:65 ");
    ck_assert_ptr_nonnull(strstr(verdict.text, "because"));
}

/* A new server may have been filled by others before its members came. */
TEST(test_agent_member_survives_a_server_without_room)
{
    struct msg m = {.kind = MSG_KIND_refused, .refused = {.code = DDP_E_NOMEM}};
    msg_set(m.refused.text, "this rendezvous is full");
    run();
    disconnected();
    pass(2 * MONO_S);
    connected();
    hear(&m);
    ck_assert_ptr_null(strstr(did, "kill:"));
    ck_assert_ptr_nonnull(strstr(did, "disconnect"));
    pass(3 * MONO_S);
    ck_assert_ptr_nonnull(strstr(did, "connect "));
    ck_assert(!exited);
}

/* A strict run has as many launchers as it may have: one that is too many waits
 * for a place, and says why. */
TEST(test_agent_that_is_put_off_tries_again)
{
    struct msg m = {.kind = MSG_KIND_refused,
                    .refused = {.code = DDP_E_UNREACHABLE}};
    msg_set(m.refused.text, "it has 3 launchers");
    step((struct agent_event){.kind = AGENT_START});
    for (int i = 0; i < 8; i++) {
        connected();
        hear(&m);
        ck_assert_ptr_nonnull(strstr(did, "disconnect"));
        pass(2500 * MONO_MS);
        ck_assert_ptr_nonnull(strstr(did, "connect "));
    }
    ck_assert(!exited);
    ck_assert_str_eq(told, "it has 3 launchers");
}

/* Who has no workers to lose is told, and goes. */
TEST(test_agent_newcomer_goes_where_there_is_no_room)
{
    struct msg m = {.kind = MSG_KIND_refused, .refused = {.code = DDP_E_NOMEM}};
    start();
    hear(&m);
    ck_assert(exited);
}

/* -- progress and the budget ----------------------------------------------- */

/* Whether any worker of the round got on goes with `ready`. */
TEST_LOOP(test_agent_ready_tells_of_progress, 0, 2)
{
    start();
    world("i", 1);
    step((struct agent_event){
        .kind = AGENT_WORKER_EXIT,
        .worker = {.local_rank = 0, .code = 1, .progressed = _i == 1}});
    worker_exits(1, 0, SIGTERM);
    ck_assert_int_eq(last.kind, MSG_KIND_ready);
    ck_assert_int_eq(last.ready.progress, _i);
    world("i", 2);
    worker_exits(0, 1, 0);
    worker_exits(1, 0, SIGTERM);
    ck_assert_int_eq(last.ready.progress, 0);
}

/* Found by fuzzing: a join with an age beyond the table's is refused. */
TEST(test_agent_run_of_a_thousand_days_can_join_again)
{
    start();
    struct msg m = {.kind = MSG_KIND_world,
                    .world = {.round = 1,
                              .group_world = 1,
                              .instance_ms = INT64_C(86400000000) - 1}};
    msg_set(m.world.instance, "i");
    hear(&m);
    now_us += 300 * MONO_MS;
    disconnected();
    connected();
    ck_assert_int_eq(joined.join.instance_ms, INT64_C(86400000000));
    now_us += 1000 * INT64_C(86400) * MONO_S;
    disconnected();
    connected();
    ck_assert_int_eq(joined.join.recent_ms, INT64_C(86400000000));
}

TEST(test_agent_join_tells_what_counts_in_the_window)
{
    start();
    struct msg m = {.kind = MSG_KIND_world,
                    .world = {.round = 1,
                              .group_world = 1,
                              .restarts = 9,
                              .recent = 2,
                              .no_progress = 2,
                              .strikes = 1}};
    msg_set(m.world.instance, "i");
    hear(&m);
    now_us += 300 * MONO_MS;
    disconnected();
    connected();
    ck_assert_int_eq(joined.join.restarts, 9);
    ck_assert_int_eq(joined.join.recent, 2);
    ck_assert_int_eq(joined.join.recent_ms, 300);
    ck_assert_int_eq(joined.join.no_progress, 2);
    ck_assert_int_eq(joined.join.strikes, 1);
    ck_assert_int_eq(joined.join.cooldown_left_ms, 0);
}

AGENT_SUITE("agent")
