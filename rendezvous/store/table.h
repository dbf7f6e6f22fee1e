/*
 * store/table: the keys of a store, each with its value, its queue, and
 * the heads of the lists of who waits for it and who watches it: a hash table
 * with a keyed hash (keys that a peer chose to collide do not slow it down),
 * whose memory is counted and limited. What the entries mean is store/store's.
 *
 * A key of the queues and one of the values are two things in PyTorch's
 * server; here they share an entry, and `there` speaks of the value only.
 */
#ifndef RENDEZVOUS_STORE_TABLE_H
#define RENDEZVOUS_STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/proto/c10d.h"

struct key_wait;  /* store/wait's, whose lists begin here */
struct key_watch; /* .. */

struct item {
    struct item *next;
    size_t len;
    uint8_t data[];
};

struct table_entry {
    struct table_entry *next; /* in its bucket */
    struct table_entry
        *key_prev; /* of those with a value, store/store's list */
    struct table_entry *key_next;
    uint64_t hash;
    struct key_wait *wait_first; /* in the order in which they came */
    struct key_wait *wait_last;
    struct key_watch *watches;
    struct item *item_first;
    struct item *item_last;
    uint64_t items;
    uint8_t *value;
    size_t value_len;
    size_t value_cap; /* what was taken for it */
    size_t key_len;
    bool there;
    uint8_t key[];
};

/* The value, "" where it has none; borrowed from the entry. */
static inline struct c10d_slice entry_value(const struct table_entry *e)
{
    return (struct c10d_slice){e->value, e->value_len};
}

struct table {
    size_t bytes; /* in use, with what an allocation costs beyond its size */
    size_t byte_max;
    uint64_t hash_key[2];
    struct table_entry **buckets;
    size_t bucket_count; /* a power of two */
    size_t entries;
};

/* -1: no memory for an empty one. */
int table_init(struct table *t, size_t byte_max, const uint64_t hash_key[2]);

/* Frees all entries with their values and queues; lists are the caller's. */
void table_free(struct table *t);

/* Counted memory, not zeroed. NULL: over the limit, or out of memory. What was
 * taken is given back with the same length; NULL is fine. */
void *table_take(struct table *t, size_t len);
void table_give(struct table *t, void *p, size_t len);

uint64_t table_hash(const struct table *t, struct c10d_slice key);

/* NULL where there is none. */
struct table_entry *table_find(const struct table *t, struct c10d_slice key);
struct table_entry *table_find_hash(const struct table *t, uint64_t hash);

/* Finds or makes the entry; NULL: no room. */
struct table_entry *table_need(struct table *t, struct c10d_slice key);

/* Forgets an entry without a value, an item, a wait or a watch, and leaves any
 * other alone. */
void table_prune(struct table *t, struct table_entry *e);

/* Writes `data` at `at` (not behind the value's end) and ends the value behind
 * it; a value that grows at its end is given room to grow. -1: no room, the
 * value is as it was. */
int table_write(struct table *t,
                struct table_entry *e,
                size_t at,
                struct c10d_slice data);

/* Forgets the value, which is "" then. */
void table_clear(struct table *t, struct table_entry *e);

/* At the end of the queue. -1: no room. */
int table_push(struct table *t, struct table_entry *e, struct c10d_slice data);

/* Drops the first item; there is one. */
void table_pop(struct table *t, struct table_entry *e);

#endif
