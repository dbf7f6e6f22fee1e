/*
 * net/allow: who may connect: single addresses and networks. IPv4 addresses
 * and their v4-mapped IPv6 form are the same.
 */
#ifndef RENDEZVOUS_NET_ALLOW_H
#define RENDEZVOUS_NET_ALLOW_H

#include <stdbool.h>
#include <sys/socket.h>

#include "rendezvous/base/err.h"

#define ALLOW_NETS_MAX  64
#define ALLOW_ADDRS_MAX 262144 /* two for each of the most nodes */

struct allow;

/* Empty: nobody but this machine itself. Errors: NULL, no memory. */
struct allow *allow_new(void);
void allow_free(struct allow *a); /* NULL is fine */

/* A copy of the networks alone. Errors: NULL, no memory. */
struct allow *allow_copy_nets(const struct allow *a);

/* "10.1.0.0/16", "fd00::/8", or an address. Bits behind the prefix must be 0.
 * Errors: DDP_E_USAGE, with what is wrong; DDP_E_NOMEM. */
int allow_add_net(struct allow *a, const char *text, struct ddp_err *err);

/* A numeric address. Errors: DDP_E_USAGE it is none, or there are
 * ALLOW_ADDRS_MAX; DDP_E_NOMEM. */
int allow_add_addr(struct allow *a, const char *text, struct ddp_err *err);

/* Addresses of this machine may always. */
bool allow_has(struct allow *a, const struct sockaddr *sa);

#endif
