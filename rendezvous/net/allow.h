/*
 * net/allow: the addresses that may connect: single addresses and networks. An
 * IPv4 address and its v4-mapped IPv6 form are the same.
 */
#ifndef RENDEZVOUS_NET_ALLOW_H
#define RENDEZVOUS_NET_ALLOW_H

#include <stdbool.h>
#include <sys/socket.h>

#include "rendezvous/base/err.h"

#define ALLOW_NETS_MAX  64
#define ALLOW_ADDRS_MAX 262144 /* two for each of the most nodes */

struct allow;

/* An empty list allows only this machine itself. The caller frees it with
 * allow_free. Errors: NULL, no memory. */
struct allow *allow_new(void);
void allow_free(struct allow *a); /* NULL is fine */

/* A copy of the networks, without the addresses. Errors: NULL, no memory. */
struct allow *allow_copy_nets(const struct allow *a);

/* Adds "10.1.0.0/16", "fd00::/8", or an address. Bits behind the prefix must be
 * 0. Errors: DDP_E_USAGE: the text is wrong, or there are ALLOW_NETS_MAX. */
int allow_add_net(struct allow *a, const char *text, struct ddp_err *err);

/* Adds a numeric address. Errors: DDP_E_USAGE: it is no address, or there are
 * ALLOW_ADDRS_MAX; DDP_E_NOMEM. */
int allow_add_addr(struct allow *a, const char *text, struct ddp_err *err);

/* Whether the address may connect. Addresses of this machine always may; if
 * the kernel does not tell which these are, a line says so once. */
bool allow_has(struct allow *a, const struct sockaddr *sa);

#endif
