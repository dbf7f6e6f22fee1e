#include "rendezvous/daemon/store_inside.h"

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

void store_out_keep(void *ctx, uint32_t id, const void *bytes, size_t len)
{
    const uint8_t *data = bytes;
    struct store_server *s = ctx;
    struct conn *c = &s->conns[id];
    ddp_assert(s->magic == STORE_SERVER_MAGIC && id < s->touched);
    ddp_assert(c->state == CONN_OPEN);
    if (c->overfull)
        return;
    if (len >= STORE_LARGE && buf_len(&c->flying) == 0) {
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
        store_conn_close(c); /* the peer is gone */
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
        store_conn_close(c);
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = conn_of((uv_handle_t *)req->handle);
    buf_free(&c->flying);
    if (status == 0)
        flush(c);
    else
        store_conn_close(
            c); /* the peer is gone, or the connection is closing */
    store_conn_weigh(c);
}

void store_out_flush(struct store_server *s)
{
    while (s->dirty != NULL) {
        struct conn *c = s->dirty;
        s->dirty = c->next;
        c->dirty = false;
        if (c->overfull)
            store_conn_reset(c, "more replies wait than it may leave unread");
        else
            flush(c);
        store_conn_weigh(c);
    }
    s->unsent = 0;
    s->dirty_count = 0;
    store_shed(s);
}
