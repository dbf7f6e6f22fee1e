/*
 * A place is: reading (a request comes in), sending (an answer goes out, in
 * pieces, as the socket takes them), finishing (all is with the conn, which
 * reads on until the peer closes). A sweep looks for those that take too long.
 */
#include "rendezvous/http/httpd.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/quota.h"

#define HTTPD_MAGIC 0x68747470u
#define SWEEP_MS    250
#define PIECE_LEN   (64u * 1024u)
#define ROOM_US     MONO_S          /* to ask, where others wait */
#define LINGER_US   (100 * MONO_MS) /* to close, where others wait */
#define PLAIN       "text/plain; charset=utf-8"

struct place {
    struct httpd *owner;
    struct conn *conn; /* NULL: free */
    int source;
    int64_t since_us; /* reading: when it came; else when it was answered */
    bool reading;
    bool finished; /* all of the answer is with the conn */
    struct buf body;
    struct http request;
};

struct httpd {
    unsigned magic;
    struct httpd_conf conf;
    uv_timer_t sweep;
    struct place *places;
    struct quota *sources; /* of those who have one */
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

static void place_free(struct place *p)
{
    p->owner->bytes -= buf_len(&p->body);
    p->owner->n--;
    quota_drop(p->owner->sources, p->source);
    buf_free(&p->body);
    p->conn = NULL;
}

/* -- answering ------------------------------------------------------------- */

static void send_head(struct httpd *h,
                      struct conn *c,
                      int status,
                      const char *type,
                      size_t body_len)
{
    char head[HTTP_LINE_MAX];
    size_t len = http_head(head, status, type, body_len);
    conn_send_bytes(c, head, len);
    if (h->conf.told != NULL)
        h->conf.told(h->conf.ctx, status);
}

static const char *say_why(int status)
{
    switch (status) {
    case 400:
        return "that is no request of HTTP/1.1\n";
    case 405:
        return "only GET and HEAD are served\n";
    case 408:
        return "the request did not come in 5 s\n";
    case 414:
        return "the target is longer than 1024 bytes\n";
    case 431:
        return "the request is longer than 8192 bytes\n";
    case 503:
        return "too much is asked at a time; ask again in a second\n";
    case 505:
        return "only HTTP/1 is spoken here\n";
    default:
        DDP_WRONG("http status");
    }
}

static void send_error(struct httpd *h, struct conn *c, int status, bool body)
{
    const char *why = say_why(status);
    send_head(h, c, status, PLAIN, strlen(why));
    if (body)
        conn_send_bytes(c, why, strlen(why));
}

/* As much as the socket takes; when all is with the conn, it finishes. */
static void pump(struct place *p)
{
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
    p->finished = true;
    conn_finish(c); /* may call on_closed: p may be free */
}

static void answered(struct place *p)
{
    p->reading = false;
    p->since_us = mono_now_us();
}

static void fail(struct place *p, int status)
{
    answered(p);
    send_error(p->owner, p->conn, status, !p->request.is_head);
    p->finished = true;
    conn_finish(p->conn);
}

/* Whether there is time left in this second; else it is the agents'. */
static bool is_busy(struct httpd *h, int64_t now_us)
{
    if (now_us >= mono_after(h->busy_since_us, MONO_S)) {
        h->busy_since_us = now_us;
        h->busy_us = 0;
    }
    return h->busy_us >= HTTPD_BUSY_US;
}

static void answer(struct place *p)
{
    struct httpd *h = p->owner;
    struct httpd_answer a = {.status = 200, .type = PLAIN};
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
    answered(p);
    send_head(h, p->conn, a.status, a.type, buf_len(&a.body));
    if (p->request.is_head)
        buf_free(&a.body);
    p->body = a.body;
    h->bytes += buf_len(&a.body);
    pump(p);
}

/* -- connections ----------------------------------------------------------- */

static void on_bytes(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    struct place *p = ctx;
    (void)c;
    if (!p->reading || !http_feed(&p->request, data, len))
        return; /* a second request behind the first is not read */
    if (p->request.status != 0)
        fail(p, p->request.status);
    else
        answer(p);
}

static void on_drained(void *ctx, struct conn *c)
{
    struct place *p = ctx;
    (void)c;
    if (!p->reading)
        pump(p);
}

static void on_eof(void *ctx, struct conn *c)
{
    struct place *p = ctx;
    if (!p->reading)
        return; /* it has asked, and waits for the answer */
    place_free(p);
    conn_close(c);
}

static void on_closed(
    void *ctx, struct conn *c, bool orderly, bool refused, const char *why)
{
    (void)c;
    (void)orderly;
    (void)refused;
    (void)why; /* who asks may go at any time */
    place_free(ctx);
}

static const struct conn_handler handler = {
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_eof = on_eof,
    .on_closed = on_closed,
};

/* What a connection says that there was no place for. */
static void
on_nothing(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)c;
    (void)data;
    (void)len;
}

static const struct conn_handler no_handler = {.on_bytes = on_nothing};

/* Whether somebody else may have its place: at once, where its source has the
 * most and the other's has less. */
static bool makes_room(const struct place *p, int largest, int64_t now_us)
{
    if (p->source == largest)
        return true;
    if (p->reading)
        return now_us >= p->since_us + ROOM_US;
    return p->finished && conn_queued(p->conn) == 0 &&
           now_us >= p->since_us + LINGER_US;
}

static struct place *find_place(struct httpd *h, const char *addr)
{
    struct place *oldest = NULL;
    int64_t now_us = mono_now_us();
    int largest = quota_largest(h->sources, addr);
    for (int i = 0; i < h->conf.conns_max; i++) {
        struct place *p = &h->places[i];
        if (p->conn == NULL)
            return p;
        if (makes_room(p, largest, now_us) &&
            (oldest == NULL || p->since_us < oldest->since_us))
            oldest = p;
    }
    if (oldest == NULL)
        return NULL;
    struct conn *c = oldest->conn;
    place_free(oldest);
    conn_close(c);
    return oldest;
}

static void on_sweep(uv_timer_t *timer);

void httpd_take(struct httpd *h, struct conn *c)
{
    char addr[ADDR_TEXT_MAX];
    conn_peer(c, addr);
    struct place *p = find_place(h, addr);
    if (p == NULL) {
        conn_raw(c, &no_handler, h);
        send_error(h, c, 503, true);
        conn_close(c); /* it is in the socket's buffer, or lost */
        return;
    }
    p->owner = h;
    p->conn = c;
    p->source = quota_take(h->sources, addr);
    p->since_us = mono_now_us();
    p->reading = true;
    p->finished = false;
    buf_init(&p->body, HTTPD_BYTES_MAX);
    http_init(&p->request);
    if (h->n++ == 0)
        (void)uv_timer_start(&h->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    conn_raw(c, &handler, p);
}

int httpd_count(const struct httpd *h)
{
    return h->n;
}

/* -- time ------------------------------------------------------------------ */

static void expire(struct place *p, int64_t now_us)
{
    struct conn *c = p->conn;
    if (p->reading && now_us >= p->since_us + HTTPD_REQUEST_US) {
        fail(p, 408);
    } else if (!p->reading && now_us >= p->since_us + HTTPD_ANSWER_US) {
        place_free(p);
        conn_close(c);
    }
}

static void on_sweep(uv_timer_t *timer)
{
    struct httpd *h = httpd_of(timer->data);
    int64_t now_us = mono_now_us();
    for (int i = 0; i < h->conf.conns_max; i++)
        if (h->places[i].conn != NULL)
            expire(&h->places[i], now_us);
    if (h->n == 0)
        (void)uv_timer_stop(timer);
}

struct httpd *httpd_open(uv_loop_t *loop, const struct httpd_conf *conf)
{
    struct httpd *h = calloc(1, sizeof(*h));
    struct place *places = calloc((size_t)conf->conns_max, sizeof(*places));
    if (h == NULL || places == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %d HTTP connections",
               conf->conns_max);
    h->magic = HTTPD_MAGIC;
    h->conf = *conf;
    h->places = places;
    h->sources = quota_new(conf->conns_max);
    (void)uv_timer_init(loop, &h->sweep); /* cannot fail */
    h->sweep.data = h;
    return h;
}

static void on_sweep_closed(uv_handle_t *handle)
{
    struct httpd *h = httpd_of(handle->data);
    h->magic = 0;
    quota_del(h->sources);
    free(h->places);
    free(h);
}

void httpd_close(struct httpd *h)
{
    if (h->closing)
        return;
    h->closing = true;
    for (int i = 0; i < h->conf.conns_max; i++) {
        struct conn *c = h->places[i].conn;
        if (c == NULL)
            continue;
        place_free(&h->places[i]);
        conn_close(c);
    }
    uv_close((uv_handle_t *)&h->sweep, on_sweep_closed);
}
