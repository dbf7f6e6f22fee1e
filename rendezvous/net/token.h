/*
 * net/token: reads tokens from their file, and checks the rights of the file
 * and that nobody can guess the tokens.
 */
#ifndef RENDEZVOUS_NET_TOKEN_H
#define RENDEZVOUS_NET_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

#define TOKEN_MIN  16u /* bytes */
#define TOKEN_MAX  4096u
#define TOKEN_BITS 80u /* of what cannot be guessed, by token_bits */
#define TOKENS_MAX 2u

/* How a server's refusal of a peer without a token begins (net/conn). */
#define TOKEN_REQUIRED "the rendezvous server requires a token"

struct token {
    size_t len;
    uint8_t bytes[TOKEN_MAX];
};

struct tokens {
    size_t count;
    struct token at[TOKENS_MAX]; /* the first one is used to speak */
};

/*
 * Reads a token file. It must be a regular file of this user or of root,
 * without any rights for group and others (in $CREDENTIALS_DIRECTORY the group
 * may read), and have one or two lines with a token each, of TOKEN_MIN to
 * TOKEN_MAX bytes and TOKEN_BITS. White space at the end of a line is no part
 * of it. The caller wipes `out` (tokens_wipe), also if this fails. Errors:
 * DDP_E_NOINPUT: it cannot be read; DDP_E_CONFIG: mode, owner or a token are
 * wrong.
 */
int token_read(const char *path, struct tokens *out, struct ddp_err *err);

void tokens_wipe(struct tokens *t);

/*
 * How many bits somebody would have to guess who knows how it was made: an
 * upper bound that sees words, repeats and sequences, but knows no dictionary.
 */
unsigned token_bits(const uint8_t *token, size_t len);

#endif
