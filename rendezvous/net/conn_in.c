/*
 * What comes in: first bytes, by which it is told whose they are; a hello; TLS,
 * where there is a key; then frames, each of which is a message. With a key
 * what is read lies in a piece of its own first, and `in` has what was opened.
 *
 * Whose first bytes are no hello is shown to the owner (on_foreign), which may
 * make it a raw connection: take_raw then stands where frames were taken. What
 * a peer sends wrong ends the connection, and is told by on_closed.
 */
#include "rendezvous/net/conn_in.h"

#include "rendezvous/net/conn_out.h"
#include "rendezvous/proto/frame.h"

#define PIECE_LEN 4096

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
    conn_say_hello(c);
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
        conn_lose(c, false, false, "a frame of an impossible length");
        return false;
    }
    switch (frame_peek(&c->in, &payload, &len)) {
    case FRAME_MORE:
        return true;
    case FRAME_BAD:
        conn_lose(c, false, false, "a frame of an impossible length");
        return false;
    case FRAME_OK:
        break;
    }
    struct msg m;
    struct ddp_err err;
    if (msg_decode(payload, len, &m, &err) != 0) {
        conn_lose(c, false, false, err.text);
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
        conn_say_hello(c); /* so that it sees that it is not lost */
        turn_away(c, "it speaks TLS: it has a token, and this rendezvous "
                     "has none");
        return false;
    }
    conn_lose(c, false, false, name_foreign(c));
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
            conn_say_hello(c); /* uncork sends it */
        return true;
    case FRAME_MORE:
        return true;
    case FRAME_BAD:
        return take_foreign(c);
    }
    DDP_WRONG("hello");
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

/* The way is open for whom we dialled. False: as for take_plain. */
static bool come_up(struct conn *c)
{
    if (!c->raw)
        conn_say_hello(c);
    c->handler->on_up(c->ctx, c);
    if (!c->closing)
        conn_flush(c);
    return !c->closing && !c->finishing;
}

/* A dialler hears why, and so does a peer that fails to greet us, for whom
 * OpenSSL's alert waits. */
static void fail_tls(struct conn *c)
{
    c->token_differs = tls_token_differs(c->tls);
    if (c->accepted && !c->secured)
        turn_away(c, tls_why(c->tls));
    else
        conn_lose(c, false, false, tls_why(c->tls));
}

/* False: it has failed. */
static bool begin_tls(struct conn *c)
{
    c->tls = tls_new(c->key, c->accepted, &c->waiting);
    if (c->tls == NULL) {
        conn_lose(c, false, false, "no memory for TLS");
        return false;
    }
    if (tls_state(c->tls) == TLS_FAILED)
        fail_tls(c);
    return tls_state(c->tls) != TLS_FAILED;
}

/* TLS may have come up by what was given. False: as for take_plain. */
static bool see_state(struct conn *c)
{
    if (c->secured || tls_state(c->tls) == TLS_HANDSHAKE)
        return true;
    c->secured = true;
    return c->accepted || come_up(c);
}

static void open_sealed(struct conn *c, const uint8_t *data, size_t len)
{
    size_t n;
    tls_give(c->tls, data, len);
    do {
        uint8_t *room = buf_reserve(&c->in, PIECE_LEN);
        if (room == NULL) {
            conn_lose(c, false, false, "no memory for what it says");
            return;
        }
        n = tls_take(c->tls, room, PIECE_LEN);
        if (tls_state(c->tls) == TLS_FAILED) {
            fail_tls(c);
            return;
        }
        buf_commit(&c->in, n);
        conn_flush(c); /* OpenSSL may have had something to say */
        if (!see_state(c))
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
    conn_lose(c, false, false,
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
    if (begins && data[0] == TLS_FIRST_BYTE && !begin_tls(c))
        return;
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
        conn_lose(c, n == UV_EOF && is_orderly(c), false,
                  conn_read_error(c->broken ? UV_ECONNRESET : n));
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
        conn_uncork(c);
}

int conn_start_reading(struct conn *c)
{
    return uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

void conn_begin(struct conn *c)
{
    if (c->key == NULL)
        (void)come_up(c);
    else if (begin_tls(c))
        conn_flush(c); /* come_up follows when the two ends have greeted */
}
