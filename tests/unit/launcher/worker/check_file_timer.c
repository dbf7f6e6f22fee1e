/* links: launcher/worker/file_timer launcher/proc/{pidfd,procfs,aborts} */
/* links: tests/lib/hurt BASE */
/* libs: -luv -lcjson -ldl */
/*
 * What a process of a worker says through the pipe of file timers, and which
 * processes get a signal for it. The worker is this test's: a process with a
 * session of its own, which a child of it shares.
 */
#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/proc/aborts.h"
#include "launcher/worker/file_timer.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/suite.h"

#define NEVER_MS 150 /* in which nothing must happen */

static uv_loop_t loop;
static struct file_timer *timers;
static pid_t worker, stranger;
static FILE *err;
static char said[4000]; /* on stderr */

/* In place of launcher/worker/workers. */
pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers;
    return local_rank == 1 ? worker : 0;
}

/* -- the processes --------------------------------------------------------- */

static pid_t start(bool session)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)alarm(30);
        if (session && setsid() < 0)
            abort();
        for (;;)
            (void)pause();
    }
    while (session && getsid(pid) != pid)
        (void)usleep(100);
    return pid;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0); /* or it was waited for */
}

static void setup(void)
{
    log_init("ddprun");
    aborts_explain();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    err = tmpfile();
    ck_assert_ptr_nonnull(err);
    ck_assert_int_ge(dup2(fileno(err), STDERR_FILENO), 0);
    (void)setenv("TORCHELASTIC_ENABLE_FILE_TIMER", "1", 1);
    (void)unsetenv("TORCHELASTIC_TIMER_FILE");
}

static void setup_with_worker(void)
{
    setup();
    worker = start(true);
    stranger = start(false);
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    uv_close(handle, NULL);
}

static void teardown(void)
{
    file_timer_end(timers);
    uv_walk(&loop, close_handle, NULL);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void teardown_with_worker(void)
{
    end(worker);
    end(stranger);
    teardown();
}

static void open_timers(void)
{
    timers = file_timer_new(&loop, NULL, 2);
    ck_assert_ptr_nonnull(timers);
}

/* As FileTimerClient does. False: nobody reads. */
static bool put(const char *text)
{
    const char *path = getenv("TORCHELASTIC_TIMER_FILE");
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    size_t len = strlen(text);
    bool good = fd >= 0 && write(fd, text, len) == (ssize_t)len;
    if (fd >= 0)
        (void)close(fd);
    return good;
}

static bool ask(pid_t pid, const char *scope, double in_s, int signo)
{
    char line[400];
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    double at = (double)now.tv_sec + (double)now.tv_nsec / 1e9 + in_s;
    (void)snprintf(line, sizeof(line),
                   "{\"version\": 1, \"pid\": %d, \"scope_id\": \"%s\", "
                   "\"expiration_time\": %.6f, \"signal\": %d}\n",
                   (int)pid, scope, in_s < 0 ? -1. : at, signo);
    return put(line);
}

static bool run_for(int ms, pid_t until_dead)
{
    int status = 0;
    int64_t until_us = mono_now_us() + ms * MONO_MS;
    while (mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        if (waitpid(until_dead, &status, WNOHANG) == until_dead) {
            ck_assert(WIFSIGNALED(status));
            return true;
        }
        (void)usleep(1000);
    }
    return false;
}

static const char *read_said(void)
{
    ssize_t n = pread(fileno(err), said, sizeof(said) - 1, 0);
    ck_assert_int_ge(n, 0);
    said[n] = '\0';
    return said;
}

/* -- what is asked for ----------------------------------------------------- */

TEST(test_file_timer_that_runs_out_ends_its_process)
{
    char scope[SCHAR_MAX * 2];
    memset(scope, 'x', sizeof(scope) - 1);
    memcpy(scope + sizeof(scope) - 12, "train.py#17", sizeof("train.py#17"));
    open_timers();
    ck_assert(ask(worker, scope, 0.05, SIGKILL));
    ck_assert(run_for(30000, worker));
    ck_assert_ptr_nonnull(strstr(
        read_said(), "train.py#17' of the worker with local rank 1 has run "
                     "out: sending SIGKILL to process "));
}

/* Done in time; done, and begun anew; two things of one process. */
TEST(test_file_timer_that_is_released_ends_nothing)
{
    open_timers();
    ck_assert(ask(worker, "a", 0.03, SIGKILL));
    ck_assert(ask(worker, "a", -1, 0));
    ck_assert(ask(worker, "b", 0.03, SIGKILL));
    ck_assert(ask(worker, "b", 60, SIGKILL));
    ck_assert(!run_for(NEVER_MS, worker));
    ck_assert(ask(worker, "b", -1, 0));
    ck_assert(ask(worker, "c", 0.03, SIGUSR1));
    ck_assert(run_for(30000, worker));
}

/* Of the round before; without a signal; a process that is not a worker's. */
TEST(test_file_timer_ends_no_process_that_it_must_not)
{
    open_timers();
    ck_assert(ask(worker, "a", 0.05, SIGKILL));
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert(ask(worker, "b", 0.05, SIGKILL));
    file_timer_round(timers);
    ck_assert(ask(worker, "c", 0.01, 0));
    ck_assert(ask(stranger, "d", 0.01, SIGKILL));
    ck_assert(ask(getpid(), "e", 0.01, SIGKILL));
    ck_assert(!run_for(NEVER_MS, worker));
    ck_assert_int_eq(waitpid(stranger, NULL, WNOHANG), 0);
    ck_assert_ptr_nonnull(strstr(read_said(), "it asks for no signal"));
}

static const char *const nonsense[] = {
    "\n",
    "pid\n",
    "[1, 2]\n",
    "{\"pid\": 0, \"scope_id\": \"\", \"expiration_time\": 0, \"signal\": 9}\n",
    "{\"pid\": 1e99, \"scope_id\": \"\", \"expiration_time\": 0, "
    "\"signal\": 9}\n",
    "{\"pid\": 1, \"scope_id\": 7, \"expiration_time\": 0, \"signal\": 9}\n",
    "{\"pid\": 1, \"scope_id\": \"\", \"expiration_time\": \"\", "
    "\"signal\": 9}\n",
    "{\"pid\": 1, \"scope_id\": \"\", \"expiration_time\": 0, "
    "\"signal\": 99}\n",
};

TEST_EACH(test_file_timer_drops_what_is_no_request, nonsense)
{
    open_timers();
    ck_assert(put(nonsense[_i]));
    ck_assert(put(nonsense[_i]));
    ck_assert(ask(worker, "a", 0.01, SIGKILL));
    ck_assert(run_for(30000, worker));
    const char *first = strstr(read_said(), "that are no request");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, "that are no request")); /* once */
}

TEST(test_file_timer_drops_a_line_that_is_too_long)
{
    char part[PIPE_BUF];
    memset(part, ' ', sizeof(part) - 1);
    part[sizeof(part) - 1] = '\0';
    open_timers();
    for (int i = 0; i < 3; i++)
        ck_assert(put(part));
    ck_assert(ask(worker, "in the long line", 0.01, SIGKILL));
    ck_assert(!run_for(NEVER_MS, worker));
    ck_assert(ask(worker, "behind it", 0.01, SIGKILL));
    ck_assert(run_for(30000, worker));
}

TEST(test_file_timers_have_an_upper_bound)
{
    char scope[24];
    open_timers();
    for (int i = 0; i <= FILE_TIMERS_MAX; i++) {
        (void)snprintf(scope, sizeof(scope), "%d", i);
        ck_assert(ask(worker, scope, 60, SIGKILL));
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_ptr_nonnull(strstr(
        read_said(), "more than 1024 file timers run at once; the others"));
    ck_assert(
        ask(worker, "7", 0.01, SIGKILL)); /* one of those that are there */
    ck_assert(run_for(30000, worker));
}

TEST(test_file_timer_without_the_variable_is_none)
{
    (void)setenv("TORCHELASTIC_ENABLE_FILE_TIMER", "0", 1);
    timers = file_timer_new(&loop, NULL, 2);
    ck_assert_ptr_null(timers);
    ck_assert_ptr_null(getenv("TORCHELASTIC_TIMER_FILE"));
    file_timer_round(timers);
}

/* -- the pipe -------------------------------------------------------------- */

/* An old pipe there gives way; a file does not. */
TEST(test_file_timer_has_the_name_that_the_user_gave)
{
    char folder[] = "/tmp/check_file_timer_XXXXXX", path[64];
    struct stat st;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/pipe", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    (void)setenv("TORCHELASTIC_TIMER_FILE", path, 1);
    open_timers();
    ck_assert(ask(worker, "a", 0.01, SIGKILL));
    ck_assert(run_for(30000, worker));
    file_timer_end(timers);
    ck_assert_int_eq(stat(path, &st), -1);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_ptr_null(file_timer_new(&loop, NULL, 2));
    ck_assert_ptr_nonnull(strstr(read_said(), "cannot make the pipe of file "
                                              "timers at "));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* -- every call ------------------------------------------------------------ */

static volatile sig_atomic_t signalled;

static void on_signal(int signo)
{
    signalled = signo;
}

/* The worker is the run itself, which leads a session. */
static int run(void *ctx)
{
    (void)ctx;
    worker = getpid();
    (void)signal(SIGUSR1, on_signal);
    int descriptors = fault_descriptors();
    timers = file_timer_new(&loop, NULL, 2);
    if (timers == NULL)
        return fault_descriptors() == descriptors ? HURT_TOLD : HURT_LEAK;
    fault_hold(true);
    bool asked = ask(worker, "a", 0.01, SIGUSR1);
    fault_hold(false);
    int64_t until_us = mono_now_us() + 10 * MONO_S;
    while (asked && signalled == 0 && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)usleep(1000);
    }
    return signalled == SIGUSR1 ? HURT_DONE : asked ? HURT_TOLD : HURT_TEST;
}

CASE("faults", FAULT_CASE(60), FIXTURE(setup, teardown))

TEST(test_file_timer_works_or_says_why_not_whatever_call_fails)
{
    hurt_each("test", 2, run, NULL, "pipe2");
}

SUITE("file_timer",
      "fast",
      .limit_s = 60,
      FIXTURE(setup_with_worker, teardown_with_worker))
