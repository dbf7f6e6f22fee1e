/*
 * Sending tries the socket first (uv_try_write) and keeps what it did not take
 * in `waiting`; one uv_write at a time flies from `flying`, so that its bytes
 * stay where they are. What a server answers to the messages of one read goes
 * out in one write. Buffers are there only while something is in them: of ten
 * thousand connections nearly all are silent.
 *
 * With a key, `plain` is what is to be sealed and `waiting` what is sealed.
 *
 * Ends: a FIN, an error, a peer's nonsense, a full queue (all told by
 * on_closed), or the owner's conn_close and conn_finish (told to nobody).
 * Memory goes in on_handle_closed, after libuv let go of the handle.
 */
#include "rendezvous/net/conn_out.h"

#include <stdlib.h>

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

/* What is in `plain` goes to `waiting`. It stays where it is while the two ends
 * greet. */
static void seal(struct conn *c)
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

const char *conn_read_error(ssize_t n)
{
    return n == UV_EOF          ? "the connection was closed"
           : n == UV_ECONNRESET ? "the connection was reset"
                                : uv_strerror((int)n);
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

/* Where what is said goes: to be sealed, or out as it is. */
static struct buf *way_out(struct conn *c)
{
    return c->tls != NULL ? &c->plain : &c->waiting;
}

/* Who dials says hello first; the answer tells it that it has come to the
 * right place. */
void conn_say_hello(struct conn *c)
{
    (void)buf_put(way_out(c), FRAME_HELLO, FRAME_HELLO_LEN); /* empty: fits */
    seal(c);
}

static void go_out(struct conn *c)
{
    seal(c);
    if (!c->corked)
        conn_flush(c);
}

void conn_send_json(struct conn *c, const char *json, size_t len)
{
    if (c->closing || c->finishing || c->overflow)
        return;
    if (frame_put(way_out(c), json, len) != 0) {
        overflow(c);
        return;
    }
    c->counts->messages_out++;
    go_out(c);
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
    if (buf_put(way_out(c), data, len) != 0)
        overflow(c);
    else
        go_out(c);
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
