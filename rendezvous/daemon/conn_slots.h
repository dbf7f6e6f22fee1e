/*
 * daemon/conn_slots: the places that connections take, and which pending
 * connection (of a peer without a name as yet) gives way when all places are
 * taken. Connections are known by small numbers, which are the core's. No
 * I/O: the owner closes what gives way.
 */
#ifndef RENDEZVOUS_DAEMON_CONN_SLOTS_H
#define RENDEZVOUS_DAEMON_CONN_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

struct conn;
struct server;
struct conn_slots;

#define CONN_SLOT_MAGIC 0x736c6f74u

enum conn_slot_state {
    CONN_SLOT_FREE,    /* no connection */
    CONN_SLOT_PENDING, /* in the list by age, which an answer begins anew */
    CONN_SLOT_JOINED,  /* its peer has said who it is; the core knows it */
};

struct conn_slot {
    unsigned magic; /* 0 while free */
    enum conn_slot_state state;
    struct conn *conn;     /* NULL: free */
    struct server *server; /* the owner's; NULL until it is set */
    bool asks;             /* pending: the core knows it, as that of nobody */
    bool holds;            /* what it is sent waits for the end of the step */
    int64_t round, steps;  /* joined: in its last beat */
    bool stands;           /* ... which told of ranks that stand still */
    int64_t since_us;      /* when it came, or asked last ... */
    int64_t turn;          /* ... and in which turn of the owner's loop */
    int older, younger;    /* pending: its neighbours by age, -1 ends it */
};

/* A slot that comes back as the context of a connection: it is in use. */
static inline struct conn_slot *conn_slot_of(void *ctx)
{
    struct conn_slot *slot = ctx;
    ddp_assert(slot->magic == CONN_SLOT_MAGIC);
    ddp_assert(slot->state != CONN_SLOT_FREE && slot->conn != NULL);
    return slot;
}

/* Owned by the caller. Aborts when out of memory. */
struct conn_slots *conn_slots_new(int max);
void conn_slots_del(struct conn_slots *s); /* NULL is fine */

/* A free one, which is pending now; NULL: all are taken. The owner sets
 * `server`, `since_us` and `turn`. */
struct conn_slot *conn_slots_take(struct conn_slots *s, struct conn *conn);

/* Its peer has said who it is: pending becomes joined. */
void conn_slots_join(struct conn_slots *s, struct conn_slot *slot);

/* Its peer has asked for something, and not said who it is: it is the youngest
 * of those that are pending. The owner sets `since_us`. */
void conn_slots_ask(struct conn_slots *s, struct conn_slot *slot);

/* Its connection is the owner's no more. */
void conn_slots_free(struct conn_slots *s, struct conn_slot *slot);

/* Whether the owner lets a pending one go. Must not touch the slots. */
typedef bool conn_slots_may_go(void *ctx, const struct conn_slot *slot);

/* All are taken, and one more connection comes: the oldest pending one that
 * may_go, or NULL. Only some are asked: a flood must not cost the server more
 * time than its author. */
struct conn_slot *
conn_slots_victim(struct conn_slots *s, conn_slots_may_go *may_go, void *ctx);

/* The oldest pending one, and the one that came after that; NULL: there is
 * none. */
struct conn_slot *conn_slots_oldest(const struct conn_slots *s);
struct conn_slot *conn_slots_younger(const struct conn_slots *s,
                                     const struct conn_slot *slot);

int conn_slots_max(const struct conn_slots *s);
int conn_slots_used(const struct conn_slots *s);
int conn_slots_pending(const struct conn_slots *s);
int conn_slots_index(const struct conn_slots *s, const struct conn_slot *slot);
struct conn_slot *conn_slots_at(struct conn_slots *s, int i);

#endif
