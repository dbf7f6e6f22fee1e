/*
 * Replies out, and the end of a connection.
 *
 * Happy path: the store's callback (store_out_keep) appends to the connection's
 * `out` and marks it dirty; store_out_flush writes each dirty connection's
 * bytes by one write, and the socket takes all of them. A large value goes to
 * the socket at once, uncopied, if nothing is being written there.
 *
 * What else happens:
 * - the socket takes a part: the rest moves to `writing`, libuv writes it, and
 *   what comes meanwhile waits in `out` (on_written flushes again);
 * - more waits than reply_bytes: replies are dropped from then on, and the
 *   flush resets the connection;
 * - all connections together hold more than held_bytes: those that hold most
 *   are reset (shed);
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

bool store_may_log(struct store_server *s, const char *source)
{
    if (log_limit_may(&s->log_limit, source, mono_now_us()))
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
    if (store_may_log(c->server, host))
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

/* A connection that is closing counts no more: its memory goes with the next
 * callback. */
void store_conn_weigh(struct store_conn *c)
{
    size_t now = 0;
    if (c->state == STORE_CONN_OPEN)
        now = buf_len(&c->in) + buf_len(&c->out) + buf_len(&c->writing);
    ddp_assert(c->server->held >= c->held);
    c->server->held = c->server->held - c->held + now;
    c->held = now;
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

/* Closes by a reset, so that the kernel keeps no unread bytes either. */
static void conn_reset(struct store_conn *c, const char *why)
{
    if (c->state != STORE_CONN_OPEN)
        return;
    conn_log(c, why);
    conn_end(c, true);
}

static struct store_conn *heaviest(struct store_server *s)
{
    struct store_conn *most = NULL;
    for (uint32_t i = 0; i < s->touched; i++) {
        struct store_conn *c = &s->conns[i];
        if (c->state == STORE_CONN_OPEN && c->held > 0 &&
            (most == NULL || c->held > most->held))
            most = c;
    }
    return most;
}

/* When all connections together hold too much, those that hold most are
 * closed. */
static void shed(struct store_server *s)
{
    struct store_conn *c;
    while (s->held > s->limits.held_bytes && (c = heaviest(s)) != NULL) {
        char why[160];
        (void)snprintf(why, sizeof(why),
                       "it holds %zu of %zu bytes of incomplete requests and "
                       "unread replies, and the limit is reached",
                       c->held, s->held);
        conn_reset(c, why);
    }
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

void store_out_keep(void *ctx, uint32_t id, const void *bytes, size_t len)
{
    const uint8_t *data = bytes;
    struct store_server *s = ctx;
    struct store_conn *c = &s->conns[id];
    ddp_assert(s->magic == STORE_SERVER_MAGIC && id < s->touched);
    ddp_assert(c->state == STORE_CONN_OPEN);
    if (c->overfull)
        return;
    if (len >= STORE_LARGE && buf_len(&c->writing) == 0) {
        size_t taken = write_through(c, data, len);
        data += taken;
        len -= taken;
    }
    size_t waiting = buf_len(&c->out) + buf_len(&c->writing);
    if (len > s->limits.reply_bytes - waiting ||
        buf_put(&c->out, data, len) != 0)
        c->overfull = true;
    s->unsent += len;
    make_dirty(c);
}

/* -- flush ----------------------------------------------------------------- */

static void on_written(uv_write_t *req, int status)
{
    struct store_conn *c = store_conn_of((uv_handle_t *)req->handle);
    buf_free(&c->writing);
    if (status != 0)
        store_conn_close(c); /* the peer is gone, or it is closing */
    else if (buf_len(&c->out) > 0)
        make_dirty(c);
    store_conn_weigh(c);
}

/* Sends what the socket takes at once; libuv takes the rest. */
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
    struct buf empty = c->writing;
    c->writing = c->out;
    c->out = empty;
    b = unread(&c->writing);
    if (uv_write(&c->write_req, stream, &b, 1, on_written) != 0)
        store_conn_close(c);
}

/* A connection that is closed may wake others, which makes them dirty. */
void store_out_flush(struct store_server *s)
{
    do {
        while (s->dirty != NULL) {
            struct store_conn *c = s->dirty;
            s->dirty = c->next;
            c->dirty = false;
            if (c->overfull)
                conn_reset(c, "it leaves too many replies unread");
            else
                conn_flush(c);
            store_conn_weigh(c);
        }
        shed(s);
    } while (s->dirty != NULL);
    ddp_assert(s->dirty == NULL);
    s->unsent = 0;
    s->dirty_count = 0;
}
