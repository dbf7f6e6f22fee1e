/*
 * launcher/health/health: looks whether this node is fit for work: the command
 * of
 * --health_check, and its GPUs where --gpu_health_check says so. In a process
 * of its own, with a limit in time.
 */
#ifndef LAUNCHER_HEALTH_HEALTH_H
#define LAUNCHER_HEALTH_HEALTH_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/conf/conf.h"

#define HEALTH_PIDS_MAX 4096

struct health;

struct health_handler {
    /* The look is over; `why` where the node is not fit, borrowed. */
    void (*on_checked)(void *ctx, bool fit, const char *why);
};

/* Everything is borrowed for its life, which is the process's. */
struct health *health_new(uv_loop_t *loop,
                          const struct conf *conf,
                          const struct health_handler *handler,
                          void *ctx);

/* Begins to look; on_checked follows, from the loop. pids[0..n) are of the
 * workers that died last. */
void health_start(struct health *h, const pid_t *pids, int n);

/* Ends a look that is under way; on_checked does not follow. */
void health_stop(struct health *h);

/* The process that looks, 0: none; and that it has ended, to be reaped now. */
pid_t health_helper(const struct health *h);
void health_helper_ended(struct health *h);

#endif
