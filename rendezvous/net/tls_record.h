/*
 * net/tls_record: the records of a TLS 1.3 connection once it stands (RFC 8446,
 * section 5): TLS_AES_128_GCM_SHA256, whose keys come from the two traffic
 * secrets that the greeting agreed on.
 *
 * OpenSSL does the greeting and knows all of TLS, and for that keeps some tens
 * of kilobytes for each connection. What is left of TLS after the greeting is
 * this: one AEAD, a key, a nonce that counts. A direction costs 48 bytes, so
 * that ten thousand connections do, too. The bytes on the wire are the same:
 * the unit test has OpenSSL itself at the other end.
 *
 * For net/tls only; openssl_load first. One loop, one thread.
 */
#ifndef RENDEZVOUS_NET_TLS_RECORD_H
#define RENDEZVOUS_NET_TLS_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"

#define RECORD_HEAD_LEN   5u
#define RECORD_SECRET_LEN 32u
#define RECORD_DATA_MAX   16384u /* of plain text */
/* A record's longest: its head, the text, its type, padding, the tag. */
#define RECORD_MAX (RECORD_HEAD_LEN + RECORD_DATA_MAX + 256u)

enum record_type {
    RECORD_ALERT = 21,
    RECORD_HANDSHAKE = 22,
    RECORD_DATA = 23
};

/* One direction. Wipe it (explicit_bzero) when the connection ends. */
struct record_way {
    uint8_t key[16];
    uint8_t iv[12];
    uint64_t count;  /* records so far */
    uint64_t blocks; /* of the cipher so far */
};

/* Its keys, from TLS's traffic secret. -1: OpenSSL fails. */
int record_begin(struct record_way *w, const uint8_t secret[RECORD_SECRET_LEN]);

/*
 * Appends records with the text to `out`, whose limit it keeps. -1: no room, or
 * so much went this way that the key is worn out (RFC 8446, 5.5: 2^34 blocks of
 * AES-GCM, that is 256 GiB): the connection has to be made anew.
 */
int record_seal(struct record_way *w,
                enum record_type type,
                const uint8_t *text,
                size_t len,
                struct buf *out);

/* How long the record is, head included, of which at least RECORD_HEAD_LEN
 * bytes are at `head`; 0: it is none that may come here. */
size_t record_len(const uint8_t *head);

/*
 * Opens the one at `record`, of record_len bytes. The text goes to `text`,
 * which has room for `len` bytes; *type is what it says it is. Returns the
 * text's length, or -1: it is not what the peer sealed at this place, or the
 * key is worn out.
 */
int record_open(struct record_way *w,
                const uint8_t *record,
                size_t len,
                uint8_t *text,
                uint8_t *type);

/* Wipes what the cipher remembers of the last key. */
void record_forget(void);

#endif
