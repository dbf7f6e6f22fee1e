#include "rendezvous/http/http_hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_MAX_LEN 253u /* RFC 1035, 2.3.4, as text */
#define ADDR_MAX_LEN 63u  /* an IPv6 address with a zone */

struct part {
    const char *at;
    size_t len;
};

/* -- lists ----------------------------------------------------------------- */

/* The next name; len 0: none is left. */
static struct part next_part(const char **rest)
{
    struct part p = {.at = *rest + strspn(*rest, ", ")};
    p.len = strcspn(p.at, ", ");
    *rest = p.at + p.len;
    return p;
}

static bool is_name(struct part p)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return p.len > 0 && p.len <= NAME_MAX_LEN && strspn(p.at, allowed) >= p.len;
}

static struct part without_dot(struct part p)
{
    if (p.len > 0 && p.at[p.len - 1] == '.')
        p.len--;
    return p;
}

static bool same(struct part a, struct part b)
{
    a = without_dot(a);
    b = without_dot(b);
    return a.len > 0 && a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

int http_hosts_check(const char *list, struct ddp_err *err)
{
    const char *rest = list;
    struct part p = next_part(&rest);
    bool good = p.len > 0 && strlen(list) < HTTP_HOSTS_MAX;
    for (; good && p.len > 0; p = next_part(&rest))
        good = is_name(p);
    if (good)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "--http_hosts: '%.100s' is not a list of host names "
                       "with commas",
                       list);
}

void http_hosts_init(struct http_hosts *h, const char *list)
{
    *h = (struct http_hosts){.own = ""};
    if (gethostname(h->own, sizeof(h->own) - 1) != 0)
        h->own[0] = '\0'; /* then it is asked by its address */
    (void)snprintf(h->others, sizeof(h->others), "%s", list); /* was checked */
}

/* -- what a request has ---------------------------------------------------- */

/* Splits off ":PORT". False: what follows the name is no port. */
static bool take_name(const char *host, struct part *name)
{
    bool v6 = host[0] == '[';
    name->at = host + v6;
    name->len = strcspn(name->at, v6 ? "]" : ":");
    const char *port = name->at + name->len;
    if (v6 && *port++ != ']')
        return false;
    if (*port == '\0')
        return true;
    return *port == ':' && strspn(port + 1, "0123456789") == strlen(port + 1);
}

/* Without a zone: fe80::1%25eth0, RFC 6874. */
static bool is_address(struct part name, bool v6)
{
    char text[ADDR_MAX_LEN + 1];
    unsigned char addr[sizeof(struct in6_addr)];
    size_t len = 0;
    while (len < name.len && name.at[len] != '%')
        len++;
    if (len > ADDR_MAX_LEN || (len < name.len && !v6))
        return false;
    memcpy(text, name.at, len);
    text[len] = '\0';
    return inet_pton(v6 ? AF_INET6 : AF_INET, text, addr) == 1;
}

/* RFC 6761, 6.3: also every name below it. */
static bool is_localhost(struct part name)
{
    static const char localhost[] = "localhost";
    size_t len = sizeof(localhost) - 1;
    name = without_dot(name);
    return name.len >= len &&
           strncasecmp(name.at + name.len - len, localhost, len) == 0 &&
           (name.len == len || name.at[name.len - len - 1] == '.');
}

/* By its whole name, or by its first part. */
static bool is_own(const struct http_hosts *h, struct part name)
{
    struct part whole = {h->own, strlen(h->own)};
    struct part first = {h->own, strcspn(h->own, ".")};
    return same(name, whole) || same(name, first);
}

bool http_hosts_has(const struct http_hosts *h, const char *host)
{
    struct part name;
    if (host[0] == '\0')
        return true;
    if (!take_name(host, &name))
        return false;
    if (is_address(name, host[0] == '['))
        return true;
    if (host[0] == '[')
        return false;
    if (is_localhost(name) || is_own(h, name))
        return true;
    const char *rest = h->others;
    for (struct part p = next_part(&rest); p.len > 0; p = next_part(&rest))
        if (same(name, p))
            return true;
    return false;
}
