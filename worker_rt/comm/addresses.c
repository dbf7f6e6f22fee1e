#include "worker_rt/comm/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sockaddr_in *v4(const struct sockaddr_storage *s)
{
    return (const struct sockaddr_in *)s;
}

static const struct sockaddr_in6 *v6(const struct sockaddr_storage *s)
{
    return (const struct sockaddr_in6 *)s;
}

static socklen_t len_of(const struct sockaddr_storage *s)
{
    return s->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                    : sizeof(struct sockaddr_in);
}

bool addresses_is_loopback(const struct sockaddr_storage *s)
{
    if (s->ss_family == AF_INET)
        return ntohl(v4(s)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return s->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(s)->sin6_addr);
}

/* Without its port. */
static bool is_same(const struct sockaddr_storage *a,
                    const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET
               ? v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr
               : memcmp(&v6(a)->sin6_addr, &v6(b)->sin6_addr,
                        sizeof(v6(a)->sin6_addr)) == 0;
}

static void add(struct addresses *a, const struct sockaddr_storage *s)
{
    for (int i = 0; i < a->n; i++)
        if (is_same(&a->at[i], s))
            return;
    if (a->n < ADDRESSES_MAX)
        a->at[a->n++] = *s;
}

/* Whether `name` stands in a list with commas. */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (n == len && strncmp(at, name, len) == 0)
            return true;
        at += n;
    }
    return false;
}

/* Those of interfaces that are up: the named ones, or all but loopback. A
 * link-local address means nothing on another machine. Of one family, since
 * there is one listener. */
static void add_interfaces(struct addresses *a, const char *names, int family)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        struct sockaddr_storage s = {0};
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family ||
            (i->ifa_flags & IFF_UP) == 0)
            continue;
        s.ss_family = (sa_family_t)family;
        memcpy(&s, i->ifa_addr, len_of(&s));
        bool local =
            family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(&s)->sin6_addr);
        if (local || (names == NULL ? addresses_is_loopback(&s)
                                    : !is_listed(names, i->ifa_name)))
            continue;
        add(a, &s);
    }
    freeifaddrs(list);
}

static int parse(struct sockaddr_storage *s, const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    *s = (struct sockaddr_storage){0};
    memcpy(s, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

int addresses_own(struct addresses *a,
                  const struct sockaddr_storage *seen,
                  bool spans_nodes,
                  struct ddp_err *err)
{
    const char *addr = getenv("DDP_LOCAL_ADDR");
    const char *names = getenv("DDP_SOCKET_IFNAME");
    struct sockaddr_storage s;
    *a = (struct addresses){.n = 0};
    if (addr != NULL && *addr != '\0') {
        if (parse(&s, addr, "0") != 0)
            return ddp_err_set(err, DDP_E_USAGE,
                               "DDP_LOCAL_ADDR=%.64s: must be an IP address of "
                               "this machine",
                               addr);
        add(a, &s);
        return 0;
    }
    if (names != NULL && *names != '\0') {
        add_interfaces(a, names, seen->ss_family);
        if (a->n == 0)
            add_interfaces(a, names,
                           seen->ss_family == AF_INET ? AF_INET6 : AF_INET);
        if (a->n > 0)
            return 0;
        return ddp_err_set(err, DDP_E_USAGE,
                           "DDP_SOCKET_IFNAME=%.64s: no interface of this name "
                           "is up and has an address",
                           names);
    }
    add(a, seen);
    if (spans_nodes && addresses_is_loopback(seen))
        add_interfaces(a, NULL, seen->ss_family);
    return 0;
}

socklen_t addresses_listen(const struct addresses *a,
                           struct sockaddr_storage *where)
{
    *where = a->at[0];
    struct sockaddr_in *four = (struct sockaddr_in *)where;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)where;
    if (where->ss_family == AF_INET6) {
        six->sin6_port = 0;
        if (a->n > 1)
            six->sin6_addr = in6addr_any;
    } else {
        four->sin_port = 0;
        if (a->n > 1)
            four->sin_addr.s_addr = htonl(INADDR_ANY);
    }
    return len_of(where);
}

void addresses_write(const struct addresses *a,
                     unsigned port,
                     char text[ADDRESSES_TEXT])
{
    size_t used = 0;
    for (int i = 0; i < a->n; i++) {
        char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
        if (getnameinfo((const struct sockaddr *)&a->at[i], len_of(&a->at[i]),
                        host, sizeof(host), NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        size_t len = strlen(host);
        if (used + len + sizeof(" 65535") > ADDRESSES_TEXT)
            break;
        memcpy(text + used, host, len);
        text[used + len] = ' ';
        used += len + 1;
    }
    (void)snprintf(text + used, ADDRESSES_TEXT - used, "%u", port); /* fits */
}

void addresses_show(const struct sockaddr_storage *s, char text[ADDRESSES_ONE])
{
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "?", port[8] = "?";
    bool six = s->ss_family == AF_INET6;
    (void)getnameinfo((const struct sockaddr *)s, len_of(s), host, sizeof(host),
                      port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(text, ADDRESSES_ONE, "%s%s%s:%s", /* fits */
                   six ? "[" : "", host, six ? "]" : "", port);
}

int addresses_read(struct addresses *a,
                   const char *text,
                   const struct sockaddr_storage *seen)
{
    char copy[ADDRESSES_TEXT];
    struct addresses all = {.n = 0};
    char *rest = copy;
    if (strlen(text) >= sizeof(copy))
        return -1;
    memcpy(copy, text, strlen(text) + 1);
    char *port = strrchr(copy, ' ');
    if (port == NULL)
        return -1;
    *port++ = '\0';
    if (*port < '1' || *port > '9')
        return -1;
    for (char *host; (host = strsep(&rest, " ")) != NULL;) {
        struct sockaddr_storage s;
        if (parse(&s, host, port) != 0)
            return -1;
        add(&all, &s);
    }
    /* The loopback of another machine is this one's own. */
    bool here = addresses_is_loopback(seen);
    *a = (struct addresses){.n = 0};
    for (int i = 0; i < all.n; i++)
        if (here || !addresses_is_loopback(&all.at[i]))
            add(a, &all.at[i]);
    if (a->n == 0)
        *a = all; /* there is nothing better */
    return all.n > 0 ? 0 : -1;
}
