/*
 * launcher/preflight/link: one connection of a preflight, from both ends. The
 * responder answers peers that know the run's instance. The measuring side
 * connects, and finds round-trip time, bandwidth, MTU and the other's clock.
 */
#ifndef LAUNCHER_PREFLIGHT_LINK_H
#define LAUNCHER_PREFLIGHT_LINK_H

#include <stdint.h>
#include <sys/types.h>

#include "launcher/preflight/data.h"

#define PREFLIGHT_SECRET_MAX 64

/* The time of one measurement of one address, usually and at most. */
#define PREFLIGHT_LINK_US      (400 * INT64_C(1000))
#define PREFLIGHT_LINK_MOST_US (8 * INT64_C(1000000))

/*
 * Starts a process that serves `listen_fd` until it is killed or this process
 * dies. Peers must send `secret` first. Returns its pid, or -1 with NOMEM. The
 * caller closes listen_fd and reaps the process.
 */
pid_t preflight_responder_start(int listen_fd,
                                const char *secret,
                                struct ddp_err *err);

/*
 * Measures the link to addr:port and fills state, code, reason and the numbers
 * of `link`, in PREFLIGHT_LINK_MOST_US at most. Returns 0 also if the link is
 * bad; -1: ABORTED (preflight/io).
 */
int preflight_link_measure(struct preflight_link *link,
                           const char *addr,
                           int port,
                           const char *secret,
                           struct ddp_err *err);

#endif
