/* links: launcher/agent launcher/agent_link launcher/agent_work */
/* links: rendezvous/core/note rendezvous/proto/msg */
/* links: rendezvous/base/err rendezvous/base/mono rendezvous/base/rng */
/* libs: -lcjson */
/*
 * The agent's table of work and events. A server and workers are played by
 * hand; what the agent does is written down as words, one for each action.
 */
#include <check.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/agent.h"
#include "rendezvous/base/mono.h"

static struct agent agent;
static int64_t now_us;
static char did[4000];  /* by the last step: "connect", "send:join", ... */
static struct msg last; /* the last one sent */
static struct msg joined;
static struct agent_verdict verdict;
static bool exited;

static void write_down(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static void write_down(const char *fmt, ...)
{
    size_t len = strlen(did);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(did + len, sizeof(did) - len, fmt, ap);
    va_end(ap);
}

static void on_send(const struct msg *m)
{
    last = *m;
    if (m->kind == MSG_KIND_join)
        joined = *m;
    write_down("send:%s ", msg_name(m->kind));
}

static void emit(void *ctx, const struct agent_action *a)
{
    (void)ctx;
    ck_assert_msg(!exited, "an action after EXIT");
    switch (a->kind) {
    case AGENT_CONNECT:
        write_down("connect ");
        return;
    case AGENT_DISCONNECT:
        write_down("disconnect ");
        return;
    case AGENT_SEND:
        on_send(a->msg);
        return;
    case AGENT_SPAWN:
        write_down("spawn ");
        return;
    case AGENT_KILL:
        write_down("kill:%d ", a->signo);
        return;
    case AGENT_ASK:
        write_down("ask:%d ", (int)a->graceful);
        return;
    case AGENT_CHECK:
        write_down("check ");
        return;
    case AGENT_SWEEP:
        write_down(a->gentle ? "sweep:gently " : "sweep ");
        return;
    case AGENT_NOTE:
        return;
    case AGENT_EXIT:
        write_down("exit:%d ", a->verdict->status);
        verdict = *a->verdict;
        exited = true;
        return;
    }
}

static void step(struct agent_event ev)
{
    struct agent_actions out = {.emit = emit};
    ev.now_us = now_us;
    did[0] = '\0';
    agent_step(&agent, &ev, &out);
}

static void tick(void)
{
    step((struct agent_event){.kind = AGENT_TICK});
}

/* Runs the clock to `us` from now, with the ticks that are due; all that was
 * done meanwhile stands in `did`. */
static void pass(int64_t us)
{
    static char all[4000];
    int64_t end_us = now_us + us;
    all[0] = '\0';
    for (int turns = 0; agent_deadline(&agent) <= end_us; turns++) {
        ck_assert_int_lt(turns, 5000);
        if (agent_deadline(&agent) > now_us)
            now_us = agent_deadline(&agent);
        tick();
        if (strlen(all) + strlen(did) < sizeof(all))
            strcat(all, did);
    }
    now_us = end_us;
    memcpy(did, all, sizeof(all));
}

static void hear(const struct msg *m)
{
    step((struct agent_event){.kind = AGENT_MSG, .msg = m});
}

static void link_up(void)
{
    step((struct agent_event){.kind = AGENT_LINK_UP});
}

static void link_down(bool refused)
{
    step((struct agent_event){
        .kind = AGENT_LINK_DOWN, .refused = refused, .text = "test"});
}

static void lease(int64_t seq, int64_t grant_ms)
{
    struct msg m = {.kind = MSG_KIND_lease};
    m.lease.seq = seq;
    m.lease.grant_ms = grant_ms;
    hear(&m);
}

static void world(const char *instance, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_world,
                    .world = {.round = round,
                              .group_rank = 1,
                              .group_world = 2,
                              .base_rank = 2,
                              .world_size = 4,
                              .restarts = 3}};
    msg_set(m.world.instance, instance);
    hear(&m);
}

static void stop(int64_t round)
{
    struct msg m = {.kind = MSG_KIND_stop, .stop.round = round};
    hear(&m);
}

static void end(int status)
{
    struct msg m = {.kind = MSG_KIND_end, .end.status = status};
    hear(&m);
}

static void worker_ends(int local, int code, int signo)
{
    step((struct agent_event){.kind = AGENT_WORKER_EXIT,
                              .worker = {.local_rank = local,
                                         .pid = 100 + local,
                                         .code = code,
                                         .signal = signo}});
}

static void signal_comes(int signo)
{
    step((struct agent_event){.kind = AGENT_SIGNAL, .signo = signo});
}

/* -- worlds ------------------------------------------------------------------
 */

/* Two workers, heartbeat 1 s, so a beat each 200 ms and leases of 800 ms. */
static void setup(void)
{
    struct agent_conf conf = {.shutdown_us = 500 * MONO_MS, .seed = 1};
    conf.join = (struct msg_join){.nproc = 2,
                                  .heartbeat_ms = 1000,
                                  .reconnect_ms = 20000,
                                  .join_ms = 60000,
                                  .group_rank = -1};
    msg_set(conf.join.name, "n");
    agent_init(&agent, &conf);
    now_us = 1000 * MONO_S;
    exited = false;
    did[0] = '\0';
}

static void start(void)
{
    step((struct agent_event){.kind = AGENT_START});
    ck_assert_str_eq(did, "connect ");
    link_up();
    ck_assert_str_eq(did, "send:join ");
    lease(0, 800);
}

static void run(void)
{
    start();
    world("i", 1);
    ck_assert_str_eq(did, "spawn ");
}

static void both_die(int signo)
{
    worker_ends(0, 0, signo);
    worker_ends(1, 0, signo);
}

/* -- a round and its ends -------------------------------------------------- */

START_TEST(test_agent_first_join_holds_nothing)
{
    start();
    ck_assert_int_eq(joined.join.round, 0);
    ck_assert_int_eq(joined.join.state, MSG_STATE_NONE);
    ck_assert_int_eq(joined.join.group_rank, -1);
    ck_assert_str_eq(joined.join.instance, "");
}
END_TEST

START_TEST(test_agent_failure_stops_the_others_and_is_told)
{
    run();
    worker_ends(1, 7, 0);
    ck_assert_str_eq(did, "send:failed kill:15 ");
    ck_assert_int_eq(last.failed.rank, 3);
    ck_assert_int_eq(last.failed.local_rank, 1);
    ck_assert_int_eq(last.failed.code, 7);
    worker_ends(0, 0, 15);
    ck_assert_str_eq(did, "sweep send:ready ");
    ck_assert_int_eq(last.ready.round, 1);
}
END_TEST

START_TEST(test_agent_worker_that_ignores_sigterm_is_killed_after_the_grace)
{
    run();
    pass(100 * MONO_MS);
    lease(0, 5000);
    stop(1);
    ck_assert_str_eq(did, "kill:15 ");
    pass(499 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "kill"));
    pass(1 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    pass(3000 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "kill")); /* once is enough */
}
END_TEST

/* Exit 0 counts only of workers that were not asked to stop. */
START_TEST(test_agent_all_exit_0_is_done)
{
    run();
    worker_ends(0, 0, 0);
    ck_assert_str_eq(did, "");
    worker_ends(1, 0, 0);
    ck_assert_str_eq(did, "sweep:gently send:done ");
    stop(1);
    ck_assert_str_eq(did, "sweep send:ready ");
    world("i", 2);
    ck_assert_str_eq(did, "spawn ");
    stop(2);
    worker_ends(0, 0, 0);
    worker_ends(1, 0, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
}
END_TEST

START_TEST(test_agent_only_the_first_failure_of_a_round_is_told)
{
    run();
    worker_ends(1, 7, 0);
    worker_ends(0, 9, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
    world("i", 2);
    worker_ends(0, 9, 0);
    ck_assert_ptr_nonnull(strstr(did, "send:failed"));
    ck_assert_int_eq(last.failed.round, 2);
}
END_TEST

START_TEST(test_agent_stop_of_another_round_is_ignored)
{
    run();
    stop(7);
    ck_assert_str_eq(did, "");
    worker_ends(0, 0, 0);
    worker_ends(1, 0, 0);
    stop(7); /* not when it is done either */
    ck_assert_str_eq(did, "");
}
END_TEST

/* It never got the round's world: then no worker of it runs here. */
START_TEST(test_agent_stop_of_an_unknown_round_is_answered)
{
    start();
    stop(4);
    ck_assert_str_eq(did, "send:ready ");
    ck_assert_int_eq(last.ready.round, 4);
}
END_TEST

START_TEST(test_agent_world_is_taken_only_once_and_only_when_idle)
{
    run();
    world("i", 2);
    ck_assert_str_eq(did, "");
    stop(1);
    both_die(15);
    world("i", 1);
    ck_assert_str_eq(did, "");
    world("i", 2);
    ck_assert_str_eq(did, "spawn ");
    stop(2);
    both_die(15);
    world("j", 1); /* another instance counts for itself */
    ck_assert_str_eq(did, "spawn ");
}
END_TEST

START_TEST(test_agent_spawn_failure_stops_those_that_started)
{
    run();
    step((struct agent_event){.kind = AGENT_SPAWN_FAILED,
                              .started = 1,
                              .worker = {.local_rank = 1,
                                         .code = 127,
                                         .permanent = true,
                                         .text = "not found"}});
    ck_assert_str_eq(did, "send:failed kill:15 ");
    ck_assert_int_eq(last.failed.permanent, 1);
    ck_assert_str_eq(last.failed.text, "not found");
    worker_ends(0, 0, 15);
    ck_assert_str_eq(did, "sweep send:ready ");
}
END_TEST

START_TEST(test_agent_spawn_failure_of_the_first_worker_is_ready_at_once)
{
    run();
    step((struct agent_event){
        .kind = AGENT_SPAWN_FAILED, .started = 0, .worker = {.code = 126}});
    ck_assert_str_eq(did, "send:failed sweep send:ready ");
}
END_TEST

/* -- leases ---------------------------------------------------------------- */

START_TEST(test_agent_beats_five_times_in_a_heartbeat)
{
    start();
    pass(199 * MONO_MS);
    ck_assert_str_eq(did, "");
    pass(1 * MONO_MS);
    ck_assert_str_eq(did, "send:beat ");
    ck_assert_int_eq(last.beat.seq, 1);
    ck_assert_int_eq(last.beat.heard, 0);
    pass(200 * MONO_MS);
    ck_assert_int_eq(last.beat.seq, 2);
}
END_TEST

/* It counts from when the beat was sent, not from when the answer came. */
START_TEST(test_agent_lease_runs_from_its_beat)
{
    run();
    pass(200 * MONO_MS); /* beat 1 */
    pass(150 * MONO_MS);
    lease(1, 800);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 650 * MONO_MS);
    pass(649 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "kill"));
    pass(1 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    both_die(9);
    ck_assert_str_eq(did, "sweep send:ready ");
    ck_assert_int_eq(agent_lease_until_us(&agent), MONO_NEVER);
}
END_TEST

/* Whoever wakes too late kills first, whatever the event is. */
START_TEST(test_agent_that_wakes_too_late_kills_first)
{
    run();
    now_us += 10 * MONO_S;
    lease(0, 86400000);
    ck_assert_str_eq(did, "kill:9 ");
}
END_TEST

START_TEST(test_agent_newest_grant_counts_even_if_it_is_shorter)
{
    run();
    lease(0, 60000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 60 * MONO_S);
    pass(200 * MONO_MS);
    lease(1, 800);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
    pass(200 * MONO_MS);
    ck_assert_int_eq(last.beat.heard, 1);
}
END_TEST

/* A long lease was for the round that is over. */
START_TEST(test_agent_long_lease_ends_with_its_round)
{
    run();
    lease(0, 60000);
    stop(1);
    both_die(15);
    pass(100 * MONO_MS);
    lease(0, 60000); /* still under way when the server heard `ready` */
    world("i", 2);
    ck_assert_str_eq(did, "spawn ");
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 700 * MONO_MS);
}
END_TEST

START_TEST(test_agent_answer_to_a_beat_that_was_not_sent_is_ignored)
{
    run();
    lease(9, 60000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
    lease(-1, 60000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
}
END_TEST

START_TEST(test_agent_world_that_comes_after_the_lease_starts_nothing)
{
    start();
    now_us += 900 * MONO_MS;
    world("i", 1);
    ck_assert_str_eq(did, "send:ready ");
    ck_assert_int_eq(last.ready.round, 1);
}
END_TEST

/* Else a server that breaks off after its first answer is dialled, and told of,
 * in a tight loop. */
START_TEST(test_agent_link_that_breaks_at_once_is_tried_again_after_a_pause)
{
    run();
    link_down(false);
    ck_assert_str_eq(did, "");
    int64_t pause_us = agent_deadline(&agent) - now_us;
    ck_assert_int_ge(pause_us, 10 * MONO_MS);
    ck_assert_int_le(pause_us, 20 * MONO_MS);
}
END_TEST

/* Only a refusal proves that the server is gone; it is worth 5 s and a short
 * lease from when the try began, as long as the lease was not over. */
START_TEST(test_agent_refused_connection_renews_the_lease)
{
    run();
    now_us += 200 * MONO_MS;
    link_down(false);
    ck_assert_str_eq(did, "connect ");
    int64_t tried_us = now_us;
    now_us += 50 * MONO_MS;
    link_down(true);
    ck_assert_int_eq(agent_lease_until_us(&agent), tried_us + 5800 * MONO_MS);
    for (int i = 0; i < 200; i++) {
        while (strstr(did, "connect") == NULL)
            pass(10 * MONO_MS);
        ck_assert_ptr_null(strstr(did, "kill"));
        link_down(true);
    }
    ck_assert_int_gt(now_us - tried_us, 200 * MONO_S);
}
END_TEST

START_TEST(test_agent_other_broken_connections_renew_nothing)
{
    run();
    int64_t until_us = agent_lease_until_us(&agent);
    link_down(false);
    now_us += 50 * MONO_MS;
    link_down(false);
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    pass(800 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    link_down(true); /* too late */
    ck_assert_int_lt(agent.lease_until_us, now_us);
}
END_TEST

/* -- the link -------------------------------------------------------------- */

START_TEST(test_agent_link_without_answers_is_broken_off)
{
    run();
    lease(0, 60000);
    pass(1000 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "disconnect connect "));
}
END_TEST

/* Pauses double up to 2.5 s, jittered by half. */
START_TEST(test_agent_pauses_between_tries_grow)
{
    step((struct agent_event){.kind = AGENT_START});
    int64_t longest_us = 0;
    for (int i = 0; i < 20; i++) {
        link_down(true);
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
END_TEST

/* Where little time is given, a server that is back after half of it is found
 * before the agent gives up. */
START_TEST(test_agent_pauses_are_short_where_the_time_to_come_back_is)
{
    agent.conf.join.reconnect_ms = 3000;
    run();
    link_down(true);
    worker_ends(0, 0, 11);
    worker_ends(1, 0, 15);
    int64_t from_us = now_us;
    int64_t last_us = now_us;
    while (!exited && now_us < from_us + 10 * MONO_S) {
        pass(MONO_MS);
        if (strstr(did, "connect") == NULL)
            continue;
        ck_assert_int_le(now_us - last_us, 376 * MONO_MS);
        last_us = now_us;
        link_down(true);
    }
    ck_assert(exited);
    ck_assert_int_ge(now_us - from_us, 2900 * MONO_MS);
    ck_assert_int_le(now_us - last_us, 376 * MONO_MS);
}
END_TEST

/* A server that takes connections and drops them is not run against. */
START_TEST(test_agent_connection_that_was_not_answered_counts_as_a_failed_try)
{
    start();
    int tries = 0;
    for (int64_t end_us = now_us + 10 * MONO_S; now_us < end_us;) {
        link_down(false);
        while (strstr(did, "connect") == NULL)
            pass(MONO_MS);
        link_up();
        tries++;
    }
    ck_assert_int_lt(tries, 20);
}
END_TEST

/* What it says after a reconnect, by what it has to say. */
START_TEST(test_agent_says_again_what_the_server_must_know)
{
    run();
    if (_i == 1 || _i == 2)
        worker_ends(1, 7, 0);
    if (_i == 2)
        worker_ends(0, 0, 15);
    if (_i == 3) {
        worker_ends(0, 0, 0);
        worker_ends(1, 0, 0);
    }
    if (_i == 4)
        signal_comes(SIGTERM);
    now_us += 100 * MONO_MS;
    link_down(false);
    link_up();
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
    ck_assert_int_eq(joined.join.group_world, 2);
    ck_assert_int_eq(joined.join.restarts, 3);
    ck_assert_int_eq(joined.join.sure, 1);
    ck_assert_int_eq(joined.join.lease_ms, _i == 2 || _i == 3 ? 0 : 700);
}
END_TEST

/* Once the lease was over, rounds may have gone by; a new one makes it sure. */
START_TEST(test_agent_whose_lease_was_over_is_not_sure_of_its_round)
{
    run();
    now_us += 900 * MONO_MS;
    tick();
    both_die(9);
    lease(0, 5000);
    link_down(false);
    link_up();
    ck_assert_int_eq(joined.join.sure, 0);
    lease(0, 800);
    world("i", 2);
    link_down(false);
    link_up();
    ck_assert_int_eq(joined.join.sure, 1);
}
END_TEST

START_TEST(test_agent_spare_tells_the_next_server_of_the_round)
{
    start();
    struct msg m = {
        .kind = MSG_KIND_waiting,
        .waiting = {.spare = 1, .round = 6, .group_world = 4, .restarts = 2}};
    msg_set(m.waiting.instance, "i");
    hear(&m);
    link_down(false);
    link_up();
    ck_assert_str_eq(did, "send:join ");
    ck_assert_str_eq(joined.join.instance, "i");
    ck_assert_int_eq(joined.join.round, 6);
    ck_assert_int_eq(joined.join.state, MSG_STATE_NONE);
    ck_assert_int_eq(joined.join.group_rank, -1);
    ck_assert_int_eq(joined.join.group_world, 4);
    ck_assert_int_eq(joined.join.restarts, 2);
    lease(0, 800);
    world("i", 7);
    ck_assert_str_eq(did, "spawn ");
}
END_TEST

/* -- going ----------------------------------------------------------------- */

START_TEST(test_agent_end_stops_workers_and_says_bye)
{
    run();
    end(0);
    ck_assert_str_eq(did, "kill:15 ");
    worker_ends(0, 0, 15);
    worker_ends(1, 0, 15);
    ck_assert_str_eq(did, "sweep send:bye exit:0 ");
    ck_assert(verdict.ended);
    ck_assert_int_eq(agent_deadline(&agent), MONO_NEVER);
    tick();
    ck_assert_str_eq(did, "");
}
END_TEST

START_TEST(test_agent_end_after_a_fence_is_the_end)
{
    run();
    now_us += 900 * MONO_MS;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    end(3);
    worker_ends(0, 0, 9);
    worker_ends(1, 0, 9);
    ck_assert_str_eq(did, "sweep send:bye exit:3 ");
}
END_TEST

static void end_held(int status)
{
    struct msg m = {.kind = MSG_KIND_end, .end = {.status = status, .hold = 1}};
    hear(&m);
}

/* Told of an end that not all know of yet: its workers go at once, it stays; a
 * server that takes over is told, and one that says the same again, or will not
 * have it, or never comes, makes it go with that status. */
START_TEST(test_agent_stays_until_all_know_of_the_end)
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
    link_down(false);
    pass(2 * MONO_S);
    ck_assert_ptr_nonnull(strstr(did, "connect "));
    ck_assert(!exited);
    if (_i == 1) {
        pass(20 * MONO_S);
        ck_assert_ptr_nonnull(strstr(did, "exit:3 "));
        return;
    }
    link_up();
    ck_assert_str_eq(did, "send:join ");
    ck_assert_int_eq(joined.join.ended, 1);
    ck_assert_int_eq(joined.join.end_status, 3);
    if (_i == 2) {
        end(3);
        ck_assert_str_eq(did, "send:bye exit:3 ");
        return;
    }
    struct msg m = {.kind = MSG_KIND_refused, .refused.code = 1};
    hear(&m);
    ck_assert_str_eq(did, "send:bye exit:3 ");
}
END_TEST

START_TEST(test_agent_that_knows_of_the_end_does_not_come_back)
{
    run();
    end(1);
    link_down(false);
    ck_assert_str_eq(did, "");
    pass(400 * MONO_MS);
    ck_assert_str_eq(did, "");
    both_die(15);
    ck_assert_str_eq(did, "sweep exit:1 ");
}
END_TEST

START_TEST(test_agent_sigterm_leaves_with_the_same_signal)
{
    run();
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "send:leave kill:15 ");
    ck_assert_int_eq(last.leave.all, 0);
    both_die(15);
    ck_assert_str_eq(did, "sweep send:ready exit:143 ");
}
END_TEST

START_TEST(test_agent_second_signal_ends_the_grace)
{
    run();
    signal_comes(SIGTERM);
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "kill:9 ");
}
END_TEST

START_TEST(test_agent_other_signals_are_passed_on)
{
    run();
    signal_comes(SIGUSR1);
    ck_assert_str_eq(did, "kill:10 ");
    ck_assert(!exited);
}
END_TEST

/* --signals_to_handle says which one is an order to go, and which is the
 * workers' own business. */
START_TEST(test_agent_signals_to_go_can_be_chosen)
{
    agent.conf.last_words = UINT64_C(1) << (SIGUSR1 - 1);
    run();
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "kill:15 ");
    ck_assert(!exited);
    signal_comes(SIGUSR1);
    ck_assert_str_eq(did, "send:leave kill:10 ");
    ck_assert_int_eq(last.leave.all, 0);
    signal_comes(SIGUSR1);
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    both_die(9);
    ck_assert_ptr_nonnull(strstr(did, "exit:138"));
}
END_TEST

/* The order to end the run must not be lost with the connection. */
START_TEST(test_agent_interrupt_waits_for_the_servers_end)
{
    run();
    signal_comes(SIGINT);
    ck_assert_str_eq(did, "send:leave kill:2 ");
    ck_assert_int_eq(last.leave.all, 1);
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
END_TEST

START_TEST(test_agent_interrupt_before_the_server_was_reached_ends_at_once)
{
    step((struct agent_event){.kind = AGENT_START});
    signal_comes(SIGINT);
    ck_assert_str_eq(did, "exit:130 ");
}
END_TEST

/* The server takes the end of the connection as the death of all: so it comes
 * after it, and nothing is said before. */
START_TEST(test_agent_orphan_ends_when_its_workers_are_dead)
{
    run();
    step((struct agent_event){.kind = AGENT_ORPHANED});
    ck_assert_ptr_nonnull(strstr(did, "kill:9"));
    ck_assert_ptr_null(strstr(did, "send"));
    ck_assert(!exited);
    worker_ends(0, 0, 9);
    worker_ends(1, 0, 9);
    ck_assert_str_eq(did, "sweep exit:137 ");
}
END_TEST

START_TEST(test_agent_orphan_without_workers_ends_at_once)
{
    start();
    step((struct agent_event){.kind = AGENT_ORPHANED});
    ck_assert_str_eq(did, "exit:137 ");
}
END_TEST

START_TEST(test_agent_refused_by_the_server_goes_and_does_not_come_back)
{
    run();
    struct msg m = {.kind = MSG_KIND_refused,
                    .refused = {.code = DDP_E_CONFLICT}};
    msg_set(m.refused.text, "because");
    hear(&m);
    ck_assert_str_eq(did, "kill:15 ");
    link_down(false);
    ck_assert_str_eq(did, "");
    both_die(15);
    ck_assert_str_eq(did, "sweep exit:65 ");
    ck_assert_ptr_nonnull(strstr(verdict.text, "because"));
}
END_TEST

/* -- patience -------------------------------------------------------------- */

/* Tries until it gives up; the tries are refused, or time out after 3 s. */
static void try_in_vain(bool refused, int64_t us)
{
    for (int64_t end_us = now_us + us; now_us < end_us && !exited;) {
        pass(10 * MONO_MS);
        if (strstr(did, "connect") != NULL && !exited)
            link_down(refused);
    }
}

START_TEST(test_agent_gives_up_a_server_that_was_never_there)
{
    step((struct agent_event){.kind = AGENT_START});
    link_down(true);
    try_in_vain(true, 59 * MONO_S);
    ck_assert(!exited);
    try_in_vain(true, 2 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 69);
    ck_assert(!verdict.ended);
}
END_TEST

START_TEST(test_agent_workers_outlive_the_server_as_long_as_they_run)
{
    run();
    link_down(false);
    link_down(true);
    try_in_vain(true, 300 * MONO_S);
    ck_assert(!exited);
    ck_assert_int_eq(agent.alive, 2);
    worker_ends(0, 5, 0); /* now there is nothing left to wait for */
    worker_ends(1, 0, 15);
    try_in_vain(true, 1 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 5);
}
END_TEST

START_TEST(test_agent_done_alone_says_so)
{
    run();
    worker_ends(0, 0, 0);
    worker_ends(1, 0, 0);
    link_down(false);
    link_down(true);
    try_in_vain(true, 19 * MONO_S);
    ck_assert(!exited);
    try_in_vain(true, 2 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 0);
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "nothing is known"));
}
END_TEST

START_TEST(test_agent_that_waits_gives_up_a_server_that_is_gone)
{
    start();
    link_down(false);
    link_down(true);
    try_in_vain(true, 21 * MONO_S);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 72);
}
END_TEST

static void add_tests(TCase *t)
{
    const TTest *const tests[] = {
        test_agent_first_join_holds_nothing,
        test_agent_failure_stops_the_others_and_is_told,
        test_agent_worker_that_ignores_sigterm_is_killed_after_the_grace,
        test_agent_all_exit_0_is_done,
        test_agent_only_the_first_failure_of_a_round_is_told,
        test_agent_stop_of_another_round_is_ignored,
        test_agent_stop_of_an_unknown_round_is_answered,
        test_agent_world_is_taken_only_once_and_only_when_idle,
        test_agent_spawn_failure_stops_those_that_started,
        test_agent_spawn_failure_of_the_first_worker_is_ready_at_once,
        test_agent_beats_five_times_in_a_heartbeat,
        test_agent_lease_runs_from_its_beat,
        test_agent_that_wakes_too_late_kills_first,
        test_agent_newest_grant_counts_even_if_it_is_shorter,
        test_agent_long_lease_ends_with_its_round,
        test_agent_answer_to_a_beat_that_was_not_sent_is_ignored,
        test_agent_world_that_comes_after_the_lease_starts_nothing,
        test_agent_link_that_breaks_at_once_is_tried_again_after_a_pause,
        test_agent_refused_connection_renews_the_lease,
        test_agent_other_broken_connections_renew_nothing,
        test_agent_link_without_answers_is_broken_off,
        test_agent_pauses_between_tries_grow,
        test_agent_pauses_are_short_where_the_time_to_come_back_is,
        test_agent_connection_that_was_not_answered_counts_as_a_failed_try,
        test_agent_whose_lease_was_over_is_not_sure_of_its_round,
        test_agent_spare_tells_the_next_server_of_the_round,
        test_agent_end_stops_workers_and_says_bye,
        test_agent_end_after_a_fence_is_the_end,
        test_agent_that_knows_of_the_end_does_not_come_back,
        test_agent_sigterm_leaves_with_the_same_signal,
        test_agent_second_signal_ends_the_grace,
        test_agent_other_signals_are_passed_on,
        test_agent_signals_to_go_can_be_chosen,
        test_agent_interrupt_before_the_server_was_reached_ends_at_once,
        test_agent_orphan_ends_when_its_workers_are_dead,
        test_agent_orphan_without_workers_ends_at_once,
        test_agent_refused_by_the_server_goes_and_does_not_come_back,
        test_agent_gives_up_a_server_that_was_never_there,
        test_agent_workers_outlive_the_server_as_long_as_they_run,
        test_agent_done_alone_says_so,
        test_agent_that_waits_gives_up_a_server_that_is_gone,
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(t, tests[i]);
    tcase_add_loop_test(t, test_agent_says_again_what_the_server_must_know, 0,
                        5);
    tcase_add_loop_test(t, test_agent_stays_until_all_know_of_the_end, 0, 4);
    tcase_add_loop_test(t, test_agent_interrupt_waits_for_the_servers_end, 0,
                        2);
}

/* -- asked to leave ---------------------------------------------------------
 */

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

START_TEST(test_agent_graceful_stop_asks_and_waits)
{
    ask(2);
    stop_gracefully(1); /* said again after a reconnect */
    ck_assert_str_eq(did, "");
    worker_ends(0, 0, SIGTERM);
    ck_assert_str_eq(did, "");
    worker_ends(1, 143, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
}
END_TEST

/* SIGTERM after the grace, SIGKILL after another one. */
START_TEST(test_agent_who_does_not_leave_is_told_then_killed)
{
    ask(1);
    now_us += 500 * MONO_MS - 1;
    tick();
    ck_assert_ptr_null(strstr(did, "kill"));
    now_us += 1;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:15 "));
    lease(agent.beat_seq, 800);
    now_us += 500 * MONO_MS;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
}
END_TEST

/* Where none looks, the shell has sent SIGTERM: there is one grace only. */
START_TEST(test_agent_grace_runs_at_once_where_nobody_looks)
{
    ask(0);
    now_us += 500 * MONO_MS;
    tick();
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
}
END_TEST

/* A failure, a stop that is not graceful, a signal, the end of the run. */
START_TEST(test_agent_patience_ends_early)
{
    ask(2);
    switch (_i) {
    case 0:
        worker_ends(0, 3, 0);
        ck_assert_str_eq(did, "kill:15 ");
        return;
    case 1:
        stop(1);
        ck_assert_str_eq(did, "kill:15 ");
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
END_TEST

/* What was done is done: a node whose workers all succeeded is not asked. */
START_TEST(test_agent_done_node_that_is_asked_is_ready)
{
    start();
    world("i", 1);
    worker_ends(0, 0, 0);
    worker_ends(1, 0, 0);
    stop_gracefully(1);
    ck_assert_ptr_nonnull(strstr(did, "send:ready "));
    ck_assert_ptr_null(strstr(did, "ask"));
}
END_TEST

/* -- progress and the budget ------------------------------------------------
 */

/* Whether any worker of the round got on goes with `ready`. */
START_TEST(test_agent_ready_tells_of_progress)
{
    start();
    world("i", 1);
    step((struct agent_event){
        .kind = AGENT_WORKER_EXIT,
        .worker = {.local_rank = 0, .code = 1, .progressed = _i == 1}});
    worker_ends(1, 0, SIGTERM);
    ck_assert_int_eq(last.kind, MSG_KIND_ready);
    ck_assert_int_eq(last.ready.progress, _i);
    world("i", 2);
    worker_ends(0, 1, 0);
    worker_ends(1, 0, SIGTERM);
    ck_assert_int_eq(last.ready.progress, 0);
}
END_TEST

START_TEST(test_agent_join_tells_what_counts_in_the_window)
{
    start();
    struct msg m = {.kind = MSG_KIND_world,
                    .world = {.round = 1,
                              .group_world = 1,
                              .restarts = 9,
                              .recent = 2,
                              .barren = 2,
                              .scale_left_ms = 500,
                              .struck = 1}};
    msg_set(m.world.instance, "i");
    hear(&m);
    now_us += 300 * MONO_MS;
    link_down(false);
    link_up();
    ck_assert_int_eq(joined.join.restarts, 9);
    ck_assert_int_eq(joined.join.recent, 2);
    ck_assert_int_eq(joined.join.recent_ms, 300);
    ck_assert_int_eq(joined.join.barren, 2);
    ck_assert_int_eq(joined.join.scale_left_ms, 200);
    ck_assert_int_eq(joined.join.struck, 1);
    ck_assert_int_eq(joined.join.aside_ms, 0);
}
END_TEST

/* -- drained --------------------------------------------------------------- */

static void drain(void)
{
    struct msg m = {.kind = MSG_KIND_drain};
    msg_set(m.drain.text, "drained by ddpctl from 10.0.0.9");
    hear(&m);
}

/* Its workers are asked; it says so again after a reconnect, and ends. */
START_TEST(test_agent_drained_asks_its_workers_and_goes)
{
    run();
    drain();
    ck_assert_str_eq(did, "send:leave ask:2 ");
    ck_assert_int_eq(last.leave.all, 0);
    ck_assert_int_eq(last.leave.signal, 0);
    asked(2);
    drain(); /* said again */
    ck_assert_str_eq(did, "");
    stop(1);
    ck_assert_str_eq(did, "");
    link_down(false);
    link_up();
    ck_assert_str_eq(did, "send:join send:leave ");
    worker_ends(0, 0, SIGTERM);
    worker_ends(1, 0, 0);
    ck_assert_str_eq(did, "sweep send:ready exit:80 ");
    ck_assert_str_eq(verdict.text, "drained by ddpctl from 10.0.0.9");
}
END_TEST

/* Who does not leave when asked gets SIGTERM, then SIGKILL. */
START_TEST(test_agent_drained_workers_have_the_grace)
{
    run();
    drain();
    asked(2);
    lease(0, 5000);
    pass(499 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "kill"));
    pass(1 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:15 "));
    pass(500 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "kill:9 "));
}
END_TEST

/* Without workers it goes at once; where they were asked already, they are not
 * hurried; and its status stays, however the run ends meanwhile. */
START_TEST(test_agent_drained_in_other_states)
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
END_TEST

static void worker_hangs(int local, int64_t silent_us)
{
    step((struct agent_event){.kind = AGENT_WORKER_HUNG,
                              .silent_us = silent_us,
                              .worker = {.local_rank = local,
                                         .pid = 100 + local,
                                         .code = 80,
                                         .text = "no beat for 7 s"}});
}

/* A worker that hangs is a failure of when it fell silent; it lives, and is
 * counted when it ends. */
START_TEST(test_agent_hung_worker_is_a_failure)
{
    start();
    lease(0, 800);
    world("aa", 1);
    struct msg_failed failed;
    worker_hangs(1, 7 * MONO_S);
    ck_assert_str_eq(did, "send:failed kill:15 ");
    failed = agent.failed;
    ck_assert_int_eq(failed.hung, 1);
    ck_assert_int_eq(failed.rank, 3);
    ck_assert_int_eq(agent.failed_at_us, now_us - 7 * MONO_S);
    ck_assert_str_eq(failed.text, "no beat for 7 s");
    worker_hangs(0, 7 * MONO_S); /* they are stopped already */
    ck_assert_str_eq(did, "");
    worker_ends(0, 0, SIGTERM);
    worker_ends(1, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep send:ready ");
}
END_TEST

static void checked(bool fit)
{
    step((struct agent_event){
        .kind = AGENT_CHECKED, .fit = fit, .text = "GPU 3 is lost"});
}

/* The node's health comes before its first connection. */
START_TEST(test_agent_checks_before_it_joins)
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
END_TEST

/* ... and between a failure and the next round, whoever asks meanwhile. */
START_TEST(test_agent_checks_after_a_failure)
{
    start();
    agent.conf.checks = true;
    lease(0, 100000);
    world("aa", 1);
    worker_ends(0, 3, 0);
    stop(1);
    worker_ends(1, 0, SIGTERM);
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
END_TEST

/* Where a round ends since a node joins, or all went well, nothing is looked
 * at; and a signal does not wait for a check. */
START_TEST(test_agent_checks_no_more_than_that)
{
    start();
    agent.conf.checks = true;
    lease(0, 100000);
    world("aa", 1);
    struct msg m = {.kind = MSG_KIND_stop,
                    .stop = {.round = 1, .graceful = MSG_SCALE_UP}};
    hear(&m);
    worker_ends(0, 0, 0);
    worker_ends(1, 0, 0);
    ck_assert_str_eq(did, "sweep send:ready ");
    world("aa", 2);
    worker_ends(0, 3, 0);
    worker_ends(1, 0, SIGTERM);
    ck_assert_str_eq(did, "sweep check ");
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "send:leave send:ready exit:143 ");
}
END_TEST

static void add_asked(TCase *t)
{
    tcase_add_test(t, test_agent_drained_asks_its_workers_and_goes);
    tcase_add_test(t, test_agent_drained_workers_have_the_grace);
    tcase_add_loop_test(t, test_agent_drained_in_other_states, 0, 3);
    tcase_add_loop_test(t, test_agent_checks_before_it_joins, 0, 2);
    tcase_add_loop_test(t, test_agent_checks_after_a_failure, 0, 2);
    tcase_add_test(t, test_agent_checks_no_more_than_that);
    tcase_add_test(t, test_agent_hung_worker_is_a_failure);
    tcase_add_test(t, test_agent_graceful_stop_asks_and_waits);
    tcase_add_test(t, test_agent_who_does_not_leave_is_told_then_killed);
    tcase_add_test(t, test_agent_grace_runs_at_once_where_nobody_looks);
    tcase_add_loop_test(t, test_agent_patience_ends_early, 0, 4);
    tcase_add_test(t, test_agent_done_node_that_is_asked_is_ready);
    tcase_add_loop_test(t, test_agent_ready_tells_of_progress, 0, 2);
    tcase_add_test(t, test_agent_join_tells_what_counts_in_the_window);
}

int main(void)
{
    Suite *suite = suite_create("agent");
    TCase *tcase = tcase_create("agent");
    tcase_set_tags(tcase, "fast");
    tcase_add_checked_fixture(tcase, setup, NULL);
    add_tests(tcase);
    add_asked(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
