/*
 * daemon/conn_slots: the places that connections take, and which of those who
 * have not said who they are gives way when all are taken. Connections are
 * known by small numbers, which are the core's. No I/O: the owner closes what
 * goes.
 */
#ifndef RENDEZVOUS_DAEMON_CONN_SLOTS_H
#define RENDEZVOUS_DAEMON_CONN_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct server;
struct conn_slots;

struct conn_slot {
    struct conn *conn; /* NULL: free */
    struct server *server;
    int64_t since_us;   /* when it came ... */
    int64_t turn;       /* ... and in which turn of the owner's loop */
    bool joined;        /* it is no stranger any more */
    int source;         /* of a stranger */
    int older, younger; /* strangers, -1 ends it */
};

/* Owned by the caller. Aborts when out of memory. */
struct conn_slots *conn_slots_new(int max);
void conn_slots_del(struct conn_slots *s); /* NULL is fine */

/* A free one for a stranger that comes from this address, or NULL. The owner
 * says when it came. */
struct conn_slot *
conn_slots_take(struct conn_slots *s, struct conn *conn, const char *addr);

/* It has said who it is. */
void conn_slots_join(struct conn_slots *s, struct conn_slot *slot);

/* Its connection is the owner's no more. */
void conn_slots_free(struct conn_slots *s, struct conn_slot *slot);

/* Whether the owner lets a stranger go, who is not to be touched here. */
typedef bool conn_slots_may_go(void *ctx, const struct conn_slot *slot);

/*
 * All are taken, and one more comes from this address: the stranger that goes
 * for it, or NULL. That is the youngest of the source that has the most
 * strangers, where that has more of them than this one has; else the oldest
 * that may_go, of this source if it has its share.
 */
struct conn_slot *conn_slots_victim(struct conn_slots *s,
                                    const char *addr,
                                    conn_slots_may_go *may_go,
                                    void *ctx);

/* The stranger that is here for longest; NULL: there is none. */
struct conn_slot *conn_slots_oldest(const struct conn_slots *s);

int conn_slots_max(const struct conn_slots *s);
int conn_slots_used(const struct conn_slots *s);
int conn_slots_pending(const struct conn_slots *s);
int conn_slots_index(const struct conn_slots *s, const struct conn_slot *slot);
struct conn_slot *conn_slots_at(struct conn_slots *s, int i);

#endif
