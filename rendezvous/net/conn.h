/*
 * net/conn: one connection of our protocol on a libuv loop, messages in and
 * out. Used by the server for those who come and by the agent for its own.
 *
 * All of it on the thread of the loop. A conn belongs to whoever made it until
 * conn_close (or conn_finish) or until on_closed was called, whichever is
 * first; after that the pointer is dead and libuv's closing goes on by itself.
 * What a peer sends wrong ends the connection with a reason and touches nothing
 * else. Memory is bounded: one frame coming in, CONN_QUEUE_MAX going out (who
 * does not read is dropped).
 *
 * With a token (conn_secure) all of it travels inside TLS, see net/tls, and
 * who does not have the token is told so and gets nowhere.
 *
 * Who connects may speak another protocol (proto/first). Such a connection can
 * be made a raw one, bytes in and out, inside TLS where there is a token; or
 * its descriptor can be taken away from here, with what was read.
 */
#ifndef RENDEZVOUS_NET_CONN_H
#define RENDEZVOUS_NET_CONN_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/tls.h"
#include "rendezvous/proto/first.h"
#include "rendezvous/proto/msg.h"

#define CONN_QUEUE_MAX (256u * 1024u)

struct conn;

struct conn_handler {
    /* The dialled connection stands; with a token, both ends have proved
     * that they have it. Not called for accepted ones. */
    void (*on_up)(void *ctx, struct conn *c);
    /* `m` is borrowed for the call, which may close the conn. */
    void (*on_msg)(void *ctx, struct conn *c, const struct msg *m);
    /* The conn is dead. orderly: a FIN at a message boundary, with a token
     * one that the peer has proved to be its own; refused: nobody listens
     * there; why: for people. */
    void (*on_closed)(
        void *ctx, struct conn *c, bool orderly, bool refused, const char *why);
    /* May be NULL. Whoever was accepted does not speak our protocol; `first` is
     * never FIRST_OURS. Here the owner may hand it over, by conn_raw or
     * conn_yield, or end it; else it is closed and on_closed says why. With a
     * token, conn_is_sealed tells whether the peer has it. */
    void (*on_foreign)(void *ctx, struct conn *c, enum first first);
    /* The rest is for raw connections, see conn_raw. What came; borrowed for
     * the call, which may close the conn. */
    void (*on_bytes)(void *ctx,
                     struct conn *c,
                     const uint8_t *data,
                     size_t len);
    /* What the socket did not take at once is out. May be NULL. */
    void (*on_drained)(void *ctx, struct conn *c);
    /* The peer sends no more, and may well read on. NULL: it is closed, and
     * on_closed tells. */
    void (*on_eof)(void *ctx, struct conn *c);
};

/* Sets on a listening socket what accepted ones inherit from it (Linux does
 * so: tcp(7)), six calls into the kernel less for each. */
void conn_tune_listener(int fd);

/* Of a descriptor that was accepted (net/listener), which it takes over, also
 * where it returns NULL: no memory, or the connection is gone (the reason in
 * err). Borrows handler for its life. */
struct conn *conn_accept(uv_loop_t *loop,
                         int fd,
                         const struct conn_handler *handler,
                         void *ctx,
                         struct ddp_err *err);

/* Dials; on_up or on_closed follows, never during the call. NULL: err. */
struct conn *conn_dial(uv_loop_t *loop,
                       const struct sockaddr *to,
                       const struct conn_handler *handler,
                       void *ctx,
                       struct ddp_err *err);

/*
 * Makes a connection one that needs a token: right after conn_accept or
 * conn_dial, before the loop runs on. Borrows key for its life; NULL is none.
 */
void conn_secure(struct conn *c, struct tls_key *key);

/* What a conn adds to as it goes, see conn_count. */
struct conn_counts {
    int64_t messages_in, messages_out;
    int64_t bytes_in, bytes_out; /* of the socket */
};

/* Counts there from now on. Borrows it for the conn's life. */
void conn_count(struct conn *c, struct conn_counts *counts);

/* No frame that comes in may be larger, FRAME_MAX at most, which is what holds
 * where this is not called. */
void conn_limit_frames(struct conn *c, size_t frame_max);

/* In on_closed: the two ends do not have the same token, or one has none. */
bool conn_token_differs(const struct conn *c);

/* What a process that holds a duplicate of the descriptor says last, to make
 * its FIN an orderly one: TLS_FAREWELL_LEN bytes, borrowed; NULL where there
 * is no token and a FIN is enough. From on_up on. */
const uint8_t *conn_farewell(const struct conn *c);

/* Queues a message and sends at once what the socket takes. A conn whose
 * queue is full is closed; on_closed follows, never during the call. */
void conn_send(struct conn *c, const struct msg *m);

/* The same for what msg_encode made, so that many can be sent what was encoded
 * once. Borrows it for the call. */
void conn_send_json(struct conn *c, const char *json, size_t len);

/*
 * Makes it a raw connection: neither hello nor frames, on_bytes and
 * conn_send_bytes instead, with this handler and ctx from now on. In on_foreign
 * (on_bytes then brings the first bytes as well), or right after conn_dial,
 * where on_up is called as ever. A raw one that is finished is read on, for
 * nobody, until the peer closes too (2 s at most), so that a reset does not
 * overtake what it was sent; on_closed tells of that end.
 */
void conn_raw(struct conn *c, const struct conn_handler *handler, void *ctx);

/* As conn_send, for a raw one. Borrows data for the call. */
void conn_send_bytes(struct conn *c, const void *data, size_t len);

/* How much of what was sent waits for the socket, CONN_QUEUE_MAX at most.
 * While it does, on_drained is to come. */
size_t conn_queued(const struct conn *c);

/* Whether it can be given away: an accepted one without TLS that has not said
 * our hello. */
bool conn_may_yield(const struct conn *c);

/*
 * In on_foreign, or later while it is silent, where conn_may_yield: gives the
 * connection away. Returns a duplicate of its descriptor, non-blocking, owned
 * by the caller, and in *rest what was read of it so far, to be freed by
 * buf_free. The conn is dead then, without on_closed. -1: errno, nothing has
 * happened.
 */
int conn_yield(struct conn *c, struct buf *rest);

/* Whether what is said on it goes through TLS, so that both have the token. */
bool conn_is_sealed(const struct conn *c);

/* Whether the peer has proved by its first words that it has the token; that
 * they are new is proved only by the next. False without a token. */
bool conn_is_proved(const struct conn *c);

/* Closes now, a dialled one by a reset; no on_closed. */
void conn_close(struct conn *c);

/* Closes in order once all that was queued is out; no on_closed. */
void conn_finish(struct conn *c);

/* What the handler is called with from now on. */
void conn_set_ctx(struct conn *c, void *ctx);

/* Numeric addresses of the two ends, "" where unknown. The peer's is known of
 * accepted ones, in on_closed too. */
void conn_peer(const struct conn *c, char text[ADDR_TEXT_MAX]);
void conn_here(const struct conn *c, char text[ADDR_TEXT_MAX]);

/* The descriptor, borrowed (the guard is given a duplicate); -1 if none. */
int conn_fd(const struct conn *c);

#endif
