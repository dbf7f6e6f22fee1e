/* links: tests/lib/obey */
/* links: tests/unit/status_hand CORE ACCOUNT rendezvous/http/http_routes */
/* links: rendezvous/http/http_hosts */
/* links: rendezvous/http/status rendezvous/http/page */
/* links: rendezvous/http/overview */
/* links: rendezvous/http/groups rendezvous/base/log rendezvous/base/utc */
/* links: rendezvous/http/metrics rendezvous/proto/msg */
/* links: rendezvous/proto/exits rendezvous/http/http rendezvous/base/err */
/* links: rendezvous/base/mono rendezvous/base/rng rendezvous/base/buf */
/* links: rendezvous/base/json rendezvous/base/utf8 */
/* libs: -lcjson */
/* What /status and /metrics show of what was: where the time of a run went, its
 * rounds and steps, the last words of a worker, and what another daemon had. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "tests/lib/obey.h"
#include "tests/unit/status_hand.h"

static void beat_steps(int conn, int64_t round, int64_t least, int64_t ahead)
{
    struct msg m = {.kind = MSG_KIND_beat,
                    .beat = {.seq = 1,
                             .heard = -1,
                             .round = round,
                             .steps = least + 1,
                             .ahead = ahead,
                             .slow = 1}};
    say(conn, &m);
}

static const cJSON *shown_round(int i)
{
    return cJSON_GetArrayItem(field(shown_run(0), "timeline"), i);
}

/* The run of the next test, as it is shown at three places. */
static void goodput_is_shown(void)
{
    const cJSON *g = field(shown_run(0), "goodput");
    same_number(g, "wall_s", 5 + 2 + 10 + 3 + 1 + 2 + 4);
    same_number(g, "waited_s", 5);
    same_number(g, "ran_s", 9 + 4);
    same_number(g, "detect_s", 1);
    same_number(g, "restart_s", 2 + 3 + 1 + 2);
    same_number(g, "share", 0.481481);
    ck_assert(cJSON_IsTrue(field(g, "knows_start")));
    same_number(g, "repeated_steps", 149 - 101 + 1);
    same_number(g, "repeated_s", 2);
}

static void rounds_are_shown(void)
{
    same_number(shown_run(0), "timeline_left_out", 0);
    ck_assert_int_eq(cJSON_GetArraySize(field(shown_run(0), "timeline")), 2);
    same_number(shown_round(0), "round", 1);
    same_number(shown_round(0), "nodes", 3);
    same_number(shown_round(0), "world_size", 6);
    same_number(shown_round(0), "sealed_unix", 1700000000 - 22);
    same_string(shown_round(0), "ended", "failed");
    ck_assert_ptr_nonnull(strstr(string(shown_round(0), "text"), "n2"));
    same_number(shown_round(0), "ran_s", 9);
    same_number(shown_round(0), "detect_s", 1);
    same_number(shown_round(0), "waited_s", 0);
    same_number(shown_round(0), "restart_s", 4 + 2);
    same_number(shown_round(1), "ran_s", 4);
    ck_assert(!cJSON_HasObjectItem(shown_round(1), "ended"));
    /* It runs again, as the others do. */
    for (int i = 0; i < 3; i++)
        ck_assert(!cJSON_HasObjectItem(shown_node(0, i), "failed_first"));
}

static void metrics_are_shown(void)
{
    static const char *const lines[] = {
        "run_goodput_ratio{run=\"r\"} 0.481481\n",
        "run_seconds{run=\"r\",part=\"ran\"} 13.000000\n",
        "run_seconds{run=\"r\",part=\"waited\"} 5.000000\n",
        "run_seconds{run=\"r\",part=\"detect\"} 1.000000\n",
        "run_seconds{run=\"r\",part=\"restart\"} 8.000000\n",
        "run_repeated_steps_total{run=\"r\"} 49\n",
        "run_step{run=\"r\"} 150\n",
        "run_steps_per_second{run=\"r\"} 24.500000\n",
    };
    ck_assert_int_eq(get("/metrics"), 200);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        ck_assert_msg(strstr(text(), lines[i]) != NULL, "%s", lines[i]);
}

/* The part of goodput to which the time goes that passes now. */
static void phase_is(const char *phase)
{
    get_status("/status");
    same_string(field(shown_run(0), "goodput"), "phase", phase);
}

/* All ranks run 2 s after the seal; 10 s later a worker has been dead for 1 s;
 * after 3 s more all is stopped, and the next round goes on from a snapshot:
 * for 2 s it does again what was done. */
START_TEST(test_status_tells_where_the_time_went)
{
    like.heartbeat_ms = like.last_call_ms = 60000;
    join(1, "n1");
    join(2, "n2");
    now_us += 5 * MONO_S;
    phase_is("waited");
    join(3, "n3");
    now_us += 2 * MONO_S;
    phase_is("restart");
    ck_assert_ptr_null(
        cJSON_GetObjectItemCaseSensitive(shown_run(0), "progress"));
    for (int i = 1; i <= 3; i++)
        beat_steps(i, 1, 100, 0);
    now_us += 10 * MONO_S;
    for (int i = 1; i <= 3; i++)
        beat_steps(i, 1, 150 - i, 7 * i);
    phase_is("ran");
    const cJSON *p = field(shown_run(0), "progress");
    same_number(p, "step", 147);
    same_number(p, "step_max", 147 + 21);
    same_number(p, "steps_per_s", 4.7);
    ck_assert_int_eq(cJSON_GetArraySize(field(p, "slowest")), 3);
    same_number(cJSON_GetArrayItem(field(p, "slowest"), 0), "rank", 5);
    same_string(cJSON_GetArrayItem(field(p, "slowest"), 0), "node", "n3");
    same_number(cJSON_GetArrayItem(field(p, "slowest"), 2), "step", 149);
    same_number(shown_node(0, 1), "step", 148);
    fail_worker(2, 1);
    now_us += 3 * MONO_S;
    phase_is("restart");
    ck_assert(cJSON_IsTrue(field(shown_node(0, 1), "failed_first")));
    ck_assert(!cJSON_HasObjectItem(shown_node(0, 0), "failed_first"));
    for (int i = 1; i <= 3; i++)
        ready(i, 1);
    now_us += MONO_S;
    for (int i = 1; i <= 3; i++)
        beat_steps(i, 2, 101, 0);
    phase_is("restart");
    now_us += 2 * MONO_S;
    for (int i = 1; i <= 3; i++)
        beat_steps(i, 2, 150, 0);
    phase_is("ran");
    now_us += 4 * MONO_S;
    get_status("/status");
    goodput_is_shown();
    rounds_are_shown();
    metrics_are_shown();
}
END_TEST

static void beat(int conn, int64_t seq, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_beat,
                    .beat = {.seq = seq, .heard = -1, .round = round}};
    say(conn, &m);
}

static void tick(void)
{
    step(&(struct rdzv_event){.kind = RDZV_TICK});
}

/* A node is silent from the first second on: what passes until its lease is
 * over is detection, although the others run. */
START_TEST(test_status_silence_is_detection)
{
    join(1, "n1");
    join(2, "n2");
    join(3, "n3");
    for (int i = 1; i <= 3; i++)
        beat(i, 1, 1);
    for (int s = 1; s <= 8; s++) {
        now_us += MONO_S;
        beat(1, 1 + s, 1);
        beat(2, 1 + s, 1);
        if (s == 1)
            beat(3, 2, 1);
        tick();
        get_status("/status");
        if (cJSON_HasObjectItem(shown_round(0), "ended"))
            break;
        same_number(field(shown_run(0), "goodput"), "ran_s", s);
    }
    same_string(shown_round(0), "ended", "lost");
    ck_assert_ptr_nonnull(strstr(string(shown_round(0), "text"), "n3"));
    same_number(shown_round(0), "ran_s", 1);
    same_number(shown_round(0), "detect_s", 5);
    same_number(field(shown_run(0), "goodput"), "wall_s", 6);
}
END_TEST

/* Two nodes after the last call, then three; one leaves, the others are done.
 */
START_TEST(test_status_says_why_rounds_ended)
{
    static const char *const ends[] = {"grew", "left", "done"};
    struct msg leave = {.kind = MSG_KIND_leave, .leave.signal = 15};
    join(1, "n1");
    join(2, "n2");
    now_us += 2 * MONO_S;
    tick();
    join(3, "n3");
    ready(1, 1);
    ready(2, 1);
    say(3, &leave);
    for (int i = 1; i <= 3; i++)
        ready(i, 2);
    for (int i = 1; i <= 2; i++)
        say(i, &(struct msg){.kind = MSG_KIND_done, .done.round = 3});
    get_status("/status");
    ck_assert_int_eq(cJSON_GetArraySize(field(shown_run(0), "timeline")), 3);
    for (int i = 0; i < 3; i++) {
        same_string(shown_round(i), "ended", ends[i]);
        same_number(shown_round(i), "nodes", i == 1 ? 3 : 2);
    }
    same_string(shown_run(0), "state", "ended");
}
END_TEST

/* Of many rounds the last 64 are kept. */
START_TEST(test_status_timeline_is_bounded)
{
    like.max_restarts = 1000;
    for (int i = 1; i <= 3; i++)
        join(i, "n");
    for (int round = 1; round <= 70; round++) {
        fail_worker(1, round);
        for (int i = 1; i <= 3; i++)
            ready(i, round);
    }
    get_status("/status");
    ck_assert_int_eq(cJSON_GetArraySize(field(shown_run(0), "timeline")), 64);
    same_number(shown_run(0), "timeline_left_out", 7);
    same_number(shown_round(63), "round", 71);
    ck_assert(!cJSON_HasObjectItem(shown_round(63), "ended"));
}
END_TEST

/* The last ten lines, each cut where a character ends. */
START_TEST(test_status_shows_the_last_lines_of_a_failure)
{
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 1, .rank = 1, .local_rank = 1}};
    char *at = m.failed.tail;
    join(1, "n1");
    join(2, "n2");
    join(3, "n3");
    for (int i = 0; i < 12; i++)
        at += sprintf(at, "line %d\n", i);
    *at++ = 'x';
    for (int i = 0; i < 150; i++)
        at += sprintf(at, "\xc3\xa4");
    (void)sprintf(at, "\n");
    say(1, &m);
    get_status("/status");
    const cJSON *tail = field(field(shown_run(0), "last_failure"), "tail");
    ck_assert_int_eq(cJSON_GetArraySize(tail), 10);
    ck_assert_str_eq(cJSON_GetArrayItem(tail, 0)->valuestring, "line 3");
    const char *cut = cJSON_GetArrayItem(tail, 9)->valuestring;
    ck_assert_uint_eq(strlen(cut), 199);
}
END_TEST

/* Another daemon after the first: the same round, with all of its numbers. */
START_TEST(test_status_of_a_rebuilt_round_is_whole)
{
    static const int procs[] = {2, 5, 1};
    for (int i = 2; i >= 0; i--) {
        get_status("/status");
        if (i < 2)
            same_string(shown_run(0), "state", i == 1 ? "gather" : "active");
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        struct msg m = make_join(i, name);
        (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", 77);
        m.join.round = 7;
        m.join.state = MSG_STATE_RUNNING;
        m.join.group_rank = i;
        m.join.nproc = procs[i];
        m.join.port = 100 + i;
        m.join.recent_ms = 10000;
        msg_set(m.join.spent, "60000 5000 1000 2000 700 1000 7 80");
        struct msg voted;
        obey_voted(&m.join, "012", 3, &voted);
        say(i, &m);
        say(i, &voted);
    }
    get_status("/status");
    same_string(shown_run(0), "state", "active");
    same_number(shown_run(0), "round", 7);
    same_number(shown_run(0), "world_size", 8);
    same_number(shown_run(0), "master_port", 100);
    same_string(shown_run(0), "master_addr", "10.0.0.1");
    const cJSON *g = field(shown_run(0), "goodput");
    same_number(g, "ran_s", 60 + 9);
    same_number(g, "restart_s", 2 + 1);
    same_number(g, "waited_s", 5);
    same_number(g, "wall_s", 60 + 5 + 1 + 2 + 10);
    same_number(g, "repeated_steps", 7);
    ck_assert_int_eq(cJSON_GetArraySize(field(shown_run(0), "timeline")), 1);
    same_number(shown_round(0), "round", 7);
    same_number(shown_round(0), "ran_s", 9);
    for (int i = 0, base = 0; i < 3; base += procs[i++]) {
        same_number(shown_node(0, i), "group_rank", i);
        same_number(shown_node(0, i), "base_rank", base);
    }
}
END_TEST

/* A spare of the run, which has no workers, comes to the next daemon as well:
 * nothing is wrong with the round. */
START_TEST(test_status_of_a_rebuilt_round_takes_a_spare_for_no_failure)
{
    for (int i = 0; i < 4; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        struct msg m = make_join(i, name);
        (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", 77);
        m.join.round = 7;
        m.join.state = i < 3 ? MSG_STATE_RUNNING : MSG_STATE_NONE;
        m.join.group_rank = i < 3 ? i : -1;
        m.join.recent_ms = 10000;
        msg_set(m.join.spent, "60000 5000 1000 2000 700 1000 7 80");
        struct msg voted;
        obey_voted(&m.join, "012", 3, &voted);
        say(i, &m);
        if (i < 3)
            say(i, &voted);
    }
    now_us += MONO_S / 2;
    get_status("/status");
    const cJSON *g = field(shown_run(0), "goodput");
    same_number(g, "ran_s", 69.5);
    same_number(g, "detect_s", 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status_history");
    TCase *tc = tcase_create("fast");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_status_tells_where_the_time_went);
    tcase_add_test(tc, test_status_silence_is_detection);
    tcase_add_test(tc, test_status_says_why_rounds_ended);
    tcase_add_test(tc, test_status_timeline_is_bounded);
    tcase_add_test(tc, test_status_shows_the_last_lines_of_a_failure);
    tcase_add_test(tc, test_status_of_a_rebuilt_round_is_whole);
    tcase_add_test(tc,
                   test_status_of_a_rebuilt_round_takes_a_spare_for_no_failure);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
