/*
 * launcher/worker/unkilled: workers that SIGKILL does not end, since the kernel
 * holds a thread of theirs in uninterruptible sleep (state D): a file system, a
 * disk or a device does not answer. It is said once for each such worker; and
 * if the user has set a limit (TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT), the
 * node is given up then.
 *
 * No instruction of the worker's program runs any more. But what it asked of
 * the kernel may still come about, so that the worker does not count as dead.
 */
#ifndef LAUNCHER_WORKER_UNKILLED_H
#define LAUNCHER_WORKER_UNKILLED_H

#include <stdint.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/worker/workers.h"

struct unkilled_handler {
    /* The limit is over, and a worker is held; `text` says which, for people.
     * Comes once after each unkilled_watch. */
    void (*on_unkilled)(void *ctx, const char *text);
};

struct unkilled;

/* Lives as long as the loop, and borrows everything for that. Ends the process
 * if memory runs out. `node`: this node's name. */
struct unkilled *unkilled_new(uv_loop_t *loop,
                              const struct conf *conf,
                              const struct workers *workers,
                              const char *node,
                              const struct unkilled_handler *handler,
                              void *ctx);

/* SIGKILL was sent to all workers that live, of a round in which `base_rank` is
 * the first of this node. Looks at them until they have ended. If that is sent
 * again the time counts from the first one. */
void unkilled_watch(struct unkilled *u, int64_t base_rank);

/* Looks no more. */
void unkilled_stop(struct unkilled *u);

#endif
