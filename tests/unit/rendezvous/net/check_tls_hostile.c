/* links: TLS tests/lib/tls_end rendezvous/base/{buf,err} */
/* libs: -lssl -lcrypto -ldl */
/* TLS in memory, where the other end is another program, or sends what no
 * client of ours would; and that a process which forgets the key has it no
 * more. */
#include <check.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/net/openssl.h"
#include "rendezvous/net/tls.h"
#include "tests/lib/suite.h"
#include "tests/lib/tls_end.h"

/* -- OpenSSL with other settings ------------------------------------------- */

/* A client of another program that has the token. */
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

static void foreign_open(struct foreign *f, const char *group, bool proves)
{
    char list[64]; /* OpenSSL's macro takes no const */
    (void)snprintf(list, sizeof(list), "%s", group);
    derive_psk();
    f->ctx = SSL_CTX_new(TLS_client_method());
    ck_assert_int_eq(SSL_CTX_set_ciphersuites(f->ctx, "TLS_AES_128_GCM_SHA256"),
                     1);
    ck_assert_int_eq(SSL_CTX_set1_groups_list(f->ctx, list), 1);
    if (proves)
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
}

static void foreign_close(struct foreign *f)
{
    end_close(&f->server);
    tls_key_free(f->key);
    SSL_free(f->ssl);
    SSL_CTX_free(f->ctx);
}

/* The server prefers the first; it asks for a second hello after the other. */
static const char *const groups[] = {"X25519", "P-384:P-256:X25519"};

/* Do the two understand each other: another group, a buffer of another size,
 * padding, a new key in the middle, and the end? */
TEST_EACH(test_server_of_another_program_talks, groups)
{
    struct foreign f;
    static uint8_t data[40000], got[40000];
    foreign_open(&f, groups[_i], true);
    ck_assert_int_eq(tls_state(f.server.tls), TLS_UP);
    ck_assert_int_eq(SSL_is_init_finished(f.ssl), 1);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    ck_assert_int_eq(SSL_set_block_padding(f.ssl, 512), 1);
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
        if (round < 2) /* the next write tells of it */
            ck_assert_int_eq(SSL_key_update(f.ssl, SSL_KEY_UPDATE_REQUESTED),
                             1);
    }
    (void)SSL_shutdown(f.ssl);
    tls_end(f.server.tls);
    foreign_settle(&f);
    ck_assert_int_eq(tls_state(f.server.tls), TLS_OVER);
    ck_assert_int_eq(SSL_read(f.ssl, got, 1), 0);
    ck_assert_int_eq(SSL_get_error(f.ssl, 0), SSL_ERROR_ZERO_RETURN);
    foreign_close(&f);
}

/* Is a client without the token refused at its first hello, also where that
 * asks for another group? It has proved nothing. */
TEST_EACH(test_client_without_the_token_is_refused, groups)
{
    struct foreign f;
    foreign_open(&f, groups[_i], false);
    ck_assert_int_eq(tls_state(f.server.tls), TLS_FAILED);
    ck_assert(!tls_token_differs(f.server.tls));
    ck_assert(!tls_is_proved(f.server.tls));
    ck_assert_int_eq(SSL_is_init_finished(f.ssl), 0);
    foreign_close(&f);
}

/* Is an idle connection cheap, as ten thousand have to be? */
TEST(test_idle_connection_is_small)
{
    enum {
        PAIRS = 20
    };
    static struct pair pairs[PAIRS];
    pair_up(&pairs[0]); /* what is made once */
    size_t before = mallinfo2().uordblks;
    for (int i = 1; i < PAIRS; i++)
        pair_up(&pairs[i]);
    size_t each = (mallinfo2().uordblks - before) / (PAIRS - 1);
    /* Two ends, two contexts, and the buffers of the test. */
    ck_assert_msg(each < 64000, "%zu bytes", each);
    for (int i = 0; i < PAIRS; i++)
        pair_close(&pairs[i]);
}

/* -- hostile bytes --------------------------------------------------------- */

CASE("hostile bytes", .limit_s = 60)

/* All that a client's first record can be damaged by: each bit of it. */
TEST(test_server_of_a_damaged_hello_fails)
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

/* Does half a hello wait, and cost neither an answer nor OpenSSL's memory? */
TEST(test_server_of_half_a_hello_waits)
{
    struct tls_key *key = key_of(token);
    struct end client;
    end_open(&client, key, false);
    for (size_t n = 1; n < buf_len(&client.out); n++) {
        struct end server;
        size_t before = mallinfo2().uordblks;
        end_open(&server, key, true);
        give(&server, buf_head(&client.out), n);
        ck_assert_int_eq(tls_state(server.tls), TLS_HANDSHAKE);
        ck_assert_uint_eq(buf_len(&server.out), 0);
        ck_assert_uint_lt(mallinfo2().uordblks, before + 4096);
        end_close(&server);
    }
    end_close(&client);
    tls_key_free(key);
}

/* Hellos that claim much, come in crumbs, or are none: refused at their heads,
 * before OpenSSL makes room. */
TEST_LOOP(test_server_of_an_implausible_hello_fails_at_once, 0, 8)
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

/* A second plain handshake record, which no client of ours sends. */
TEST(test_server_of_a_second_hello_fails)
{
    struct pair p;
    pair_open(&p, token, token);
    size_t len = buf_len(&p.client.out);
    give(&p.server, buf_head(&p.client.out), len);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_HANDSHAKE);
    give(&p.server, buf_head(&p.client.out), len);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_FAILED);
    pair_close(&p);
}

/* Does a whole hello that was made with the token prove it, and nothing else
 * before that? */
TEST(test_server_of_a_whole_hello_knows_the_token_was_used)
{
    struct pair p;
    pair_open(&p, token, token);
    size_t len = buf_len(&p.client.out);
    ck_assert(!tls_is_proved(p.server.tls));
    give(&p.server, buf_head(&p.client.out), len - 1);
    ck_assert(!tls_is_proved(p.server.tls));
    give(&p.server, buf_head(&p.client.out) + len - 1, 1);
    ck_assert_int_eq(tls_state(p.server.tls), TLS_HANDSHAKE);
    ck_assert(tls_is_proved(p.server.tls));
    pair_close(&p);
}

/* What a client said once, said again by another: does it get nowhere? */
TEST(test_server_of_a_replay_fails)
{
    struct pair p;
    struct end again;
    struct buf kept;
    buf_init(&kept, TLS_END_OUT_MAX);
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

/* One changed bit of what is sealed ends it, and nothing of it is given. */
TEST(test_changed_data_fails)
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

/* Does a record that is left out, repeated or moved end the connection? */
TEST_LOOP(test_records_out_of_order_fail, 0, 2)
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

/* A peer that does not read fills the buffer, and no more. */
TEST(test_full_buffer_fails_and_keeps_its_limit)
{
    struct pair p;
    static const uint8_t data[1000];
    int sealed = 0;
    pair_up(&p);
    while (tls_seal(p.client.tls, data, sizeof(data)) == 0)
        ck_assert_int_lt(sealed++, 100);
    ck_assert_int_gt(sealed, 60);
    ck_assert_uint_le(buf_len(&p.client.out), TLS_END_OUT_MAX);
    ck_assert_int_eq(tls_state(p.client.tls), TLS_FAILED);
    pair_close(&p);
}

/* -- forgetting ------------------------------------------------------------ */

/* Is a secret anywhere in memory but the stack? It is given with all bits
 * inverted, so as not to be found here. Reads through /proc, so that a
 * sanitizer does not mind. */
static bool memory_has(const uint8_t *inverse, size_t len)
{
    uint8_t window[1u << 16]; /* not static: it would find itself */
    char line[256];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    ck_assert(maps != NULL && mem >= 0);
    while (fgets(line, (int)sizeof(line), maps) != NULL) {
        char *end, rights[5] = "", name[64] = "";
        unsigned long from = strtoul(line, &end, 16);
        unsigned long to = strtoul(end + 1, &end, 16);
        (void)sscanf(end, "%4s %*s %*s %*s %63s", rights, name);
        bool is_stack = strcmp(name, "[stack]") == 0;
        if (strncmp(rights, "rw", 2) != 0 || is_stack || to - from > 1u << 30)
            continue;
        for (; from + len <= to; from += sizeof(window) - len) {
            ssize_t n = pread(mem, window, sizeof(window), (off_t)from);
            if (n <= 0)
                break;
            size_t have = (size_t)n < to - from ? (size_t)n : to - from;
            for (ssize_t i = 0; i < n; i++)
                window[i] = (uint8_t)~window[i];
            found |= memmem(window, have, inverse, len) != NULL;
        }
    }
    (void)fclose(maps);
    (void)close(mem);
    return found;
}

/* Does a child that forgets know the key no more, and does the parent go on? */
TEST(test_forgetting_child_knows_nothing)
{
    struct pair p;
    pair_up(&p);
    derive_psk();
    for (size_t i = 0; i < sizeof(psk); i++)
        psk[i] = (uint8_t)~psk[i];
    ck_assert(memory_has(psk, sizeof(psk)));
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        tls_forget();
        if (tls_state(p.client.tls) != TLS_FAILED)
            _exit(1);
        if (memory_has(psk, sizeof(psk)))
            _exit(2);
        pair_close(&p);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(tls_seal(p.client.tls, (const uint8_t *)"second", 6), 0);
    settle(&p, 4096);
    ck_assert_ptr_nonnull(
        memmem(buf_head(&p.server.got), buf_len(&p.server.got), "second", 6));
    pair_close(&p);
}

SUITE("tls_hostile", "another program")
