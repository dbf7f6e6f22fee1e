/* links: launcher/output/{output,relay,relay_intake,stream,console,logfile} */
/* links: launcher/output/lines launcher/conf/{output,options,words} */
/* links: launcher/proc/pidfd tests/lib/{hurt,scratch} OPTS NET PROTO BASE */
/* libs: -luv -lcjson -ldl */
/*
 * A worker's lines on their way to the log files and the console, with each
 * system call of the agent and of the relay failing in turn: a worker does not
 * hang, and what is missing is said.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/output/output.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define LINES 4000 /* more than a pipe holds */
#define LINE  "a line of a worker, which is about so long as many lines are\n"

static struct conf conf;
static char nothing[] = "no line has this";
static const struct output_hurry patient = {.fd = -1};

static void setup(void)
{
    scratch_enter();
    ck_assert_int_eq(mkdir("logs", 0700), 0);
    ck_assert_int_eq(mkdir("logs/0", 0700), 0);
    memset(&conf, 0, sizeof(conf));
    conf.nproc = 1;
    conf.hang.how = CONF_HANG_TELL; /* the bytes are counted */
    /* stdout is spliced; stderr is read, for the filter. The console has what
     * ddprun says and nothing else. */
    conf.output.redirects[0] = CONF_STDOUT | CONF_STDERR;
    conf.output.filters[1].text[0] = nothing;
    conf.output.filters[1].len = 1;
    (void)signal(SIGPIPE, SIG_IGN);
}

/* -- a worker -------------------------------------------------------------- */

static bool puts_lines(int fd)
{
    for (int i = 0; i < LINES; i++)
        if (write(fd, LINE, sizeof(LINE) - 1) != (ssize_t)sizeof(LINE) - 1)
            return false;
    return true;
}

/* Its process; it ends with 0 if all that it wrote was taken. */
static pid_t worker(const struct output_fds *ends)
{
    pid_t pid = fork();
    if (pid == 0) {
        bool good = puts_lines(ends->out >= 0 ? ends->out : STDOUT_FILENO) &&
                    puts_lines(ends->err >= 0 ? ends->err : STDERR_FILENO);
        _exit(good ? 0 : 1);
    }
    return pid;
}

/* As launcher/loop does: -1: it did not end in time. */
static int wait_for(struct output *o, pid_t pid)
{
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    int status = -1;
    while (mono_now_us() < until_us) {
        siginfo_t info = {.si_pid = 0};
        pid_t relay = output_pid(o);
        if (relay > 0 &&
            waitid(P_PID, (id_t)relay, &info, WEXITED | WNOHANG | WNOWAIT) ==
                0 &&
            info.si_pid == relay) {
            int how = 0;
            (void)waitpid(relay, &how, WNOHANG);
            output_restart(o, how);
        }
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WEXITSTATUS(status);
        (void)usleep(1000);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return -1;
}

/* Whether the file has all lines; removes it. */
static bool is_whole(const char *path)
{
    struct stat st;
    bool is = stat(path, &st) == 0 &&
              st.st_size == (off_t)LINES * (off_t)(sizeof(LINE) - 1);
    (void)unlink(path);
    return is;
}

/* -- a round --------------------------------------------------------------- */

static int run(void *ctx)
{
    (void)ctx;
    static struct output *o; /* for the life of the process */
    struct msg_world world = {.round = 1, .world_size = 1};
    struct output_fds ends;
    struct ddp_err err;
    char tail[LINES_TAIL_BYTES + 1];
    int before = fault_descriptors();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int errs = dup(STDERR_FILENO); /* the worker's lines are not for us */
    if (null < 0 || errs < 0)
        return HURT_TEST;
    o = output_new(&conf);
    if (output_open(o, &world, 0, "logs/0", &ends, &err) != 0) {
        output_finish(o, false, &patient);
        (void)close(null);
        (void)close(errs);
        return fault_descriptors() == before ? hurt_told(err.text) : HURT_LEAK;
    }
    pid_t pid = worker(&ends);
    if (pid < 0)
        return HURT_TEST;
    output_close(&ends);
    int status = wait_for(o, pid);
    output_tail(o, 0, tail);
    output_worker_ended(o, 0);
    output_finish(o, false, &patient);
    fault_end();
    (void)close(null);
    (void)close(errs);
    if (status < 0)
        return HURT_LATE;
    if (fault_descriptors() != before)
        return HURT_LEAK;
    bool out = is_whole("logs/0/stdout.log");
    bool err_too = is_whole("logs/0/stderr.log");
    return status == 0 && out && err_too ? HURT_DONE : HURT_TOLD;
}

TEST(test_output_is_whole_or_told_whatever_call_of_the_agent_fails)
{
    hurt_each("test", 2, run, NULL, "socketpair pipe2 fork sendmsg mmap");
}

TEST(test_output_is_whole_or_told_whatever_call_of_the_relay_fails)
{
    hurt_each("helper1", 2, run, NULL,
              "epoll_create1 recvmsg open splice read pwrite");
}

/* -- the end --------------------------------------------------------------- */

/* What the worker left in its pipes is not written yet when the launcher
 * ends. */
static int run_late_relay(void *ctx)
{
    (void)ctx;
    static struct output *o; /* for the life of the process */
    struct msg_world world = {.round = 1, .world_size = 1};
    struct output_fds ends;
    struct ddp_err err;
    fault_hold(true);
    o = output_new(&conf);
    if (output_open(o, &world, 0, "logs/0", &ends, &err) != 0)
        return HURT_TEST;
    pid_t relay = output_pid(o);
    bool put = kill(relay, SIGSTOP) == 0 &&
               write(ends.out, LINE, sizeof(LINE) - 1) > 0 &&
               write(ends.err, LINE, sizeof(LINE) - 1) > 0;
    output_close(&ends);
    output_worker_ended(o, 0);
    pid_t later = fork();
    if (later == 0) {
        (void)usleep(50000);
        _exit(kill(relay, SIGCONT) == 0 ? 0 : 1);
    }
    fault_hold(false);
    output_finish(o, false, &patient);
    fault_hold(true);
    struct stat out, err_file;
    bool whole = put && waitpid(later, NULL, 0) == later &&
                 stat("logs/0/stdout.log", &out) == 0 &&
                 stat("logs/0/stderr.log", &err_file) == 0 && out.st_size > 0 &&
                 out.st_size == err_file.st_size;
    (void)unlink("logs/0/stdout.log");
    (void)unlink("logs/0/stderr.log");
    return whole ? HURT_DONE : HURT_TOLD;
}

static void judge_whole(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(!r->late && WIFEXITED(r->status) && r->left == 0 &&
                      WEXITSTATUS(r->status) == HURT_DONE,
                  "%s: status %#x, left %d: %s", r->plan, (unsigned)r->status,
                  r->left, r->err);
}

/* Found on a busy machine: the relay was killed if it could not be watched. */
TEST_LOOP(test_output_is_whole_though_its_end_cannot_be_watched, 0, 4)
{
    static const char *const plans[] = {
        "", "test:poll:1:ENOMEM", "test:poll:2:ENOMEM", "test:poll:1:EINTR"};
    fault_one("test", plans[_i], run_late_relay, judge_whole, NULL);
}

SUITE("output_faults", "net", FAULT_CASE(120), FIXTURE(setup, scratch_leave))
