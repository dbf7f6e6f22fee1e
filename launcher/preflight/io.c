/*
 * The probe blocks, but not for ever, and not against SIGTERM: when the round
 * is over its launcher stops it, and it still has a table to print. SIGTERM is
 * blocked but within ppoll(2), so that it cannot come between the look at
 * told_to_end and the wait.
 *
 * Failure modes are told apart by their codes, since the judge draws other
 * conclusions from each: a refusal (a host is there, nobody listens), no answer
 * in time (a firewall that drops, or no host), a connection that broke, and
 * ABORTED, which is no fault of the network.
 */
#include "launcher/preflight/io.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"

/* -- waiting --------------------------------------------------------------- */

static volatile sig_atomic_t told_to_end;
static sigset_t while_waiting; /* what is blocked in a wait */
static struct dial_stop stop = {.told = &told_to_end};

static void on_term(int signo)
{
    (void)signo;
    told_to_end = 1;
}

/* Blocked but within ppoll(2), so that it cannot come just before a wait. */
void preflight_io_catch_term(void)
{
    struct sigaction sa = {.sa_handler = on_term};
    sigset_t term;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, &while_waiting);
    (void)sigaction(SIGTERM, &sa, NULL); /* valid arguments, all of them */
    stop.mask = &while_waiting;
}

const struct dial_stop *preflight_io_stop(void)
{
    return &stop;
}

int preflight_io_wait(int fd,
                      short events,
                      int64_t deadline_us,
                      struct ddp_err *err)
{
    if (dial_wait(fd, events, deadline_us, &stop) == 0)
        return 0;
    if (errno == ECANCELED)
        return ddp_err_set(err, DDP_E_ABORTED, "stopped by SIGTERM");
    if (errno != ETIMEDOUT)
        return ddp_err_sys(err, DDP_E_IO, "cannot wait");
    ddp_err_set(err, DDP_E_TIMEOUT, "no answer in time");
    if (err != NULL)
        err->sys_errno = ETIMEDOUT;
    return -1;
}

/* -- connecting ------------------------------------------------------------ */

static int refused(int why, struct ddp_err *err)
{
    const char *text = strerror(why);
    if (why == ECANCELED)
        return ddp_err_set(err, DDP_E_ABORTED, "stopped by SIGTERM");
    if (why == ETIMEDOUT)
        text = "timed out";
    else if (why == ECONNREFUSED)
        text = "refused";
    ddp_err_set(err, DDP_E_UNREACHABLE, "%s", text);
    if (err != NULL)
        err->sys_errno = why;
    return -1;
}

int preflight_io_dial(const char *host,
                      int port,
                      int64_t deadline_us,
                      int *fd,
                      struct ddp_err *err)
{
    struct addr_list list;
    if (addr_resolve(host, port, &list, err) != 0)
        return -1;
    *fd = dial_any(list.at, list.n, deadline_us, &stop);
    return *fd >= 0 ? 0 : refused(errno, err);
}

/* -- bytes ----------------------------------------------------------------- */

static int broken(ssize_t n, struct ddp_err *err)
{
    if (n == 0)
        return ddp_err_set(err, DDP_E_LOST, "the peer closed the connection");
    return ddp_err_sys(err, DDP_E_LOST, "the connection failed");
}

int preflight_io_send(int fd,
                      const void *data,
                      size_t len,
                      int64_t deadline_us,
                      struct ddp_err *err)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return broken(n, err);
        if (n < 0 && preflight_io_wait(fd, POLLOUT, deadline_us, err) != 0)
            return -1;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int preflight_io_recv(
    int fd, void *data, size_t len, int64_t deadline_us, struct ddp_err *err)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return broken(n, err);
        if (n < 0 && preflight_io_wait(fd, POLLIN, deadline_us, err) != 0)
            return -1;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}
