/* links: tests/lib/agent_hand */
/* libs: -lcjson */
/*
 * How a node's workers are stopped: they are asked to leave, told, and killed;
 * how long they have then; and an order to go.
 */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/agent_hand.h"

/* -- asked to leave -------------------------------------------------------- */

static void stop_gracefully(int64_t round)
{
    struct msg m = {.kind = MSG_KIND_stop,
                    .stop = {.round = round, .graceful = MSG_SCALE_UP}};
    hear(&m);
}

static void asked(int attached)
{
    step((struct agent_event){.kind = AGENT_ASKED, .attached = attached});
}

/* Two workers of round 1 are asked to leave. */
static void ask(int attached)
{
    start();
    world("i", 1);
    stop_gracefully(1);
    ck_assert_str_eq(did, "ask:1 ");
    asked(attached);
    ck_assert_str_eq(did, "");
}

TEST(test_agent_graceful_stop_asks_and_waits)
{
    ask(2);
    stop_gracefully(1); /* said again after a reconnect */
    ck_assert_str_eq(did, "");
    worker_exits(0, 0, SIGTERM);
    ck_assert_str_eq(did, "");
    worker_exits(1, 143, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
}

/* What the server tells of the first sign goes with the note. */
TEST(test_agent_tells_the_first_sign_of_what_stops_it)
{
    struct msg m = {.kind = MSG_KIND_stop,
                    .stop = {.round = 1, .detect_ms = 1234}};
    start();
    world("i", 1);
    hear(&m);
    ck_assert_int_eq(detect_us, 1234 * MONO_MS);
}

/* SIGTERM after the grace, SIGKILL after another one. */
TEST(test_agent_who_does_not_leave_is_told_then_killed)
{
    ask(1);
    now_us += 500 * MONO_MS - 1;
    tick();
    ck_assert_ptr_null(strstr(did, "kill"));
    now_us += 1;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:15 "));
    lease(agent.session.beat_seq, 800);
    now_us += 500 * MONO_MS;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
}

/* Where none looks, the shell has sent SIGTERM: there is one grace only. */
TEST(test_agent_grace_runs_at_once_where_nobody_looks)
{
    ask(0);
    now_us += 500 * MONO_MS;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
}

/* A failure, a stop that is not graceful, a signal, the end of the run. */
TEST_LOOP(test_agent_patience_ends_early, 0, 4)
{
    ask(2);
    switch (_i) {
    case 0:
        worker_exits(0, 3, 0);
        ck_assert_str_eq(did, "kill:15:failed ");
        return;
    case 1:
        stop(1);
        ck_assert_str_eq(did, "kill:15:failed ");
        return;
    case 2:
        signal_comes(SIGTERM);
        ck_assert_str_eq(did, "send:leave kill:15 ");
        return;
    default:
        end(9);
        ck_assert_str_eq(did, "kill:15 ");
        return;
    }
}

/* What was done is done: a node whose workers all succeeded is not asked. */
TEST(test_agent_done_node_that_is_asked_is_ready)
{
    start();
    world("i", 1);
    worker_exits(0, 0, 0);
    worker_exits(1, 0, 0);
    stop_gracefully(1);
    ck_assert_ptr_nonnull(strstr(did, "send:ready "));
    ck_assert_ptr_null(strstr(did, "ask"));
}

static void drain(void)
{
    struct msg m = {.kind = MSG_KIND_stop, .stop.drain = 1};
    msg_set(m.stop.text, "drained by ddpctl from 10.0.0.9");
    hear(&m);
}

/* -- the graces: 200 ms after a failure, else 500 ms ----------------------- */

/* Two workers of round 1, under a lease that is no matter here. */
static void run_long(void)
{
    run();
    lease(0, 5000);
}

/* Those that live are killed once that time is over, and not before; `text` is
 * what people are told of it. */
static void killed_after(int64_t ms, const char *text)
{
    pass(ms * MONO_MS - 1);
    ck_assert_ptr_null(strstr(did, "kill"));
    pass(1);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    ck_assert_str_eq(noted, text);
    pass(1000 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "kill")); /* once is enough */
}

#define SHORT_OF_1 "1 worker, after 0.2 s (--failure_grace)"
#define SHORT_OF_2 "2 workers, after 0.2 s (--failure_grace)"
#define LONG_OF_1  "1 worker, after 0.5 s (--shutdown_timeout)"
#define LONG_OF_2  "2 workers, after 0.5 s (--shutdown_timeout)"

/* What the others do together with the dead one cannot end. */
TEST_LOOP(test_agent_grace_after_a_failure_is_short, 0, 5)
{
    run_long();
    switch (_i) {
    case 0: /* here */
        worker_exits(1, 7, 0);
        killed_after(200, SHORT_OF_1);
        return;
    case 1:
        worker_exits(1, 0, SIGKILL);
        killed_after(200, SHORT_OF_1);
        return;
    case 2: /* on another node, or that is lost */
        stop(1);
        ck_assert_str_eq(did, "kill:15:failed ");
        killed_after(200, SHORT_OF_2);
        return;
    case 3:
        worker_hangs(0, 7 * MONO_S);
        killed_after(200, SHORT_OF_2);
        return;
    default:
        step((struct agent_event){.kind = AGENT_SPAWN_FAILED,
                                  .started = 1,
                                  .worker = {.local_rank = 1, .code = 127}});
        killed_after(200, SHORT_OF_1);
        return;
    }
}

/* Nothing failed: workers can save together. */
TEST_LOOP(test_agent_grace_is_long_else, 0, 5)
{
    run_long();
    switch (_i) {
    case 0:
        signal_comes(SIGTERM);
        break;
    case 1:
        signal_comes(SIGINT);
        break;
    case 2:
        drain();
        asked(0);
        break;
    case 3:
        stop_gracefully(1);
        asked(0);
        break;
    default: /* by an operator, or by Ctrl-C on another node */
        end(84);
        break;
    }
    killed_after(500, LONG_OF_2);
}

/* They were asked to leave at a step, and one failed instead. */
TEST_LOOP(test_agent_failure_of_an_asked_worker_leaves_a_short_grace, 0, 3)
{
    run_long();
    if (_i == 2)
        drain();
    else
        stop_gracefully(1);
    asked(2);
    if (_i == 0)
        worker_exits(0, 3, 0);
    else
        stop(1);
    ck_assert_str_eq(did, "kill:15:failed ");
    killed_after(200, _i == 0 ? SHORT_OF_1 : SHORT_OF_2);
}

/* None of those who were asked left; but nobody failed. */
TEST(test_agent_grace_of_asked_workers_that_stay_is_long)
{
    run_long();
    stop_gracefully(1);
    asked(2);
    pass(500 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:15 "));
    killed_after(500, LONG_OF_2);
}

/* A worker that was told to go, and saves, keeps its time: many end with 1 by
 * SIGTERM. */
TEST_LOOP(test_agent_failure_does_not_shorten_a_grace, 0, 8)
{
    run_long();
    if (_i < 4)
        stop_gracefully(1);
    else
        signal_comes(SIGTERM);
    if (_i < 4)
        asked(0);
    pass(100 * MONO_MS);
    switch (_i) {
    case 0:
    case 4:
        worker_exits(1, 1, 0);
        break;
    case 1:
    case 5:
        worker_exits(1, 0, SIGKILL);
        break;
    case 2:
    case 6:
        stop(1);
        break;
    default:
        worker_hangs(1, 7 * MONO_S);
        break;
    }
    killed_after(400, _i % 4 < 2 ? LONG_OF_1 : LONG_OF_2);
}

/* A signal from outside, an order or another failure does not extend it. */
TEST_LOOP(test_agent_nothing_extends_the_short_grace, 0, 5)
{
    static const int status[] = {128 + SIGTERM, 128 + SIGINT, 80, 84, 0};
    run_long();
    worker_hangs(0, 7 * MONO_S);
    pass(100 * MONO_MS);
    switch (_i) {
    case 0:
        signal_comes(SIGTERM);
        ck_assert_str_eq(did, "send:leave ");
        break;
    case 1:
        signal_comes(SIGINT);
        break;
    case 2:
        drain();
        break;
    case 3:
        end(84);
        break;
    default:
        stop(1);
        break;
    }
    killed_after(100, SHORT_OF_2);
    both_die(SIGKILL);
    ck_assert_ptr_nonnull(strstr(did, "sweep "));
    if (_i == 1) /* the order was on its way */
        ck_assert(exited);
    if (_i < 4)
        ck_assert_int_eq(verdict.status, status[_i]);
    else
        ck_assert(!exited);
}

/* The others wait for a worker that a signal killed, or that hangs; also if
 * its death is known before its end, and if they were asked to leave. One that
 * ends by itself has been heard of. */
TEST_LOOP(test_agent_death_by_signal_has_a_grace_of_its_own, 0, 7)
{
    agent.conf.death_us = 50 * MONO_MS;
    run_long();
    if (_i == 3 || _i == 5) {
        stop_gracefully(1);
        asked(2);
    }
    if (_i == 0 || _i == 3)
        worker_exits(1, 0, SIGSEGV);
    else if (_i == 1)
        worker_hangs(1, 7 * MONO_S);
    else if (_i == 2)
        worker_dies(1, SIGKILL);
    else if (_i == 4)
        worker_aborts(1, 7);
    else
        worker_exits(1, 7, 0);
    pass(60 * MONO_MS);
    ck_assert_int_eq(strstr(did, "kill:9") != NULL, _i < 4);
}

/* So do those of the other nodes, also those that were asked to leave: the
 * server says so. */
TEST_LOOP(test_agent_death_on_another_node_has_that_grace, 0, 4)
{
    struct msg m = {
        .kind = MSG_KIND_stop,
        .stop = {.round = 1,
                 .graceful = _i % 2 == 0 ? MSG_AFTER_DEATH : MSG_AT_ONCE}};
    agent.conf.death_us = 50 * MONO_MS;
    run_long();
    if (_i >= 2) {
        stop_gracefully(1);
        asked(2);
    }
    hear(&m);
    ck_assert_str_eq(did, "kill:15:failed ");
    pass(60 * MONO_MS);
    ck_assert_int_eq(strstr(did, "kill:9") != NULL, _i % 2 == 0);
}

/* Two failures, one after the other: the time counts from the first. */
TEST(test_agent_second_failure_does_not_extend_the_short_grace)
{
    run_long();
    worker_hangs(0, 7 * MONO_S);
    pass(150 * MONO_MS);
    worker_exits(1, 3, 0);
    killed_after(50, SHORT_OF_1);
}

TEST(test_agent_second_signal_ends_the_short_grace)
{
    run_long();
    worker_exits(1, 7, 0);
    signal_comes(SIGINT);
    ck_assert_str_eq(did, "send:leave ");
    signal_comes(SIGINT);
    ck_assert_str_eq(did, "kill:9 ");
    ck_assert_str_eq(noted, "a second signal came");
    worker_exits(0, 0, SIGKILL);
    end(130);
    ck_assert_ptr_nonnull(strstr(did, "exit:130"));
}

/* The lease, which may be over before. */
TEST(test_agent_lease_ends_the_short_grace)
{
    run();
    lease(0, 50);
    worker_exits(1, 7, 0);
    pass(50 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    ck_assert_str_eq(noted, "");
}

TEST(test_agent_short_grace_is_never_longer_than_the_other)
{
    agent.conf.failure_us = 900 * MONO_MS;
    run_long();
    worker_exits(1, 7, 0);
    killed_after(500, LONG_OF_1);
}

/* SIGTERM, and SIGKILL behind it. */
TEST(test_agent_short_grace_of_zero_kills_at_once)
{
    agent.conf.failure_us = 0;
    run_long();
    worker_exits(1, 7, 0);
    ck_assert_str_eq(did, "send:failed kill:15:failed ");
    ck_assert_int_le(agent_deadline(&agent), now_us);
    tick();
    ck_assert_str_eq(did, "kill:9 ");
    ck_assert_str_eq(noted, "1 worker, after 0 s (--failure_grace)");
    worker_exits(0, 0, SIGKILL);
    ck_assert_str_eq(did, "sweep send:ready ");
}

/* -- what is told of workers that had to be killed ------------------------- */

/* How the two workers of the round ended, as the report tells it. */
static void told_that(const char *ends)
{
    char text[EXITS_TEXT_MAX + 1];
    exits_print(&agent.round.ended, text);
    ck_assert_str_eq(text, ends);
}

/* -127 is EXITS_UNSTOPPED. One obeys, the other one does not until its time is
 * over; why they were told to stop does not matter, nor what comes later. */
TEST_LOOP(test_agent_worker_killed_when_its_grace_is_over_did_not_stop, 0, 6)
{
    run_long();
    switch (_i) {
    case 0:
        signal_comes(SIGTERM);
        break;
    case 1:
    case 2:
        signal_comes(SIGINT);
        break;
    case 3:
        drain();
        asked(0);
        break;
    case 4:
        end(84);
        break;
    default:
        stop(1);
        break;
    }
    worker_exits(0, 0, SIGTERM);
    pass(500 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
    if (_i == 2) /* Ctrl-C once more, of no use any more */
        signal_comes(SIGINT);
    if (_i == 5) /* the lease is over before it is seen to be dead */
        pass(5000 * MONO_MS);
    worker_exits(1, 0, SIGKILL);
    told_that("0=-15 1=-127 ");
}

/* Its death was known before its end, which took longer than the others had to
 * stop: it is what they were stopped for. */
TEST(test_agent_worker_that_died_first_was_not_asked_to_stop)
{
    run_long();
    worker_dies(1, SIGKILL);
    pass(200 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
    both_die(SIGKILL);
    told_that("0=-127 1=-9 ");
}

/* They had no time to stop in. */
TEST_LOOP(test_agent_worker_killed_at_once_died_by_sigkill, 0, 5)
{
    run_long();
    switch (_i) {
    case 0:
        signal_comes(SIGTERM);
        signal_comes(SIGTERM);
        break;
    case 1:
        signal_comes(SIGINT);
        pass(100 * MONO_MS);
        signal_comes(SIGINT);
        break;
    case 2: /* after a failure, in the short grace */
        stop(1);
        signal_comes(SIGINT);
        signal_comes(SIGINT);
        break;
    case 3: /* its lease is over */
        pass(5000 * MONO_MS);
        break;
    default:
        step((struct agent_event){.kind = AGENT_GUARD_DIED});
        break;
    }
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
    pass(1000 * MONO_MS); /* the time that they would have had */
    both_die(SIGKILL);
    told_that("0-1=-9 ");
}

/* A person or the kernel killed it before its time was over. */
TEST(test_agent_worker_killed_by_others_in_its_grace_died_by_sigkill)
{
    run_long();
    signal_comes(SIGTERM);
    worker_exits(0, 0, SIGKILL);
    pass(500 * MONO_MS);
    worker_exits(1, 0, SIGKILL);
    told_that("0=-9 1=-127 ");
}

/* A round has its own: that of the last one is forgotten. */
TEST(test_agent_grace_is_long_again_in_the_next_round)
{
    run_long();
    worker_exits(1, 7, 0);
    worker_exits(0, 0, 0); /* as it was told to: no success */
    ck_assert_str_eq(did, "sweep send:ready ");
    world("i", 2);
    lease(0, 5000);
    signal_comes(SIGTERM);
    killed_after(500, LONG_OF_2);
}

/* -- drained --------------------------------------------------------------- */

/* Two workers of round 1 are asked to leave, since their node is drained. */
static void run_drained(void)
{
    run();
    drain();
    ck_assert_str_eq(did, "send:leave ask:2 ");
    ck_assert_int_eq(last.leave.what, MSG_LEAVE_NODE);
    ck_assert_int_eq(last.leave.signal, 0);
    asked(2);
}

/* Its workers are asked; it says so again after a reconnect, and ends. */
TEST(test_agent_drained_asks_its_workers_and_goes)
{
    run_drained();
    drain(); /* said again */
    ck_assert_str_eq(did, "");
    stop_gracefully(1);
    ck_assert_str_eq(did, "");
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:leave ");
    worker_exits(0, 0, SIGTERM);
    worker_exits(1, 0, 0);
    ck_assert_str_eq(did, "sweep send:ready exit:80 ");
    ck_assert_str_eq(verdict.text, "drained by ddpctl from 10.0.0.9");
}

/* A peer is gone: there is no step that they could come to. */
TEST(test_agent_drained_workers_are_hurried)
{
    run_drained();
    stop(7); /* of another round */
    ck_assert_str_eq(did, "");
    stop(1);
    ck_assert_str_eq(did, "kill:15:failed ");
    stop(1);
    ck_assert_str_eq(did, "");
    both_die(SIGTERM);
    ck_assert_ptr_nonnull(strstr(did, "exit:80 "));
}

/* A worker that does not leave when asked gets SIGTERM, then SIGKILL. */
TEST(test_agent_drained_workers_have_the_grace)
{
    run_drained();
    lease(0, 5000);
    pass(499 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "kill"));
    pass(1 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:15 "));
    pass(500 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
}

/* Without workers it goes at once; where they were asked already, they are not
 * hurried; and its status stays, however the run ends meanwhile. */
TEST_LOOP(test_agent_drained_in_other_states, 0, 3)
{
    start();
    if (_i == 0) {
        drain();
        ck_assert_str_eq(did, "send:leave send:ready exit:80 ");
        return;
    }
    world("i", 1);
    stop_gracefully(1);
    asked(2);
    drain();
    ck_assert_str_eq(did, "send:leave ");
    if (_i == 2)
        end(7);
    both_die(SIGTERM);
    ck_assert_ptr_nonnull(strstr(did, "exit:80 "));
}

static void drain_due(void)
{
    step((struct agent_event){.kind = AGENT_DRAIN_DUE});
}

/* The server is asked, again and again, and its word decides. */
TEST(test_agent_asks_to_be_drained)
{
    run_long();
    for (int i = 0; i < 2; i++) {
        drain_due();
        ck_assert_str_eq(did, "send:leave ");
        ck_assert_int_eq(last.leave.what, MSG_LEAVE_ASKS);
    }
    drain();
    ck_assert_str_eq(did, "send:leave ask:2 ");
    ck_assert_int_eq(last.leave.what, MSG_LEAVE_NODE);
    drain_due();
    ck_assert_str_eq(did, "");
}

/* Nobody is there to decide; the next check asks. */
TEST(test_agent_without_a_server_asks_nobody)
{
    run_long();
    disconnected();
    drain_due();
    ck_assert_str_eq(did, "");
}

/* -- a notice -------------------------------------------------------------- */

/* SIGUSR1 says that the job ends soon; two workers run. */
static void notice(int attached)
{
    agent.conf.notices = UINT64_C(1) << (SIGUSR1 - 1);
    agent.conf.last_words |= agent.conf.notices;
    run_long();
    signal_comes(SIGUSR1);
    ck_assert_str_eq(did, "send:leave ask:2 ");
    ck_assert_int_eq(last.leave.signal, SIGUSR1);
    ck_assert_int_eq(last.leave.what, MSG_LEAVE_NODE);
    asked(attached);
}

/* The workers leave at a step, the node with the status of the signal. */
TEST(test_agent_notice_asks_its_workers_and_goes)
{
    notice(2);
    signal_comes(
        SIGUSR1); /* of a scheduler that tells all, and the front end */
    ck_assert_str_eq(did, "");
    both_die(SIGTERM);
    ck_assert_ptr_nonnull(strstr(did, "sweep send:ready exit:138 "));
}

/* The scheduler means it at last: there is a grace from then on, whether they
 * were asked or have had SIGTERM. One more signal ends that. */
TEST_LOOP(test_agent_sigterm_after_a_notice_has_a_grace, 0, 4)
{
    notice(_i < 2 ? 2 : 0);
    pass(100 * MONO_MS);
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, _i < 2 ? "kill:15 " : "");
    if (_i % 2 == 0) {
        killed_after(_i < 2 ? 500 : 400, LONG_OF_2);
    } else {
        signal_comes(SIGTERM);
        ck_assert_str_eq(did, "kill:9 ");
        ck_assert_str_eq(noted, "a second signal came");
    }
    both_die(SIGKILL);
    ck_assert_int_eq(verdict.status, 128 + SIGUSR1);
}

/* Without workers it goes at once; those that were told to go are on their way;
 * what was no notice still ends at once. */
TEST_LOOP(test_agent_notice_in_other_states, 0, 3)
{
    agent.conf.notices = UINT64_C(1) << (SIGUSR1 - 1);
    agent.conf.last_words |= agent.conf.notices;
    start();
    if (_i == 0) {
        signal_comes(SIGUSR1);
        ck_assert_str_eq(did, "send:leave send:ready exit:138 ");
        return;
    }
    world("i", 1);
    if (_i == 1) {
        stop_gracefully(1);
        asked(2);
        signal_comes(SIGUSR1);
        ck_assert_str_eq(did, "send:leave ");
        return;
    }
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "send:leave kill:15 ");
    signal_comes(SIGUSR1); /* is no second one */
    ck_assert_str_eq(did, "");
    signal_comes(SIGUSR2);
    ck_assert_str_eq(did, "pass:12 ");
}

AGENT_SUITE("agent_stop")
