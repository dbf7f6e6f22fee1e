/*
 * net/addr: names, addresses and listening sockets. Needs no loop. Only
 * addr_resolve may block, on the resolver.
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
 * The stream addresses of host:port, IPv4 before IPv6 if a name has both: IPv6
 * addresses without a route are more common. An empty host means all addresses
 * of this machine. Errors: DDP_E_UNREACHABLE, with the name.
 */
int addr_resolve(const char *host,
                 int port,
                 struct addr_list *out,
                 struct ddp_err *err);

/* Whether `host` is a numeric address, for which no resolver is asked. */
bool addr_is_number(const char *host);

/* Fills the list with a resolver's answer, IPv4 first, as far as it fits. */
struct addrinfo;
void addr_list_fill(struct addr_list *out, const struct addrinfo *all);

/* Numeric text without port; a v4-mapped v6 address as IPv4. */
void addr_text(const struct sockaddr *sa, char text[ADDR_TEXT_MAX]);
int addr_port(const struct sockaddr *sa); /* of v4 or v6 */
bool addr_is_loopback(const struct sockaddr *sa);

enum addr_local {
    ADDR_ELSEWHERE,
    ADDR_HERE,
    ADDR_UNKNOWN, /* the interfaces cannot be listed; errno says why */
};

/*
 * Whether the address is loopback or on an interface of this machine that is
 * up. This decides which node hosts the rendezvous, not a comparison of host
 * names.
 */
enum addr_local addr_is_local(const struct sockaddr *sa);

/*
 * Makes a listening socket, close-on-exec and non-blocking, in *fd, which the
 * caller owns. The wildcard address of IPv6 accepts IPv4 as well. Errors:
 * DDP_E_CONFIG with sys_errno (EADDRINUSE: another program has the port);
 * DDP_E_NOMEM, no socket can be made (EMFILE: the limit of open files).
 */
int addr_listen(const struct sockaddr *sa, int *fd, struct ddp_err *err);

/* The same on every address: IPv6 and IPv4 in one socket, or IPv4 alone if the
 * machine has no IPv6. With port 0 the kernel chooses the port. */
int addr_listen_any(int port, int *fd, struct ddp_err *err);

/* The port that a socket is bound to; 0: unknown. */
int addr_fd_port(int fd);

#endif
