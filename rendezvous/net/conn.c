/*
 * Happy path: dial or accept, hello, frames. Sending tries the socket first
 * (uv_try_write) and keeps what it did not take in `waiting`; one uv_write at
 * a time flies from `flying`, so that its bytes stay where they are. What a
 * server answers to the messages of one read goes out in one write. Buffers
 * are there only while something is in them: of ten thousand connections
 * nearly all are silent.
 *
 * With a key, `plain` is what is to be sealed and `waiting` what is sealed. A
 * stranger who says nothing costs no TLS state. What comes in is conn_in.c's.
 *
 * Ends: a FIN, an error, a peer's nonsense, a full queue (all told by
 * on_closed), or the owner's conn_close and conn_finish (told to nobody).
 * Memory goes in on_handle_closed, after libuv let go of the handle.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/net/conn_inside.h"
#include "rendezvous/proto/frame.h"

#define FINISH_MS       2000
#define USER_TIMEOUT_MS 20000

static void on_handle_closed(uv_handle_t *h)
{
    struct conn *c = conn_of(h->data);
    if (--c->open_handles > 0)
        return;
    buf_free(&c->in);
    buf_free(&c->waiting);
    buf_free(&c->flying);
    buf_free(&c->plain);
    tls_free(c->tls);
    c->magic = 0;
    free(c);
}

/*
 * Whoever dialled ends in order by conn_finish only; all else is a reset: an
 * orderly FIN would tell the server that nothing is left on this node. The
 * reset goes out when the guard, too, lets go of its duplicate.
 */
void conn_close(struct conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    bool reset = !c->accepted && !c->finishing;
    if (!reset || uv_tcp_close_reset(&c->tcp, on_handle_closed) != 0)
        uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&c->finish_timer, on_handle_closed);
}

void conn_lose(struct conn *c, bool orderly, bool refused, const char *why)
{
    if (c->closing)
        return;
    bool tell = !c->finishing || c->raw;
    conn_close(c);
    if (tell)
        c->handler->on_closed(c->ctx, c, orderly, refused, why);
}

static void overflow(struct conn *c);

void conn_seal(struct conn *c)
{
    if (c->tls == NULL || tls_state(c->tls) != TLS_UP)
        return;
    if (tls_seal(c->tls, buf_head(&c->plain), buf_len(&c->plain)) != 0)
        overflow(c);
    buf_free(&c->plain); /* thousands of connections are mostly silent */
}

/* -- writing --------------------------------------------------------------- */

static void on_shut(uv_shutdown_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    c->shut = true;
    /* The FIN is out, or the connection is broken. */
    if (!c->raw || c->eof || status != 0)
        conn_lose(c, status == 0, false, "it is finished");
}

static void maybe_finish(struct conn *c)
{
    if (!c->finishing || c->writing || c->closing || buf_len(&c->waiting) > 0)
        return;
    if (!c->up ||
        uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shut) != 0)
        conn_lose(c, false, false, "it was closed");
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    c->writing = false;
    if (c->closing)
        return;
    if (status != 0) {
        conn_lose(c, false, false, uv_strerror(status));
        return;
    }
    buf_free(&c->flying);
    conn_flush(c);
    if (c->raw && !c->finishing && c->handler->on_drained != NULL &&
        conn_queued(c) == 0)
        c->handler->on_drained(c->ctx, c);
    if (!c->closing)
        maybe_finish(c);
}

static void start_write(struct conn *c)
{
    struct buf empty = c->flying;
    c->flying = c->waiting;
    c->waiting = empty;
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)buf_head(&c->flying),
                                 (unsigned)buf_len(&c->flying));
    c->counts->bytes_out += (int64_t)buf_len(&c->flying);
    c->writing = true;
    int rc = uv_write(&c->write, (uv_stream_t *)&c->tcp, &piece, 1, on_written);
    if (rc != 0)
        c->writing = false; /* the reading side will tell of the error */
}

void conn_flush(struct conn *c)
{
    if (!c->up || c->writing || buf_len(&c->waiting) == 0)
        return;
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)buf_head(&c->waiting),
                                 (unsigned)buf_len(&c->waiting));
    int n = uv_try_write((uv_stream_t *)&c->tcp, &piece, 1);
    if (n > 0) {
        buf_take(&c->waiting, (size_t)n);
        c->counts->bytes_out += n;
    }
    if (buf_len(&c->waiting) == 0)
        buf_free(&c->waiting);
    /* The kernel tells of a reset once only: what is read next looks like the
     * end of an orderly connection. */
    c->broken |= n == UV_ECONNRESET || n == UV_ETIMEDOUT;
    if (buf_len(&c->waiting) == 0)
        return;
    if (n >= 0 || n == UV_EAGAIN)
        start_write(c);
    else if (c->raw)
        overflow(c); /* a raw one goes on behind an EOF: nothing else ends it */
}

void conn_uncork(struct conn *c)
{
    c->corked = false;
    if (c->closing)
        return;
    conn_flush(c);
    maybe_finish(c);
}

static void on_overflow(uv_timer_t *timer)
{
    struct conn *c = conn_of(timer->data);
    if (c->raw && c->broken)
        conn_lose(c, false, false, conn_read_error(UV_ECONNRESET));
    else if (c->finishing) /* the peer took too long to take what was left */
        conn_lose(c, false, false, "it did not take all that it was sent");
    else
        conn_lose(c, false, false, "it does not read what it is sent");
}

static void overflow(struct conn *c)
{
    c->overflow = true;
    (void)uv_timer_start(&c->finish_timer, on_overflow, 0, 0);
}

void conn_send_json(struct conn *c, const char *json, size_t len)
{
    if (c->closing || c->finishing || c->overflow)
        return;
    struct buf *to = c->tls != NULL ? &c->plain : &c->waiting;
    if (frame_put(to, json, len) != 0) {
        overflow(c);
        return;
    }
    c->counts->messages_out++;
    conn_seal(c);
    if (!c->corked)
        conn_flush(c);
}

void conn_send(struct conn *c, const struct msg *m)
{
    char json[MSG_JSON_MAX];
    int len = msg_encode(m, json, sizeof(json));
    ddp_assert(len > 0);
    conn_send_json(c, json, (size_t)len);
}

void conn_send_bytes(struct conn *c, const void *data, size_t len)
{
    if (c->closing || c->finishing || c->overflow)
        return;
    if (buf_put(c->tls != NULL ? &c->plain : &c->waiting, data, len) != 0) {
        overflow(c);
        return;
    }
    conn_seal(c);
    if (!c->corked)
        conn_flush(c);
}

size_t conn_queued(const struct conn *c)
{
    return buf_len(&c->plain) + buf_len(&c->waiting) + buf_len(&c->flying);
}

void conn_finish(struct conn *c)
{
    if (c->closing || c->finishing)
        return;
    c->finishing = true;
    if (c->tls != NULL)
        tls_end(c->tls);
    conn_flush(c);
    if (!c->overflow)
        (void)uv_timer_start(&c->finish_timer, on_overflow, FINISH_MS, 0);
    maybe_finish(c);
}

/* -- making ---------------------------------------------------------------- */

static struct conn_counts uncounted; /* of those that nobody counts */

static struct conn *
conn_make(uv_loop_t *loop, const struct conn_handler *handler, void *ctx)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->magic = CONN_MAGIC;
    c->counts = &uncounted;
    c->frame_max = FRAME_MAX;
    c->handler = handler;
    c->ctx = ctx;
    buf_init(&c->in, FRAME_MAX + 8192);
    buf_init(&c->waiting, CONN_QUEUE_MAX);
    buf_init(&c->flying, CONN_QUEUE_MAX);
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

/* A cut link is silent: only these two ever end a connection over one. */
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

static int start_reading(struct conn *c)
{
    c->up = true;
    if (!c->accepted)
        tune(conn_fd(c));
    return conn_start_reading(c);
}

static void read_peer(struct conn *c)
{
    struct sockaddr_storage ss;
    int len = sizeof(ss);
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&ss, &len) == 0)
        addr_text((const struct sockaddr *)&ss, c->peer);
}

struct conn *conn_accept(uv_loop_t *loop,
                         int fd,
                         const struct conn_handler *handler,
                         void *ctx,
                         struct ddp_err *err)
{
    struct conn *c = conn_make(loop, handler, ctx);
    if (c == NULL) {
        (void)close(fd);
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a connection");
        return NULL;
    }
    c->accepted = true;
    int rc = uv_tcp_open(&c->tcp, fd);
    if (rc != 0)
        (void)close(fd); /* it is not the handle's */
    else
        rc = start_reading(c);
    if (rc == 0)
        read_peer(c);
    if (rc != 0) {
        ddp_err_set(err, DDP_E_IO, "cannot accept: %s", uv_strerror(rc));
        conn_close(c);
        return NULL;
    }
    return c;
}

static void on_connected(uv_connect_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    if (c->closing)
        return;
    int rc = status != 0 ? status : start_reading(c);
    if (rc != 0) {
        conn_lose(c, false, rc == UV_ECONNREFUSED, uv_strerror(rc));
        return;
    }
    if (c->key != NULL) {
        c->tls = tls_new(c->key, false, &c->waiting);
        if (c->tls == NULL)
            conn_lose(c, false, false, "no memory for TLS");
        else if (tls_state(c->tls) == TLS_FAILED)
            conn_fail_tls(c);
        else
            conn_flush(c); /* come_up goes on */
        return;
    }
    if (!c->raw)
        conn_say_hello(c);
    c->handler->on_up(c->ctx, c);
    if (!c->closing)
        conn_flush(c);
}

struct conn *conn_dial(uv_loop_t *loop,
                       const struct sockaddr *to,
                       const struct conn_handler *handler,
                       void *ctx,
                       struct ddp_err *err)
{
    struct conn *c = conn_make(loop, handler, ctx);
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
    c->key = key;
}

bool conn_is_sealed(const struct conn *c)
{
    return c->tls != NULL;
}

bool conn_is_proved(const struct conn *c)
{
    return c->tls != NULL && tls_is_answered(c->tls);
}

void conn_raw(struct conn *c, const struct conn_handler *h, void *ctx)
{
    ddp_assert(h->on_bytes != NULL && !c->greeted);
    c->raw = true;
    c->corked = false;
    c->handler = h;
    c->ctx = ctx;
}

bool conn_may_yield(const struct conn *c)
{
    return c->accepted && c->tls == NULL && !c->greeted && !c->raw &&
           !c->closing && !c->finishing;
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
    ddp_assert(frame_max <= FRAME_MAX);
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

const uint8_t *conn_farewell(const struct conn *c)
{
    return c->tls != NULL ? tls_farewell(c->tls) : NULL;
}

void conn_set_ctx(struct conn *c, void *ctx)
{
    c->ctx = ctx;
}

void *conn_ctx(const struct conn *c)
{
    return c->ctx;
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
