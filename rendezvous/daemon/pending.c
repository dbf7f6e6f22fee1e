/*
 * Happy path: a launcher says join in the bytes right behind its connect. They
 * are read within two turns of the loop, the server joins the slot, and nothing
 * here is heard of it again.
 *
 * What else happens:
 * - a peer asks where a run is served (`serves`), and is nobody's node: it
 *   stays here as long as it asks again;
 * - a peer says nothing: a sweep each second closes it after 10 s. With a store
 *   it is handed over after 2 s, since PyTorch's older clients wait for the
 *   store to speak first;
 * - all places are taken: a newcomer displaces a pending connection, by
 *   conn_slots' rules. One has at least the time in which a launcher's first
 *   bytes arrive (may_go);
 * - no descriptor can be had: up to LISTENER_PER_TURN that may go are closed;
 * - the store is gone, or a descriptor cannot be duplicated for it: that one
 *   connection is closed with a line in the log.
 */
#include "rendezvous/daemon/pending.h"

#include <stdlib.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/fd_pass.h"
#include "rendezvous/net/listener.h"

#define PENDING_MAGIC       0x70656e64u
#define HELLO_US            (10 * MONO_S) /* to say join */
#define HELLO_FULL_US       (1 * MONO_S) /* the same if others want its place */
#define HELLO_STORE_US      (2 * MONO_S) /* if there is a store to hand it to */
#define HELLO_STORE_FULL_US (100 * MONO_MS)
#define SWEEP_MS            1000

struct pending_conns {
    unsigned magic;
    struct conn_slots *slots;
    struct server_log *log;
    struct giver *giver; /* to the store, or NULL */
    uv_timer_t timer;    /* runs while a connection is pending */
    int64_t turn;        /* of the loop */
};

static struct pending_conns *pending_of(void *data)
{
    struct pending_conns *p = data;
    ddp_assert(p->magic == PENDING_MAGIC);
    return p;
}

bool pending_hand_over(struct pending_conns *p, struct conn_slot *slot)
{
    struct buf rest;
    if (p->giver == NULL || !conn_may_yield(slot->conn))
        return false;
    int fd = conn_yield(slot->conn, &rest);
    if (fd < 0) {
        server_log_closed(p->log, slot->conn,
                          "no descriptor is left to hand it to the store");
        conn_close(slot->conn);
    } else if (giver_give(p->giver, fd, &rest) != 0) {
        server_log_closed(p->log, NULL, "the store takes no connections now");
    }
    conn_slots_free(p->slots, slot);
    return true;
}

static void
turn_away(struct pending_conns *p, struct conn_slot *slot, const char *why)
{
    if (pending_hand_over(p, slot))
        return; /* it may be a client that waits for the store */
    server_log_rejected(p->log, slot->conn, REJECT_SILENT, why);
    conn_close(slot->conn);
    conn_slots_free(p->slots, slot);
}

static void give_place(struct pending_conns *p, struct conn_slot *slot)
{
    turn_away(p, slot, "it has sent nothing, and others wait for its place");
}

/* A peer that says nothing holds a descriptor for HELLO_US at most. */
static void on_sweep(uv_timer_t *timer)
{
    struct pending_conns *p = pending_of(timer->data);
    int64_t now_us = mono_now_us();
    struct conn_slot *slot, *younger;
    for (slot = conn_slots_oldest(p->slots); slot != NULL; slot = younger) {
        bool shy = p->giver != NULL && !slot->asks;
        younger = conn_slots_younger(p->slots, slot);
        if (now_us >= slot->since_us + (shy ? HELLO_STORE_US : HELLO_US))
            turn_away(p, slot,
                      shy ? "it has sent too little to show its protocol"
                          : "it has sent nothing for 10 s");
    }
    if (conn_slots_pending(p->slots) == 0)
        (void)uv_timer_stop(timer);
}

/*
 * Whether it may go if others want its place. What its peer sent right after it
 * connected has been read after two turns of the loop. By then a launcher has
 * sent its join or, with a token, the half of the handshake that proves that it
 * has the token. An older PyTorch sends nothing: with a store only time counts.
 */
static bool may_go(void *ctx, const struct conn_slot *slot)
{
    const struct pending_conns *p = pending_of(ctx);
    ddp_assert(slot->state == CONN_SLOT_PENDING);
    int64_t full_us = p->giver != NULL ? HELLO_STORE_FULL_US : HELLO_FULL_US;
    if (mono_now_us() >= slot->since_us + full_us)
        return true;
    return p->giver == NULL && p->turn >= slot->turn + 2 &&
           !conn_is_proved(slot->conn);
}

struct conn_slot *pending_take(struct pending_conns *p, struct conn *c)
{
    struct conn_slot *slot;
    /* Pending connections that hold every place must not keep nodes out. */
    if (conn_slots_used(p->slots) == conn_slots_max(p->slots) &&
        (slot = conn_slots_victim(p->slots, may_go, p)) != NULL)
        give_place(p, slot);
    slot = conn_slots_take(p->slots, c);
    if (slot == NULL)
        return NULL;
    slot->since_us = mono_now_us();
    slot->turn = p->turn;
    if (!uv_is_active((uv_handle_t *)&p->timer))
        (void)uv_timer_start(&p->timer, on_sweep, SWEEP_MS, SWEEP_MS);
    return slot;
}

bool pending_give_way(struct pending_conns *p)
{
    int gone = 0;
    struct conn_slot *slot;
    while (gone < LISTENER_PER_TURN &&
           (slot = conn_slots_oldest(p->slots)) != NULL && may_go(p, slot)) {
        give_place(p, slot);
        gone++;
    }
    return gone > 0;
}

void pending_turn(struct pending_conns *p)
{
    p->turn++;
}

/* -- open and close -------------------------------------------------------- */

int pending_open(struct pending_conns **out,
                 uv_loop_t *loop,
                 struct conn_slots *slots,
                 struct server_log *log,
                 int store_chan,
                 struct ddp_err *err)
{
    struct giver *giver = NULL;
    if (store_chan > 0 && giver_open(&giver, loop, store_chan, err) != 0)
        return -1;
    struct pending_conns *p = calloc(1, sizeof(*p));
    if (p == NULL)
        DDP_WRONG("out of memory while the server is made");
    p->magic = PENDING_MAGIC;
    p->slots = slots;
    p->log = log;
    p->giver = giver;
    (void)uv_timer_init(loop, &p->timer); /* cannot fail */
    p->timer.data = p;
    *out = p;
    return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct pending_conns *p = pending_of(h->data);
    p->magic = 0;
    free(p);
}

void pending_close(struct pending_conns *p)
{
    if (p->giver != NULL)
        giver_close(p->giver);
    uv_close((uv_handle_t *)&p->timer, on_handle_closed);
}
