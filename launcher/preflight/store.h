/*
 * launcher/preflight/store: what a preflight's probe says to the round's store
 * at MASTER_ADDR:MASTER_PORT: texts under keys, and waiting for them. Blocking,
 * with deadlines in microseconds of base/mono.
 *
 * Errors of every call: UNREACHABLE, TIMEOUT, LOST, PROTO, NOMEM, ABORTED (see
 * preflight_io). After an error the connection is closed, and the next call
 * makes a new one, so that a late reply is never taken for another request's.
 */
#ifndef LAUNCHER_PREFLIGHT_STORE_H
#define LAUNCHER_PREFLIGHT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

struct preflight_store {
    const char *host; /* borrowed */
    int port;
    int fd; /* -1: not connected */
    struct buf in, out;
};

void preflight_store_init(struct preflight_store *s,
                          const char *host,
                          int port);
void preflight_store_free(struct preflight_store *s);

/* Tries again and again until the deadline. */
int preflight_store_connect(struct preflight_store *s,
                            int64_t deadline_us,
                            struct ddp_err *err);

int preflight_store_set(struct preflight_store *s,
                        const char *key,
                        const char *text,
                        int64_t deadline_us,
                        struct ddp_err *err);

/* Waits for the key. *text ends with a NUL, is the caller's to free(3), and
 * comes from whoever reaches the store: to be looked at with care. NULL: only
 * waits. */
int preflight_store_get(struct preflight_store *s,
                        const char *key,
                        char **text,
                        int64_t deadline_us,
                        struct ddp_err *err);

/* Whether the key is there now. */
int preflight_store_has(struct preflight_store *s,
                        const char *key,
                        bool *there,
                        int64_t deadline_us,
                        struct ddp_err *err);

#endif
