/*
 * store/store: the meaning of a TCPStore: keys and values as bytes, and the
 * connections that wait for a key. Pure: requests come in decoded, replies go
 * out through a callback; no socket, no clock. It allocates, because keys are
 * unbounded in number, but never more than it was allowed, and keys that a peer
 * chose to collide do not slow it down (keyed hash).
 *
 * What PyTorch's two servers do differently, this one does as the libuv one:
 * GET of a missing key answers an empty value. A number that ADD meets is read
 * as C's strtoll reads it (leading blanks, a sign, digits, anything behind
 * them ignored), because both servers do so.
 *
 *     request \ key     missing                       there
 *     SET               stored, wakes                 replaced, wakes
 *     GET               empty value                   its value
 *     ADD d             d is stored, wakes            sum is stored, as text
 *     APPEND            stored, wakes                 grows
 *     COMPARE_SET e d   e empty: d stored, wakes, d   equals e: d stored, d
 *                       else: nothing stored, e (!)   else: its value
 *     DELETE_KEY        0                             removed, 1
 *     WAIT              waits for it                  counts as come
 *     BARRIER n         as ADD 1; waits until the sum is n, or until another
 *                       request writes to the key
 *
 * A WAIT counts only the keys that are missing when it arrives; a key that is
 * deleted while another is awaited is not awaited again. They are woken in the
 * order in which they came.
 *
 * Queues have names of their own: a key may have a value and a queue, and only
 * values are counted, listed and deleted. For WAIT and CHECK a queue with an
 * item counts as come. QUEUE_PUSH wakes one waiting connection, for there is
 * one item; if that one does not pop it with its next request, another is
 * woken.
 *
 * WATCH_KEY (PyTorch up to 2.0) has every change of a value sent to the
 * connection, until that is closed; after two requests each change is sent
 * twice.
 */
#ifndef RENDEZVOUS_STORE_STORE_H
#define RENDEZVOUS_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "rendezvous/proto/c10d.h"
#include "rendezvous/store/reply.h"

struct store;

struct store_config {
    uint32_t conn_max;    /* ids of connections are below this */
    size_t byte_max;      /* keys, values, queues, waits, watches and
                             their upkeep, in all */
    uint64_t hash_key[2]; /* random, unknown to peers */
    store_send *send;
    void *ctx; /* borrowed for the store's life */
};

/* NULL and DDP_E_NOMEM if there is no memory. The caller frees with
 * store_del. */
struct store *store_new(const struct store_config *cf, struct ddp_err *err);
void store_del(struct store *s);

/*
 * Serves one request. Returns 0; -1 if the connection must be closed (followed
 * by store_gone): DDP_E_PROTO, the request cannot be answered; DDP_E_NOMEM, the
 * store is full. A MULTI_SET that fails has stored the pairs before the
 * failure.
 *
 * A connection has one wait at most. A client of the old family that times
 * out sends its next request without a word: its wait is dropped by
 * that, or a late wake-up would be read as another answer. In the new family
 * only CANCEL_WAIT may follow a pending wait.
 */
int store_step(struct store *s,
               uint32_t conn,
               enum c10d_family family,
               const struct c10d_request *req,
               struct ddp_err *err);

/* The connection is closed: its wait is forgotten, its id may be used again.
 * Keys stay. */
void store_gone(struct store *s, uint32_t conn);

/* How much of byte_max is in use, and how many keys are there. */
size_t store_bytes(const struct store *s);
uint64_t store_keys(const struct store *s);

#endif
