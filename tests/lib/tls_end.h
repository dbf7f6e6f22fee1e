/*
 * tests/lib/tls_end: one end of a TLS connection in memory: what it has to
 * send, and what it got.
 */
#ifndef TLS_END_H
#define TLS_END_H

#include "rendezvous/net/tls.h"
#include "tests/lib/key_of.h"

#define TLS_END_OUT_MAX (64u * 1024u)

struct end {
    struct tls *tls;
    struct buf out;
    struct buf got;
};

void end_open(struct end *e, struct tls_key *key, bool accepts);
void end_close(struct end *e);

/* What comes from the other end. */
void give(struct end *e, const uint8_t *data, size_t len);

/* Two of them, and the token that pair_up gives both. */
extern const char token[33];
struct pair {
    struct tls_key *keys[2];
    struct end client, server;
};

void pair_open(struct pair *p, const char *client, const char *server);
void pair_close(struct pair *p);

/* All that `from` has to send, in pieces; true if there was something. */
bool carry(struct end *from, struct end *to, size_t piece);

/* That to and fro, until nothing is left to be said. */
void settle(struct pair *p, size_t piece);

/* Opened, with the handshake done. */
void pair_up(struct pair *p);

#endif
