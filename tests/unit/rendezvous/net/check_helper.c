/* links: rendezvous/net/helper TLS */
/* links: rendezvous/base/{buf,err,open_files,log,utf8,mono} */
/* libs: -ldl */
/*
 * What a process of ours has, and what it has not, and whom it outlives.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"
#include "tests/lib/suite.h"

#define PARENTS 200 /* a descriptor of the parent's */

static int status_of(pid_t pid)
{
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static pid_t start(const struct helper_fds *fds, helper_main run)
{
    pid_t pid = 0;
    struct ddp_err err;
    ck_assert_int_eq(helper_start(&pid, fds, run, NULL, &err), 0);
    return pid;
}

/* -- descriptors ----------------------------------------------------------- */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
}

static void look_at_descriptors(const struct helper_fds *fds, const void *arg)
{
    char byte = 0;
    for (int fd = 3; fd < 2 * PARENTS; fd++)
        if (is_open(fd) && fd != fds->listener && fd != fds->chan &&
            fd != fds->also)
            _exit(1);
    if (!is_open(0) || !is_open(1) || !is_open(2))
        _exit(2);
    if (fds->listener >= 0 &&
        (read(fds->listener, &byte, 1) != 1 || byte != 'l'))
        _exit(3);
    if (fds->chan >= 0 && (read(fds->chan, &byte, 1) != 1 || byte != 'c'))
        _exit(4);
    if (fds->also != 0 && (read(fds->also, &byte, 1) != 1 || byte != 'a'))
        _exit(5);
    if ((fds->also != 0) != (arg != NULL))
        _exit(6);
    _exit(0);
}

/* Those that it is given, wherever they were, and no other. */
TEST_LOOP(test_helper_has_its_descriptors_and_no_other, 0, 8)
{
    int listener[2], chan[2], also[2];
    pid_t pid = 0;
    struct ddp_err err;
    ck_assert_int_eq(pipe(also), 0); /* the lower one: they change places */
    ck_assert_int_eq(write(also[1], "a", 1), 1);
    ck_assert_int_eq(pipe(chan), 0);
    ck_assert_int_eq(pipe(listener), 0);
    ck_assert_int_eq(write(listener[1], "l", 1), 1);
    ck_assert_int_eq(write(chan[1], "c", 1), 1);
    ck_assert_int_eq(dup2(STDOUT_FILENO, PARENTS), PARENTS);
    struct helper_fds fds = {.listener = (_i & 1) != 0 ? listener[0] : -1,
                             .chan = (_i & 2) != 0 ? chan[0] : -1,
                             .also = (_i & 4) != 0 ? also[0] : 0};
    ck_assert_int_eq(helper_start(&pid, &fds, look_at_descriptors,
                                  fds.also > 0 ? &fds : NULL, &err),
                     0);
    ck_assert_int_eq(status_of(pid), 0);
}

/* It is no store, say, that serves nobody. The limit does not stay: who looks
 * for leaks at the end needs descriptors, LSan waits for ever without. */
TEST_LOOP(test_helper_without_its_descriptors_ends, 1, 4)
{
    int ends[2];
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {.rlim_cur = 5, .rlim_max = before.rlim_max};
    ck_assert_int_eq(pipe(ends), 0);
    struct helper_fds fds = {.listener = (_i & 1) != 0 ? ends[0] : -1,
                             .chan = (_i & 2) != 0 ? ends[0] : -1};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(status_of(start(&fds, look_at_descriptors)),
                     ddp_code_exit(DDP_E_NOMEM));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* -- signals --------------------------------------------------------------- */

static void look_at_signals(const struct helper_fds *fds, const void *arg)
{
    sigset_t mask;
    struct sigaction sa;
    (void)fds;
    (void)arg;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    if (sigismember(&mask, SIGTERM) != 1)
        _exit(1); /* a relay, say, is not to end by what ends workers */
    helper_take_signals();
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    (void)sigaction(SIGPIPE, NULL, &sa);
    if (sigismember(&mask, SIGTERM) != 0 || sigismember(&mask, SIGALRM) != 0)
        _exit(2);
    _exit(sa.sa_handler == SIG_DFL ? 0 : 3);
}

/* What the launcher blocks and ignores is so in a helper, but not in what it
 * executes. */
TEST(test_helper_takes_signals_before_it_executes)
{
    sigset_t blocked;
    struct helper_fds fds = {.listener = -1, .chan = -1};
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGTERM);
    (void)sigaddset(&blocked, SIGALRM);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(status_of(start(&fds, look_at_signals)), 0);
}

/* -- life ------------------------------------------------------------------ */

static void wait_for_ever(const struct helper_fds *fds, const void *arg)
{
    (void)arg;
    if (write(fds->chan, "!", 1) == 1)
        for (;;)
            (void)pause();
    _exit(1);
}

/* Its end of the channel is closed by its death alone. */
TEST(test_helper_dies_with_its_parent)
{
    int pair[2];
    char byte;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct pollfd p = {.fd = pair[0], .events = POLLIN};
    struct helper_fds fds = {.listener = -1, .chan = pair[1]};
    pid_t parent = fork();
    if (parent == 0) {
        pid_t pid;
        (void)helper_start(&pid, &fds, wait_for_ever, NULL, NULL);
        (void)pause();
    }
    ck_assert_int_eq(close(pair[1]), 0);
    ck_assert_int_eq(read(pair[0], &byte, 1), 1);
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    ck_assert_int_eq(kill(parent, SIGKILL), 0);
    ck_assert_int_eq(poll(&p, 1, 30000), 1);
    ck_assert_int_eq(read(pair[0], &byte, 1), 0);
}

TEST(test_helper_kill_reaps)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    struct helper_fds fds = {.listener = -1, .chan = ends[1]};
    pid_t pid = start(&fds, wait_for_ever), kept = pid;
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    helper_kill(&pid);
    ck_assert_int_eq(pid, 0);
    ck_assert_int_eq(waitpid(kept, NULL, WNOHANG), -1);
    helper_kill(&pid); /* nothing */
}

/* It dies, be it reaped at once or by a parent that reaps all its children. */
TEST(test_helper_abandon_kills)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    struct helper_fds fds = {.listener = -1, .chan = ends[1]};
    pid_t pid = start(&fds, wait_for_ever), kept = pid;
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    helper_abandon(&pid);
    ck_assert_int_eq(pid, 0);
    siginfo_t info;
    int rc = waitid(P_PID, (id_t)kept, &info, WEXITED);
    ck_assert(rc == 0 || errno == ECHILD); /* it ended at once */
    helper_abandon(&pid);                  /* nothing */
}

/* One that ends is waited for; one that does not is killed in time. */
TEST_LOOP(test_helper_wait_has_an_end, 0, 2)
{
    int64_t since_us = mono_now_us();
    pid_t pid = fork();
    if (pid == 0) {
        while (_i == 1)
            (void)pause();
        _exit(0);
    }
    pid_t kept = pid;
    helper_wait(&pid, since_us + (_i == 1 ? 100 * MONO_MS : 60 * MONO_S));
    ck_assert_int_eq(pid, 0);
    ck_assert_int_lt(mono_now_us() - since_us, 30 * MONO_S);
    ck_assert(_i == 0 || mono_now_us() - since_us >= 100 * MONO_MS);
    int rc = waitpid(kept, NULL, 0);
    ck_assert(rc == kept ? _i == 1 : errno == ECHILD);
    helper_wait(&pid, since_us); /* nothing */
}

SUITE("helper", "fast")
