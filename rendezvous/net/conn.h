/*
 * net/conn: one connection of our protocol on a libuv loop, messages in and
 * out. The server has a conn for each connection that it accepts, the agent one
 * for the connection to its server.
 *
 * Everything happens on the thread of the loop. A conn belongs to its maker
 * until conn_close, conn_finish or on_closed, whichever is first. After that
 * the pointer is dead, and libuv closes the handles by itself.
 *
 * Wrong bytes from a peer end its connection with a reason and touch nothing
 * else. Memory is bounded: one frame coming in, CONN_QUEUE_MAX going out. A
 * peer that does not read is dropped.
 *
 * With a token (conn_secure) everything travels inside TLS, see net/tls. A peer
 * without the token is told so and gets nowhere.
 *
 * An accepted peer may speak another protocol (proto/first). The owner can make
 * such a connection a raw one, bytes in and out, inside TLS if there is a
 * token; or take its descriptor away, with what was read.
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
    /* The dialled connection can be used; with a token, both ends have proved
     * that they have it. Not called for accepted ones. */
    void (*on_up)(void *ctx, struct conn *c);
    /* `m` is borrowed for the call, which may close the conn. */
    void (*on_msg)(void *ctx, struct conn *c, const struct msg *m);
    /* The conn is dead; `why` is for people, borrowed for the call. However it
     * ended: that proves nothing of the peer. */
    void (*on_closed)(void *ctx, struct conn *c, const char *why);
    /* May be NULL. The accepted peer does not speak our protocol; `first` is
     * never FIRST_OURS. Here the owner may keep the connection by conn_raw,
     * give it away by conn_yield, or end it; else it is closed, and on_closed
     * says why. With a token, conn_is_sealed tells whether the peer has it. */
    void (*on_foreign)(void *ctx, struct conn *c, enum first first);
    /* The rest is for raw connections, see conn_raw. Bytes that came, borrowed
     * for the call, which may close the conn. */
    void (*on_bytes)(void *ctx,
                     struct conn *c,
                     const uint8_t *data,
                     size_t len);
    /* Everything that was queued is out. May be NULL. */
    void (*on_drained)(void *ctx, struct conn *c);
    /* The peer sends no more, but may still read. NULL: the connection is
     * closed, and on_closed called. */
    void (*on_eof)(void *ctx, struct conn *c);
};

/* Sets options on a listening socket that accepted sockets inherit (on Linux,
 * tcp(7)): six system calls less for each connection. */
void conn_tune_listener(int fd);

/* Makes a conn of a descriptor that was accepted (net/listener). Owns the
 * descriptor from here on, also if it fails. Borrows `handler` for its life.
 * Errors: NULL; DDP_E_NOMEM, DDP_E_IO the connection is gone already. */
struct conn *conn_accept(uv_loop_t *loop,
                         int fd,
                         const struct conn_handler *handler,
                         void *ctx,
                         struct ddp_err *err);

/* Dials. on_up or on_closed follows, never during the call. Borrows `handler`
 * for its life. Errors: NULL; DDP_E_NOMEM, DDP_E_UNREACHABLE. */
struct conn *conn_dial(uv_loop_t *loop,
                       const struct sockaddr *to,
                       const struct conn_handler *handler,
                       void *ctx,
                       struct ddp_err *err);

/*
 * The connection requires a token. To be called right after conn_accept or
 * conn_dial, before the loop runs on. Borrows `key` for the conn's life; NULL:
 * no token.
 */
void conn_secure(struct conn *c, struct tls_key *key);

/* Counters that conns add to, see conn_count. */
struct conn_counts {
    int64_t messages_in, messages_out;
    int64_t bytes_in, bytes_out; /* of the socket */
};

/* Adds to `counts` from now on. Borrows it for the conn's life. */
void conn_count(struct conn *c, struct conn_counts *counts);

/* No frame that comes in may be larger. The default is FRAME_MAX, which is also
 * the most that may be set. */
void conn_limit_frames(struct conn *c, size_t frame_max);

/* In on_closed: the two ends have different tokens, or one has none. */
bool conn_token_differs(const struct conn *c);

/* Whether the peer has ever sent anything. */
bool conn_has_heard(const struct conn *c);

/* In on_closed: the peer closed it behind its last whole message, with a token
 * behind the end that TLS has. Else it broke. */
bool conn_was_finished(const struct conn *c);

/* Queues a message and sends at once what the socket takes. If the queue is
 * full the conn is closed; on_closed follows, never during the call. */
void conn_send(struct conn *c, const struct msg *m);

/* The same for a message that msg_encode encoded: one encoding for many
 * receivers. Borrows `json` for the call. */
void conn_send_json(struct conn *c, const char *json, size_t len);

/* Holds back what is sent on an accepted connection until conn_uncork, so that
 * it goes out in one write. False, and nothing is to be done: it is held back
 * already, while what was read is answered, or the connection is over. */
bool conn_cork(struct conn *c);
void conn_uncork(struct conn *c);

/*
 * Makes it a raw connection: no hello and no frames, but on_bytes and
 * conn_send_bytes, with this handler and ctx from now on. To be called in
 * on_foreign (on_bytes then has the first bytes as well) or right after
 * conn_dial (on_up is called as usual). A raw one gets another owner by it,
 * also in on_bytes.
 *
 * After conn_finish a raw connection is still read, and what comes is dropped,
 * until the peer closes too, for 2 s at most: a reset would overtake the last
 * bytes that it was sent. on_closed tells of that end.
 */
void conn_raw(struct conn *c, const struct conn_handler *handler, void *ctx);

/* As conn_send, for a raw one. Borrows `data` for the call. */
void conn_send_bytes(struct conn *c, const void *data, size_t len);

/* How many bytes wait for the socket, CONN_QUEUE_MAX at most. If there are any,
 * on_drained is still to come. */
size_t conn_queued(const struct conn *c);

/* Whether it can be given away: it was accepted, has no TLS, and the peer has
 * not said our hello. */
bool conn_may_yield(const struct conn *c);

/*
 * Gives the connection away, in on_foreign or later; only if conn_may_yield.
 * Returns a duplicate of its descriptor, non-blocking, owned by the caller, and
 * in *rest what was read so far, which the caller frees with buf_free. The conn
 * is dead then, without on_closed. Errors: -1 with errno, nothing has happened.
 */
int conn_yield(struct conn *c, struct buf *rest);

/* Whether TLS is spoken on it. What comes through it is from a peer that has
 * the token. */
bool conn_is_sealed(const struct conn *c);

/* Whether the first TLS message of an accepted peer was made with the token. It
 * may be a replay until the next one. False without a token. */
bool conn_is_proved(const struct conn *c);

/* Closes now; what is still queued is dropped. on_closed is not called. */
void conn_close(struct conn *c);

/* Closes in order when all that was queued is out, for which the peer has 2 s;
 * now, if it is still connecting. on_closed is not called, but see conn_raw. */
void conn_finish(struct conn *c);

/* Calls the handler with this ctx from now on. */
void conn_set_ctx(struct conn *c, void *ctx);

/* The numeric addresses of the two ends, "" if unknown. The peer's is known of
 * accepted connections, in on_closed too. */
void conn_peer(const struct conn *c, char text[ADDR_TEXT_MAX]);
void conn_here(const struct conn *c, char text[ADDR_TEXT_MAX]);

/* The descriptor, borrowed; -1 if none. */
int conn_fd(const struct conn *c);

#endif
