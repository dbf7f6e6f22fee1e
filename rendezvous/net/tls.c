/*
 * Happy path: the two ends greet (tls_greet), whose part is freed then, and
 * data flows in records (record).
 *
 * Failure modes: a peer with another token (the server says so by an alert),
 * one with a certificate instead (refused: it proves nothing), garbage (the
 * error of whatever layer finds it). All end in TLS_FAILED.
 *
 * OpenSSL does not hear of a connection before its first hello is whole, and of
 * none whose first records are not as ours (tls_hello).
 */
#include "rendezvous/net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/net/handshake.h"
#include "rendezvous/net/openssl.h"
#include "rendezvous/net/tls_hello.h"
#include "rendezvous/net/tls_record.h"
#include "rendezvous/net/token.h"

static const char label_key[] = "ddprun control connection, key 1";

_Static_assert(TLS_FAREWELL_LEN == GREETING_FAREWELL_LEN, "the same bytes");

/* A key or a connection in the list of all that there are. */
struct secret {
    struct secret *next, **link;
};

struct tls_key {
    struct secret listed;
    struct greeter greeter;
};

struct tls {
    struct secret listed;
    struct tls_key *key;
    struct greeting *greeting; /* NULL: not begun, or over */
    struct buf *out;
    bool accepts;
    enum tls_state state;
    const uint8_t *data; /* what was given and not yet read */
    size_t len;
    struct record_way ours, theirs;
    struct buf part;     /* a hello or a record that came in pieces */
    struct buf opened;   /* of the last record, what was not yet taken */
    size_t greeting_len; /* bytes that came before TLS_UP */
    struct tls_hello hello;
    uint8_t tail[TLS_FAREWELL_LEN]; /* the last bytes that came */
    uint8_t farewell[TLS_FAREWELL_LEN];
    bool answered; /* a whole hello was there, and right */
    bool said_farewell;
    bool token_differs;
    char why[GREETING_WHY_MAX];
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
        explicit_bzero(key->greeter.key, sizeof(key->greeter.key));
    }
    for (struct secret *s = all_tls; s != NULL; s = s->next) {
        struct tls *t = (struct tls *)s;
        greeting_free(t->greeting); /* which wipes it */
        t->greeting = NULL;
        explicit_bzero(&t->ours, sizeof(t->ours));
        explicit_bzero(&t->theirs, sizeof(t->theirs));
        explicit_bzero(t->farewell, sizeof(t->farewell));
    }
    record_forget();
}

/* -- keys ------------------------------------------------------------------ */

/* HKDF with SHA-256 (RFC 5869): the label is the salt, and the one block that
 * expanding to 32 bytes takes has no info. */
static int derive(const void *token, size_t len, uint8_t key[GREETER_KEY_LEN])
{
    uint8_t prk[EVP_MAX_MD_SIZE];
    uint8_t okm[EVP_MAX_MD_SIZE];
    const uint8_t one = 1;
    unsigned n = 0;
    bool good =
        ossl.f_HMAC(ossl.f_EVP_sha256(), label_key, (int)sizeof(label_key) - 1,
                    token, len, prk, &n) != NULL &&
        n == GREETER_KEY_LEN &&
        ossl.f_HMAC(ossl.f_EVP_sha256(), prk, GREETER_KEY_LEN, &one, 1, okm,
                    &n) != NULL &&
        n == GREETER_KEY_LEN;
    memcpy(key, okm, GREETER_KEY_LEN);
    explicit_bzero(prk, sizeof(prk));
    explicit_bzero(okm, sizeof(okm));
    return good ? 0 : -1;
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
    if (greeter_init(&key->greeter) != 0 ||
        derive(token, len, key->greeter.key) != 0) {
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
    greeter_free(&key->greeter);
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

/* At the end of what was given, which looks like a record and is not to be
 * opened as one. */
static void hear_farewell(struct tls *t)
{
    t->said_farewell =
        ossl.f_CRYPTO_memcmp(t->tail, t->farewell, sizeof(t->tail)) == 0;
    if (t->said_farewell)
        t->len -= t->len < TLS_FAREWELL_LEN ? t->len : TLS_FAREWELL_LEN;
}

/* From here on there are only records. */
static void come_up(struct tls *t)
{
    const struct greeting_end *end = greeting_end(t->greeting);
    t->ours = end->ours;
    t->theirs = end->theirs;
    memcpy(t->farewell, end->farewell, sizeof(t->farewell));
    t->state = TLS_UP;
    hear_farewell(t);
}

static void greet(struct tls *t)
{
    switch (greeting_step(t->greeting, &t->data, &t->len)) {
    case GREETING_MORE:
        if (t->greeting_len > TLS_GREETING_MAX)
            fail(t, "its greeting is too long");
        else
            t->answered = true;
        break;
    case GREETING_DONE:
        come_up(t);
        break;
    case GREETING_FAILED:
        t->token_differs = greeting_token_differs(t->greeting);
        fail(t, greeting_why(t->greeting));
        break;
    }
    if (t->state != TLS_GREETING) {
        greeting_free(t->greeting); /* what it has to say is in `out` */
        t->greeting = NULL;
    }
}

/* What it holds may be a secret. */
static void drop(struct buf *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->cap);
    buf_free(b);
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
    if (!accepts) {
        t->greeting = greeting_new(&key->greeter, false, out);
        if (t->greeting == NULL) {
            free(t);
            return NULL;
        }
        greet(t);
    }
    list(&t->listed, &all_tls);
    return t;
}

void tls_free(struct tls *t)
{
    if (t == NULL)
        return;
    unlist(&t->listed);
    greeting_free(t->greeting);
    drop(&t->part);
    drop(&t->opened);
    explicit_bzero(t, sizeof(*t));
    free(t);
}

/* -- what comes in --------------------------------------------------------- */

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
    bool whole = tls_hello_is_whole(&t->hello);
    int rc = buf_put(&t->part, data, len);
    if (rc == 0 && whole)
        t->greeting = greeting_new(&t->key->greeter, true, t->out);
    if (rc != 0 || (whole && t->greeting == NULL)) {
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
        if (t->accepts && !tls_hello_is_plausible(&t->hello, data, len)) {
            fail(t, "it speaks TLS, but not as our launchers do");
            return;
        }
    }
    keep_tail(t, data, len);
    if (t->state == TLS_GREETING && t->greeting == NULL) {
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
