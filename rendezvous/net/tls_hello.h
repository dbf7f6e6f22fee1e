/*
 * net/tls_hello: reads the first records of who has connected beside OpenSSL,
 * which makes room for a handshake message of the size that its header claims,
 * up to 128 KB. A stranger must not have that: in plain text he may say a small
 * hello, and one more where the two ends prefer different groups (a FIPS build
 * and another); all else is sealed. Pure. For net/tls only.
 */
#ifndef RENDEZVOUS_NET_TLS_HELLO_H
#define RENDEZVOUS_NET_TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_HELLO_HEAD 9u /* a record's head, and that of its message */

/* All zero: nothing has come. */
struct tls_hello {
    uint8_t head[TLS_HELLO_HEAD]; /* of the record that is being read ... */
    size_t head_len;
    size_t skip; /* ... and how much of it is still to come */
    int hellos;  /* plain handshake records that were there */
};

/* The next bytes that came, up to the end of the greeting. False: none of ours
 * says that. */
bool tls_hello_is_plausible(struct tls_hello *h,
                            const uint8_t *data,
                            size_t len);

/* Whether a hello was there, and nothing was begun behind it. */
bool tls_hello_is_whole(const struct tls_hello *h);

#endif
