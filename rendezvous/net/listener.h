/*
 * net/listener: a listening socket on a libuv loop. libuv's own accepts whoever
 * waits before it reads anybody, and where descriptors run out it accepts and
 * closes all that come, as long as they come. This one takes LISTENER_PER_TURN
 * in a turn of the loop, so that strangers who dial without end never keep it
 * from the others; and where there is no descriptor the owner is asked for one,
 * or who comes waits in the kernel's queue, and the listener looks ten times a
 * second.
 */
#ifndef RENDEZVOUS_NET_LISTENER_H
#define RENDEZVOUS_NET_LISTENER_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/err.h"

#define LISTENER_PER_TURN 64

struct listener;

struct listener_handler {
    /* Somebody came: a descriptor, non-blocking and close-on-exec, that is the
     * callee's now. It may close the listener. */
    void (*on_fd)(void *ctx, int fd);
    /* None could be taken, why is for people. False: the listener rests; true:
     * a descriptor was closed, so that it goes on. NULL: it rests. */
    bool (*on_stuck)(void *ctx, const char *why);
};

/* Takes `fd` over, a socket that listens, also where it fails: DDP_E_IO,
 * DDP_E_NOMEM. Borrows the handler for its life. */
int listener_open(struct listener **out,
                  uv_loop_t *loop,
                  int fd,
                  const struct listener_handler *handler,
                  void *ctx,
                  struct ddp_err *err);

/* Nobody is told anything more. Memory goes as the loop runs on. */
void listener_close(struct listener *d);

#endif
