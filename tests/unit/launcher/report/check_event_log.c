/* links: launcher/report/event_log launcher/proc/signals tests/lib/words */
/* links: rendezvous/proto/{exits,msg,term} rendezvous/core/note */
/* links: rendezvous/account/goodput */
/* links: rendezvous/base/{signals_name,log,utc,mono,err,utf8,json,buf,rng} */
/* links: launcher/conf/endpoints */
/* libs: -lcjson -ldl */
/*
 * What happened on a node, as lines of JSON and as sums of time. The relay,
 * which has the file, is the test's own.
 */
#include <cjson/cJSON.h>
#include <check.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/report/event_log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

#define LINES_MAX 32

static struct conf conf;
static struct event_log j;
static cJSON *lines[LINES_MAX]; /* what the relay got */
static int n;

void output_event(struct output *o, const char *line)
{
    ck_assert_ptr_eq(o, (void *)&conf); /* any pointer, passed through */
    ck_assert_int_lt(n, LINES_MAX);
    ck_assert_ptr_null(strchr(line, '\n'));
    lines[n] = cJSON_Parse(line);
    ck_assert_ptr_nonnull(lines[n]);
    n++;
}

/* -- memory ---------------------------------------------------------------- */

static int short_of; /* the allocation that fails, counted from 1; 0: none */
static int allocations;

void *realloc(void *p, size_t size)
{
    static void *(*real)(void *, size_t);
    void *found = real == NULL ? dlsym(RTLD_NEXT, "realloc") : NULL;
    if (found != NULL)
        memcpy(&real, &found, sizeof(real));
    return short_of > 0 && ++allocations == short_of ? NULL : real(p, size);
}

/* -- the log --------------------------------------------------------------- */

static void setup(void)
{
    memset(&conf, 0, sizeof(conf));
    conf.nproc = 2;
    (void)snprintf(conf.run_id, sizeof(conf.run_id), "job");
    (void)snprintf(conf.output.events, sizeof(conf.output.events), "events");
    event_log_init(&j, &conf, (struct output *)&conf, "b", 100 * MONO_S);
    n = 0;
}

static void teardown(void)
{
    for (int i = 0; i < n; i++)
        cJSON_Delete(lines[i]);
    free(j.pids);
    free(j.failed);
}

static const char *text_of(int i, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(lines[i], key);
    return cJSON_IsString(item) ? item->valuestring : "-";
}

static double number_of(int i, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(lines[i], key);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static void world(int64_t round, int64_t restarts, int64_t now_s)
{
    struct msg_world w = {.round = round,
                          .restarts = restarts,
                          .base_rank = 4,
                          .group_rank = 1,
                          .group_world = 2,
                          .world_size = 6};
    event_log_world(&j, &w, now_s * MONO_S);
}

static void note(enum note_kind kind, const char *text, int64_t now_s)
{
    struct note no = {.kind = kind, .text = text};
    event_log_note(&j, &no, now_s * MONO_S);
}

static void failed(struct msg_failed f, int64_t now_s)
{
    event_log_failed(&j, &f, "how it failed", now_s * MONO_S);
}

static void finish(int status, int64_t now_s)
{
    static const struct exits none;
    event_log_finish(&j, &none, status, "", now_s * MONO_S);
}

/* Another server took the run over: once for each time, and what the report
 * needs of it. */
TEST(test_event_log_tells_who_took_the_run_over)
{
    struct agent_takeover t = {.count = 1, .gap_us = 1500000};
    conf.endpoints_len = 2;
    conf.endpoints[1].port = 29501;
    msg_set(conf.endpoints[1].host, "second");
    t.from.which = 1;
    t.to.term.count = 2;
    msg_set(t.to.target, "10.0.0.3:4711");
    event_log_taken_over(&j, &t, 200 * MONO_S);
    event_log_taken_over(&j, &t, 201 * MONO_S);
    ck_assert_int_eq(n, 1);
    ck_assert_str_eq(text_of(0, "event"), "taken_over");
    ck_assert_str_eq(text_of(0, "server"), "10.0.0.3:4711");
    ck_assert_str_eq(text_of(0, "before"), "second:29501");
    ck_assert_double_eq(number_of(0, "term"), 2);
    ck_assert_double_eq(number_of(0, "gap_s"), 1.5);
    ck_assert_int_eq(j.takeover.count, 1);
}

/* How long it is that not all went well, if the server told it. */
TEST(test_event_log_tells_the_first_sign_of_what_stopped_a_round)
{
    struct note no = {.kind = NOTE_stopping, .text = "node a was lost"};
    event_log_note(&j, &no, 100 * MONO_S);
    no.detect_us = 2500 * MONO_MS;
    event_log_note(&j, &no, 101 * MONO_S);
    ck_assert_int_eq(n, 2);
    ck_assert_str_eq(text_of(0, "event"), "stopped");
    ck_assert_double_eq(number_of(0, "detect_s"), -1);
    ck_assert_double_eq(number_of(1, "detect_s"), 2.5);
}

/* A failure, a restart, an end: each line bears when, what and where. */
TEST(test_event_log_has_a_line_for_each_event)
{
    static const char *const names[] = {"joined",    "sealed", "started",
                                        "started",   "exited", "failed",
                                        "restarted", "end"};
    const struct agent_worker killed = {
        .local_rank = 1, .pid = 101, .code = 0, .signal = SIGKILL};
    const struct msg_failed f = {
        .local_rank = 1, .pid = 101, .signal = SIGKILL};
    event_log_joined(&j, 101 * MONO_S);
    world(1, 0, 102);
    event_log_started(&j, 0, 100);
    event_log_started(&j, 1, 101);
    event_log_exited(&j, &killed);
    failed(f, 110);
    world(2, 1, 112);
    finish(3, 120);
    ck_assert_int_eq(n, 9);
    for (int i = 0, k = 0; i < n; i++) {
        if (i != 6) /* the second "sealed" */
            ck_assert_str_eq(text_of(i, "event"), names[k++]);
        ck_assert_str_eq(text_of(i, "run"), "job");
        ck_assert_str_eq(text_of(i, "node"), "b");
        ck_assert_uint_eq(strlen(text_of(i, "time")), 27);
        ck_assert_int_eq(text_of(i, "time")[26], 'Z');
    }
    ck_assert_double_eq_tol(number_of(0, "up_s"), 1, 1e-6);
    ck_assert_int_eq((int)number_of(3, "rank"), 5);
    ck_assert_str_eq(text_of(4, "signal_name"), "SIGKILL");
    ck_assert_str_eq(text_of(5, "text"), "how it failed");
    ck_assert_int_eq((int)number_of(5, "pid"), 101);
    ck_assert_str_eq(text_of(5, "signal_name"), "SIGKILL");
    ck_assert_int_eq((int)number_of(6, "round"), 2);
    ck_assert_int_eq((int)number_of(8, "exit_code"), 3);
}

/* The time of a launch is divided among waiting, running and restarting. */
TEST(test_event_log_sums_are_the_whole_time)
{
    world(1, 0, 102);
    failed((struct msg_failed){.pid = 100, .code = 1}, 110);
    world(2, 1, 113);
    finish(0, 120);
    ck_assert_int_eq(j.waiting_us, 2 * MONO_S);
    ck_assert_int_eq(j.running_us, (8 + 7) * MONO_S);
    ck_assert_int_eq(j.restarting_us, 3 * MONO_S);
    ck_assert_int_eq(j.rounds, 2);
}

/* One that hangs has not ended, and one that was not started has no process. */
TEST(test_event_log_tells_of_failures_what_is_known)
{
    world(1, 0, 102);
    failed((struct msg_failed){.local_rank = 1,
                               .pid = 101,
                               .code = ddp_code_exit(DDP_E_HANG),
                               .how = MSG_FAILED_HUNG},
           103);
    ck_assert_int_eq((int)number_of(n - 1, "rank"), 5);
    ck_assert_int_eq((int)number_of(n - 1, "pid"), 101);
    ck_assert_int_eq((int)number_of(n - 1, "exit_code"), -1);
    failed((struct msg_failed){.code = 127}, 104);
    ck_assert_str_eq(text_of(n - 1, "event"), "failed");
    ck_assert_str_eq(text_of(n - 1, "text"), "how it failed");
    ck_assert_int_eq((int)number_of(n - 1, "pid"), -1);
    ck_assert_int_eq((int)number_of(n - 1, "exit_code"), -1);
}

/* The last lines of a worker may be any bytes; the line of the event never
 * grows too long for them, and has the end of what they are. */
TEST(test_event_log_has_the_last_lines_of_a_worker)
{
    static const char *const fills[] = {"", "word\n", "\001\"", "\xc3\xa4"};
    struct msg_failed f = {.pid = 100, .code = 1};
    world(1, 0, 102);
    for (int i = 0; i < 4; i++) {
        size_t len = strlen(fills[i]);
        size_t at = 0;
        for (; len > 0 && at + len + 10 < sizeof(f.tail); at += len)
            memcpy(f.tail + at, fills[i], len);
        (void)snprintf(f.tail + at, sizeof(f.tail) - at, "the end");
        int before = n;
        failed(f, 103);
        ck_assert_int_eq(n, before + 1);
        const char *tail = text_of(before, "tail");
        ck_assert_uint_ge(strlen(tail), i == 0 ? 7 : 400);
        ck_assert_str_eq(tail + strlen(tail) - 7, "the end");
    }
}

/* Of the workers that end after a failure, those are counted that our SIGTERM
 * ended. */
TEST(test_event_log_counts_stopped_workers)
{
    const struct agent_worker bad = {.local_rank = 0, .pid = 100, .code = 7};
    const struct agent_worker stopped = {
        .local_rank = 1, .pid = 101, .signal = SIGTERM};
    world(1, 0, 102);
    event_log_exited(&j, &bad);
    failed((struct msg_failed){.pid = 100, .code = 7}, 103);
    event_log_exited(&j, &stopped);
    ck_assert_int_eq(j.stopped, 1);
    ck_assert(j.failed[0] && !j.failed[1]);
    world(2, 1, 104);
    ck_assert(j.stopped == 0 && !j.failed[0]);
}

TEST(test_event_log_without_a_file_formats_nothing)
{
    conf.output.events[0] = '\0';
    world(1, 0, 102);
    finish(0, 103);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(j.running_us, MONO_S);
}

/* A line is whole or it is not there: it is too long, or there is no memory. */
TEST(test_event_log_loses_whole_lines_only)
{
    char text[1000];
    memset(text, 1, sizeof(text) - 1); /* six bytes each in JSON */
    text[sizeof(text) - 1] = '\0';
    note(NOTE_wait, text, 102);
    ck_assert_int_eq(n, 0);
    note(NOTE_wait, "short", 103);
    ck_assert_int_eq(n, 1);
    ck_assert_str_eq(text_of(n - 1, "text"), "short");
    int before = n;
    for (short_of = 1; n == before; short_of++) {
        allocations = 0;
        note(NOTE_wait, "without memory", 104); /* parsed by output_event */
        ck_assert_int_lt(short_of, 100);
    }
    short_of = 0;
    ck_assert_int_eq(n, before + 1);
    ck_assert_str_eq(text_of(before, "text"), "without memory");
}

SUITE("event_log", "fast", FIXTURE(setup, teardown))
