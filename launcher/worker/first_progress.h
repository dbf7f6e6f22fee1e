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

struct first_beat_handler {
    /* `step`: what it wrote, -1 where that is no number. */
    void (*on_beat)(void *ctx, int local_rank, int64_t pid, int64_t step);
};

struct first_beat;

/* Lives as long as the loop; borrows all but conf for that. NULL where events
 * cannot be had: then nothing is told. Dies when out of memory. */
struct first_beat *first_beat_new(uv_loop_t *loop,
                                  const struct crew *crew,
                                  int nproc,
                                  const struct first_beat_handler *handler,
                                  void *ctx);

/* The workers of a round were started. `f` may be NULL. */
void first_beat_watch(struct first_beat *f);

/* A worker has ended; what it wrote may not have been looked at yet. `f` may be
 * NULL. */
void first_beat_exited(struct first_beat *f, const struct agent_worker *w);

#endif
