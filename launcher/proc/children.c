/*
 * Happy path: a handler of SIGCHLD writes the pid that the signal names to a
 * pipe. It interrupts what runs, so deaths are told in their order even if the
 * loop is busy.
 *
 * Failure modes:
 * - Several children end while the signal is blocked or this process is
 *   stopped: the kernel keeps the first signal and its pid, and drops the
 *   others. Wait shows them in the order of their start.
 * - The pipe is full: as above, for those that do not fit (16,384 do).
 * - A child of ours forks and has not exec'ed: its own children's pids come
 *   here, and are nobody's. A reader must ask wait(2) anyway.
 */
#include "launcher/proc/children.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

_Static_assert(sizeof(pid_t) <= PIPE_BUF, "a pid is written whole");

static int ends[2] = {-1, -1};

static void on_child(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)context;
    int saved = errno;
    pid_t pid = info->si_pid;
    ssize_t n = write(ends[1], &pid, sizeof(pid));
    (void)n; /* full: the reader is about to look anyway */
    errno = saved;
}

int children_watch(void)
{
    struct sigaction sa = {.sa_sigaction = on_child,
                           .sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP};
    ddp_assert(ends[0] < 0);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    (void)sigfillset(&sa.sa_mask);
    (void)sigaction(SIGCHLD, &sa, NULL); /* valid arguments */
    return ends[0];
}

pid_t children_next(void)
{
    pid_t pid = 0;
    ddp_assert(ends[0] >= 0);
    while (read(ends[0], &pid, sizeof(pid)) == (ssize_t)sizeof(pid))
        if (pid > 0)
            return pid; /* 0: from outside of our pid namespace */
    return 0;
}
