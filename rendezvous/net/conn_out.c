/*
 * Happy path: sending tries the socket first (uv_try_write) and keeps in
 * `waiting` what it did not take. One uv_write at a time has `flying`, so that
 * its bytes stay where they are. The answers to all messages of one read go out
 * in one write (`corked`), and so does what the owner holds back. With a key,
 * `plain` is what is to be encrypted, and `waiting` is encrypted. Buffers exist
 * only while something is in them: of ten thousand connections nearly all are
 * silent.
 *
 * Ends that on_closed tells of: a FIN, an error, wrong bytes from the peer, and
 * a full queue, which means that the peer does not read. The last is told from
 * the loop (finish_timer), never during a call of the owner's. Ends that nobody
 * is told of: the owner's conn_close and conn_finish. Memory is freed in
 * on_handle_closed, when libuv has let go of both handles.
 */
#include <stdlib.h>

#include "rendezvous/net/conn_priv.h"
#include "rendezvous/proto/frame.h"

#define FINISH_MS 2000

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

void conn_close(struct conn *c)
{
    if (c->life == CONN_CLOSED)
        return;
    c->life = CONN_CLOSED;
    uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&c->finish_timer, on_handle_closed);
}

void conn_lose(struct conn *c, const char *why)
{
    if (c->life == CONN_CLOSED)
        return;
    bool tell = conn_is_in_use(c) || c->talk == CONN_RAW;
    conn_close(c);
    if (tell)
        c->handler->on_closed(c->ctx, c, why);
}

static void give_up(struct conn *c);

/* Encrypts `plain` into `waiting`, all of it into one record if it fits, once
 * the handshake is over. */
static void encrypt(struct conn *c)
{
    if (c->tls == NULL || tls_state(c->tls) != TLS_UP)
        return;
    if (tls_seal(c->tls, buf_head(&c->plain), buf_len(&c->plain)) != 0)
        give_up(c);
    buf_free(&c->plain); /* thousands of connections are mostly silent */
}

/* -- writing --------------------------------------------------------------- */

static void on_shut(uv_shutdown_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    c->shut = true; /* the FIN is out, or the connection is broken */
    if (c->talk != CONN_RAW || c->eof || status != 0)
        conn_lose(c, "the connection is finished");
}

static void maybe_finish(struct conn *c)
{
    if (c->life != CONN_FINISHING || c->writing || buf_len(&c->waiting) > 0)
        return;
    if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shut) != 0)
        conn_lose(c, "the connection was closed");
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    ddp_assert(c->writing);
    c->writing = false;
    if (c->life == CONN_CLOSED)
        return;
    if (status != 0) {
        conn_lose(c, uv_strerror(status));
        return;
    }
    buf_free(&c->flying);
    conn_flush(c);
    if (c->talk == CONN_RAW && conn_is_in_use(c) &&
        c->handler->on_drained != NULL && conn_queued(c) == 0)
        c->handler->on_drained(c->ctx, c);
    maybe_finish(c);
}

static void start_write(struct conn *c)
{
    ddp_assert(!c->writing && c->life != CONN_CLOSED);
    struct buf empty = c->flying;
    c->flying = c->waiting;
    c->waiting = empty;
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)buf_head(&c->flying),
                                 (unsigned)buf_len(&c->flying));
    c->counts->bytes_out += (int64_t)buf_len(&c->flying);
    c->writing = true;
    int rc = uv_write(&c->write, (uv_stream_t *)&c->tcp, &piece, 1, on_written);
    if (rc != 0) { /* no socket any more */
        c->writing = false;
        give_up(c);
    }
}

void conn_flush(struct conn *c)
{
    if (c->life == CONN_CONNECTING || c->life == CONN_CLOSED || c->writing)
        return;
    encrypt(c);
    if (buf_len(&c->waiting) == 0)
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
    /* The kernel tells of a reset once only: what is read next looks
     * like a FIN. */
    if (n == UV_ECONNRESET || n == UV_ETIMEDOUT)
        c->fault = CONN_RESET;
    if (buf_len(&c->waiting) == 0)
        return;
    bool is_over = n == UV_ECONNRESET || n == UV_ETIMEDOUT || n == UV_EPIPE;
    if (!is_over)
        start_write(c); /* if it fails again, on_written is told */
    else if (c->talk == CONN_RAW)
        give_up(c); /* a raw one goes on behind an EOF: nothing else ends it */
}

bool conn_cork(struct conn *c)
{
    if (c->corked || !conn_is_in_use(c))
        return false;
    c->corked = true;
    return true;
}

/* Behind a read it may be over by now. */
void conn_uncork(struct conn *c)
{
    c->corked = false;
    if (c->life == CONN_CLOSED)
        return;
    conn_flush(c);
    maybe_finish(c);
}

const char *conn_read_error(ssize_t n)
{
    return n == UV_EOF          ? "the connection was closed"
           : n == UV_ECONNRESET ? "the connection was reset"
                                : uv_strerror((int)n);
}

static void on_given_up(uv_timer_t *timer)
{
    struct conn *c = conn_of(timer->data);
    if (c->talk == CONN_RAW && c->fault == CONN_RESET)
        conn_lose(c, conn_read_error(UV_ECONNRESET));
    else if (c->life == CONN_FINISHING)
        conn_lose(c, "the peer does not read the last bytes");
    else
        conn_lose(c, "the peer does not read what it is sent");
}

/* Closes it, from the loop. */
static void give_up(struct conn *c)
{
    if (c->fault == CONN_SOUND)
        c->fault = CONN_STUCK;
    (void)uv_timer_start(&c->finish_timer, on_given_up, 0, 0);
}

/* Where what is sent is put first. */
static struct buf *way_out(struct conn *c)
{
    return c->tls != NULL ? &c->plain : &c->waiting;
}

/* The dialler says it first. The answer tells the dialler that it has reached
 * a rendezvous. */
void conn_say_hello(struct conn *c)
{
    (void)buf_put(way_out(c), FRAME_HELLO, FRAME_HELLO_LEN); /* empty: fits */
}

void conn_send_json(struct conn *c, const char *json, size_t len)
{
    if (!conn_is_in_use(c) || c->fault != CONN_SOUND)
        return;
    if (frame_put(way_out(c), json, len) != 0) {
        give_up(c);
        return;
    }
    c->counts->messages_out++;
    if (!c->corked)
        conn_flush(c);
}

void conn_send(struct conn *c, const struct msg *m)
{
    static char json[MSG_JSON_MAX]; /* large for a stack */
    int len = msg_encode(m, json, sizeof(json));
    ddp_assert(len > 0);
    conn_send_json(c, json, (size_t)len);
}

void conn_send_bytes(struct conn *c, const void *data, size_t len)
{
    if (!conn_is_in_use(c) || c->fault != CONN_SOUND)
        return;
    if (buf_put(way_out(c), data, len) != 0)
        give_up(c);
    else if (!c->corked)
        conn_flush(c);
}

size_t conn_queued(const struct conn *c)
{
    return buf_len(&c->plain) + buf_len(&c->waiting) + buf_len(&c->flying);
}

void conn_finish(struct conn *c)
{
    if (!conn_is_in_use(c))
        return;
    bool connected = c->life != CONN_CONNECTING;
    c->life = CONN_FINISHING;
    if (!connected) {
        conn_lose(c, "the connection was closed");
        return;
    }
    encrypt(c); /* also where a write is on its way: before the end */
    if (c->tls != NULL)
        tls_end(c->tls);
    conn_flush(c);
    if (!uv_is_active((uv_handle_t *)&c->finish_timer)) /* by give_up */
        (void)uv_timer_start(&c->finish_timer, on_given_up, FINISH_MS, 0);
    maybe_finish(c);
}
