/*
 * launcher/mpi/kvs: keys and values of one round's MPI library, as many as fit
 * a bound on their bytes.
 */
#ifndef LAUNCHER_MPI_KVS_H
#define LAUNCHER_MPI_KVS_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/proto/pmi.h"

#define KVS_BYTES_MAX ((size_t)256 << 20)

struct kvs_entry {
    char *key;   /* owned, with the value behind it; ends with NUL */
    char *value; /* in the same block, not owned */
    size_t value_len;
};

/* The caller's storage, {0} at the start. */
struct kvs {
    struct kvs_entry *entries; /* in the order in which the keys came */
    size_t n;
    size_t cap;
    size_t *slots; /* indices + 1 of entries by the key's hash; 0: free */
    size_t slots_len;
    size_t bytes;
};

void kvs_free(struct kvs *k);

/* Copies both; a value that was there is replaced. -1: over the bound, or out
 * of memory; nothing has changed then. */
int kvs_put(struct kvs *k, struct pmi_text key, struct pmi_text value);

/* NULL: there is no such key. Valid until the next call that changes `k`. */
const struct kvs_entry *kvs_get(const struct kvs *k, struct pmi_text key);

/* False: it was not there. An index may belong to another key then. */
bool kvs_remove(struct kvs *k, struct pmi_text key);

#endif
