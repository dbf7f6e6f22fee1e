#include "rendezvous/daemon/pending.h"

#include <stdlib.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/fd_pass.h"
#include "rendezvous/net/listener.h"

#define PENDING_MAGIC       0x6c6f6262u
#define HELLO_US            (10 * MONO_S) /* to say join */
#define HELLO_FULL_US       (1 * MONO_S) /* the same where others want the room */
#define HELLO_STORE_US      (2 * MONO_S) /* with a store to hand the silent to */
#define HELLO_STORE_FULL_US (100 * MONO_MS)
#define SWEEP_MS            1000

struct pending {
    unsigned magic;
    struct conn_slots *slots;
    struct server_log *log;
    struct giver *giver; /* to the store, or NULL */
    uv_timer_t timer;    /* runs while somebody is here */
    int64_t turn;        /* of the loop */
};

static struct pending *pending_of(void *data)
{
    struct pending *l = data;
    ddp_assert(l->magic == PENDING_MAGIC);
    return l;
}

bool pending_hand_over(struct pending *l, struct conn_slot *slot)
{
    struct buf rest;
    if (l->giver == NULL || !conn_may_yield(slot->conn))
        return false;
    int fd = conn_yield(slot->conn, &rest);
    if (fd < 0) {
        server_log_closed(l->log, slot->conn,
                          "no descriptor to hand it to the store");
        conn_close(slot->conn);
    } else if (giver_give(l->giver, fd, &rest) != 0) {
        server_log_closed(l->log, NULL,
                          "the store does not take its connections");
    }
    conn_slots_free(l->slots, slot);
    return true;
}

static void
turn_away(struct pending *l, struct conn_slot *slot, const char *why)
{
    if (pending_hand_over(l, slot))
        return; /* it may be a client that waits to be called */
    server_log_rejected(l->log, slot->conn, REJECT_SILENT, why);
    conn_close(slot->conn);
    conn_slots_free(l->slots, slot);
}

static void give_place(struct pending *l, struct conn_slot *slot)
{
    turn_away(l, slot, "it said nothing, and others wait for its place");
}

/* Who connects and says nothing costs a descriptor for ten seconds. */
static void on_sweep(uv_timer_t *timer)
{
    struct pending *l = pending_of(timer->data);
    int64_t now_us = mono_now_us();
    int64_t hello_us = l->giver != NULL ? HELLO_STORE_US : HELLO_US;
    struct conn_slot *slot;
    while ((slot = conn_slots_oldest(l->slots)) != NULL &&
           now_us >= slot->since_us + hello_us)
        turn_away(l, slot,
                  l->giver != NULL ? "it did not say who it is"
                                   : "it said nothing for 10 s");
    if (conn_slots_pending(l->slots) == 0)
        (void)uv_timer_stop(timer);
}

/*
 * Whether it may go where others want its place. What it said right behind its
 * connecting has been read after two turns of the loop: a launcher says all
 * that it takes by then, or with a token half of that, by which it proves that
 * it has the token. An older PyTorch has nothing to say (see turn_away).
 */
static bool may_go(void *ctx, const struct conn_slot *slot)
{
    const struct pending *l = ctx;
    int64_t full_us = l->giver != NULL ? HELLO_STORE_FULL_US : HELLO_FULL_US;
    if (mono_now_us() >= slot->since_us + full_us)
        return true;
    return l->giver == NULL && l->turn >= slot->turn + 2 &&
           !conn_is_proved(slot->conn);
}

/* Strangers who hold every connection must not keep nodes out: one of them goes
 * for a connection that comes from `addr`. */
static void displace(struct pending *l, const char *addr)
{
    struct conn_slot *slot = conn_slots_victim(l->slots, addr, may_go, l);
    if (slot != NULL)
        give_place(l, slot);
}

struct conn_slot *
pending_take(struct pending *l, struct conn *c, const char *peer)
{
    if (conn_slots_used(l->slots) == conn_slots_max(l->slots))
        displace(l, peer);
    struct conn_slot *slot = conn_slots_take(l->slots, c, peer);
    if (slot == NULL)
        return NULL;
    slot->since_us = mono_now_us();
    slot->turn = l->turn;
    if (!uv_is_active((uv_handle_t *)&l->timer))
        (void)uv_timer_start(&l->timer, on_sweep, SWEEP_MS, SWEEP_MS);
    return slot;
}

bool pending_give_way(struct pending *l)
{
    int gone = 0;
    struct conn_slot *slot;
    while (gone < LISTENER_PER_TURN &&
           (slot = conn_slots_oldest(l->slots)) != NULL && may_go(l, slot)) {
        give_place(l, slot);
        gone++;
    }
    return gone > 0;
}

void pending_turn(struct pending *l)
{
    l->turn++;
}

/* -- open and close -------------------------------------------------------- */

int pending_open(struct pending **out,
                 uv_loop_t *loop,
                 struct conn_slots *slots,
                 struct server_log *log,
                 int store_chan,
                 struct ddp_err *err)
{
    struct giver *giver = NULL;
    if (store_chan > 0 && giver_open(&giver, loop, store_chan, err) != 0)
        return -1;
    struct pending *l = calloc(1, sizeof(*l));
    if (l == NULL)
        DDP_WRONG("out of memory while a pending is made");
    l->magic = PENDING_MAGIC;
    l->slots = slots;
    l->log = log;
    l->giver = giver;
    (void)uv_timer_init(loop, &l->timer); /* cannot fail */
    l->timer.data = l;
    *out = l;
    return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct pending *l = pending_of(h->data);
    l->magic = 0;
    free(l);
}

void pending_close(struct pending *l)
{
    if (l->giver != NULL)
        giver_close(l->giver);
    uv_close((uv_handle_t *)&l->timer, on_handle_closed);
}
