/*
 * net/openssl: OpenSSL, loaded at run time, so that a program without a token
 * neither needs it nor pays for it. For net/tls and net/tls_key only, which
 * call the functions that are listed here as ossl.f_NAME.
 */
#ifndef RENDEZVOUS_NET_OPENSSL_H
#define RENDEZVOUS_NET_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include "rendezvous/base/err.h"

#if OPENSSL_VERSION_MAJOR < 3
#error "OpenSSL 3 or newer is needed"
#endif

/* clang-format off */
#define OPENSSL_FUNCTIONS(F)                                                   \
    F(BIO_clear_flags) F(BIO_free) F(BIO_get_data) F(BIO_get_new_index)        \
    F(BIO_meth_free) F(BIO_meth_new) F(BIO_meth_set_ctrl)                      \
    F(BIO_meth_set_read_ex) F(BIO_meth_set_write_ex) F(BIO_new)                \
    F(BIO_set_data) F(BIO_set_flags) F(BIO_set_init) F(CRYPTO_memcmp)          \
    F(CRYPTO_set_mem_functions) F(ERR_clear_error) F(ERR_peek_error)           \
    F(ERR_reason_error_string) F(EVP_sha256) F(HMAC) F(SSL_CIPHER_find)        \
    F(SSL_CTX_clear_options) F(SSL_CTX_ctrl) F(SSL_CTX_free) F(SSL_CTX_new)    \
    F(SSL_CTX_set_ciphersuites) F(SSL_CTX_set_num_tickets)                     \
    F(SSL_CTX_set_options) F(SSL_CTX_set_psk_find_session_callback)            \
    F(SSL_CTX_set_psk_use_session_callback) F(SSL_SESSION_free)                \
    F(SSL_SESSION_new) F(SSL_SESSION_set1_master_key)                          \
    F(SSL_SESSION_set_cipher) F(SSL_SESSION_set_protocol_version)              \
    F(SSL_do_handshake) F(SSL_free) F(SSL_get_error) F(SSL_get_ex_data)        \
    F(SSL_new) F(SSL_pending) F(SSL_read_ex) F(SSL_session_reused)             \
    F(SSL_set_accept_state) F(SSL_set_bio) F(SSL_set_connect_state)            \
    F(SSL_set_ex_data) F(SSL_set_verify) F(SSL_shutdown) F(SSL_write_ex)       \
    F(TLS_method)
/* clang-format on */

struct openssl {
#define OPENSSL_MEMBER(name) __typeof__(&name) f_##name;
    OPENSSL_FUNCTIONS(OPENSSL_MEMBER)
#undef OPENSSL_MEMBER
};

extern struct openssl ossl; /* empty until openssl_load has returned 0 */

/* Loads OpenSSL with the first call; later calls do nothing. From then on all
 * memory of OpenSSL that may hold keys is wiped when it is freed. DDP_E_CONFIG:
 * it is not installed, or too old. */
int openssl_load(struct ddp_err *err);

#endif
