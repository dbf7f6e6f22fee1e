/*
 * net/token: the file that a token is in, and who may have access to it.
 */
#ifndef RENDEZVOUS_NET_TOKEN_H
#define RENDEZVOUS_NET_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

#define TOKEN_MIN  16u /* bytes */
#define TOKEN_MAX  4096u
#define TOKEN_ROOM (TOKEN_MAX + 64u) /* with room for white space behind it */

/* How a server's refusal of a peer without a token begins (net/conn). */
#define TOKEN_REQUIRED "the rendezvous server requires a token"

/*
 * Reads a token file: regular, ours or root's, closed to group and others (in
 * $CREDENTIALS_DIRECTORY the group may read), TOKEN_MIN..MAX bytes without the
 * white space at its end. The caller wipes `token`, also where it fails.
 * Errors: DDP_E_NOINPUT cannot be read; DDP_E_CONFIG mode, owner, size.
 */
int token_read(const char *path,
               uint8_t token[TOKEN_ROOM],
               size_t *len,
               struct ddp_err *err);

#endif
