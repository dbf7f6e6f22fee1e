/*
 * client/store: a blocking client of the c10d store, with the operations that
 * ranks and probes need to meet. Deadlines are microseconds of base/mono
 * (MONO_NEVER: none). One thread at a time.
 *
 * The first call connects, and tries again with growing pauses until its
 * deadline. Errors of every call: UNREACHABLE (no connection), TIMEOUT (no
 * answer), LOST (the store closed the connection, or it broke), PROTO, USAGE
 * (over the protocol's limits), NOMEM, ABORTED (`stop` said so). `err` must not
 * be NULL. After every error but USAGE the connection is closed, and the next
 * call makes a new one: a late reply is never taken for another request's.
 *
 * Keys are put on the wire with a '/' before them, as PyTorch's clients do.
 */
#ifndef RENDEZVOUS_CLIENT_STORE_H
#define RENDEZVOUS_CLIENT_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/dial.h"
#include "rendezvous/base/err.h"
#include "rendezvous/proto/c10d.h"

#define STORE_CLIENT_HOST_MAX 256  /* with NUL */
#define STORE_CLIENT_KEY_MAX  8000 /* bytes; one is the '/' on the wire */

struct store_client {
    char host[STORE_CLIENT_HOST_MAX]; /* "": there is no store */
    uint16_t port;
    int fd;                       /* -1: not connected */
    const struct dial_stop *stop; /* ends every wait, borrowed; may be NULL */
    struct buf in;
    struct buf out;
};

/* Connects to nothing yet. Copies `host`, which is cut if it is longer than
 * STORE_CLIENT_HOST_MAX. */
void store_client_init(struct store_client *s, const char *host, uint16_t port);

/* Closes the connection. The client may be used again. */
void store_client_free(struct store_client *s);

int store_client_set(struct store_client *s,
                     const char *key,
                     const void *value,
                     size_t len,
                     int64_t deadline_us,
                     struct ddp_err *err);

/* Waits for the key and copies its value. USAGE if the value is longer than
 * `cap`; `*len` is its length. */
int store_client_get(struct store_client *s,
                     const char *key,
                     void *value,
                     size_t cap,
                     size_t *len,
                     int64_t deadline_us,
                     struct ddp_err *err);

/* Waits for the key. *text is its value with a NUL behind it; the caller frees
 * it. It comes from a peer and may be anything. */
int store_client_text(struct store_client *s,
                      const char *key,
                      char **text,
                      int64_t deadline_us,
                      struct ddp_err *err);

int store_client_wait(struct store_client *s,
                      const char *key,
                      int64_t deadline_us,
                      struct ddp_err *err);

/* Whether the key is there now. */
int store_client_check(struct store_client *s,
                       const char *key,
                       bool *there,
                       int64_t deadline_us,
                       struct ddp_err *err);

/* This end of the connection: an address of this host that the store's host
 * has a route to, and so the one to listen on for the other ranks. */
int store_client_local_addr(struct store_client *s,
                            struct sockaddr_storage *addr,
                            socklen_t *len,
                            int64_t deadline_us,
                            struct ddp_err *err);

/* -- for further operations ------------------------------------------------ */

/*
 * A request is made of these, in this order, and store_client_fail if one of
 * them fails: connect if need be; append it to s->out with c10d_put; send it,
 * and read one reply after the other.
 */
int store_client_ready(struct store_client *s,
                       int64_t deadline_us,
                       struct ddp_err *err);

/* What a reply is read into; which member is valid follows from the kind. */
struct store_reply {
    enum {
        REPLY_NONE,
        REPLY_BYTE,
        REPLY_NUMBER,
        REPLY_VALUE
    } kind;
    uint8_t byte;
    int64_t number;
    struct c10d_slice value; /* borrowed from s->in */
    size_t used;             /* to be dropped from s->in by buf_take */
};
int store_client_talk(struct store_client *s,
                      struct store_reply *r,
                      int64_t deadline_us,
                      struct ddp_err *err);

/* Closes the connection, but for USAGE, and says which request it was.
 * Returns -1. */
int store_client_fail(struct store_client *s,
                      enum c10d_op op,
                      const char *key,
                      struct ddp_err *err);

/* The key as it is on the wire. `slice` borrows from `out`. USAGE: too long. */
int store_client_key(char out[C10D_KEY_MAX + 1],
                     const char *key,
                     struct c10d_slice *slice,
                     struct ddp_err *err);

#endif
