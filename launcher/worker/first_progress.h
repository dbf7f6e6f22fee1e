/*
 * launcher/worker/first_progress: tells when the first worker of a round on
 * this node writes to its progress file, as ddp_beat does. inotify watches the
 * files, so that nothing is polled. Made only if somebody wants to know.
 */
#ifndef LAUNCHER_WORKER_FIRST_PROGRESS_H
#define LAUNCHER_WORKER_FIRST_PROGRESS_H

#include <stdint.h>
#include <uv.h>

#include "launcher/worker/workers.h"

struct first_progress_handler {
    /* `step`: what the worker wrote, -1 if that is no number. */
    void (*on_beat)(void *ctx, int local_rank, int64_t pid, int64_t step);
};

struct first_progress;

/* Lives as long as the loop, and borrows everything for that. NULL: inotify
 * cannot be had, which is said on stderr; then nothing is told. Ends the
 * process if memory runs out. */
struct first_progress *
first_progress_new(uv_loop_t *loop,
                   const struct workers *workers,
                   int nproc,
                   const struct first_progress_handler *handler,
                   void *ctx);

/* The workers of a round were started. `f` may be NULL. */
void first_progress_watch(struct first_progress *f);

/* A worker has ended. Tells its progress if that was not seen before its end.
 * `f` may be NULL. */
void first_progress_exited(struct first_progress *f,
                           const struct agent_worker *w);

#endif
