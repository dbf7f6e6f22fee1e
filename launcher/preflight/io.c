#include "launcher/preflight/io.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"

/* -- waiting --------------------------------------------------------------- */

static volatile sig_atomic_t told_to_end;
static sigset_t while_waiting; /* what is blocked in a wait */
static bool catches;

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
    catches = true;
}

static int called_off(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_ABORTED, "asked to end");
}

int preflight_io_wait(int fd,
                      short events,
                      int64_t deadline_us,
                      struct ddp_err *err)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int64_t left_us = deadline_us - mono_now_us();
        if (left_us < 0)
            left_us = 0;
        struct timespec ts = {.tv_sec = (time_t)(left_us / MONO_S),
                              .tv_nsec = (long)(left_us % MONO_S) * 1000};
        if (told_to_end)
            return called_off(err);
        int n = ppoll(&p, 1, &ts, catches ? &while_waiting : NULL);
        if (n > 0)
            return 0;
        if (n == 0 && mono_now_us() >= deadline_us) {
            ddp_err_set(err, DDP_E_TIMEOUT, "no answer in time");
            if (err != NULL)
                err->sys_errno = ETIMEDOUT;
            return -1;
        }
        if (n < 0 && errno != EINTR)
            return ddp_err_sys(err, DDP_E_IO, "cannot wait");
    }
}

/* -- connecting ------------------------------------------------------------ */

static int refused(int why, struct ddp_err *err)
{
    const char *text = strerror(why);
    if (why == ETIMEDOUT)
        text = "timed out";
    else if (why == ECONNREFUSED)
        text = "refused";
    ddp_err_set(err, DDP_E_UNREACHABLE, "%s", text);
    if (err != NULL)
        err->sys_errno = why;
    return -1;
}

static int finish(int fd, int64_t deadline_us, struct ddp_err *err)
{
    struct ddp_err e;
    if (preflight_io_wait(fd, POLLOUT, deadline_us, &e) != 0) {
        if (e.code != DDP_E_TIMEOUT) {
            if (err != NULL)
                *err = e;
            return -1;
        }
        return refused(ETIMEDOUT, err);
    }
    int why = 0;
    socklen_t len = sizeof(why);
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len); /* valid */
    return why == 0 ? 0 : refused(why, err);
}

static int dial_one(const struct sockaddr_storage *to,
                    int64_t deadline_us,
                    int *fd,
                    struct ddp_err *err)
{
    int on = 1;
    socklen_t len = to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                              : sizeof(struct sockaddr_in);
    *fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return ddp_err_sys(err, DDP_E_UNREACHABLE, "cannot make a socket");
    (void)setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int rc = connect(*fd, (const struct sockaddr *)to, len);
    if (rc != 0)
        rc = errno == EINPROGRESS || errno == EINTR
                 ? finish(*fd, deadline_us, err)
                 : refused(errno, err);
    if (rc == 0)
        return 0;
    (void)close(*fd); /* nothing was sent */
    *fd = -1;
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
    for (int i = 0; i < list.n; i++)
        if (dial_one(&list.at[i], deadline_us, fd, err) == 0)
            return 0;
    return -1;
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
