/*
 * launcher/proc/sweep: ends what workers left behind (processes that they
 * started and that outlived them). At a restart by SIGKILL at once; after
 * success by SIGTERM, and by SIGKILL one second later. The loop goes on
 * meanwhile, beats too.
 */
#ifndef LAUNCHER_PROC_SWEEP_H
#define LAUNCHER_PROC_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define SWEEP_KEEP_MAX 10

struct sweep_handler {
    /* Fills in our own helpers, which are spared; returns how many. */
    int (*keep)(void *ctx, pid_t pids[SWEEP_KEEP_MAX]);
    /* The session that is spared as well; -1: none. */
    pid_t (*session)(void *ctx);
    /* A gentle sweep that took its time is over; not called by sweep_hard. */
    void (*on_swept)(void *ctx);
};

/* The caller's storage, as long as the loop lives. */
struct sweep {
    uint32_t magic;
    uv_timer_t timer;
    const struct sweep_handler *handler;
    void *ctx;
    bool busy; /* the grace runs */
};

/* Borrows handler and ctx. */
void sweep_init(struct sweep *s,
                uv_loop_t *loop,
                const struct sweep_handler *handler,
                void *ctx);

/* SIGKILL; returns when all are gone, or after 2 s with a warning. Ends a
 * gentle sweep that is under way. */
void sweep_hard(struct sweep *s);

/* SIGTERM. If something is left then, s->busy is set until on_swept. */
void sweep_gently(struct sweep *s);

/* A child of ours has ended: perhaps it was the last one. */
void sweep_look(struct sweep *s);

/* No more grace: kills, and calls on_swept. Does nothing unless busy. */
void sweep_hurry(struct sweep *s);

#endif
