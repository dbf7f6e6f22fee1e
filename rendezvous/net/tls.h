/*
 * net/tls: TLS 1.3 with one pre-shared key, as a filter between the bytes of a
 * socket and those of our protocol. No certificates, no tickets, no early data.
 * Both ends prove that they have the token. The keys of each connection are
 * fresh (psk_dhe_ke): nothing can be replayed, and a recording cannot be read
 * even with a token that is stolen later.
 *
 * OpenSSL does all of it. It is loaded at run time, with the first key: without
 * a token it is not needed and costs nothing. A key and its connections belong
 * to one thread. No I/O but the token file: bytes go in by tls_give and
 * tls_seal and come out in a buffer of the caller's.
 *
 * Anybody on the way can send a FIN: whether what came is all that was sent,
 * the end tells that TLS says (tls_end).
 */
#ifndef RENDEZVOUS_NET_TLS_H
#define RENDEZVOUS_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

#define TLS_FIRST_BYTE    0x16  /* of a hello */
#define TLS_ALERT_BYTE    0x15  /* of an answer that refuses one */
#define TLS_HANDSHAKE_MAX 8192u /* bytes, of a peer without a proof */

struct tls_key; /* made from a token */
struct tls;     /* one end of a connection */

/*
 * Makes a key from a token file (net/token). If that has two tokens, a dialler
 * proves that it has the first, and both are accepted. Borrows `path` for the
 * call; the token itself is wiped before this returns. The caller frees *out.
 * Errors: DDP_E_NOINPUT cannot be read; DDP_E_CONFIG mode, owner, size, or
 * OpenSSL is not installed; DDP_E_NOMEM.
 */
int tls_key_read(struct tls_key **out, const char *path, struct ddp_err *err);

/*
 * Reads the file again, for connections to come; those that are up stay. -1:
 * the key is as it was. Errors as above.
 */
int tls_key_reread(struct tls_key *key, const char *path, struct ddp_err *err);

/* How many tokens a server with this key accepts: 1 or 2. */
int tls_key_tokens(const struct tls_key *key);

/* The same from memory, one token; `len` is not checked. */
int tls_key_make(struct tls_key **out,
                 const void *token,
                 size_t len,
                 struct ddp_err *err);

/*
 * A proof, in hexadecimal, that its maker had the token: tls_key_sign makes it
 * by the key's first token (-1: OpenSSL fails); tls_key_signed says whether
 * `hex` is such a proof by any of the key's tokens.
 */
#define TLS_MAC_LEN 64
int tls_key_sign(const struct tls_key *key,
                 const void *data,
                 size_t len,
                 char hex[TLS_MAC_LEN + 1]);
bool tls_key_signed(const struct tls_key *key,
                    const void *data,
                    size_t len,
                    const char *hex);

/* Wipes and frees the key, after all connections that use it. NULL is fine. */
void tls_key_free(struct tls_key *key);

/*
 * For a forked child that must not have the token: wipes all keys and all
 * secrets of connections in this process. Connections are in TLS_FAILED then,
 * and keys may only be freed.
 */
void tls_forget(void);

enum tls_state {
    TLS_HANDSHAKE, /* not both ends have proved that they have the token */
    TLS_UP,        /* both have */
    TLS_OVER,      /* the peer has said the end and sends nothing more */
    TLS_FAILED,    /* for good; tls_why says why */
};

/*
 * The end that accepted the connection, or the end that dialled it. Borrows
 * `key` and `out` for its life; what is to go to the peer is appended to `out`,
 * up to the limit of that buffer. The first bytes of a dialler are there at
 * once. NULL: no memory.
 */
struct tls *tls_new(struct tls_key *key, bool accepts, struct buf *out);
void tls_free(struct tls *t); /* NULL is fine */

/*
 * Takes what came from the peer. Borrows `data` until tls_take has returned 0;
 * call that before anything else. Each call of tls_take writes the next bytes
 * of plain text, at most `room_len`, and returns how many.
 */
void tls_give(struct tls *t, const uint8_t *data, size_t len);
size_t tls_take(struct tls *t, uint8_t *room, size_t room_len);

/* Encrypts; only in TLS_UP. -1: `out` is full, or TLS failed; the connection
 * is lost (TLS_FAILED). */
int tls_seal(struct tls *t, const uint8_t *data, size_t len);

/* Says the end. Nothing may be sealed behind it. */
void tls_end(struct tls *t);

enum tls_state tls_state(const struct tls *t);

/* Whether the first message of an accepted peer was made with the key. It may
 * be a replay until TLS_UP. */
bool tls_is_proved(const struct tls *t);

/* In TLS_FAILED: the reason, borrowed; and whether the reason is that the two
 * ends have different tokens. */
const char *tls_why(const struct tls *t);
bool tls_token_differs(const struct tls *t);

#endif
