/* links: rendezvous/net/tls rendezvous/net/record rendezvous/net/openssl */
/* links: rendezvous/base/buf rendezvous/base/err */
/* libs: -lssl -lcrypto -ldl */
/* TLS in memory: two ends and the bytes between them, which a test may keep,
 * cut, change or replay. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/net/record.h"
#include "rendezvous/net/tls.h"

#define OUT_MAX (64u * 1024u)

static const char token[] = "0123456789abcdef0123456789abcdef";

/* One end, what it has to send, and what it got. */
struct end {
    struct tls *tls;
    struct buf out;
    struct buf got;
};

struct pair {
    struct tls_key *keys[2];
    struct end client, server;
};

static struct tls_key *key_of(const char *text)
{
    struct tls_key *key = NULL;
    struct ddp_err err;
    ck_assert_msg(tls_key_make(&key, text, strlen(text), &err) == 0, "%s",
                  err.text);
    return key;
}

static void end_open(struct end *e, struct tls_key *key, bool accepts)
{
    buf_init(&e->out, OUT_MAX);
    buf_init(&e->got, 8u << 20);
    e->tls = tls_new(key, accepts, &e->out);
    ck_assert_ptr_nonnull(e->tls);
}

static void end_close(struct end *e)
{
    tls_free(e->tls);
    buf_free(&e->out);
    buf_free(&e->got);
}

static void pair_open(struct pair *p, const char *client, const char *server)
{
    p->keys[0] = key_of(client);
    p->keys[1] = key_of(server);
    end_open(&p->client, p->keys[0], false);
    end_open(&p->server, p->keys[1], true);
}

static void pair_close(struct pair *p)
{
    end_close(&p->client);
    end_close(&p->server);
    tls_key_free(p->keys[0]);
    tls_key_free(p->keys[1]);
}

static void give(struct end *e, const uint8_t *data, size_t len)
{
    uint8_t room[1000]; /* smaller than a record */
    size_t n;
    tls_give(e->tls, data, len);
    while ((n = tls_take(e->tls, room, sizeof(room))) > 0)
        ck_assert_int_eq(buf_put(&e->got, room, n), 0);
}

/* All that `from` has to send, in pieces; true if there was something. */
static bool carry(struct end *from, struct end *to, size_t piece)
{
    bool some = buf_len(&from->out) > 0;
    while (buf_len(&from->out) > 0) {
        size_t n = buf_len(&from->out) < piece ? buf_len(&from->out) : piece;
        uint8_t *data = malloc(n); /* so that a late reader is seen */
        ck_assert_ptr_nonnull(data);
        memcpy(data, buf_head(&from->out), n);
        buf_take(&from->out, n);
        give(to, data, n);
        free(data);
    }
    return some;
}

static void settle(struct pair *p, size_t piece)
{
    bool some = true;
    for (int i = 0; some && i < 100; i++) {
        some = carry(&p->client, &p->server, piece);
        some |= carry(&p->server, &p->client, piece);
    }
    ck_assert(!some);
}

static void pair_up(struct pair *p)
{
    pair_open(p, token, token);
    settle(p, 4096);
    ck_assert_int_eq(tls_state(p->client.tls), TLS_UP);
    ck_assert_int_eq(tls_state(p->server.tls), TLS_UP);
}

static bool contains(const struct buf *b, const char *text)
{
    return memmem(buf_head(b), buf_len(b), text, strlen(text)) != NULL;
}

/* -- with the token -------------------------------------------------------- */

static const size_t pieces[] = {1, 7, 100, 4096, 1u << 20};

/* Does the greeting work however the bytes are cut, and data both ways? */
START_TEST(test_pair_of_one_token_in_any_pieces_talks)
{
    struct pair p;
    static const uint8_t up[] = "join the run";
    static const uint8_t down[] = "here is your world";
    pair_open(&p, token, token);
    ck_assert_int_eq(tls_state(p.client.tls), TLS_GREETING);
    settle(&p, pieces[_i]);
    ck_assert_int_eq(tls_state(p.client.tls), TLS_UP);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_UP);
    ck_assert_int_eq(tls_seal(p.client.tls, up, sizeof(up)), 0);
    ck_assert_int_eq(tls_seal(p.server.tls, down, sizeof(down)), 0);
    ck_assert(!contains(&p.client.out, "join"));
    ck_assert(!contains(&p.server.out, "world"));
    settle(&p, pieces[_i]);
    ck_assert_uint_eq(buf_len(&p.server.got), sizeof(up));
    ck_assert_mem_eq(buf_head(&p.server.got), up, sizeof(up));
    ck_assert_uint_eq(buf_len(&p.client.got), sizeof(down));
    ck_assert_mem_eq(buf_head(&p.client.got), down, sizeof(down));
    pair_close(&p);
}
END_TEST

/* Do four megabytes arrive whole, through small buffers? */
START_TEST(test_pair_with_much_data_keeps_all_of_it)
{
    struct pair p;
    static uint8_t data[40000];
    const size_t rounds = 100;
    pair_up(&p);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 31 + i / 256);
    for (size_t i = 0; i < rounds; i++) {
        data[0] = (uint8_t)i;
        ck_assert_int_eq(tls_seal(p.client.tls, data, sizeof(data)), 0);
        (void)carry(&p.client, &p.server, 3000);
    }
    ck_assert_uint_eq(buf_len(&p.server.got), rounds * sizeof(data));
    for (size_t i = 0; i < rounds; i++) {
        data[0] = (uint8_t)i;
        ck_assert_mem_eq(buf_head(&p.server.got) + i * sizeof(data), data,
                         sizeof(data));
    }
    pair_close(&p);
}
END_TEST

/* Is the end of one side the other's TLS_OVER, behind all that was said? */
START_TEST(test_end_is_told_behind_the_data)
{
    struct pair p;
    pair_up(&p);
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"bye", 3), 0);
    tls_end(p.client.tls);
    settle(&p, 4096);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_OVER);
    ck_assert_uint_eq(buf_len(&p.server.got), 3);
    ck_assert(!tls_said_farewell(p.server.tls));
    give(&p.server, (const uint8_t *)"more", 4); /* is not looked at */
    ck_assert_int_eq(tls_state(p.server.tls), TLS_OVER);
    pair_close(&p);
}
END_TEST

/* Is the farewell known to both, new each time, and heard in any pieces, also
 * in the middle of a record that will never be whole? */
START_TEST(test_farewell_is_heard)
{
    struct pair p, other;
    pair_up(&p);
    pair_up(&other);
    uint8_t bye[TLS_FAREWELL_LEN];
    memcpy(bye, tls_farewell(p.client.tls), sizeof(bye));
    ck_assert_mem_eq(bye, tls_farewell(p.server.tls), sizeof(bye));
    ck_assert_mem_ne(bye, tls_farewell(other.server.tls), sizeof(bye));
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"done", 4), 0);
    bool cut = _i == 2; /* the rest of that record takes what comes */
    size_t n = buf_len(&p.client.out) - (cut ? 3 : 0);
    give(&p.server, buf_head(&p.client.out), n);
    ck_assert_uint_eq(buf_len(&p.server.got), cut ? 0 : 4);
    ck_assert(!tls_said_farewell(p.server.tls));
    size_t first = _i == 1 ? 11 : sizeof(bye);
    give(&p.server, bye, first);
    give(&p.server, bye + first, sizeof(bye) - first);
    ck_assert(tls_said_farewell(p.server.tls));
    ck_assert_int_eq(tls_state(p.server.tls), TLS_UP);
    /* Another connection's is worth nothing. */
    give(&other.server, bye, sizeof(bye));
    ck_assert(!tls_said_farewell(other.server.tls));
    ck_assert_int_eq(tls_state(other.server.tls), TLS_FAILED);
    pair_close(&p);
    pair_close(&other);
}
END_TEST

/* -- without it ------------------------------------------------------------ */

/* Do both ends learn that it is the tokens, and does neither say anything? */
START_TEST(test_pair_of_two_tokens_is_told)
{
    struct pair p;
    pair_open(&p, token, "another token, as long as it");
    settle(&p, 4096);
    ck_assert_int_eq(tls_state(p.client.tls), TLS_FAILED);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    ck_assert(tls_token_differs(p.client.tls));
    ck_assert(tls_token_differs(p.server.tls));
    ck_assert_str_eq(tls_why(p.client.tls),
                     "the token of this launcher is not the rendezvous's");
    ck_assert_str_eq(tls_why(p.server.tls),
                     "its token is not the rendezvous's");
    pair_close(&p);
}
END_TEST

/* A server that has a certificate and no token, as any can make one. */
static SSL_CTX *make_impostor(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *pkey = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    ck_assert(ctx != NULL && pkey != NULL && x != NULL);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    (void)X509_set_pubkey(x, pkey);
    ck_assert_int_gt(X509_sign(x, pkey, EVP_sha256()), 0);
    ck_assert_int_eq(SSL_CTX_use_certificate(ctx, x), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey(ctx, pkey), 1);
    X509_free(x);
    EVP_PKEY_free(pkey);
    return ctx;
}

/* Is a server that proves something else than the token refused? */
START_TEST(test_client_of_a_server_with_a_certificate_refuses)
{
    struct end client;
    struct tls_key *key = key_of(token);
    SSL_CTX *ctx = make_impostor();
    SSL *s = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    uint8_t data[8192];
    end_open(&client, key, false);
    SSL_set_bio(s, in, out);
    SSL_set_accept_state(s);
    ck_assert_int_gt(
        BIO_write(in, buf_head(&client.out), (int)buf_len(&client.out)), 0);
    (void)SSL_do_handshake(s);
    int n = BIO_read(out, data, (int)sizeof(data));
    ck_assert_int_gt(n, 500); /* its hello with the certificate, no alert */
    give(&client, data, (size_t)n);
    ck_assert_int_eq(tls_state(client.tls), TLS_FAILED);
    ck_assert_ptr_nonnull(strstr(tls_why(client.tls), "token"));
    SSL_free(s);
    SSL_CTX_free(ctx);
    end_close(&client);
    tls_key_free(key);
}
END_TEST

/* -- the records ----------------------------------------------------------- */

/* OpenSSL itself at the other end, all the way: a dialler with the token. */
struct foreign {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out;
    struct end server;
    struct tls_key *key;
};

static uint8_t psk[32];

/* As net/tls derives it. */
static void derive_psk(void)
{
    static const char label[] = "ddprun control connection, key 1";
    uint8_t prk[32];
    const uint8_t one = 1;
    unsigned n;
    ck_assert_ptr_nonnull(HMAC(EVP_sha256(), label, sizeof(label) - 1,
                               (const uint8_t *)token, sizeof(token) - 1, prk,
                               &n));
    ck_assert_ptr_nonnull(HMAC(EVP_sha256(), prk, 32, &one, 1, psk, &n));
}

static int on_use_psk(SSL *s,
                      const EVP_MD *md,
                      const unsigned char **id,
                      size_t *id_len,
                      SSL_SESSION **out)
{
    static const unsigned char aes_128_gcm[2] = {0x13, 0x01};
    (void)md;
    *out = SSL_SESSION_new();
    ck_assert_int_eq(SSL_SESSION_set1_master_key(*out, psk, sizeof(psk)), 1);
    ck_assert_int_eq(
        SSL_SESSION_set_cipher(*out, SSL_CIPHER_find(s, aes_128_gcm)), 1);
    ck_assert_int_eq(SSL_SESSION_set_protocol_version(*out, TLS1_3_VERSION), 1);
    *id = (const unsigned char *)"ddprun";
    *id_len = 6;
    return 1;
}

/* Carries until neither has anything to say. */
static void foreign_settle(struct foreign *f)
{
    uint8_t data[4096];
    for (int i = 0; i < 200; i++) {
        int n = BIO_read(f->out, data, (int)sizeof(data));
        size_t len = buf_len(&f->server.out);
        if (n > 0)
            give(&f->server, data, (size_t)n);
        if (len > 0)
            ck_assert_int_eq(
                BIO_write(f->in, buf_head(&f->server.out), (int)len), (int)len);
        buf_take(&f->server.out, len);
        if (!SSL_is_init_finished(f->ssl))
            (void)SSL_do_handshake(f->ssl);
        if (n <= 0 && len == 0 && BIO_pending(f->out) == 0)
            return;
    }
    ck_abort_msg("they talk without end");
}

static void foreign_open(struct foreign *f, const char *group)
{
    derive_psk();
    f->ctx = SSL_CTX_new(TLS_client_method());
    ck_assert_int_eq(SSL_CTX_set_ciphersuites(f->ctx, "TLS_AES_128_GCM_SHA256"),
                     1);
    ck_assert_int_eq(SSL_CTX_set1_groups_list(f->ctx, group), 1);
    SSL_CTX_set_psk_use_session_callback(f->ctx, on_use_psk);
    f->ssl = SSL_new(f->ctx);
    f->in = BIO_new(BIO_s_mem());
    f->out = BIO_new(BIO_s_mem());
    SSL_set_bio(f->ssl, f->in, f->out);
    SSL_set_connect_state(f->ssl);
    (void)SSL_do_handshake(f->ssl);
    f->key = key_of(token);
    end_open(&f->server, f->key, true);
    foreign_settle(f);
    ck_assert_int_eq(tls_state(f->server.tls), TLS_UP);
    ck_assert_int_eq(SSL_is_init_finished(f->ssl), 1);
}

static void foreign_close(struct foreign *f)
{
    end_close(&f->server);
    tls_key_free(f->key);
    SSL_free(f->ssl);
    SSL_CTX_free(f->ctx);
}

/* The first is what ours prefers; the second is asked for by another hello. */
static const char *const groups[] = {"X25519", "P-384:P-256:X25519"};

/* Are our records TLS's: does OpenSSL read them, and do we read its own? */
START_TEST(test_records_are_those_of_openssl)
{
    struct foreign f;
    static uint8_t data[40000], got[40000];
    foreign_open(&f, groups[_i]);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    for (int round = 0; round < 3; round++) {
        size_t n, len = 0;
        ck_assert_int_eq(SSL_write(f.ssl, data, (int)sizeof(data)),
                         (int)sizeof(data));
        ck_assert_int_eq(tls_seal(f.server.tls, data, sizeof(data)), 0);
        foreign_settle(&f);
        ck_assert_uint_eq(buf_len(&f.server.got), sizeof(data));
        ck_assert_mem_eq(buf_head(&f.server.got), data, sizeof(data));
        buf_take(&f.server.got, sizeof(data));
        while (len < sizeof(got) &&
               SSL_read_ex(f.ssl, got + len, sizeof(got) - len, &n) == 1)
            len += n;
        ck_assert_uint_eq(len, sizeof(data));
        ck_assert_mem_eq(got, data, sizeof(data));
    }
    (void)SSL_shutdown(f.ssl);
    tls_end(f.server.tls);
    foreign_settle(&f);
    ck_assert_int_eq(tls_state(f.server.tls), TLS_OVER);
    ck_assert_int_eq(SSL_read(f.ssl, got, 1), 0);
    ck_assert_int_eq(SSL_get_error(f.ssl, 0), SSL_ERROR_ZERO_RETURN);
    foreign_close(&f);
}
END_TEST

/* Padding is taken off; new keys and empty records bring nothing in. */
START_TEST(test_records_that_ours_never_send_are_refused_or_empty)
{
    struct foreign f;
    foreign_open(&f, "X25519");
    ck_assert_int_eq(SSL_set_block_padding(f.ssl, 512), 1);
    ck_assert_int_eq(SSL_write(f.ssl, "padded", 6), 6);
    ck_assert_int_ge(BIO_pending(f.out), 512);
    foreign_settle(&f);
    ck_assert_uint_eq(buf_len(&f.server.got), 6);
    ck_assert_int_eq(SSL_key_update(f.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ck_assert_int_eq(SSL_write(f.ssl, "new", 3), 3);
    foreign_settle(&f);
    ck_assert_int_eq(tls_state(f.server.tls), TLS_FAILED);
    ck_assert_uint_eq(buf_len(&f.server.got), 6);
    foreign_close(&f);
}
END_TEST

/* Heads of records that cannot be: too long, too short, of another kind. */
static const uint8_t bad_heads[][5] = {
    {23, 3, 3, 0x41, 0xfc}, {23, 3, 3, 0, 16}, {22, 3, 3, 0, 40},
    {23, 3, 1, 0, 40},      {21, 3, 3, 0, 19},
};

START_TEST(test_record_with_an_impossible_head_fails_at_once)
{
    struct pair p;
    pair_up(&p);
    give(&p.server, bad_heads[_i], 5);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    pair_close(&p);
}
END_TEST

/* The number `w->count` of a direction, with `inner` as what is sealed. */
static size_t seal_by_hand(const struct record_way *w,
                           const uint8_t *inner,
                           size_t len,
                           uint8_t *record)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    uint8_t nonce[12];
    int n;
    memcpy(nonce, w->iv, sizeof(nonce));
    nonce[11] ^= (uint8_t)w->count;
    record[0] = 23;
    record[1] = record[2] = 3;
    record[3] = (uint8_t)((len + 16) >> 8);
    record[4] = (uint8_t)(len + 16);
    ck_assert_int_eq(
        EVP_EncryptInit_ex(c, EVP_aes_128_gcm(), NULL, w->key, nonce), 1);
    ck_assert_int_eq(EVP_EncryptUpdate(c, NULL, &n, record, 5), 1);
    ck_assert_int_eq(EVP_EncryptUpdate(c, record + 5, &n, inner, (int)len), 1);
    ck_assert_int_eq(EVP_EncryptFinal_ex(c, record + 5 + len, &n), 1);
    ck_assert_int_eq(
        EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, 16, record + 5 + len), 1);
    EVP_CIPHER_CTX_free(c);
    return len + 21;
}

/* What the peer sealed itself and may not have: RFC 8446, 5.1 and 5.4. `text`
 * is what comes out, -1: nothing, and the connection ends. */
static const struct inner_case {
    size_t data, zeros;
    uint8_t type; /* 0: none */
    int text;
} inner_cases[] = {
    {.data = 16384, .type = 23, .text = 16384},
    {.data = 16385, .type = 23, .text = -1},
    {.data = 16384, .type = 23, .zeros = 200, .text = 16384},
    {.data = 0, .type = 23, .text = 0},
    {.data = 0, .type = 23, .zeros = 16384, .text = 0},
    {.data = 0, .zeros = 1, .text = -1},
    {.data = 0, .zeros = 16384, .text = -1},
};

START_TEST(test_record_is_opened_as_far_as_may_be)
{
    static uint8_t inner[RECORD_MAX], record[RECORD_MAX], text[RECORD_MAX];
    static const uint8_t secret[RECORD_SECRET_LEN] = "a secret";
    const struct inner_case *i = &inner_cases[_i];
    struct record_way ours, theirs;
    struct tls_key *key = key_of(token); /* loads OpenSSL */
    uint8_t type;
    ck_assert_int_eq(record_begin(&ours, secret), 0);
    ck_assert_int_eq(record_begin(&theirs, secret), 0);
    memset(inner, 'x', i->data);
    memset(inner + i->data, 0, 1 + i->zeros);
    inner[i->data] = i->type;
    size_t len = i->data + (i->type != 0) + i->zeros;
    len = seal_by_hand(&ours, inner, len, record);
    ck_assert_uint_eq(record_len(record), len);
    ck_assert_int_eq(record_open(&theirs, record, len, text, &type), i->text);
    if (i->text > 0)
        ck_assert_mem_eq(text, inner, (size_t)i->text);
    /* Whatever it was, its number is used up. */
    ck_assert_int_eq(record_open(&theirs, record, len, text, &type), -1);
    /* A key that is worn out opens and seals nothing more. */
    struct buf out;
    buf_init(&out, RECORD_MAX);
    ours.blocks = theirs.blocks = UINT64_C(1) << 34;
    theirs.count = 0;
    ck_assert_int_eq(record_open(&theirs, record, len, text, &type), -1);
    ck_assert_int_eq(record_seal(&ours, RECORD_DATA, inner, 1, &out), -1);
    ck_assert_uint_eq(buf_len(&out), 0);
    buf_free(&out);
    tls_key_free(key);
}
END_TEST

/* Does a record that is left out, repeated or moved end the connection? */
START_TEST(test_records_out_of_order_fail)
{
    struct pair p;
    uint8_t data[2][64];
    size_t len[2];
    pair_up(&p);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"data", 4), 0);
        len[i] = buf_len(&p.client.out);
        ck_assert_uint_le(len[i], sizeof(data[i]));
        memcpy(data[i], buf_head(&p.client.out), len[i]);
        buf_take(&p.client.out, len[i]);
    }
    bool repeat = _i == 1;
    if (repeat)
        give(&p.server, data[0], len[0]);
    give(&p.server, data[repeat ? 0 : 1], len[repeat ? 0 : 1]);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    ck_assert_uint_eq(buf_len(&p.server.got), repeat ? 4 : 0);
    pair_close(&p);
}
END_TEST

/* -- hostile bytes --------------------------------------------------------- */

/* All that a client's first record can be damaged by: each bit of it. */
START_TEST(test_server_of_a_damaged_hello_fails)
{
    struct tls_key *key = key_of(token);
    struct end client;
    end_open(&client, key, false);
    size_t len = buf_len(&client.out);
    uint8_t *hello = malloc(len);
    ck_assert_ptr_nonnull(hello);
    memcpy(hello, buf_head(&client.out), len);
    for (size_t i = 0; i < len; i++) {
        struct end server;
        end_open(&server, key, true);
        hello[i] ^= (uint8_t)(1u << i % 8);
        give(&server, hello, len);
        hello[i] ^= (uint8_t)(1u << i % 8);
        /* A changed byte may make it wait for more, or look like another's
         * hello; it never brings anybody in, nor a long answer. */
        ck_assert_int_ne(tls_state(server.tls), TLS_UP);
        ck_assert_uint_lt(buf_len(&server.out), 1024);
        ck_assert_uint_eq(buf_len(&server.got), 0);
        end_close(&server);
    }
    free(hello);
    end_close(&client);
    tls_key_free(key);
}
END_TEST

/* Does half a hello wait, and cost neither an answer nor OpenSSL's memory? */
START_TEST(test_server_of_half_a_hello_waits)
{
    struct tls_key *key = key_of(token);
    struct end client;
    end_open(&client, key, false);
    for (size_t n = 1; n < buf_len(&client.out); n++) {
        struct end server;
        size_t before = mallinfo2().uordblks;
        end_open(&server, key, true);
        give(&server, buf_head(&client.out), n);
        ck_assert_int_eq(tls_state(server.tls), TLS_GREETING);
        ck_assert_uint_eq(buf_len(&server.out), 0);
        ck_assert_uint_lt(mallinfo2().uordblks, before + 4096);
        end_close(&server);
    }
    end_close(&client);
    tls_key_free(key);
}
END_TEST

/* Hellos that claim much, come in crumbs, or are none: refused at their heads,
 * before OpenSSL makes room. */
START_TEST(test_server_of_an_implausible_hello_fails_at_once)
{
    static const uint8_t heads[][9] = {
        {22, 3, 1, 1, 0, 1, 1, 255, 252},    /* 128 KB of message */
        {22, 3, 1, 64, 0, 1, 0, 63, 252},    /* 16 KB */
        {22, 3, 1, 0, 1, 1, 0, 0, 0},        /* a record of one byte */
        {22, 3, 1, 0, 200, 2, 0, 0, 196},    /* a server's hello */
        {22, 2, 1, 0, 200, 1, 0, 0, 196},    /* of another age */
        {23, 3, 3, 0, 200, 1, 0, 0, 196},    /* data */
        {21, 3, 3, 0, 2, 2, 40, 0, 0},       /* an alert */
        {0xdd, 'd', 'd', 'p', 'r', 'u', 'n'} /* plain text */
    };
    struct end server;
    struct tls_key *key = key_of(token);
    end_open(&server, key, true);
    give(&server, heads[_i], sizeof(heads[0]));
    ck_assert_int_eq(tls_state(server.tls), TLS_FAILED);
    ck_assert_uint_eq(buf_len(&server.got), 0);
    end_close(&server);
    tls_key_free(key);
}
END_TEST

/* A second plain handshake record, which no client of ours sends. */
START_TEST(test_server_of_a_second_hello_fails)
{
    struct pair p;
    pair_open(&p, token, token);
    size_t len = buf_len(&p.client.out);
    give(&p.server, buf_head(&p.client.out), len);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_GREETING);
    give(&p.server, buf_head(&p.client.out), len);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    pair_close(&p);
}
END_TEST

/* What a client said once, said again by another: does it get nowhere? */
START_TEST(test_server_of_a_replay_fails)
{
    struct pair p;
    struct end again;
    struct buf kept;
    buf_init(&kept, OUT_MAX);
    pair_open(&p, token, token);
    for (int i = 0; i < 2; i++) {
        (void)buf_put(&kept, buf_head(&p.client.out), buf_len(&p.client.out));
        (void)carry(&p.client, &p.server, 4096);
        (void)carry(&p.server, &p.client, 4096);
    }
    ck_assert_int_eq(tls_state(p.client.tls), TLS_UP);
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"end", 3), 0);
    (void)buf_put(&kept, buf_head(&p.client.out), buf_len(&p.client.out));
    settle(&p, 4096);
    ck_assert_uint_eq(buf_len(&p.server.got), 3);
    end_open(&again, p.keys[1], true);
    give(&again, buf_head(&kept), buf_len(&kept));
    ck_assert_int_eq(tls_state(again.tls), TLS_FAILED);
    ck_assert_uint_eq(buf_len(&again.got), 0);
    end_close(&again);
    buf_free(&kept);
    pair_close(&p);
}
END_TEST

/* One changed bit of what is sealed ends it, and nothing of it is given. */
START_TEST(test_changed_data_fails)
{
    struct pair p;
    uint8_t data[128];
    pair_up(&p);
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"done", 4), 0);
    size_t len = buf_len(&p.client.out);
    ck_assert_uint_le(len, sizeof(data));
    memcpy(data, buf_head(&p.client.out), len);
    data[len - 1] ^= 1;
    give(&p.server, data, len);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    ck_assert(!tls_token_differs(p.server.tls)); /* it was let in */
    ck_assert_uint_eq(buf_len(&p.server.got), 0);
    pair_close(&p);
}
END_TEST

/* Who does not read what it is sent fills the buffer, and no more. */
START_TEST(test_full_buffer_fails_and_keeps_its_limit)
{
    struct pair p;
    static const uint8_t data[1000];
    int sealed = 0;
    pair_up(&p);
    while (tls_seal(p.client.tls, data, sizeof(data)) == 0)
        ck_assert_int_lt(sealed++, 100);
    ck_assert_int_gt(sealed, 60);
    ck_assert_uint_le(buf_len(&p.client.out), OUT_MAX);
    ck_assert_int_eq(tls_state(p.client.tls), TLS_FAILED);
    pair_close(&p);
}
END_TEST

/* -- forgetting ------------------------------------------------------------ */

/* A child that forgets can neither speak on a connection nor make another, nor
 * say the farewell; the parent goes on. */
START_TEST(test_forgetting_child_knows_nothing)
{
    struct pair p;
    static const uint8_t nothing[TLS_FAREWELL_LEN];
    int wire[2];
    uint8_t data[1000];
    pair_up(&p);
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"first", 5), 0);
    settle(&p, 4096);
    ck_assert_int_eq(pipe(wire), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct end fresh;
        tls_forget();
        if (memcmp(tls_farewell(p.client.tls), nothing, sizeof(nothing)) != 0 ||
            tls_seal(p.client.tls, (const uint8_t *)"forged", 6) != 0)
            _exit(1);
        end_open(&fresh, p.keys[0], false);
        ssize_t n =
            write(wire[1], buf_head(&p.client.out), buf_len(&p.client.out));
        n += write(wire[1], buf_head(&fresh.out), buf_len(&fresh.out));
        _exit(n > 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ssize_t n = read(wire[0], data, sizeof(data));
    size_t forged = TLS_FAREWELL_LEN - 4; /* 5 + 6 + 1 + 16 */
    ck_assert_int_gt(n, (ssize_t)forged);
    struct end other;
    end_open(&other, p.keys[1], true);
    give(&other, data + forged, (size_t)n - forged);
    ck_assert_int_eq(tls_state(other.tls), TLS_FAILED);
    ck_assert(tls_token_differs(other.tls));
    end_close(&other);
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"second", 6), 0);
    settle(&p, 4096);
    ck_assert(contains(&p.server.got, "firstsecond"));
    give(&p.server, data, forged);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    pair_close(&p);
    (void)close(wire[0]);
    (void)close(wire[1]);
}
END_TEST

/* -- the token's file ------------------------------------------------------ */

static char root[] = "/tmp/check_tls.XXXXXX";

static void put(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    ck_assert_int_eq(close(fd), 0);
}

static void enter_root(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(chdir(root), 0);
}

static void leave_root(void)
{
    static const char *const names[] = {"token", "fifo", "link"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)unlink(names[i]);
    (void)rmdir("folder");
    ck_assert_int_eq(rmdir(root), 0);
}

static const struct file_case {
    const char *text;
    mode_t mode;
    enum ddp_code code;
    const char *say;
} file_cases[] = {
    {"0123456789abcdef", 0600, DDP_E_OK, ""},
    {"0123456789abcdef", 0400, DDP_E_OK, ""},
    {"0123456789abcdef\r\n \n", 0600, DDP_E_OK, ""},
    {"0123456789abcdef", 0640, DDP_E_CONFIG, "chmod 600"},
    {"0123456789abcdef", 0644, DDP_E_CONFIG, "mode 0644"},
    {"0123456789abcdef", 0602, DDP_E_CONFIG, "chmod 600"},
    {"0123456789abcde\n", 0600, DDP_E_CONFIG, "too short"},
    {"", 0600, DDP_E_CONFIG, "too short"},
};

START_TEST(test_token_file_is_checked)
{
    const struct file_case *c = &file_cases[_i];
    struct tls_key *key = NULL;
    struct ddp_err err = {.code = DDP_E_OK};
    put("token", c->text, c->mode);
    int rc = tls_key_read(&key, "token", &err);
    ck_assert_int_eq(rc, c->code == DDP_E_OK ? 0 : -1);
    ck_assert_int_eq(err.code, c->code);
    ck_assert_ptr_nonnull(strstr(err.text, c->say));
    tls_key_free(key);
}
END_TEST

/* What systemd laid out may look open to a group, and nothing more. */
START_TEST(test_token_file_of_systemd_may_have_an_acl)
{
    static const struct {
        const char *folder;
        mode_t mode;
        bool works;
    } cases[] = {
        {"/", 0440, false},      {root, 0440, true}, {root, 0444, false},
        {root, 0460, false},     {root, 0600, true}, {"", 0440, false},
        {"/tmp/c", 0440, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[sizeof(root) + 8];
        struct tls_key *key = NULL;
        struct ddp_err err;
        put("token", "0123456789abcdef", cases[i].mode);
        (void)snprintf(path, sizeof(path), "%s/token", root);
        ck_assert_int_eq(setenv("CREDENTIALS_DIRECTORY", cases[i].folder, 1),
                         0);
        int rc = tls_key_read(&key, path, &err);
        ck_assert_int_eq(rc, cases[i].works ? 0 : -1);
        tls_key_free(key);
        ck_assert_int_eq(unlink("token"), 0);
    }
}
END_TEST

START_TEST(test_token_file_of_a_wrong_kind_is_refused)
{
    static const struct {
        const char *name;
        enum ddp_code code;
    } cases[] = {
        {"nothing", DDP_E_NOINPUT},
        {"folder", DDP_E_CONFIG},
        {"fifo", DDP_E_CONFIG},
        {"/dev/null", DDP_E_CONFIG},
    };
    struct tls_key *key;
    struct ddp_err err;
    ck_assert_int_eq(mkdir("folder", 0700), 0);
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(tls_key_read(&key, cases[i].name, &err), -1);
        ck_assert_int_eq(err.code, cases[i].code);
        ck_assert_ptr_nonnull(strstr(err.text, cases[i].name));
    }
}
END_TEST

/* 4096 bytes and a line's end will do, by a link too; one byte more will not;
 * and what was read is the token without the line's end. */
START_TEST(test_token_file_is_the_token_without_white_space)
{
    struct tls_key *from_file;
    struct ddp_err err;
    struct end client, server;
    char text[TLS_TOKEN_MAX + 3];
    memset(text, 'k', sizeof(text));
    memcpy(text + TLS_TOKEN_MAX + 1, "\n", 2);
    put("token", text, 0600);
    ck_assert_int_eq(tls_key_read(&from_file, "token", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "too long"));
    memcpy(text + TLS_TOKEN_MAX, "\n", 2);
    put("token", text, 0600);
    ck_assert_int_eq(symlink("token", "link"), 0);
    ck_assert_int_eq(tls_key_read(&from_file, "link", &err), 0);
    text[TLS_TOKEN_MAX] = '\0';
    struct tls_key *key = key_of(text);
    end_open(&client, from_file, false);
    end_open(&server, key, true);
    for (int i = 0; i < 3; i++) {
        (void)carry(&client, &server, 4096);
        (void)carry(&server, &client, 4096);
    }
    ck_assert_int_eq(tls_state(client.tls), TLS_UP);
    ck_assert_int_eq(tls_state(server.tls), TLS_UP);
    end_close(&client);
    end_close(&server);
    tls_key_free(key);
    tls_key_free(from_file);
}
END_TEST

#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

static Suite *make_suite(void)
{
    Suite *s = suite_create("tls");
    TCase *with = tcase_create("with the token");
    tcase_add_loop_test(with, test_pair_of_one_token_in_any_pieces_talks, 0,
                        LEN(pieces));
    tcase_add_test(with, test_pair_with_much_data_keeps_all_of_it);
    tcase_add_test(with, test_end_is_told_behind_the_data);
    tcase_add_loop_test(with, test_farewell_is_heard, 0, 3);
    suite_add_tcase(s, with);
    TCase *records = tcase_create("records");
    tcase_add_loop_test(records, test_records_are_those_of_openssl, 0,
                        LEN(groups));
    tcase_add_test(records,
                   test_records_that_ours_never_send_are_refused_or_empty);
    tcase_add_loop_test(records,
                        test_record_with_an_impossible_head_fails_at_once, 0,
                        LEN(bad_heads));
    tcase_add_loop_test(records, test_record_is_opened_as_far_as_may_be, 0,
                        sizeof(inner_cases) / sizeof(inner_cases[0]));
    tcase_add_loop_test(records, test_records_out_of_order_fail, 0, 2);
    suite_add_tcase(s, records);
    TCase *without = tcase_create("without it");
    tcase_add_test(without, test_pair_of_two_tokens_is_told);
    tcase_add_test(without, test_client_of_a_server_with_a_certificate_refuses);
    suite_add_tcase(s, without);
    TCase *hostile = tcase_create("hostile bytes");
    tcase_set_timeout(hostile, 20);
    tcase_add_test(hostile, test_server_of_a_damaged_hello_fails);
    tcase_add_test(hostile, test_server_of_half_a_hello_waits);
    tcase_add_loop_test(
        hostile, test_server_of_an_implausible_hello_fails_at_once, 0, 8);
    tcase_add_test(hostile, test_server_of_a_second_hello_fails);
    tcase_add_test(hostile, test_server_of_a_replay_fails);
    tcase_add_test(hostile, test_changed_data_fails);
    tcase_add_test(hostile, test_full_buffer_fails_and_keeps_its_limit);
    tcase_add_test(hostile, test_forgetting_child_knows_nothing);
    suite_add_tcase(s, hostile);
    TCase *file = tcase_create("file");
    tcase_add_checked_fixture(file, enter_root, leave_root);
    tcase_add_loop_test(file, test_token_file_is_checked, 0, LEN(file_cases));
    tcase_add_test(file, test_token_file_of_a_wrong_kind_is_refused);
    tcase_add_test(file, test_token_file_of_systemd_may_have_an_acl);
    tcase_add_test(file, test_token_file_is_the_token_without_white_space);
    suite_add_tcase(s, file);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
