/*
 * An array in the order of the keys' arrival, for the commands that walk it,
 * and a table of hashes with open addressing, never more than half full.
 */
#include "launcher/mpi/kvs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 64 /* a power of two, as all sizes here */
#define OVERHEAD  64 /* of an entry: the block, its place and its slots */

void kvs_free(struct kvs *k)
{
    for (size_t i = 0; i < k->n; i++)
        free(k->entries[i].key);
    free(k->entries);
    free(k->slots);
    *k = (struct kvs){.n = 0};
}

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
static size_t hash(const char *at, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)at[i]) * UINT64_C(1099511628211);
    return (size_t)(h ^ (h >> 32));
}

/* The slot of the key, or the free one where it belongs. */
static size_t find_slot(const struct kvs *k, const char *key, size_t len)
{
    size_t mask = k->slots_len - 1;
    size_t at = hash(key, len) & mask;
    for (; k->slots[at] != 0; at = (at + 1) & mask) {
        const char *there = k->entries[k->slots[at] - 1].key;
        if (strlen(there) == len && memcmp(there, key, len) == 0)
            break;
    }
    return at;
}

static void fill_slots(struct kvs *k)
{
    memset(k->slots, 0, k->slots_len * sizeof(*k->slots));
    for (size_t i = 0; i < k->n; i++) {
        const char *key = k->entries[i].key;
        k->slots[find_slot(k, key, strlen(key))] = i + 1;
    }
}

static int grow(struct kvs *k)
{
    size_t cap = k->cap == 0 ? FIRST_CAP : k->cap * 2;
    struct kvs_entry *entries = realloc(k->entries, cap * sizeof(*k->entries));
    if (entries == NULL)
        return -1;
    k->entries = entries;
    size_t *slots = calloc(2 * cap, sizeof(*slots));
    if (slots == NULL)
        return -1; /* there is more room than is used */
    free(k->slots);
    k->slots = slots;
    k->slots_len = 2 * cap;
    k->cap = cap;
    fill_slots(k);
    return 0;
}

static size_t size_of(const struct kvs_entry *e)
{
    return strlen(e->key) + e->value_len + OVERHEAD;
}

static bool
make_entry(struct kvs_entry *e, struct pmi_text key, struct pmi_text value)
{
    e->key = malloc(key.len + value.len + 2);
    if (e->key == NULL)
        return false;
    memcpy(e->key, key.at, key.len);
    e->key[key.len] = '\0';
    e->value = e->key + key.len + 1;
    e->value_len = value.len;
    if (value.len > 0)
        memcpy(e->value, value.at, value.len);
    e->value[value.len] = '\0';
    return true;
}

int kvs_put(struct kvs *k, struct pmi_text key, struct pmi_text value)
{
    struct kvs_entry e;
    ddp_assert(key.len > 0 && memchr(key.at, '\0', key.len) == NULL);
    if (k->bytes + key.len + value.len + OVERHEAD > KVS_BYTES_MAX ||
        (k->n == k->cap && grow(k) != 0) || !make_entry(&e, key, value))
        return -1;
    size_t slot = find_slot(k, key.at, key.len);
    k->bytes += size_of(&e);
    if (k->slots[slot] == 0) {
        k->entries[k->n++] = e;
        k->slots[slot] = k->n;
        return 0;
    }
    struct kvs_entry *old = &k->entries[k->slots[slot] - 1];
    k->bytes -= size_of(old);
    free(old->key);
    *old = e;
    return 0;
}

const struct kvs_entry *kvs_get(const struct kvs *k, struct pmi_text key)
{
    size_t slot = k->n == 0 ? 0 : find_slot(k, key.at, key.len);
    return k->n == 0 || k->slots[slot] == 0 ? NULL
                                            : &k->entries[k->slots[slot] - 1];
}

/* Names are few and seldom withdrawn: the table is made anew. */
bool kvs_remove(struct kvs *k, struct pmi_text key)
{
    const struct kvs_entry *e = kvs_get(k, key);
    if (e == NULL)
        return false;
    size_t i = (size_t)(e - k->entries);
    k->bytes -= size_of(e);
    free(k->entries[i].key);
    k->entries[i] = k->entries[--k->n];
    fill_slots(k);
    return true;
}
