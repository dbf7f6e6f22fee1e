/*
 * Chained buckets, whose number is doubled as entries come. All memory goes
 * through table_take and table_give, which count it with what the allocator
 * adds, so that the limit holds for many tiny keys, too. If there is no memory
 * for more buckets, the chains grow longer and nothing else happens.
 */
#include "rendezvous/store/table.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/siphash.h"

#define BUCKETS_MIN ((size_t)256)
#define MALLOC_COST ((size_t)16) /* of an allocation, beyond its size */

/* -- memory, counted ------------------------------------------------------- */

static bool has_room(const struct table *t, size_t len)
{
    size_t room = t->byte_max - t->bytes;
    return room >= MALLOC_COST && len <= room - MALLOC_COST;
}

void *table_take(struct table *t, size_t len)
{
    void *p = has_room(t, len) ? malloc(len > 0 ? len : 1) : NULL;
    if (p != NULL)
        t->bytes += len + MALLOC_COST;
    return p;
}

void table_give(struct table *t, void *p, size_t len)
{
    if (p == NULL)
        return;
    ddp_assert(t->bytes >= len + MALLOC_COST);
    t->bytes -= len + MALLOC_COST;
    free(p);
}

uint64_t table_hash(const struct table *t, struct c10d_slice key)
{
    return siphash_table(t->hash_key, key.data, key.len);
}

/* -- entries --------------------------------------------------------------- */

static struct table_entry **bucket_of(const struct table *t, uint64_t hash)
{
    return &t->buckets[hash & (t->bucket_count - 1)];
}

static struct table_entry *
find_hashed(const struct table *t, struct c10d_slice key, uint64_t hash)
{
    struct table_entry *e = *bucket_of(t, hash);
    while (e != NULL &&
           (e->hash != hash || e->key_len != key.len ||
            (key.len > 0 && memcmp(e->key, key.data, key.len) != 0)))
        e = e->next;
    return e;
}

struct table_entry *table_find(const struct table *t, struct c10d_slice key)
{
    return find_hashed(t, key, table_hash(t, key));
}

struct table_entry *table_find_hash(const struct table *t, uint64_t hash)
{
    struct table_entry *e = *bucket_of(t, hash);
    while (e != NULL && e->hash != hash)
        e = e->next;
    return e;
}

static struct table_entry **new_buckets(struct table *t, size_t count)
{
    struct table_entry **buckets =
        table_take(t, count * sizeof(struct table_entry *));
    if (buckets != NULL)
        memset(buckets, 0, count * sizeof(struct table_entry *));
    return buckets;
}

/* Without memory for more buckets the chains grow longer, that is all. */
static void grow(struct table *t)
{
    size_t count = 2 * t->bucket_count;
    struct table_entry **old = t->buckets;
    struct table_entry **buckets = new_buckets(t, count);
    if (buckets == NULL)
        return;
    for (size_t i = 0; i < t->bucket_count; i++) {
        for (struct table_entry *e = old[i], *next; e != NULL; e = next) {
            next = e->next;
            struct table_entry **head = &buckets[e->hash & (count - 1)];
            e->next = *head;
            *head = e;
        }
    }
    table_give(t, old, t->bucket_count * sizeof(struct table_entry *));
    t->buckets = buckets;
    t->bucket_count = count;
}

struct table_entry *table_need(struct table *t, struct c10d_slice key)
{
    uint64_t hash = table_hash(t, key);
    struct table_entry *e = find_hashed(t, key, hash);
    if (e != NULL)
        return e;
    if (t->entries >= t->bucket_count)
        grow(t);
    e = table_take(t, sizeof(*e) + key.len);
    if (e == NULL)
        return NULL;
    *e = (struct table_entry){.hash = hash, .key_len = key.len};
    if (key.len > 0)
        memcpy(e->key, key.data, key.len);
    struct table_entry **head = bucket_of(t, hash);
    e->next = *head;
    *head = e;
    t->entries++;
    return e;
}

static void free_entry(struct table *t, struct table_entry *e)
{
    while (e->items > 0)
        table_pop(t, e);
    table_give(t, e->value, e->value_cap);
    table_give(t, e, sizeof(*e) + e->key_len);
}

void table_prune(struct table *t, struct table_entry *e)
{
    if (e->there || e->items > 0 || e->wait_first != NULL || e->watches != NULL)
        return;
    struct table_entry **at = bucket_of(t, e->hash);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    t->entries--;
    free_entry(t, e);
}

/* -- values ---------------------------------------------------------------- */

/* Room for `len` bytes, those that are kept are moved; -1: no room. */
static int
resize(struct table *t, struct table_entry *e, size_t keep, size_t len)
{
    size_t cap = len;
    if (keep > 0 && has_room(t, len + len / 2))
        cap = len + len / 2; /* it grows: or each APPEND would move it all */
    uint8_t *value = table_take(t, cap);
    if (value == NULL)
        return -1;
    if (keep > 0)
        memcpy(value, e->value, keep);
    table_give(t, e->value, e->value_cap);
    e->value = value;
    e->value_cap = cap;
    return 0;
}

int table_write(struct table *t,
                struct table_entry *e,
                size_t at,
                struct c10d_slice data)
{
    size_t len = at + data.len;
    ddp_assert(at <= e->value_len);
    /* One that shrank a lot gives its room back. */
    bool fits = e->value != NULL && len <= e->value_cap &&
                (at > 0 || len >= e->value_cap / 2 || e->value_cap <= 64);
    if (!fits && resize(t, e, at, len) != 0)
        return -1;
    if (data.len > 0)
        memcpy(e->value + at, data.data, data.len);
    e->value_len = len;
    return 0;
}

void table_clear(struct table *t, struct table_entry *e)
{
    table_give(t, e->value, e->value_cap);
    e->value = NULL;
    e->value_len = e->value_cap = 0;
}

/* -- queues ---------------------------------------------------------------- */

int table_push(struct table *t, struct table_entry *e, struct c10d_slice data)
{
    struct item *i = table_take(t, sizeof(*i) + data.len);
    if (i == NULL)
        return -1;
    *i = (struct item){.len = data.len};
    if (data.len > 0)
        memcpy(i->data, data.data, data.len);
    if (e->items++ == 0)
        e->item_first = i;
    else
        e->item_last->next = i;
    e->item_last = i;
    return 0;
}

void table_pop(struct table *t, struct table_entry *e)
{
    struct item *i = e->item_first;
    ddp_assert(e->items > 0 && i != NULL);
    e->item_first = i->next;
    if (--e->items == 0)
        e->item_last = NULL;
    table_give(t, i, sizeof(*i) + i->len);
}

/* -- life ------------------------------------------------------------------ */

int table_init(struct table *t, size_t byte_max, const uint64_t hash_key[2])
{
    *t = (struct table){.byte_max = byte_max,
                        .hash_key = {hash_key[0], hash_key[1]}};
    t->buckets = new_buckets(t, BUCKETS_MIN);
    t->bucket_count = t->buckets == NULL ? 0 : BUCKETS_MIN;
    return t->buckets == NULL ? -1 : 0;
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->bucket_count; i++) {
        for (struct table_entry *e = t->buckets[i], *next; e != NULL;
             e = next) {
            next = e->next;
            free_entry(t, e);
        }
    }
    table_give(t, t->buckets, t->bucket_count * sizeof(struct table_entry *));
    *t = (struct table){.bytes = 0};
}
