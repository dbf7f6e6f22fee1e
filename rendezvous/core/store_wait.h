/*
 * core/store_wait: who waits for a key and who watches it, and how they are
 * told; a part of core/store that no other room includes.
 */
#ifndef STORE_WAIT_H
#define STORE_WAIT_H

#include "rendezvous/core/store.h"
#include "rendezvous/core/store_table.h"

struct wait {
    struct wait *prev;
    struct wait *next;
    struct entry *entry; /* NULL: has come */
    uint32_t conn;
};

struct watch {
    struct watch *prev; /* of the key's */
    struct watch *next;
    struct watch *mine; /* the connection's next one */
    struct entry *entry;
    uint32_t conn;
};

/* What the store knows of a connection. */
struct client {
    struct wait *waits; /* NULL: waits for nothing */
    size_t count;
    size_t missing;
    struct watch *watches;
    uint64_t woken_hash; /* of the queue's key whose item it was woken for */
    bool woken;
};

struct store {
    struct store_config cf;
    struct table t;
    uint64_t keys;           /* entries with a value ... */
    struct entry *first_key; /* ... and a list of them */
    struct client *clients;
};

/* -- replies --------------------------------------------------------------- */

void reply_bytes(struct store *s, uint32_t conn, const void *p, size_t n);
void reply_byte(struct store *s, uint32_t conn, uint8_t byte);
void reply_number(struct store *s, uint32_t conn, int64_t n);
void reply_value(struct store *s, uint32_t conn, struct c10d_slice value);

/* The value of an entry, "" where it has none. */
struct c10d_slice wait_value_of(const struct entry *e);

/* -- waits ----------------------------------------------------------------- */

/* Room for the nodes of a wait for `count` keys, more than none, of a client
 * that waits for nothing. -1: no room. */
int wait_begin(struct store *s, uint32_t conn, size_t count);

/* One of them: this key is missing. */
void wait_add(struct store *s, uint32_t conn, struct entry *e);

/* Also what is left of a wait that could not be registered whole. */
void wait_drop(struct store *s, struct client *c);

/* The key was written: for all who wait for it, it has come. */
void wait_wake_all(struct store *s, struct entry *e);

/* An item was pushed: until one wait has ended. */
void wait_wake_one(struct store *s, struct entry *e);

/* The client was woken for an item and did something else. */
void wait_pass_on(struct store *s, struct client *c);

/* -- watches --------------------------------------------------------------- */

/* -1: no room. */
int watch_add(struct store *s, uint32_t conn, struct entry *e);
void watch_drop_all(struct store *s, struct client *c);

/* Before the value is changed: `what` is one of C10D_KEY_*. */
void watch_tell(struct store *s,
                const struct entry *e,
                uint8_t what,
                struct c10d_slice now);

#endif
