/* links: launcher/report/{report,exits,words} launcher/conf/endpoints */
/* links: launcher/proc/signals */
/* links: rendezvous/base/{signals_name,log,mono,err,utf8,json,buf} */
/* links: rendezvous/core/note ACCOUNT rendezvous/proto/{exits,msg,term} */
/* libs: -lcjson -lm */
/*
 * The consequences of a failure, from what the server says at the end: who they
 * are, and the lines that tell of them.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/report/exits.h"
#include "launcher/report/report.h"
#include "rendezvous/base/log.h"
#include "tests/lib/suite.h"

static struct conf conf;
static int64_t pids[4] = {100, 101, 102, 103};
static bool failed[4];
static struct event_log event_log;
static struct agent_verdict verdict;
static char told[8000];

/* This node is the second of two, with four workers each; rank 5 failed. */
static void setup(void)
{
    conf.nproc = 4;
    event_log = (struct event_log){.conf = &conf,
                                   .pids = pids,
                                   .failed = failed,
                                   .round = 2,
                                   .base_rank = 4,
                                   .node = "b"};
    verdict = (struct agent_verdict){.ended = true};
    verdict.end.round = 2;
    verdict.end.rank = 5;
    msg_set(verdict.end.node, "b");
    told[0] = '\0';
}

static void write_down(void *ctx, const struct report_end *e)
{
    char one[160];
    (void)ctx;
    (void)snprintf(one, sizeof(one), "%.65s:%lld+%d:%d%s ", e->node,
                   (long long)e->rank, e->count,
                   e->signal != 0 ? -e->signal : e->code,
                   e->pids != NULL ? "(ours)" : "");
    ck_assert_uint_lt(strlen(told) + strlen(one), sizeof(told));
    strcat(told, one);
}

static void say_exits(const char *text)
{
    (void)text;
    report_exits(&verdict, &event_log);
}

/* The round is over, and `text` is why. */
static void say_over(const char *text)
{
    const struct note n = {.kind = NOTE_stopping, .round = 2, .text = text};
    report_note(&conf, &n, &event_log, false);
}

/* Nodes that look for the rest of the run come and go, and each time this node
 * is told who is here; at last in another round. */
static void say_waits(const char *text)
{
    struct note n = {.kind = NOTE_wait, .round = 2, .text = text};
    report_note(&conf, &n, &event_log, false);
    report_note(&conf, &n, &event_log, false);
    n.text = "2 of 3 nodes";
    report_note(&conf, &n, &event_log, false);
    n.text = text;
    report_note(&conf, &n, &event_log, false);
    n.round = 3;
    report_note(&conf, &n, &event_log, false);
    report_note(&conf, &n, &event_log, false);
}

/* The whole report; `text` is what the first failure left. */
static void say_end(const char *text)
{
    msg_set(verdict.end.error, text);
    report_end(&conf, &verdict, &event_log, "");
}

/* What `say` prints. */
static const char *printed(void (*say)(const char *text), const char *text)
{
    char name[] = "/tmp/check_report_ends.XXXXXX";
    int fd = mkstemp(name), saved = dup(STDERR_FILENO);
    ck_assert(fd >= 0 && saved >= 0);
    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    say(text);
    ck_assert_int_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    ssize_t n = pread(fd, told, sizeof(told) - 1, 0);
    told[n > 0 ? n : 0] = '\0';
    ck_assert_int_eq(close(fd) + close(saved), 0);
    return told;
}

static const char *lines(void)
{
    return printed(say_exits, "");
}

/* The first failure is not listed again, even from within a run. Workers of
 * this node have pids, if the round is the last one that they were in. */
TEST(test_exits_each_but_the_first_failure)
{
    msg_set(verdict.end.ends, "@0 a 3=77 @4 b 1=1 ");
    msg_set(verdict.end.stopped, "@0 a 0-2=-15 @4 b 0=-15 2-3=-15 ");
    report_exits_each(&verdict, &event_log, write_down, NULL);
    ck_assert_str_eq(told, "a:3+1:77 a:0+3:-15 b:4+1:-15(ours) "
                           "b:6+2:-15(ours) ");
    told[0] = '\0';
    msg_set(verdict.end.ends, "@4 b 0-3=1 ");
    verdict.end.stopped[0] = '\0';
    event_log.round = 3;
    report_exits_each(&verdict, &event_log, write_down, NULL);
    ck_assert_str_eq(told, "b:4+1:1 b:6+2:1 ");
}

/* If the server sent no list, or is gone: the exits of this node. */
TEST_LOOP(test_exits_each_falls_back_to_this_node, 0, 2)
{
    exits_add(&event_log.ends, 0, -15);
    exits_add(&event_log.ends, 1, 3);
    exits_add(&event_log.ends, 3, 77);
    verdict.ended = _i == 0;
    if (_i == 1)
        verdict.end.node[0] = '\0';
    report_exits_each(&verdict, &event_log, write_down, NULL);
    if (_i == 0)
        ck_assert_str_eq(told, "b:7+1:77(ours) b:4+1:-15(ours) ");
    else
        ck_assert_str_eq(told, "b:5+1:3(ours) b:7+1:77(ours) "
                               "b:4+1:-15(ours) ");
}

/* One that its launcher killed did not die of itself. */
TEST(test_exits_line_of_one_that_did_not_stop)
{
    msg_set(verdict.end.ends, "@0 a 2=-127 3=-9 ");
    msg_set(verdict.end.counts, "0 2 0 0");
    ck_assert_str_eq(
        lines(),
        "ddprun:   then            rank 2 on a (local rank 2): killed by "
        "ddprun, since it did not stop in time (SIGKILL)\n"
        "ddprun:                   rank 3 on a (local rank 3): signal 9 "
        "(SIGKILL)\n");
}

/* Workers that were not asked to stop come first. Those that were counted and
 * not listed are in the last line. */
TEST(test_exits_lines_name_each)
{
    msg_set(verdict.end.ends, "@0 a 3=77 @4 b 0=-6 1=1 ");
    msg_set(verdict.end.stopped, "@0 a 0-2=-15 ");
    msg_set(verdict.end.counts, "3 0 1 1");
    ck_assert_str_eq(
        lines(),
        "ddprun:   then            rank 3 on a (local rank 3): exit code 77 "
        "(lost a peer)\n"
        "ddprun:                   rank 4 on b (local rank 0, pid 100): signal "
        "6 (SIGABRT)\n"
        "ddprun:                   ranks 0-2 on a (local 0-2): stopped "
        "(SIGTERM)\n");
    msg_set(verdict.end.counts, "43 2 3 6");
    ck_assert_ptr_nonnull(
        strstr(lines(), "\nddprun:                   and 49 more: 40 by "
                        "SIGTERM, 2 by SIGKILL, 2 by other signals, 5 by other "
                        "exit codes\n"));
}

/* Sixteen lines, and one that counts the rest by name. */
TEST(test_exits_lines_are_bounded)
{
    for (int i = 0; i < 60; i++) {
        char one[80];
        (void)snprintf(one, sizeof(one), "@%d n%d %d=%d ", 100 + i, i, i % 4,
                       i < 56 ? -6 : 77);
        strcat(verdict.end.ends, one);
    }
    msg_set(verdict.end.counts, "1000 0 56 4");
    const char *text = lines();
    int n = 0;
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
        n++;
    ck_assert_int_eq(n, 17);
    ck_assert_ptr_nonnull(strstr(text, "and 1044 more: 1000 by SIGTERM, 40 by "
                                       "SIGABRT, 4 by exit code 77\n"));
}

/* Nothing to tell, and only a count. */
TEST(test_exits_lines_without_a_list)
{
    ck_assert_str_eq(lines(), "");
    msg_set(verdict.end.counts, "0 7 0 0");
    ck_assert_str_eq(lines(),
                     "ddprun:   then            7 more: 7 by SIGKILL\n");
}

/* The failures of this node's own workers have been told when they came,
 * whichever of them the server takes for the first, and however many there
 * were. Other reasons have not. */
static const struct {
    const char *why;
    bool is_told;
} reasons[] = {
    {"rank 5 on b ended with exit code 3", true},
    {"rank 7 on b was killed by signal 9 (SIGKILL)", true},
    {"rank 5 on b made no progress", true},
    {"rank 5 on b lost a peer (exit code 77); which one, and why, is not known "
     "yet",
     false},
    {"rank 6 on b ended with exit code 3", false},
    {"rank 5 on bb ended with exit code 3", false},
    {"rank 1 on a ended with exit code 3", false},
    {"rank 9 on b ended with exit code 3", false},
    {"node c joins", false},
};
#define REASONS (int)(sizeof(reasons) / sizeof(reasons[0]))

TEST_LOOP(test_exits_end_of_a_round_is_told_once, 0, REASONS)
{
    char want[200];
    failed[1] = failed[3] = true;
    (void)snprintf(want, sizeof(want), "ddprun: round 2 is over: %s\n",
                   reasons[_i].why);
    ck_assert_str_eq(printed(say_over, reasons[_i].why),
                     reasons[_i].is_told ? "" : want);
}

TEST(test_exits_same_wait_is_told_once)
{
    ck_assert_str_eq(printed(say_waits, "1 of 3 nodes"),
                     "ddprun: waiting: 1 of 3 nodes\n"
                     "ddprun: waiting: 2 of 3 nodes\n"
                     "ddprun: waiting: 1 of 3 nodes\n"
                     "ddprun: waiting: 1 of 3 nodes\n");
}

/* What the worker does stands beside its name, the rest below. */
TEST(test_exits_of_a_hang_say_what_it_does)
{
    verdict.end.how = MSG_FAILED_HUNG;
    verdict.end.pid = 101;
    verdict.end.local_rank = 1;
    const char *text =
        printed(say_end, "it is stopped (state T); rank 4 waits; "
                         "no progress for 3 s");
    ck_assert_ptr_nonnull(strstr(
        text, "first failure   rank 5 on b (local rank 1, pid 101): made no "
              "progress: it is stopped (state T)\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "error           rank 4 waits; no progress for 3 s\n"));
    text = printed(say_end, "");
    ck_assert_ptr_nonnull(strstr(text, "): made no progress\n"));
    ck_assert_ptr_null(strstr(text, "error  "));
}

SUITE("report_exits", "exits", .tags = "fast", FIXTURE(setup, NULL))
