/* links: TLS tests/lib/{scratch,tls_end} rendezvous/base/{buf,err} */
/* libs: -lssl -lcrypto -ldl */
/* TLS in memory: two ends and the bytes between them, which a test may keep,
 * cut, change or replay. */
#include <check.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/net/openssl.h"
#include "rendezvous/net/tls.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/tls_end.h"

static bool contains(const struct buf *b, const char *text)
{
    return memmem(buf_head(b), buf_len(b), text, strlen(text)) != NULL;
}

/* -- with the token -------------------------------------------------------- */

static const size_t pieces[] = {1, 7, 100, 4096, 1u << 20};

/* Does the handshake work however the bytes are cut, and data both ways? */
TEST_EACH(test_pair_of_one_token_in_any_pieces_talks, pieces)
{
    struct pair p;
    static const uint8_t up[] = "join the run";
    static const uint8_t down[] = "here is your world";
    pair_open(&p, token, token);
    ck_assert_int_eq(tls_state(p.client.tls), TLS_HANDSHAKE);
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

/* Do four megabytes arrive whole, through small buffers? */
TEST(test_pair_with_much_data_keeps_all_of_it)
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

/* Is the end of one side the other's TLS_OVER, behind all that was said? */
TEST(test_end_is_told_behind_the_data)
{
    struct pair p;
    pair_up(&p);
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"bye", 3), 0);
    tls_end(p.client.tls);
    settle(&p, 4096);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_OVER);
    ck_assert_uint_eq(buf_len(&p.server.got), 3);
    give(&p.server, (const uint8_t *)"more", 4); /* is not looked at */
    ck_assert_int_eq(tls_state(p.server.tls), TLS_OVER);
    pair_close(&p);
}

/* -- without it ------------------------------------------------------------ */

CASE("without it")

/* Do both ends learn that it is the tokens, and does neither say anything? */
TEST(test_pair_of_two_tokens_is_told)
{
    struct pair p;
    pair_open(&p, token, "another token, as long as it");
    settle(&p, 4096);
    ck_assert_int_eq(tls_state(p.client.tls), TLS_FAILED);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    ck_assert(tls_token_differs(p.client.tls));
    ck_assert(tls_token_differs(p.server.tls));
    ck_assert_str_eq(tls_why(p.client.tls),
                     "the token of this launcher differs from the token of the "
                     "rendezvous server");
    ck_assert_str_eq(tls_why(p.server.tls),
                     "the peer's token differs from the token of this server");
    pair_close(&p);
}

static const char no_rendezvous[] =
    "the program that listens there speaks TLS, but is not a ddprun "
    "rendezvous with a token (";

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
TEST(test_client_of_a_server_with_a_certificate_refuses)
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
    ck_assert(!tls_token_differs(client.tls));
    ck_assert_ptr_nonnull(strstr(tls_why(client.tls), no_rendezvous));
    SSL_free(s);
    SSL_CTX_free(ctx);
    end_close(&client);
    tls_key_free(key);
}

/* A server that finds the wrong token says so by one of the first two alerts.
 * The others are no reason to give up for good, nor to doubt the token: of a
 * server without memory, and of those that serve HTTPS. */
TEST(test_alert_of_another_server_is_no_other_token)
{
    static const uint8_t codes[] = {
        SSL_AD_ILLEGAL_PARAMETER, SSL_AD_DECRYPT_ERROR,
        SSL_AD_INTERNAL_ERROR,    SSL_AD_PROTOCOL_VERSION,
        SSL_AD_HANDSHAKE_FAILURE, SSL_AD_UNRECOGNIZED_NAME,
    };
    for (size_t i = 0; i < sizeof(codes); i++) {
        const uint8_t alert[] = {TLS_ALERT_BYTE, 3, 3, 0, 2, 2, codes[i]};
        struct tls_key *key = key_of(token);
        struct end client;
        end_open(&client, key, false);
        give(&client, alert, sizeof(alert));
        ck_assert_int_eq(tls_state(client.tls), TLS_FAILED);
        ck_assert_int_eq(tls_token_differs(client.tls), i < 2);
        if (i >= 2)
            ck_assert_ptr_nonnull(strstr(tls_why(client.tls), no_rendezvous));
        end_close(&client);
        tls_key_free(key);
    }
}

/* Fails without a reason of its own. */
static SSL_CTX *no_ctx(const SSL_METHOD *method)
{
    (void)method;
    return NULL;
}

/* OpenSSL keeps the errors of a thread: one that an earlier connection left
 * behind is no reason why a key cannot be made. */
TEST(test_key_that_fails_does_not_name_an_old_reason)
{
    struct ddp_err err;
    struct tls_key *key = key_of(token); /* OpenSSL is loaded then */
    tls_key_free(key);
    ossl.f_SSL_CTX_new = no_ctx;
    ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
    ck_assert_int_eq(tls_key_make(&key, token, sizeof(token), &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "(no reason given)"));
}

/* -- two tokens ------------------------------------------------------------ */

#define OLD                                                                    \
    "3a7c15e9f0b264d8"                                                         \
    "91be5d02c7f86a43"
#define FRESH                                                                  \
    "c84e1f60a95d37b2"                                                         \
    "0d73e8a6b1f2945c"

static void put_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(close(fd), 0);
}

static struct tls_key *key_in_file(const char *text)
{
    struct tls_key *key;
    struct ddp_err err;
    put_file("token", text);
    ck_assert_msg(tls_key_read(&key, "token", &err) == 0, "%s", err.text);
    return key;
}

/* With `piece` bytes at a time: whether they meet. Both learn why not. */
static bool meet(struct tls_key *client, struct tls_key *server, size_t piece)
{
    struct pair p = {.keys = {NULL, NULL}};
    static const uint8_t up[] = "join the run";
    end_open(&p.client, client, false);
    end_open(&p.server, server, true);
    settle(&p, piece);
    bool both =
        tls_state(p.client.tls) == TLS_UP && tls_state(p.server.tls) == TLS_UP;
    ck_assert(both || (tls_token_differs(p.client.tls) &&
                       tls_token_differs(p.server.tls)));
    if (both) {
        ck_assert_int_eq(tls_seal(p.client.tls, up, sizeof(up)), 0);
        settle(&p, piece);
        ck_assert_uint_eq(buf_len(&p.server.got), sizeof(up));
    }
    pair_close(&p);
    return both;
}

CASE("two tokens", FIXTURE(scratch_enter, scratch_leave))

/* Does a server with two tokens take clients with either, in any pieces, and a
 * client with two prove the first? */
TEST_EACH(test_server_with_two_tokens_accepts_both, pieces)
{
    struct tls_key *both = key_in_file(FRESH "\n" OLD "\n");
    struct tls_key *old = key_of(OLD), *fresh = key_of(FRESH);
    struct tls_key *third = key_of("another token, as long as it");
    ck_assert_int_eq(tls_key_tokens(both), 2);
    ck_assert_int_eq(tls_key_tokens(old), 1);
    ck_assert(meet(fresh, both, pieces[_i]));
    ck_assert(meet(old, both, pieces[_i]));
    ck_assert(!meet(third, both, pieces[_i]));
    ck_assert(meet(both, fresh, pieces[_i]));
    ck_assert(!meet(both, old, pieces[_i]));
    tls_key_free(both);
    tls_key_free(old);
    tls_key_free(fresh);
    tls_key_free(third);
}

/* Is a token taken away, added and kept by reading the file again, and does a
 * connection that is up stay up? */
TEST(test_key_that_is_read_again_has_the_tokens_of_the_file)
{
    struct tls_key *server = key_in_file(OLD "\n");
    struct tls_key *old = key_of(OLD), *fresh = key_of(FRESH);
    struct ddp_err err;
    struct pair p = {.keys = {NULL, NULL}};
    end_open(&p.client, old, false);
    end_open(&p.server, server, true);
    settle(&p, 4096);
    ck_assert(!meet(fresh, server, 4096));
    put_file("token", FRESH "\n" OLD "\n");
    ck_assert_int_eq(tls_key_reread(server, "token", &err), 0);
    ck_assert(meet(fresh, server, 4096) && meet(old, server, 4096));
    put_file("token", "short\n");
    ck_assert_int_eq(tls_key_reread(server, "token", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "too short"));
    ck_assert(meet(fresh, server, 4096) && meet(old, server, 4096));
    put_file("token", FRESH "\n");
    ck_assert_int_eq(tls_key_reread(server, "token", &err), 0);
    ck_assert(meet(fresh, server, 4096) && !meet(old, server, 4096));
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"on", 2), 0);
    settle(&p, 4096);
    ck_assert_uint_eq(buf_len(&p.server.got), 2);
    pair_close(&p);
    tls_key_free(server);
    tls_key_free(old);
    tls_key_free(fresh);
}

SUITE("tls", "with the token")
