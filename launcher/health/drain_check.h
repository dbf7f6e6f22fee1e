/*
 * launcher/health/drain_check: asks now and then whether an operator
 * wants this node to be free: the command of --drain_check. It runs in a
 * process of its own, and has the time limit of a health check.
 */
#ifndef LAUNCHER_HEALTH_DRAIN_CHECK_H
#define LAUNCHER_HEALTH_DRAIN_CHECK_H

#include <sys/types.h>
#include <uv.h>

#include "launcher/conf/conf.h"

struct drain_check;

struct drain_check_handler {
    /* The node is to be drained. Comes after each check that says so. */
    void (*on_drain_due)(void *ctx);
};

/* Begins to ask, at a time within the first interval. Borrows all arguments for
 * its life, which is the process's. NULL if there is no such command; that may
 * be given to all that follows. */
struct drain_check *drain_check_new(uv_loop_t *loop,
                                    const struct conf *conf,
                                    const struct drain_check_handler *handler,
                                    void *ctx);

/* Asks no more. */
void drain_check_stop(struct drain_check *d);

/* The process of the check, 0: none; and the call to make when it has ended,
 * which reaps it. */
pid_t drain_check_helper(const struct drain_check *d);
void drain_check_helper_ended(struct drain_check *d);

#endif
