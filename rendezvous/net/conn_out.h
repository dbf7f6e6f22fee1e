/*
 * net/conn_out: the connection itself, what goes out on it, and its end: the
 * lowest of the three parts of net/conn. conn_in takes what comes in and says
 * by this what it answers; conn makes connections and uses both. None calls one
 * above it, but for the owner's handler. No other room's business.
 */
#ifndef RENDEZVOUS_NET_CONN_OUT_H
#define RENDEZVOUS_NET_CONN_OUT_H

#include "rendezvous/net/conn.h"

#define CONN_MAGIC 0x636f6e6eu

struct conn {
    unsigned magic;
    uv_tcp_t tcp;
    uv_timer_t finish_timer;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    const struct conn_handler *handler;
    void *ctx;
    struct conn_counts *counts; /* never NULL */
    size_t frame_max;
    struct buf in, waiting, flying;
    struct tls_key *key; /* NULL: no token */
    struct tls *tls;     /* NULL: no key, or the peer has not begun */
    struct buf plain;    /* to be sealed; empty without a key */
    bool secured;        /* TLS is up, and on_up was called */
    bool answered;       /* something came from whom we dialled */
    bool token_differs;
    bool accepted; /* the peer owes us a hello */
    bool greeted;  /* ... and gave it */
    bool raw;      /* bytes, not messages */
    bool eof;      /* raw: the peer sends no more ... */
    bool shut;     /* ... and neither do we */
    bool up;
    bool corked; /* a read is being answered */
    bool writing;
    bool broken;   /* by a reset, which a write has seen already */
    bool overflow; /* is to be closed from the loop */
    bool finishing;
    bool closing;
    int open_handles;
    char peer[ADDR_TEXT_MAX]; /* of accepted ones; outlives the socket */
};

static inline struct conn *conn_of(void *data)
{
    struct conn *c = data;
    ddp_assert(c->magic == CONN_MAGIC);
    return c;
}

/* It is over, which the owner is told; `why` is borrowed for the call. */
void conn_lose(struct conn *c, bool orderly, bool refused, const char *why);

/* Queues our hello; it goes with the next conn_flush. */
void conn_say_hello(struct conn *c);

/* Sends of `waiting` what the socket takes; the rest follows by itself. May
 * make it lost, never during the call. */
void conn_flush(struct conn *c);

/* A read has been answered: all that was held back by `corked` goes. May end
 * it. */
void conn_uncork(struct conn *c);

/* What libuv says of a read, for people; a string that stays. */
const char *conn_read_error(ssize_t n);

#endif
