/*
 * launcher/preflight/reach: whether this node reaches another one, from both
 * ends. A process of each probe answers peers that know the run's instance:
 *
 *     peer      answering process
 *     secret ->               REACH_SECRET_MAX bytes
 *            <- clock         8 bytes: microseconds since the epoch
 *     zeros  ->               REACH_LARGE bytes, in packets as large as may be
 *            <- clock
 */
#ifndef LAUNCHER_PREFLIGHT_REACH_H
#define LAUNCHER_PREFLIGHT_REACH_H

#include <stdint.h>
#include <sys/types.h>

#include "launcher/preflight/facts.h"
#include "rendezvous/base/dial.h"

#define REACH_SECRET_MAX 64
#define REACH_LARGE      (64u << 10)
#define REACH_MOST_US    (8 * INT64_C(1000000)) /* for one link */

#define REACH_ALL_MAX 64 /* so many nodes try all others ... */
#define REACH_FEW     8  /* ... and more the next one and so many */

/*
 * Which nodes each of `n` nodes tries to reach, as steps from its own place in
 * the list of all: the node at place + step, and behind the last one on from
 * the first. Fills `step`, which has room for reach_steps(n) of them; returns
 * how many. Step 1 is always there, so that all nodes are in one ring; few
 * steps are spread over the list.
 */
int reach_steps(int n);
int reach_choose(int *step, int n);

/* From now on SIGTERM ends the waits below and those of others that are given
 * reach_stop, instead of the process. For a probe that has something to say
 * first. */
void reach_catch_term(void);
const struct dial_stop *reach_stop(void);

/*
 * Starts a process that serves `listen_fd` until it is killed or this process
 * dies. Returns its pid, or -1 with NOMEM. The caller closes listen_fd and
 * reaps the process.
 */
pid_t reach_answer(int listen_fd, const char *secret, struct ddp_err *err);

/*
 * Tries the link to addr:port and fills state, code and clock_us of `link`, in
 * REACH_MOST_US at most. Returns 0 also if the link is bad; -1: ABORTED.
 */
int reach_try(struct preflight_link *link,
              const char *addr,
              int port,
              const char *secret,
              struct ddp_err *err);

#endif
