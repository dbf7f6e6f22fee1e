/*
 * Connections live in one array made at the start; a connection's index is its
 * id in the store. All read into one shared buffer, and only what a request
 * lacks its end for is copied into the connection's own, so that an idle
 * connection owns nothing. Of a large value, the rest is read there.
 *
 * Replies are collected per connection while requests are served, and written
 * when all connections of this turn of the loop were read: one write each, and
 * the clients are woken together. Connections with something to write form the
 * `dirty` list until then. What the socket does not take at once moves from
 * `out` to `flying` and stays there until libuv is done with it. A large value
 * goes to the socket from where it is stored.
 *
 * A connection is closed in one place, conn_close; its slot is free again when
 * libuv lets go of the handle.
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
#include "rendezvous/proto/c10d.h"

#define SERVER_MAGIC 0x53746f72u
#define CONN_MAGIC   0x436f6e6eu
#define READ_MAX     ((size_t)128 << 10) /* a SET of 64 KiB in one piece */
#define UNSENT_MAX   ((size_t)1 << 20)   /* bytes of replies before a flush */
#define DIRTY_MAX    64u                 /* connections before a flush */
#define LARGE        ((size_t)16 << 10)  /* worth not to be copied */
#define BACKLOG      4096
#define CONNS_LIMIT  65536u
#define FDS_SPARED   64u /* for the listener, libuv and the process itself */
#define GATE_LINES   10u
#define GATE_MS      10000u
#define PEER_MAX     128

enum conn_state {
    CONN_FREE,
    CONN_OPEN,
    CONN_CLOSING, /* until libuv's close callback */
};

struct conn {
    uint32_t magic;
    enum conn_state state;
    struct store_server *server;
    uv_tcp_t tcp;
    uv_write_t write_req;
    struct c10d_decoder decoder;
    struct buf in;     /* a request that is not whole */
    struct buf out;    /* replies to be written */
    struct buf flying; /* replies that libuv writes; empty: none */
    size_t held;       /* bytes of the three, as counted in the server */
    bool reads_own;    /* the next bytes go to `in` itself */
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
    uv_tcp_t listener; /* opened only where there is one to listen on */
    uv_check_t after;  /* all reads of a turn of the loop: then it is written */
    struct store_server_limits limits;
    struct store *store;
    struct conn *conns;
    uint32_t touched;   /* slots used at least once: the array's first ones */
    struct conn *spare; /* free slots among these */
    struct conn *dirty;
    size_t held;
    size_t unsent; /* bytes of the dirty ones' replies */
    unsigned dirty_count;
    unsigned
        handles; /* libuv still knows: the listener, `after`, connections */
    bool closing;
    bool paused; /* a connection waits in libuv for memory */
    struct gate gate;
    char scratch[READ_MAX];
};

static struct store_server *server_of(const uv_handle_t *h)
{
    struct store_server *s = h->data;
    ddp_assert(s->magic == SERVER_MAGIC);
    return s;
}

static struct conn *conn_of(const uv_handle_t *h)
{
    struct conn *c = h->data;
    ddp_assert(c->magic == CONN_MAGIC && c->state != CONN_FREE);
    return c;
}

/* -- the log --------------------------------------------------------------- */

/* Whether a line may be written now. */
static bool gate_pass(struct store_server *s)
{
    uint64_t now_ms = uv_now(s->listener.loop);
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
    int len = (int)sizeof(sa);
    char host[PEER_MAX / 2], port[8];
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&sa, &len) == 0 &&
        getnameinfo((struct sockaddr *)&sa, (socklen_t)len, host, sizeof(host),
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
    ddp_assert(s->handles > 0);
    if (--s->handles == 0)
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

static void accept_next(struct store_server *s);

static void on_conn_closed(uv_handle_t *h)
{
    struct conn *c = conn_of(h);
    struct store_server *s = c->server;
    buf_free(&c->flying);
    weigh(c);
    c->state = CONN_FREE;
    c->next = s->spare;
    s->spare = c;
    if (s->paused && !s->closing)
        accept_next(s);
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
    if (!reset || uv_tcp_close_reset(&c->tcp, on_conn_closed) != 0)
        uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
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
    int n = uv_try_write((uv_stream_t *)&c->tcp, b + skip, 2 - skip);
    size_t taken = n < 0 ? 0 : (size_t)n;
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

static void on_written(uv_write_t *req, int status);

/* Hands what the socket does not take at once over to libuv. */
static void flush(struct conn *c)
{
    if (c->state != CONN_OPEN || buf_len(&c->flying) > 0)
        return;
    if (buf_len(&c->out) == 0)
        return;
    uv_stream_t *stream = (uv_stream_t *)&c->tcp;
    uv_buf_t b = unread(&c->out);
    int n = uv_try_write(stream, &b, 1);
    if (n < 0 && n != UV_EAGAIN) {
        conn_close(c); /* the peer is gone */
        return;
    }
    buf_take(&c->out, n < 0 ? 0 : (size_t)n);
    if (buf_len(&c->out) == 0)
        return;
    struct buf empty = c->flying;
    c->flying = c->out;
    c->out = empty;
    b = unread(&c->flying);
    if (uv_write(&c->write_req, stream, &b, 1, on_written) != 0)
        conn_close(c);
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = conn_of((uv_handle_t *)req->handle);
    buf_free(&c->flying);
    if (status == 0)
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
    if (c->reads_own) {
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
static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
    (void)hint;
    struct conn *c = conn_of(h);
    struct store_server *s = c->server;
    size_t have = buf_len(&c->in);
    size_t want = c->decoder.need > have ? c->decoder.need - have : 0;
    *b = uv_buf_init(s->scratch, sizeof(s->scratch));
    c->reads_own = false;
    if (have < LARGE || want < LARGE)
        return;
    want = want < have ? want : have;
    uint8_t *room = buf_reserve(&c->in, want);
    if (room == NULL)
        return; /* feed says it */
    c->reads_own = true;
    *b = uv_buf_init((char *)room, (unsigned)want);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct conn *c = conn_of((uv_handle_t *)stream);
    if (n < 0)
        conn_close(c); /* its end, or a reset: nobody to tell */
    else if (n > 0)
        feed(c, (const uint8_t *)b->base, (size_t)n);
    struct store_server *s = c->server;
    if (s->unsent > UNSENT_MAX || s->dirty_count >= DIRTY_MAX)
        flush_dirty(s);
}

static void on_all_read(uv_check_t *h)
{
    flush_dirty(server_of((uv_handle_t *)h));
}

/* -- new connections ------------------------------------------------------- */

static struct conn *take_slot(struct store_server *s)
{
    struct conn *c = s->spare;
    if (c != NULL)
        s->spare = c->next;
    else if (s->touched < s->limits.conn_max)
        c = &s->conns[s->touched++];
    else
        return NULL;
    *c = (struct conn){.magic = CONN_MAGIC, .state = CONN_OPEN, .server = s};
    buf_init(&c->in, C10D_REQUEST_MAX + READ_MAX);
    buf_init(&c->out, s->limits.reply_bytes);
    buf_init(&c->flying, s->limits.reply_bytes);
    return c;
}

static void on_turned_away(uv_handle_t *h)
{
    free(h);
}

/* libuv listens again only when what waits was accepted, so it is accepted
 * even if only to be closed. */
static void turn_away(struct store_server *s)
{
    uv_tcp_t *tcp = calloc(1, sizeof(*tcp));
    s->paused = tcp == NULL || uv_tcp_init(s->listener.loop, tcp) != 0;
    if (s->paused) {
        free(tcp);
        return;
    }
    if (gate_pass(s))
        log_warnx("store: a connection is turned away: no descriptors for "
                  "more than %u",
                  (unsigned)s->limits.conn_max);
    (void)uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)tcp);
    uv_close((uv_handle_t *)tcp, on_turned_away);
}

static void begin(struct conn *c)
{
    int rc = uv_tcp_init(c->server->listener.loop, &c->tcp);
    ddp_assert(rc == 0); /* without an address family it makes no socket */
    c->tcp.data = c;
    c->server->handles++;
}

static bool may_connect(struct conn *c)
{
    const struct store_server_limits *l = &c->server->limits;
    struct sockaddr_storage sa;
    int len = (int)sizeof(sa);
    return l->admits == NULL ||
           (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&sa, &len) == 0 &&
            l->admits(l->ctx, (const struct sockaddr *)&sa));
}

/* It has its socket, if rc is 0. */
static void welcome(struct conn *c, int rc)
{
    if (rc == 0 && !may_connect(c)) {
        conn_refuse(c, "it is none of those that may use this store");
        return;
    }
    if (rc == 0)
        rc = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    if (rc != 0) {
        conn_close(c);
        return;
    }
    (void)uv_tcp_nodelay(&c->tcp, 1); /* slower without it, not wrong */
}

static void accept_next(struct store_server *s)
{
    struct conn *c = take_slot(s);
    if (c == NULL) {
        turn_away(s);
        return;
    }
    s->paused = false;
    begin(c);
    int rc = uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)&c->tcp);
    welcome(c, rc);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct store_server *s = server_of((uv_handle_t *)listener);
    if (status == 0)
        accept_next(s);
    else if (gate_pass(s))
        log_warnx("store: a connection cannot be accepted: %s",
                  uv_strerror(status));
}

/* -- connections that another process accepted ----------------------------- */

/* A client may be slow to read, or stopped, for as long as it likes: the
 * other's time-out for peers that take nothing is not ours. */
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
        if (gate_pass(s))
            log_warnx("store: a connection is turned away: no descriptors for "
                      "more than %u",
                      (unsigned)s->limits.conn_max);
        return;
    }
    retune(fd);
    begin(c);
    int rc = uv_tcp_open(&c->tcp, fd);
    if (rc != 0)
        (void)close(fd); /* libuv did not take it */
    welcome(c, rc);
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
    };
}

static void on_own_closed(uv_handle_t *h)
{
    let_go(server_of(h));
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
    uv_close((uv_handle_t *)&s->listener, on_own_closed);
    uv_close((uv_handle_t *)&s->after, on_own_closed);
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

/* Owns `fd`. */
static int open_listener(struct store_server *s, int fd, struct ddp_err *err)
{
    int rc = uv_tcp_open(&s->listener, fd);
    if (rc != 0)
        (void)close(fd); /* libuv did not take it */
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
    if (rc == 0)
        return 0;
    return ddp_err_set(err, DDP_E_IO,
                       "the store cannot listen on descriptor %d: %s", fd,
                       uv_strerror(rc));
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
    int rc = uv_tcp_init(loop, &s->listener);
    ddp_assert(rc == 0); /* without an address family it makes no socket */
    s->listener.data = s;
    s->handles = 2;
    rc = uv_check_init(loop, &s->after);
    ddp_assert(rc == 0); /* both always succeed: uv_check(3) */
    s->after.data = s;
    rc = uv_check_start(&s->after, on_all_read);
    ddp_assert(rc == 0);
    if (listen_fd >= 0 && open_listener(s, listen_fd, err) != 0) {
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
    int len = (int)sizeof(sa);
    if (uv_tcp_getsockname(&s->listener, (struct sockaddr *)&sa, &len) != 0)
        return 0;
    if (sa.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&sa)->sin6_port);
    return ntohs(((struct sockaddr_in *)&sa)->sin_port);
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
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* the listener keeps it running */
    fatalx(ddp_code_exit(DDP_E_BUG), "store: the event loop has ended");
}
