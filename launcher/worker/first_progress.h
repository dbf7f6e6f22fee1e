/*
 * launcher/worker/first_progress: tells when the first worker of a round on
 * this node writes to its progress file, as ddp_beat does. By inotify on the
 * files, so that nothing is polled; it costs nothing where nobody asks for it.
 */
#ifndef LAUNCHER_WORKER_FIRST_PROGRESS_H
#define LAUNCHER_WORKER_FIRST_PROGRESS_H

#include <stdint.h>
#include <uv.h>

#include "launcher/worker/workers.h"

struct first_progress_handler {
    /* `step`: what it wrote, -1 where that is no number. */
    void (*on_beat)(void *ctx, int local_rank, int64_t pid, int64_t step);
};

struct first_progress;

/* Lives as long as the loop; borrows all but conf for that. NULL where events
 * cannot be had: then nothing is told. Dies when out of memory. */
struct first_progress *
first_progress_new(uv_loop_t *loop,
                   const struct workers *workers,
                   int nproc,
                   const struct first_progress_handler *handler,
                   void *ctx);

/* The workers of a round were started. `f` may be NULL. */
void first_progress_watch(struct first_progress *f);

/* A worker has ended; what it wrote may not have been looked at yet. `f` may be
 * NULL. */
void first_progress_exited(struct first_progress *f,
                           const struct agent_worker *w);

#endif
