/*
 * store/wait: the connections that wait for a key or watch it, and how they are
 * told. A part of store/store, which says when a key has come or has changed.
 * It knows the entries of the table, and not what a request means.
 *
 * A connection has one wait at most, for any number of keys, and any number of
 * watches. If it was woken for the item of a queue, that item is meant for it:
 * see wait_take_wake.
 */
#ifndef RENDEZVOUS_STORE_WAIT_H
#define RENDEZVOUS_STORE_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/store/reply.h"
#include "rendezvous/store/table.h"

struct store_waiter; /* what is known of one connection */

/* In storage of the caller's. */
struct waiting {
    struct table *table;  /* of whose entries; its memory is counted there */
    struct reply_way way; /* of wake-ups and of what watchers are told */
    struct store_waiter *clients;
    uint32_t conn_max;
};

/* Borrows the table until waiting_free, which may be called after a failure,
 * too. Connections have ids below conn_max. -1: no memory. */
int waiting_init(struct waiting *w,
                 struct table *table,
                 struct reply_way way,
                 uint32_t conn_max);

/* Ends all waits and watches without telling anyone. Before table_free. */
void waiting_free(struct waiting *w);

/* -- waits ----------------------------------------------------------------- */

/* Starts a wait for `count` keys (1 or more) of a connection that has none. -1:
 * the store is full. */
int wait_begin(struct waiting *w, uint32_t conn, size_t count);

/* This key is missing. Must be called `count` times, or wait_drop once. */
void wait_add(struct waiting *w, uint32_t conn, struct table_entry *e);

/* Whether it waits for something. */
bool wait_is_pending(const struct waiting *w, uint32_t conn);

/* Drops its wait, if there is one; also one that is not complete. */
void wait_drop(struct waiting *w, uint32_t conn);

/* The key was written: it has come for all waits. */
void wait_wake_all(struct waiting *w, struct table_entry *e);

/* An item was pushed: it has come for the waits up to the first that ends. */
void wait_wake_one(struct waiting *w, struct table_entry *e);

/* True once after it was woken for an item: *hash is of the queue's key then.
 * If it does not pop that item, wait_pass_on must be called. */
bool wait_take_wake(struct waiting *w, uint32_t conn, uint64_t *hash);

/* Wakes another wait for the queue's item, if there is one. */
void wait_pass_on(struct waiting *w, uint64_t hash);

/* -- watches --------------------------------------------------------------- */

/* -1: the store is full. */
int watch_add(struct waiting *w, uint32_t conn, struct table_entry *e);
void watch_drop_all(struct waiting *w, uint32_t conn);

/* Before the value is changed to `now`: `what` is one of C10D_KEY_*. */
void watch_tell(struct waiting *w,
                const struct table_entry *e,
                uint8_t what,
                struct c10d_slice now);

#endif
