/* links: launcher/worker/{death_watch,mailbox} launcher/proc/procfs */
/* links: worker_rt/death_sign rendezvous/base/{err,mono} */
/* libs: -luv */
/*
 * Real processes that hold the lock of their page, and end in each way.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/death_watch.h"
#include "launcher/worker/mailbox.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"
#include "worker_rt/rt.h"

#define LARGE (INT64_C(300) << 20)

enum way {
    BY_SIGNAL,
    WHILE_STOPPED,
    BY_EXIT,
    BY_THREAD, /* another one than the main thread ends the process */
    BY_EXEC,
    MAIN_THREAD_ALONE
};

static uv_loop_t loop;
static uv_timer_t timer;
static struct death_watch *watch;
static struct mailbox_pages pages = MAILBOX_PAGES_NONE;
static struct mailbox box = MAILBOX_NONE;
static int ready[2], go[2];
static pid_t told_pid;
static int told_status, n_told;
static bool told_alive; /* its pidfd did not tell yet */
static int pidfd;

static bool has_ended(void)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void on_death(void *ctx, pid_t pid, int wait_status)
{
    (void)ctx;
    n_told++;
    told_pid = pid;
    told_status = wait_status;
    told_alive = !has_ended();
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_timer_init(&loop, &timer), 0);
    ck_assert_int_eq(mailbox_open_pages(&pages, 1), 0);
    ck_assert_int_eq(mailbox_open(&box, &pages, 0), 0);
    ck_assert_ptr_nonnull(box.page);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(go), 0);
    watch = death_watch_new(&loop, on_death, NULL);
    ck_assert_ptr_nonnull(watch);
}

static void on_timer(uv_timer_t *t)
{
    (void)t;
}

/* The loop for that long. */
static void turn(int64_t ms)
{
    (void)uv_timer_start(&timer, on_timer, (uint64_t)ms, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
}

/* -- the process ----------------------------------------------------------- */

static void *exit_from_thread(void *arg)
{
    exit((int)(intptr_t)arg);
}

static void *sleep_on(void *arg)
{
    (void)sleep(1);
    return arg;
}

static _Noreturn void end(enum way way, int how)
{
    pthread_t id;
    char *const argv[] = {(char[]){"sleep"}, (char[]){"1"}, NULL};
    switch (way) {
    case BY_SIGNAL:
    case WHILE_STOPPED:
        for (;;)
            (void)pause();
    case BY_EXIT:
        _exit(how);
    case BY_THREAD:
        ck_assert_int_eq(
            pthread_create(&id, NULL, exit_from_thread, (void *)(intptr_t)how),
            0);
        for (;;)
            (void)pause();
    case BY_EXEC:
        (void)execvp(argv[0], argv);
        abort();
    case MAIN_THREAD_ALONE:
        ck_assert_int_eq(pthread_create(&id, NULL, sleep_on, NULL), 0);
        pthread_exit(NULL);
    }
    abort();
}

static pid_t begin(enum way way, int how, int64_t bytes)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char told;
        /* On a busy machine whoever watches it runs before it is gone. */
        ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, 10), 0);
        (void)signal(SIGTERM, SIG_DFL); /* Check has a handler */
        (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer has one */
        (void)signal(SIGABRT, SIG_DFL);
        rt_sign_death(box.stop_fd, stop_page_at(0));
        char *memory = mmap(NULL, (size_t)bytes + 1, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            abort();
        memset(memory, 1, (size_t)bytes + 1);
        if (write(ready[1], "r", 1) != 1)
            abort();
        if (way != BY_SIGNAL && way != WHILE_STOPPED &&
            read(go[0], &told, 1) != 1)
            abort();
        end(way, how);
    }
    char said = 0;
    ck_assert_int_eq(read(ready[0], &said, 1), 1);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    ck_assert_int_ge(pidfd, 0);
    death_watch_look(watch, pid, box.page);
    turn(50); /* the thread waits */
    return pid;
}

static int reap(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ck_assert_int_eq(errno, EINTR);
    return status;
}

/* ThreadSanitizer has a thread in each process: one does not end because its
 * main thread does. */
#ifdef __SANITIZE_THREAD__
#define OWN_THREADS_ONLY false
#else
#define OWN_THREADS_ONLY true
#endif

/* -- the tests ------------------------------------------------------------- */

/* Each ends by a signal, and is told before its pidfd tells. */
TEST_LOOP(test_death_watch_tells_of_a_signal_before_the_end, 0, 4)
{
    static const int signals[] = {SIGKILL, SIGTERM, SIGSEGV, SIGABRT};
    int signo = signals[_i];
    pid_t pid = begin(BY_SIGNAL, 0, LARGE);
    ck_assert_int_eq(kill(pid, signo), 0);
    turn(1000);
    ck_assert_int_eq(n_told, 1);
    ck_assert_int_eq(told_pid, pid);
    ck_assert(WIFSIGNALED(told_status) && WTERMSIG(told_status) == signo);
    ck_assert(told_alive);
    ck_assert_int_eq(WTERMSIG(reap(pid)), signo);
}

TEST(test_death_watch_tells_of_who_was_stopped)
{
    pid_t pid = begin(WHILE_STOPPED, 0, 0);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    turn(50);
    ck_assert_int_eq(n_told, 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    turn(200);
    ck_assert_int_eq(n_told, 1);
    ck_assert_int_eq(WTERMSIG(told_status), SIGKILL);
    (void)reap(pid);
}

/* What ends with 0, or does not end, is no failure. */
TEST_LOOP(test_death_watch_tells_of_failures_only, 0, OWN_THREADS_ONLY ? 6 : 5)
{
    static const struct {
        enum way way;
        int how, told;
    } ends[] = {
        {BY_EXIT, 0, 0},   {BY_EXIT, 3, 1}, {BY_THREAD, 0, 0},
        {BY_THREAD, 4, 1}, {BY_EXEC, 0, 0}, {MAIN_THREAD_ALONE, 0, 0},
    };
    pid_t pid = begin(ends[_i].way, ends[_i].how, 0);
    ck_assert_int_eq(write(go[1], "g", 1), 1);
    do /* a sanitizer takes a second for exit */
        turn(200);
    while (n_told < ends[_i].told);
    ck_assert_int_eq(n_told, ends[_i].told);
    if (n_told > 0)
        ck_assert_int_eq(WEXITSTATUS(told_status), ends[_i].how);
    (void)reap(pid);
}

/* A page whose word is not the worker's: of a child of it, of another C
 * library, of a program that writes what it likes. */
TEST_LOOP(test_death_watch_looks_at_the_workers_own_lock_only, 0, 4)
{
    static const uint32_t words[] = {0, 1, UINT32_MAX, 0x40000000};
    atomic_store(&box.page->life_word, words[_i]);
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            (void)pause();
    death_watch_look(watch, pid, box.page);
    ck_assert_uint_eq(atomic_load(&box.page->life_word), words[_i]);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    turn(50);
    ck_assert_int_eq(n_told, 0);
    (void)reap(pid);
}

/* The page of one worker is that of the next one's after it, as rounds go. */
TEST(test_death_watch_of_two_hundred_workers)
{
    for (int i = 1; i <= 200; i++) {
        pid_t pid = begin(BY_SIGNAL, 0, 0);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        while (n_told < i)
            turn(1);
        (void)reap(pid);
        (void)close(pidfd);
        death_watch_drop(watch, box.page);
        mailbox_close(&box);
        ck_assert_int_eq(mailbox_open_pages(&pages, 1), 0);
        ck_assert_int_eq(mailbox_open(&box, &pages, 0), 0);
    }
}

SUITE("death_watch",
      "death_watch",
      .tags = "pidfd",
      .limit_s = 20,
      FIXTURE(setup, NULL))
