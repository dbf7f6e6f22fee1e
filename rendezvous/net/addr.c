/*
 * An IPv4 address may come as such or, through an IPv6 socket, in v4-mapped
 * form. Everything here takes both for the same (v4_of).
 */
#include "rendezvous/net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BACKLOG 4096

static socklen_t len_of(const struct sockaddr *sa)
{
    return sa->sa_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                     : (socklen_t)sizeof(struct sockaddr_in);
}

/* The IPv4 address in `sa`, also in v4-mapped form, which is how it comes
 * through an IPv6 socket. NULL: it is IPv6. */
static const struct in_addr *v4_of(const struct sockaddr *sa,
                                   struct in_addr *scratch)
{
    struct sockaddr_in in;
    if (sa->sa_family == AF_INET) {
        memcpy(&in, sa, sizeof(in));
        *scratch = in.sin_addr;
        return scratch;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, sa, sizeof(in6));
    if (sa->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
        return NULL;
    memcpy(scratch, &in6.sin6_addr.s6_addr[12], sizeof(*scratch));
    return scratch;
}

void addr_list_fill(struct addr_list *out, const struct addrinfo *all)
{
    out->n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (const struct addrinfo *a = all; a != NULL; a = a->ai_next) {
            bool wanted = a->ai_family == (pass == 0 ? AF_INET : AF_INET6);
            if (!wanted || out->n == ADDR_LIST_MAX)
                continue;
            memset(&out->at[out->n], 0, sizeof(out->at[0]));
            memcpy(&out->at[out->n++], a->ai_addr, a->ai_addrlen);
        }
}

bool addr_is_number(const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST};
    struct addrinfo *all;
    if (getaddrinfo(host, NULL, &hints, &all) != 0)
        return false;
    freeaddrinfo(all);
    return true;
}

int addr_resolve(const char *host,
                 int port,
                 struct addr_list *out,
                 struct ddp_err *err)
{
    char service[8];
    (void)snprintf(service, sizeof(service), "%u", (unsigned)port % 65536u);
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (host[0] == '\0' ? AI_PASSIVE : 0),
    };
    struct addrinfo *all;
    int rc = getaddrinfo(host[0] != '\0' ? host : NULL, service, &hints, &all);
    if (rc != 0)
        return ddp_err_set(
            err, DDP_E_UNREACHABLE, "the name '%s' does not resolve here (%s)",
            host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    addr_list_fill(out, all);
    freeaddrinfo(all);
    if (out->n == 0)
        return ddp_err_set(err, DDP_E_UNREACHABLE,
                           "the name '%s' has no IP address", host);
    return 0;
}

void addr_text(const struct sockaddr *sa, char text[ADDR_TEXT_MAX])
{
    struct in_addr v4;
    if (v4_of(sa, &v4) != NULL) {
        (void)inet_ntop(AF_INET, &v4, text,
                        ADDR_TEXT_MAX); /* ADDR_TEXT_MAX is enough */
        return;
    }
    if (getnameinfo(sa, len_of(sa), text, ADDR_TEXT_MAX, NULL, 0,
                    NI_NUMERICHOST) != 0)
        text[0] = '\0';
}

int addr_port(const struct sockaddr *sa)
{
    struct sockaddr_in in; /* both families have the port at the same place */
    memcpy(&in, sa, sizeof(in));
    return ntohs(in.sin_port);
}

bool addr_is_loopback(const struct sockaddr *sa)
{
    struct in_addr v4;
    if (v4_of(sa, &v4) != NULL)
        return ntohl(v4.s_addr) >> 24 == 127;
    struct sockaddr_in6 in6;
    memcpy(&in6, sa, sizeof(in6));
    return sa->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    struct in_addr va, vb;
    bool a4 = v4_of(a, &va) != NULL;
    bool b4 = v4_of(b, &vb) != NULL;
    if (a4 || b4)
        return a4 && b4 && va.s_addr == vb.s_addr;
    struct sockaddr_in6 a6, b6;
    memcpy(&a6, a, sizeof(a6));
    memcpy(&b6, b, sizeof(b6));
    return memcmp(&a6.sin6_addr, &b6.sin6_addr, sizeof(a6.sin6_addr)) == 0;
}

enum addr_local addr_is_local(const struct sockaddr *sa)
{
    if (addr_is_loopback(sa))
        return ADDR_HERE;
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return ADDR_UNKNOWN;
    bool found = false;
    for (struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        if (i->ifa_addr == NULL || (i->ifa_flags & (unsigned)IFF_UP) == 0)
            continue;
        int family = i->ifa_addr->sa_family;
        found = (family == AF_INET || family == AF_INET6) &&
                same_address(i->ifa_addr, sa);
    }
    freeifaddrs(all);
    return found ? ADDR_HERE : ADDR_ELSEWHERE;
}

static bool is_any6(const struct sockaddr *sa)
{
    struct sockaddr_in6 in6;
    memcpy(&in6, sa, sizeof(in6));
    return IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr);
}

/* One can listen on 127.0.0.1 while the interface of that address is down, as
 * in a new network namespace; nobody comes there. The interface is asked, not a
 * connect(2) of a datagram's socket: that succeeds if it was up before. */
static bool is_loopback_down(const struct sockaddr *sa)
{
    struct ifreq lo = {.ifr_name = "lo"};
    int s = sa->sa_family == AF_INET && addr_is_loopback(sa)
                ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)
                : -1;
    if (s < 0)
        return false;
    bool down =
        ioctl(s, SIOCGIFFLAGS, &lo) == 0 && (lo.ifr_flags & IFF_UP) == 0;
    (void)close(s); /* nothing was sent on it */
    return down;
}

int addr_listen(const struct sockaddr *sa, int *fd, struct ddp_err *err)
{
    char text[ADDR_TEXT_MAX];
    addr_text(sa, text);
    if (is_loopback_down(sa))
        return ddp_err_set(err, DDP_E_CONFIG,
                           "nobody can connect to %s here: the loopback "
                           "interface is down; bring it up (ip link set lo up)",
                           text);
    int s =
        socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return ddp_err_sys(err,
                           errno == EAFNOSUPPORT ? DDP_E_CONFIG : DDP_E_NOMEM,
                           errno == EMFILE ? "cannot make a socket (ulimit -n)"
                                           : "cannot make a socket");
    int on = 1;
    int off = 0;
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (sa->sa_family == AF_INET6)
        (void)setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, is_any6(sa) ? &off : &on,
                         sizeof(on));
    if (bind(s, sa, len_of(sa)) != 0 || listen(s, BACKLOG) != 0) {
        ddp_err_sys(err, DDP_E_CONFIG, "cannot listen on %s port %d", text,
                    addr_port(sa));
        (void)close(s); /* nothing was sent on it */
        return -1;
    }
    *fd = s;
    return 0;
}

int addr_listen_any(int port, int *fd, struct ddp_err *err)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port),
                              .sin6_addr = IN6ADDR_ANY_INIT};
    struct ddp_err why;
    if (addr_listen((const struct sockaddr *)&v6, fd, &why) == 0)
        return 0;
    /* A port that another program has is not shared with it, even if it is free
     * for IPv4. Any other error means that this machine has no IPv6. */
    if (why.sys_errno == EADDRINUSE || why.sys_errno == EACCES) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    return addr_listen((const struct sockaddr *)&v4, fd, err);
}

int addr_fd_port(int fd)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0)
        return 0;
    return addr_port((const struct sockaddr *)&ss);
}
