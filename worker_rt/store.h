/*
 * worker_rt/store: a blocking client of the c10d store, with deadlines in
 * microseconds of base/mono (MONO_NEVER: none), and the three operations that
 * ranks need to meet. One thread at a time.
 *
 * The first call connects, and tries again with growing pauses until its
 * deadline. Errors of every call: UNREACHABLE (no connection), TIMEOUT, LOST
 * (the store broke off), PROTO, USAGE (over the protocol's limits), NOMEM.
 * After any of them but USAGE the connection is closed, and the next call makes
 * a new one: a reply that comes late is never taken for another request's.
 */
#ifndef WORKER_RT_STORE_H
#define WORKER_RT_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"
#include "rendezvous/proto/c10d.h"

#define STORE_HOST_MAX 256 /* with NUL */

struct store {
    char host[STORE_HOST_MAX]; /* "": there is none */
    uint16_t port;
    int fd; /* -1: not connected */
    struct buf in;
    struct buf out;
};

/* Connects to nothing yet. Copies `host`, shorter than STORE_HOST_MAX. */
void store_init(struct store *s, const char *host, uint16_t port);
void store_free(struct store *s);

int store_set(struct store *s,
              const char *key,
              const void *value,
              size_t len,
              int64_t deadline_us,
              struct ddp_err *err);

/* Waits for the key. USAGE if the value is longer than `cap`. */
int store_get(struct store *s,
              const char *key,
              void *value,
              size_t cap,
              size_t *len,
              int64_t deadline_us,
              struct ddp_err *err);

int store_wait(struct store *s,
               const char *key,
               int64_t deadline_us,
               struct ddp_err *err);

/* This end of the connection: an address of this host that the store's host
 * has a route to, and so the one to listen on for the other ranks. */
int store_local_addr(struct store *s,
                     struct sockaddr_storage *addr,
                     socklen_t *len,
                     int64_t deadline_us,
                     struct ddp_err *err);

/* -- for worker_rt/store_ops ----------------------------------------------- */

/*
 * A request is made of these, in this order, and store_fail where one of them
 * fails: connect if need be; append it to s->out with c10d_put_*; send it, and
 * read one reply after the other.
 */
int store_ready(struct store *s, int64_t deadline_us, struct ddp_err *err);

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
int store_talk(struct store *s,
               struct store_reply *r,
               int64_t deadline_us,
               struct ddp_err *err);

/* Closes the connection, but for USAGE, and says which request it was.
 * Returns -1. */
int store_fail(struct store *s,
               enum c10d_op op,
               const char *key,
               struct ddp_err *err);

/* The key as it is on the wire, with a '/' before it, as PyTorch's clients put
 * it. `slice` borrows from `out`. USAGE: too long. */
int store_wire_key(char out[C10D_KEY_MAX + 1],
                   const char *key,
                   struct c10d_slice *slice,
                   struct ddp_err *err);

#endif
