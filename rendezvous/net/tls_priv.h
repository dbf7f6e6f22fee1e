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
#include "rendezvous/net/token.h"

#define TLS_PSK_LEN 32u

#define TLS_KEY_MAGIC 0x746c736bu

/* Of one token. An SSL object may outlive what is in it, see tls_key_reread. */
struct tls_psk {
    unsigned magic;
    bool is_set; /* else nobody can prove anything with it */
    uint8_t bytes[TLS_PSK_LEN];
};

struct tls_key {
    unsigned magic;
    struct tls_key *next, **link; /* the list of all keys */
    SSL_CTX *ctx;
    struct tls_psk psks[TOKENS_MAX]; /* the first one is set */
};

/*
 * A new SSL object that proves with psks[which] that it has the token, as the
 * end that accepted the connection or as the end that dialled. It has no BIO
 * yet. Borrows `key` for its life; the caller frees it with SSL_free. NULL: no
 * memory.
 */
SSL *tls_key_ssl(struct tls_key *key, unsigned which, bool accepts);

/* Wipes every key of this process (tls_forget). */
void tls_key_forget_all(void);

#endif
