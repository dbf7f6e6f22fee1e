#include "rendezvous/store/store_priv.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/log.h"

#define GATE_LINES 10u
#define GATE_MS    10000u
#define PEER_MAX   128

/* -- the log --------------------------------------------------------------- */

bool store_gate_pass(struct store_server *s)
{
    uint64_t now_ms = uv_now(s->listener.loop);
    struct gate *g = &s->gate;
    if (g->lines > 0 && now_ms - g->start_ms >= GATE_MS) {
        if (g->dropped > 0)
            log_warnx("store: more lines like the last were left out count=%u",
                      g->dropped);
        *g = (struct gate){0};
    }
    if (g->lines == 0)
        g->start_ms = now_ms;
    if (g->lines >= GATE_LINES) {
        g->dropped++;
        return false;
    }
    g->lines++;
    return true;
}

static void peer_name(const struct conn *c, char *name, size_t max)
{
    struct sockaddr_storage sa;
    int len = (int)sizeof(sa);
    char host[PEER_MAX / 2], port[8];
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&sa, &len) == 0 &&
        getnameinfo((struct sockaddr *)&sa, (socklen_t)len, host, sizeof(host),
                    port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        (void)snprintf(name, max, "[%s]:%s", host, port);
    else
        (void)snprintf(name, max, "unknown");
}

/* -- the end of a connection ----------------------------------------------- */

static void land(struct store_server *s);

static void server_free(struct store_server *s)
{
    volley_del(s->volley);
    store_del(s->store);
    free(s->conns);
    s->magic = 0;
    free(s);
}

void store_let_go(struct store_server *s)
{
    ddp_assert(s->handles > 0);
    if (--s->handles == 0)
        server_free(s);
}

/* What is about to be closed counts no more: its memory goes with the next
 * callback. */
void store_conn_weigh(struct conn *c)
{
    size_t now = 0;
    if (c->state == CONN_OPEN)
        now = buf_len(&c->in) + buf_len(&c->out) + buf_len(&c->flying);
    c->server->held = c->server->held - c->held + now;
    c->held = now;
}

static void on_conn_closed(uv_handle_t *h)
{
    struct conn *c = conn_of(h);
    struct store_server *s = c->server;
    buf_free(&c->flying);
    store_conn_weigh(c);
    c->state = CONN_FREE;
    c->next = s->spare;
    s->spare = c;
    if (s->paused && !s->closing)
        s->has_place(s);
    store_let_go(s);
}

static void conn_end(struct conn *c, bool reset)
{
    if (c->aboard)
        land(c->server); /* which may close this one */
    if (c->state != CONN_OPEN)
        return;
    c->state = CONN_CLOSING;
    store_gone(c->server->store, (uint32_t)(c - c->server->conns));
    buf_free(&c->in);
    buf_free(&c->out);
    store_conn_weigh(c);
    if (!reset || uv_tcp_close_reset(&c->tcp, on_conn_closed) != 0)
        uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
}

void store_conn_close(struct conn *c)
{
    conn_end(c, false);
}

/* For a reason that somebody may want to know. */
static void conn_log(const struct conn *c, const char *why)
{
    char peer[PEER_MAX];
    peer_name(c, peer, sizeof(peer));
    if (store_gate_pass(c->server))
        log_warnx("store: connection is closed: %s peer=%s", why, peer);
}

void store_conn_refuse(struct conn *c, const char *why)
{
    if (c->state != CONN_OPEN)
        return;
    conn_log(c, why);
    conn_end(c, false);
}

/* Who leaves too much unread or unfinished: by a reset, so that the kernel
 * keeps nothing for him either. */
static void conn_reset(struct conn *c, const char *why)
{
    if (c->state != CONN_OPEN)
        return;
    conn_log(c, why);
    conn_end(c, true);
}

static struct conn *heaviest(struct store_server *s)
{
    struct conn *most = NULL;
    for (uint32_t i = 0; i < s->touched; i++) {
        struct conn *c = &s->conns[i];
        if (c->state == CONN_OPEN && c->held > 0 &&
            (most == NULL || c->held > most->held))
            most = c;
    }
    return most;
}

/* Whoever holds most pays when all together hold too much. What is on its way
 * out is not held yet. */
static void shed(struct store_server *s)
{
    struct conn *c;
    if (s->held > s->limits.held_bytes)
        land(s);
    while (s->held > s->limits.held_bytes && (c = heaviest(s)) != NULL) {
        char why[160];
        (void)snprintf(why, sizeof(why),
                       "it holds %zu of %zu bytes of unfinished requests and "
                       "unread replies, more than there is room for",
                       c->held, s->held);
        conn_reset(c, why);
    }
}

/* -- replies --------------------------------------------------------------- */

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

/* Ends the flight, so that no socket is in use by another thread. It may close
 * any connection. */
static void land(struct store_server *s)
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
            conn_reset(c, "more replies wait than it may leave unread");
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
        land(s);
        board_dirty(s);
        if (!volley_fire(s->volley, s->shots, s->aboard_count))
            land(s);
        if (s->dirty == NULL)
            shed(s); /* whose going may be news to others */
    } while (s->dirty != NULL);
    s->unsent = 0;
    s->dirty_count = 0;
    if (s->aboard_count > 0)
        (void)uv_idle_start(&s->again, on_again); /* cannot fail: uv_idle(3) */
    else
        (void)uv_idle_stop(&s->again);
}
