/*
 * Happy path: both ends make a session of key and cipher suite when OpenSSL
 * asks for the pre-shared key, the server checks the binder in the client's
 * first message, the client the server's Finished. Both derive the records'
 * keys from the secrets that OpenSSL tells (on_secret), its part is freed, and
 * data flows.
 *
 * Failure modes: a peer with another token (the server says so by an alert),
 * one with a certificate instead (refused: it proves nothing), garbage (the
 * error of whatever layer finds it). All end in TLS_FAILED.
 *
 * OpenSSL makes room for a handshake message of the size that its header
 * claims, up to 128 KB. A stranger must not have that, so `is_plausible` reads
 * the first records beside OpenSSL and lets only small ones be a handshake in
 * plain text: the client's hello, and one more where the two ends prefer
 * different groups (a FIPS build and another). Nor does OpenSSL hear of a
 * connection before its first hello is whole.
 */
#include "rendezvous/net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/net/openssl.h"
#include "rendezvous/net/record.h"
#include "rendezvous/net/token.h"

#define KEY_LEN    32u
#define HELLO_MAX  2048u /* ours has about 300 */
#define HELLOS_MAX 2

static const char label_key[] = "ddprun control connection, key 1";
static const char label_farewell[] = "EXPORTER-ddprun-farewell";
static const char identity[] = "ddprun";

/* -- the key --------------------------------------------------------------- */

/* A key or a connection in the list of all that there are. */
struct secret {
    struct secret *next, **link;
};

struct tls_key {
    struct secret listed;
    SSL_CTX *ctx;
    BIO_METHOD *method;
    uint8_t bytes[KEY_LEN];
};

struct tls {
    struct secret listed;
    struct tls_key *key;
    SSL *ssl; /* for the greeting; NULL afterwards */
    struct buf *out;
    bool accepts;
    enum tls_state state;
    const uint8_t *data; /* what was given and not yet read */
    size_t len;
    struct record_way ours, theirs;
    int n_ways;          /* of these two, have their keys */
    struct buf part;     /* a record that came in pieces */
    struct buf opened;   /* of the last record, what was not yet taken */
    size_t greeting_len; /* bytes that came before TLS_UP */
    /* Where is_plausible is: the head of a record, its rest to be skipped. */
    uint8_t head[RECORD_HEAD_LEN + 4];
    size_t head_len;
    size_t skip;
    int hellos; /* plain handshake records that were there */
    uint8_t tail[TLS_FAREWELL_LEN]; /* the last bytes that came */
    uint8_t farewell[TLS_FAREWELL_LEN];
    bool answered; /* a whole hello was there, and right */
    bool said_farewell;
    bool token_differs;
    char why[160];
};

/* -- what is to be forgotten ----------------------------------------------- */

static struct secret *all_keys, *all_tls;

static void list(struct secret *s, struct secret **head)
{
    s->next = *head;
    s->link = head;
    if (s->next != NULL)
        s->next->link = &s->next;
    *head = s;
}

static void unlist(struct secret *s)
{
    if (s->link == NULL)
        return; /* it was never listed */
    *s->link = s->next;
    if (s->next != NULL)
        s->next->link = s->link;
}

/* The list is the first member of both. */
void tls_forget(void)
{
    for (struct secret *s = all_keys; s != NULL; s = s->next) {
        struct tls_key *key = (struct tls_key *)s;
        explicit_bzero(key->bytes, sizeof(key->bytes));
    }
    for (struct secret *s = all_tls; s != NULL; s = s->next) {
        struct tls *t = (struct tls *)s;
        ossl.f_SSL_free(t->ssl); /* which wipes it */
        t->ssl = NULL;
        explicit_bzero(&t->ours, sizeof(t->ours));
        explicit_bzero(&t->theirs, sizeof(t->theirs));
        explicit_bzero(t->farewell, sizeof(t->farewell));
    }
    record_forget();
}

/* -- making keys ----------------------------------------------------------- */

/* HKDF with SHA-256 (RFC 5869): the label is the salt, and the one block that
 * expanding to 32 bytes takes has no info. */
static int derive(const void *token, size_t len, uint8_t key[KEY_LEN])
{
    uint8_t prk[EVP_MAX_MD_SIZE];
    uint8_t okm[EVP_MAX_MD_SIZE];
    const uint8_t one = 1;
    unsigned n = 0;
    bool good =
        ossl.f_HMAC(ossl.f_EVP_sha256(), label_key, (int)sizeof(label_key) - 1,
                    token, len, prk, &n) != NULL &&
        n == KEY_LEN &&
        ossl.f_HMAC(ossl.f_EVP_sha256(), prk, KEY_LEN, &one, 1, okm, &n) !=
            NULL &&
        n == KEY_LEN;
    memcpy(key, okm, KEY_LEN);
    explicit_bzero(prk, sizeof(prk));
    explicit_bzero(okm, sizeof(okm));
    return good ? 0 : -1;
}

/* A new one for each connection: sessions grow old and then do not count. */
static SSL_SESSION *session_of(const struct tls *t, SSL *s)
{
    static const uint8_t aes_128_gcm_sha256[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = ossl.f_SSL_CIPHER_find(s, aes_128_gcm_sha256);
    SSL_SESSION *made = ossl.f_SSL_SESSION_new();
    if (made != NULL && cipher != NULL &&
        ossl.f_SSL_SESSION_set1_master_key(made, t->key->bytes, KEY_LEN) == 1 &&
        ossl.f_SSL_SESSION_set_cipher(made, cipher) == 1 &&
        ossl.f_SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1)
        return made;
    ossl.f_SSL_SESSION_free(made);
    return NULL;
}

static int on_use_psk(SSL *s,
                      const EVP_MD *md,
                      const unsigned char **id,
                      size_t *id_len,
                      SSL_SESSION **out)
{
    (void)md; /* there is one cipher suite only */
    *out = session_of(ossl.f_SSL_get_ex_data(s, 0), s);
    *id = (const unsigned char *)identity;
    *id_len = sizeof(identity) - 1;
    return *out != NULL;
}

static int
on_find_psk(SSL *s, const unsigned char *id, size_t id_len, SSL_SESSION **out)
{
    *out = NULL; /* unknown, which is no error of ours */
    if (id_len != sizeof(identity) - 1 || memcmp(id, identity, id_len) != 0)
        return 1;
    *out = session_of(ossl.f_SSL_get_ex_data(s, 0), s);
    return *out != NULL;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A line of NSS's key log, by which OpenSSL tells the secrets of a connection:
 * what it is, the client's random bytes, the secret, the two in hexadecimal. */
static void on_secret(const SSL *s, const char *line)
{
    static const char client[] = "CLIENT_TRAFFIC_SECRET_0 ";
    static const char server[] = "SERVER_TRAFFIC_SECRET_0 ";
    struct tls *t = ossl.f_SSL_get_ex_data(s, 0);
    uint8_t secret[RECORD_SECRET_LEN];
    bool clients = strncmp(line, client, sizeof(client) - 1) == 0;
    if (!clients && strncmp(line, server, sizeof(server) - 1) != 0)
        return;
    const char *at = strrchr(line, ' ') + 1;
    bool good = strlen(at) == 2 * sizeof(secret);
    for (size_t i = 0; good && i < sizeof(secret); i++) {
        int high = digit(at[2 * i]);
        int low = digit(at[2 * i + 1]);
        good = high >= 0 && low >= 0;
        secret[i] = (uint8_t)(high << 4 | low);
    }
    struct record_way *w = clients != t->accepts ? &t->ours : &t->theirs;
    if (good && record_begin(w, secret) == 0)
        t->n_ways++;
    explicit_bzero(secret, sizeof(secret));
}

/* -- OpenSSL's way to our buffers ------------------------------------------ */

static int on_bio_read(BIO *b, char *room, size_t room_len, size_t *n)
{
    struct tls *t = ossl.f_BIO_get_data(b);
    ossl.f_BIO_clear_flags(b, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    *n = t->len < room_len ? t->len : room_len;
    if (*n == 0) {
        ossl.f_BIO_set_flags(b, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return 0;
    }
    memcpy(room, t->data, *n);
    t->data += *n;
    t->len -= *n;
    return 1;
}

static int on_bio_write(BIO *b, const char *data, size_t len, size_t *n)
{
    struct tls *t = ossl.f_BIO_get_data(b);
    ossl.f_BIO_clear_flags(b, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    *n = 0;
    if (buf_put(t->out, data, len) != 0)
        return 0;
    *n = len;
    return 1;
}

static long on_bio_ctrl(BIO *b, int cmd, long number, void *pointer)
{
    (void)b;
    (void)number;
    (void)pointer;
    return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void)
{
    int type = ossl.f_BIO_get_new_index() | BIO_TYPE_SOURCE_SINK;
    BIO_METHOD *m = ossl.f_BIO_meth_new(type, "ddprun");
    if (m != NULL && ossl.f_BIO_meth_set_read_ex(m, on_bio_read) == 1 &&
        ossl.f_BIO_meth_set_write_ex(m, on_bio_write) == 1 &&
        ossl.f_BIO_meth_set_ctrl(m, on_bio_ctrl) == 1)
        return m;
    ossl.f_BIO_meth_free(m);
    return NULL;
}

static SSL_CTX *make_ctx(void)
{
    SSL_CTX *c = ossl.f_SSL_CTX_new(ossl.f_TLS_method());
    /* X25519 makes a greeting cheaper by a third, and P-256 is in every build,
     * also those that FIPS restricts. By pointer, since these are macros. */
    char groups[] = "X25519:P-256";
    char group[] = "P-256";
    if (c == NULL)
        return NULL;
    (void)ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
    (void)ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_SET_SESS_CACHE_MODE,
                              SSL_SESS_CACHE_OFF, NULL);
    (void)ossl.f_SSL_CTX_set_options(c,
                                     SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    /* A peer of ours needs no change of cipher that changes nothing. */
    (void)ossl.f_SSL_CTX_clear_options(c, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    ossl.f_SSL_CTX_set_keylog_callback(c, on_secret);
    ossl.f_SSL_CTX_set_psk_use_session_callback(c, on_use_psk);
    ossl.f_SSL_CTX_set_psk_find_session_callback(c, on_find_psk);
    if (ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION,
                            NULL) == 1 &&
        ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION,
                            NULL) == 1 &&
        (ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_SET_GROUPS_LIST, 0, groups) == 1 ||
         ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_SET_GROUPS_LIST, 0, group) == 1) &&
        ossl.f_SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") == 1 &&
        ossl.f_SSL_CTX_set_num_tickets(c, 0) == 1)
        return c;
    ossl.f_SSL_CTX_free(c);
    return NULL;
}

int tls_key_make(struct tls_key **out,
                 const void *token,
                 size_t len,
                 struct ddp_err *err)
{
    if (openssl_load(err) != 0)
        return -1;
    struct tls_key *key = calloc(1, sizeof(*key));
    if (key == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a key");
    list(&key->listed, &all_keys);
    key->ctx = make_ctx();
    key->method = make_method();
    if (key->ctx == NULL || key->method == NULL ||
        derive(token, len, key->bytes) != 0) {
        const char *why =
            ossl.f_ERR_reason_error_string(ossl.f_ERR_peek_error());
        tls_key_free(key);
        return ddp_err_set(err, DDP_E_CONFIG,
                           "OpenSSL on this machine does no TLS 1.3 with "
                           "AES-128-GCM and P-256, which a token needs (%s)",
                           why != NULL ? why : "it does not say why");
    }
    *out = key;
    return 0;
}

void tls_key_free(struct tls_key *key)
{
    if (key == NULL)
        return;
    unlist(&key->listed);
    ossl.f_SSL_CTX_free(key->ctx);
    ossl.f_BIO_meth_free(key->method);
    explicit_bzero(key, sizeof(*key));
    free(key);
}

int tls_key_read(struct tls_key **out, const char *path, struct ddp_err *err)
{
    uint8_t token[TOKEN_ROOM];
    size_t len;
    int rc = token_read(path, token, &len, err);
    if (rc == 0)
        rc = tls_key_make(out, token, len, err);
    explicit_bzero(token, sizeof(token));
    return rc;
}

/* -- a connection ---------------------------------------------------------- */

static void fail(struct tls *t, const char *why)
{
    t->state = TLS_FAILED;
    t->data = NULL;
    t->len = 0;
    (void)snprintf(t->why, sizeof(t->why), "%s", why); /* cut is still told */
}

/* The peer has no right token as soon as it fails in the greeting by what TLS
 * itself says; which of the many reasons it was is for the curious. */
static void fail_ssl(struct tls *t)
{
    unsigned long code = ossl.f_ERR_peek_error();
    const char *reason = ossl.f_ERR_reason_error_string(code);
    char why[sizeof(t->why)];
    const char *what = "TLS failed";
    if (t->state == TLS_GREETING) {
        bool alert = ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET;
        t->token_differs =
            t->accepts ? ERR_GET_REASON(code) == SSL_R_BINDER_DOES_NOT_VERIFY
                       : alert;
        what = !t->token_differs ? "it does not prove that it has the token"
               : t->accepts
                   ? "its token is not the rendezvous's"
                   : "the token of this launcher is not the rendezvous's";
    }
    if (!t->token_differs && reason != NULL)
        (void)snprintf(why, sizeof(why), "%s (%s)", what, reason);
    else
        (void)snprintf(why, sizeof(why), "%s", what);
    fail(t, why);
}

/* At the end of what was given, which OpenSSL is not to see: it would call it a
 * damaged record. */
static void hear_farewell(struct tls *t)
{
    t->said_farewell =
        ossl.f_CRYPTO_memcmp(t->tail, t->farewell, sizeof(t->tail)) == 0;
    if (t->said_farewell)
        t->len -= t->len < TLS_FAREWELL_LEN ? t->len : TLS_FAREWELL_LEN;
}

/* What proves the end of this connection, in the form of a record, so that it
 * is waited for when it comes in pieces. */
static int make_farewell(struct tls *t)
{
    const size_t part = TLS_FAREWELL_LEN - RECORD_HEAD_LEN;
    static const uint8_t head[RECORD_HEAD_LEN] = {RECORD_DATA, 3, 3, 0, part};
    memcpy(t->farewell, head, sizeof(head));
    return ossl.f_SSL_export_keying_material(
               t->ssl, t->farewell + sizeof(head), part, label_farewell,
               sizeof(label_farewell) - 1, NULL, 0, 0) == 1
               ? 0
               : -1;
}

/* A certificate is no proof: the key must have been used. From here on there
 * are only records, and OpenSSL's memory of the connection goes. */
static void arrive(struct tls *t)
{
    if (ossl.f_SSL_session_reused(t->ssl) != 1) {
        fail(t, "it does not prove that it has the token");
        return;
    }
    if (t->n_ways != 2 || ossl.f_SSL_has_pending(t->ssl) != 0 ||
        make_farewell(t) != 0) {
        fail_ssl(t);
        return;
    }
    ossl.f_SSL_free(t->ssl);
    t->ssl = NULL;
    t->state = TLS_UP;
    hear_farewell(t);
}

static void greet(struct tls *t)
{
    ossl.f_ERR_clear_error();
    int rc = ossl.f_SSL_do_handshake(t->ssl);
    if (rc == 1)
        arrive(t);
    else if (ossl.f_SSL_get_error(t->ssl, rc) != SSL_ERROR_WANT_READ)
        fail_ssl(t);
    else if (t->greeting_len > TLS_GREETING_MAX)
        fail(t, "its greeting is too long");
    else
        t->answered = true;
    if (t->state == TLS_FAILED) {
        ossl.f_SSL_free(t->ssl); /* what it has to say is in `out` */
        t->ssl = NULL;
    }
}

/* What it holds may be a secret. */
static void drop(struct buf *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->cap);
    buf_free(b);
}

/* OpenSSL's part. -1: no memory. */
static int begin_greeting(struct tls *t)
{
    SSL *s = ossl.f_SSL_new(t->key->ctx);
    BIO *bio = ossl.f_BIO_new(t->key->method);
    if (s == NULL || bio == NULL || ossl.f_SSL_set_ex_data(s, 0, t) != 1) {
        ossl.f_SSL_free(s);
        (void)ossl.f_BIO_free(bio);
        return -1;
    }
    ossl.f_BIO_set_data(bio, t);
    ossl.f_BIO_set_init(bio, 1);
    ossl.f_SSL_set_bio(s, bio, bio); /* which owns it now */
    t->ssl = s;
    if (t->accepts) {
        ossl.f_SSL_set_accept_state(s);
        return 0;
    }
    ossl.f_SSL_set_verify(s, SSL_VERIFY_PEER, NULL); /* and nobody is trusted */
    ossl.f_SSL_set_connect_state(s);
    greet(t);
    return 0;
}

struct tls *tls_new(struct tls_key *key, bool accepts, struct buf *out)
{
    struct tls *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->key = key;
    t->out = out;
    t->accepts = accepts;
    t->state = TLS_GREETING;
    buf_init(&t->part, RECORD_MAX);
    buf_init(&t->opened, RECORD_MAX);
    if (!accepts && begin_greeting(t) != 0) {
        free(t);
        return NULL;
    }
    list(&t->listed, &all_tls);
    return t;
}

void tls_free(struct tls *t)
{
    if (t == NULL)
        return;
    unlist(&t->listed);
    ossl.f_SSL_free(t->ssl);
    drop(&t->part);
    drop(&t->opened);
    explicit_bzero(t, sizeof(*t));
    free(t);
}

/* -- what comes in --------------------------------------------------------- */

/* A record's head is there: may it come from one of ours? */
static bool is_plausible_head(struct tls *t)
{
    const uint8_t *h = t->head;
    size_t len = (size_t)h[3] << 8 | h[4];
    size_t message = (size_t)h[6] << 16 | (size_t)h[7] << 8 | h[8];
    if (h[0] != RECORD_HANDSHAKE)
        return true; /* it is sealed */
    return t->hellos++ < HELLOS_MAX && h[1] == 3 && len <= HELLO_MAX &&
           h[5] == 1 && message + 4 == len;
}

/* Follows a client's records up to TLS_UP. */
static bool is_plausible(struct tls *t, const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t n = t->skip < len ? t->skip : len;
        t->skip -= n;
        data += n;
        len -= n;
        if (len == 0)
            return true;
        t->head[t->head_len++] = *data++;
        len--;
        bool hello = t->head[0] == RECORD_HANDSHAKE;
        if (!hello && t->hellos == 0)
            return false;
        if (t->head_len < (hello ? sizeof(t->head) : RECORD_HEAD_LEN))
            continue;
        if (!is_plausible_head(t))
            return false;
        t->skip = (size_t)t->head[3] << 8 | t->head[4];
        t->skip -= t->head_len - RECORD_HEAD_LEN;
        t->head_len = 0;
    }
    return true;
}

static void keep_tail(struct tls *t, const uint8_t *data, size_t len)
{
    size_t keep = sizeof(t->tail);
    if (len >= keep) {
        memcpy(t->tail, data + len - keep, keep);
        return;
    }
    memmove(t->tail, t->tail + len, keep - len);
    memcpy(t->tail + keep - len, data, len);
}

/* OpenSSL takes 50 KB as soon as somebody begins to greet: it sees a hello when
 * that is whole, and no stranger makes it wait for the rest of one. */
static void hear_hello(struct tls *t, const uint8_t *data, size_t len)
{
    bool whole = t->hellos > 0 && t->skip == 0 && t->head_len == 0;
    if (buf_put(&t->part, data, len) != 0 ||
        (whole && begin_greeting(t) != 0)) {
        fail(t, "no memory for TLS");
        return;
    }
    t->data = buf_head(&t->part);
    t->len = whole ? buf_len(&t->part) : 0;
}

void tls_give(struct tls *t, const uint8_t *data, size_t len)
{
    ddp_assert(t->len == 0);
    if (t->state == TLS_FAILED || t->state == TLS_OVER)
        return;
    if (t->state == TLS_GREETING) {
        t->greeting_len += len;
        if (t->accepts && !is_plausible(t, data, len)) {
            fail(t, "it speaks TLS, but not as our launchers do");
            return;
        }
    }
    keep_tail(t, data, len);
    if (t->state == TLS_GREETING && t->ssl == NULL) {
        hear_hello(t, data, len);
        return;
    }
    t->data = data;
    t->len = len;
    if (t->state == TLS_UP)
        hear_farewell(t);
}

/*
 * The next record that is whole, of `*len` bytes: where it was given, or in
 * `part`. NULL: there is none yet, or it is none that may come.
 */
static const uint8_t *next_record(struct tls *t, size_t *len)
{
    size_t held = buf_len(&t->part);
    size_t need = RECORD_HEAD_LEN;
    for (;;) {
        if (held == 0 && t->len >= RECORD_HEAD_LEN)
            need = record_len(t->data);
        else if (held >= RECORD_HEAD_LEN)
            need = record_len(buf_head(&t->part));
        if (need == 0) {
            fail(t, "what came is no record of TLS");
            return NULL;
        }
        *len = need;
        if (held == 0 && t->len >= need) {
            t->data += need;
            t->len -= need;
            return t->data - need;
        }
        size_t n = need - held < t->len ? need - held : t->len;
        if (buf_put(&t->part, t->data, n) != 0) {
            fail(t, "no memory for a record");
            return NULL;
        }
        t->data += n;
        t->len -= n;
        held += n;
        if (held < need)
            return NULL;
        if (need > RECORD_HEAD_LEN)
            return buf_head(&t->part);
    }
}

static void take_alert(struct tls *t, const uint8_t *alert, int len)
{
    char why[64];
    if (len == 2 && alert[1] == SSL_AD_CLOSE_NOTIFY) {
        t->state = TLS_OVER;
        t->data = NULL;
        t->len = 0;
        return;
    }
    (void)snprintf(why, /* fits */ sizeof(why), "it ended TLS by alert %d",
                   len == 2 ? alert[1] : -1);
    fail(t, why);
}

/* Opens one record into `opened`, which stays empty where that was no data.
 * False: nothing more is there. */
static bool open_next(struct tls *t)
{
    size_t len;
    const uint8_t *record = next_record(t, &len);
    if (record == NULL)
        return false;
    uint8_t *text = buf_reserve(&t->opened, len);
    uint8_t type = 0;
    int n =
        text == NULL ? -1 : record_open(&t->theirs, record, len, text, &type);
    buf_free(&t->part);
    if (n < 0)
        fail(t, "a record that its peer did not seal so");
    else if (type == RECORD_ALERT)
        take_alert(t, text, n);
    else if (type != RECORD_DATA)
        fail(t, "it greets again, which our launchers do not");
    else
        buf_commit(&t->opened, (size_t)n);
    return t->state == TLS_UP;
}

size_t tls_take(struct tls *t, uint8_t *room, size_t room_len)
{
    if (t->state == TLS_GREETING && t->len > 0) {
        greet(t);
        if (t->len == 0)
            buf_free(&t->part); /* a hello */
    }
    while (t->state == TLS_UP && buf_len(&t->opened) == 0)
        if (!open_next(t))
            break;
    size_t n = buf_len(&t->opened) < room_len ? buf_len(&t->opened) : room_len;
    if (n > 0) {
        memcpy(room, buf_head(&t->opened), n);
        buf_take(&t->opened, n);
    }
    if (buf_len(&t->opened) == 0)
        buf_free(&t->opened); /* most connections are silent */
    return n;
}

/* -- what goes out --------------------------------------------------------- */

int tls_seal(struct tls *t, const uint8_t *data, size_t len)
{
    ddp_assert(t->state == TLS_UP);
    if (record_seal(&t->ours, RECORD_DATA, data, len, t->out) == 0)
        return 0;
    fail(t, "it does not read what it is sent");
    return -1;
}

void tls_end(struct tls *t)
{
    static const uint8_t close_notify[2] = {1, SSL_AD_CLOSE_NOTIFY};
    if (t->state == TLS_UP || t->state == TLS_OVER) /* full: then no end */
        (void)record_seal(&t->ours, RECORD_ALERT, close_notify,
                          sizeof(close_notify), t->out);
}

bool tls_is_answered(const struct tls *t)
{
    return t->state == TLS_UP || (t->state == TLS_GREETING && t->answered);
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

const uint8_t *tls_farewell(const struct tls *t)
{
    return t->farewell;
}

bool tls_said_farewell(const struct tls *t)
{
    return t->said_farewell;
}
