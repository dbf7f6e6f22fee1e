/*
 * net/handshake: the greeting of a TLS 1.3 connection with a pre-shared key, by
 * OpenSSL. It goes as soon as the two ends have greeted, with all that OpenSSL
 * keeps of a connection; what it leaves is the keys of the records
 * (net/tls_record) and the farewell. For net/tls only; openssl_load first. One
 * thread.
 */
#ifndef RENDEZVOUS_NET_HANDSHAKE_H
#define RENDEZVOUS_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/net/tls_record.h"

#define GREETER_KEY_LEN       32u
#define GREETING_FAREWELL_LEN 32u
#define GREETING_WHY_MAX      160

/* Who greets, with one key. In storage of the caller's, who fills in the key
 * before the first greeting. */
struct greeter {
    struct ssl_ctx_st *ctx; /* OpenSSL's */
    struct bio_method_st *method;
    uint8_t key[GREETER_KEY_LEN];
};

/* -1: OpenSSL on this machine does not do what is needed, its error queue may
 * say why; greeter_free has to follow all the same. */
int greeter_init(struct greeter *g);

/* Wipes it, after all of its greetings. */
void greeter_free(struct greeter *g);

enum greeting_state {
    GREETING_MORE, /* the peer is to say more */
    GREETING_DONE, /* both have the key: greeting_end tells what they agreed */
    GREETING_FAILED, /* greeting_why says why */
};

/* What both ends know when they have greeted. Secret. */
struct greeting_end {
    struct record_way ours, theirs;
    uint8_t farewell[GREETING_FAREWELL_LEN];
};

struct greeting;

/* Of one connection, which we accepted or dialled. Borrows greeter and `out`
 * for its life: what is to go to the peer is appended there. NULL: no memory.
 * greeting_free wipes it; NULL is fine. */
struct greeting *
greeting_new(const struct greeter *greeter, bool accepts, struct buf *out);
void greeting_free(struct greeting *g);

/* Reads of the `*len` bytes at `*data` what belongs to the greeting, and moves
 * both on. A dialler's first step needs none. Not to be called again behind
 * GREETING_DONE or GREETING_FAILED. */
enum greeting_state
greeting_step(struct greeting *g, const uint8_t **data, size_t *len);

/* Behind GREETING_DONE. Borrowed. */
const struct greeting_end *greeting_end(const struct greeting *g);

/* Behind GREETING_FAILED: a sentence, borrowed, and whether the tokens are to
 * blame. */
const char *greeting_why(const struct greeting *g);
bool greeting_token_differs(const struct greeting *g);

#endif
