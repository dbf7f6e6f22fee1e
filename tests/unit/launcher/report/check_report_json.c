/* links: launcher/report/{json,report,exits,words,event_log,new_file} */
/* links: launcher/conf/endpoints launcher/output/{logfile,lines} */
/* links: launcher/proc/signals rendezvous/core/note ACCOUNT PROTO BASE */
/* links: tests/lib/{hurt,scratch} */
/* libs: -luv -lcjson -lm -ldl */
/*
 * The report as JSON in its file: what is in it, and what becomes of the file
 * if a system call fails. A reader finds the old report or the new one.
 */
#include <cjson/cJSON.h>
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/report/report.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define OLD "the old one\n"

static struct conf conf;
static int64_t pids[2] = {100, 101};
static struct event_log event_log;
static struct agent_verdict verdict;

/* The events' file is no subject here. */
void output_event(struct output *o, const char *line)
{
    (void)o;
    (void)line;
}

static bool asks(int fd)
{
    (void)fd;
    return false;
}

static const struct output_hurry patient = {.fd = -1, .asks = asks};
static const struct output_hurry hurried = {
    .now = true, .fd = -1, .asks = asks};

static void put_old(const char *path)
{
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(OLD, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void setup(void)
{
    scratch_enter();
    memset(&conf, 0, sizeof(conf));
    conf.nproc = 2;
    conf.max_restarts = 3;
    (void)snprintf(conf.run_id, sizeof(conf.run_id), "job");
    (void)snprintf(conf.output.report, sizeof(conf.output.report), "report");
    event_log = (struct event_log){.conf = &conf,
                                   .pids = pids,
                                   .round = 2,
                                   .rounds = 2,
                                   .node = "b",
                                   .running_us = 1500000};
    verdict = (struct agent_verdict){.status = 3, .ended = true};
    verdict.end = (struct msg_end){
        .round = 2, .restarts = 1, .rank = 1, .local_rank = 1, .pid = 101};
    verdict.end.code = 3;
    msg_set(verdict.end.node, "b");
    msg_set(verdict.end.text, "rank 1 failed");
    msg_set(verdict.end.error, "out of luck");
    put_old("report");
}

static size_t read_file(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(text, 1, size - 1, f) : 0;
    if (f != NULL)
        (void)fclose(f);
    text[n] = '\0';
    return n;
}

static bool is_report(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    const cJSON *run = cJSON_GetObjectItem(json, "run");
    bool good = cJSON_IsString(run) && strcmp(run->valuestring, "job") == 0 &&
                text[strlen(text) - 1] == '\n';
    cJSON_Delete(json);
    return good;
}

static int entries(void)
{
    DIR *d = opendir(".");
    int n = 0;
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        (void)closedir(d);
    return n - 2;
}

/* -- what is in it --------------------------------------------------------- */

/* Of the whole run, as the server told it; null if it is not known. */
TEST(test_report_tells_goodput)
{
    char text[8000];
    for (int told = 0; told < 2; told++) {
        msg_set(verdict.end.spent,
                told ? "6000 1000 500 2500 900 0 42 43" : "1 2");
        report_write(&conf, &verdict, &event_log, "", &patient);
        (void)read_file("report", text, sizeof(text));
        cJSON *json = cJSON_Parse(text);
        const cJSON *g = cJSON_GetObjectItem(json, "goodput");
        ck_assert_int_eq(cJSON_IsObject(g), told);
        ck_assert_int_eq(cJSON_IsNull(g), !told);
        if (told) {
            ck_assert(cJSON_GetObjectItem(g, "wall_s")->valuedouble == 10.0);
            ck_assert(cJSON_GetObjectItem(g, "share")->valuedouble == 0.6);
            ck_assert(cJSON_GetObjectItem(g, "detect_s")->valuedouble == 0.5);
            ck_assert_int_eq(cJSON_GetObjectItem(g, "repeated_steps")->valueint,
                             42);
        }
        cJSON_Delete(json);
    }
}

/* Another server took the run over: which one, and how long there was none. */
TEST(test_report_tells_a_takeover)
{
    char text[8000];
    event_log.takeover.count = 2;
    event_log.takeover.to.term.count = 3;
    event_log.takeover.gap_us = 250000;
    msg_set(event_log.takeover.to.target, "10.0.0.2:29500");
    (void)snprintf(conf.endpoints[0].host, sizeof(conf.endpoints[0].host),
                   "head");
    conf.endpoints[0].port = 29500;
    report_write(&conf, &verdict, &event_log, "", &patient);
    ck_assert(read_file("report", text, sizeof(text)) > 0);
    cJSON *json = cJSON_Parse(text);
    const cJSON *last = cJSON_GetObjectItem(json, "last_takeover");
    ck_assert_int_eq(cJSON_GetObjectItem(json, "takeovers")->valueint, 2);
    ck_assert_int_eq(cJSON_GetObjectItem(last, "epoch")->valueint, 3);
    ck_assert_str_eq(cJSON_GetObjectItem(last, "server")->valuestring,
                     "10.0.0.2:29500");
    ck_assert_str_eq(cJSON_GetObjectItem(last, "before")->valuestring,
                     "head:29500");
    ck_assert_double_eq(cJSON_GetObjectItem(last, "gap_s")->valuedouble, 0.25);
    cJSON_Delete(json);
}

TEST(test_report_says_what_failed_first)
{
    char text[8000];
    report_write(&conf, &verdict, &event_log, "/logs", &patient);
    (void)read_file("report", text, sizeof(text));
    cJSON *json = cJSON_Parse(text);
    ck_assert_ptr_nonnull(json);
    const cJSON *first = cJSON_GetObjectItem(json, "first_failure");
    ck_assert_str_eq(cJSON_GetObjectItem(json, "reason")->valuestring,
                     "rank 1 failed");
    ck_assert_int_eq(cJSON_GetObjectItem(json, "status")->valueint, 3);
    ck_assert_int_eq(cJSON_GetObjectItem(json, "restarts")->valueint, 1);
    ck_assert_str_eq(cJSON_GetObjectItem(json, "logs")->valuestring, "/logs");
    ck_assert_str_eq(cJSON_GetObjectItem(first, "node")->valuestring, "b");
    ck_assert_int_eq(cJSON_GetObjectItem(first, "pid")->valueint, 101);
    ck_assert_int_eq(cJSON_GetObjectItem(first, "exit_code")->valueint, 3);
    ck_assert_str_eq(cJSON_GetObjectItem(first, "error")->valuestring,
                     "out of luck");
    ck_assert(cJSON_IsNull(cJSON_GetObjectItem(json, "node_lost")));
    cJSON_Delete(json);
    ck_assert_int_eq(entries(), 1);
}

/* Nodes share a folder, and another host's launcher has our pid: what it is
 * about to rename is left to it. */
TEST(test_report_leaves_that_of_another_host_alone)
{
    char name[32], text[200];
    (void)snprintf(name, sizeof(name), "report.%d", (int)getpid());
    put_old(name);
    report_write(&conf, &verdict, &event_log, "", &patient);
    (void)read_file(name, text, sizeof(text));
    ck_assert_str_eq(text, OLD);
    ck_assert_int_eq(entries(), 2);
}

/* -- a call fails ---------------------------------------------------------- */

static int write_it(void)
{
    int before = fault_descriptors();
    report_write(&conf, &verdict, &event_log, "", &patient);
    return fault_descriptors() == before ? HURT_DONE : HURT_LEAK;
}

/* The one or the other, and nothing else in the folder. */
static int run_file(void *ctx)
{
    (void)ctx;
    char text[8000];
    int rc = write_it();
    fault_end();
    (void)read_file("report", text, sizeof(text));
    if (rc != HURT_DONE)
        return rc;
    if (entries() != 1)
        return hurt_wrong("a file is left");
    if (is_report(text))
        return HURT_DONE;
    return strcmp(text, OLD) == 0 ? HURT_TOLD : hurt_wrong(text);
}

/* What is behind a link is overwritten; so it may be cut, but then it is told.
 */
static int run_link(void *ctx)
{
    (void)ctx;
    char text[8000];
    int rc = write_it();
    fault_end();
    (void)read_file("real", text, sizeof(text));
    if (rc != HURT_DONE)
        return rc;
    return is_report(text) ? HURT_DONE : HURT_TOLD;
}

CASE("faults", .tags = FAULT_TAG, .limit_s = 60, FIXTURE(setup, scratch_leave))

TEST(test_report_is_old_or_new_whatever_call_fails)
{
    hurt_each("test", 3, run_file, NULL, "open write rename");
}

TEST(test_report_through_a_link_is_whole_or_told_whatever_call_fails)
{
    put_old("real");
    ck_assert_int_eq(unlink("report"), 0);
    ck_assert_int_eq(symlink("real", "report"), 0);
    hurt_each("test", 3, run_link, NULL, "open write ftruncate");
}

/* -- what is no file ------------------------------------------------------- */

static void make_fifo(void)
{
    ck_assert_int_eq(unlink("report"), 0);
    ck_assert_int_eq(mkfifo("report", 0600), 0);
}

/* stderr of the call. */
static void told_by(const struct output_hurry *h, char *text, size_t size)
{
    int kept = dup(STDERR_FILENO);
    ck_assert_ptr_nonnull(freopen("told", "w", stderr));
    report_write(&conf, &verdict, &event_log, "", h);
    ck_assert_int_eq(fflush(stderr), 0);
    ck_assert_int_eq(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    ck_assert_int_eq(close(kept), 0);
    (void)read_file("told", text, size);
}

CASE("fast")

TEST(test_report_to_a_fifo_that_nobody_reads_is_told)
{
    char text[400];
    make_fifo();
    told_by(&patient, text, sizeof(text));
    ck_assert_msg(strstr(text, "cannot write the report to report: no process "
                               "reads it") != NULL,
                  "%s", text);
}

/* The pipe is full and its reader stands still. */
TEST(test_report_to_a_reader_that_stands_still_is_given_up)
{
    static char zeros[1 << 20];
    char text[400];
    make_fifo();
    int fd = open("report", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    while (write(fd, zeros, sizeof(zeros)) > 0)
        ;
    told_by(&hurried, text, sizeof(text));
    ck_assert_msg(strstr(text, "cannot write the report to report: no process "
                               "reads it") != NULL,
                  "%s", text);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("report_json", "fast", .limit_s = 60, FIXTURE(setup, scratch_leave))
