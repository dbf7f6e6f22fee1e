/*
 * Happy path: dial or accept, hello, frames. Sending tries the socket first
 * (uv_try_write) and keeps what it did not take in `waiting`; one uv_write at
 * a time flies from `flying`, so that its bytes stay where they are. What a
 * server answers to the messages of one read goes out in one write. Buffers
 * are there only while something is in them: of ten thousand connections
 * nearly all are silent.
 *
 * With a key, `plain` is what is to be sealed and `waiting` what is sealed;
 * what comes in lies in a piece of its own first. A stranger who says nothing
 * costs no TLS state.
 *
 * Whose first bytes are no hello is shown to the owner (on_foreign), which may
 * make it a raw connection: take_raw then stands where frames were taken.
 *
 * Ends: a FIN, an error, a peer's nonsense, a full queue (all told by
 * on_closed), or the owner's conn_close and conn_finish (told to nobody).
 * Memory goes in on_handle_closed, after libuv let go of the handle.
 */
#include "rendezvous/net/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/proto/frame.h"

#define CONN_MAGIC      0x636f6e6eu
#define FINISH_MS       2000
#define USER_TIMEOUT_MS 20000
#define PIECE_LEN       4096

struct conn {
    unsigned magic;
    uv_tcp_t tcp;
    uv_timer_t finish_timer;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    const struct conn_handler *handler;
    void *ctx;
    struct conn_counts *counts; /* never NULL */
    size_t frame_max;
    struct buf in, waiting, flying;
    struct tls_key *key; /* NULL: no token */
    struct tls *tls;     /* NULL: no key, or the peer has not begun */
    struct buf plain;    /* to be sealed; empty without a key */
    bool secured;        /* TLS is up, and on_up was called */
    bool answered;       /* something came from whom we dialled */
    bool token_differs;
    bool accepted; /* the peer owes us a hello */
    bool greeted;  /* ... and gave it */
    bool raw;      /* bytes, not messages */
    bool eof;      /* raw: the peer sends no more ... */
    bool shut;     /* ... and neither do we */
    bool up;
    bool corked; /* a read is being answered */
    bool writing;
    bool broken;   /* by a reset, which a write has seen already */
    bool overflow; /* is to be closed from the loop */
    bool finishing;
    bool closing;
    int open_handles;
    char peer[ADDR_TEXT_MAX]; /* of accepted ones; outlives the socket */
};

static struct conn *conn_of(void *data)
{
    struct conn *c = data;
    ddp_assert(c->magic == CONN_MAGIC);
    return c;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct conn *c = conn_of(h->data);
    if (--c->open_handles > 0)
        return;
    buf_free(&c->in);
    buf_free(&c->waiting);
    buf_free(&c->flying);
    buf_free(&c->plain);
    tls_free(c->tls);
    c->magic = 0;
    free(c);
}

/*
 * Whoever dialled ends in order by conn_finish only; all else is a reset: an
 * orderly FIN would tell the server that nothing is left on this node. The
 * reset goes out when the guard, too, lets go of its duplicate.
 */
void conn_close(struct conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    bool reset = !c->accepted && !c->finishing;
    if (!reset || uv_tcp_close_reset(&c->tcp, on_handle_closed) != 0)
        uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&c->finish_timer, on_handle_closed);
}

static void lose(struct conn *c, bool orderly, bool refused, const char *why)
{
    if (c->closing)
        return;
    bool tell = !c->finishing || c->raw;
    conn_close(c);
    if (tell)
        c->handler->on_closed(c->ctx, c, orderly, refused, why);
}

static void flush(struct conn *c);
static void uncork(struct conn *c);
static void overflow(struct conn *c);

/* What is in `plain` goes to `waiting`. It stays where it is while the two ends
 * greet. */
static void seal(struct conn *c)
{
    if (c->tls == NULL || tls_state(c->tls) != TLS_UP)
        return;
    if (tls_seal(c->tls, buf_head(&c->plain), buf_len(&c->plain)) != 0)
        overflow(c);
    buf_free(&c->plain); /* thousands of connections are mostly silent */
}

/* -- reading --------------------------------------------------------------- */

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct conn *c = conn_of(h->data);
    /* For all connections: libuv reads right behind on_alloc, and calls on_read
     * right behind that. */
    static _Thread_local uint8_t sealed[PIECE_LEN];
    uint8_t *room = c->key != NULL ? sealed : buf_reserve(&c->in, PIECE_LEN);
    *out = uv_buf_init((char *)room, room == NULL ? 0 : PIECE_LEN);
}

/* Who dials says hello first; the answer tells it that it has come to the
 * right place. */
static void say_hello(struct conn *c)
{
    struct buf *to = c->tls != NULL ? &c->plain : &c->waiting;
    (void)buf_put(to, FRAME_HELLO, FRAME_HELLO_LEN); /* empty: fits */
    seal(c);
}

/* Ends it with a word to the peer, which is in `waiting`. */
static void turn_away(struct conn *c, const char *why)
{
    c->handler->on_closed(c->ctx, c, false, false, why);
    conn_finish(c);
}

/* Who speaks plainly where a token is wanted is told so plainly. */
static void want_token(struct conn *c)
{
    struct msg m = {.kind = MSG_KIND_refused, .refused.code = DDP_E_CONFIG};
    char json[MSG_JSON_MAX];
    msg_set(m.refused.text, "it wants a token: give --rdzv_token_file");
    int len = msg_encode(&m, json, sizeof(json));
    ddp_assert(len > 0);
    say_hello(c);
    (void)frame_put(&c->waiting, json, (size_t)len); /* nearly empty: fits */
    turn_away(c, "it has no token, and this rendezvous wants one");
}

static const char *name_foreign(const struct conn *c)
{
    if (!c->accepted)
        return "what listens there is no ddprun rendezvous";
    switch (first_of(buf_head(&c->in)[0])) {
    case FIRST_HTTP:
        return "it speaks HTTP, which this port does not";
    case FIRST_C10D:
        return "it speaks the c10d store's protocol, which this port does not";
    case FIRST_OURS:
    case FIRST_TLS:
    case FIRST_OTHER:
        break;
    }
    return "it does not speak our protocol";
}

/* False: no more is to be read from it. The handler may have closed it, or
 * begun to finish it: what the peer sent behind that is nobody's any more. */
static bool take_one(struct conn *c, bool *more)
{
    const uint8_t *payload;
    size_t len;
    *more = false;
    if (frame_announced(&c->in) > c->frame_max) {
        lose(c, false, false, "a frame of an impossible length");
        return false;
    }
    switch (frame_peek(&c->in, &payload, &len)) {
    case FRAME_MORE:
        return true;
    case FRAME_BAD:
        lose(c, false, false, "a frame of an impossible length");
        return false;
    case FRAME_OK:
        break;
    }
    struct msg m;
    struct ddp_err err;
    if (msg_decode(payload, len, &m, &err) != 0) {
        lose(c, false, false, err.text);
        return false;
    }
    frame_drop(&c->in, len);
    c->counts->messages_in++;
    *more = true;
    c->handler->on_msg(c->ctx, c, &m);
    return !c->closing && !c->finishing;
}

/* As for take_one: all that came, to whoever speaks that protocol. */
static bool take_raw(struct conn *c)
{
    size_t len = buf_len(&c->in);
    if (len == 0)
        return true;
    c->handler->on_bytes(c->ctx, c, buf_head(&c->in), len);
    buf_take(&c->in, len);
    return !c->closing && !c->finishing;
}

/* It is not one of ours, which the owner may have known. */
static bool take_foreign(struct conn *c)
{
    enum first first = first_of(buf_head(&c->in)[0]);
    if (c->accepted && c->handler->on_foreign != NULL && first != FIRST_OURS)
        c->handler->on_foreign(c->ctx, c, first);
    if (c->raw)
        return take_raw(c);
    if (c->closing || c->finishing)
        return false;
    if (c->accepted && c->key == NULL && first == FIRST_TLS) {
        say_hello(c); /* so that it sees that it is not lost */
        turn_away(c, "it speaks TLS: it has a token, and this rendezvous "
                     "has none");
        return false;
    }
    lose(c, false, false, name_foreign(c));
    return false;
}

static bool take_hello(struct conn *c)
{
    switch (frame_take_hello(&c->in)) {
    case FRAME_OK:
        if (c->key != NULL && c->tls == NULL) {
            want_token(c);
            return false;
        }
        c->greeted = true;
        if (c->accepted)
            say_hello(c); /* uncork sends it */
        return true;
    case FRAME_MORE:
        return true;
    case FRAME_BAD:
        return take_foreign(c);
    }
    DDP_WRONG("hello");
}

static const char *read_error(ssize_t n)
{
    return n == UV_EOF          ? "the connection was closed"
           : n == UV_ECONNRESET ? "the connection was reset"
                                : uv_strerror((int)n);
}

/* False: no more is to be read from it. */
static bool take_plain(struct conn *c)
{
    if (!c->raw && !c->greeted && !take_hello(c))
        return false;
    if (c->raw)
        return take_raw(c);
    bool more = c->greeted;
    while (more)
        if (!take_one(c, &more))
            return false;
    return true;
}

/* Both have proved that they have the token. False: as for take_plain. */
static bool come_up(struct conn *c)
{
    c->secured = true;
    if (c->accepted)
        return true;
    if (!c->raw)
        say_hello(c);
    c->handler->on_up(c->ctx, c);
    if (!c->closing)
        flush(c);
    return !c->closing && !c->finishing;
}

/* A dialler hears why, and so does a peer that fails to greet us: OpenSSL's
 * alert waits for it. */
static void fail_tls(struct conn *c)
{
    c->token_differs = tls_token_differs(c->tls);
    if (c->accepted && !c->secured)
        turn_away(c, tls_why(c->tls));
    else
        lose(c, false, false, tls_why(c->tls));
}

static void open_sealed(struct conn *c, const uint8_t *data, size_t len)
{
    size_t n;
    tls_give(c->tls, data, len);
    do {
        uint8_t *room = buf_reserve(&c->in, PIECE_LEN);
        if (room == NULL) {
            lose(c, false, false, "no memory for what it says");
            return;
        }
        n = tls_take(c->tls, room, PIECE_LEN);
        if (tls_state(c->tls) == TLS_FAILED) {
            fail_tls(c);
            return;
        }
        buf_commit(&c->in, n);
        flush(c); /* OpenSSL may have had something to say */
        if (!c->secured && tls_state(c->tls) != TLS_GREETING && !come_up(c))
            return;
    } while (n > 0 && take_plain(c));
}

/* What answers in plain text has no token. */
static bool answers_sealed(struct conn *c, uint8_t first)
{
    if (c->accepted || c->answered)
        return true;
    c->answered = true;
    if (first == TLS_FIRST_BYTE || first == TLS_ALERT_BYTE)
        return true;
    c->token_differs = first == (uint8_t)FRAME_HELLO[0];
    lose(c, false, false,
         c->token_differs
             ? "the rendezvous has no token, and this launcher has one"
             : "what listens there is no ddprun rendezvous with a token");
    return false;
}

static void read_sealed(struct conn *c, const uint8_t *data, size_t len)
{
    if (c->finishing || !answers_sealed(c, data[0]))
        return;
    bool begins = c->tls == NULL && !c->raw && buf_len(&c->in) == 0;
    if (begins && data[0] == TLS_FIRST_BYTE) {
        c->tls = tls_new(c->key, true, &c->waiting);
        if (c->tls == NULL) {
            lose(c, false, false, "no memory for TLS");
            return;
        }
    }
    if (c->tls != NULL)
        open_sealed(c, data, len);
    else if (buf_put(&c->in, data, len) == 0) /* else it says more than that */
        (void)take_plain(c);
}

/* Whoever cuts the line can send a FIN: with a token it must be proved. */
static bool is_orderly(const struct conn *c)
{
    return buf_len(&c->in) == 0 && !c->broken &&
           (c->tls == NULL || tls_state(c->tls) == TLS_OVER ||
            tls_said_farewell(c->tls));
}

/* True: it goes on all the same, to send. */
static bool take_eof(struct conn *c)
{
    if (!c->raw || c->handler->on_eof == NULL || c->shut || c->broken)
        return false;
    c->eof = true;
    if (!c->finishing)
        c->handler->on_eof(c->ctx, c);
    return true;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *piece)
{
    struct conn *c = conn_of(stream->data);
    if (n == 0)
        return;
    if (n == UV_EOF && take_eof(c))
        return;
    if (n < 0) {
        lose(c, n == UV_EOF && is_orderly(c), false,
             read_error(c->broken ? UV_ECONNRESET : n));
        return;
    }
    c->counts->bytes_in += n;
    c->corked = c->accepted && !c->raw;
    if (c->key != NULL) {
        read_sealed(c, (const uint8_t *)piece->base, (size_t)n);
    } else {
        buf_commit(&c->in, (size_t)n);
        if (c->finishing) {
            buf_free(&c->in);
            return;
        }
        (void)take_plain(c);
    }
    if (buf_len(&c->in) == 0)
        buf_free(&c->in);
    if (c->corked)
        uncork(c);
}

/* -- writing --------------------------------------------------------------- */

static void on_shut(uv_shutdown_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    c->shut = true;
    /* The FIN is out, or the connection is broken. */
    if (!c->raw || c->eof || status != 0)
        lose(c, status == 0, false, "it is finished");
}

static void maybe_finish(struct conn *c)
{
    if (!c->finishing || c->writing || c->closing || buf_len(&c->waiting) > 0)
        return;
    if (!c->up ||
        uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shut) != 0)
        lose(c, false, false, "it was closed");
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    c->writing = false;
    if (c->closing)
        return;
    if (status != 0) {
        lose(c, false, false, uv_strerror(status));
        return;
    }
    buf_free(&c->flying);
    flush(c);
    if (c->raw && !c->finishing && c->handler->on_drained != NULL &&
        conn_queued(c) == 0)
        c->handler->on_drained(c->ctx, c);
    if (!c->closing)
        maybe_finish(c);
}

static void start_write(struct conn *c)
{
    struct buf empty = c->flying;
    c->flying = c->waiting;
    c->waiting = empty;
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)buf_head(&c->flying),
                                 (unsigned)buf_len(&c->flying));
    c->counts->bytes_out += (int64_t)buf_len(&c->flying);
    c->writing = true;
    int rc = uv_write(&c->write, (uv_stream_t *)&c->tcp, &piece, 1, on_written);
    if (rc != 0)
        c->writing = false; /* the reading side will tell of the error */
}

static void flush(struct conn *c)
{
    if (!c->up || c->writing || buf_len(&c->waiting) == 0)
        return;
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)buf_head(&c->waiting),
                                 (unsigned)buf_len(&c->waiting));
    int n = uv_try_write((uv_stream_t *)&c->tcp, &piece, 1);
    if (n > 0) {
        buf_take(&c->waiting, (size_t)n);
        c->counts->bytes_out += n;
    }
    if (buf_len(&c->waiting) == 0)
        buf_free(&c->waiting);
    /* The kernel tells of a reset once only: what is read next looks like the
     * end of an orderly connection. */
    c->broken |= n == UV_ECONNRESET || n == UV_ETIMEDOUT;
    if (buf_len(&c->waiting) == 0)
        return;
    if (n >= 0 || n == UV_EAGAIN)
        start_write(c);
    else if (c->raw)
        overflow(c); /* a raw one goes on behind an EOF: nothing else ends it */
}

static void uncork(struct conn *c)
{
    c->corked = false;
    if (c->closing)
        return;
    flush(c);
    maybe_finish(c);
}

static void on_overflow(uv_timer_t *timer)
{
    struct conn *c = conn_of(timer->data);
    if (c->raw && c->broken)
        lose(c, false, false, read_error(UV_ECONNRESET));
    else if (c->finishing) /* the peer took too long to take what was left */
        lose(c, false, false, "it did not take all that it was sent");
    else
        lose(c, false, false, "it does not read what it is sent");
}

static void overflow(struct conn *c)
{
    c->overflow = true;
    (void)uv_timer_start(&c->finish_timer, on_overflow, 0, 0);
}

void conn_send_json(struct conn *c, const char *json, size_t len)
{
    if (c->closing || c->finishing || c->overflow)
        return;
    struct buf *to = c->tls != NULL ? &c->plain : &c->waiting;
    if (frame_put(to, json, len) != 0) {
        overflow(c);
        return;
    }
    c->counts->messages_out++;
    seal(c);
    if (!c->corked)
        flush(c);
}

void conn_send(struct conn *c, const struct msg *m)
{
    char json[MSG_JSON_MAX];
    int len = msg_encode(m, json, sizeof(json));
    ddp_assert(len > 0);
    conn_send_json(c, json, (size_t)len);
}

void conn_send_bytes(struct conn *c, const void *data, size_t len)
{
    if (c->closing || c->finishing || c->overflow)
        return;
    if (buf_put(c->tls != NULL ? &c->plain : &c->waiting, data, len) != 0) {
        overflow(c);
        return;
    }
    seal(c);
    if (!c->corked)
        flush(c);
}

size_t conn_queued(const struct conn *c)
{
    return buf_len(&c->plain) + buf_len(&c->waiting) + buf_len(&c->flying);
}

void conn_finish(struct conn *c)
{
    if (c->closing || c->finishing)
        return;
    c->finishing = true;
    if (c->tls != NULL)
        tls_end(c->tls);
    flush(c);
    if (!c->overflow)
        (void)uv_timer_start(&c->finish_timer, on_overflow, FINISH_MS, 0);
    maybe_finish(c);
}

/* -- making ---------------------------------------------------------------- */

static struct conn_counts uncounted; /* of those that nobody counts */

static struct conn *
conn_make(uv_loop_t *loop, const struct conn_handler *handler, void *ctx)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->magic = CONN_MAGIC;
    c->counts = &uncounted;
    c->frame_max = FRAME_MAX;
    c->handler = handler;
    c->ctx = ctx;
    buf_init(&c->in, FRAME_MAX + 8192);
    buf_init(&c->waiting, CONN_QUEUE_MAX);
    buf_init(&c->flying, CONN_QUEUE_MAX);
    buf_init(&c->plain, CONN_QUEUE_MAX);
    if (uv_tcp_init(loop, &c->tcp) != 0) {
        free(c);
        return NULL;
    }
    (void)uv_timer_init(loop, &c->finish_timer); /* cannot fail */
    c->open_handles = 2;
    c->tcp.data = c->finish_timer.data = c;
    c->connect.data = c->write.data = c->shutdown.data = c;
    return c;
}

int conn_fd(const struct conn *c)
{
    uv_os_fd_t fd;
    return uv_fileno((const uv_handle_t *)&c->tcp, &fd) == 0 ? fd : -1;
}

/* A cut link is silent: only these two ever end a connection over one. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 15},
        {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_KEEPCNT, 10},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name,
                         &options[i].value, sizeof(options[i].value));
}

void conn_tune_listener(int fd)
{
    tune(fd);
}

static int start_reading(struct conn *c)
{
    c->up = true;
    if (!c->accepted)
        tune(conn_fd(c));
    return uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

static void read_peer(struct conn *c)
{
    struct sockaddr_storage ss;
    int len = sizeof(ss);
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&ss, &len) == 0)
        addr_text((const struct sockaddr *)&ss, c->peer);
}

struct conn *conn_accept(uv_loop_t *loop,
                         int fd,
                         const struct conn_handler *handler,
                         void *ctx,
                         struct ddp_err *err)
{
    struct conn *c = conn_make(loop, handler, ctx);
    if (c == NULL) {
        (void)close(fd);
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a connection");
        return NULL;
    }
    c->accepted = true;
    int rc = uv_tcp_open(&c->tcp, fd);
    if (rc != 0)
        (void)close(fd); /* it is not the handle's */
    else
        rc = start_reading(c);
    if (rc == 0)
        read_peer(c);
    if (rc != 0) {
        ddp_err_set(err, DDP_E_IO, "cannot accept: %s", uv_strerror(rc));
        conn_close(c);
        return NULL;
    }
    return c;
}

static void on_connected(uv_connect_t *req, int status)
{
    struct conn *c = conn_of(req->data);
    if (c->closing)
        return;
    int rc = status != 0 ? status : start_reading(c);
    if (rc != 0) {
        lose(c, false, rc == UV_ECONNREFUSED, uv_strerror(rc));
        return;
    }
    if (c->key != NULL) {
        c->tls = tls_new(c->key, false, &c->waiting);
        if (c->tls == NULL)
            lose(c, false, false, "no memory for TLS");
        else if (tls_state(c->tls) == TLS_FAILED)
            fail_tls(c);
        else
            flush(c); /* come_up goes on */
        return;
    }
    if (!c->raw)
        say_hello(c);
    c->handler->on_up(c->ctx, c);
    if (!c->closing)
        flush(c);
}

struct conn *conn_dial(uv_loop_t *loop,
                       const struct sockaddr *to,
                       const struct conn_handler *handler,
                       void *ctx,
                       struct ddp_err *err)
{
    struct conn *c = conn_make(loop, handler, ctx);
    if (c == NULL) {
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a connection");
        return NULL;
    }
    int rc = uv_tcp_connect(&c->connect, &c->tcp, to, on_connected);
    if (rc != 0) {
        ddp_err_set(err, DDP_E_UNREACHABLE, "cannot connect: %s",
                    uv_strerror(rc));
        conn_close(c);
        return NULL;
    }
    return c;
}

void conn_secure(struct conn *c, struct tls_key *key)
{
    c->key = key;
}

bool conn_is_sealed(const struct conn *c)
{
    return c->tls != NULL;
}

bool conn_is_proved(const struct conn *c)
{
    return c->tls != NULL && tls_is_answered(c->tls);
}

void conn_raw(struct conn *c, const struct conn_handler *h, void *ctx)
{
    ddp_assert(h->on_bytes != NULL && !c->greeted);
    c->raw = true;
    c->corked = false;
    c->handler = h;
    c->ctx = ctx;
}

bool conn_may_yield(const struct conn *c)
{
    return c->accepted && c->tls == NULL && !c->greeted && !c->raw &&
           !c->closing && !c->finishing;
}

/* libuv takes the descriptor out of its epoll set before it closes it, so that
 * nothing of the duplicate is told here any more. */
int conn_yield(struct conn *c, struct buf *rest)
{
    ddp_assert(conn_may_yield(c));
    int fd = fcntl(conn_fd(c), F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return -1;
    *rest = c->in;
    buf_init(&c->in, rest->max);
    conn_close(c);
    return fd;
}

void conn_limit_frames(struct conn *c, size_t frame_max)
{
    ddp_assert(frame_max <= FRAME_MAX);
    c->frame_max = frame_max;
}

void conn_count(struct conn *c, struct conn_counts *counts)
{
    c->counts = counts;
}

bool conn_token_differs(const struct conn *c)
{
    return c->token_differs;
}

const uint8_t *conn_farewell(const struct conn *c)
{
    return c->tls != NULL ? tls_farewell(c->tls) : NULL;
}

void conn_set_ctx(struct conn *c, void *ctx)
{
    c->ctx = ctx;
}

void *conn_ctx(const struct conn *c)
{
    return c->ctx;
}

void conn_peer(const struct conn *c, char text[ADDR_TEXT_MAX])
{
    memcpy(text, c->peer, sizeof(c->peer));
}

void conn_here(const struct conn *c, char text[ADDR_TEXT_MAX])
{
    struct sockaddr_storage ss;
    int len = sizeof(ss);
    text[0] = '\0';
    if (uv_tcp_getsockname(&c->tcp, (struct sockaddr *)&ss, &len) == 0)
        addr_text((const struct sockaddr *)&ss, text);
}
