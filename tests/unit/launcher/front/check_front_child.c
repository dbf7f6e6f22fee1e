/* links: launcher/front/{child,command,streams,marks} */
/* links: launcher/cluster/task_vars launcher/output/{console,lines} */
/* links: launcher/conf/options tests/lib/{hurt,scratch} BASE OPTS */
/* links: rendezvous/base/open_files */
/* libs: -luv -lcjson -ldl */
/*
 * A command that a front end executes: it gets what is written to it, what it
 * says is shown, and its end is seen; while each system call fails in turn.
 */
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "launcher/front/child.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define LIMIT_US (30 * MONO_S)

static struct console out, err_to;

/* From now on both streams of this process are files. */
static void shown_in_files(void)
{
    static const char *const names[] = {"out", "err"};
    for (int i = 0; i < 2; i++) {
        int fd = open(names[i], O_RDWR | O_CREAT | O_TRUNC, 0600);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(dup2(fd, i + 1), i + 1);
        ck_assert_int_eq(close(fd), 0);
    }
}

static bool file_is(const char *name, const char *want)
{
    char text[600] = "";
    int fd = open(name, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    (void)close(fd);
    return n >= 0 && strcmp(text, want) == 0;
}

/* Until the child is over, all of its output is shown, or too much time. */
static bool play(struct front_child *k)
{
    int64_t until_us = mono_now_us() + LIMIT_US * suite_slow(), now_us;
    bool closed = false;
    while ((now_us = mono_now_us()) < until_us) {
        struct pollfd p[2] = {{.fd = k->out.fd, .events = POLLIN},
                              {.fd = k->err.fd, .events = POLLIN}};
        front_child_write(k);
        if (!closed && k->in_fd >= 0 && buf_len(&k->orders) == 0) {
            (void)close(k->in_fd);
            k->in_fd = -1;
            closed = true;
        }
        if (poll(p, 2, 10) > 0) {
            if (p[0].revents != 0)
                (void)front_stream_read(&k->out, now_us);
            if (p[1].revents != 0)
                (void)front_stream_read(&k->err, now_us);
        }
        front_child_reap(k, now_us);
        front_stream_look(&k->out, now_us);
        front_stream_look(&k->err, now_us);
        if (front_child_is_over(k, now_us)) {
            console_flush(&out);
            console_flush(&err_to);
            return true;
        }
    }
    return false;
}

static int start(struct front_child *k, const char *script, struct ddp_err *err)
{
    sigset_t none;
    struct command w = {.n = 0};
    (void)sigemptyset(&none);
    command_add(&w, "/bin/sh");
    command_add(&w, "-c");
    command_add(&w, script);
    front_child_init(k, "it");
    int rc = front_child_start(k, &w, true, &none, &out, &err_to, 1, err);
    command_free(&w);
    return rc;
}

static int run(void *ctx)
{
    static struct front_child k;
    struct ddp_err err;
    (void)ctx;
    fault_hold(true);
    console_open(&out, STDOUT_FILENO, false);
    console_open(&err_to, STDERR_FILENO, false);
    fault_hold(false);
    int before = fault_descriptors();
    if (start(&k, "cat; echo said >&2; exit 7", &err) < 0) {
        front_child_free(&k);
        return fault_descriptors() != before ? HURT_LEAK : hurt_told(err.text);
    }
    (void)buf_put(&k.orders, "heard\n", 6);
    bool over = play(&k);
    int status = k.status;
    front_child_free(&k);
    if (fault_descriptors() != before)
        return HURT_LEAK;
    if (!over)
        return HURT_LATE;
    return status == 7 ? HURT_DONE : hurt_told("another status");
}

TEST(test_child_is_executed_or_the_reason_is_told_whatever_call_fails)
{
    hurt_each("test", 3, run, NULL, "pipe2 fork");
}

CASE("child", .limit_s = 60, FIXTURE(scratch_enter, scratch_leave))

TEST(test_child_gets_orders_and_is_shown)
{
    static struct front_child k;
    struct ddp_err err;
    shown_in_files();
    console_open(&out, STDOUT_FILENO, false);
    console_open(&err_to, STDERR_FILENO, false);
    ck_assert_int_eq(start(&k, "cat; printf 'no end' >&2; exit 7", &err), 0);
    k.err.prefix = "it: ";
    ck_assert_int_eq(buf_put(&k.orders, "one\ntwo\n", 8), 0);
    ck_assert(front_child_lives(&k) && play(&k));
    ck_assert_int_eq(k.status, 7);
    ck_assert(file_is("out", "one\ntwo\n"));
    ck_assert(file_is("err", "it: no end"));
    front_child_free(&k);
}

/* A step would give each launcher a task's share of its node. */
TEST(test_child_knows_nothing_of_what_a_task_of_the_job_gets)
{
    static struct front_child k;
    struct ddp_err err;
    shown_in_files();
    console_open(&out, STDOUT_FILENO, false);
    console_open(&err_to, STDERR_FILENO, false);
    ck_assert_int_eq(setenv("SLURM_GPUS_PER_TASK", "1", 1), 0);
    ck_assert_int_eq(setenv("SLURM_CPUS_PER_TASK", "4", 1), 0);
    ck_assert_int_eq(setenv("SRUN_CPUS_PER_TASK", "4", 1), 0);
    ck_assert_int_eq(start(&k,
                           "echo \"${SLURM_GPUS_PER_TASK-gone} "
                           "$SLURM_CPUS_PER_TASK ${SRUN_CPUS_PER_TASK-gone}\"",
                           &err),
                     0);
    ck_assert(play(&k));
    ck_assert(file_is("out", "gone 4 gone\n"));
    front_child_free(&k);
}

/* Two streams on one console: a line that has no end is not mixed with others.
 */
TEST(test_streams_begin_a_new_line_behind_an_unfinished_one)
{
    struct front_stream a, b;
    int pa[2], pb[2];
    shown_in_files();
    console_open(&out, STDOUT_FILENO, false);
    ck_assert_int_eq(pipe2(pa, O_NONBLOCK), 0);
    ck_assert_int_eq(pipe2(pb, O_NONBLOCK), 0);
    front_stream_open(&a, pa[0], 1, &out, 0);
    front_stream_open(&b, pb[0], 2, &out, 0);
    ck_assert_int_eq(write(pa[1], "50 %", 4), 4);
    ck_assert(front_stream_read(&a, 0));
    front_stream_look(&a, STREAMS_QUIET_US - 1);
    ck_assert_uint_eq(buf_len(&a.held), 4);
    front_stream_look(&a, STREAMS_QUIET_US);
    ck_assert_uint_eq(buf_len(&a.held), 0);
    ck_assert_int_eq(write(pb[1], "line\n", 5), 5);
    ck_assert(front_stream_read(&b, STREAMS_QUIET_US));
    ck_assert_int_eq(write(pa[1], " done\n", 6), 6);
    ck_assert(front_stream_read(&a, STREAMS_QUIET_US));
    console_flush(&out);
    ck_assert(file_is("out", "50 %\nline\n done\n"));
    (void)close(pa[1]);
    ck_assert(!front_stream_read(&a, STREAMS_QUIET_US) && a.fd < 0);
    front_stream_close(&b);
    (void)close(pb[1]);
}

/* While the console is full a stream is not read, so the end of its line may
 * have come: it is not shown without it. */
TEST(test_streams_that_are_not_read_are_not_quiet)
{
    static char line[1000], some[65536];
    struct front_stream a;
    int p[2], to[2];
    ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
    ck_assert_int_eq(pipe2(to, O_NONBLOCK), 0);
    ck_assert_int_eq(dup2(to[1], STDOUT_FILENO), STDOUT_FILENO);
    console_open(&out, STDOUT_FILENO, false);
    front_stream_open(&a, p[0], 1, &out, 0);
    ck_assert_int_eq(write(p[1], "half", 4), 4);
    ck_assert(front_stream_read(&a, 0));
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    while (front_stream_wants(&a))
        console_put(&out, line, sizeof(line));
    int64_t now_us = 10 * MONO_S;
    front_stream_look(&a, now_us);
    ck_assert_uint_eq(buf_len(&a.held), 4);
    while (console_waiting(&out) > 0) {
        ck_assert_int_gt(read(to[0], some, sizeof(some)), 0);
        console_flush(&out);
    }
    ck_assert(front_stream_wants(&a));
    front_stream_look(&a, now_us + 1);
    ck_assert_uint_eq(buf_len(&a.held), 4);
    front_stream_look(&a, now_us + STREAMS_QUIET_US);
    ck_assert_uint_eq(buf_len(&a.held), 0);
    front_stream_close(&a);
}

/* As many streams as the console has no room for: what it does not take stays
 * in the pipes, whoever reads without asking. */
TEST(test_streams_leave_in_the_pipe_what_the_console_does_not_take)
{
    enum {
        STREAMS = 80,
        EACH = 32000
    };
    static struct front_stream s[STREAMS];
    static char line[80], some[65536];
    int p[2], to[2];
    size_t came = 0, taken = 1;
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    ck_assert_int_eq(pipe2(to, O_NONBLOCK), 0);
    ck_assert_int_eq(dup2(to[1], STDOUT_FILENO), STDOUT_FILENO);
    console_open(&out, STDOUT_FILENO, false);
    for (int i = 0; i < STREAMS; i++) {
        ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
        front_stream_open(&s[i], p[0], (uint64_t)i + 1, &out, 0);
        for (size_t n = 0; n < EACH; n += sizeof(line))
            ck_assert_int_eq(write(p[1], line, sizeof(line)), sizeof(line));
        ck_assert_int_eq(close(p[1]), 0);
    }
    while (taken > 0) {
        taken = 0;
        for (int i = 0; i < STREAMS; i++)
            taken += s[i].fd >= 0 && front_stream_read(&s[i], 1);
        console_flush(&out);
        for (ssize_t n; (n = read(to[0], some, sizeof(some))) > 0;) {
            came += (size_t)n;
            console_flush(&out);
        }
    }
    ck_assert_uint_eq(came, (size_t)STREAMS * EACH);
}

/* Prefixes make much of short lines. */
TEST(test_streams_show_all_short_lines_with_a_long_prefix)
{
    static char newlines[30000], prefix[270];
    struct front_stream a;
    int p[2];
    shown_in_files();
    console_open(&out, STDOUT_FILENO, false);
    memset(newlines, '\n', sizeof(newlines));
    memset(prefix, 'p', sizeof(prefix) - 1);
    ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
    front_stream_open(&a, p[0], 1, &out, 0);
    a.prefix = prefix;
    ck_assert_int_eq(write(p[1], newlines, sizeof(newlines)), sizeof(newlines));
    ck_assert_int_eq(close(p[1]), 0);
    while (front_stream_read(&a, 1))
        console_flush(&out);
    console_flush(&out);
    ck_assert_int_eq(lseek(STDOUT_FILENO, 0, SEEK_END),
                     (off_t)(sizeof(newlines) * sizeof(prefix)));
}

static int ends_seen;

static void on_end(void *ctx, const struct mark *m)
{
    (void)ctx;
    ends_seen += m->kind == MARK_END && m->status == 7;
}

/* A line without an end is shown when it is long; half a mark behind it waits
 * for its other half. */
TEST(test_streams_know_a_mark_of_which_half_came_behind_a_long_line)
{
    static char text[STREAMS_HOLD + MARKS_MAX];
    static const char mark[] = "0123456789abcdef";
    struct front_stream a;
    int p[2];
    shown_in_files();
    console_open(&out, STDOUT_FILENO, false);
    ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
    ck_assert_int_ge(fcntl(p[1], F_SETPIPE_SZ, 1 << 18), 1 << 18);
    front_stream_open(&a, p[0], 1, &out, 0);
    a.mark = mark;
    a.on_mark = on_end;
    memset(text, 'x', sizeof(text));
    size_t plain = STREAMS_HOLD - 10;
    size_t len = marks_write(text + plain, mark, MARK_END, 7, "host") - 10;
    ck_assert_int_eq(write(p[1], text, STREAMS_HOLD), STREAMS_HOLD);
    for (int i = 0; i < 4; i++)
        ck_assert(front_stream_read(&a, 1));
    ck_assert_int_eq(write(p[1], text + STREAMS_HOLD, len), (ssize_t)len);
    ck_assert(front_stream_read(&a, 1));
    console_flush(&out);
    ck_assert_int_eq(ends_seen, 1);
    ck_assert_int_eq(lseek(STDOUT_FILENO, 0, SEEK_END), (off_t)plain);
    front_stream_close(&a);
    (void)close(p[1]);
}

/* Memory that is short now is no end. */
TEST(test_streams_without_memory_are_read_later)
{
    struct front_stream a;
    int p[2];
    shown_in_files();
    console_open(&out, STDOUT_FILENO, false);
    ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
    front_stream_open(&a, p[0], 1, &out, 0);
    ck_assert_int_eq(write(p[1], "line\n", 5), 5);
    size_t max = a.held.max;
    a.held.max = 1; /* it gets no room */
    ck_assert(front_stream_read(&a, 1));
    a.held.max = max;
    ck_assert(front_stream_read(&a, 1));
    console_flush(&out);
    ck_assert(file_is("out", "line\n"));
    front_stream_close(&a);
    (void)close(p[1]);
}

/* The child has ended and the console was full for long: once it has room, what
 * is still in the pipe is read. */
TEST(test_child_that_ended_is_read_once_the_console_has_room)
{
    static struct front_child k;
    static char line[1000], some[65536];
    struct ddp_err err;
    int to[2];
    int64_t now_us = mono_now_us();
    ck_assert_int_eq(pipe2(to, O_NONBLOCK), 0);
    ck_assert_int_eq(dup2(to[1], STDOUT_FILENO), STDOUT_FILENO);
    console_open(&out, STDOUT_FILENO, false);
    console_open(&err_to, STDERR_FILENO, false);
    ck_assert_int_eq(start(&k, "echo last", &err), 0);
    for (int i = 0; i < 1000 && k.state != CHILD_ENDED; i++) {
        (void)usleep(10 * 1000);
        front_child_reap(&k, now_us);
    }
    memset(line, 'x', sizeof(line));
    while (front_stream_wants(&k.out))
        console_put(&out, line, sizeof(line));
    now_us += 10 * CHILD_LAST_US;
    front_stream_look(&k.out, now_us);
    while (console_waiting(&out) > 0) {
        ck_assert_int_gt(read(to[0], some, sizeof(some)), 0);
        console_flush(&out);
    }
    ck_assert(!front_child_is_over(&k, now_us + 1));
    ck_assert(front_stream_read(&k.out, now_us + 2));
    console_flush(&out);
    ssize_t n = read(to[0], some, sizeof(some));
    ck_assert_int_ge(n, 5);
    ck_assert_int_eq(memcmp(some + n - 5, "last\n", 5), 0);
    front_child_free(&k);
}

/* Its proxy was asked: any output is an answer, and while the console is full
 * an answer may wait unread. */
TEST(test_child_has_answered_if_something_came_or_may_have_come)
{
    static struct front_child k;
    static char line[1000], some[65536];
    int to[2], p[2];
    ck_assert_int_eq(pipe2(to, O_NONBLOCK), 0);
    ck_assert_int_eq(dup2(to[1], STDOUT_FILENO), STDOUT_FILENO);
    console_open(&out, STDOUT_FILENO, false);
    front_child_init(&k, "it");
    ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
    front_stream_open(&k.out, p[0], 1, &out, 0);
    front_stream_open(&k.err, dup(p[0]), 2, &out, 0);
    k.asked_us = 100;
    ck_assert(!front_child_answered(&k));
    ck_assert_int_eq(write(p[1], "word\n", 5), 5);
    ck_assert(front_stream_read(&k.out, 101));
    ck_assert(front_child_answered(&k));
    k.asked_us = 200;
    ck_assert(!front_child_answered(&k));
    memset(line, 'x', sizeof(line));
    while (front_stream_wants(&k.err))
        console_put(&out, line, sizeof(line));
    front_stream_look(&k.err, 201);
    ck_assert(front_child_answered(&k));
    while (console_waiting(&out) > 0) {
        ck_assert_int_gt(read(to[0], some, sizeof(some)), 0);
        console_flush(&out);
    }
    k.asked_us = 300;
    front_stream_look(&k.err, 301);
    ck_assert(!front_child_answered(&k));
    front_child_free(&k);
    (void)close(p[1]);
}

#define REPORT(pid)                                                            \
    "ddprun: run 'x' failed\n"                                                 \
    "ddprun:   first failure   rank 1 (pid " pid ")\n"                         \
    "ddprun:   exit status     7\n"

/* Of the same report from several hosts the first one is shown, all of it. */
TEST(test_streams_show_a_report_once)
{
    struct front_reports reports = {.repeated = 0};
    struct front_stream s[3];
    int p[3][2];
    shown_in_files();
    console_open(&out, STDOUT_FILENO, false);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pipe2(p[i], O_NONBLOCK), 0);
        front_stream_open(&s[i], p[i][0], (uint64_t)i + 1, &out, 0);
        s[i].reports = &reports;
    }
    static const struct {
        int from;
        const char *text;
    } said[] = {
        {0, "a\n" REPORT("1") "b\n"},
        {1, "c\nddprun: run 'x' fai"},
        {1, "led\nddprun:   first\n"},
        {1, "ddprun:   then\nddprun: more\nddprun:   d\n"},
        {2, "ddprun: run 'y' failed\nddprun:   e\n"},
        {2, REPORT("2") "f"},
        {0, REPORT("3")}, /* its own, again */
    };
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        size_t len = strlen(said[i].text);
        ck_assert_int_eq(write(p[said[i].from][1], said[i].text, len),
                         (ssize_t)len);
        ck_assert(front_stream_read(&s[said[i].from], 0));
    }
    console_flush(&out);
    ck_assert(file_is("out",
                      "a\n" REPORT("1") "b\nc\nddprun: more\n"
                                        "ddprun:   d\nddprun: run 'y' failed\n"
                                        "ddprun:   e\n" REPORT("3")));
    ck_assert_int_eq(reports.repeated, 2);
    for (int i = 0; i < 3; i++) {
        front_stream_close(&s[i]);
        (void)close(p[i][1]);
    }
}

/* Each number of hosts that is not too many, with a limit that is enough for
 * their pipes alone: as many descriptors are polled as the limit
 * says. */
TEST(test_child_room_is_enough_to_poll_all_hosts)
{
    for (int hosts = 1; hosts <= 512; hosts++) {
        struct rlimit limit;
        rlim_t polled = (rlim_t)(hosts * CHILD_FDS + 3);
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = (rlim_t)(hosts * CHILD_FDS);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        ck_assert_int_eq(front_child_room(hosts, NULL), 0);
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        ck_assert_uint_ge(limit.rlim_cur, polled);
    }
}

SUITE("front_child", "faults", FAULT_CASE(120))
