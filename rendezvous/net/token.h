/*
 * net/token: reads a token from its file, and checks the rights of the file.
 */
#ifndef RENDEZVOUS_NET_TOKEN_H
#define RENDEZVOUS_NET_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

#define TOKEN_MIN  16u /* bytes */
#define TOKEN_MAX  4096u
#define TOKEN_ROOM (TOKEN_MAX + 64u) /* with white space behind it */

/* How a server's refusal of a peer without a token begins (net/conn). */
#define TOKEN_REQUIRED "the rendezvous server requires a token"

/*
 * Reads a token file. It must be a regular file of this user or of root,
 * without any rights for group and others (in $CREDENTIALS_DIRECTORY the group
 * may read), and have TOKEN_MIN to TOKEN_MAX bytes, not counting white space at
 * its end. The caller wipes `token`, also if this fails. Errors: DDP_E_NOINPUT:
 * it cannot be read; DDP_E_CONFIG: mode, owner or size are wrong.
 */
int token_read(const char *path,
               uint8_t token[TOKEN_ROOM],
               size_t *len,
               struct ddp_err *err);

#endif
