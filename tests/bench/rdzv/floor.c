/*
 * The floor: a bare libuv server that accepts, reads, and answers as many
 * bytes as the rendezvous would, and thinks of nothing. All that it knows is
 * how many will come: the last join is answered by a world to each, the first
 * end of a connection by a stop to all others, the last ready by a world.
 *
 *     floor AGENTS        prints its port
 *     floor AGENTS next   the server to which agents go when theirs is killed:
 *                         it asks each one for its promise, and that is all
 *
 * With DDPRUN_TOKEN_FILE in its environment it does so in TLS, by OpenSSL alone
 * (SSL_read, SSL_write), which goes by the same token as net/tls.
 */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "rendezvous/net/token.h"
#include "rendezvous/proto/frame.h"
#include "rendezvous/proto/msg.h"

struct answer {
    char bytes[1024];
    unsigned len;
};

struct guest {
    uv_tcp_t tcp;
    struct guest *next;
    SSL *ssl; /* NULL: without a token */
    BIO *in, *out;
    bool greeted, gone;
};

static int n_agents, n_joined, n_ready;
static struct guest *guests;
static SSL_CTX *tls; /* NULL: without a token */
static uint8_t psk[32];
static bool is_next;
static struct answer join_answer, lease, world, stop;
static char scratch[65536];

static void put(struct answer *a, const struct msg *m)
{
    int len =
        msg_encode(m, a->bytes + a->len + 4, sizeof(a->bytes) - a->len - 4);
    if (len < 0)
        abort();
    for (int i = 0; i < 4; i++)
        a->bytes[a->len + (unsigned)i] = (char)(len >> (8 * i));
    a->len += 4 + (unsigned)len;
}

static void fill_answers(void)
{
    struct msg m = {.kind = MSG_KIND_lease};
    m.lease.grant_ms = 4000;
    memcpy(join_answer.bytes, FRAME_HELLO, FRAME_HELLO_LEN);
    join_answer.len = FRAME_HELLO_LEN;
    if (!is_next)
        put(&join_answer, &m);
    m.lease.seq = 1;
    put(&lease, &m);
    m = (struct msg){.kind = MSG_KIND_waiting};
    m.waiting.have = n_agents;
    m.waiting.left_ms = 600000;
    m.waiting.since_ms = 1000;
    /* As many as the rendezvous names; it names nobody after a take-over. */
    for (int i = 0; i < 36 && !is_next; i++)
        (void)snprintf(m.waiting.names + strlen(m.waiting.names),
                       sizeof(m.waiting.names) - strlen(m.waiting.names),
                       "node%05d, ", i);
    put(&join_answer, &m);
    if (is_next) {
        m = (struct msg){.kind = MSG_KIND_prepare, .prepare.term.count = 2};
        msg_set(m.prepare.term.id, "0123456789abcdef");
        put(&join_answer, &m);
    }
    m = (struct msg){.kind = MSG_KIND_world};
    msg_set(m.world.instance, "0123456789abcdef0123456789abcdef");
    msg_set(m.world.master_addr, "127.0.0.2");
    m.world.round = 1;
    m.world.group_rank = m.world.group_world = n_agents;
    m.world.base_rank = m.world.role_rank = 8 * n_agents - 8;
    m.world.world_size = m.world.role_world = 8 * n_agents;
    m.world.master_port = 29500;
    put(&world, &m);
    m = (struct msg){.kind = MSG_KIND_stop};
    m.stop.round = 1;
    msg_set(m.stop.text, "node node00123 is gone: its launcher ended");
    put(&stop, &m);
}

static void send_all(struct guest *g, char *bytes, size_t len)
{
    uv_buf_t piece = uv_buf_init(bytes, (unsigned)len);
    if (uv_try_write((uv_stream_t *)&g->tcp, &piece, 1) != (int)len)
        abort();
}

/* -- TLS ------------------------------------------------------------------- */

/* As net/tls derives it. */
static bool derive_psk(const uint8_t *token, size_t len)
{
    static const char salt[] = "ddprun control connection, key 1";
    static const uint8_t one = 1;
    uint8_t prk[EVP_MAX_MD_SIZE], okm[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    bool good = HMAC(EVP_sha256(), salt, (int)sizeof(salt) - 1, token, len, prk,
                     &n) != NULL &&
                HMAC(EVP_sha256(), prk, 32, &one, 1, okm, &n) != NULL;
    memcpy(psk, okm, sizeof(psk));
    return good;
}

static int
on_find_psk(SSL *s, const unsigned char *id, size_t id_len, SSL_SESSION **out)
{
    static const unsigned char cipher[2] = {0x13, 0x01};
    (void)id;
    (void)id_len; /* there is one */
    SSL_SESSION *made = SSL_SESSION_new();
    if (made == NULL ||
        SSL_SESSION_set1_master_key(made, psk, sizeof(psk)) != 1 ||
        SSL_SESSION_set_cipher(made, SSL_CIPHER_find(s, cipher)) != 1 ||
        SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) != 1)
        abort();
    *out = made;
    return 1;
}

static bool open_tls(const char *file)
{
    char groups[] = "X25519"; /* a macro of OpenSSL's takes no constant */
    struct tokens t;
    struct ddp_err err;
    tls = SSL_CTX_new(TLS_server_method());
    if (tls == NULL || token_read(file, &t, &err) != 0 ||
        !derive_psk(t.at[0].bytes, t.at[0].len))
        return false;
    SSL_CTX_set_psk_find_session_callback(tls, on_find_psk);
    (void)SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set1_groups_list(tls, groups) == 1 &&
           SSL_CTX_set_ciphersuites(tls, "TLS_AES_128_GCM_SHA256") == 1 &&
           SSL_CTX_set_num_tickets(tls, 0) == 1;
}

static void begin_tls(struct guest *g)
{
    g->ssl = SSL_new(tls);
    g->in = BIO_new(BIO_s_mem());
    g->out = BIO_new(BIO_s_mem());
    if (g->ssl == NULL || g->in == NULL || g->out == NULL)
        abort();
    SSL_set_bio(g->ssl, g->in, g->out);
    SSL_set_accept_state(g->ssl);
}

static void send_sealed(struct guest *g)
{
    char *data;
    long len = BIO_get_mem_data(g->out, &data);
    if (len > 0)
        send_all(g, data, (size_t)len);
    (void)BIO_reset(g->out);
}

static void tell(struct guest *g, struct answer *a)
{
    if (g->ssl == NULL) {
        send_all(g, a->bytes, a->len);
        return;
    }
    if (SSL_write(g->ssl, a->bytes, (int)a->len) != (int)a->len)
        abort();
    send_sealed(g);
}

/* -- answering ------------------------------------------------------------- */

static void tell_all(struct answer *a)
{
    for (struct guest *g = guests; g != NULL; g = g->next)
        if (!g->gone)
            tell(g, a);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    (void)h;
    (void)suggested;
    *out = uv_buf_init(scratch, sizeof(scratch));
}

static void on_end(struct guest *g, ssize_t n)
{
    g->gone = true;
    uv_close((uv_handle_t *)&g->tcp, NULL);
    if (n == UV_EOF && !is_next)
        tell_all(&stop);
}

static void on_frame(struct guest *g, const char *json)
{
    char kind = json[9]; /* {"kind":"beat", "join", "ready" or "promise" */
    if (kind == 'b') {
        tell(g, &lease);
    } else if (kind == 'j') {
        tell(g, &join_answer);
        if (++n_joined == n_agents && !is_next)
            tell_all(&world);
    } else if (kind == 'r' && ++n_ready == n_agents - 1) {
        tell_all(&world);
    }
}

static void on_text(struct guest *g, const char *text, ssize_t n)
{
    ssize_t at = g->greeted || n == 0 ? 0 : (ssize_t)FRAME_HELLO_LEN;
    g->greeted |= n > 0;
    while (at < n) {
        const unsigned char *h = (const unsigned char *)text + at;
        ssize_t len = n - at < 14 ? n : h[0] | h[1] << 8;
        if (at + 4 + len > n)
            abort(); /* they are small and come whole */
        on_frame(g, text + at + 4);
        at += 4 + len;
    }
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *piece)
{
    struct guest *g = s->data;
    if (n < 0) {
        on_end(g, n);
        return;
    }
    if (g->ssl == NULL) {
        on_text(g, piece->base, n);
        return;
    }
    static char text[65536];
    int len;
    if (BIO_write(g->in, piece->base, (int)n) != (int)n)
        abort();
    ERR_clear_error();
    while ((len = SSL_read(g->ssl, text, sizeof(text))) > 0)
        on_text(g, text, len);
    /* The farewell at an end is no record; a handshake must not fail. */
    if (!g->greeted && SSL_get_error(g->ssl, len) != SSL_ERROR_WANT_READ)
        abort();
    send_sealed(g);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct guest *g = calloc(1, sizeof(*g));
    if (status != 0 || g == NULL || uv_tcp_init(listener->loop, &g->tcp) != 0 ||
        uv_accept(listener, (uv_stream_t *)&g->tcp) != 0)
        abort();
    if (tls != NULL)
        begin_tls(g);
    g->tcp.data = g;
    g->next = guests;
    guests = g;
    if (uv_read_start((uv_stream_t *)&g->tcp, on_alloc, on_read) != 0)
        abort();
}

int main(int argc, char *argv[])
{
    uv_loop_t loop;
    uv_tcp_t listener;
    struct rlimit files;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int len = sizeof(at);
    is_next = argc == 3 && strcmp(argv[2], "next") == 0;
    n_agents = argc == (is_next ? 3 : 2) ? atoi(argv[1]) : 0;
    if (n_agents < 2)
        return 2;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    const char *token_file = getenv("DDPRUN_TOKEN_FILE");
    if (token_file != NULL && !open_tls(token_file))
        return 1;
    fill_answers();
    if (uv_loop_init(&loop) != 0 || uv_tcp_init(&loop, &listener) != 0 ||
        uv_tcp_bind(&listener, (struct sockaddr *)&at, 0) != 0 ||
        uv_listen((uv_stream_t *)&listener, 4096, on_connection) != 0 ||
        uv_tcp_getsockname(&listener, (struct sockaddr *)&at, &len) != 0)
        return 1;
    printf("%d\n", ntohs(at.sin_port));
    (void)fflush(stdout);
    return uv_run(&loop, UV_RUN_DEFAULT);
}
