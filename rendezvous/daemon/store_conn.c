#include "rendezvous/daemon/store_inside.h"

#include <netdb.h>
#include <stdio.h>

#include "rendezvous/base/log.h"

#define UNSENT_MAX ((size_t)1 << 20) /* bytes of replies before a flush */
#define DIRTY_MAX  64u               /* connections before a flush */
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
        store_accept_next(s);
    store_let_go(s);
}

static void conn_end(struct conn *c, bool reset)
{
    if (c->aboard)
        store_out_land(c->server); /* which may close this one */
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

/* Who leaves too much unread or unfinished. */
void store_conn_reset(struct conn *c, const char *why)
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

void store_shed(struct store_server *s)
{
    struct conn *c;
    while (s->held > s->limits.held_bytes && (c = heaviest(s)) != NULL) {
        char why[160];
        (void)snprintf(why, sizeof(why),
                       "it holds %zu of %zu bytes of unfinished requests and "
                       "unread replies, more than there is room for",
                       c->held, s->held);
        store_conn_reset(c, why);
    }
}

/* -- requests -------------------------------------------------------------- */

/* Serves all requests that are whole; returns the bytes used. The connection
 * may be closed afterwards. */
static size_t serve(struct conn *c, const uint8_t *data, size_t len)
{
    struct c10d_request req;
    struct ddp_err err;
    size_t done = 0, used = 0;
    uint32_t id = (uint32_t)(c - c->server->conns);
    while (!c->overfull) {
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
    return done;
}

/* Serves what is whole of the connection's own bytes. */
static void serve_own(struct conn *c)
{
    size_t done = serve(c, buf_head(&c->in), buf_len(&c->in));
    if (c->state != CONN_OPEN)
        return;
    buf_take(&c->in, done);
    if (buf_len(&c->in) == 0)
        buf_free(&c->in);
    store_conn_weigh(c);
}

/* Bytes in the shared buffer, or in the connection's own where they were read
 * into that. */
void store_conn_feed(struct conn *c, const uint8_t *data, size_t len)
{
    if (c->reads_own) {
        buf_commit(&c->in, len);
        serve_own(c);
        return;
    }
    size_t done = buf_len(&c->in) == 0 ? serve(c, data, len) : 0;
    if (c->state != CONN_OPEN)
        return;
    if (done == len && buf_len(&c->in) == 0)
        return; /* nothing of it is kept */
    bool had = buf_len(&c->in) > 0;
    if (buf_put(&c->in, data + done, len - done) != 0)
        store_conn_refuse(c, "no memory for its request");
    else if (had)
        serve_own(c);
    else
        store_conn_weigh(c);
}

/*
 * A large value is read where it is wanted, and nothing behind it; never with
 * more room than as much again as its sender has sent already.
 */
static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
    (void)hint;
    struct conn *c = conn_of(h);
    struct store_server *s = c->server;
    size_t have = buf_len(&c->in);
    size_t want = c->decoder.need > have ? c->decoder.need - have : 0;
    *b = uv_buf_init(s->scratch, sizeof(s->scratch));
    c->reads_own = false;
    if (have < STORE_LARGE || want < STORE_LARGE)
        return;
    want = want < have ? want : have;
    uint8_t *room = buf_reserve(&c->in, want);
    if (room == NULL)
        return; /* feed says it */
    c->reads_own = true;
    *b = uv_buf_init((char *)room, (unsigned)want);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct conn *c = conn_of((uv_handle_t *)stream);
    if (n < 0)
        store_conn_close(c); /* its end, or a reset: nobody to tell */
    else if (n > 0)
        store_conn_feed(c, (const uint8_t *)b->base, (size_t)n);
    struct store_server *s = c->server;
    if (s->unsent > UNSENT_MAX || s->dirty_count >= DIRTY_MAX)
        store_out_flush(s);
}

int store_conn_start(struct conn *c)
{
    return uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}
