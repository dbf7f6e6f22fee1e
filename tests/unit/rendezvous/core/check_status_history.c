/* links: tests/lib/obey tests/unit/rendezvous/core/status_hand CORE ACCOUNT */
/* links: rendezvous/http/{http_routes,http_hosts,status,page,overview} */
/* links: rendezvous/http/{groups,metrics,http} */
/* links: rendezvous/base/{log,utc,err,mono,rng,buf,json,utf8} */
/* links: rendezvous/proto/{msg,term,exits} */
/* libs: -lcjson */
/* What /status and /metrics show of what was: where the time of a run went, its
 * rounds and steps, the last words of a worker, and what another daemon had. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "tests/lib/obey.h"
#include "tests/unit/rendezvous/core/status_hand.h"

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
TEST(test_status_tells_where_the_time_went)
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

static void beat_mirrored(int conn, int64_t round, int64_t mirrored)
{
    struct msg m = {.kind = MSG_KIND_beat,
                    .beat = {.seq = 1,
                             .heard = -1,
                             .round = round,
                             .steps = 120 + 1,
                             .mirrored = mirrored}};
    say(conn, &m);
}

/* What the run shows of it; -2: nothing. `line`: whether /metrics has that. */
static int64_t shown_mirrored(const char *line)
{
    get_status("/status");
    const cJSON *p = field(shown_run(0), "progress");
    bool told = cJSON_HasObjectItem(p, "mirrored");
    int64_t step = told ? (int64_t)number(p, "mirrored") : -2;
    if (step >= 0)
        same_number(p, "mirrored_behind", (double)(120 - step));
    ck_assert_int_eq(cJSON_HasObjectItem(p, "mirrored_behind"), step >= 0);
    ck_assert_int_eq(get("/metrics"), 200);
    ck_assert_msg(strstr(text(), line) != NULL, "%s", text());
    return step;
}

/* The least of what the nodes tell, of those that tell; nothing if none does. A
 * new round knows nothing of the one before. */
TEST(test_status_tells_what_is_on_two_nodes)
{
    const char *none = "run_mirrored_step{run=\"r\"} -1\n";
    like.heartbeat_ms = 60000;
    join(1, "n1");
    join(2, "n2");
    join(3, "n3");
    beat_mirrored(1, 1, 0);
    ck_assert_int_eq(shown_mirrored("run_step{run=\"r\"} 120\n"), -2);
    ck_assert_ptr_null(strstr(text(), "run_mirrored_step{"));
    beat_mirrored(2, 1, 1);
    ck_assert_int_eq(shown_mirrored(none), -1);
    beat_mirrored(3, 1, 118 + 2);
    ck_assert_int_eq(shown_mirrored(none), -1);
    beat_mirrored(2, 1, 117 + 2);
    ck_assert_int_eq(shown_mirrored("run_mirrored_step{run=\"r\"} 117\n"), 117);
    beat_mirrored(2, 1, 119 + 2);
    ck_assert_int_eq(shown_mirrored("run_mirrored_step{run=\"r\"} 118\n"), 118);
    fail_worker(2, 1);
    for (int i = 1; i <= 3; i++)
        ready(i, 1);
    beat_mirrored(1, 2, 0);
    ck_assert_int_eq(shown_mirrored("run_step{run=\"r\"} 120\n"), -2);
}

/* Of a node whose first rank's own part takes so long, and 100 ms that of the
 * other one; 0: it tells nothing. */
static void beat_own(int conn, int64_t round, int64_t own_us)
{
    struct msg m = {.kind = MSG_KIND_beat,
                    .beat = {.seq = 1,
                             .heard = -1,
                             .round = round,
                             .steps = 120 + 1,
                             .own = own_us,
                             .own_rank = 1,
                             .own_noise = 2000,
                             .own_rest = own_us > 0 ? 100000 : 0}};
    now_us += MONO_S;
    say(conn, &m);
}

/* The slowest rank; NULL: none is called slow. */
static const cJSON *shown_slow(void)
{
    get_status("/status");
    const cJSON *p = field(shown_run(0), "progress");
    const cJSON *slow = cJSON_GetObjectItemCaseSensitive(p, "slow");
    ck_assert_int_eq(get("/metrics"), 200);
    ck_assert_int_eq(strstr(text(), "run_slow_rank_ratio{") != NULL,
                     slow != NULL);
    return cJSON_GetArrayItem(slow, 0);
}

/* With its rank and its node, and since when; no more once it is as fast as the
 * others, or tells nothing; nothing of it in the next round. */
TEST(test_status_tells_who_is_slow)
{
    like.heartbeat_ms = 60000;
    for (int i = 1; i <= 3; i++)
        join(i, i == 1 ? "n1" : i == 2 ? "n2" : "n3");
    for (int i = 1; i <= 3; i++)
        beat_own(i, 1, 101000);
    ck_assert_ptr_null(shown_slow());
    beat_own(2, 1, 112300);
    now_us += 5 * MONO_S;
    const cJSON *slow = shown_slow();
    ck_assert_ptr_nonnull(slow);
    ck_assert_ptr_nonnull(strstr(
        text(), "run_slow_rank_ratio{run=\"r\",node=\"n2\",rank=\"3\"} 0.123"));
    same_string(slow, "node", "n2");
    same_number(slow, "rank", 3);
    same_number(slow, "local_rank", 1);
    same_number(slow, "slower_permille", 123);
    same_number(slow, "part_s", 0.1123);
    same_number(slow, "since_s", 5);
    beat_own(1, 1, 120000);
    same_string(shown_slow(), "node", "n1");
    beat_own(2, 1, 101000);
    beat_own(1, 1, 0);
    ck_assert_ptr_null(shown_slow());
    beat_own(2, 1, 150000);
    ck_assert_ptr_nonnull(shown_slow());
    fail_worker(2, 1);
    for (int i = 1; i <= 3; i++)
        ready(i, 1);
    beat_own(1, 2, 101000);
    ck_assert_ptr_null(shown_slow());
}

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
TEST(test_status_silence_is_detection)
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

/* Two nodes after the last call, then three; one leaves, the others are done.
 */
TEST(test_status_says_why_rounds_ended)
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
        say(i, &(struct msg){.kind = MSG_KIND_ready,
                             .ready = {.round = 3, .done = 1}});
    get_status("/status");
    ck_assert_int_eq(cJSON_GetArraySize(field(shown_run(0), "timeline")), 3);
    for (int i = 0; i < 3; i++) {
        same_string(shown_round(i), "ended", ends[i]);
        same_number(shown_round(i), "nodes", i == 1 ? 3 : 2);
    }
    same_string(shown_run(0), "state", "ended");
}

/* Of many rounds the last 64 are kept. */
TEST(test_status_timeline_is_bounded)
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

/* The last ten lines, each cut where a character ends. */
TEST(test_status_shows_the_last_lines_of_a_failure)
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

/* Another daemon after the first: the same round, with all of its numbers. */
TEST(test_status_of_an_inherited_round_is_whole)
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

/* A spare of the run, which has no workers, comes to the next daemon as well:
 * nothing is wrong with the round. */
TEST(test_status_of_an_inherited_round_takes_a_spare_for_no_failure)
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

SUITE("status_history", "fast", FIXTURE(setup, teardown))
