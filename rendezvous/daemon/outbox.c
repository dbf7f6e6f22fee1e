/*
 * A list of the connections that hold something back. One that is just being
 * read holds its answers back anyway (net/conn), and is not in the list. A slot
 * that was freed meanwhile holds nothing any more; none is taken within a step.
 *
 * Many are told the same, one after the other, as when a round ends: it is
 * encoded once.
 */
#include "rendezvous/daemon/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/net/conn.h"

struct outbox {
    struct conn_slots *slots;
    int *held; /* their numbers */
    int n;
    struct msg last;
    char json[MSG_JSON_MAX];
    int len; /* of `last`, 0: nothing was sent yet */
};

struct outbox *outbox_new(struct conn_slots *slots)
{
    struct outbox *o = calloc(1, sizeof(*o));
    if (o != NULL)
        o->held = calloc((size_t)conn_slots_max(slots), sizeof(o->held[0]));
    if (o == NULL || o->held == NULL)
        DDP_WRONG("out of memory while the server is made");
    o->slots = slots;
    return o;
}

void outbox_del(struct outbox *o)
{
    if (o == NULL)
        return;
    free(o->held);
    free(o);
}

void outbox_send(struct outbox *o, struct conn_slot *slot, const struct msg *m)
{
    if (o->len == 0 || memcmp(m, &o->last, sizeof(*m)) != 0) {
        o->len = msg_encode(m, o->json, sizeof(o->json));
        ddp_assert(o->len > 0);
        o->last = *m;
    }
    if (!slot->holds && conn_cork(slot->conn)) {
        ddp_assert(o->n < conn_slots_max(o->slots));
        slot->holds = true;
        o->held[o->n++] = conn_slots_index(o->slots, slot);
    }
    conn_send_json(slot->conn, o->json, (size_t)o->len);
}

void outbox_flush(struct outbox *o)
{
    for (int i = 0; i < o->n; i++) {
        struct conn_slot *slot = conn_slots_at(o->slots, o->held[i]);
        if (!slot->holds)
            continue;
        slot->holds = false;
        conn_uncork(slot->conn);
    }
    o->n = 0;
}
