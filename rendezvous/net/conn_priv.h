/*
 * net/conn_priv: the connection itself, for the three parts of net/conn only.
 * conn_out writes and ends connections, and is the lowest; conn_in reads and
 * answers by conn_out; conn makes connections and uses both. None calls a part
 * above it, but for the owner's handler.
 *
 * Four things are told of a connection, each by an enum: how far its life is,
 * what is spoken on it, how far TLS is, and what a write has found wrong.
 */
#ifndef RENDEZVOUS_NET_CONN_PRIV_H
#define RENDEZVOUS_NET_CONN_PRIV_H

#include "rendezvous/net/conn.h"

#define CONN_MAGIC 0x636f6e6eu

enum conn_life {
    CONN_CONNECTING, /* dialled; there is no connection yet */
    CONN_OPEN,
    CONN_FINISHING, /* the owner is done: what is queued goes out, then a FIN */
    CONN_CLOSED,    /* dead for its owner; libuv closes the handles */
};

enum conn_talk {
    CONN_HELLO,  /* the peer's first bytes, or the rest of them, are to come */
    CONN_FRAMES, /* the peer said our hello */
    CONN_RAW,    /* bytes, not messages */
};

enum conn_tls {
    CONN_NO_KEY,
    CONN_TLS_DUE,   /* nothing of TLS has come; dialled: a hello was sent */
    CONN_TLS_BEGUN, /* something came */
    CONN_TLS_UP,    /* both have the token; on_up was called */
};

enum conn_fault {
    CONN_SOUND,
    CONN_RESET, /* a write has seen a reset: a FIN is read next */
    CONN_STUCK, /* the peer reads too slowly: it is closed from the loop */
};

struct conn {
    unsigned magic;
    enum conn_life life;
    enum conn_talk talk;
    enum conn_tls tls_at;
    enum conn_fault fault;
    bool accepted;      /* else it was dialled */
    bool writing;       /* a uv_write has `flying` */
    bool corked;        /* a read is being answered: all answers in one write;
                           or the owner wants that (conn_cork) */
    bool eof;           /* raw: the peer sends no more ... */
    bool shut;          /* ... and neither do we: our FIN is out */
    bool token_differs; /* for on_closed, as this one: */
    bool finished;      /* by the peer */
    bool heard;         /* something has come */
    int open_handles;
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
    struct buf plain;         /* to be encrypted; empty without a key */
    struct tls_key *key;      /* NULL: no token */
    struct tls *tls;          /* NULL: no key, or an accepted one, TLS_DUE */
    char peer[ADDR_TEXT_MAX]; /* of accepted ones; outlives the socket */
};

/* What may be set in which state. */
static inline void conn_check(const struct conn *c)
{
    ddp_assert(c->magic == CONN_MAGIC);
    ddp_assert(c->life != CONN_CONNECTING || !c->accepted);
    ddp_assert((c->key == NULL) == (c->tls_at == CONN_NO_KEY));
    ddp_assert(c->tls == NULL || c->key != NULL);
    ddp_assert(c->tls != NULL || c->tls_at < CONN_TLS_BEGUN);
    ddp_assert(!c->corked || c->accepted);
    ddp_assert(!c->eof || c->talk == CONN_RAW);
    ddp_assert(!c->shut || c->life >= CONN_FINISHING);
    ddp_assert(c->open_handles > 0);
}

static inline struct conn *conn_of(void *data)
{
    struct conn *c = data;
    conn_check(c);
    return c;
}

/* Whether the owner still has it, and has not finished it. */
static inline bool conn_is_in_use(const struct conn *c)
{
    return c->life < CONN_FINISHING;
}

/* -- conn_in --------------------------------------------------------------- */

/* From now on what comes is read, and the owner's handler called. Returns 0, or
 * libuv's error. */
int conn_start_reading(struct conn *c);

/* A dialled one is connected and being read: says our hello, after the
 * handshake of TLS if there is a key, and calls on_up. May end it. */
void conn_begin(struct conn *c);

/* -- conn_out -------------------------------------------------------------- */

/* The connection is over, and the owner is told. Borrows `why` for the call. */
void conn_lose(struct conn *c, const char *why);

/* Queues our hello; it goes out with the next conn_flush. */
void conn_say_hello(struct conn *c);

/* Sends of `waiting` what the socket takes; the rest follows by itself. An
 * error is told later, never during the call. */
void conn_flush(struct conn *c);

/* An error of a read, for people; a string that stays. */
const char *conn_read_error(ssize_t n);

#endif
