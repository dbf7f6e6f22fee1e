/*
 * Connections live in one array made at the start; a connection's index is its
 * id in the store. All read into one shared buffer. Only the beginning of an
 * incomplete request is copied into the connection's own buffer, so that an
 * idle connection owns nothing. The rest of a large value is read there
 * directly.
 *
 * Happy path: accept, read, decode, one step of the store, and its replies are
 * collected (replies.c) and sent at the end of the loop's turn.
 *
 * Replies are collected per connection while requests are served, and sent
 * when all connections of this turn of the loop were read: one send each, and
 * the clients are woken together. Connections with something to send form the
 * `dirty` list until then. What a socket does not take at once moves from `out`
 * to `writing` and stays there until libuv is done with it. A large value goes
 * to the socket from where it is stored.
 *
 * Failure modes: bytes that are no c10d, a request beyond the store's limits, a
 * peer that may not connect, replies that are not read, too many bytes held by
 * all connections together: each closes the one connection, with a line in the
 * log. No slot is left: the connection is accepted and closed. No memory even
 * for that: it waits in libuv until a slot is free (`paused`). A connection is
 * closed in one place, conn_end (replies.c); its slot is free again when libuv
 * lets go of the handle.
 */
#include "rendezvous/store/server.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/store/store_priv.h"

#define BACKLOG       4096
#define CONNS_LIMIT   65536u
#define FDS_SPARED    64u /* for the listener, libuv and the process itself */
#define LINES_AT_ONCE 10  /* of the log, about each source ... */
#define LINES_PER_SEC 1

/* -- new connections ------------------------------------------------------- */

static struct store_conn *take_slot(struct store_server *s)
{
    struct store_conn *c = s->spare;
    if (c != NULL)
        s->spare = c->next;
    else if (s->touched < s->limits.conn_max)
        c = &s->conns[s->touched++];
    else
        return NULL;
    ddp_assert(c->state == STORE_CONN_FREE && c->held == 0);
    *c = (struct store_conn){
        .magic = STORE_CONN_MAGIC, .state = STORE_CONN_OPEN, .server = s};
    buf_init(&c->in, C10D_REQUEST_MAX + STORE_READ_MAX);
    buf_init(&c->out, s->limits.reply_bytes);
    buf_init(&c->writing, s->limits.reply_bytes);
    return c;
}

static void on_turned_away(uv_handle_t *h)
{
    free(h);
}

static void log_full(struct store_server *s)
{
    if (store_may_log(s))
        log_warnx("store: a connection is closed: all %u that are allowed are "
                  "in use (ulimit -n)",
                  (unsigned)s->limits.conn_max);
}

/* libuv reports the next connection only after this one was accepted: so it is
 * accepted, and closed. */
static void turn_away(struct store_server *s)
{
    uv_tcp_t *tcp = calloc(1, sizeof(*tcp));
    s->paused = tcp == NULL || uv_tcp_init(s->listener.loop, tcp) != 0;
    if (s->paused) {
        free(tcp);
        return;
    }
    log_full(s);
    (void)uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)tcp);
    uv_close((uv_handle_t *)tcp, on_turned_away);
}

/* Gives it a handle, which libuv knows until on_conn_closed. */
static void begin(struct store_conn *c)
{
    int rc = uv_tcp_init(c->server->listener.loop, &c->tcp);
    ddp_assert(rc == 0); /* without an address family it makes no socket */
    c->tcp.data = c;
    c->server->handles++;
}

static bool may_connect(struct store_conn *c)
{
    const struct store_server_limits *l = &c->server->limits;
    struct sockaddr_storage sa;
    int len = (int)sizeof(sa);
    return l->admits == NULL ||
           (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&sa, &len) == 0 &&
            l->admits(l->ctx, (const struct sockaddr *)&sa));
}

/* Reads from it, if its socket could be had (rc is 0) and its peer may connect.
 */
static void welcome(struct store_conn *c, int rc)
{
    if (rc == 0 && !may_connect(c)) {
        store_conn_refuse(c, "its address may not use this store");
        return;
    }
    if (rc == 0)
        rc = store_conn_start(c);
    if (rc != 0) {
        store_conn_close(c);
        return;
    }
    (void)uv_tcp_nodelay(&c->tcp, 1); /* without it: slower, not wrong */
}

static void accept_next(struct store_server *s)
{
    struct store_conn *c = take_slot(s);
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
    struct store_server *s = store_server_of((uv_handle_t *)listener);
    if (status == 0)
        accept_next(s);
    else if (store_may_log(s))
        log_warnx("store: cannot accept a connection: %s", uv_strerror(status));
}

/* -- connections that another process accepted ----------------------------- */

void store_server_adopt(struct store_server *s,
                        int fd,
                        const void *data,
                        size_t len)
{
    struct store_conn *c = take_slot(s);
    if (c == NULL) {
        (void)close(fd);
        log_full(s);
        return;
    }
    /* A client may be slow or stopped for any time: the time-out that the other
     * process has set for peers that read nothing does not hold here. */
    unsigned none = 0;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof(none));
    begin(c);
    int rc = uv_tcp_open(&c->tcp, fd);
    if (rc != 0)
        (void)close(fd); /* libuv did not take it */
    welcome(c, rc);
    if (c->state == STORE_CONN_OPEN && len > 0) /* else welcome closed it */
        store_conn_feed(c, data, len);
    store_out_flush(s);
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

static void on_all_read(uv_check_t *h)
{
    store_out_flush(store_server_of((uv_handle_t *)h));
}

static void on_own_closed(uv_handle_t *h)
{
    store_let_go(store_server_of(h));
}

void store_server_close(struct store_server *s)
{
    ddp_assert(s->magic == STORE_SERVER_MAGIC && !s->closing);
    s->closing = true;
    store_log_left_out(s);
    for (uint32_t i = 0; i < s->touched; i++)
        store_conn_close(&s->conns[i]);
    uv_close((uv_handle_t *)&s->listener, on_own_closed);
    uv_close((uv_handle_t *)&s->after, on_own_closed);
    uv_close((uv_handle_t *)&s->left_out, on_own_closed);
}

static struct store_server *server_new(const struct store_server_limits *limits,
                                       struct ddp_err *err)
{
    struct store_server *s = calloc(1, sizeof(*s));
    struct store_conn *conns = calloc(limits->conn_max, sizeof(*conns));
    struct store_config cf = {
        .conn_max = limits->conn_max,
        .byte_max = limits->store_bytes,
        .hash_key = {rng_seed(), rng_seed()},
        .send = store_out_keep,
        .ctx = s,
    };
    struct store *store = store_new(&cf, err);
    if (s == NULL || conns == NULL || store == NULL) {
        free(s);
        free(conns);
        store_del(store);
        ddp_err_set(err, DDP_E_NOMEM, "no memory for the store");
        return NULL;
    }
    s->magic = STORE_SERVER_MAGIC;
    log_limit_init(&s->log_limit, LINES_AT_ONCE, LINES_PER_SEC);
    s->has_place = accept_next;
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

int store_server_open(struct store_server **out,
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
    s->handles = 3;
    (void)uv_timer_init(loop, &s->left_out); /* these three cannot fail */
    (void)uv_check_init(loop, &s->after);
    (void)uv_check_start(&s->after, on_all_read);
    s->after.data = s->left_out.data = s;
    if (listen_fd >= 0 && open_listener(s, listen_fd, err) != 0) {
        store_server_close(s);
        return -1;
    }
    *out = s;
    return 0;
}
