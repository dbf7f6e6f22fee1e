/*
 * Both ends make a session of key and cipher suite when OpenSSL asks for the
 * pre-shared key; the server checks the binder in the client's first message,
 * the client the server's Finished. Both derive the records' keys from the
 * secrets that OpenSSL tells (on_secret).
 *
 * OpenSSL reads what greeting_step was given and writes to the owner's buffer:
 * a BIO of ours stands where it has a socket.
 */
#include "rendezvous/net/handshake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/net/openssl.h"

static const char label_farewell[] = "EXPORTER-ddprun-farewell";
static const char identity[] = "ddprun";

struct greeting {
    const struct greeter *greeter;
    SSL *ssl;
    struct buf *out;
    bool accepts;
    const uint8_t *data; /* what was given and not yet read */
    size_t len;
    struct greeting_end end;
    int n_ways; /* of the two in `end`, have their keys */
    bool token_differs;
    char why[GREETING_WHY_MAX];
};

/* -- the pre-shared key ---------------------------------------------------- */

/* A new one for each connection: sessions grow old and then do not count. */
static SSL_SESSION *session_of(const struct greeting *g, SSL *s)
{
    static const uint8_t aes_128_gcm_sha256[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = ossl.f_SSL_CIPHER_find(s, aes_128_gcm_sha256);
    SSL_SESSION *made = ossl.f_SSL_SESSION_new();
    if (made != NULL && cipher != NULL &&
        ossl.f_SSL_SESSION_set1_master_key(made, g->greeter->key,
                                           GREETER_KEY_LEN) == 1 &&
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
    struct greeting *g = ossl.f_SSL_get_ex_data(s, 0);
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
    struct record_way *w =
        clients != g->accepts ? &g->end.ours : &g->end.theirs;
    if (good && record_begin(w, secret) == 0)
        g->n_ways++;
    explicit_bzero(secret, sizeof(secret));
}

/* -- OpenSSL's way to our buffers ------------------------------------------ */

static int on_bio_read(BIO *b, char *room, size_t room_len, size_t *n)
{
    struct greeting *g = ossl.f_BIO_get_data(b);
    ossl.f_BIO_clear_flags(b, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    *n = g->len < room_len ? g->len : room_len;
    if (*n == 0) {
        ossl.f_BIO_set_flags(b, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return 0;
    }
    memcpy(room, g->data, *n);
    g->data += *n;
    g->len -= *n;
    return 1;
}

static int on_bio_write(BIO *b, const char *data, size_t len, size_t *n)
{
    struct greeting *g = ossl.f_BIO_get_data(b);
    ossl.f_BIO_clear_flags(b, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    *n = 0;
    if (buf_put(g->out, data, len) != 0)
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

/* -- who greets ------------------------------------------------------------ */

int greeter_init(struct greeter *g)
{
    g->ctx = make_ctx();
    g->method = make_method();
    return g->ctx != NULL && g->method != NULL ? 0 : -1;
}

void greeter_free(struct greeter *g)
{
    ossl.f_SSL_CTX_free(g->ctx);
    ossl.f_BIO_meth_free(g->method);
    explicit_bzero(g, sizeof(*g));
}

/* -- a greeting ------------------------------------------------------------ */

static enum greeting_state fail(struct greeting *g, const char *why)
{
    (void)snprintf(g->why, sizeof(g->why), "%s", why); /* cut is still told */
    return GREETING_FAILED;
}

/* The peer has no right token as soon as it fails by what TLS itself says;
 * which of the many reasons it was is for the curious. */
static enum greeting_state fail_ssl(struct greeting *g)
{
    unsigned long code = ossl.f_ERR_peek_error();
    const char *reason = ossl.f_ERR_reason_error_string(code);
    bool alert = ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET;
    bool binder = ERR_GET_REASON(code) == SSL_R_BINDER_DOES_NOT_VERIFY;
    g->token_differs = g->accepts ? binder : alert;
    if (g->token_differs)
        return fail(g, g->accepts ? "its token is not the rendezvous's"
                                  : "the token of this launcher is not the "
                                    "rendezvous's");
    (void)snprintf(g->why, sizeof(g->why), /* cut is still told */
                   "it does not prove that it has the token%s%s%s",
                   reason != NULL ? " (" : "", reason != NULL ? reason : "",
                   reason != NULL ? ")" : "");
    return GREETING_FAILED;
}

/* What proves the end of this connection, in the form of a record, so that it
 * is waited for when it comes in pieces. */
static int make_farewell(struct greeting *g)
{
    const size_t part = GREETING_FAREWELL_LEN - RECORD_HEAD_LEN;
    static const uint8_t head[RECORD_HEAD_LEN] = {RECORD_DATA, 3, 3, 0, part};
    memcpy(g->end.farewell, head, sizeof(head));
    return ossl.f_SSL_export_keying_material(
               g->ssl, g->end.farewell + sizeof(head), part, label_farewell,
               sizeof(label_farewell) - 1, NULL, 0, 0) == 1
               ? 0
               : -1;
}

/* A certificate is no proof: the key must have been used. */
static enum greeting_state arrive(struct greeting *g)
{
    if (ossl.f_SSL_session_reused(g->ssl) != 1)
        return fail(g, "it does not prove that it has the token");
    if (g->n_ways != 2 || ossl.f_SSL_has_pending(g->ssl) != 0 ||
        make_farewell(g) != 0)
        return fail_ssl(g);
    return GREETING_DONE;
}

enum greeting_state
greeting_step(struct greeting *g, const uint8_t **data, size_t *len)
{
    g->data = *data;
    g->len = *len;
    ossl.f_ERR_clear_error();
    int rc = ossl.f_SSL_do_handshake(g->ssl);
    *data = g->data;
    *len = g->len;
    if (rc == 1)
        return arrive(g);
    if (ossl.f_SSL_get_error(g->ssl, rc) == SSL_ERROR_WANT_READ)
        return GREETING_MORE;
    return fail_ssl(g);
}

const struct greeting_end *greeting_end(const struct greeting *g)
{
    return &g->end;
}

const char *greeting_why(const struct greeting *g)
{
    return g->why;
}

bool greeting_token_differs(const struct greeting *g)
{
    return g->token_differs;
}

/* -1: no memory. */
static int begin(struct greeting *g)
{
    g->ssl = ossl.f_SSL_new(g->greeter->ctx);
    BIO *bio = ossl.f_BIO_new(g->greeter->method);
    if (g->ssl == NULL || bio == NULL ||
        ossl.f_SSL_set_ex_data(g->ssl, 0, g) != 1) {
        (void)ossl.f_BIO_free(bio);
        return -1;
    }
    ossl.f_BIO_set_data(bio, g);
    ossl.f_BIO_set_init(bio, 1);
    ossl.f_SSL_set_bio(g->ssl, bio, bio); /* which owns it now */
    if (g->accepts) {
        ossl.f_SSL_set_accept_state(g->ssl);
        return 0;
    }
    /* A certificate is asked for, and nobody is trusted. */
    ossl.f_SSL_set_verify(g->ssl, SSL_VERIFY_PEER, NULL);
    ossl.f_SSL_set_connect_state(g->ssl);
    return 0;
}

struct greeting *
greeting_new(const struct greeter *greeter, bool accepts, struct buf *out)
{
    struct greeting *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return NULL;
    g->greeter = greeter;
    g->accepts = accepts;
    g->out = out;
    if (begin(g) == 0)
        return g;
    greeting_free(g);
    return NULL;
}

void greeting_free(struct greeting *g)
{
    if (g == NULL)
        return;
    ossl.f_SSL_free(g->ssl);
    explicit_bzero(g, sizeof(*g));
    free(g);
}
