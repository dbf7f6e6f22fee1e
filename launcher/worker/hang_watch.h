/*
 * launcher/worker/hang_watch: looks at the workers from time to time, finds the
 * one that makes no progress (launcher/worker/hang), writes down the stacks
 * (launcher/worker/stacks), asks PyTorch which collective does not end
 * (launcher/worker/flight), and then tells. It costs nothing without
 * --beat_timeout and --hang_timeout.
 */
#ifndef LAUNCHER_WORKER_HANG_WATCH_H
#define LAUNCHER_WORKER_HANG_WATCH_H

#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/worker/hang.h"
#include "launcher/worker/workers.h"

struct hang_watch;

struct hang_watch_handler {
    /* A worker that lives makes no progress. `text` says since when, and where
     * its stacks are. `v` and `text` are borrowed for the call. */
    void (*on_hang)(void *ctx,
                    const struct hang_verdict *v,
                    int64_t pid,
                    const char *text);
};

/* Borrows everything for the life of the process. */
struct hang_watch *hang_watch_new(uv_loop_t *loop,
                                  const struct conf *conf,
                                  struct workers *workers,
                                  const struct hang_watch_handler *handler,
                                  void *ctx);

/* The workers of a round were started. */
void hang_watch_start(struct hang_watch *w, const struct msg_world *world);

/* The workers are being stopped, or are dead: nothing is told any more. */
void hang_watch_stop(struct hang_watch *w);

/* The workers are stopped by Ctrl-Z, or continued. */
void hang_watch_pause(struct hang_watch *w, bool paused);

/* The process that writes stacks, 0: none. When it has ended, call
 * hang_watch_helper_ended, which reaps it. */
pid_t hang_watch_helper(const struct hang_watch *w);
void hang_watch_helper_ended(struct hang_watch *w);

#endif
