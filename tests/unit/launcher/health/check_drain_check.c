/* links: launcher/health/{drain_check,said} tests/lib/hurt NET PROTO BASE */
/* libs: -luv -lcjson -ldl */
/*
 * Whether an operator wants this node: what the command says is told, again and
 * again, and people read it once. If it says nothing of use the node stays.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/health/drain_check.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/suite.h"

#define INTERVAL_MS 20

static uv_loop_t loop;
static struct conf conf;
static struct drain_check *check;
static int dues, ends; /* checks that said so, and all that ended */
static FILE *err;
static char said[4000]; /* on stderr */

static void on_drain_due(void *ctx)
{
    (void)ctx;
    dues++;
}

static const struct drain_check_handler handler = {.on_drain_due =
                                                       on_drain_due};

static void setup(void)
{
    dues = ends = 0;
    log_init("ddprun");
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    memset(&conf, 0, sizeof(conf));
    conf.drain_timeout_us = 5 * MONO_S;
    conf.drain_interval_us = INTERVAL_MS * MONO_MS;
    err = tmpfile();
    ck_assert_ptr_nonnull(err);
    ck_assert_int_ge(dup2(fileno(err), STDERR_FILENO), 0);
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    uv_close(handle, NULL);
}

static void teardown(void)
{
    drain_check_stop(check);
    uv_walk(&loop, close_handle, NULL);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(fclose(err), 0);
}

/* As launcher/loop does when it is told of a child's end. */
static void reap(void)
{
    siginfo_t info = {.si_pid = 0};
    pid_t helper = drain_check_helper(check);
    if (helper <= 0 ||
        waitid(P_PID, (id_t)helper, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != helper)
        return;
    ends++;
    drain_check_helper_ended(check);
}

static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    reap();
    (void)usleep(1000);
}

/* Runs until so many checks have ended, or for 30 s. */
static void ask_until(int n)
{
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    while (ends < n && mono_now_us() < until_us)
        turn();
    ck_assert_int_ge(ends, n);
}

static void ask_with(const char *command, int n)
{
    (void)snprintf(conf.drain_check, sizeof(conf.drain_check), "%s", command);
    check = drain_check_new(&loop, &conf, &handler, NULL);
    ck_assert_ptr_nonnull(check);
    ask_until(n);
}

static void read_said(void)
{
    ssize_t n = pread(fileno(err), said, sizeof(said) - 1, 0);
    ck_assert_int_ge(n, 0);
    said[n] = '\0';
}

/* -- what it says ---------------------------------------------------------- */

static const struct {
    const char *command;
    int due;          /* 1: each time */
    const char *told; /* all that people read; "": nothing */
} answers[] = {
    {"true", 0, ""},
    {"echo all is well", 0, ""},
    {"exit 1", 1,
     "ddprun: this node is to be drained: it leaves at a step as soon as the "
     "run can go on without it\n"},
    {"echo a; echo b is broken >&2; exit 1", 1,
     "ddprun: this node is to be drained: b is broken: it leaves at a step as "
     "soon as the run can go on without it\n"},
    {"exit 2", 0,
     "ddprun: the drain check ended with exit code 2, so this node stays; it "
     "is asked again every 0.02 s\n"},
    {"echo who is there; exit 127", 0,
     "ddprun: the drain check ended with exit code 127: who is there, so this "
     "node stays; it is asked again every 0.02 s\n"},
    {"kill -9 $$", 0,
     "ddprun: the drain check was killed by SIGKILL, so this node stays; it is "
     "asked again every 0.02 s\n"},
};

TEST_EACH(test_drain_check_tells_what_the_command_says, answers)
{
    ask_with(answers[_i].command, 3);
    ck_assert_int_eq(dues, answers[_i].due * ends);
    read_said();
    ck_assert_str_eq(said, answers[_i].told);
}

/* Drained, taken back, drained once more: people are told twice. */
TEST(test_drain_check_tells_of_a_second_time)
{
    char command[200], name[] = "/tmp/drain.XXXXXX";
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    (void)snprintf(command, sizeof(command), "[ ! -e %s ]", name);
    ask_with(command, 2);
    ck_assert_int_eq(dues, ends);
    ck_assert_int_eq(unlink(name), 0);
    ask_until(ends + 2);
    int before = dues;
    ck_assert_int_lt(before, ends);
    fd = open(name, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    ask_until(ends + 2);
    ck_assert_int_gt(dues, before);
    ck_assert_int_eq(unlink(name), 0);
    read_said();
    const char *first = strstr(said, "is to be drained");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(strstr(first + 1, "is to be drained"));
}

/* One that hangs is killed, with all that it started, and is asked again. */
TEST(test_drain_check_has_a_time_limit)
{
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    conf.drain_timeout_us = 50 * MONO_MS;
    (void)snprintf(conf.drain_check, sizeof(conf.drain_check), "sleep 60");
    check = drain_check_new(&loop, &conf, &handler, NULL);
    pid_t first = 0;
    while ((first == 0 || drain_check_helper(check) == 0 ||
            drain_check_helper(check) == first) &&
           mono_now_us() < until_us) {
        turn();
        first = first == 0 ? drain_check_helper(check) : first;
    }
    ck_assert_int_ne(drain_check_helper(check), first);
    ck_assert_int_eq(kill(first, 0), -1);
    ck_assert_int_eq(dues, 0);
    read_said();
    ck_assert_str_eq(said,
                     "ddprun: the drain check took longer than 0.05 s, "
                     "so this node stays; it is asked again every 0.02 s\n");
}

TEST(test_drain_check_without_a_command_is_none)
{
    check = drain_check_new(&loop, &conf, &handler, NULL);
    ck_assert_ptr_null(check);
    ck_assert_int_eq(drain_check_helper(check), 0);
}

/* A node that is to be drained: each check says so, or why it cannot be made.
 */
static int run(void *ctx)
{
    (void)ctx;
    (void)snprintf(conf.drain_check, sizeof(conf.drain_check), "exit 1");
    check = drain_check_new(&loop, &conf, &handler, NULL);
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    while (dues == 0 && mono_now_us() < until_us)
        turn(); /* the check after one that could not be made is another try */
    return dues > 0 ? HURT_DONE : HURT_LATE;
}

CASE("faults", FAULT_CASE(60), FIXTURE(setup, teardown))

TEST_LOOP(test_drain_check_asks_again_whatever_call_fails, 0, 2)
{
    hurt_each(_i == 0 ? "test" : "helper1", 2, run, NULL,
              _i == 0 ? "memfd_create fork" : "dup2");
}

SUITE("drain_check", "slow", FIXTURE(setup, teardown))
