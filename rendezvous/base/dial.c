/*
 * base/dial: connect(2) on a non-blocking socket, then ppoll(2) until the
 * handshake is over or the deadline has come.
 *
 * Happy path: dial_begin, dial_wait for POLLOUT, dial_result says 0.
 * Failure modes: the address refuses or is unreachable (connect's errno, at
 * once or from SO_ERROR); nobody answers (ETIMEDOUT at the deadline, usually
 * long before the kernel's own of two minutes); a signal stops the wait. Every
 * failure closes the descriptor: nothing was sent on it yet.
 */
#include "rendezvous/base/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

void dial_tune(int fd)
{
    /* Keepalive: 4 + 3 * 2 seconds. */
    static const struct {
        int level;
        int name;
        int value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, 4},
                   {IPPROTO_TCP, TCP_KEEPINTVL, 2},
                   {IPPROTO_TCP, TCP_KEEPCNT, 3}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name,
                         &options[i].value, sizeof(options[i].value));
}

/* What ppoll(2) may wait. The clocks differ only while the machine sleeps. */
static struct timespec left_of(int64_t deadline_us)
{
    int64_t now_us = mono_now_us();
    int64_t left_us = deadline_us > now_us ? deadline_us - now_us : 0;
    return (struct timespec){.tv_sec = (time_t)(left_us / MONO_S),
                             .tv_nsec = (long)(left_us % MONO_S) * 1000};
}

int dial_wait(int fd,
              short events,
              int64_t deadline_us,
              const struct dial_stop *stop)
{
    struct pollfd p = {.fd = fd, .events = events};
    const volatile sig_atomic_t *told = stop == NULL ? NULL : stop->told;
    for (;;) {
        struct timespec left = left_of(deadline_us);
        int n = -1;
        errno = EINTR;
        if (told == NULL || !*told)
            n = ppoll(&p, 1, deadline_us == MONO_NEVER ? NULL : &left,
                      stop == NULL ? NULL : stop->mask);
        if (n > 0)
            return 0;
        if (n == 0 && mono_now_us() >= deadline_us) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (n < 0 && errno != EINTR)
            return -1;
        if (n < 0 && stop != NULL && (told == NULL || *told)) {
            errno = ECANCELED;
            return -1;
        }
    }
}

int dial_poll_ms(int64_t deadline_us)
{
    if (deadline_us == MONO_NEVER)
        return -1;
    return (int)mono_ms_until(mono_now_us(), deadline_us);
}

/* Returns -1 with the errno that was there before. */
static int close_failed(int fd, int why)
{
    (void)close(fd); /* nothing was sent on it */
    errno = why;
    return -1;
}

int dial_begin(const struct sockaddr *to)
{
    ddp_assert(to->sa_family == AF_INET || to->sa_family == AF_INET6);
    socklen_t len = to->sa_family == AF_INET6
                        ? (socklen_t)sizeof(struct sockaddr_in6)
                        : (socklen_t)sizeof(struct sockaddr_in);
    int fd =
        socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    dial_tune(fd);
    if (connect(fd, to, len) == 0 || errno == EINPROGRESS || errno == EINTR)
        return fd;
    return close_failed(fd, errno);
}

int dial_result(int fd)
{
    int why = 0;
    socklen_t len = sizeof(why);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        return errno;
    return why;
}

int dial_addr(const struct sockaddr *to,
              int64_t deadline_us,
              const struct dial_stop *stop)
{
    int fd = dial_begin(to);
    if (fd < 0)
        return -1;
    int why = 0;
    if (dial_wait(fd, POLLOUT, deadline_us, stop) != 0)
        why = errno;
    else
        why = dial_result(fd);
    return why == 0 ? fd : close_failed(fd, why);
}

int dial_any(const struct sockaddr_storage *to,
             int n,
             int64_t deadline_us,
             const struct dial_stop *stop)
{
    int first = EADDRNOTAVAIL;
    for (int i = 0; i < n; i++) {
        int64_t now_us = mono_now_us(), until_us = deadline_us;
        if (deadline_us != MONO_NEVER && deadline_us > now_us)
            until_us = now_us + (deadline_us - now_us) / (n - i);
        int fd = dial_addr((const struct sockaddr *)&to[i], until_us, stop);
        if (fd >= 0 || errno == ECANCELED)
            return fd;
        if (i == 0)
            first = errno;
    }
    errno = first;
    return -1;
}
