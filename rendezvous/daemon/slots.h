/*
 * daemon/slots: the places that connections take, and which of those who have
 * not said who they are gives way when all are taken. Connections are known by
 * small numbers, which are the core's. No I/O: the owner closes what goes.
 */
#ifndef RENDEZVOUS_DAEMON_SLOTS_H
#define RENDEZVOUS_DAEMON_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct server;
struct slots;

struct slot {
    struct conn *conn; /* NULL: free */
    struct server *server;
    int64_t since_us;   /* when it came ... */
    int64_t turn;       /* ... and in which turn of the owner's loop */
    bool joined;        /* it is no stranger any more */
    int source;         /* of a stranger */
    int older, younger; /* strangers, -1 ends it */
};

/* Owned by the caller. Aborts when out of memory. */
struct slots *slots_new(int max);
void slots_del(struct slots *s); /* NULL is fine */

/* A free one for a stranger that comes from this address, or NULL. The owner
 * says when it came. */
struct slot *slots_take(struct slots *s, struct conn *conn, const char *addr);

/* It has said who it is. */
void slots_join(struct slots *s, struct slot *slot);

/* Its connection is the owner's no more. */
void slots_free(struct slots *s, struct slot *slot);

/* Whether the owner lets a stranger go, who is not to be touched here. */
typedef bool slots_may_go(void *ctx, const struct slot *slot);

/*
 * All are taken, and one more comes from this address: the stranger that goes
 * for it, or NULL. That is the youngest of the source that has the most
 * strangers, where that has more of them than this one has; else the oldest
 * that may_go, of this source if it has its share.
 */
struct slot *slots_victim(struct slots *s,
                          const char *addr,
                          slots_may_go *may_go,
                          void *ctx);

/* The stranger that is here for longest; NULL: there is none. */
struct slot *slots_oldest(const struct slots *s);

int slots_max(const struct slots *s);
int slots_used(const struct slots *s);
int slots_strangers(const struct slots *s);
int slots_index(const struct slots *s, const struct slot *slot);
struct slot *slots_at(struct slots *s, int i);

#endif
