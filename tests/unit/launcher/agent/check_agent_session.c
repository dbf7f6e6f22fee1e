/* links: tests/lib/agent_hand */
/* libs: -lcjson */
/*
 * The agent and its way to the server: leases, broken and silent connections,
 * what is said again, and how long it bears to be alone.
 */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/agent_hand.h"

/* -- leases ---------------------------------------------------------------- */

TEST(test_agent_beats_ten_times_in_a_heartbeat)
{
    start();
    pass(99 * MONO_MS);
    ck_assert_str_eq(did, "");
    pass(1 * MONO_MS);
    ck_assert_str_eq(did, "send:beat ");
    ck_assert_int_eq(last.beat.seq, 1);
    ck_assert_int_eq(last.beat.heard, 0);
    pass(100 * MONO_MS);
    ck_assert_int_eq(last.beat.seq, 2);
}

/* The server shows from when on all ranks run. The nodes of a round do not beat
 * in step for that. */
TEST(test_agent_says_at_once_that_its_workers_run)
{
    run();
    ck_assert_str_eq(did, "spawn send:beat ");
    ck_assert_int_eq(last.beat.round, agent.round.world.round);
    pass(99 * MONO_MS);
    ck_assert_str_eq(did, "");
    pass(1 * MONO_MS);
    ck_assert_str_eq(did, "send:beat ");
    ck_assert_int_eq(last.beat.seq, 2);
}

/* News do not wait for the next beat, nor put it off; without a server they do.
 */
TEST(test_agent_sends_news_at_once)
{
    run();
    pass(50 * MONO_MS);
    step((struct agent_event){.kind = AGENT_NEWS});
    ck_assert_str_eq(did, "send:beat ");
    pass(50 * MONO_MS);
    ck_assert_str_eq(did, "send:beat ");
    disconnected();
    step((struct agent_event){.kind = AGENT_NEWS});
    ck_assert_str_eq(did, "");
}

/* It counts from when the beat was sent, not from when the answer came. */
TEST(test_agent_lease_runs_from_its_beat)
{
    run();
    pass(100 * MONO_MS); /* beat 2; beat 1 said that the workers run */
    pass(90 * MONO_MS);
    lease(2, 800);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 710 * MONO_MS);
    pass(709 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "kill"));
    pass(1 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    both_die(9);
    ck_assert_str_eq(did, "sweep send:ready ");
    ck_assert_int_eq(agent_lease_until_us(&agent), MONO_NEVER);
}

/* Nor does a connection say more than what came of the one before, when the
 * time to reach a server is over between the two. */
TEST(test_agent_tells_what_came_of_the_last_connection)
{
    static const char wrong[] = "what it sent is not a ddprun rendezvous";
    static const struct agent_event none = {.kind = AGENT_DISCONNECTED,
                                            .text = "connection refused"};
    static const struct agent_event junk = {.kind = AGENT_DISCONNECTED,
                                            .text = wrong};
    step((struct agent_event){.kind = AGENT_START});
    step(none);
    connected();
    ck_assert_ptr_nonnull(strstr(agent.session.down_text, "does not answer"));
    step(junk);
    connected();
    ck_assert_str_eq(agent.session.down_text, wrong);
}

/* A server of our own that has not spoken yet is no stranger's program. */
TEST(test_agent_knows_its_own_server_from_a_program_that_is_silent)
{
    static const char silent[] = "a program listens on that port, but does not "
                                 "answer as a rendezvous does";
    run();
    disconnected();
    connected();
    ck_assert_str_eq(agent.session.down_text, silent);
    disconnected();
    agent.session.retry_at_us = now_us;
    tick();
    step((struct agent_event){.kind = AGENT_CONNECTED, .own = true});
    ck_assert_str_eq(agent.session.down_text,
                     "the server of this launcher does not lead the run yet");
}

/* An agent that wakes too late kills first, whatever the event is. */
TEST(test_agent_that_wakes_too_late_kills_first)
{
    run();
    now_us += 10 * MONO_S;
    lease(0, 86400000);
    ck_assert_str_eq(did, "kill:9 ");
}

TEST(test_agent_newest_grant_counts_even_if_it_is_shorter)
{
    run();
    lease(0, 60000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 60 * MONO_S);
    pass(100 * MONO_MS);
    lease(2, 800);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
    pass(100 * MONO_MS);
    ck_assert_int_eq(last.beat.heard, 2);
}

TEST(test_agent_answer_to_a_beat_that_was_not_sent_is_ignored)
{
    run();
    lease(9, 60000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
    lease(-1, 60000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
}

TEST(test_agent_world_that_comes_after_the_lease_starts_nothing)
{
    start();
    now_us += 900 * MONO_MS;
    world("i", 1);
    ck_assert_str_eq(did, "send:ready ");
    ck_assert_int_eq(last.ready.round, 1);
}

/* Else a server that breaks off after its first answer is dialled, and told of,
 * in a tight loop. */
TEST(test_agent_connection_that_breaks_at_once_is_tried_again_after_a_pause)
{
    run();
    disconnected();
    ck_assert_str_eq(did, "");
    int64_t pause_us = agent_deadline(&agent) - now_us;
    ck_assert_int_ge(pause_us, 10 * MONO_MS);
    ck_assert_int_le(pause_us, 20 * MONO_MS);
}

/* A firewall may have refused it, while the server lives. */
TEST(test_agent_broken_and_refused_connections_renew_nothing)
{
    run();
    int64_t until_us = agent_lease_until_us(&agent);
    for (int i = 0; i < 4; i++) {
        disconnected();
        now_us += 50 * MONO_MS;
    }
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    pass(800 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
}

/* -- the connection -------------------------------------------------------- */

TEST(test_agent_connection_without_answers_is_broken_off)
{
    run();
    lease(0, 60000);
    pass(1000 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "disconnect connect "));
}

/* Pauses double up to 2.5 s, jittered by half. */
TEST(test_agent_pauses_between_tries_grow)
{
    step((struct agent_event){.kind = AGENT_START});
    int64_t longest_us = 0;
    for (int i = 0; i < 20; i++) {
        disconnected();
        int64_t from_us = now_us;
        while (strstr(did, "connect") == NULL)
            pass(MONO_MS);
        int64_t pause_us = now_us - from_us;
        ck_assert_int_le(pause_us, i == 0 ? 20 * MONO_MS : 2501 * MONO_MS);
        ck_assert(i < 12 || pause_us >= 1250 * MONO_MS);
        if (pause_us > longest_us)
            longest_us = pause_us;
    }
    ck_assert_int_gt(longest_us, 1500 * MONO_MS);
}

/* Where little time is given, a server that is back after half of it is found
 * before the agent gives up. */
TEST(test_agent_pauses_are_short_where_the_time_to_come_back_is)
{
    agent.conf.join.reconnect_ms = 3000;
    run();
    disconnected();
    worker_exits(0, 0, 11);
    worker_exits(1, 0, 15);
    int64_t from_us = now_us;
    int64_t last_us = now_us;
    while (!exited && now_us < from_us + 10 * MONO_S) {
        pass(MONO_MS);
        if (strstr(did, "connect") == NULL)
            continue;
        ck_assert_int_le(now_us - last_us, 376 * MONO_MS);
        last_us = now_us;
        disconnected();
    }
    ck_assert(exited);
    ck_assert_int_ge(now_us - from_us, 2900 * MONO_MS);
    ck_assert_int_le(now_us - last_us, 376 * MONO_MS);
}

/* A server that takes connections and drops them is not run against. */
TEST(test_agent_connection_that_was_not_answered_counts_as_a_failed_try)
{
    start();
    int tries = 0;
    for (int64_t end_us = now_us + 10 * MONO_S; now_us < end_us;) {
        disconnected();
        while (strstr(did, "connect") == NULL)
            pass(MONO_MS);
        connected();
        tries++;
    }
    ck_assert_int_lt(tries, 20);
}

/* What it says after a reconnect, by what it has to say. */
TEST_LOOP(test_agent_says_again_what_the_server_must_know, 0, 5)
{
    run();
    if (_i == 1 || _i == 2)
        worker_exits(1, 7, 0);
    if (_i == 2)
        worker_exits(0, 0, 15);
    if (_i == 3) {
        worker_exits(0, 0, 0);
        worker_exits(1, 0, 0);
    }
    if (_i == 4)
        signal_comes(SIGTERM);
    now_us += 100 * MONO_MS;
    disconnected();
    connected();
    static const char *const says[] = {"send:join ", "send:join send:failed ",
                                       "send:join send:failed send:ready ",
                                       "send:join send:done ",
                                       "send:join send:leave "};
    static const enum msg_state states[] = {MSG_STATE_RUNNING,
                                            MSG_STATE_STOPPED, MSG_STATE_READY,
                                            MSG_STATE_DONE, MSG_STATE_STOPPED};
    ck_assert_str_eq(did, says[_i]);
    ck_assert_int_eq(joined.join.state, states[_i]);
    ck_assert_str_eq(joined.join.instance, "i");
    ck_assert_int_eq(joined.join.round, 1);
    ck_assert_int_eq(joined.join.group_rank, 1);
    ck_assert_int_eq(joined.join.restarts, 3);
    ck_assert_int_eq(joined.join.lease_ms, 700);
}

/* Once the lease was over its workers are dead: a lease that comes after all
 * does not bring them back, another round does. */
TEST(test_agent_whose_lease_was_over_holds_no_workers)
{
    run();
    now_us += 900 * MONO_MS;
    tick();
    both_die(9);
    lease(0, 5000);
    disconnected();
    connected();
    ck_assert_int_eq(joined.join.state, MSG_STATE_READY);
    lease(0, 800);
    world("i", 2);
    disconnected();
    connected();
    ck_assert_int_eq(joined.join.state, MSG_STATE_RUNNING);
}

TEST(test_agent_spare_tells_the_next_server_of_the_round)
{
    start();
    struct msg m = {.kind = MSG_KIND_waiting,
                    .waiting = {.what_for = MSG_FOR_A_PLACE, .round = 6}};
    msg_set(m.waiting.instance, "i");
    hear(&m);
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join ");
    ck_assert_str_eq(joined.join.instance, "i");
    ck_assert_int_eq(joined.join.round, 6);
    ck_assert_int_eq(joined.join.state, MSG_STATE_NONE);
    ck_assert_int_eq(joined.join.group_rank, -1);
    lease(0, 800);
    world("i", 7);
    ck_assert_str_eq(did, "spawn send:beat ");
}

/* -- patience -------------------------------------------------------------- */

/* Tries until it gives up. */
static void try_in_vain(int64_t us)
{
    for (int64_t end_us = now_us + us; now_us < end_us && !exited;) {
        pass(10 * MONO_MS);
        if (strstr(did, "connect") != NULL && !exited)
            disconnected();
    }
}

TEST(test_agent_gives_up_a_server_that_was_never_there)
{
    step((struct agent_event){.kind = AGENT_START});
    disconnected();
    try_in_vain(59 * MONO_S);
    ck_assert(!exited);
    try_in_vain(2 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 69);
    ck_assert(!verdict.ended);
}

TEST_LOOP(test_agent_workers_outlive_the_server_until_their_lease_is_over, 0, 2)
{
    run();
    lease(0, 301000);
    disconnected();
    disconnected();
    try_in_vain(300 * MONO_S);
    ck_assert(!exited);
    ck_assert_int_eq(agent.alive, 2);
    if (_i == 1) {
        try_in_vain(1 * MONO_S);
        ck_assert_int_eq(agent.stop, AGENT_STOP_KILLED);
        return;
    }
    worker_exits(0, 5, 0); /* now there is nothing left to wait for */
    worker_exits(1, 0, 15);
    try_in_vain(1 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 5);
}

TEST(test_agent_done_alone_says_so)
{
    run();
    worker_exits(0, 0, 0);
    worker_exits(1, 0, 0);
    disconnected();
    disconnected();
    try_in_vain(19 * MONO_S);
    ck_assert(!exited);
    try_in_vain(2 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 0);
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "nothing is known"));
}

TEST(test_agent_that_waits_gives_up_a_server_that_is_gone)
{
    start();
    disconnected();
    disconnected();
    try_in_vain(21 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 72);
}

AGENT_SUITE("agent_session")
