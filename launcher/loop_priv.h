/*
 * launcher/loop_priv: what the two files of launcher/loop share. loop.c is the
 * shell around the agent's core. loop_helpers.c knows our own processes that
 * are no workers: a sweep spares them, and their owners hear of their ends. It
 * calls nothing of loop.c.
 */
#ifndef LAUNCHER_LOOP_PRIV_H
#define LAUNCHER_LOOP_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "launcher/agent/agent.h"
#include "launcher/cluster/whole_step.h"
#include "launcher/conf/conf.h"
#include "launcher/proc/sweep.h"
#include "launcher/rdzv/store_host.h"
#include "launcher/report/event_log.h"
#include "rendezvous/base/err.h"

#define LOOP_MAGIC 0x4c4f4f50u

enum loop_state {
    LOOP_RUNNING,
    LOOP_SWEEPING, /* EXIT came; until what workers left behind is gone */
    LOOP_CLOSING,  /* the connection is closed; the server is waited for */
};

/* What is told to the core when its step is over. */
enum loop_pending {
    PENDING_NOTHING,
    PENDING_SPAWN_FAILED, /* `spawned`, `spawn_err` */
    PENDING_ASKED,        /* `attached` */
};

struct loop {
    uint32_t magic;
    enum loop_state state;
    const struct conf *conf;
    uv_loop_t uv;
    struct agent agent;
    struct rdzv_client *client;
    struct workers *workers;
    struct output *output;
    struct event_log event_log;
    struct hang_watch *hang_watch;
    struct show_stacks *show_stacks;
    struct own_store *own_store;
    struct first_progress *first_progress; /* NULL: nobody asks for it */
    struct file_timer *file_timer;         /* as well */
    struct health *health;
    struct unkilled *unkilled;
    struct drain_check *drain_check; /* NULL: nobody asks for it */
    struct standby *standby;         /* NULL: there are none */
    int guard_fd;
    bool debug;
    int64_t start_us;
    uv_timer_t timer;
    uv_poll_t guard_poll;
    uv_poll_t children; /* those that ended */
    uv_timer_t chore;   /* once, when the workers have been running a moment */

    struct store_host store;
    struct sweep sweep;

    enum loop_pending pending;
    int attached;
    int spawned;
    int step_signal; /* that the workers have already; 0: none */
    int64_t step_sent_us;
    struct whole_step whole_step;
    struct ddp_err spawn_err;

    struct agent_verdict verdict; /* not RUNNING */
};

/* What comes back through libuv, and as a ctx. */
static inline struct loop *loop_of(void *data)
{
    struct loop *l = data;
    ddp_assert(l != NULL && l->magic == LOOP_MAGIC);
    return l;
}

/* For sweep_handler; `ctx` is the loop. */
int loop_helpers_keep(void *ctx, pid_t pids[SWEEP_KEEP_MAX]);
pid_t loop_helpers_session(void *ctx);

/* Reaps what ended and is no worker: our own processes, whose owners are told,
 * and orphans. Stops uv if the server ended that was waited for. */
void loop_helpers_reap(struct loop *l);

#endif
