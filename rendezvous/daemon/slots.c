#include "rendezvous/daemon/slots.h"

#include <stdlib.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/quota.h"

#define LOOKS_MAX 128

struct slots {
    int max;
    int n_free, n_strangers;
    int oldest, youngest; /* strangers, -1: none */
    struct slot *at;
    int *free;
    struct quota *sources; /* of strangers */
};

struct slots *slots_new(int max)
{
    struct slots *s = calloc(1, sizeof(*s));
    if (s == NULL)
        DDP_WRONG("out of memory while places are made");
    s->max = max;
    s->oldest = s->youngest = -1;
    s->at = calloc((size_t)max, sizeof(s->at[0]));
    s->free = calloc((size_t)max, sizeof(s->free[0]));
    if (s->at == NULL || s->free == NULL)
        DDP_WRONG("out of memory while places are made");
    s->sources = quota_new(max);
    for (int i = max - 1; i >= 0; i--)
        s->free[s->n_free++] = i;
    return s;
}

void slots_del(struct slots *s)
{
    if (s == NULL)
        return;
    quota_del(s->sources);
    free(s->at);
    free(s->free);
    free(s);
}

static void become_stranger(struct slots *s, int i, const char *addr)
{
    struct slot *slot = &s->at[i];
    slot->source = quota_take(s->sources, addr);
    slot->older = s->youngest;
    slot->younger = -1;
    if (s->youngest >= 0)
        s->at[s->youngest].younger = i;
    else
        s->oldest = i;
    s->youngest = i;
    s->n_strangers++;
}

struct slot *slots_take(struct slots *s, struct conn *conn, const char *addr)
{
    if (s->n_free == 0)
        return NULL;
    int i = s->free[--s->n_free];
    s->at[i] = (struct slot){.conn = conn};
    become_stranger(s, i, addr);
    return &s->at[i];
}

void slots_join(struct slots *s, struct slot *slot)
{
    ddp_assert(slot->conn != NULL && !slot->joined);
    slot->joined = true;
    quota_drop(s->sources, slot->source);
    if (slot->older >= 0)
        s->at[slot->older].younger = slot->younger;
    else
        s->oldest = slot->younger;
    if (slot->younger >= 0)
        s->at[slot->younger].older = slot->older;
    else
        s->youngest = slot->older;
    s->n_strangers--;
}

void slots_free(struct slots *s, struct slot *slot)
{
    ddp_assert(slot->conn != NULL);
    if (!slot->joined)
        slots_join(s, slot); /* it leaves the strangers' list */
    slot->conn = NULL;
    s->free[s->n_free++] = slots_index(s, slot);
}

/* The youngest stranger of a source, which has one. */
static struct slot *youngest_of(struct slots *s, int source)
{
    int i = s->youngest;
    while (s->at[i].source != source)
        i = s->at[i].older;
    return &s->at[i];
}

/* Of a source, or of any (-1). Not looked for without end: who floods pays no
 * more than he costs. */
static struct slot *
oldest_of(struct slots *s, int source, slots_may_go *may_go, void *ctx)
{
    int left = LOOKS_MAX;
    for (int i = s->oldest; i >= 0 && left > 0; i = s->at[i].younger) {
        struct slot *slot = &s->at[i];
        if (source >= 0 && slot->source != source)
            continue;
        if (may_go(ctx, slot))
            return slot;
        left--;
    }
    return NULL;
}

struct slot *
slots_victim(struct slots *s, const char *addr, slots_may_go *may_go, void *ctx)
{
    int largest = quota_largest(s->sources, addr);
    if (largest >= 0)
        return youngest_of(s, largest);
    bool has_share = !quota_within_share(s->sources, addr);
    int own = quota_find(s->sources, addr);
    return oldest_of(s, has_share ? own : -1, may_go, ctx);
}

struct slot *slots_oldest(const struct slots *s)
{
    return s->oldest < 0 ? NULL : &s->at[s->oldest];
}

int slots_max(const struct slots *s)
{
    return s->max;
}

int slots_used(const struct slots *s)
{
    return s->max - s->n_free;
}

int slots_strangers(const struct slots *s)
{
    return s->n_strangers;
}

int slots_index(const struct slots *s, const struct slot *slot)
{
    return (int)(slot - s->at);
}

struct slot *slots_at(struct slots *s, int i)
{
    ddp_assert(i >= 0 && i < s->max);
    return &s->at[i];
}
