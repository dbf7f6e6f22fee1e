/*
 * One connection's TLS, by OpenSSL, between the bytes of the socket and those
 * of our protocol. Its BIO reads what tls_give was given and appends to the
 * owner's buffer, so that a connection has no buffers of its own.
 *
 * Happy path: hellos are exchanged (shake_hands), both ends prove that they
 * have the token (come_up), then SSL_read and SSL_write do the rest. The SSL
 * object lives as long as the connection; what it needs for the handshake and
 * for one record is freed by OpenSSL when that is done.
 *
 * Failure modes, all of which end in TLS_FAILED, for good: a peer with another
 * token (the server says so by an alert), a server with a certificate instead
 * (refused: that proves nothing), a record that was changed, repeated or left
 * out, bytes that are no TLS.
 *
 * Bounds before a proof. OpenSSL takes 50 KB as soon as a handshake begins, and
 * room for as long a message as a header claims, up to 128 KB. So in the
 * handshake a server gives OpenSSL whole records only, and of those in plain
 * text only a ClientHello of a launcher's size (admit). This looks at nine
 * bytes and can only refuse: what is in the hello is for OpenSSL to judge.
 */
#include "rendezvous/net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/net/tls_priv.h"

#define TLS_MAGIC      0x746c7321u
#define HEAD_LEN       5u    /* of a record: type, version, length */
#define HELLO_HEAD_LEN 9u    /* ... and the type and length of its message */
#define TYPE_HANDSHAKE 22u   /* of a record */
#define CLIENT_HELLO   1u    /* of a message */
#define HELLO_MAX      2048u /* bytes of a record; ours has about 300 */
#define HELLOS_MAX     2u    /* the second: if the server wants another group */
#define WHY_MAX        160

struct tls {
    unsigned magic;
    struct tls *next, **link; /* the list of all connections */
    struct tls_key *key;
    SSL *ssl; /* NULL: accepted and no whole hello is there yet, or failed */
    struct buf *out;
    struct buf part;     /* accepted, in the handshake: what came of records */
    const uint8_t *data; /* what was given and OpenSSL has not read ... */
    size_t len;
    size_t admitted;      /* ... and how much of it OpenSSL may read */
    size_t handshake_len; /* bytes that came before TLS_UP */
    unsigned hellos;      /* records in plain text that were admitted */
    unsigned which;       /* of the key's tokens, that is tried or proved */
    enum tls_state state;
    bool accepts;
    bool proved;        /* accepted: the hello was made with the token */
    bool token_differs; /* in TLS_FAILED */
    char why[WHY_MAX];  /* in TLS_FAILED */
};

static struct tls *all_tls;

static struct tls *tls_of(void *data)
{
    struct tls *t = data;
    ddp_assert(t->magic == TLS_MAGIC);
    return t;
}

/* -- OpenSSL's way to our buffers ------------------------------------------ */

static int on_bio_read(BIO *b, char *room, size_t room_len, size_t *n)
{
    struct tls *t = tls_of(ossl.f_BIO_get_data(b));
    ddp_assert(t->admitted <= t->len);
    ossl.f_BIO_clear_flags(b, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    *n = t->admitted < room_len ? t->admitted : room_len;
    if (*n == 0) {
        ossl.f_BIO_set_flags(b, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return 0;
    }
    memcpy(room, t->data, *n);
    t->data += *n;
    t->len -= *n;
    t->admitted -= *n;
    return 1;
}

/* Without a flag to retry: a full buffer is the end of the connection. */
static int on_bio_write(BIO *b, const char *data, size_t len, size_t *n)
{
    struct tls *t = tls_of(ossl.f_BIO_get_data(b));
    ossl.f_BIO_clear_flags(b, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    *n = buf_put(t->out, data, len) == 0 ? len : 0;
    return *n == len;
}

static long on_bio_ctrl(BIO *b, int cmd, long number, void *pointer)
{
    (void)b;
    (void)number;
    (void)pointer;
    return cmd == BIO_CTRL_FLUSH;
}

static BIO *bio_new(struct tls *t)
{
    static BIO_METHOD *method; /* one for all, kept */
    if (method == NULL) {
        int type = ossl.f_BIO_get_new_index() | BIO_TYPE_SOURCE_SINK;
        BIO_METHOD *m = ossl.f_BIO_meth_new(type, "ddprun");
        if (m == NULL || ossl.f_BIO_meth_set_read_ex(m, on_bio_read) != 1 ||
            ossl.f_BIO_meth_set_write_ex(m, on_bio_write) != 1 ||
            ossl.f_BIO_meth_set_ctrl(m, on_bio_ctrl) != 1) {
            ossl.f_BIO_meth_free(m);
            return NULL;
        }
        method = m;
    }
    BIO *bio = ossl.f_BIO_new(method);
    if (bio != NULL) {
        ossl.f_BIO_set_data(bio, t);
        ossl.f_BIO_set_init(bio, 1);
    }
    return bio;
}

/* -1: no memory. */
static int begin(struct tls *t)
{
    ddp_assert(t->ssl == NULL && t->state == TLS_HANDSHAKE);
    BIO *bio = bio_new(t);
    if (bio == NULL)
        return -1;
    t->ssl = tls_key_ssl(t->key, t->which, t->accepts);
    if (t->ssl == NULL) {
        (void)ossl.f_BIO_free(bio);
        return -1;
    }
    ossl.f_SSL_set_bio(t->ssl, bio, bio); /* which owns it now */
    return 0;
}

/* -- ends ------------------------------------------------------------------ */

/* What was given is not looked at any more. */
static void read_no_more(struct tls *t, enum tls_state state)
{
    ddp_assert(state == TLS_OVER || state == TLS_FAILED);
    t->state = state;
    t->data = NULL;
    t->len = t->admitted = 0;
}

static void fail(struct tls *t, const char *why)
{
    read_no_more(t, TLS_FAILED);
    ossl.f_SSL_free(t->ssl); /* its alert is in `out` */
    t->ssl = NULL;
    (void)snprintf(t->why, sizeof(t->why), "%s", why); /* may be cut */
}

/* Of OpenSSL's error: `what`, and the reason that it gives. */
static void fail_because(struct tls *t, const char *what)
{
    char why[WHY_MAX];
    const char *reason =
        ossl.f_ERR_reason_error_string(ossl.f_ERR_peek_error());
    (void)snprintf(why, sizeof(why), "%s%s%s%s", what, /* may be cut */
                   reason != NULL ? " (" : "", reason != NULL ? reason : "",
                   reason != NULL ? ")" : "");
    fail(t, why);
}

#define NO_PROOF "the peer does not prove that it has the token"
#define NO_RENDEZVOUS                                                          \
    "the program that listens there speaks TLS, but is not a ddprun "          \
    "rendezvous with a token"

/* The alerts by which a server says that the client's binder is wrong: the one
 * of OpenSSL, and the one that RFC 8446, 4.2.11 has. Any other one is from a
 * server in trouble, or from one that knows nothing of our token (HTTPS). */
static bool is_alert_of_binder(int reason)
{
    return reason == SSL_AD_REASON_OFFSET + SSL_AD_ILLEGAL_PARAMETER ||
           reason == SSL_AD_REASON_OFFSET + SSL_AD_DECRYPT_ERROR;
}

/* A server whose token differs says so by an alert; the server itself sees it
 * in the binder. */
static void fail_handshake(struct tls *t)
{
    int reason = ERR_GET_REASON(ossl.f_ERR_peek_error());
    t->token_differs = t->accepts ? reason == SSL_R_BINDER_DOES_NOT_VERIFY
                                  : is_alert_of_binder(reason);
    if (!t->token_differs)
        fail_because(t, t->accepts ? NO_PROOF : NO_RENDEZVOUS);
    else if (t->accepts)
        fail(t, "the peer's token differs from the token of this server");
    else
        fail(t, "the token of this launcher differs from the token of the "
                "rendezvous server");
}

/* -- the handshake --------------------------------------------------------- */

static void come_up(struct tls *t)
{
    /* A handshake by certificate is none: the token must have been used. */
    if (ossl.f_SSL_session_reused(t->ssl) != 1) {
        fail(t, t->accepts ? NO_PROOF : NO_RENDEZVOUS);
        return;
    }
    t->state = TLS_UP;
    t->admitted = t->len;
}

/* Whether a client's first hello may have been made with the next token. */
static bool may_have_next(const struct tls *t)
{
    return t->accepts && t->hellos == 1 && t->which + 1 < TOKENS_MAX &&
           t->key->psks[t->which + 1].is_set &&
           ERR_GET_REASON(ossl.f_ERR_peek_error()) ==
               SSL_R_BINDER_DOES_NOT_VERIFY;
}

/* False: it has failed by the token, and the next one is to be tried. */
static bool try_step(struct tls *t)
{
    ossl.f_ERR_clear_error();
    int rc = ossl.f_SSL_do_handshake(t->ssl);
    if (rc == 1)
        come_up(t);
    else if (ossl.f_SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_READ)
        t->proved = ossl.f_SSL_session_reused(t->ssl) == 1;
    else if (may_have_next(t))
        return false;
    else
        fail_handshake(t);
    return true;
}

/*
 * OpenSSL reads what is admitted. All tokens have the same identity, so that a
 * recording does not tell which token a client has. If a hello was not made
 * with the token of this SSL object, a new object with the next token gets the
 * hello, and the alert is not sent.
 */
static void step(struct tls *t)
{
    const uint8_t *data = t->data;
    size_t len = t->len, admitted = t->admitted, said = buf_len(t->out);
    while (!try_step(t)) {
        ossl.f_SSL_free(t->ssl);
        t->ssl = NULL;
        buf_cut(t->out, said);
        t->data = data;
        t->len = len;
        t->admitted = admitted;
        t->which++;
        if (begin(t) != 0) {
            fail(t, "no memory for TLS");
            return;
        }
    }
}

/*
 * Admits the next record of a client that is still to prove itself. False: it
 * is not whole yet, or the handshake has failed.
 */
static bool admit(struct tls *t)
{
    const uint8_t *r = t->data;
    size_t len = t->len < HEAD_LEN ? 0 : (size_t)r[3] << 8 | r[4];
    if (t->len == 0)
        return false;
    bool plain = r[0] == TYPE_HANDSHAKE;
    bool good = plain ? t->hellos < HELLOS_MAX : t->hellos > 0;
    if (plain && t->len >= HEAD_LEN)
        good &= r[1] == 3 && len <= HELLO_MAX;
    if (plain && t->len >= HELLO_HEAD_LEN) {
        size_t message = (size_t)r[6] << 16 | (size_t)r[7] << 8 | r[8];
        good &= r[5] == CLIENT_HELLO && message + 4 == len;
    }
    if (!good) {
        fail(t, "the peer speaks TLS, but not as a ddprun launcher does");
        return false;
    }
    if (t->len < (plain ? HELLO_HEAD_LEN : HEAD_LEN) || t->len < HEAD_LEN + len)
        return false;
    t->hellos += plain;
    t->admitted = HEAD_LEN + len;
    return true;
}

/* Record for record, since the first message may be all that is needed. */
static void shake_hands(struct tls *t)
{
    if (!t->accepts) {
        t->admitted = t->len;
        step(t);
    }
    while (t->accepts && t->state == TLS_HANDSHAKE && admit(t)) {
        if (t->ssl == NULL && begin(t) != 0)
            fail(t, "no memory for TLS");
        else
            step(t);
    }
    if (t->state == TLS_HANDSHAKE && t->handshake_len > TLS_HANDSHAKE_MAX)
        fail(t, "the peer's TLS handshake is too long");
    if (t->state != TLS_HANDSHAKE || !t->accepts)
        return;
    /* The rest of a record is to come. */
    buf_take(&t->part, buf_len(&t->part) - t->len);
    t->data = NULL;
    t->len = 0;
}

struct tls *tls_new(struct tls_key *key, bool accepts, struct buf *out)
{
    struct tls *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->magic = TLS_MAGIC;
    t->key = key;
    t->out = out;
    t->accepts = accepts;
    buf_init(&t->part, 2 * TLS_HANDSHAKE_MAX);
    if (!accepts) {
        if (begin(t) != 0) {
            free(t);
            return NULL;
        }
        shake_hands(t);
    }
    t->next = all_tls;
    t->link = &all_tls;
    if (t->next != NULL)
        t->next->link = &t->next;
    all_tls = t;
    return t;
}

void tls_free(struct tls *t)
{
    if (t == NULL)
        return;
    *t->link = t->next;
    if (t->next != NULL)
        t->next->link = t->link;
    ossl.f_SSL_free(t->ssl);
    buf_free(&t->part);
    explicit_bzero(t, sizeof(*t));
    free(t);
}

/* What OpenSSL frees is wiped (net/openssl). */
void tls_forget(void)
{
    tls_key_forget_all();
    for (struct tls *t = all_tls; t != NULL; t = t->next)
        fail(t, "this process has forgotten its keys");
}

/* -- what comes in --------------------------------------------------------- */

void tls_give(struct tls *t, const uint8_t *data, size_t len)
{
    ddp_assert(t->len == 0);
    if (t->state == TLS_FAILED || t->state == TLS_OVER)
        return;
    t->data = data;
    t->len = len;
    if (t->state == TLS_UP) {
        t->admitted = len;
        return;
    }
    t->handshake_len += len;
    if (!t->accepts)
        return;
    if (buf_put(&t->part, data, len) != 0) {
        fail(t, "no memory for TLS, or a handshake that is too long");
        return;
    }
    t->data = buf_head(&t->part);
    t->len = buf_len(&t->part);
}

/* SSL_read has returned nothing. */
static void see_error(struct tls *t)
{
    int error = ossl.f_SSL_get_error(t->ssl, 0);
    if (error == SSL_ERROR_ZERO_RETURN)
        read_no_more(t, TLS_OVER);
    else if (error != SSL_ERROR_WANT_READ || t->len > 0)
        fail_because(t, "TLS failed");
}

size_t tls_take(struct tls *t, uint8_t *room, size_t room_len)
{
    size_t n = 0;
    if (t->state == TLS_HANDSHAKE && t->len > 0)
        shake_hands(t);
    /* To read nothing costs OpenSSL the memory for a whole record. */
    if (t->state == TLS_UP && (t->len > 0 || ossl.f_SSL_pending(t->ssl) > 0)) {
        ossl.f_ERR_clear_error();
        if (ossl.f_SSL_read_ex(t->ssl, room, room_len, &n) != 1) {
            n = 0;
            see_error(t);
        }
    }
    ddp_assert(n <= room_len);
    if (n == 0 && t->state != TLS_HANDSHAKE)
        buf_free(&t->part); /* of the handshake */
    return n;
}

/* -- what goes out --------------------------------------------------------- */

int tls_seal(struct tls *t, const uint8_t *data, size_t len)
{
    size_t n;
    ddp_assert(t->state == TLS_UP);
    if (len == 0)
        return 0;
    ossl.f_ERR_clear_error();
    if (ossl.f_SSL_write_ex(t->ssl, data, len, &n) == 1)
        return 0;
    fail(t, "the peer does not read what it is sent");
    return -1;
}

void tls_end(struct tls *t)
{
    if (t->state != TLS_UP && t->state != TLS_OVER)
        return;
    ossl.f_ERR_clear_error();
    (void)ossl.f_SSL_shutdown(t->ssl); /* `out` is full: then without */
}

bool tls_is_proved(const struct tls *t)
{
    return t->state == TLS_UP || (t->state == TLS_HANDSHAKE && t->proved);
}

enum tls_state tls_state(const struct tls *t)
{
    return t->state;
}

const char *tls_why(const struct tls *t)
{
    return t->why;
}

bool tls_token_differs(const struct tls *t)
{
    return t->token_differs;
}
