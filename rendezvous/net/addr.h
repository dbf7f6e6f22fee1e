/*
 * net/addr: names, addresses and listening sockets. Blocking where it must
 * ask a resolver; nothing here needs a loop.
 */
#ifndef RENDEZVOUS_NET_ADDR_H
#define RENDEZVOUS_NET_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "rendezvous/base/err.h"

#define ADDR_TEXT_MAX 64 /* numeric address with scope, NUL included */
#define ADDR_LIST_MAX 16

struct addr_list {
    int n;
    struct sockaddr_storage at[ADDR_LIST_MAX];
};

/*
 * The stream addresses of host:port, IPv4 before IPv6 where a name has both
 * (a v6 address that nobody routes is the commoner trap). An empty host means
 * all addresses of this machine. Errors: DDP_E_UNREACHABLE, naming the host.
 */
int addr_resolve(const char *host,
                 int port,
                 struct addr_list *out,
                 struct ddp_err *err);

/* Whether `host` is a numeric address, which resolves without asking. */
bool addr_is_number(const char *host);

/* What a resolver answered, in that order, as far as it fits. */
struct addrinfo;
void addr_list_fill(struct addr_list *out, const struct addrinfo *all);

/* Numeric text without port; a v4-mapped v6 address as v4. */
void addr_text(const struct sockaddr *sa, char text[ADDR_TEXT_MAX]);
int addr_port(const struct sockaddr *sa); /* of v4 or v6 */
bool addr_is_loopback(const struct sockaddr *sa);

/*
 * Whether the address is one of this machine's, on an interface that is up.
 * Loopback addresses are. This, and not a comparison of host names, says who
 * may host the rendezvous.
 */
bool addr_is_local(const struct sockaddr *sa);

/*
 * A listening, close-on-exec, non-blocking socket in *fd, which the caller
 * owns. The wildcard of v6 takes v4 as well. Errors: DDP_E_CONFIG, with
 * sys_errno telling (EADDRINUSE: somebody serves there).
 */
int addr_listen(const struct sockaddr *sa, int *fd, struct ddp_err *err);

/* The same on every address, v6 and v4 in one socket where the machine has
 * v6; port 0 lets the kernel choose. */
int addr_listen_any(int port, int *fd, struct ddp_err *err);

/* The port that a socket is bound to; 0: that cannot be had. */
int addr_fd_port(int fd);

#endif
