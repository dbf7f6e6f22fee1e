/*
 * base/dial: TCP connections made within a deadline, for programs that block
 * (a worker, ddpctl, a preflight's probe). Deadlines are microseconds of
 * base/mono; MONO_NEVER: none. Errors are -1 with errno.
 */
#ifndef RENDEZVOUS_BASE_DIAL_H
#define RENDEZVOUS_BASE_DIAL_H

#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>

/* After this time of silence a tuned connection counts as cut. */
#define DIAL_SILENT_MS 10000

/* What ends a wait before its deadline. NULL instead of it: nothing does. */
struct dial_stop {
    /* Set by a signal handler; NULL: every signal that is caught ends it. */
    const volatile sig_atomic_t *told;
    /* The signals that are blocked during the wait; NULL: as they are. */
    const sigset_t *mask;
};

/* Sends without Nagle's pauses, and ends a silent connection after about
 * DIAL_SILENT_MS. Best effort: a connection without these options is one. */
void dial_tune(int fd);

/*
 * Waits until `fd` has one of the poll(2) events; fd -1 only waits. Returns 0.
 * ETIMEDOUT: the deadline came. ECANCELED: `stop` says so. Else poll's errno.
 */
int dial_wait(int fd,
              short events,
              int64_t deadline_us,
              const struct dial_stop *stop);

/* A timeout for poll(2): milliseconds until the deadline, -1 for never. */
int dial_poll_ms(int64_t deadline_us);

/*
 * Begins to connect to an IPv4 or IPv6 address. The descriptor is the caller's:
 * tuned, non-blocking and close-on-exec. When it can be written to, dial_result
 * says how it went: 0, or the errno of connect(2).
 */
int dial_begin(const struct sockaddr *to);
int dial_result(int fd);

/* Connects to one address. The errors of connect(2) and dial_wait. */
int dial_addr(const struct sockaddr *to,
              int64_t deadline_us,
              const struct dial_stop *stop);

/*
 * Connects to the first of `n` addresses that answers, in their order. Each has
 * its share of the time that is left. The error is that of the first address,
 * which is the one that the caller prefers; ECANCELED ends the attempt at once;
 * EADDRNOTAVAIL: n is 0.
 */
int dial_any(const struct sockaddr_storage *to,
             int n,
             int64_t deadline_us,
             const struct dial_stop *stop);

#endif
