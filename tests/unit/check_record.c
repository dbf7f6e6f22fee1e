/* links: TLS tests/lib/tls_end rendezvous/base/buf rendezvous/base/err */
/* libs: -lssl -lcrypto -ldl */
/* The records of TLS that ours are made and opened by, with OpenSSL itself at
 * the other end, or a forger. */
#include <check.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/net/tls_record.h"
#include "tests/lib/suite.h"
#include "tests/lib/tls_end.h"

#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

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
    char list[64]; /* OpenSSL's macro takes no const */
    (void)snprintf(list, sizeof(list), "%s", group);
    derive_psk();
    f->ctx = SSL_CTX_new(TLS_client_method());
    ck_assert_int_eq(SSL_CTX_set_ciphersuites(f->ctx, "TLS_AES_128_GCM_SHA256"),
                     1);
    ck_assert_int_eq(SSL_CTX_set1_groups_list(f->ctx, list), 1);
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

int main(void)
{
    Suite *s = suite_create("record");
    TCase *records = tcase_create("records");
    tcase_add_loop_test(records, test_records_are_those_of_openssl, 0,
                        LEN(groups));
    tcase_add_test(records,
                   test_records_that_ours_never_send_are_refused_or_empty);
    tcase_add_loop_test(records,
                        test_record_with_an_impossible_head_fails_at_once, 0,
                        LEN(bad_heads));
    tcase_add_loop_test(records, test_record_is_opened_as_far_as_may_be, 0,
                        LEN(inner_cases));
    tcase_add_loop_test(records, test_records_out_of_order_fail, 0, 2);
    suite_add_tcase(s, records);
    return suite_run(s);
}
