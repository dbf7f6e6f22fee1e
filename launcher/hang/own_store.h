/*
 * launcher/hang/own_store: a PyTorch program that meets at a port of its own
 * (mp.spawn with a MASTER_PORT that it chose) waits for ever:
 * TORCHELASTIC_USE_AGENT_STORE=True says that somebody serves a store, so that
 * nobody begins one there. If nobody has come to the workers' store for long,
 * and a worker or a child of one waits as PyTorch does for a port at which
 * nobody listens, the remedy is said, once.
 */
#ifndef LAUNCHER_HANG_OWN_STORE_H
#define LAUNCHER_HANG_OWN_STORE_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/worker/workers.h"

#define OWN_STORE_AFTER_MS 30000
#define OWN_STORE_APART_MS 3000

struct own_store;

/* Whether this node serves the round's store, and nobody has come to it. */
typedef bool (*own_store_unused)(void *ctx);

/* Lives as long as the loop, and borrows everything for that. Ends the process
 * if memory runs out. */
struct own_store *own_store_new(uv_loop_t *loop,
                                const struct workers *workers,
                                int nproc,
                                own_store_unused unused,
                                void *ctx);

/* A round's workers were started: seeks such a process after_ms later, and
 * nine times more while there is none. One that was found is looked at again
 * apart_ms later, which is longer than PyTorch sleeps, by far. */
void own_store_watch(struct own_store *o, int after_ms, int apart_ms);

/* They are about to end. */
void own_store_stop(struct own_store *o);

#endif
