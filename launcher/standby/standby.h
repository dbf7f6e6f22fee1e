/*
 * launcher/standby/standby: processes that have imported already what the
 * workers of the next round need. One importer a node, a Python of the job's
 * own interpreter, forks them; each becomes a child of ours (we are a child
 * subreaper) and waits for its order.
 *
 * A standby is a saving and never a need: in whatever way it fails, the worker
 * is started afresh. Until they are taken all are in the importer's session,
 * which no sweep touches.
 */
#ifndef LAUNCHER_STANDBY_STANDBY_H
#define LAUNCHER_STANDBY_STANDBY_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/agent/agent.h"
#include "launcher/conf/conf.h"
#include "launcher/worker/spawn.h"
#include "launcher/worker/workers.h"

struct standby;

/*
 * Lives as long as the loop, and borrows everything for that. NULL: none is
 * wanted (--standby=none), or none can be had, which is said. Ends the process
 * if memory runs out. All functions below take NULL.
 */
struct standby *standby_new(uv_loop_t *loop,
                            const struct conf *conf,
                            const struct spawn_origin *origin,
                            const struct workers *workers);

/*
 * For workers_taker: gives the worker to a standby. True: it runs, and *pid and
 * *pidfd are the caller's, as with spawn_worker. False: start it afresh. With
 * --standby=auto its argv is then perhaps one that lets us learn what it
 * imports; it is ours, until standby_round.
 */
bool standby_take(void *standby,
                  struct spawn_request *req,
                  pid_t *pid,
                  int *pidfd);

/* The workers of a round were started. If no other can come after it, all that
 * waits is ended. */
void standby_round(struct standby *s, const struct msg_world *world);

/* The first of them, that with this local rank, has made progress. */
void standby_progress(struct standby *s, int local_rank);

/* A worker ended, or hangs (w->code is DDP_E_HANG's). */
void standby_worker_ended(struct standby *s, const struct agent_worker *w);

/* The importer, a child of ours that the owner of the loop reaps by
 * standby_importer_ended; 0: none lives. */
pid_t standby_importer(const struct standby *s);
void standby_importer_ended(struct standby *s);

/* The session that is no worker's; -1: none. */
pid_t standby_session(const struct standby *s);

/* How many wait for an order now; -1: there will be none any more. */
int standby_ready(const struct standby *s);

/* Kills all of them, without waiting for their ends. */
void standby_stop(struct standby *s);

#endif
