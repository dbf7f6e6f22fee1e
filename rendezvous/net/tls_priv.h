/*
 * net/tls_priv: what net/tls and net/tls_key share. For these two only;
 * openssl_load first. One thread.
 */
#ifndef RENDEZVOUS_NET_TLS_PRIV_H
#define RENDEZVOUS_NET_TLS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/net/openssl.h"
#include "rendezvous/net/tls.h"

#define TLS_PSK_LEN 32u

struct tls_key {
    struct tls_key *next, **link; /* the list of all keys */
    SSL_CTX *ctx;
    uint8_t psk[TLS_PSK_LEN];
};

/*
 * A new SSL object that proves with `key` that it has the token, as the end
 * that accepted the connection or as the end that dialled. It has no BIO yet.
 * Borrows `key` for its life; the caller frees it with SSL_free. NULL: no
 * memory.
 */
SSL *tls_key_ssl(struct tls_key *key, bool accepts);

/* Wipes every key of this process (tls_forget). */
void tls_key_forget_all(void);

#endif
