/*
 * A binary tree in an array, each node of which is the smaller of its two
 * children: `at_us[1]` is the smallest of all, and thing i is the leaf
 * `leaves + i`. One that changes changes only what is above it.
 */
#include "rendezvous/core/inner/state/due.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

struct due {
    int n;
    size_t leaves;  /* a power of two, n or more */
    int64_t *at_us; /* 2 * leaves */
    bool *is_touched;
    int *touched; /* a stack of these */
    int n_touched;
};

struct due *due_new(int n)
{
    ddp_assert(n > 0);
    size_t leaves = 1;
    while (leaves < (size_t)n)
        leaves *= 2;
    struct due *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return NULL;
    *d = (struct due){.n = n,
                      .leaves = leaves,
                      .at_us = calloc(2 * leaves, sizeof(int64_t)),
                      .is_touched = calloc((size_t)n, sizeof(bool)),
                      .touched = calloc((size_t)n, sizeof(int))};
    if (d->at_us == NULL || d->is_touched == NULL || d->touched == NULL) {
        due_del(d);
        return NULL;
    }
    for (size_t i = 0; i < 2 * leaves; i++)
        d->at_us[i] = MONO_NEVER;
    return d;
}

void due_del(struct due *d)
{
    if (d == NULL)
        return;
    free(d->at_us);
    free(d->is_touched);
    free(d->touched);
    free(d);
}

void due_set(struct due *d, int i, int64_t at_us)
{
    ddp_assert(i >= 0 && i < d->n);
    size_t k = d->leaves + (size_t)i;
    while (d->at_us[k] != at_us) { /* what is above it stays as well */
        d->at_us[k] = at_us;
        if (k == 1)
            return;
        at_us = mono_min(at_us, d->at_us[k ^ 1]);
        k /= 2;
    }
}

int64_t due_at(const struct due *d, int i)
{
    ddp_assert(i >= 0 && i < d->n);
    return d->at_us[d->leaves + (size_t)i];
}

int64_t due_first(const struct due *d)
{
    return d->at_us[1];
}

void due_touch(struct due *d, int i)
{
    ddp_assert(i >= 0 && i < d->n);
    if (d->is_touched[i])
        return;
    d->is_touched[i] = true;
    d->touched[d->n_touched++] = i;
}

int due_take_touched(struct due *d)
{
    if (d->n_touched == 0)
        return -1;
    int i = d->touched[--d->n_touched];
    d->is_touched[i] = false;
    return i;
}
