/*
 * launcher/hang/hang_watch: finds workers that make no progress
 * (launcher/worker/hang), and tells for which rank the others wait, by evidence
 * from all of them (launcher/hang/hang_evidence). --hang_timeout says when.
 */
#ifndef LAUNCHER_HANG_HANG_WATCH_H
#define LAUNCHER_HANG_HANG_WATCH_H

#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/worker/hang.h"
#include "launcher/worker/workers.h"

struct hang_watch;

struct hang_watch_handler {
    /* This node asks the others: a beat (hang_watch_fill) is due now. */
    void (*on_asks)(void *ctx);
    /* With tell: the workers stand still, and `text` says which ranks do what;
     * "": they go on again. */
    void (*on_stands)(void *ctx, const char *text);
    /* A worker that lives makes no progress, and counts as failed. `text` says
     * what it does up to the first semicolon, then what the others do, since
     * when, and where its stacks are. `v` and `text` are borrowed for the call.
     */
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

/* A lease says that a node of the round asks (msg_lease.look). */
void hang_watch_asked(struct hang_watch *w, int64_t look);

/* What the next beat says of it. */
void hang_watch_fill(const struct hang_watch *w, struct msg_beat *beat);

/* The workers are stopped by Ctrl-Z, or continued. */
void hang_watch_pause(struct hang_watch *w, bool paused);

/* The process that writes stacks, 0: none. When it has ended, call
 * hang_watch_helper_ended, which reaps it. */
pid_t hang_watch_helper(const struct hang_watch *w);
void hang_watch_helper_ended(struct hang_watch *w);

#endif
