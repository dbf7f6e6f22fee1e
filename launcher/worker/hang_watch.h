/*
 * launcher/worker/hang_watch: looks at the workers from time to time, finds the
 * one that gets nowhere (launcher/worker/hang), writes down what its threads do
 * (launcher/worker/stacks) and then tells. Costs nothing where neither
 * --beat_timeout nor --hang_timeout is given.
 */
#ifndef LAUNCHER_WORKER_HANG_WATCH_H
#define LAUNCHER_WORKER_HANG_WATCH_H

#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/worker/hang.h"
#include "launcher/worker/workers.h"

struct hang_watch;

struct hang_watch_handler {
    /* A worker that lives gets nowhere; `text` says how long, and where its
     * stacks are. Both borrowed for the call. */
    void (*on_hang)(void *ctx,
                    const struct hang_verdict *v,
                    int64_t pid,
                    const char *text);
};

/* Everything is borrowed for its life, which is the process's. */
struct hang_watch *hang_watch_new(uv_loop_t *loop,
                                  const struct conf *conf,
                                  struct workers *workers,
                                  const struct hang_watch_handler *handler,
                                  void *ctx);

/* A round's workers were started, with this base rank; all before are dead. */
void hang_watch_start(struct hang_watch *w, int64_t base_rank);

/* They are stopped, or were: nobody hangs any more. */
void hang_watch_stop(struct hang_watch *w);

void hang_watch_pause(struct hang_watch *w, bool paused);

/* The process that writes stacks, 0: none; and that it has ended, to be reaped
 * now. */
pid_t hang_watch_helper(const struct hang_watch *w);
void hang_watch_helper_ended(struct hang_watch *w);

#endif
