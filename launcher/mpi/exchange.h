/*
 * launcher/mpi/exchange: what the launchers of a round tell each other for
 * their MPI libraries, through the round's store (MASTER_ADDR:MASTER_PORT). One
 * connection; one request after the other.
 */
#ifndef LAUNCHER_MPI_EXCHANGE_H
#define LAUNCHER_MPI_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "launcher/rdzv/resolver.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/proto/pmi.h"

struct conn;
struct exchange_order;

/* None of these is called during a call of this unit's functions. */
struct exchange_handler {
    /* What all nodes brought to the oldest gathering that was not answered, in
     * any order, or what was taken from a box; borrowed for the call. */
    void (*on_gathered)(void *ctx, const char *data, size_t len);
    /* The answer to exchange_name. */
    void (*on_named)(void *ctx,
                     int local_rank,
                     bool found,
                     struct pmi_text value);
    /* The store cannot be reached; nothing is answered any more. It comes late
     * (EXCHANGE_LOST_MS), since a store also ends with its round. */
    void (*on_lost)(void *ctx, const char *why);
};

#define EXCHANGE_LOST_MS 1000
/* In which all nodes have to bring their part of the first gathering, which
 * each brings as its round begins. */
#define EXCHANGE_FIRST_MS 60000
/* For an address that does not answer; then the next one is dialled. */
#define EXCHANGE_DIAL_MS 5000

/* The caller's storage, for the life of the process; the fields are
 * exchange.c's own. */
struct exchange {
    uint32_t magic;
    uv_loop_t *loop;
    const struct exchange_handler *handler;
    void *ctx;
    enum {
        EXCHANGE_CLOSED,
        EXCHANGE_FINDING, /* no connection: the timer, or the resolver, goes on
                           */
        EXCHANGE_DIALLING,
        EXCHANGE_UP,
        EXCHANGE_BROKEN, /* until the timer tells it */
    } state;
    uv_timer_t timer;
    struct resolver resolver;
    char host[256];
    int port;
    int64_t nodes;
    int64_t round;
    struct addr_list addrs;
    int next_addr;
    int64_t first_ms; /* EXCHANGE_FIRST_MS, less in a test */
    int64_t dial_ms;  /* EXCHANGE_DIAL_MS, less in a test */
    int64_t until_us; /* the connection has to be there by then */
    struct conn *conn;
    struct buf in;
    struct buf out;               /* what conn has no room for */
    struct exchange_order *first; /* the one that is under way, if UP */
    struct exchange_order *last;
    size_t queued; /* their bytes, with those of the data */
    char why[300];
};

/* Borrows all for its life. Errors: DDP_E_NOMEM. */
int exchange_init(struct exchange *x,
                  uv_loop_t *loop,
                  const struct exchange_handler *handler,
                  void *ctx,
                  struct ddp_err *err);

/* For a new round, whose store is there, on so many nodes. Forgets all of the
 * one before. */
void exchange_open(struct exchange *x,
                   const char *host,
                   int port,
                   int64_t nodes,
                   int64_t round);

/* Forgets all; on_lost does not follow. */
void exchange_close(struct exchange *x);

/*
 * Brings this node's bytes under a name of at most 32 letters, which is new in
 * this round and the same on all nodes. on_gathered follows once all have
 * brought theirs. Copies both.
 */
void exchange_gather(struct exchange *x,
                     const char *name,
                     const void *data,
                     size_t len);

/* Puts bytes into a box, whose name is as that of a gathering. Copies both. */
void exchange_post(struct exchange *x,
                   const char *box,
                   const void *data,
                   size_t len);

/* Bytes of memory for what was to be brought, posted or published and is not
 * yet. */
size_t exchange_queued(const struct exchange *x);

/*
 * Takes from a box what was posted first; on_gathered follows. Until then this
 * connection does nothing else.
 */
void exchange_take(struct exchange *x, const char *box);

/* publish_name, lookup_name or unpublish_name; on_named follows. Copies all. */
void exchange_name(struct exchange *x,
                   int local_rank,
                   enum pmi_op op,
                   struct pmi_text name,
                   struct pmi_text value);

#endif
