/*
 * launcher/worker/death_watch: which workers have begun to end. The kernel
 * takes the memory of a process down before its pidfd tells that it ended, for
 * tens of milliseconds if it is large. Before that the kernel marks the robust
 * mutex that the worker's main thread holds in its stop page (base/stop_page),
 * and wakes who waits for it: so all workers of all nodes may be stopped at
 * once, and go down side by side.
 *
 * It is a hint and no proof. The worker still holds its memory, descriptors,
 * locks and ports: what the next round starts has to wait until the worker is
 * reaped. A worker without the lock, a launcher in another PID namespace and
 * Linux before 5.16 (futex_waitv) give no hint.
 */
#ifndef LAUNCHER_WORKER_DEATH_WATCH_H
#define LAUNCHER_WORKER_DEATH_WATCH_H

#include <sys/types.h>
#include <uv.h>

#include "rendezvous/base/stop_page.h"

#define DEATH_WATCH_MAX 127 /* workers of one node; more have no hint */

struct death_watch;

/* On the loop. `pid` begins to end with that wait status, which is not 0. */
typedef void (*death_watch_handler)(void *ctx, pid_t pid, int wait_status);

/* NULL: no memory. It starts no thread. It stays until the process ends. */
struct death_watch *
death_watch_new(uv_loop_t *loop, death_watch_handler handler, void *ctx);

/* Watches a worker, if its main thread holds the lock by now: a look that may
 * be taken again at any time. `page` is mapped until death_watch_drop. */
void death_watch_look(struct death_watch *d, pid_t pid, struct stop_page *page);

/* The page is about to be unmapped. */
void death_watch_drop(struct death_watch *d, const struct stop_page *page);

#endif
