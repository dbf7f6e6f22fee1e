/*
 * tests/lib/key_of: a token's key out of a text, for tests of connections.
 */
#ifndef KEY_OF_H
#define KEY_OF_H

#include <check.h>
#include <string.h>

#include "rendezvous/net/tls.h"

/* To be freed by tls_key_free. NULL: none. */
static inline struct tls_key *key_of(const char *text)
{
    struct tls_key *key = NULL;
    struct ddp_err err;
    if (text != NULL)
        ck_assert_msg(tls_key_make(&key, text, strlen(text), &err) == 0, "%s",
                      err.text);
    return key;
}

#endif
