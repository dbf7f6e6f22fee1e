/*
 * An array of slots, a stack of the free ones, and one list of the pending ones
 * by age, youngest last. A slot goes FREE -> PENDING (take) -> JOINED (join) ->
 * FREE (free), or from PENDING to FREE. Only pending slots are in the list;
 * joined ones are never looked at when a place is wanted, so that no number of
 * newcomers displaces a node. Among the pending ones age decides, by the
 * owner's may_go.
 */
#include "rendezvous/daemon/conn_slots.h"

#include <stdlib.h>

#include "rendezvous/base/err.h"

#define LOOKS_MAX 128

struct conn_slots {
    int max;
    int n_free, n_pending;
    int oldest, youngest; /* pending, -1: none */
    struct conn_slot *at;
    int *free;
};

struct conn_slots *conn_slots_new(int max)
{
    struct conn_slots *s = calloc(1, sizeof(*s));
    if (s == NULL)
        DDP_WRONG("out of memory while connection slots are made");
    s->max = max;
    s->oldest = s->youngest = -1;
    s->at = calloc((size_t)max, sizeof(s->at[0]));
    s->free = calloc((size_t)max, sizeof(s->free[0]));
    if (s->at == NULL || s->free == NULL)
        DDP_WRONG("out of memory while connection slots are made");
    for (int i = max - 1; i >= 0; i--)
        s->free[s->n_free++] = i;
    return s;
}

void conn_slots_del(struct conn_slots *s)
{
    if (s == NULL)
        return;
    free(s->at);
    free(s->free);
    free(s);
}

static void become_pending(struct conn_slots *s, int i)
{
    struct conn_slot *slot = &s->at[i];
    slot->older = s->youngest;
    slot->younger = -1;
    if (s->youngest >= 0)
        s->at[s->youngest].younger = i;
    else
        s->oldest = i;
    s->youngest = i;
    s->n_pending++;
}

struct conn_slot *conn_slots_take(struct conn_slots *s, struct conn *conn)
{
    if (s->n_free == 0)
        return NULL;
    int i = s->free[--s->n_free];
    ddp_assert(s->at[i].state == CONN_SLOT_FREE && conn != NULL);
    s->at[i] = (struct conn_slot){
        .magic = CONN_SLOT_MAGIC, .state = CONN_SLOT_PENDING, .conn = conn};
    become_pending(s, i);
    return &s->at[i];
}

/* Out of the list. */
static void leave_pending(struct conn_slots *s, struct conn_slot *slot)
{
    ddp_assert(slot->state == CONN_SLOT_PENDING && s->n_pending > 0);
    if (slot->older >= 0)
        s->at[slot->older].younger = slot->younger;
    else
        s->oldest = slot->younger;
    if (slot->younger >= 0)
        s->at[slot->younger].older = slot->older;
    else
        s->youngest = slot->older;
    s->n_pending--;
    ddp_assert((s->n_pending == 0) == (s->oldest < 0));
}

void conn_slots_ask(struct conn_slots *s, struct conn_slot *slot)
{
    leave_pending(s, slot);
    slot->asks = true;
    become_pending(s, conn_slots_index(s, slot));
}

void conn_slots_join(struct conn_slots *s, struct conn_slot *slot)
{
    leave_pending(s, slot);
    slot->state = CONN_SLOT_JOINED;
}

void conn_slots_free(struct conn_slots *s, struct conn_slot *slot)
{
    ddp_assert(slot->magic == CONN_SLOT_MAGIC && slot->conn != NULL);
    ddp_assert(s->n_free < s->max);
    if (slot->state == CONN_SLOT_PENDING)
        leave_pending(s, slot);
    slot->state = CONN_SLOT_FREE;
    slot->magic = 0;
    slot->conn = NULL;
    slot->holds = slot->asks = false;
    s->free[s->n_free++] = conn_slots_index(s, slot);
}

struct conn_slot *
conn_slots_victim(struct conn_slots *s, conn_slots_may_go *may_go, void *ctx)
{
    int left = LOOKS_MAX;
    for (int i = s->oldest; i >= 0 && left > 0; i = s->at[i].younger, left--)
        if (may_go(ctx, &s->at[i]))
            return &s->at[i];
    return NULL;
}

struct conn_slot *conn_slots_oldest(const struct conn_slots *s)
{
    return s->oldest < 0 ? NULL : &s->at[s->oldest];
}

struct conn_slot *conn_slots_younger(const struct conn_slots *s,
                                     const struct conn_slot *slot)
{
    return slot->younger < 0 ? NULL : &s->at[slot->younger];
}

int conn_slots_max(const struct conn_slots *s)
{
    return s->max;
}

int conn_slots_used(const struct conn_slots *s)
{
    return s->max - s->n_free;
}

int conn_slots_pending(const struct conn_slots *s)
{
    return s->n_pending;
}

int conn_slots_index(const struct conn_slots *s, const struct conn_slot *slot)
{
    ddp_assert(slot >= s->at && slot < s->at + s->max);
    return (int)(slot - s->at);
}

struct conn_slot *conn_slots_at(struct conn_slots *s, int i)
{
    ddp_assert(i >= 0 && i < s->max);
    return &s->at[i];
}
