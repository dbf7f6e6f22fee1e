/*
 * Replies out, and the end of a connection.
 *
 * Happy path: the store's callback (store_out_keep) appends to the connection's
 * `out` and marks it dirty; store_out_flush writes each dirty connection's
 * bytes by one write, and the socket takes all of them. A large value goes to
 * the socket at once, uncopied, if nothing is being written there.
 *
 * What else happens:
 * - the socket takes a part: a piece of the rest moves to `writing`, libuv
 *   writes it, and all else waits in `out` (on_written flushes again). Only a
 *   piece, because libuv keeps it until its callback, also if the connection is
 *   closed;
 * - more waits than reply_bytes: replies are dropped from then on, and the
 *   flush resets the connection (doomed);
 * - all connections together would hold more than held_bytes: before that,
 *   those that hold most are doomed, and what they hold is freed at once
 *   (store_conn_may_grow). One request may wake thousands of watchers: so this
 *   is decided for each reply, not when all are there;
 * - the peer is gone: closed, and the store forgets its waits and watches;
 * - an end wakes other clients: they are dirty again, so the flush loops.
 */
#include "rendezvous/store/store_priv.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define PEER_MAX 128
#define OUT_KEPT 1024u

/* -- the log --------------------------------------------------------------- */

void store_log_left_out(struct store_server *s)
{
    char line[160];
    while (log_limit_tell(&s->log_limit, line, sizeof(line)))
        log_warnx("store: %s", line);
}

static void on_left_out(uv_timer_t *timer)
{
    store_log_left_out(store_server_of((uv_handle_t *)timer));
}

bool store_may_log(struct store_server *s)
{
    if (log_limit_may(&s->log_limit, mono_now_us()))
        return true;
    if (!s->closing && !uv_is_active((uv_handle_t *)&s->left_out))
        (void)uv_timer_start(&s->left_out, on_left_out,
                             LOG_LIMIT_TELL_US / MONO_MS, 0);
    return false;
}

/* For an end that the peer has caused. */
static void conn_log(const struct store_conn *c, const char *why)
{
    struct sockaddr_storage sa;
    int len = (int)sizeof(sa);
    char host[PEER_MAX] = "", port[8] = "";
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&sa, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&sa, (socklen_t)len, host,
                          sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV); /* or empty */
    if (store_may_log(c->server))
        log_warnx("store: connection from [%s]:%s closed: %s", host, port, why);
}

/* -- the end of a connection ----------------------------------------------- */

void store_let_go(struct store_server *s)
{
    ddp_assert(s->handles > 0);
    if (--s->handles > 0)
        return;
    ddp_assert(s->closing && s->held == 0);
    store_del(s->store);
    free(s->conns);
    s->magic = 0;
    free(s);
}

/* A connection that is closing counts until its memory is free. */
void store_conn_weigh(struct store_conn *c)
{
    struct store_server *s = c->server;
    size_t now = c->in.cap + c->out.cap + c->writing.cap;
    ddp_assert(s->held >= c->held);
    s->held = s->held - c->held + now;
    c->held = now;
    if (now > s->most)
        s->most = now;
}

static void on_conn_closed(uv_handle_t *h)
{
    struct store_conn *c = store_conn_of(h);
    struct store_server *s = c->server;
    ddp_assert(c->state == STORE_CONN_CLOSING);
    buf_free(&c->writing);
    store_conn_weigh(c);
    ddp_assert(c->held == 0);
    ddp_assert(!c->dirty || s->closing); /* flushed since it was closed */
    c->state = STORE_CONN_FREE;
    c->magic = 0;
    c->next = s->spare;
    s->spare = c;
    if (s->paused && !s->closing)
        s->has_place(s);
    store_let_go(s);
}

static void conn_end(struct store_conn *c, bool reset)
{
    if (c->state != STORE_CONN_OPEN)
        return;
    c->state = STORE_CONN_CLOSING;
    store_gone(c->server->store, (uint32_t)(c - c->server->conns));
    buf_free(&c->in);
    buf_free(&c->out);
    store_conn_weigh(c);
    if (!reset || uv_tcp_close_reset(&c->tcp, on_conn_closed) != 0)
        uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
}

void store_conn_close(struct store_conn *c)
{
    conn_end(c, false);
}

void store_conn_refuse(struct store_conn *c, const char *why)
{
    if (c->state != STORE_CONN_OPEN)
        return;
    conn_log(c, why);
    conn_end(c, false);
}

/* -- too much memory ------------------------------------------------------- */

static void make_dirty(struct store_conn *c)
{
    struct store_server *s = c->server;
    ddp_assert(c->state == STORE_CONN_OPEN); /* `next` is the dirty list's */
    if (c->dirty)
        return;
    c->dirty = true;
    c->next = s->dirty;
    s->dirty = c;
    s->dirty_count++;
}

/* Frees what it holds. The flush closes it, since this may be called from
 * within the store's callback. */
static void doom(struct store_conn *c, const char *why)
{
    ddp_assert(c->state == STORE_CONN_OPEN);
    conn_log(c, why);
    c->doomed = true;
    buf_free(&c->out);
    if (c != c->server->serving) /* a request may be in it */
        buf_free(&c->in);
    store_conn_weigh(c);
    make_dirty(c);
}

/* The open connection that holds most, if `c` took so much more. Not the one
 * whose request is being served: what it holds is free after that. */
static struct store_conn *heaviest(struct store_conn *c, size_t more)
{
    struct store_server *s = c->server;
    struct store_conn *most = c;
    size_t most_held = c->held + more;
    if (most_held >= s->most)
        return c;
    s->most = 0;
    for (uint32_t i = 0; i < s->touched; i++) {
        struct store_conn *it = &s->conns[i];
        if (it->state != STORE_CONN_OPEN || it->doomed)
            continue;
        if (it->held > s->most)
            s->most = it->held;
        if (it->held > most_held && it != s->serving) {
            most = it;
            most_held = it->held;
        }
    }
    return most;
}

bool store_conn_may_grow(struct store_conn *c, const struct buf *b, size_t len)
{
    struct store_server *s = c->server;
    size_t more = buf_growth(b, len);
    while (!c->doomed && more > 0 && s->held + more > s->limits.held_bytes) {
        struct store_conn *most = heaviest(c, more);
        char why[160];
        (void)snprintf(why, sizeof(why),
                       "it holds %zu of %zu bytes of incomplete requests and "
                       "unread replies, and the limit is reached",
                       most->held + (most == c ? more : 0), s->held);
        doom(most, why);
    }
    return !c->doomed;
}

/* -- replies --------------------------------------------------------------- */

static uv_buf_t unread(const struct buf *b)
{
    return (uv_buf_t){.base = (char *)b->data + b->start, .len = buf_len(b)};
}

/* Writes the replies that wait and then `data`, as far as the socket takes them
 * at once. Returns how much of `data` it took. An error shows again when the
 * rest is written. */
static size_t write_through(struct store_conn *c, const void *data, size_t len)
{
    size_t before = buf_len(&c->out);
    uv_buf_t b[2] = {
        unread(&c->out),
        {.base = (char *)(uintptr_t)data, .len = len}, /* never written to */
    };
    unsigned skip = before == 0;
    int n = uv_try_write((uv_stream_t *)&c->tcp, b + skip, 2 - skip);
    size_t taken = n < 0 ? 0 : (size_t)n;
    buf_take(&c->out, taken < before ? taken : before);
    return taken > before ? taken - before : 0;
}

/* Appends to what waits. */
static void keep(struct store_conn *c, const uint8_t *data, size_t len)
{
    size_t waiting = buf_len(&c->out) + buf_len(&c->writing);
    size_t cap = c->out.cap;
    if (len > c->server->limits.reply_bytes - waiting)
        doom(c, "it leaves too many replies unread");
    else if (store_conn_may_grow(c, &c->out, len) &&
             buf_put(&c->out, data, len) != 0)
        doom(c, "there is no memory for its replies");
    if (c->out.cap != cap)
        store_conn_weigh(c);
}

void store_out_keep(void *ctx, uint32_t id, const void *bytes, size_t len)
{
    const uint8_t *data = bytes;
    struct store_server *s = ctx;
    struct store_conn *c = &s->conns[id];
    ddp_assert(s->magic == STORE_SERVER_MAGIC && id < s->touched);
    ddp_assert(c->state == STORE_CONN_OPEN);
    if (c->doomed)
        return;
    bool tight = s->held + buf_growth(&c->out, len) > s->limits.held_bytes;
    if ((len >= STORE_LARGE || tight) && buf_len(&c->writing) == 0) {
        size_t taken = write_through(c, data, len);
        data += taken;
        len -= taken;
    }
    s->unsent += len;
    make_dirty(c);
    if (len > 0)
        keep(c, data, len);
}

/* -- flush ----------------------------------------------------------------- */

/* A write that is done at once calls this before the loop waits for events, not
 * behind them: so the rest is flushed here, and not at the end of the turn. */
static void on_written(uv_write_t *req, int status)
{
    struct store_conn *c = store_conn_of((uv_handle_t *)req->handle);
    struct store_server *s = c->server;
    buf_free(&c->writing);
    if (status != 0)
        store_conn_close(c); /* the peer is gone, or it is closing */
    else if (buf_len(&c->out) > 0)
        make_dirty(c);
    store_conn_weigh(c);
    store_out_flush(s);
}

/* All of what waits, or a piece of it, moves to `writing`. -1: no memory. */
static int take_piece(struct store_conn *c)
{
    if (buf_len(&c->out) <= STORE_PIECE && c->out.cap <= 2 * STORE_PIECE) {
        struct buf empty = c->writing;
        c->writing = c->out;
        c->out = empty;
        return 0;
    }
    size_t len =
        buf_len(&c->out) < STORE_PIECE ? buf_len(&c->out) : STORE_PIECE;
    if (!store_conn_may_grow(c, &c->writing, len))
        return 0; /* doomed: the flush comes back to it */
    if (buf_put(&c->writing, buf_head(&c->out), len) != 0)
        return -1;
    buf_take(&c->out, len);
    return 0;
}

/* Sends what the socket takes at once; libuv takes a piece of the rest. */
static void conn_flush(struct store_conn *c)
{
    if (c->state != STORE_CONN_OPEN || buf_len(&c->out) == 0 ||
        buf_len(&c->writing) > 0)
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
    bool fits = take_piece(c) == 0;
    if (c->doomed)
        return;
    b = unread(&c->writing);
    if (!fits || uv_write(&c->write_req, stream, &b, 1, on_written) != 0)
        store_conn_close(c);
}

/* An idle connection keeps no more than this for its next replies. */
static void spare_memory(struct store_conn *c)
{
    if (buf_len(&c->out) == 0 && c->out.cap > OUT_KEPT)
        buf_free(&c->out);
}

/* A connection that is closed may wake others, which makes them dirty. */
void store_out_flush(struct store_server *s)
{
    while (s->dirty != NULL) {
        struct store_conn *c = s->dirty;
        s->dirty = c->next;
        c->dirty = false;
        if (c->doomed)
            conn_end(c, true); /* the kernel keeps no unread bytes, either */
        else
            conn_flush(c);
        spare_memory(c);
        store_conn_weigh(c);
    }
    ddp_assert(s->held <= s->limits.held_bytes);
    s->unsent = 0;
    s->dirty_count = 0;
}
