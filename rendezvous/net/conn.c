/*
 * How a connection is made, what may be set and asked, and how it is given
 * away. conn_in reads, conn_out writes and ends it.
 *
 * Happy path: it is accepted, or dialled and connected; the two ends exchange
 * hellos, then frames; one end finishes it.
 *
 * Failure modes: nobody listens at the address that is dialled; the host does
 * not answer (TCP_USER_TIMEOUT and keepalive end it,
 * after 20 s and 25 s); all others are in conn_in and conn_out. A peer that
 * says nothing costs no TLS state and no buffer.
 */
#include "rendezvous/net/conn.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/net/conn_priv.h"
#include "rendezvous/proto/frame.h"

#define USER_TIMEOUT_MS 20000

static struct conn_counts uncounted; /* of connections that nobody counts */

static struct conn *conn_make(uv_loop_t *loop,
                              bool accepted,
                              const struct conn_handler *handler,
                              void *ctx)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->magic = CONN_MAGIC;
    c->accepted = accepted;
    c->life = accepted ? CONN_OPEN : CONN_CONNECTING;
    c->counts = &uncounted;
    c->frame_max = FRAME_MAX;
    c->handler = handler;
    c->ctx = ctx;
    buf_init(&c->in, FRAME_MAX + 8192);
    buf_init(&c->waiting, CONN_QUEUE_MAX + CONN_QUEUE_MAX / 64); /* TLS's own */
    buf_init(&c->flying, c->waiting.max);
    buf_init(&c->plain, CONN_QUEUE_MAX);
    if (uv_tcp_init(loop, &c->tcp) != 0) {
        free(c);
        return NULL;
    }
    (void)uv_timer_init(loop, &c->finish_timer); /* cannot fail */
    c->open_handles = 2;
    c->tcp.data = c->finish_timer.data = c;
    c->connect.data = c->write.data = c->shutdown.data = c;
    return c;
}

int conn_fd(const struct conn *c)
{
    uv_os_fd_t fd;
    return uv_fileno((const uv_handle_t *)&c->tcp, &fd) == 0 ? fd : -1;
}

/* A cut link is silent: only keepalive (idle) and the user time-out (data is
 * unacknowledged) end a connection over one. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 15},
        {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_KEEPCNT, 10},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name,
                         &options[i].value, sizeof(options[i].value));
}

void conn_tune_listener(int fd)
{
    tune(fd);
}

/* By its listener. One that was complete before that was tuned, as when systemd
 * or a launcher listens until the server has started, inherits nothing. */
static bool is_tuned(int fd)
{
    int ms = 0;
    socklen_t len = sizeof(ms);
    return getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &len) == 0 &&
           ms == USER_TIMEOUT_MS;
}

struct conn *conn_accept(uv_loop_t *loop,
                         int fd,
                         const struct conn_handler *handler,
                         void *ctx,
                         struct ddp_err *err)
{
    struct conn *c = conn_make(loop, true, handler, ctx);
    if (c == NULL) {
        (void)close(fd);
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a connection");
        return NULL;
    }
    if (!is_tuned(fd))
        tune(fd);
    int rc = uv_tcp_open(&c->tcp, fd);
    if (rc != 0)
        (void)close(fd); /* it is not the handle's */
    else
        rc = conn_start_reading(c);
    if (rc != 0) {
        ddp_err_set(err, DDP_E_IO, "cannot accept a connection: %s",
                    uv_strerror(rc));
        conn_close(c);
        return NULL;
    }
    struct sockaddr_storage ss;
    int len = sizeof(ss);
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&ss, &len) == 0)
        addr_text((const struct sockaddr *)&ss, c->peer);
    return c;
}

static void on_connected(uv_connect_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    if (c->life != CONN_CONNECTING)
        return; /* it was closed meanwhile */
    int rc = status;
    if (rc == 0) {
        c->life = CONN_OPEN;
        tune(conn_fd(c));
        rc = conn_start_reading(c);
    }
    if (rc != 0) {
        /* It may be any number, if getsockopt(2) fails in libuv; uv_strerror
         * leaks its words for those that it does not know. */
        char why[64];
        conn_lose(c, uv_strerror_r(rc, why, sizeof(why)));
        return;
    }
    conn_begin(c);
}

struct conn *conn_dial(uv_loop_t *loop,
                       const struct sockaddr *to,
                       const struct conn_handler *handler,
                       void *ctx,
                       struct ddp_err *err)
{
    struct conn *c = conn_make(loop, false, handler, ctx);
    if (c == NULL) {
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a connection");
        return NULL;
    }
    int rc = uv_tcp_connect(&c->connect, &c->tcp, to, on_connected);
    if (rc != 0) {
        ddp_err_set(err, DDP_E_UNREACHABLE, "cannot connect: %s",
                    uv_strerror(rc));
        conn_close(c);
        return NULL;
    }
    return c;
}

void conn_secure(struct conn *c, struct tls_key *key)
{
    ddp_assert(c->tls == NULL && c->talk == CONN_HELLO);
    ddp_assert(buf_len(&c->in) == 0 && buf_len(&c->waiting) == 0);
    c->key = key;
    c->tls_at = key != NULL ? CONN_TLS_DUE : CONN_NO_KEY;
}

bool conn_is_sealed(const struct conn *c)
{
    return c->tls != NULL;
}

bool conn_is_proved(const struct conn *c)
{
    return c->tls != NULL && tls_is_proved(c->tls);
}

void conn_raw(struct conn *c, const struct conn_handler *h, void *ctx)
{
    ddp_assert(h->on_bytes != NULL && c->talk != CONN_FRAMES);
    ddp_assert(conn_is_in_use(c));
    c->talk = CONN_RAW;
    c->corked = false;
    c->handler = h;
    c->ctx = ctx;
}

bool conn_may_yield(const struct conn *c)
{
    return c->accepted && c->tls == NULL && c->talk == CONN_HELLO &&
           conn_is_in_use(c);
}

/* libuv takes the descriptor out of its epoll set before it closes it, so that
 * nothing of the duplicate is told here any more. */
int conn_yield(struct conn *c, struct buf *rest)
{
    ddp_assert(conn_may_yield(c));
    int fd = fcntl(conn_fd(c), F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return -1;
    *rest = c->in;
    buf_init(&c->in, rest->max);
    conn_close(c);
    return fd;
}

void conn_limit_frames(struct conn *c, size_t frame_max)
{
    ddp_assert(frame_max > 0 && frame_max <= FRAME_MAX);
    c->frame_max = frame_max;
}

void conn_count(struct conn *c, struct conn_counts *counts)
{
    c->counts = counts;
}

bool conn_token_differs(const struct conn *c)
{
    return c->token_differs;
}

bool conn_has_heard(const struct conn *c)
{
    return c->heard;
}

bool conn_was_finished(const struct conn *c)
{
    return c->finished;
}

void conn_set_ctx(struct conn *c, void *ctx)
{
    c->ctx = ctx;
}

void conn_peer(const struct conn *c, char text[ADDR_TEXT_MAX])
{
    memcpy(text, c->peer, sizeof(c->peer));
}

void conn_here(const struct conn *c, char text[ADDR_TEXT_MAX])
{
    struct sockaddr_storage ss;
    int len = sizeof(ss);
    text[0] = '\0';
    if (uv_tcp_getsockname(&c->tcp, (struct sockaddr *)&ss, &len) == 0)
        addr_text((const struct sockaddr *)&ss, text);
}
