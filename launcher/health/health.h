/*
 * launcher/health/health: checks if this node is fit for work: the command of
 * --health_check, and the GPUs with --health_check=gpu. The check runs in a
 * process of its own and has a time limit.
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
    /* The check is over. `why` is the reason if the node is not fit, borrowed.
     */
    void (*on_checked)(void *ctx, bool fit, const char *why);
};

/* Borrows all arguments for its life, which is the process's. */
struct health *health_new(uv_loop_t *loop,
                          const struct conf *conf,
                          const struct health_handler *handler,
                          void *ctx);

/* Starts a check; on_checked follows, from the loop. pids[0..n) are the workers
 * that died last. */
void health_start(struct health *h, const pid_t *pids, int n);

/* Ends a running check; on_checked does not follow. */
void health_stop(struct health *h);

/* The process of the check, 0: none; and the call to make when it has ended,
 * which reaps it. */
pid_t health_helper(const struct health *h);
void health_helper_ended(struct health *h);

#endif
