/* links: rendezvous/past/{past,line,past_json} ACCOUNT */
/* links: rendezvous/base/{err,log,mono,utf8,json,buf} */
/* libs: -lcjson */
/*
 * ddpctl report's half without files: what the events of all nodes add up to,
 * in whatever order the nodes come and however wrong their clocks are; and the
 * document that is made of it.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/past/past_json.h"
#include "tests/lib/suite.h"

static struct past past;
static struct buf out;

static void setup(void)
{
    past_init(&past);
    buf_init(&out, 0);
}

static void teardown(void)
{
    past_free(&past);
    buf_free(&out);
}

/* A line of a node whose launcher started at `start` s of 2026-11-22 14 h by
 * its own clock, `up` ms after that. */
static void feed(int file,
                 const char *node,
                 double start,
                 int up,
                 const char *event,
                 const char *more)
{
    char line[1024];
    struct past_line e;
    double at = start + up / 1e3;
    int n =
        snprintf(line, sizeof(line),
                 "{\"time\":\"2026-11-22T14:%02d:%09.6fZ\",\"up_s\":%d.%03d,"
                 "\"event\":\"%s\",\"run\":\"job\",\"node\":\"%s\"%s}\n",
                 (int)at / 60, at - (int)at / 60 * 60, up / 1000, up % 1000,
                 event, node, more);
    ck_assert_msg(past_line_read(line, (size_t)n, &e), "%s", line);
    past_add(&past, file, &e);
}

#define R1 ",\"round\":1"
#define R2 ",\"round\":2"
#define SEALED(r, rank)                                                        \
    r ",\"group_rank\":" #rank ",\"nodes\":2,\"world_size\":2"

/* Two nodes, b's clock ahead of a's; b's worker dies after 2 s of round 1. */
static void feed_job(double b_ahead)
{
    double b = 10.5 + b_ahead;
    feed(0, "a", 10, 0, "connecting", "");
    feed(0, "a", 10, 100, "joined", "");
    feed(0, "a", 10, 1100, "sealed", SEALED(R1, 0));
    feed(0, "a", 10, 1200, "started", R1 ",\"rank\":0");
    feed(0, "a", 10, 3350, "stopped", R1 ",\"text\":\"rank 1 on b\"");
    feed(0, "a", 10, 3400, "exited", R1 ",\"signal\":15");
    feed(0, "a", 10, 4500, "sealed", SEALED(R2, 0) ",\"restarts\":1");
    feed(0, "a", 10, 4600, "started", R2);
    feed(0, "a", 10, 9000, "exited", R2 ",\"exit_code\":0");
    feed(0, "a", 10, 9000, "done", R2);
    feed(0, "a", 10, 9100, "end", ",\"exit_code\":0");
    feed(1, "b", b, 0, "connecting", "");
    feed(1, "b", b, 500, "joined", "");
    feed(1, "b", b, 600, "sealed", SEALED(R1, 1));
    feed(1, "b", b, 800, "started", R1 ",\"rank\":1");
    feed(1, "b", b, 2800, "exited", R1 ",\"exit_code\":3");
    feed(1, "b", b, 2800, "failed",
         R1 ",\"rank\":1,\"text\":\"rank 1: exit code 3\","
            "\"tail\":\"one\\ntwo\"");
    feed(1, "b", b, 4000, "sealed", SEALED(R2, 1));
    feed(1, "b", b, 4100, "started", R2);
    feed(1, "b", b, 8600, "done", R2);
    feed(1, "b", b, 8700, "end", ",\"exit_code\":0");
}

static void finish(void)
{
    struct ddp_err err;
    ck_assert_int_eq(past_finish(&past, &err), 0);
}

static void check_parts(
    const struct goodput_parts *p, int ran, int waited, int detect, int restart)
{
    ck_assert_int_eq(p->ran_us / MONO_MS, ran);
    ck_assert_int_eq(p->waited_us / MONO_MS, waited);
    ck_assert_int_eq(p->detect_us / MONO_MS, detect);
    ck_assert_int_eq(p->restart_us / MONO_MS, restart);
}

static void check_job(void)
{
    /* From 0.1 s: 1.0 s waited, 0.2 s started, 2.0 s ran, 50 ms until a knew,
     * 50 ms to stop, 1.1 s waited, 0.1 s started, 4.5 s ran. */
    check_parts(&past.sum, 6500, 2100, 50, 350);
    ck_assert_int_eq(goodput_wall_us(&past.sum), past.end_us - past.start_us);
    ck_assert_uint_eq(past.n_rounds, 2);
    check_parts(&past.rounds[0].cost, 2000, 1100, 50, 150);
    check_parts(&past.rounds[1].cost, 4500, 0, 0, 0);
    ck_assert_str_eq(past.rounds[0].why, "rank 1: exit code 3");
    ck_assert(past.rounds[0].failed && past.rounds[1].done);
    ck_assert_int_eq(past.restarts, 1);
    ck_assert_int_eq(past.status, 0);
}

TEST(test_past_sums_are_exact)
{
    feed_job(0);
    finish();
    check_job();
    ck_assert_int_eq(past.launches[1].ahead_us, 0);
}

TEST_LOOP(test_past_corrects_clocks, 0, 2)
{
    static const double ahead[] = {-7.25, 90.5};
    feed_job(ahead[_i]);
    finish();
    check_job();
    int64_t got_us = past.launches[1].ahead_us;
    ck_assert_int_eq(got_us, (int64_t)(ahead[_i] * 1e6));
}

/* From one line to the next the clock of b leaps; its launch is the same. */
TEST(test_past_follows_a_clock_that_is_set)
{
    feed(0, "b", 10, 0, "connecting", "");
    feed(0, "b", 10, 100, "joined", "");
    feed(0, "b", 500, 200, "sealed", R1 ",\"nodes\":1");
    feed(0, "b", 500, 300, "started", R1);
    feed(0, "b", 5, 1300, "done", R1);
    feed(0, "b", 5, 1300, "end", ",\"exit_code\":0");
    finish();
    ck_assert_uint_eq(past.n_launches, 1);
    check_parts(&past.sum, 1000, 100, 0, 100);
}

/* Launchers of one host write to one file in turn. */
TEST(test_past_tells_launchers_of_one_file_apart)
{
    feed(0, "vm", 10, 0, "connecting", "");
    feed(0, "vm", 10.3, 0, "connecting", "");
    feed(0, "vm", 10, 400, "joined", "");
    feed(0, "vm", 10.3, 200, "joined", "");
    feed(0, "vm", 10, 600, "sealed", SEALED(R1, 0));
    feed(0, "vm", 10.3, 300, "sealed", SEALED(R1, 1));
    finish();
    ck_assert_uint_eq(past.n_launches, 2);
    ck_assert_int_eq(past.rounds[0].seen, 2);
}

/* A file to which a job appended that ran before is read from its last one. */
TEST(test_past_leaves_out_an_earlier_job_of_the_id)
{
    feed(0, "a", 1, 0, "connecting", "");
    feed(0, "a", 1, 1, "joined", "");
    feed(0, "a", 1, 2, "sealed", SEALED(R1, 0));
    feed(0, "a", 1, 3, "failed", R1 ",\"text\":\"old\"");
    feed(0, "a", 1, 9, "end", ",\"exit_code\":9");
    feed_job(0);
    finish();
    check_job();
    ck_assert_int_eq(past.earlier, 1);
    ck_assert_uint_eq(past.n_failures, 1);
}

/* As many launches as there may be, of as many nodes, all in one file and each
 * event behind one of another node: each is found at once. */
TEST(test_past_of_a_file_of_many_nodes_is_no_slower)
{
    struct past_line e = {.kind = PAST_JOINED, .run = "job"};
    const int64_t start_us = 1000 * MONO_S;
    for (int up = 0; up < 10; up++)
        for (int n = 0; n < PAST_LAUNCHES_MAX; n++) {
            (void)snprintf(e.node, sizeof(e.node), "rack-7-node-%d", n);
            e.up_us = up * MONO_MS;
            e.time_us = start_us + e.up_us;
            past_add(&past, 0, &e);
        }
    ck_assert_uint_eq(past.n_launches, PAST_LAUNCHES_MAX);
    ck_assert_int_eq(past.left_out, 0);
    ck_assert_int_eq(past.launches[PAST_LAUNCHES_MAX - 1].last_us,
                     start_us + 9 * MONO_MS);
}

/* The launcher of b is killed in round 1: nothing tells its end. */
TEST(test_past_of_a_node_that_died_is_whole)
{
    feed(0, "a", 10, 100, "joined", "");
    feed(0, "a", 10, 200, "sealed", SEALED(R1, 0));
    feed(0, "a", 10, 300, "started", R1);
    feed(0, "a", 10, 1300, "stopped", R1 ",\"text\":\"node b was lost\"");
    feed(0, "a", 10, 1400, "exited", R1);
    feed(0, "a", 10, 1410, "sealed", R2 ",\"nodes\":1");
    feed(0, "a", 10, 1500, "started", R2);
    feed(0, "a", 10, 1900, "other", "");
    feed(1, "b", 10, 200, "sealed", SEALED(R1, 1));
    feed(1, "b", 10, 300, "started", R1);
    finish();
    check_parts(&past.sum, 1400, 100, 0, 300);
    ck_assert_str_eq(past.rounds[0].why, "node b was lost");
    ck_assert(!past.rounds[0].failed);
    ck_assert_int_eq(past.status, -1);
}

static const struct {
    const char *more;
    int ran, detect;
} silences[] = {
    {"", 1400, 0}, /* an older server */
    {",\"detect_s\":0.250000", 1150, 250},
    {",\"detect_s\":0.999000", 401, 999},
    {",\"detect_s\":500", 400, 1000}, /* no more than it ran */
    {",\"detect_s\":-1", 1400, 0},
    {",\"detect_s\":\"x\"", 1400, 0},
};
#define SILENCES (int)(sizeof(silences) / sizeof(silences[0]))

/* The launcher of b is frozen; what the server told of that is detection, by a
 * clock that is wrong as well. */
TEST_LOOP(test_past_of_a_node_that_was_lost_has_its_silence, 0, 2 * SILENCES)
{
    const double start = _i < SILENCES ? 10 : 70;
    const int ran = silences[_i % SILENCES].ran;
    const int detect = silences[_i % SILENCES].detect;
    char more[200];
    (void)snprintf(more, sizeof(more), R1 ",\"text\":\"node b was lost\"%s",
                   silences[_i % SILENCES].more);
    feed(0, "a", start, 100, "joined", "");
    feed(0, "a", start, 200, "sealed", SEALED(R1, 0));
    feed(0, "a", start, 300, "started", R1);
    feed(0, "a", start, 1300, "stopped", more);
    feed(0, "a", start, 1400, "exited", R1);
    feed(0, "a", start, 1410, "sealed", R2 ",\"nodes\":1");
    feed(0, "a", start, 1500, "started", R2);
    feed(0, "a", start, 1900, "other", "");
    feed(1, "b", 10, 200, "sealed", SEALED(R1, 1));
    feed(1, "b", 10, 300, "started", R1);
    finish();
    check_parts(&past.sum, ran, 100, detect, 300);
    ck_assert_int_eq(past.rounds[0].cost.detect_us / MONO_MS, detect);
}

#define TRIES (TIMELINE_ROUNDS + 10) /* more than the account has room for */

/* The program is lost again and again before it has done a step: none of its
 * rounds ran, as is known with the first step. */
TEST(test_past_of_rounds_before_the_first_step_is_all_start)
{
    char round[100];
    int at = 0;
    feed(0, "a", 10, 0, "joined", "");
    for (int i = 1; i <= TRIES; i++) {
        (void)snprintf(round, sizeof(round), ",\"round\":%d,\"nodes\":1", i);
        feed(0, "a", 10, at, "sealed", round);
        feed(0, "a", 10, at + 100, "started", round);
        at += 400;
        if (i == TRIES)
            break;
        feed(0, "a", 10, at, "exited", round);
        feed(0, "a", 10, at, "failed", round);
    }
    (void)strcat(round, ",\"step\":0");
    feed(0, "a", 10, at, "new_step", round);
    feed(0, "a", 10, at + 1000, "exited", round);
    feed(0, "a", 10, at + 1000, "done", round);
    finish();
    check_parts(&past.sum, 1000, 0, 0, at);
    ck_assert_uint_eq(past.n_rounds, TRIES);
    for (size_t i = 0; i + 1 < TRIES; i++)
        check_parts(&past.rounds[i].cost, 0, 0, 0, 400);
    check_parts(&past.rounds[TRIES - 1].cost, 1000, 0, 0, 0);
}

/* Whatever comes in whatever order, the parts are the whole, none below 0. */
TEST_LOOP(test_past_sums_hold_for_any_events, 0, 50)
{
    static const char *const kinds[] = {
        "connecting", "joined", "sealed", "started", "exited",  "failed",
        "stopped",    "fenced", "done",   "end",     "leaving", "new_step"};
    struct ddp_err err;
    srand((unsigned)_i);
    for (int i = 0; i < 300; i++) {
        char more[100];
        (void)snprintf(
            more, sizeof(more),
            ",\"round\":%d,\"nodes\":%d,\"exit_code\":%d,\"step\":%d",
            rand() % 6, rand() % 4, rand() % 3, rand() % 9);
        feed(rand() % 3, rand() % 2 ? "a" : "b", rand() % 5, rand() % 9000,
             kinds[rand() % 12], more);
    }
    if (past_finish(&past, &err) != 0)
        return;
    ck_assert_int_eq(goodput_wall_us(&past.sum), past.end_us - past.start_us);
    ck_assert_int_ge(past.sum.ran_us, 0);
    ck_assert_int_ge(past.sum.waited_us, 0);
    ck_assert_int_ge(past.sum.detect_us, 0);
    ck_assert_int_ge(past.sum.restart_us, 0);
}

TEST(test_past_takes_no_line_that_is_no_event)
{
    static const char *const lines[] = {
        "",
        "\n",
        "{}",
        "[1,2]",
        "{\"time\":\"2026-11-22T14:00:00.000000Z\",\"up_s\":1,\"event\":\"x\","
        "\"run\":\"job\"}",
        "{\"time\":\"2026-11-22 14:00\",\"up_s\":1,\"event\":\"x\",\"run\":\"j"
        "\",\"node\":\"a\"}",
        "{\"time\":\"2026-11-22T14:00:00.000000Z\",\"up_s\":-1,\"event\":\"x\""
        ",\"run\":\"j\",\"node\":\"a\"}",
        "{\"time\":\"2026-11-22T14:00:00.000000Z\",\"up_s\":1e300,\"event\":"
        "\"x\",\"run\":\"j\",\"node\":\"a\"}",
        "{\"time\":\"2026-11-22T14:00:00.000000Z\",\"up_s\":1,\"event\":\"x\","
        "\"run\":\"j\",\"node\":\"a",
    };
    struct past_line e;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        ck_assert_msg(!past_line_read(lines[i], strlen(lines[i]), &e), "%s",
                      lines[i]);
}

TEST(test_past_without_a_join_is_an_error)
{
    struct ddp_err err;
    feed(0, "a", 1, 0, "connecting", "");
    ck_assert_int_eq(past_finish(&past, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_NOINPUT);
}

TEST(test_past_counts_what_is_too_much)
{
    for (int i = 0; i < PAST_LAUNCHES_MAX + 3; i++) {
        struct past_line e = {.kind = PAST_CONNECTING, .node = "n", .run = "r"};
        past_add(&past, i, &e);
    }
    ck_assert_uint_eq(past.n_launches, PAST_LAUNCHES_MAX);
    ck_assert_int_eq(past.left_out, 3);
}

/* -- the document ---------------------------------------------------------- */

static size_t print(void)
{
    const struct past_files files = {.files = 2, .torn = 1, .bad = 1};
    buf_free(&out);
    buf_init(&out, 1u << 20);
    ck_assert(past_json(&past, &files, &out));
    size_t size = buf_len(&out);
    ck_assert_int_eq(buf_put(&out, "", 1), 0);
    return size;
}

static bool has(const char *text)
{
    return strstr((const char *)buf_head(&out), text) != NULL;
}

TEST(test_document_has_what_there_is)
{
    feed_job(3.5);
    feed(1, "b", 14, 8650, "taken_over",
         ",\"epoch\":4,\"server\":\"b:29500\",\"before\":\"a:29500\","
         "\"gap_s\":0.25");
    (void)snprintf(past.run, sizeof(past.run), "job");
    finish();
    print();
    ck_assert(has("\"report\":{\"files\":2,\"torn_lines\":1,\"bad_lines\":1,"
                  "\"nodes_missing\":0,\"notes\":["));
    ck_assert(has("\"id\":\"job\",\"state\":\"ended\",\"round\":2,\"nodes\":2,"
                  "\"world_size\":2,\"restarts\":1,"));
    ck_assert(has("\"end\":{\"status\":0,\"text\":\"all workers succeeded\"}"));
    ck_assert(has("\"ended\":\"failed\",\"text\":\"rank 1: exit code 3\""));
    ck_assert(has("\"ended\":\"done\",\"text\":\"\""));
    ck_assert(has("\"node\":\"b\",\"rank\":1,\"text\":\"rank 1: exit code 3\","
                  "\"tail\":[\"one\",\"two\"]"));
    ck_assert(has("\"term\":4,\"server\":\"b:29500\",\"before\":\"a:29500\","
                  "\"gap_s\":0.250000"));
    ck_assert(has("{\"node\":\"a\",\"group_rank\":0,\"spans\":[{\"round\":1,"));
    ck_assert(has("was 3.500 s ahead; its times are corrected"));
    ck_assert(has("1 file ends with a last line that is not whole"));
    ck_assert(has("1 line is no event, and left out"));
    ck_assert(has("\"goodput\":{\"wall_s\":9.000000,\"ran_s\":6.500000,"
                  "\"waited_s\":2.100000,\"detect_s\":0.050000,"
                  "\"restart_s\":0.350000,\"share\":0.722222,"
                  "\"knows_start\":false}"));
}

TEST(test_document_without_an_end_says_so)
{
    feed(0, "a", 10, 0, "joined", "");
    feed(0, "a", 10, 1, "sealed", SEALED(R1, 0));
    finish();
    print();
    ck_assert(has("\"state\":\"active\"") && !has("\"end\":"));
    ck_assert(!has("\"ended\":"));
    ck_assert(has("The files do not tell the end of the run"));
    ck_assert(has("The events of up to 1 node of a round are missing"));
}

TEST(test_document_of_a_large_run_stays_small)
{
    for (int n = 0; n < 200; n++)
        for (int r = 1; r <= 300; r++) {
            char more[200], node[20];
            (void)snprintf(node, sizeof(node), "node-%d", n);
            (void)snprintf(more, sizeof(more),
                           ",\"round\":%d,\"group_rank\":%d,\"nodes\":200,"
                           "\"world_size\":1600,\"text\":\"rank 17 (pid 3): "
                           "killed by signal 9 (SIGKILL)\"",
                           r, n);
            if (r == 1)
                feed(n, node, 0, 0, "joined", "");
            feed(n, node, 0, r * 1000, "sealed", more);
            feed(n, node, 0, r * 1000 + 10, "started", more);
            feed(n, node, 0, r * 1000 + 900,
                 n == r % 200 ? "failed" : "stopped", more);
        }
    finish();
    ck_assert_uint_eq(past.n_rounds, 300);
    size_t size = print();
    ck_assert_msg(size < 150000, "%zu bytes", size);
    ck_assert(has("\"timeline_left_out\":200"));
    ck_assert(has("\"failures_left_out\":200"));
    ck_assert(has("\"launches_left_out\":140,\"launches_from_round\":297"));
}

SUITE("past", "fast", FIXTURE(setup, teardown))
