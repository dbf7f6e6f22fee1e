/*
 * What comes in: the first bytes, by which the protocol is known; our hello;
 * TLS, if there is a key; then frames, each of which is one message. With a key
 * what is read goes to TLS first, and `in` has what TLS decrypted.
 *
 * Happy path: on_read, take_hello, then take_one for each frame, which calls
 * on_msg.
 *
 * Failure modes. First bytes that are no hello are shown to the owner
 * (on_foreign), which may make it a raw connection: take_raw is called then
 * instead of take_one. Everything else that a peer sends wrong ends the
 * connection, and on_closed tells why. A peer without the token is told so, in
 * plain text or by TLS's alert, and then finished. The handler may close or
 * finish the connection in any of its calls: the functions here return false
 * then, and nothing more is read.
 */
#include "rendezvous/net/conn_priv.h"
#include "rendezvous/net/farewell_frame.h"
#include "rendezvous/net/token.h"
#include "rendezvous/proto/frame.h"

#define PIECE_LEN 4096

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct conn *c = conn_of(h->data);
    /* One for all connections: libuv reads right after on_alloc and calls
     * on_read right after that. */
    static uint8_t sealed[PIECE_LEN];
    uint8_t *room = c->key != NULL ? sealed : buf_reserve(&c->in, PIECE_LEN);
    *out = uv_buf_init((char *)room, room == NULL ? 0 : PIECE_LEN);
}

/* Ends it after what is in `waiting`, by which the peer learns why. */
static void turn_away(struct conn *c, const char *why)
{
    c->handler->on_closed(c->ctx, c, why);
    conn_finish(c);
}

/* A launcher without a token is told in plain text that one is required. */
static void require_token(struct conn *c)
{
    struct msg m = {.kind = MSG_KIND_refused, .refused.code = DDP_E_CONFIG};
    static char json[MSG_JSON_MAX]; /* large for a stack */
    msg_set(m.refused.text, TOKEN_REQUIRED ": give --rdzv_token_file");
    int len = msg_encode(&m, json, sizeof(json));
    ddp_assert(len > 0);
    conn_say_hello(c);
    (void)frame_put(&c->waiting, json, (size_t)len); /* nearly empty: fits */
    turn_away(c, "the peer has no token, and this server requires one");
}

static const char *name_foreign(const struct conn *c)
{
    if (!c->accepted)
        return "the program that listens there is not a ddprun rendezvous";
    switch (first_of(buf_head(&c->in)[0])) {
    case FIRST_HTTP:
        return "the peer speaks HTTP, which this port does not serve";
    case FIRST_C10D:
        return "the peer speaks the c10d store's protocol, which this port "
               "does not serve";
    case FIRST_OURS:
    case FIRST_TLS:
    case FIRST_OTHER:
        break;
    }
    return "the peer does not speak the protocol of ddprun";
}

/* With a token nothing is taken in plain text but a message that proves itself:
 * a guard has neither TLS nor the token. */
static bool is_unproved(const struct conn *c)
{
    return c->key != NULL && c->tls == NULL;
}

static bool may_say(const struct conn *c, const struct msg *m)
{
    return !is_unproved(c) || (m->kind == MSG_KIND_vote && m->vote.last &&
                               farewell_is_genuine(&m->vote, c->key));
}

/* What came is no message. */
static void refuse_frame(struct conn *c, const char *why)
{
    if (is_unproved(c))
        require_token(c);
    else
        conn_lose(c, why);
}

/* Takes one frame, if there is one (*more). False: read no more. */
static bool take_one(struct conn *c, bool *more)
{
    const uint8_t *payload;
    size_t len;
    *more = false;
    if (frame_announced(&c->in) > c->frame_max) {
        refuse_frame(c, "the peer sent a frame of an impossible length");
        return false;
    }
    switch (frame_peek(&c->in, &payload, &len)) {
    case FRAME_MORE:
        return true;
    case FRAME_BAD:
        refuse_frame(c, "the peer sent a frame of an impossible length");
        return false;
    case FRAME_OK:
        break;
    }
    struct msg m;
    struct ddp_err err;
    if (msg_decode(payload, len, &m, &err) != 0) {
        refuse_frame(c, err.text);
        return false;
    }
    frame_drop(&c->in, len);
    if (!may_say(c, &m)) {
        require_token(c);
        return false;
    }
    c->counts->messages_in++;
    *more = true;
    c->handler->on_msg(c->ctx, c, &m);
    return conn_is_in_use(c);
}

/* Gives the owner all that came. False: read no more. */
static bool take_raw(struct conn *c)
{
    size_t len = buf_len(&c->in);
    if (len == 0)
        return true;
    c->handler->on_bytes(c->ctx, c, buf_head(&c->in), len);
    buf_take(&c->in, len);
    return conn_is_in_use(c);
}

/* The first bytes are not our hello: the owner may know the protocol. False:
 * read no more. */
static bool take_foreign(struct conn *c)
{
    enum first first = first_of(buf_head(&c->in)[0]);
    if (c->accepted && c->handler->on_foreign != NULL && first != FIRST_OURS)
        c->handler->on_foreign(c->ctx, c, first);
    if (c->talk == CONN_RAW)
        return take_raw(c);
    if (!conn_is_in_use(c))
        return false;
    if (c->accepted && c->key == NULL && first == FIRST_TLS) {
        conn_say_hello(c); /* so that it sees that it is not lost */
        turn_away(c, "the peer speaks TLS: it has a token, and this server "
                     "has none");
        return false;
    }
    conn_lose(c, name_foreign(c));
    return false;
}

static bool take_hello(struct conn *c)
{
    switch (frame_take_hello(&c->in)) {
    case FRAME_OK:
        if (is_unproved(c) && buf_len(&c->in) == 0) {
            require_token(c);
            return false;
        }
        c->talk = CONN_FRAMES;
        if (c->accepted && !is_unproved(c))
            conn_say_hello(c); /* uncork sends it */
        return true;
    case FRAME_MORE:
        return true;
    case FRAME_BAD:
        return take_foreign(c);
    }
    DDP_WRONG("hello");
}

/* Takes what is in `in`. False: read no more. */
static bool take_plain(struct conn *c)
{
    bool more = true;
    if (c->talk == CONN_HELLO && !take_hello(c))
        return false;
    switch (c->talk) {
    case CONN_HELLO:
        return true; /* the rest of it is to come */
    case CONN_RAW:
        return take_raw(c);
    case CONN_FRAMES:
        while (more)
            if (!take_one(c, &more))
                return false;
        return true;
    }
    DDP_WRONG("talk");
}

/* A dialled one can be used. False: read no more. */
static bool come_up(struct conn *c)
{
    ddp_assert(!c->accepted && c->life == CONN_OPEN);
    if (c->talk != CONN_RAW)
        conn_say_hello(c);
    c->handler->on_up(c->ctx, c);
    conn_flush(c);
    return conn_is_in_use(c);
}

/* A client whose handshake failed is sent OpenSSL's alert, which waits. */
static void fail_tls(struct conn *c)
{
    c->token_differs = tls_token_differs(c->tls);
    if (c->accepted && c->tls_at != CONN_TLS_UP)
        turn_away(c, tls_why(c->tls));
    else
        conn_lose(c, tls_why(c->tls));
}

/* False: it has failed. */
static bool begin_tls(struct conn *c)
{
    c->tls = tls_new(c->key, c->accepted, &c->waiting);
    if (c->tls == NULL) {
        conn_lose(c, "no memory for TLS");
        return false;
    }
    if (tls_state(c->tls) == TLS_FAILED)
        fail_tls(c);
    return tls_state(c->tls) != TLS_FAILED;
}

/* TLS may have come up by what was given. False: read no more. */
static bool see_tls(struct conn *c)
{
    ddp_assert(c->tls_at >= CONN_TLS_BEGUN);
    if (c->tls_at == CONN_TLS_UP || tls_state(c->tls) == TLS_HANDSHAKE)
        return true;
    c->tls_at = CONN_TLS_UP;
    return c->accepted || come_up(c);
}

static void decrypt(struct conn *c, const uint8_t *data, size_t len)
{
    size_t n;
    tls_give(c->tls, data, len);
    do {
        uint8_t *room = buf_reserve(&c->in, PIECE_LEN);
        if (room == NULL) {
            conn_lose(c, "no memory for what the peer sends");
            return;
        }
        n = tls_take(c->tls, room, PIECE_LEN);
        if (tls_state(c->tls) == TLS_FAILED) {
            fail_tls(c);
            return;
        }
        buf_commit(&c->in, n);
        if (!c->corked)
            conn_flush(c); /* the handshake, or an answer of OpenSSL's own */
        if (!see_tls(c))
            return;
    } while (n > 0 && take_plain(c));
}

/* The server's first byte. A server that answers in plain text has no token. */
static bool answers_by_tls(struct conn *c, uint8_t first)
{
    if (first == TLS_FIRST_BYTE || first == TLS_ALERT_BYTE)
        return true;
    c->token_differs = first == (uint8_t)FRAME_HELLO[0];
    conn_lose(c, c->token_differs
                     ? "the rendezvous server has no token, and this "
                       "launcher has one"
                     : "the program that listens there is not a ddprun "
                       "rendezvous with a token");
    return false;
}

/* The first byte of a client tells whether it speaks TLS. False: TLS was due
 * and has failed. */
static bool see_first_byte(struct conn *c, uint8_t first)
{
    ddp_assert(c->tls_at == CONN_TLS_DUE);
    if (c->accepted) {
        if (c->talk == CONN_RAW || buf_len(&c->in) > 0 ||
            first != TLS_FIRST_BYTE)
            return true; /* it speaks in plain text */
        if (!begin_tls(c))
            return false;
    } else if (!answers_by_tls(c, first)) {
        return false;
    }
    c->tls_at = CONN_TLS_BEGUN;
    return true;
}

static void read_with_key(struct conn *c, const uint8_t *data, size_t len)
{
    if (!conn_is_in_use(c))
        return;
    if (c->tls_at == CONN_TLS_DUE && !see_first_byte(c, data[0]))
        return;
    if (c->tls != NULL)
        decrypt(c, data, len);
    else if (buf_put(&c->in, data, len) == 0) /* full: it is no hello */
        (void)take_plain(c);
}

/* With a token anybody on the way could send the FIN. */
static bool is_finished(const struct conn *c)
{
    return c->fault != CONN_RESET && buf_len(&c->in) == 0 &&
           (c->tls == NULL || tls_state(c->tls) == TLS_OVER);
}

/* The peer sends no more. True: the connection goes on, to be written to. */
static bool take_eof(struct conn *c)
{
    if (c->talk != CONN_RAW || c->handler->on_eof == NULL || c->shut ||
        c->fault == CONN_RESET)
        return false;
    c->eof = true;
    if (conn_is_in_use(c))
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
        c->finished = n == UV_EOF && is_finished(c);
        conn_lose(c,
                  conn_read_error(c->fault == CONN_RESET ? UV_ECONNRESET : n));
        return;
    }
    c->counts->bytes_in += n;
    c->heard = true;
    c->corked = c->accepted && c->talk != CONN_RAW;
    if (c->key != NULL) {
        read_with_key(c, (const uint8_t *)piece->base, (size_t)n);
    } else {
        buf_commit(&c->in, (size_t)n);
        if (!conn_is_in_use(c)) {
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
        conn_flush(c); /* come_up follows after the handshake */
}
