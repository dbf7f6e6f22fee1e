/*
 * From a token to an SSL object: the pre-shared key, and how OpenSSL is set up.
 *
 * Happy path: HKDF makes the key from the token. Both ends make an SSL_SESSION
 * of that key when OpenSSL asks for the external PSK (RFC 8446, 4.2.11; mode
 * psk_dhe_ke). The server checks the binder in the client's first message, the
 * client checks the server's Finished message.
 *
 * A token file may have a second token, for the time in which one takes the
 * place of another: a server accepts both (net/tls tries them in turn), a
 * client proves the first.
 *
 * Failure modes: an OpenSSL that has no TLS 1.3, AES-128-GCM or P-256 (some
 * FIPS builds) is reported when the key is made, not when somebody connects.
 *
 * Ten thousand connections share one context. Tickets, the session cache and
 * compression are off: nothing is kept of a connection that has ended. With
 * SSL_MODE_RELEASE_BUFFERS an idle connection has no record buffers.
 */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/net/tls_priv.h"

/* Our messages are smaller. OpenSSL's buffer for writing has this size while
 * it is used. */
#define SEND_FRAGMENT_MAX 4096

static const char label_key[] = "ddprun control connection, key 1";
static const char identity[] = "ddprun";

static struct tls_key *all_keys;

/* -- the pre-shared key ---------------------------------------------------- */

/* HKDF with SHA-256 (RFC 5869): the label is the salt. One block is enough for
 * 32 bytes, and there is no info. */
static int derive(const void *token, size_t len, uint8_t psk[TLS_PSK_LEN])
{
    uint8_t prk[EVP_MAX_MD_SIZE];
    uint8_t okm[EVP_MAX_MD_SIZE];
    const uint8_t one = 1;
    unsigned n = 0;
    bool good =
        ossl.f_HMAC(ossl.f_EVP_sha256(), label_key, (int)sizeof(label_key) - 1,
                    token, len, prk, &n) != NULL &&
        n == TLS_PSK_LEN &&
        ossl.f_HMAC(ossl.f_EVP_sha256(), prk, TLS_PSK_LEN, &one, 1, okm, &n) !=
            NULL &&
        n == TLS_PSK_LEN;
    if (good)
        memcpy(psk, okm, TLS_PSK_LEN);
    explicit_bzero(prk, sizeof(prk));
    explicit_bzero(okm, sizeof(okm));
    return good ? 0 : -1;
}

static const struct tls_psk *psk_of(const SSL *s)
{
    const struct tls_psk *psk = ossl.f_SSL_get_ex_data(s, 0);
    ddp_assert(psk != NULL && psk->magic == TLS_KEY_MAGIC);
    return psk;
}

/* A new session for each connection: OpenSSL refuses a session that is older
 * than its timeout. */
static SSL_SESSION *session_of(SSL *s)
{
    static const uint8_t aes_128_gcm_sha256[2] = {0x13, 0x01};
    const struct tls_psk *psk = psk_of(s);
    const SSL_CIPHER *cipher = ossl.f_SSL_CIPHER_find(s, aes_128_gcm_sha256);
    SSL_SESSION *made = ossl.f_SSL_SESSION_new();
    if (made != NULL && cipher != NULL &&
        ossl.f_SSL_SESSION_set1_master_key(made, psk->bytes, TLS_PSK_LEN) ==
            1 &&
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
    *out = session_of(s);
    *id = (const unsigned char *)identity;
    *id_len = sizeof(identity) - 1;
    return *out != NULL;
}

static int
on_find_psk(SSL *s, const unsigned char *id, size_t id_len, SSL_SESSION **out)
{
    *out = NULL; /* an unknown identity is no error of this callback */
    if (id_len != sizeof(identity) - 1 || memcmp(id, identity, id_len) != 0 ||
        !psk_of(s)->is_set)
        return 1;
    *out = session_of(s);
    return *out != NULL;
}

/* -- proofs ---------------------------------------------------------------- */

static const char label_farewell[] = "ddprun farewell, key 1";

/* Not by the key itself, which TLS has for something else. */
static int sign(const struct tls_psk *psk,
                const void *data,
                size_t len,
                char hex[TLS_MAC_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t key[EVP_MAX_MD_SIZE], mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    bool good = ossl.f_HMAC(ossl.f_EVP_sha256(), psk->bytes, TLS_PSK_LEN,
                            (const uint8_t *)label_farewell,
                            sizeof(label_farewell) - 1, key, &n) != NULL &&
                n == TLS_PSK_LEN &&
                ossl.f_HMAC(ossl.f_EVP_sha256(), key, TLS_PSK_LEN, data, len,
                            mac, &n) != NULL &&
                n == TLS_MAC_LEN / 2;
    explicit_bzero(key, sizeof(key));
    for (unsigned i = 0; good && i < TLS_MAC_LEN / 2; i++) {
        hex[2 * i] = digits[mac[i] >> 4];
        hex[2 * i + 1] = digits[mac[i] & 15];
    }
    hex[good ? TLS_MAC_LEN : 0] = '\0';
    return good ? 0 : -1;
}

int tls_key_sign(const struct tls_key *key,
                 const void *data,
                 size_t len,
                 char hex[TLS_MAC_LEN + 1])
{
    ddp_assert(key->magic == TLS_KEY_MAGIC && key->psks[0].is_set);
    return sign(&key->psks[0], data, len, hex);
}

bool tls_key_signed(const struct tls_key *key,
                    const void *data,
                    size_t len,
                    const char *hex)
{
    char made[TLS_MAC_LEN + 1];
    bool same = false;
    if (strlen(hex) != TLS_MAC_LEN)
        return false;
    for (size_t i = 0; i < TOKENS_MAX; i++)
        same |= key->psks[i].is_set &&
                sign(&key->psks[i], data, len, made) == 0 &&
                ossl.f_CRYPTO_memcmp(made, hex, TLS_MAC_LEN) == 0;
    return same;
}

/* -- OpenSSL's settings ---------------------------------------------------- */

/* SSL_CTX_ctrl stands for what the headers of OpenSSL have as macros. */
static SSL_CTX *make_ctx(void)
{
    SSL_CTX *c = ossl.f_SSL_CTX_new(ossl.f_TLS_method());
    /* X25519 makes a handshake cheaper by a third. P-256 is in every build,
     * also in those that FIPS restricts. Arrays: OpenSSL takes no const. */
    char groups[] = "X25519:P-256";
    char group[] = "P-256";
    if (c == NULL)
        return NULL;
    (void)ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
    (void)ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_SET_SESS_CACHE_MODE,
                              SSL_SESS_CACHE_OFF, NULL);
    (void)ossl.f_SSL_CTX_ctrl(c, SSL_CTRL_SET_MAX_SEND_FRAGMENT,
                              SEND_FRAGMENT_MAX, NULL);
    (void)ossl.f_SSL_CTX_set_options(c,
                                     SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    /* No middlebox has to take this for TLS 1.2: one record less each way. */
    (void)ossl.f_SSL_CTX_clear_options(c, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
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

SSL *tls_key_ssl(struct tls_key *key, unsigned which, bool accepts)
{
    ddp_assert(key->magic == TLS_KEY_MAGIC && key->ctx != NULL);
    ddp_assert(which < TOKENS_MAX);
    SSL *s = ossl.f_SSL_new(key->ctx);
    if (s == NULL || ossl.f_SSL_set_ex_data(s, 0, &key->psks[which]) != 1) {
        ossl.f_SSL_free(s);
        return NULL;
    }
    if (accepts) {
        ossl.f_SSL_set_accept_state(s);
        return s;
    }
    /* No certificate is trusted: a server that shows one is refused. */
    ossl.f_SSL_set_verify(s, SSL_VERIFY_PEER, NULL);
    ossl.f_SSL_set_connect_state(s);
    return s;
}

/* -- keys ------------------------------------------------------------------ */

static struct tls_key *key_new(void)
{
    struct tls_key *key = calloc(1, sizeof(*key));
    if (key == NULL)
        return NULL;
    key->magic = TLS_KEY_MAGIC;
    for (size_t i = 0; i < TOKENS_MAX; i++)
        key->psks[i].magic = TLS_KEY_MAGIC;
    key->next = all_keys;
    key->link = &all_keys;
    if (key->next != NULL)
        key->next->link = &key->next;
    all_keys = key;
    return key;
}

static int cannot(struct ddp_err *err)
{
    const char *why = ossl.f_ERR_reason_error_string(ossl.f_ERR_peek_error());
    return ddp_err_set(err, DDP_E_CONFIG,
                       "a token needs TLS 1.3 with AES-128-GCM and P-256, "
                       "which OpenSSL on this machine does not provide (%s)",
                       why != NULL ? why : "no reason given");
}

int tls_key_make(struct tls_key **out,
                 const void *token,
                 size_t len,
                 struct ddp_err *err)
{
    if (openssl_load(err) != 0)
        return -1;
    struct tls_key *key = key_new();
    if (key == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a key");
    ossl.f_ERR_clear_error(); /* what came before is no reason */
    key->ctx = make_ctx();
    if (key->ctx == NULL || derive(token, len, key->psks[0].bytes) != 0) {
        (void)cannot(err);
        tls_key_free(key);
        return -1;
    }
    key->psks[0].is_set = true;
    *out = key;
    return 0;
}

void tls_key_free(struct tls_key *key)
{
    if (key == NULL)
        return;
    *key->link = key->next;
    if (key->next != NULL)
        key->next->link = key->link;
    ossl.f_SSL_CTX_free(key->ctx);
    explicit_bzero(key, sizeof(*key));
    free(key);
}

/* All of them, or, if it fails, none: the key is as it was. */
static int
set_tokens(struct tls_key *key, const struct tokens *t, struct ddp_err *err)
{
    struct tls_psk psks[TOKENS_MAX] = {{.magic = TLS_KEY_MAGIC},
                                       {.magic = TLS_KEY_MAGIC}};
    int rc = 0;
    ossl.f_ERR_clear_error(); /* what came before is no reason */
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        rc = derive(t->at[i].bytes, t->at[i].len, psks[i].bytes);
        psks[i].is_set = true;
    }
    if (rc == 0)
        memcpy(key->psks, psks, sizeof(psks));
    explicit_bzero(psks, sizeof(psks));
    return rc == 0 ? 0 : cannot(err);
}

int tls_key_read(struct tls_key **out, const char *path, struct ddp_err *err)
{
    struct tokens t;
    struct tls_key *key = NULL;
    int rc = token_read(path, &t, err);
    if (rc == 0)
        rc = tls_key_make(&key, t.at[0].bytes, t.at[0].len, err);
    if (rc == 0)
        rc = set_tokens(key, &t, err);
    tokens_wipe(&t);
    if (rc != 0)
        tls_key_free(key);
    else
        *out = key;
    return rc;
}

int tls_key_reread(struct tls_key *key, const char *path, struct ddp_err *err)
{
    struct tokens t;
    ddp_assert(key->magic == TLS_KEY_MAGIC);
    int rc = token_read(path, &t, err);
    if (rc == 0)
        rc = set_tokens(key, &t, err);
    tokens_wipe(&t);
    return rc;
}

int tls_key_tokens(const struct tls_key *key)
{
    int n = 0;
    for (size_t i = 0; i < TOKENS_MAX; i++)
        n += key->psks[i].is_set;
    return n;
}

void tls_key_forget_all(void)
{
    for (struct tls_key *key = all_keys; key != NULL; key = key->next)
        for (size_t i = 0; i < TOKENS_MAX; i++) {
            explicit_bzero(key->psks[i].bytes, TLS_PSK_LEN);
            key->psks[i].is_set = false;
        }
}
