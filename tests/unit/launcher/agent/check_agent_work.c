/* links: tests/lib/agent_hand */
/* libs: -lcjson */
/*
 * What becomes of a node's workers: a round, its failures, hangs, and the look
 * at the node's health between rounds.
 */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/agent_hand.h"

/* -- a round and its ends -------------------------------------------------- */

TEST(test_agent_first_join_holds_nothing)
{
    start();
    ck_assert_int_eq(joined.join.round, 0);
    ck_assert_int_eq(joined.join.state, MSG_STATE_NONE);
    ck_assert_int_eq(joined.join.group_rank, -1);
    ck_assert_str_eq(joined.join.instance, "");
}

TEST(test_agent_failure_stops_the_others_and_is_told)
{
    run();
    worker_exits(1, 7, 0);
    ck_assert_str_eq(did, "send:failed kill:15:failed ");
    ck_assert_int_eq(last.failed.rank, 3);
    ck_assert_int_eq(last.failed.local_rank, 1);
    ck_assert_int_eq(last.failed.code, 7);
    worker_exits(0, 0, 15);
    ck_assert_str_eq(did, "sweep send:ready ");
    ck_assert_int_eq(last.ready.round, 1);
}

/* How each worker of a round ended is told when all are dead. */
TEST(test_agent_ready_tells_how_workers_ended)
{
    run();
    worker_exits(1, 77, 0);
    worker_exits(0, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep send:ready ");
    ck_assert_str_eq(last.ready.ends, "0=-15 1=77 ");
    ck_assert_int_eq(last.ready.base_rank, 2);
    ck_assert_str_eq(last.ready.counts, "1 0 0 1");
    lease(0, 800);
    world("i", 2);
    stop(2);
    both_die(SIGTERM);
    ck_assert_str_eq(last.ready.ends, "0-1=-15 ");
}

/* The report is not to say that it died by SIGKILL. */
TEST(test_agent_worker_that_did_not_stop_is_told_as_such)
{
    run();
    stop(1);
    worker_exits(0, 0, SIGTERM);
    lease(0, 5000);
    pass(500 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    worker_exits(1, 0, SIGKILL);
    ck_assert_ptr_nonnull(strstr(did, "send:ready"));
    ck_assert_str_eq(last.ready.ends, "0=-15 1=-127 "); /* EXITS_UNSTOPPED */
    ck_assert_str_eq(last.ready.counts, "1 1 0 0");
}

/* Exit 0 counts only of workers that were not asked to stop. */
TEST(test_agent_all_exit_0_is_done)
{
    run();
    worker_exits(0, 0, 0);
    ck_assert_str_eq(did, "");
    worker_exits(1, 0, 0);
    ck_assert_str_eq(did, "sweep:gently send:done ");
    stop(1);
    ck_assert_str_eq(did, "sweep send:ready ");
    world("i", 2);
    ck_assert_str_eq(did, "spawn send:beat ");
    stop(2);
    worker_exits(0, 0, 0);
    worker_exits(1, 0, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
}

TEST(test_agent_only_the_first_failure_of_a_round_is_told)
{
    run();
    worker_exits(1, 7, 0);
    worker_exits(0, 9, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
    world("i", 2);
    worker_exits(0, 9, 0);
    ck_assert_ptr_nonnull(strstr(did, "send:failed"));
    ck_assert_int_eq(last.failed.round, 2);
}

TEST(test_agent_stop_of_another_round_is_ignored)
{
    run();
    stop(7);
    ck_assert_str_eq(did, "");
    worker_exits(0, 0, 0);
    worker_exits(1, 0, 0);
    stop(7); /* not when it is done either */
    ck_assert_str_eq(did, "");
}

/* It never got the round's world: then no worker of it runs here. */
TEST(test_agent_stop_of_an_unknown_round_is_answered)
{
    start();
    stop(4);
    ck_assert_str_eq(did, "send:ready ");
    ck_assert_int_eq(last.ready.round, 4);
}

TEST(test_agent_world_is_taken_only_once_and_only_when_idle)
{
    run();
    world("i", 2);
    ck_assert_str_eq(did, "");
    stop(1);
    both_die(15);
    world("i", 1);
    ck_assert_str_eq(did, "");
    world("i", 2);
    ck_assert_str_eq(did, "spawn send:beat ");
    stop(2);
    both_die(15);
    world("j", 1); /* another instance counts for itself */
    ck_assert_str_eq(did, "spawn send:beat ");
}

TEST(test_agent_spawn_failure_stops_those_that_started)
{
    run();
    step((struct agent_event){.kind = AGENT_SPAWN_FAILED,
                              .started = 1,
                              .worker = {.local_rank = 1,
                                         .code = 127,
                                         .permanent = true,
                                         .text = "not found"}});
    ck_assert_str_eq(did, "send:failed kill:15:failed ");
    ck_assert_int_eq(last.failed.how, MSG_FAILED_FOR_GOOD);
    ck_assert_str_eq(last.failed.text, "not found");
    worker_exits(0, 0, 15);
    ck_assert_str_eq(did, "sweep send:ready ");
}

TEST(test_agent_spawn_failure_of_the_first_worker_is_ready_at_once)
{
    run();
    step((struct agent_event){
        .kind = AGENT_SPAWN_FAILED, .started = 0, .worker = {.code = 126}});
    ck_assert_str_eq(did, "send:failed sweep send:ready ");
}

/* A worker that hangs is a failure of when it fell silent; it lives, and is
 * counted when it ends. */
TEST(test_agent_hung_worker_is_a_failure)
{
    start();
    lease(0, 800);
    world("aa", 1);
    struct msg_failed failed;
    worker_hangs(1, 7 * MONO_S);
    ck_assert_str_eq(did, "send:failed kill:15:failed ");
    failed = agent.round.failed;
    ck_assert_int_eq(failed.how, MSG_FAILED_HUNG);
    ck_assert_int_eq(failed.rank, 3);
    ck_assert_int_eq(agent.round.failed_at_us, now_us - 7 * MONO_S);
    ck_assert_str_eq(failed.text, "no beat for 7 s");
    worker_hangs(0, 7 * MONO_S); /* they are stopped already */
    ck_assert_str_eq(did, "");
    worker_exits(0, 0, SIGTERM);
    worker_exits(1, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep send:ready ");
}

/* An abort is a failure with its code, whatever becomes of the process then. */
TEST_LOOP(test_agent_abort_is_a_failure, 0, 5)
{
    static const struct {
        int code, signo;
    } ends[] = {{0, SIGTERM}, {0, SIGSEGV}, {0, 0}, {3, 0}, {9, 0}};
    start();
    lease(0, 800);
    world("aa", 1);
    worker_aborts(1, 3);
    ck_assert_str_eq(did, "send:failed kill:15:failed ");
    ck_assert_int_eq(agent.round.failed.code, 3);
    ck_assert_int_eq(agent.round.failed.rank, 3);
    ck_assert_int_eq(agent.round.failed.how, MSG_FAILED_ENDED);
    worker_aborts(0, 4); /* they are stopped already */
    ck_assert_str_eq(did, "");
    worker_exits(1, ends[_i].code, ends[_i].signo);
    ck_assert_str_eq(did, "");
    worker_exits(0, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep send:ready ");
    ck_assert_int_eq(agent.round.failed.code, 3);
    ck_assert_int_eq(agent.round.ends.by_code, 1);
    ck_assert_int_eq(agent.round.ends.by_term, 1);
}

/* A death that is known as it begins stops the others, and is told once; the
 * node is ready when all are reaped, in whatever order. */
TEST_LOOP(test_agent_death_is_known_before_the_end, 0, 2)
{
    start();
    lease(0, 800);
    world("aa", 1);
    worker_dies(1, SIGKILL);
    ck_assert_str_eq(did, "send:failed kill:15:failed ");
    ck_assert_int_eq(agent.round.failed.signal, SIGKILL);
    ck_assert_int_eq(agent.round.failed.rank, 3);
    worker_dies(0, SIGTERM); /* by us */
    ck_assert_str_eq(did, "");
    worker_exits(_i, 0, _i == 1 ? SIGKILL : SIGTERM);
    ck_assert_str_eq(did, "");
    worker_exits(1 - _i, 0, _i == 0 ? SIGKILL : SIGTERM);
    ck_assert_str_eq(did, "sweep send:ready ");
    ck_assert_int_eq(agent.round.ends.by_kill, 1);
    ck_assert_int_eq(agent.round.ends.by_term, 1);
}

static void checked(bool fit)
{
    step((struct agent_event){
        .kind = AGENT_CHECKED, .fit = fit, .text = "GPU 3 is lost"});
}

/* The node's health comes before its first connection. */
TEST_LOOP(test_agent_checks_before_it_joins, 0, 2)
{
    agent.conf.checks = true;
    step((struct agent_event){.kind = AGENT_START});
    ck_assert_str_eq(did, "check ");
    now_us += 20 * MONO_S;
    tick();
    ck_assert_str_eq(did, "");
    checked(_i == 0);
    if (_i == 0) {
        ck_assert_str_eq(did, "connect ");
        return;
    }
    ck_assert_str_eq(did, "exit:81 ");
    ck_assert_str_eq(verdict.text, "this node is not fit: GPU 3 is lost");
}

/* ... and between a failure and the next round, whoever asks meanwhile. */
TEST_LOOP(test_agent_checks_after_a_failure, 0, 2)
{
    start();
    agent.conf.checks = true;
    lease(0, 100000);
    world("aa", 1);
    worker_exits(0, 3, 0);
    stop(1);
    worker_exits(1, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep check ");
    stop(1);
    ck_assert_str_eq(did, "");
    world("aa", 2);
    ck_assert_str_eq(did, "");
    checked(_i == 0);
    if (_i == 0)
        ck_assert_str_eq(did, "send:ready ");
    else
        ck_assert_str_eq(did, "send:leave send:ready exit:81 ");
    checked(false); /* too late to matter */
    ck_assert_str_eq(did, "");
}

/* SIGKILL does not end a worker, and the user does not wait for that: the node
 * goes, without a word that its workers are dead. Before SIGKILL no such event
 * counts. */
TEST_LOOP(test_agent_leaves_workers_that_cannot_be_killed, 0, 3)
{
    start();
    lease(0, 100000);
    world("aa", 1);
    worker_exits(0, 3, 0);
    checked(false);
    ck_assert_str_eq(did, "");
    now_us += 500 * MONO_MS;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
    if (_i == 0) {
        checked(false);
        ck_assert_str_eq(did, "send:leave exit:81 ");
        ck_assert_str_eq(verdict.text, "this node is not fit: GPU 3 is lost");
    } else if (_i == 1) {
        signal_comes(SIGTERM);
        checked(false);
        ck_assert_str_eq(did, "exit:143 ");
    } else {
        end(9);
        checked(false);
        ck_assert_str_eq(did, "exit:9 ");
    }
    worker_exits(1, 0, SIGKILL); /* late */
    ck_assert_str_eq(did, "");
}

/* Where a round ends since a node joins, or all went well, nothing is looked
 * at; and a signal does not wait for a check. */
TEST(test_agent_checks_no_more_than_that)
{
    start();
    agent.conf.checks = true;
    lease(0, 100000);
    world("aa", 1);
    struct msg m = {.kind = MSG_KIND_stop,
                    .stop = {.round = 1, .graceful = MSG_SCALE_UP}};
    hear(&m);
    worker_exits(0, 0, 0);
    worker_exits(1, 0, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
    world("aa", 2);
    worker_exits(0, 3, 0);
    worker_exits(1, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep check ");
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "send:leave send:ready exit:143 ");
}

/* A node that goes for another reason does not look back: how fit it is changes
 * neither what the server is told nor why it goes. */
TEST_LOOP(test_agent_health_of_a_node_that_goes_is_no_matter, 0, 4)
{
    bool held = _i >= 2;
    start();
    agent.conf.checks = true;
    lease(0, 100000);
    world("aa", 1);
    worker_exits(0, 3, 0);
    worker_exits(1, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep check ");
    if (held) {
        struct msg m = {.kind = MSG_KIND_end, .end = {.status = 3, .hold = 1}};
        hear(&m);
        ck_assert_str_eq(did, "send:bye ");
    } else {
        signal_comes(SIGINT);
        ck_assert_str_eq(did, "send:leave ");
    }
    checked(_i % 2 == 0);
    ck_assert_str_eq(did, "");
    ck_assert_int_eq(agent.leave.what, held ? MSG_LEAVE_NODE : MSG_LEAVE_ALL);
    disconnected();
    connected();
    ck_assert_ptr_nonnull(strstr(did, held ? "send:join " : "send:leave "));
    ck_assert_int_eq(agent.leave.what, held ? MSG_LEAVE_NODE : MSG_LEAVE_ALL);
    end(held ? 3 : 130);
    ck_assert_str_eq(did, held ? "send:bye exit:3 " : "send:bye exit:130 ");
    ck_assert_str_eq(verdict.text, "");
}

AGENT_SUITE("agent_work")
