/*
 * Bytes in, requests out. Happy path: what was read into the shared buffer is
 * whole requests; each is one step of the store, and nothing is copied.
 *
 * What else happens: the last request is incomplete and is kept in the
 * connection's own buffer; it is large, and its rest is read straight into that
 * (on_alloc); it is bad, or the store refuses it: the connection is closed with
 * the reason, and what follows it is not looked at; the connection is doomed
 * (replies.c), by its own replies or because others need the memory: nothing
 * more is served, and the flush closes it.
 */
#include "rendezvous/store/store_priv.h"

#define UNSENT_MAX ((size_t)1 << 20) /* bytes of replies before a flush */
#define DIRTY_MAX  64u               /* connections before a flush */

/* Serves all complete requests; returns the bytes used. The connection may be
 * closed afterwards. */
static size_t serve(struct store_conn *c, const uint8_t *data, size_t len)
{
    struct c10d_request req;
    struct ddp_err err;
    size_t done = 0, used = 0;
    uint32_t id = (uint32_t)(c - c->server->conns);
    c->server->serving = c;
    while (!c->doomed) {
        enum c10d_status st = c10d_decode(&c->decoder, data + done, len - done,
                                          &req, &used, &err);
        if (st == C10D_MORE)
            break;
        if (st == C10D_BAD || store_step(c->server->store, id,
                                         c->decoder.family, &req, &err) != 0) {
            store_conn_refuse(c, err.text);
            break;
        }
        done += used;
    }
    ddp_assert(done <= len);
    c->server->serving = NULL;
    return done;
}

/* Serves the complete requests in the connection's own buffer. */
static void serve_own(struct store_conn *c)
{
    size_t done = serve(c, buf_head(&c->in), buf_len(&c->in));
    if (c->state != STORE_CONN_OPEN)
        return;
    buf_take(&c->in, done);
    if (buf_len(&c->in) == 0)
        buf_free(&c->in);
    else
        buf_trim(&c->in);
    store_conn_weigh(c);
}

/* `data` is in the shared buffer or, with `reads_own`, in the connection's. */
void store_conn_feed(struct store_conn *c, const uint8_t *data, size_t len)
{
    ddp_assert(c->state == STORE_CONN_OPEN);
    if (c->doomed)
        return;
    if (c->reads_own) {
        buf_commit(&c->in, len);
        serve_own(c);
        return;
    }
    size_t done = buf_len(&c->in) == 0 ? serve(c, data, len) : 0;
    if (c->state != STORE_CONN_OPEN || c->doomed)
        return;
    if (done == len && buf_len(&c->in) == 0)
        return; /* nothing of it is kept */
    bool had = buf_len(&c->in) > 0;
    if (!store_conn_may_grow(c, &c->in, len - done))
        return;
    if (buf_put(&c->in, data + done, len - done) != 0)
        store_conn_refuse(c, "there is no memory for its request");
    store_conn_weigh(c); /* it counts while its requests are served */
    if (had && c->state == STORE_CONN_OPEN)
        serve_own(c);
}

/* How much of the rest to read next: what still has room, else as much as is
 * there already. So the buffer grows to about twice what the peer has sent,
 * wherever TCP cuts that: a length that is only announced costs no memory. */
static size_t piece_of(const struct buf *in, size_t rest)
{
    size_t room = buf_room(in), have = buf_len(in);
    size_t piece = room >= STORE_LARGE ? room : have;
    return piece < rest ? piece : rest;
}

/* The rest of a large value is read to where it will stay, and nothing behind
 * it. */
static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
    (void)hint;
    struct store_conn *c = store_conn_of(h);
    struct store_server *s = c->server;
    size_t have = buf_len(&c->in);
    size_t want = c->decoder.need > have ? c->decoder.need - have : 0;
    *b = uv_buf_init(s->scratch, sizeof(s->scratch));
    c->reads_own = false;
    if (have < STORE_LARGE || want < STORE_LARGE)
        return;
    want = piece_of(&c->in, want);
    if (!store_conn_may_grow(c, &c->in, want))
        return; /* what is read now is not looked at */
    uint8_t *room = buf_reserve(&c->in, want);
    if (room == NULL)
        return; /* feed will find no memory, either */
    store_conn_weigh(c);
    c->reads_own = true;
    *b = uv_buf_init((char *)room, (unsigned)want);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct store_conn *c = store_conn_of((uv_handle_t *)stream);
    if (n < 0)
        store_conn_close(c); /* its end, or a reset */
    else if (n > 0)
        store_conn_feed(c, (const uint8_t *)b->base, (size_t)n);
    struct store_server *s = c->server;
    if (s->unsent > UNSENT_MAX || s->dirty_count >= DIRTY_MAX)
        store_out_flush(s);
}

int store_conn_start(struct store_conn *c)
{
    return uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}
