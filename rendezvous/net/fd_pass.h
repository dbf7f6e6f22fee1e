/*
 * net/fd_pass: connections handed from one process of ours to another: who
 * accepts on a port is not who serves what is spoken there. A channel is a
 * socket pair; what travels is a descriptor (SCM_RIGHTS) with the bytes that
 * were read from it already.
 *
 * The giver never waits: what the taker does not take at once is kept here and
 * goes when there is room, and when too many wait, a connection is closed
 * instead. The taker's end may be shared by processes that come after each
 * other: what waits in the channel waits for the next.
 */
#ifndef RENDEZVOUS_NET_FD_PASS_H
#define RENDEZVOUS_NET_FD_PASS_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

#define FD_PASS_BYTES_MAX   8192 /* read before it was handed over */
#define FD_PASS_WAITING_MAX 2048 /* connections that the giver keeps */

/* The two ends, close-on-exec and non-blocking, owned by the caller. Errors:
 * DDP_E_NOMEM. */
int fd_pass_pair(int *give, int *take, struct ddp_err *err);

struct giver;

/* Owns `chan`, the giving end, from here on, also when it fails. Errors:
 * DDP_E_NOMEM. */
int giver_open(struct giver **out,
               uv_loop_t *loop,
               int chan,
               struct ddp_err *err);

/*
 * Owns `fd` and what is in `rest` from here on. Returns 0, or -1 where the
 * connection had to be closed: too many wait, or too much was read.
 */
int giver_give(struct giver *g, int fd, struct buf *rest);

/* Closes what waits, too; the memory goes as the loop runs on. */
void giver_close(struct giver *g);

/*
 * Takes one connection: 1 with *fd owned by the caller (-1: it was lost, there
 * was no descriptor for it) and *len bytes in `data`; 0: none is there; -1: the
 * giver is gone.
 */
int fd_pass_take(int chan,
                 int *fd,
                 uint8_t data[FD_PASS_BYTES_MAX],
                 size_t *len);

/*
 * Gives without a giver: a copy of `fd` and `len` bytes of `data`, now or not
 * at all. 0, or -1: errno, EAGAIN where the channel is full.
 */
int fd_pass_give(int chan, int fd, const uint8_t *data, size_t len);

#endif
