/*
 * store/store_priv: what the three parts of store/server share, each
 * of which calls those below it: store_server.c, its life and who comes in;
 * store_in.c, what a connection asks; store_out.c, what goes out on it, and its
 * end. Nobody else includes this.
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
#define STORE_LARGE        ((size_t)16 << 10)  /* worth not to be copied */

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
    size_t held;        /* bytes of the three, as counted in the server */
    bool reads_own;     /* the next bytes go to `in` itself */
    bool overfull;      /* replies were dropped: to be closed */
    bool dirty;
    struct store_conn *next; /* of the dirty ones, or of the free ones */
};

struct store_server {
    uint32_t magic;
    uv_tcp_t listener; /* opened only where there is one to listen on */
    uv_check_t after;  /* all reads of a turn of the loop: then it is written */
    struct store_server_limits limits;
    struct store *store;
    struct store_conn *conns;
    uint32_t touched; /* slots used at least once: the array's first ones */
    struct store_conn *spare; /* free slots among these */
    struct store_conn *dirty;
    size_t held;
    size_t unsent; /* bytes of the dirty ones' replies */
    unsigned dirty_count;
    unsigned handles; /* libuv still knows: `listener`, `after`, `left_out`,
                         connections */
    bool closing;
    bool paused; /* a connection waits in libuv for memory: */
    void (*has_place)(struct store_server *s); /* it may come in now */
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

/* -- store_in.c ------------------------------------------------------------ */

/* Begins to read what it asks: 0, or libuv's error. */
int store_conn_start(struct store_conn *c);

/* Serves bytes that are in the server's shared buffer or the caller's. */
void store_conn_feed(struct store_conn *c, const uint8_t *data, size_t len);

/* -- store_out.c ----------------------------------------------------------- */

/* Whether a line about this source may be logged now; else it is counted. */
bool store_may_log(struct store_server *s, const char *source);

/* Logs how many lines were left out, if any were. */
void store_log_left_out(struct store_server *s);

/* The store's callback: kept until store_out_flush, but for large values,
 * of which the socket gets at once what it takes. */
store_send store_out_keep;

/* Begins to write what was kept, of all connections; whoever leaves too much
 * unread is closed. */
void store_out_flush(struct store_server *s);

/*
 * The end of a connection, without a word or with a line that says why. Nothing
 * if it is closed already. Safe from everywhere but the store's callback; `c`
 * stays valid until the loop goes on.
 */
void store_conn_close(struct store_conn *c);
void store_conn_refuse(struct store_conn *c, const char *why);

/* Brings the server's count of held bytes up to date with this one. */
void store_conn_weigh(struct store_conn *c);

/* One of the handles is closed; with the last one the server is freed. */
void store_let_go(struct store_server *s);

#endif
