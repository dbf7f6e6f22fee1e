/*
 * launcher/standby/forks: the standbys of a node, at most one for each local
 * rank. The importer forks them; each becomes a child of ours, says that it is
 * there, and waits for its order.
 *
 * A standby that ends, or is no child of ours, is forgotten as its socket
 * closes; nobody is told, and its worker is started afresh.
 */
#ifndef LAUNCHER_STANDBY_FORKS_H
#define LAUNCHER_STANDBY_FORKS_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/worker/spawn.h"

#define FORKS_ANSWER_MS 500 /* of the loop's time; half a ms is usual */
#define FORKS_NAME_MAX  202

struct forks;

/* Empty, with room for `places` local ranks. Lives as long as the loop. Ends
 * the process if memory runs out. */
struct forks *forks_new(uv_loop_t *loop, int places);

/* Asks the importer at `chan` for each standby that is missing. Without memory
 * or descriptors for one there is none. */
void forks_fill(struct forks *f, int chan);

/* The standby of this local rank waits for an order. */
bool forks_has(const struct forks *f, int place);

/* How many do. */
int forks_count(const struct forks *f);

/*
 * Makes the standby of req->local_rank, which forks_has, the worker of `req`.
 * It has FORKS_ANSWER_MS to answer. True: *pid and *pidfd are the caller's.
 * False: it is ended; `differs` names a variable of the worker that is not as
 * it was for the imports, or is empty: it does not answer.
 */
bool forks_take(struct forks *f,
                const struct spawn_request *req,
                pid_t *pid,
                int *pidfd,
                char differs[FORKS_NAME_MAX]);

/* Kills all of them, without waiting for their ends. */
void forks_end(struct forks *f);

#endif
