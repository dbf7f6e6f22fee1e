/* links: launcher/proc/{children,pidfd} rendezvous/base/err */
/*
 * Real children that end, and the order in which they are told.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/children.h"
#include "launcher/proc/pidfd.h"
#include "tests/lib/suite.h"

static pid_t start(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            (void)pause();
    ck_assert_int_gt(pid, 0);
    return pid;
}

/* Ends a child. It is not reaped: it is one that can be waited for. */
static void end(pid_t pid)
{
    siginfo_t info;
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0)
        ck_assert_int_eq(errno, EINTR);
}

static void block(bool blocked)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    ck_assert_int_eq(sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL),
                     0);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

TEST(test_children_are_told_in_the_order_of_their_ends)
{
    int fd = children_watch();
    pid_t a = start(), b = start(), c = start();
    ck_assert(!is_readable(fd));
    ck_assert_int_eq(children_next(), 0);
    end(c);
    end(a);
    ck_assert(is_readable(fd));
    end(b);
    ck_assert_int_eq(children_next(), c);
    ck_assert_int_eq(children_next(), a);
    ck_assert_int_eq(children_next(), b);
    ck_assert_int_eq(children_next(), 0);
    ck_assert(!is_readable(fd));
}

/* As in a process that is stopped: the first one is kept, and no signal of the
 * others is. */
TEST(test_children_know_the_first_of_those_that_were_not_told)
{
    (void)children_watch();
    pid_t a = start(), b = start(), c = start();
    block(true);
    end(b);
    end(c);
    end(a);
    ck_assert_int_eq(children_next(), 0);
    block(false);
    ck_assert_int_eq(children_next(), b);
    ck_assert_int_eq(children_next(), 0);
}

/* qemu-user tells of stops all the same. */
CASE("stops", .tags = "nocldstop")

/* No worker inherits the pipe, and stops of children are not told. */
TEST(test_children_that_stop_have_not_ended)
{
    int fd = children_watch();
    siginfo_t info;
    pid_t a = start();
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(kill(a, SIGSTOP), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)a, &info, WSTOPPED), 0);
    ck_assert_int_eq(children_next(), 0);
    end(a);
    ck_assert_int_eq(children_next(), a);
}

CASE("fast")

TEST(test_pidfd_is_readable_when_its_process_has_ended)
{
    pid_t a = start();
    int fd = pidfd_of(a);
    ck_assert_int_eq(fd >= 0, pidfd_works());
    if (fd >= 0) {
        ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
        ck_assert(!is_readable(fd));
    }
    end(a);
    if (fd >= 0)
        ck_assert(is_readable(fd));
}

SUITE("children", "fast")
