/*
 * net/tls: TLS 1.3 with one pre-shared key, as a filter between the bytes of a
 * socket and those of our protocol. No certificates, no tickets, no early
 * data: both ends prove that they have the token, and the keys of each
 * connection are fresh (psk_dhe_ke), so that nothing can be read or replayed,
 * not even by who gets the token later.
 *
 * OpenSSL greets; what it keeps of a connection goes with that, and
 * net/tls_record does the rest: a connection that stands costs half a kilobyte.
 * OpenSSL is loaded at run time, with the first key: who uses no token pays
 * nothing. A key and its connections belong to one thread. No I/O but the token
 * file; bytes go in by tls_give and tls_seal and come out in a buffer of the
 * caller's.
 *
 * The end of a connection means something to the server (launcher/proc/guard),
 * so a FIN alone proves nothing here: either TLS says the end (tls_end), or the
 * last bytes are the farewell: a secret of this connection that both ends
 * know, which is worth something once only and which a process without the
 * TLS state can be given to say.
 */
#ifndef RENDEZVOUS_NET_TLS_H
#define RENDEZVOUS_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

#define TLS_FIRST_BYTE   0x16 /* of whoever begins to speak TLS */
#define TLS_ALERT_BYTE   0x15 /* ... or answers that it will not */
#define TLS_FAREWELL_LEN 32u
#define TLS_GREETING_MAX 8192u /* bytes from a peer that has proved nothing */

struct tls_key; /* what a token became */
struct tls;     /* one connection's end */

/*
 * Of a token file (net/token), borrowed for the call. The token itself is wiped
 * before it returns; *out is owned by the caller. Errors: DDP_E_NOINPUT cannot
 * be read; DDP_E_CONFIG mode, owner, size, or OpenSSL is not installed;
 * DDP_E_NOMEM.
 */
int tls_key_read(struct tls_key **out, const char *path, struct ddp_err *err);

/* The same from memory; `len` is not checked. */
int tls_key_make(struct tls_key **out,
                 const void *token,
                 size_t len,
                 struct ddp_err *err);

/* Wipes and frees it, after all connections that use it. NULL is fine. */
void tls_key_free(struct tls_key *key);

/*
 * In a forked child that has no business with the token: wipes all keys and
 * what connections know that this process has, which only tls_free and
 * tls_key_free may be called for from then on.
 */
void tls_forget(void);

enum tls_state {
    TLS_GREETING, /* neither end has proved anything */
    TLS_UP,       /* both have the token */
    TLS_OVER,     /* the peer said the end, and will say no more */
    TLS_FAILED,   /* for good; tls_why says why */
};

/*
 * An end: of who accepted the connection or of who dialled it. Borrows `key`
 * and `out` for its life; what is to go to the peer is appended to `out`, whose
 * limit it keeps. A dialler's first bytes are there at once. NULL: no memory.
 */
struct tls *tls_new(struct tls_key *key, bool accepts, struct buf *out);
void tls_free(struct tls *t); /* NULL is fine */

/*
 * What came from the peer. `data` is borrowed until tls_take has returned 0,
 * up to which it is to be called before anything else: each call gives the
 * next bytes of plain text, at most `room_len`.
 */
void tls_give(struct tls *t, const uint8_t *data, size_t len);
size_t tls_take(struct tls *t, uint8_t *room, size_t room_len);

/* Only in TLS_UP. -1: `out` is full, or it failed; the connection is lost. */
int tls_seal(struct tls *t, const uint8_t *data, size_t len);

/* Says the end; nothing may be sealed behind it. */
void tls_end(struct tls *t);

enum tls_state tls_state(const struct tls *t);

/* Whether the peer's first words were right: of one that was accepted, its
 * hello was made with the key, be it by another one that said it before. */
bool tls_is_answered(const struct tls *t);

/* In TLS_FAILED: a sentence, and whether the tokens are to blame. */
const char *tls_why(const struct tls *t);
bool tls_token_differs(const struct tls *t);

/* From TLS_UP on: the farewell, borrowed; and whether the peer's last bytes
 * were it. */
const uint8_t *tls_farewell(const struct tls *t);
bool tls_said_farewell(const struct tls *t);

#endif
