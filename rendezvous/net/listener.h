/*
 * net/listener: a listening socket on a libuv loop.
 *
 * libuv's own listener accepts everything that waits before it reads anything,
 * and without descriptors it accepts and closes connections as long as they
 * come. This one accepts at most LISTENER_PER_TURN connections in a turn of the
 * loop, so that a flood of them never keeps the loop from the others. Without a
 * descriptor it asks its owner to close one; if the owner cannot, connections
 * wait in the kernel's queue, and the listener tries again every 100 ms.
 */
#ifndef RENDEZVOUS_NET_LISTENER_H
#define RENDEZVOUS_NET_LISTENER_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/err.h"

#define LISTENER_PER_TURN 64

struct listener;

struct listener_handler {
    /* A connection came. The callee owns the descriptor, which is non-blocking
     * and close-on-exec, and may close the listener. */
    void (*on_fd)(void *ctx, int fd);
    /* A connection could not be accepted; `why` is for people. Returns true if
     * the callee closed a descriptor, so that the listener goes on; false: the
     * listener pauses. NULL: it always pauses. */
    bool (*on_stuck)(void *ctx, const char *why);
};

/* Owns `fd`, a bound socket, from here on, also if it fails. Borrows `handler`
 * for its life; the caller ends it with listener_close. Errors: DDP_E_IO,
 * DDP_E_NOMEM. */
int listener_open(struct listener **out,
                  uv_loop_t *loop,
                  int fd,
                  const struct listener_handler *handler,
                  void *ctx,
                  struct ddp_err *err);

/* The handler is not called any more. Memory is freed as the loop runs on. */
void listener_close(struct listener *l);

#endif
