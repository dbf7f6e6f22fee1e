/*
 * net/fd_pass: passes connections from the process that accepts them to the
 * process that serves them. A channel is a socket pair; each message is a
 * descriptor (SCM_RIGHTS) with the bytes that were already read from it.
 *
 * The giver never waits. What the channel does not take at once waits here, and
 * if too many wait, a connection is closed instead. Several processes, one
 * after the other, may have the taker's end: what is in the channel waits for
 * the next.
 */
#ifndef RENDEZVOUS_NET_FD_PASS_H
#define RENDEZVOUS_NET_FD_PASS_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

#define FD_PASS_BYTES_MAX   8192 /* that were read before it was passed on */
#define FD_PASS_WAITING_MAX 2048 /* connections that wait with the giver */

/* The two ends, close-on-exec and non-blocking, owned by the caller. Errors:
 * DDP_E_NOMEM. */
int fd_pass_pair(int *give, int *take, struct ddp_err *err);

struct giver;

/* Owns `chan`, the giving end, from here on, also if it fails. The caller ends
 * it with giver_close. Errors: DDP_E_NOMEM. */
int giver_open(struct giver **out,
               uv_loop_t *loop,
               int chan,
               struct ddp_err *err);

/*
 * Owns `fd` and the bytes in `rest` from here on. Returns 0, or -1: the
 * connection was closed, since too many wait or too much was read.
 */
int giver_give(struct giver *g, int fd, struct buf *rest);

/* Also closes the connections that wait. Memory is freed as the loop runs on.
 */
void giver_close(struct giver *g);

/*
 * Takes one connection. Returns 1 with *len bytes in `data` and *fd, which the
 * caller owns (-1: this process had no descriptor for it, and it is lost); 0:
 * none waits; -1: the giver is gone.
 */
int fd_pass_take(int chan,
                 int *fd,
                 uint8_t data[FD_PASS_BYTES_MAX],
                 size_t *len);

/*
 * Gives a copy of `fd` and `len` bytes of `data` without a giver, now or not at
 * all. Returns 0, or -1 with errno; EAGAIN: the channel is full.
 */
int fd_pass_give(int chan, int fd, const uint8_t *data, size_t len);

#endif
