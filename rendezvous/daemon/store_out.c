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

static void make_dirty(struct conn *c)
{
    struct store_server *s = c->server;
    if (c->dirty)
        return;
    c->dirty = true;
    c->next = s->dirty;
    s->dirty = c;
    s->dirty_count++;
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
    make_dirty(c);
}

/* -- volleys --------------------------------------------------------------- */

static void swap(struct buf *a, struct buf *b)
{
    struct buf was = *a;
    *a = *b;
    *b = was;
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = conn_of((uv_handle_t *)req->handle);
    buf_free(&c->flying);
    if (status != 0)
        store_conn_close(c); /* the peer is gone, or it is closing */
    else if (buf_len(&c->out) > 0)
        make_dirty(c);
    store_conn_weigh(c);
}

/* Its shot has landed. What the socket did not take, libuv takes. */
static void settle(struct conn *c, ssize_t sent)
{
    ddp_assert(c->state == CONN_OPEN);
    c->aboard = false;
    if (sent > 0)
        buf_take(&c->flying, (size_t)sent);
    uv_buf_t b = unread(&c->flying);
    bool gone = sent < 0 && sent != -EAGAIN && sent != -EINTR;
    if (gone || (b.len > 0 && uv_write(&c->write_req, (uv_stream_t *)&c->tcp,
                                       &b, 1, on_written) != 0))
        store_conn_close(c);
    else if (b.len == 0 && c->out.data == NULL)
        swap(&c->flying, &c->out); /* one buffer does for most */
    store_conn_weigh(c);
}

void store_out_land(struct store_server *s)
{
    unsigned count = s->aboard_count;
    volley_land(s->volley);
    s->aboard_count = 0;
    for (unsigned i = 0; i < count; i++)
        settle(s->aboard[i], s->shots[i].sent);
}

static void board(struct conn *c)
{
    struct store_server *s = c->server;
    uv_os_fd_t fd;
    if (c->state != CONN_OPEN || buf_len(&c->out) == 0 ||
        buf_len(&c->flying) > 0)
        return;
    int rc = uv_fileno((uv_handle_t *)&c->tcp, &fd);
    ddp_assert(rc == 0); /* it is open */
    swap(&c->flying, &c->out);
    c->aboard = true;
    s->aboard[s->aboard_count] = c;
    s->shots[s->aboard_count++] = (struct volley_shot){
        .fd = fd,
        .data = buf_head(&c->flying),
        .len = buf_len(&c->flying),
    };
}

/* As many of the dirty ones as a volley holds. */
static void board_dirty(struct store_server *s)
{
    while (s->dirty != NULL && s->aboard_count < VOLLEY_MAX) {
        struct conn *c = s->dirty;
        s->dirty = c->next;
        c->dirty = false;
        if (c->overfull)
            store_conn_reset(c, "more replies wait than it may leave unread");
        else
            board(c);
        store_conn_weigh(c);
    }
}

static void on_again(uv_idle_t *h)
{
    (void)h; /* that it is there keeps the loop from sleeping */
}

void store_out_flush(struct store_server *s)
{
    do {
        store_out_land(s);
        board_dirty(s);
        if (!volley_fire(s->volley, s->shots, s->aboard_count))
            store_out_land(s);
        if (s->dirty == NULL)
            store_shed(s); /* whose going may be news to others */
    } while (s->dirty != NULL);
    s->unsent = 0;
    s->dirty_count = 0;
    if (s->aboard_count > 0)
        (void)uv_idle_start(&s->again, on_again); /* cannot fail: uv_idle(3) */
    else
        (void)uv_idle_stop(&s->again);
}
