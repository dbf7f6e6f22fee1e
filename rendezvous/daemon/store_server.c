/*
 * Connections live in one array made at the start; a connection's index is its
 * id in the store. All read into one shared buffer, and only what a request
 * lacks its end for is copied into the connection's own, so that an idle
 * connection owns nothing. Of a large value, the rest is read there.
 *
 * Replies are collected per connection while requests are served, and written
 * when all connections of this turn of the loop were read: one write each, and
 * the clients are woken together. Connections with something to write form the
 * `dirty` list until then. What is to be written moves from `out` to `flying`
 * and stays there until it is. A large value goes to the socket from where it
 * is stored.
 *
 * Sockets are daemon/store_io's business. A connection is closed in one place,
 * conn_end; its slot is free again when that lets go of it.
 */
#include "rendezvous/daemon/store_server.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/store.h"
#include "rendezvous/daemon/store_io.h"
#include "rendezvous/proto/c10d.h"

#define SERVER_MAGIC 0x53746f72u
#define CONN_MAGIC   0x436f6e6eu
#define UNSENT_MAX   ((size_t)1 << 20)  /* bytes of replies before a flush */
#define DIRTY_MAX    64u                /* connections before a flush */
#define LARGE        ((size_t)16 << 10) /* worth not to be copied */
#define CONNS_LIMIT  65536u
#define FDS_SPARED   64u /* for the listener, libuv and the process itself */
#define GATE_LINES   10u
#define GATE_MS      10000u
#define PEER_MAX     128

enum conn_state {
    CONN_FREE,
    CONN_OPEN,
    CONN_CLOSING, /* until its socket is closed */
};

struct conn {
    uint32_t magic;
    enum conn_state state;
    struct store_server *server;
    struct store_stream stream;
    struct c10d_decoder decoder;
    struct buf in;     /* a request that is not whole */
    struct buf out;    /* replies to be written */
    struct buf flying; /* replies being written; empty: none */
    size_t held;       /* bytes of the three, as counted in the server */
    bool overfull;     /* replies were dropped: to be closed */
    bool dirty;
    struct conn *next; /* of the dirty ones, or of the free ones */
};

/* So many lines in so long a time, the rest is counted. */
struct gate {
    uint64_t start_ms;
    unsigned lines;
    unsigned dropped;
};

struct store_server {
    uint32_t magic;
    struct store_io io;
    struct store_server_limits limits;
    struct store *store;
    struct conn *conns;
    uint32_t touched;   /* slots used at least once: the array's first ones */
    struct conn *spare; /* free slots among these */
    struct conn *dirty;
    size_t held;
    size_t unsent; /* bytes of the dirty ones' replies */
    unsigned dirty_count;
    unsigned open; /* connections, and the way itself */
    bool closing;
    struct gate gate;
};

static struct store_server *server_of(void *ctx)
{
    struct store_server *s = ctx;
    ddp_assert(s->magic == SERVER_MAGIC);
    return s;
}

static struct conn *conn_of(struct store_stream *st)
{
    struct conn *c =
        (struct conn *)(void *)((char *)st - offsetof(struct conn, stream));
    ddp_assert(c->magic == CONN_MAGIC && c->state != CONN_FREE);
    return c;
}

/* -- the log --------------------------------------------------------------- */

/* Whether a line may be written now. */
static bool gate_pass(struct store_server *s)
{
    uv_update_time(s->io.loop);
    uint64_t now_ms = uv_now(s->io.loop);
    struct gate *g = &s->gate;
    if (g->lines > 0 && now_ms - g->start_ms >= GATE_MS) {
        if (g->dropped > 0)
            log_warnx("store: more lines like the last were left out count=%u",
                      g->dropped);
        *g = (struct gate){0};
    }
    if (g->lines == 0)
        g->start_ms = now_ms;
    if (g->lines >= GATE_LINES) {
        g->dropped++;
        return false;
    }
    g->lines++;
    return true;
}

static void peer_name(const struct conn *c, char *name, size_t max)
{
    struct sockaddr_storage sa;
    char host[PEER_MAX / 2], port[8];
    if (c->server->io.way->peer(&c->stream, &sa) == 0 &&
        getnameinfo((struct sockaddr *)&sa, sizeof(sa), host, sizeof(host),
                    port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        (void)snprintf(name, max, "[%s]:%s", host, port);
    else
        (void)snprintf(name, max, "unknown");
}

/* -- the end of a connection ----------------------------------------------- */

static void server_free(struct store_server *s)
{
    store_del(s->store);
    free(s->conns);
    s->magic = 0;
    free(s);
}

static void let_go(struct store_server *s)
{
    ddp_assert(s->open > 0);
    if (--s->open == 0)
        server_free(s);
}

/* Brings the server's count of held bytes up to date with this one. What is
 * about to be closed counts no more: its memory goes with the next callback. */
static void weigh(struct conn *c)
{
    size_t now = 0;
    if (c->state == CONN_OPEN)
        now = buf_len(&c->in) + buf_len(&c->out) + buf_len(&c->flying);
    c->server->held = c->server->held - c->held + now;
    c->held = now;
}

static void on_closed(struct store_stream *st)
{
    struct conn *c = conn_of(st);
    struct store_server *s = c->server;
    buf_free(&c->flying);
    weigh(c);
    c->state = CONN_FREE;
    c->next = s->spare;
    s->spare = c;
    let_go(s);
}

/* Safe from everywhere but the store's callback; `c` stays valid until the
 * loop goes on. By a reset, the kernel keeps nothing for the peer either. */
static void conn_end(struct conn *c, bool reset)
{
    if (c->state != CONN_OPEN)
        return;
    c->state = CONN_CLOSING;
    store_gone(c->server->store, (uint32_t)(c - c->server->conns));
    buf_free(&c->in);
    buf_free(&c->out);
    weigh(c);
    c->server->io.way->shut(&c->stream, reset);
}

static void conn_close(struct conn *c)
{
    conn_end(c, false);
}

/* For a reason that somebody may want to know. */
static void conn_log(const struct conn *c, const char *why)
{
    char peer[PEER_MAX];
    peer_name(c, peer, sizeof(peer));
    if (gate_pass(c->server))
        log_warnx("store: connection is closed: %s peer=%s", why, peer);
}

static void conn_refuse(struct conn *c, const char *why)
{
    if (c->state != CONN_OPEN)
        return;
    conn_log(c, why);
    conn_end(c, false);
}

/* Who leaves too much unread or unfinished. */
static void conn_reset(struct conn *c, const char *why)
{
    if (c->state != CONN_OPEN)
        return;
    conn_log(c, why);
    conn_end(c, true);
}

static struct conn *heaviest(struct store_server *s)
{
    struct conn *most = NULL;
    for (uint32_t i = 0; i < s->touched; i++) {
        struct conn *c = &s->conns[i];
        if (c->state == CONN_OPEN && c->held > 0 &&
            (most == NULL || c->held > most->held))
            most = c;
    }
    return most;
}

/* Whoever holds most pays when all together hold too much. */
static void shed(struct store_server *s)
{
    struct conn *c;
    while (s->held > s->limits.held_bytes && (c = heaviest(s)) != NULL) {
        char why[160];
        (void)snprintf(why, sizeof(why),
                       "it holds %zu of %zu bytes of unfinished requests and "
                       "unread replies, more than there is room for",
                       c->held, s->held);
        conn_reset(c, why);
    }
}

/* -- replies --------------------------------------------------------------- */

static uv_buf_t unread(const struct buf *b)
{
    return (uv_buf_t){.base = (char *)b->data + b->start, .len = buf_len(b)};
}

/* What the socket takes at once, behind the replies that wait; how much of
 * `data` it was. An error will come again when the rest is written. */
static size_t write_through(struct conn *c, const void *data, size_t len)
{
    size_t before = buf_len(&c->out);
    uv_buf_t b[2] = {
        unread(&c->out),
        {.base = (char *)(uintptr_t)data, .len = len}, /* is only read */
    };
    unsigned skip = before == 0;
    size_t taken = c->server->io.way->try_write(&c->stream, b + skip, 2 - skip);
    buf_take(&c->out, taken < before ? taken : before);
    return taken > before ? taken - before : 0;
}

/* The store's callback. */
static void send_reply(void *ctx, uint32_t id, const void *bytes, size_t len)
{
    const uint8_t *data = bytes;
    struct store_server *s = ctx;
    struct conn *c = &s->conns[id];
    ddp_assert(s->magic == SERVER_MAGIC && id < s->touched);
    ddp_assert(c->state == CONN_OPEN);
    if (c->overfull)
        return;
    if (len >= LARGE && buf_len(&c->flying) == 0) {
        size_t taken = write_through(c, data, len);
        data += taken;
        len -= taken;
    }
    size_t waiting = buf_len(&c->out) + buf_len(&c->flying);
    if (len > s->limits.reply_bytes - waiting ||
        buf_put(&c->out, data, len) != 0)
        c->overfull = true;
    s->unsent += len;
    if (!c->dirty) {
        c->dirty = true;
        c->next = s->dirty;
        s->dirty = c;
        s->dirty_count++;
    }
}

/* One block of memory serves a connection whose replies are read. */
static void swap_bufs(struct conn *c)
{
    struct buf b = c->flying;
    c->flying = c->out;
    c->out = b;
}

/* What waits, unless something is being written. */
static void flush(struct conn *c)
{
    if (c->state != CONN_OPEN || buf_len(&c->flying) > 0 ||
        buf_len(&c->out) == 0)
        return;
    swap_bufs(c);
    int64_t n = c->server->io.way->write(&c->stream, buf_head(&c->flying),
                                         buf_len(&c->flying));
    if (n < 0) {
        conn_close(c); /* the peer is gone */
        return;
    }
    buf_take(&c->flying, (size_t)n);
    if (buf_len(&c->flying) == 0)
        swap_bufs(c);
}

static void on_written(struct store_stream *st, bool whole)
{
    struct conn *c = conn_of(st);
    buf_take(&c->flying, buf_len(&c->flying));
    if (buf_len(&c->out) == 0)
        swap_bufs(c);
    if (whole)
        flush(c);
    else
        conn_close(c); /* the peer is gone, or the connection is closing */
    weigh(c);
}

static void flush_dirty(struct store_server *s)
{
    while (s->dirty != NULL) {
        struct conn *c = s->dirty;
        s->dirty = c->next;
        c->dirty = false;
        if (c->overfull)
            conn_reset(c, "more replies wait than it may leave unread");
        else
            flush(c);
        weigh(c);
    }
    s->unsent = 0;
    s->dirty_count = 0;
    shed(s);
}

/* -- requests -------------------------------------------------------------- */

/* Serves all requests that are whole; returns the bytes used. The connection
 * may be closed afterwards. */
static size_t serve(struct conn *c, const uint8_t *data, size_t len)
{
    struct c10d_request req;
    struct ddp_err err;
    size_t done = 0, used = 0;
    uint32_t id = (uint32_t)(c - c->server->conns);
    while (!c->overfull) {
        enum c10d_status st = c10d_decode(&c->decoder, data + done, len - done,
                                          &req, &used, &err);
        if (st == C10D_MORE)
            break;
        if (st == C10D_BAD || store_step(c->server->store, id,
                                         c->decoder.family, &req, &err) != 0) {
            conn_refuse(c, err.text);
            break;
        }
        done += used;
    }
    return done;
}

/* Serves what is whole of the connection's own bytes. */
static void serve_own(struct conn *c)
{
    size_t done = serve(c, buf_head(&c->in), buf_len(&c->in));
    if (c->state != CONN_OPEN)
        return;
    buf_take(&c->in, done);
    if (buf_len(&c->in) == 0)
        buf_free(&c->in);
    weigh(c);
}

/* Bytes in the shared buffer, or in the connection's own where they were read
 * into that. */
static void feed(struct conn *c, const uint8_t *data, size_t len)
{
    if (c->in.data != NULL && data == c->in.data + c->in.end) {
        buf_commit(&c->in, len);
        serve_own(c);
        return;
    }
    size_t done = buf_len(&c->in) == 0 ? serve(c, data, len) : 0;
    if (c->state != CONN_OPEN)
        return;
    if (done == len && buf_len(&c->in) == 0)
        return; /* nothing of it is kept */
    bool had = buf_len(&c->in) > 0;
    if (buf_put(&c->in, data + done, len - done) != 0)
        conn_refuse(c, "no memory for its request");
    else if (had)
        serve_own(c);
    else
        weigh(c);
}

/*
 * A large value is read where it is wanted, and nothing behind it; never with
 * more room than as much again as its sender has sent already.
 */
static void *on_wanted(struct store_stream *st, size_t *len)
{
    struct conn *c = conn_of(st);
    size_t have = buf_len(&c->in);
    size_t want = c->decoder.need > have ? c->decoder.need - have : 0;
    if (have < LARGE || want < LARGE)
        return NULL;
    want = want < have ? want : have;
    *len = want;
    return buf_reserve(&c->in, want); /* NULL: feed says it */
}

static void on_bytes(struct store_stream *st, const uint8_t *data, size_t len)
{
    struct conn *c = conn_of(st);
    struct store_server *s = c->server;
    feed(c, data, len);
    if (s->unsent > UNSENT_MAX || s->dirty_count >= DIRTY_MAX)
        flush_dirty(s);
}

static void on_ended(struct store_stream *st)
{
    conn_close(conn_of(st)); /* its end, or a reset: nobody to tell */
}

static void on_turn(void *ctx)
{
    flush_dirty(server_of(ctx));
}

/* -- new connections ------------------------------------------------------- */

static struct conn *take_slot(struct store_server *s)
{
    struct conn *c = s->spare;
    if (c != NULL)
        s->spare = c->next;
    else if (s->touched < s->limits.conn_max)
        c = &s->conns[s->touched++];
    else if (gate_pass(s))
        log_warnx("store: a connection is turned away: no descriptors for "
                  "more than %u",
                  (unsigned)s->limits.conn_max);
    if (c == NULL)
        return NULL;
    *c = (struct conn){.magic = CONN_MAGIC, .state = CONN_OPEN, .server = s};
    buf_init(&c->in, C10D_REQUEST_MAX + STORE_IO_READ_MAX);
    buf_init(&c->out, s->limits.reply_bytes);
    buf_init(&c->flying, s->limits.reply_bytes);
    c->stream.io = &s->io;
    s->open++;
    return c;
}

static struct store_stream *on_room(void *ctx)
{
    struct conn *c = take_slot(server_of(ctx));
    return c == NULL ? NULL : &c->stream;
}

static void on_refused(void *ctx, const char *why)
{
    if (gate_pass(server_of(ctx)))
        log_warnx("store: a connection cannot be accepted: %s", why);
}

/* Whether it may. */
static void on_came(struct store_stream *st)
{
    struct conn *c = conn_of(st);
    const struct store_server_limits *l = &c->server->limits;
    struct sockaddr_storage sa;
    if (l->admits != NULL && (c->server->io.way->peer(st, &sa) != 0 ||
                              !l->admits(l->ctx, (const struct sockaddr *)&sa)))
        conn_refuse(c, "it is none of those that may use this store");
}

/* A client may be slow to read, or stopped, for as long as it likes: another
 * process's time-out for peers that take nothing is not ours. */
static void retune(int fd)
{
    unsigned none = 0;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof(none));
}

void store_server_adopt(struct store_server *s,
                        int fd,
                        const void *data,
                        size_t len)
{
    struct conn *c = take_slot(s);
    if (c == NULL) {
        (void)close(fd);
        return;
    }
    retune(fd);
    if (s->io.way->adopt(&c->stream, fd) == 0)
        on_came(&c->stream);
    else
        conn_close(c);
    if (c->state == CONN_OPEN && len > 0)
        feed(c, data, len);
    flush_dirty(s);
}

/* -- life ------------------------------------------------------------------ */

struct store_server_limits store_server_limits_default(void)
{
    struct rlimit rl;
    uint32_t fds = 256;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0)
        fds = rl.rlim_cur > CONNS_LIMIT ? CONNS_LIMIT : (uint32_t)rl.rlim_cur;
    return (struct store_server_limits){
        .conn_max = fds > 2 * FDS_SPARED ? fds - FDS_SPARED : fds / 2 + 1,
        .store_bytes = (size_t)1 << 30,
        .reply_bytes = (size_t)64 << 20,
        .held_bytes = (size_t)512 << 20,
        .way = getenv("DDPRUN_STORE_IO"),
    };
}

void store_server_close(struct store_server *s)
{
    ddp_assert(s->magic == SERVER_MAGIC && !s->closing);
    s->closing = true;
    if (s->gate.dropped > 0)
        log_warnx("store: more lines like the last were left out count=%u",
                  s->gate.dropped);
    for (uint32_t i = 0; i < s->touched; i++)
        conn_close(&s->conns[i]);
    s->io.way->close(&s->io);
}

static void on_gone(void *ctx)
{
    let_go(server_of(ctx));
}

static const struct store_io_calls calls = {
    .room = on_room,
    .came = on_came,
    .refused = on_refused,
    .wanted = on_wanted,
    .bytes = on_bytes,
    .ended = on_ended,
    .written = on_written,
    .closed = on_closed,
    .turn = on_turn,
    .gone = on_gone,
};

/* io_uring where it is to be had, unless somebody wants libuv. */
static void choose_way(struct store_server *s)
{
    const char *wanted = s->limits.way != NULL ? s->limits.way : "";
    s->io.way = &store_io_uring;
    if (strcmp(wanted, store_io_uv.name) != 0 &&
        s->io.way->prepare(&s->io) == 0)
        return;
    if (strcmp(wanted, store_io_uring.name) == 0)
        log_warnx("store: no io_uring on this machine: libuv in its place");
    s->io.way = &store_io_uv;
    int rc = s->io.way->prepare(&s->io);
    ddp_assert(rc == 0);
}

static struct store_server *server_new(const struct store_server_limits *limits,
                                       struct ddp_err *err)
{
    struct store_server *s = calloc(1, sizeof(*s));
    struct conn *conns = calloc(limits->conn_max, sizeof(*conns));
    struct store_config cf = {
        .conn_max = limits->conn_max,
        .byte_max = limits->store_bytes,
        .hash_key = {rng_seed(), rng_seed()},
        .send = send_reply,
        .ctx = s,
    };
    struct store *store = store_new(&cf, err);
    if (s == NULL || conns == NULL || store == NULL) {
        free(s);
        free(conns);
        store_del(store);
        ddp_err_set(err, DDP_E_NOMEM, "no memory for the store's server");
        return NULL;
    }
    s->magic = SERVER_MAGIC;
    s->limits = *limits;
    s->store = store;
    s->conns = conns;
    return s;
}

int store_server_open_limited(struct store_server **out,
                              uv_loop_t *loop,
                              int listen_fd,
                              const struct store_server_limits *limits,
                              struct ddp_err *err)
{
    struct store_server *s = server_new(limits, err);
    if (s == NULL) {
        if (listen_fd >= 0)
            (void)close(listen_fd); /* ours to drop, nothing was said on it */
        return -1;
    }
    s->io.calls = &calls;
    s->io.ctx = s;
    s->io.loop = loop;
    s->open = 1;
    choose_way(s);
    if (s->io.way->open(&s->io, listen_fd, err) != 0) {
        store_server_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

int store_server_open(struct store_server **out,
                      uv_loop_t *loop,
                      int listen_fd,
                      struct ddp_err *err)
{
    struct store_server_limits limits = store_server_limits_default();
    return store_server_open_limited(out, loop, listen_fd, &limits, err);
}

uint16_t store_server_port(const struct store_server *s)
{
    struct sockaddr_storage sa = {0};
    if (s->io.way->name_of(&s->io, &sa) != 0)
        return 0;
    if (sa.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&sa)->sin6_port);
    return ntohs(((struct sockaddr_in *)&sa)->sin_port);
}

void store_server_run(struct store_server *s)
{
    s->io.way->run(&s->io);
}

const char *store_server_way(const struct store_server *s)
{
    return s->io.way->name;
}

/* Thousands of workers may connect; the default soft limit is 1024. */
static void raise_fd_limit(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) != 0 || rl.rlim_cur == rl.rlim_max)
        return;
    rl.rlim_cur = rl.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &rl) != 0)
        log_warn("store: the limit of descriptors cannot be raised");
}

void store_server_main(int listen_fd)
{
    struct store_server *s = NULL;
    struct ddp_err err = {0};
    uv_loop_t loop;
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this signal */
    raise_fd_limit();
    int rc = uv_loop_init(&loop);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "store: no event loop: %s",
               uv_strerror(rc));
    if (store_server_open(&s, &loop, listen_fd, &err) != 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    store_server_run(s); /* the listener keeps it running */
    fatalx(ddp_code_exit(DDP_E_BUG), "store: the event loop has ended");
}
