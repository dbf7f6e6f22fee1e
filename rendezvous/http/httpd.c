/*
 * A connection is READING until its request is whole, then SENDING while its
 * answer goes out in pieces as the socket takes them, then FINISHING: all of
 * the answer is with the conn, which reads on until the peer closes. Then its
 * entry is FREE. A second request behind the first is not read. The connection
 * of a viewer, whose answer has no end, goes to its owner instead
 * (http/viewers).
 *
 * Failure modes:
 * - a bad request is answered by its status (http_feed), and the connection is
 *   finished;
 * - a request that is not whole in time is answered by 408, an answer that is
 *   not taken in time is cut off: a sweep looks for both;
 * - the table is full: one that has had its time makes room (makes_room), else
 *   the newcomer gets 503 and is closed at once;
 * - answers have taken this second's share of CPU, or hold all the memory: 503;
 * - the peer ends or resets the connection: its entry is freed, nothing else.
 */
#include "rendezvous/http/httpd.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/log.h"

#define HTTPD_MAGIC 0x68747470u
#define CONN_MAGIC  0x68636f6eu
#define SWEEP_MS    250
#define PIECE_LEN   (64u * 1024u)
#define ROOM_US     MONO_S          /* to ask, if others wait */
#define LINGER_US   (100 * MONO_MS) /* to close, if others wait */
#define PLAIN       "text/plain; charset=utf-8"

enum httpd_state {
    HTTPD_FREE, /* conn is NULL */
    HTTPD_READING,
    HTTPD_SENDING,
    HTTPD_FINISHING, /* body is empty */
};

struct httpd_conn {
    unsigned magic; /* 0 while free */
    enum httpd_state state;
    struct httpd *owner;
    struct conn *conn;
    int64_t since_us; /* reading: when it came; else when it was answered */
    struct buf body;  /* what is left to be sent */
    struct http request;
    struct http_field accept;
};

struct httpd {
    unsigned magic;
    struct httpd_conf conf;
    uv_timer_t sweep;
    struct httpd_conn *conns;
    int n;
    size_t bytes; /* of all bodies */
    int64_t busy_us, busy_since_us;
    bool closing;
};

static struct httpd *httpd_of(void *data)
{
    struct httpd *h = data;
    ddp_assert(h->magic == HTTPD_MAGIC);
    return h;
}

static struct httpd_conn *httpd_conn_of(void *ctx)
{
    struct httpd_conn *p = ctx;
    ddp_assert(p->magic == CONN_MAGIC && p->state != HTTPD_FREE);
    return p;
}

static void httpd_conn_free(struct httpd_conn *p)
{
    ddp_assert(p->state != HTTPD_FREE && p->owner->n > 0);
    ddp_assert(p->owner->bytes >= buf_len(&p->body));
    p->owner->bytes -= buf_len(&p->body);
    p->owner->n--;
    buf_free(&p->body);
    p->conn = NULL;
    p->state = HTTPD_FREE;
    p->magic = 0;
}

/* -- answering ------------------------------------------------------------- */

static void send_head(struct httpd *h,
                      struct conn *c,
                      int status,
                      const char *type,
                      size_t body_len,
                      const char *more)
{
    char head[HTTP_LINE_MAX];
    size_t len = http_head(head, status, type, body_len, more);
    conn_send_bytes(c, head, len);
    if (h->conf.told != NULL)
        h->conf.told(h->conf.ctx, status);
}

static const char *say_why(int status)
{
    switch (status) {
    case 400:
        return "the request is not HTTP/1.1\n";
    case 405:
        return "only GET and HEAD are served\n";
    case 408:
        return "the request was not complete within 5 s\n";
    case 414:
        return "the target is longer than 1024 bytes\n";
    case 431:
        return "the request is longer than 8192 bytes\n";
    case 503:
        return "too many requests at a time; ask again in a second\n";
    case 505:
        return "only HTTP/1 is served\n";
    default:
        DDP_WRONG("http status");
    }
}

static void send_error(struct httpd *h, struct conn *c, int status, bool body)
{
    const char *why = say_why(status);
    send_head(h, c, status, PLAIN, strlen(why), "");
    if (body)
        conn_send_bytes(c, why, strlen(why));
}

/* Gives the conn as much as the socket takes; when it has all, it finishes. */
static void pump(struct httpd_conn *p)
{
    ddp_assert(p->state == HTTPD_SENDING);
    struct conn *c = p->conn;
    size_t len = buf_len(&p->body);
    while (len > 0 && conn_queued(c) < PIECE_LEN) {
        size_t piece = len < PIECE_LEN ? len : PIECE_LEN;
        conn_send_bytes(c, buf_head(&p->body), piece);
        buf_take(&p->body, piece);
        p->owner->bytes -= piece;
        len -= piece;
    }
    if (len > 0)
        return;
    p->state = HTTPD_FINISHING;
    conn_finish(c); /* may call on_closed: p may be free */
}

static void fail(struct httpd_conn *p, int status)
{
    ddp_assert(p->state == HTTPD_READING && buf_len(&p->body) == 0);
    p->since_us = mono_now_us();
    p->state = HTTPD_FINISHING;
    send_error(p->owner, p->conn, status, !p->request.is_head);
    conn_finish(p->conn);
}

/* Whether this second's share of time is used up: the rest is the agents'. */
static bool is_busy(struct httpd *h, int64_t now_us)
{
    if (now_us >= mono_after(h->busy_since_us, MONO_S)) {
        h->busy_since_us = now_us;
        h->busy_us = 0;
    }
    return h->busy_us >= HTTPD_BUSY_US;
}

/* Its place is free again: who looks on for hours keeps nobody from asking. */
static void give_viewer(struct httpd_conn *p)
{
    struct httpd *h = p->owner;
    struct conn *c = p->conn;
    if (!h->conf.on_viewer(h->conf.ctx, c)) {
        fail(p, 503);
        return;
    }
    httpd_conn_free(p);
    if (h->conf.told != NULL)
        h->conf.told(h->conf.ctx, 200);
}

static void answer(struct httpd_conn *p)
{
    struct httpd *h = p->owner;
    struct httpd_answer a = {.status = 200, .type = PLAIN, .more = ""};
    int64_t began_us = mono_now_us();
    a.busy = is_busy(h, began_us);
    buf_init(&a.body, HTTPD_BYTES_MAX - h->bytes);
    int rc =
        h->conf.answer(h->conf.ctx, &p->request, conn_is_sealed(p->conn), &a);
    h->busy_us += mono_now_us() - began_us;
    if (rc != 0) {
        buf_free(&a.body);
        fail(p, 503);
        return;
    }
    if (a.watches && !p->request.is_head) {
        buf_free(&a.body);
        give_viewer(p);
        return;
    }
    p->state = HTTPD_SENDING;
    p->since_us = mono_now_us();
    send_head(h, p->conn, a.status, a.type, buf_len(&a.body), a.more);
    if (p->request.is_head)
        buf_free(&a.body);
    p->body = a.body;
    h->bytes += buf_len(&a.body);
    pump(p);
}

/* -- connections ----------------------------------------------------------- */

static void on_bytes(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    struct httpd_conn *p = httpd_conn_of(ctx);
    ddp_assert(p->conn == c);
    if (p->state != HTTPD_READING || !http_feed(&p->request, data, len))
        return; /* a second request behind the first is not read */
    if (p->request.status != 0)
        fail(p, p->request.status);
    else
        answer(p);
}

static void on_drained(void *ctx, struct conn *c)
{
    struct httpd_conn *p = httpd_conn_of(ctx);
    ddp_assert(p->conn == c);
    if (p->state == HTTPD_SENDING)
        pump(p);
}

static void on_eof(void *ctx, struct conn *c)
{
    struct httpd_conn *p = httpd_conn_of(ctx);
    if (p->state != HTTPD_READING)
        return; /* it has asked, and waits for the answer */
    httpd_conn_free(p);
    conn_close(c);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    (void)c;
    (void)why; /* a client may go at any time */
    httpd_conn_free(httpd_conn_of(ctx));
}

static const struct conn_handler handler = {
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_eof = on_eof,
    .on_closed = on_closed,
};

/* What comes from a connection that found the table full. */
static void
on_nothing(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)c;
    (void)data;
    (void)len;
}

static const struct conn_handler no_handler = {.on_bytes = on_nothing};

/* Whether a newcomer may have its place. */
static bool makes_room(const struct httpd_conn *p, int64_t now_us)
{
    if (p->state == HTTPD_READING)
        return now_us >= p->since_us + ROOM_US;
    return p->state == HTTPD_FINISHING && conn_queued(p->conn) == 0 &&
           now_us >= p->since_us + LINGER_US;
}

static struct httpd_conn *find_free(struct httpd *h)
{
    struct httpd_conn *oldest = NULL;
    int64_t now_us = mono_now_us();
    for (int i = 0; i < h->conf.conns_max; i++) {
        struct httpd_conn *p = &h->conns[i];
        if (p->conn == NULL)
            return p;
        if (makes_room(p, now_us) &&
            (oldest == NULL || p->since_us < oldest->since_us))
            oldest = p;
    }
    if (oldest == NULL)
        return NULL;
    struct conn *c = oldest->conn;
    httpd_conn_free(oldest);
    conn_close(c);
    return oldest;
}

static void on_sweep(uv_timer_t *timer);

void httpd_take(struct httpd *h, struct conn *c)
{
    struct httpd_conn *p = find_free(h);
    if (p == NULL) {
        conn_raw(c, &no_handler, h);
        send_error(h, c, 503, true);
        conn_close(c); /* the answer is in the socket's buffer, or lost */
        return;
    }
    ddp_assert(p->state == HTTPD_FREE && !h->closing);
    p->magic = CONN_MAGIC;
    p->state = HTTPD_READING;
    p->owner = h;
    p->conn = c;
    p->since_us = mono_now_us();
    buf_init(&p->body, HTTPD_BYTES_MAX);
    http_init(&p->request);
    p->accept = (struct http_field){.name = "Accept"};
    p->request.fields = &p->accept;
    p->request.n_fields = 1;
    if (h->n++ == 0)
        (void)uv_timer_start(&h->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    conn_raw(c, &handler, p);
}

int httpd_count(const struct httpd *h)
{
    return h->n;
}

/* -- time ------------------------------------------------------------------ */

static void expire(struct httpd_conn *p, int64_t now_us)
{
    struct conn *c = p->conn;
    bool reading = p->state == HTTPD_READING;
    if (reading && now_us >= p->since_us + HTTPD_REQUEST_US) {
        fail(p, 408);
    } else if (!reading && now_us >= p->since_us + HTTPD_ANSWER_US) {
        httpd_conn_free(p);
        conn_close(c);
    }
}

static void on_sweep(uv_timer_t *timer)
{
    struct httpd *h = httpd_of(timer->data);
    int64_t now_us = mono_now_us();
    for (int i = 0; i < h->conf.conns_max; i++)
        if (h->conns[i].conn != NULL)
            expire(&h->conns[i], now_us);
    if (h->n == 0)
        (void)uv_timer_stop(timer);
}

struct httpd *httpd_open(uv_loop_t *loop, const struct httpd_conf *conf)
{
    struct httpd *h = calloc(1, sizeof(*h));
    struct httpd_conn *conns = calloc((size_t)conf->conns_max, sizeof(*conns));
    if (h == NULL || conns == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %d HTTP connections",
               conf->conns_max);
    h->magic = HTTPD_MAGIC;
    h->conf = *conf;
    h->conns = conns;
    (void)uv_timer_init(loop, &h->sweep); /* cannot fail */
    h->sweep.data = h;
    return h;
}

static void on_sweep_closed(uv_handle_t *handle)
{
    struct httpd *h = httpd_of(handle->data);
    h->magic = 0;
    free(h->conns);
    free(h);
}

void httpd_close(struct httpd *h)
{
    if (h->closing)
        return;
    h->closing = true;
    for (int i = 0; i < h->conf.conns_max; i++) {
        struct conn *c = h->conns[i].conn;
        if (c == NULL)
            continue;
        httpd_conn_free(&h->conns[i]);
        conn_close(c);
    }
    uv_close((uv_handle_t *)&h->sweep, on_sweep_closed);
}
