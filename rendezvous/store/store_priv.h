/*
 * store/store_priv: what the three parts of store/server share, each of which
 * calls those below it: server.c, its life and new connections; requests.c,
 * what a connection asks; replies.c, what goes out on it, and its end.
 */
#ifndef RENDEZVOUS_STORE_STORE_PRIV_H
#define RENDEZVOUS_STORE_STORE_PRIV_H

#include "rendezvous/base/buf.h"
#include "rendezvous/base/log_limit.h"
#include "rendezvous/proto/c10d.h"
#include "rendezvous/store/server.h"
#include "rendezvous/store/store.h"

#define STORE_SERVER_MAGIC 0x53746f72u
#define STORE_CONN_MAGIC   0x436f6e6eu
#define STORE_READ_MAX     ((size_t)128 << 10) /* a SET of 64 KiB in one piece */
#define STORE_LARGE                                                            \
    ((size_t)16 << 10) /* a copy of this costs more than a write */
#define STORE_PIECE                                                            \
    ((size_t)64 << 10) /* what libuv is given to write at a time */

/* FREE -> OPEN -> CLOSING -> FREE. A free slot has no bytes and no magic. */
enum store_conn_state {
    STORE_CONN_FREE,
    STORE_CONN_OPEN,
    STORE_CONN_CLOSING, /* until libuv's close callback */
};

struct store_conn {
    uint32_t magic;
    enum store_conn_state state;
    struct store_server *server;
    uv_tcp_t tcp;
    uv_write_t write_req;
    struct c10d_decoder decoder;
    struct buf in;      /* a request that is not whole */
    struct buf out;     /* replies to be written */
    struct buf writing; /* replies that libuv writes; or empty */
    size_t held;        /* memory of the three, as counted in the server */
    bool reads_own;     /* the next bytes go to `in` itself */
    bool doomed;        /* replies were dropped: to be closed */
    bool dirty;
    struct store_conn *next; /* in the list of dirty ones, or of free ones */
};

struct store_server {
    uint32_t magic;
    uv_tcp_t listener; /* opened only if there is a socket to listen on */
    uv_check_t after;  /* runs when all sockets of this turn were read */
    struct store_server_limits limits;
    struct store *store;
    struct store_conn *conns;
    uint32_t touched; /* slots used at least once: the array's first ones */
    struct store_conn *spare; /* free slots among these */
    struct store_conn *dirty;
    struct store_conn *serving; /* its request is being served, or NULL */
    size_t held;                /* at most limits.held_bytes, at any time */
    size_t most;   /* no connection holds more; it may be less by now */
    size_t unsent; /* bytes of the dirty ones' replies */
    unsigned dirty_count;
    unsigned handles; /* libuv still knows: `listener`, `after`, `left_out`,
                         connections */
    bool closing;
    bool paused; /* a connection waits in libuv for memory ... */
    void (*has_place)(struct store_server *s); /* ... and a slot is free */
    struct log_limit log_limit;
    uv_timer_t left_out; /* runs while lines are left out of the log */
    char scratch[STORE_READ_MAX];
};

static inline struct store_server *store_server_of(const uv_handle_t *h)
{
    struct store_server *s = h->data;
    ddp_assert(s->magic == STORE_SERVER_MAGIC);
    return s;
}

static inline struct store_conn *store_conn_of(const uv_handle_t *h)
{
    struct store_conn *c = h->data;
    ddp_assert(c->magic == STORE_CONN_MAGIC && c->state != STORE_CONN_FREE);
    return c;
}

/* -- requests.c ------------------------------------------------------------ */

/* Starts to read its requests: 0, or libuv's error. */
int store_conn_start(struct store_conn *c);

/* Serves bytes that are in the server's shared buffer or the caller's. */
void store_conn_feed(struct store_conn *c, const uint8_t *data, size_t len);

/* -- replies.c ----------------------------------------------------------- */

/* Whether a line about this source may be logged now; else it is counted. */
bool store_may_log(struct store_server *s);

/* Logs how many lines were left out, if any were. */
void store_log_left_out(struct store_server *s);

/* The store's callback: kept until store_out_flush, but for large values,
 * of which the socket gets at once what it takes. */
store_send store_out_keep;

/* Writes what was kept, of all connections, and closes those that leave too
 * much unread. Not from within the store's callback. */
void store_out_flush(struct store_server *s);

/*
 * Closes a connection, silently or with a line in the log that says why. Does
 * nothing if it is closed already. Not from within the store's callback. `c`
 * stays valid until the loop goes on.
 */
void store_conn_close(struct store_conn *c);
void store_conn_refuse(struct store_conn *c, const char *why);

/* Brings the server's count of held memory up to date with this one. */
void store_conn_weigh(struct store_conn *c);

/*
 * Whether `b`, a buffer of this connection, may take `len` bytes more. If all
 * together would hold too much, those that hold most are doomed, which frees
 * what they hold. False: this connection is doomed.
 */
bool store_conn_may_grow(struct store_conn *c, const struct buf *b, size_t len);

/* One of the server's handles is closed; the last one frees the server. */
void store_let_go(struct store_server *s);

#endif
