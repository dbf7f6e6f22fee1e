/*
 * worker_rt/comm/addresses: under which addresses a rank can be called, as text
 * for the store: "ADDRESS [ADDRESS..] PORT".
 *
 * A rank listens where the store sees it. But the host of the store may reach
 * it by 127.0.0.1 (a host name that leads to 127.0.1.1 is Debian's default),
 * where no other node can call. So if the world spans nodes, a rank on loopback
 * publishes that and every other address of its machine, and a caller takes the
 * loopback ones only if the store is on its own machine, too.
 *
 * The environment can say it instead: DDP_LOCAL_ADDR, an address of this
 * machine, or DDP_SOCKET_IFNAME, interfaces with commas between them.
 */
#ifndef WORKER_RT_COMM_ADDRESSES_H
#define WORKER_RT_COMM_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "rendezvous/base/err.h"

#define ADDRESSES_MAX  16  /* of one rank */
#define ADDRESSES_TEXT 800 /* with NUL */

struct addresses {
    struct sockaddr_storage at[ADDRESSES_MAX];
    int n;
};

/* Of this rank, without port; `seen` is where the store sees it. USAGE: what
 * the environment says is no address or interface of this machine. */
int addresses_own(struct addresses *a,
                  const struct sockaddr_storage *seen,
                  bool spans_nodes,
                  struct ddp_err *err);

/* Where to listen for calls to all of them: the only one, or any address of
 * that family; the port is 0. Returns its length. */
socklen_t addresses_listen(const struct addresses *a,
                           struct sockaddr_storage *where);

/* As text, with the port. */
void addresses_write(const struct addresses *a,
                     unsigned port,
                     char text[ADDRESSES_TEXT]);

/* Reads a peer's, in the order in which to call them; `seen` is where the store
 * sees this rank. -1: it is damaged. */
int addresses_read(struct addresses *a,
                   const char *text,
                   const struct sockaddr_storage *seen);

/* One with its port, as it stands in an address of the web. */
#define ADDRESSES_ONE 80 /* with NUL */
void addresses_show(const struct sockaddr_storage *s, char text[ADDRESSES_ONE]);

bool addresses_is_loopback(const struct sockaddr_storage *s);

#endif
