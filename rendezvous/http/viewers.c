/*
 * Happy path: viewers_take sends the head and the newest document; a new one is
 * begun if that is older than the pace, however often they come and go.
 * viewers_changed sets the timer, which begins the next document. It is made a
 * step a turn of the loop (on_idle), so that what else comes is not kept
 * waiting, and then given to each viewer (show). The connection takes it in
 * pieces (pump), as the socket does. While nothing changes the timer comes for
 * the lines of comment, by which both ends see that the other one is there.
 *
 * Failure modes:
 * - a viewer still has a document to take: it misses this one, and gets the
 *   newest when it is through (on_drained);
 * - it takes nothing: the timer drops it (is_stuck). What the kernel holds for
 *   it is kept small, so that this is seen soon;
 * - the document cannot be made: viewers keep what they have until the next
 *   change;
 * - something changes while one is made: the next one follows, a pace later;
 * - the peer ends the connection, or sends more than its request, which is not
 *   read: only its place is freed.
 */
#include "rendezvous/http/viewers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rendezvous/base/log.h"
#include "rendezvous/http/http.h"

#define VIEWERS_MAGIC 0x76696577u
#define VIEWER_MAGIC  0x6c6f6f6bu
#define PIECE_LEN     (64u * 1024u)
#define KERNEL_LEN    (64 * 1024)       /* bytes; Linux doubles it */
#define GATHER_US     (30 * MONO_MS)    /* what comes together is shown so */
#define LOOK_US       (250 * MONO_MS)   /* for viewers that are stuck */
#define FIRST_LINE    "retry: 1000\n\n" /* ms, for a browser's EventSource */
#define COMMENT       ":\n\n"

/* Shared by the viewers that still take it. */
struct document {
    int holders;
    size_t len;
    char text[];
};

struct viewer {
    unsigned magic; /* 0 while free */
    struct viewers *owner;
    struct conn *conn;
    struct document *doc; /* that it takes; NULL: it is through */
    size_t at;
    bool behind;      /* a newer one is there */
    int64_t since_us; /* the last time that it was through, or had its start */
    int64_t sent_us;  /* the last time that anything was sent */
};

struct viewers {
    unsigned magic;
    struct viewers_conf conf;
    uv_timer_t timer;
    uv_idle_t idle; /* runs while a document is being made */
    int open_handles;
    struct viewer at[VIEWERS_MAX];
    int n;
    struct document *newest; /* kept for the pace; NULL: there is none */
    struct buf text;         /* of the one that is being made */
    bool making;
    int64_t begun_us; /* of the newest one, or of the last try */
    bool changed;     /* since then */
    bool closing;
};

static struct viewers *viewers_of(void *data)
{
    struct viewers *v = data;
    ddp_assert(v->magic == VIEWERS_MAGIC);
    return v;
}

static struct viewer *viewer_of(void *ctx)
{
    struct viewer *p = ctx;
    ddp_assert(p->magic == VIEWER_MAGIC && p->conn != NULL);
    return p;
}

/* -- documents ------------------------------------------------------------- */

static void let_go(struct document **d)
{
    if (*d != NULL && --(*d)->holders == 0)
        free(*d);
    *d = NULL;
}

static void on_idle(uv_idle_t *idle);

static void begin_document(struct viewers *v, int64_t now_us)
{
    ddp_assert(!v->making);
    v->making = true;
    v->begun_us = now_us;
    v->changed = false;
    buf_init(&v->text, VIEWERS_DOC_MAX);
    (void)uv_idle_start(&v->idle, on_idle); /* cannot fail */
}

/* A step of "data: ... \n\n"; 0: that was the last one. */
static int make_more(struct viewers *v)
{
    struct buf *text = &v->text;
    if (buf_len(text) == 0 && buf_put(text, "data: ", 6) != 0)
        return -1;
    int rc = v->conf.document(v->conf.ctx, text);
    return rc == 0 ? buf_put(text, "\n\n", 2) : rc;
}

/* NULL: no memory. */
static struct document *document_of(const struct buf *text)
{
    struct document *d = malloc(sizeof(*d) + buf_len(text));
    if (d == NULL)
        return NULL;
    d->holders = 1;
    d->len = buf_len(text);
    memcpy(d->text, buf_head(text), d->len);
    return d;
}

static void end_document(struct viewers *v, struct document *d)
{
    let_go(&v->newest);
    v->newest = d;
    v->making = false;
    buf_free(&v->text);
    (void)uv_idle_stop(&v->idle);
}

/* -- a viewer -------------------------------------------------------------- */

static void viewer_free(struct viewer *p)
{
    struct viewers *v = p->owner;
    let_go(&p->doc);
    p->conn = NULL;
    p->magic = 0;
    v->n--;
}

static void drop(struct viewer *p)
{
    struct conn *c = p->conn;
    viewer_free(p);
    conn_close(c);
}

/* Gives the conn as much as the socket takes. A conn that has to be given up
 * tells so later, from the loop: p stays. */
static void pump(struct viewer *p, int64_t now_us)
{
    while (p->doc != NULL && conn_queued(p->conn) < PIECE_LEN) {
        size_t left = p->doc->len - p->at;
        size_t piece = left < PIECE_LEN ? left : PIECE_LEN;
        conn_send_bytes(p->conn, p->doc->text + p->at, piece);
        p->at += piece;
        p->sent_us = now_us;
        if (p->at == p->doc->len)
            let_go(&p->doc);
    }
}

static bool is_through(const struct viewer *p)
{
    return p->doc == NULL && conn_queued(p->conn) == 0;
}

static void show(struct viewer *p, int64_t now_us)
{
    p->behind = !is_through(p);
    if (p->behind || p->owner->newest == NULL)
        return;
    p->doc = p->owner->newest;
    p->doc->holders++;
    p->at = 0;
    p->since_us = now_us;
    pump(p, now_us);
}

static void comment(struct viewer *p, int64_t now_us)
{
    conn_send_bytes(p->conn, COMMENT, strlen(COMMENT));
    p->sent_us = p->since_us = now_us;
}

/* -- time ------------------------------------------------------------------ */

static void on_timer(uv_timer_t *timer);

/* The next document, or the next look at the viewers. */
static void arm(struct viewers *v, int64_t now_us)
{
    int64_t at_us = now_us + LOOK_US;
    int64_t next_us = v->begun_us + v->conf.pace_us;
    if (next_us < now_us + GATHER_US)
        next_us = now_us + GATHER_US;
    if (v->changed && next_us < at_us)
        at_us = next_us;
    uv_update_time(v->timer.loop);
    (void)uv_timer_start(&v->timer, on_timer,
                         (uint64_t)mono_ms_until(now_us, at_us), 0);
}

static void look(struct viewer *p, int64_t now_us)
{
    const struct viewers_conf *conf = &p->owner->conf;
    if (!is_through(p) && now_us >= p->since_us + conf->take_us)
        drop(p);
    else if (is_through(p) && now_us >= p->sent_us + conf->quiet_us)
        comment(p, now_us);
}

static void on_idle(uv_idle_t *idle)
{
    struct viewers *v = viewers_of(idle->data);
    int64_t now_us = mono_now_us();
    int rc = make_more(v);
    if (rc > 0)
        return;
    end_document(v, rc == 0 ? document_of(&v->text) : NULL);
    for (int i = 0; i < v->conf.max; i++)
        if (v->at[i].conn != NULL)
            show(&v->at[i], now_us);
    arm(v, now_us); /* lets go of it in time, though nobody looks any more */
}

static void on_timer(uv_timer_t *timer)
{
    struct viewers *v = viewers_of(timer->data);
    int64_t now_us = mono_now_us();
    if (v->changed && !v->making && now_us >= v->begun_us + v->conf.pace_us)
        begin_document(v, now_us);
    for (int i = 0; i < v->conf.max; i++)
        if (v->at[i].conn != NULL)
            look(&v->at[i], now_us);
    if (v->n > 0 || now_us < v->begun_us + v->conf.pace_us)
        arm(v, now_us);
    else
        let_go(&v->newest);
}

void viewers_changed(struct viewers *v)
{
    if (v->changed || v->n == 0)
        return;
    v->changed = true;
    arm(v, mono_now_us());
}

/* -- connections ----------------------------------------------------------- */

static void on_bytes(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)c;
    (void)data;
    (void)len; /* nothing behind the request is read */
}

static void on_drained(void *ctx, struct conn *c)
{
    struct viewer *p = viewer_of(ctx);
    int64_t now_us = mono_now_us();
    ddp_assert(p->conn == c);
    pump(p, now_us);
    if (is_through(p) && p->behind)
        show(p, now_us);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    (void)c;
    (void)why; /* a viewer may go at any time */
    viewer_free(viewer_of(ctx));
}

static const struct conn_handler handler = {
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

static struct viewer *find_place(struct viewers *v)
{
    for (int i = 0; i < v->conf.max; i++)
        if (v->at[i].conn == NULL)
            return &v->at[i];
    return NULL;
}

static void begin(struct viewer *p, struct conn *c)
{
    int small = KERNEL_LEN;
    char head[HTTP_LINE_MAX];
    size_t len = http_head(head, 200, "text/event-stream", HTTP_ENDLESS, "");
    p->magic = VIEWER_MAGIC;
    p->conn = c;
    p->since_us = p->sent_us = mono_now_us();
    p->behind = false;
    conn_raw(c, &handler, p);
    (void)setsockopt(conn_fd(c), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    conn_send_bytes(c, head, len);
    conn_send_bytes(c, FIRST_LINE, strlen(FIRST_LINE));
}

bool viewers_take(struct viewers *v, struct conn *c)
{
    int64_t now_us = mono_now_us();
    ddp_assert(!v->closing);
    struct viewer *p = find_place(v);
    if (p == NULL)
        return false;
    p->owner = v;
    v->n++;
    begin(p, c);
    if (!v->making && now_us >= v->begun_us + v->conf.pace_us)
        begin_document(v, now_us);
    else if (v->n == 1 || (!v->making && v->newest == NULL))
        v->changed = true; /* nobody was there to be told */
    if (!v->making)
        show(p, now_us);
    arm(v, now_us);
    return true;
}

int viewers_count(const struct viewers *v)
{
    return v->n;
}

/* -- open and close -------------------------------------------------------- */

int viewers_share(int http_max)
{
    int half = http_max / 2;
    return half < VIEWERS_MAX ? half : VIEWERS_MAX;
}

static int64_t or_else(int64_t given_us, int64_t us)
{
    return given_us > 0 ? given_us : us;
}

struct viewers *viewers_open(uv_loop_t *loop, const struct viewers_conf *conf)
{
    struct viewers *v = calloc(1, sizeof(*v));
    if (v == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for viewers");
    ddp_assert(conf->max >= 0 && conf->max <= VIEWERS_MAX);
    v->magic = VIEWERS_MAGIC;
    v->conf = *conf;
    v->conf.pace_us = or_else(conf->pace_us, VIEWERS_PACE_US);
    v->conf.take_us = or_else(conf->take_us, VIEWERS_TAKE_US);
    v->conf.quiet_us = or_else(conf->quiet_us, VIEWERS_QUIET_US);
    v->begun_us = mono_now_us() - v->conf.pace_us;
    (void)uv_timer_init(loop, &v->timer); /* these two cannot fail */
    (void)uv_idle_init(loop, &v->idle);
    v->timer.data = v->idle.data = v;
    v->open_handles = 2;
    return v;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct viewers *v = viewers_of(handle->data);
    if (--v->open_handles > 0)
        return;
    v->magic = 0;
    let_go(&v->newest);
    free(v);
}

void viewers_close(struct viewers *v)
{
    if (v->closing)
        return;
    v->closing = true;
    for (int i = 0; i < v->conf.max; i++)
        if (v->at[i].conn != NULL)
            drop(&v->at[i]);
    if (v->making)
        end_document(v, NULL);
    uv_close((uv_handle_t *)&v->timer, on_handle_closed);
    uv_close((uv_handle_t *)&v->idle, on_handle_closed);
}
