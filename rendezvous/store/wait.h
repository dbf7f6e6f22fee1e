/*
 * store/wait: who waits for a key and who watches it, and how they are
 * told. A part of store/store, which says when a key has come or has changed;
 * it knows the entries of the table and nothing of what a request means.
 *
 * A connection has one wait at most, for any number of keys, and any number of
 * watches. Where one has been woken for the item of a queue, that item is meant
 * for it: see wait_take_wake.
 */
#ifndef RENDEZVOUS_STORE_WAIT_H
#define RENDEZVOUS_STORE_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/store/reply.h"
#include "rendezvous/store/table.h"

struct store_client; /* what is known of one connection */

/* In storage of the caller's. */
struct waiting {
    struct table *table;  /* of whose entries; its memory is counted there */
    struct reply_way way; /* of wake-ups and of what watchers are told */
    struct store_client *clients;
    uint32_t conn_max;
};

/* Borrows the table until waiting_free, which may be called after a failure,
 * too. Connections have ids below conn_max. -1: no memory. */
int waiting_init(struct waiting *w,
                 struct table *table,
                 struct reply_way way,
                 uint32_t conn_max);

/* Ends all waits and watches, without a word to anybody. Before table_free. */
void waiting_free(struct waiting *w);

/* -- waits ----------------------------------------------------------------- */

/* Room for the nodes of a wait for `count` keys, more than none, of one that
 * waits for nothing. -1: no room. */
int wait_begin(struct waiting *w, uint32_t conn, size_t count);

/* One of them: this key is missing. Called `count` times, or wait_drop. */
void wait_add(struct waiting *w, uint32_t conn, struct table_entry *e);

/* Whether it waits for something. */
bool wait_is_pending(const struct waiting *w, uint32_t conn);

/* Forgets its wait, if there is one; also one of which not all was added. */
void wait_drop(struct waiting *w, uint32_t conn);

/* The key was written: for all who wait for it, it has come. */
void wait_wake_all(struct waiting *w, struct table_entry *e);

/* An item was pushed: until one wait has ended. */
void wait_wake_one(struct waiting *w, struct table_entry *e);

/* True once after it was woken for an item: *hash is of the queue's key then.
 * Where it does not pop that item, wait_pass_on is to be called. */
bool wait_take_wake(struct waiting *w, uint32_t conn, uint64_t *hash);

/* Somebody else is woken for what is in that queue, if anything is. */
void wait_pass_on(struct waiting *w, uint64_t hash);

/* -- watches --------------------------------------------------------------- */

/* -1: no room. */
int watch_add(struct waiting *w, uint32_t conn, struct table_entry *e);
void watch_drop_all(struct waiting *w, uint32_t conn);

/* Before the value is changed to `now`: `what` is one of C10D_KEY_*. */
void watch_tell(struct waiting *w,
                const struct table_entry *e,
                uint8_t what,
                struct c10d_slice now);

#endif
