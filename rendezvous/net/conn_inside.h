/*
 * net/conn_inside: what the two halves of net/conn share: conn.c, which makes,
 * sends and ends, and conn_in.c, which takes what comes in. Nobody else
 * includes this.
 */
#ifndef CONN_INSIDE_H
#define CONN_INSIDE_H

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

/* -- conn.c ---------------------------------------------------------------- */

/* It is over, which the owner is told. */
void conn_lose(struct conn *c, bool orderly, bool refused, const char *why);

/* What is in `plain` goes to `waiting`. It stays where it is while the two ends
 * greet. */
void conn_seal(struct conn *c);

/* Sends of `waiting` what the socket takes, and what the answers to a read
 * held back. */
void conn_flush(struct conn *c);
void conn_uncork(struct conn *c);

/* -- conn_in.c ------------------------------------------------------------- */

/* 0, or libuv's error. */
int conn_start_reading(struct conn *c);

void conn_say_hello(struct conn *c);

/* TLS has failed: a dialler hears why, and so does a peer that fails to greet
 * us. */
void conn_fail_tls(struct conn *c);

/* What libuv says of a read, for people. */
const char *conn_read_error(ssize_t n);

#endif
