/*
 * Every address is kept as IPv6, IPv4 ones in v4-mapped form, so that there is
 * one comparison. Networks are few and searched one by one. Addresses may be
 * two for each of 131,072 nodes: they are appended, and sorted when the next
 * one is looked up.
 */
#include "rendezvous/net/allow.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/net/addr.h"

#define MAPPED 96 /* bits in front of an IPv4 address */

struct number {
    uint8_t byte[16];
};

struct net {
    struct number at;
    int bits;
};

struct allow {
    struct net nets[ALLOW_NETS_MAX];
    int n_nets;
    struct number *addrs; /* sorted as far as `sorted` says */
    size_t n_addrs;
    size_t cap;
    bool sorted;
    bool told; /* that own addresses are not known */
};

struct allow *allow_new(void)
{
    return calloc(1, sizeof(struct allow));
}

void allow_free(struct allow *a)
{
    if (a != NULL)
        free(a->addrs);
    free(a);
}

struct allow *allow_copy_nets(const struct allow *a)
{
    struct allow *b = allow_new();
    if (b == NULL)
        return NULL;
    memcpy(b->nets, a->nets, sizeof(b->nets));
    b->n_nets = a->n_nets;
    return b;
}

static void map_v4(const void *four, struct number *out)
{
    memset(out, 0, sizeof(*out));
    out->byte[10] = out->byte[11] = 0xff;
    memcpy(out->byte + 12, four, 4);
}

/* False: it is no address. *v4: it is an IPv4 address. A scope is no part of
 * it.
 */
static bool read_addr(const char *text, struct number *out, bool *v4)
{
    char addr[ADDR_TEXT_MAX];
    struct in_addr four;
    size_t len = strcspn(text, "%");
    if (len >= sizeof(addr))
        return false;
    memcpy(addr, text, len);
    addr[len] = '\0';
    *v4 = inet_pton(AF_INET, addr, &four) == 1;
    if (*v4)
        map_v4(&four, out);
    return *v4 || inet_pton(AF_INET6, addr, out->byte) == 1;
}

static bool read_bits(const char *text, int max, int *bits)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 3 || text[digits] != '\0')
        return false;
    *bits = (int)strtol(text, NULL, 10);
    return *bits <= max;
}

static bool within(const struct number *n, const struct net *net)
{
    ddp_assert(net->bits >= 0 && net->bits <= 128);
    int whole = net->bits / 8;
    int rest = net->bits % 8;
    if (memcmp(n->byte, net->at.byte, (size_t)whole) != 0)
        return false;
    return rest == 0 ||
           ((n->byte[whole] ^ net->at.byte[whole]) >> (8 - rest)) == 0;
}

/* Whether all bits behind the prefix are 0. */
static bool is_whole(const struct net *net)
{
    for (int bit = net->bits; bit < 128; bit++)
        if ((net->at.byte[bit / 8] >> (7 - bit % 8) & 1) != 0)
            return false;
    return true;
}

int allow_add_net(struct allow *a, const char *text, struct ddp_err *err)
{
    char addr[ADDR_TEXT_MAX];
    const char *slash = strchr(text, '/');
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    struct net net;
    bool v4 = false;
    int bits;
    if (len < sizeof(addr)) {
        memcpy(addr, text, len);
        addr[len] = '\0';
    }
    if (len >= sizeof(addr) || !read_addr(addr, &net.at, &v4))
        return ddp_err_set(err, DDP_E_USAGE,
                           "'%.100s' is neither an address nor a network "
                           "(such as 10.1.0.0/16)",
                           text);
    bits = v4 ? 32 : 128;
    if (slash != NULL && !read_bits(slash + 1, v4 ? 32 : 128, &bits))
        return ddp_err_set(err, DDP_E_USAGE,
                           "'%.100s': the prefix length after the / must be a "
                           "number from 0 to %d",
                           text, v4 ? 32 : 128);
    net.bits = bits + (v4 ? MAPPED : 0);
    if (!is_whole(&net))
        return ddp_err_set(err, DDP_E_USAGE,
                           "'%.100s' is an address within a network: remove "
                           "the /%d, or set the bits after the prefix to 0",
                           text, bits);
    if (a->n_nets == ALLOW_NETS_MAX)
        return ddp_err_set(err, DDP_E_USAGE, "there are more than %d networks",
                           ALLOW_NETS_MAX);
    a->nets[a->n_nets++] = net;
    return 0;
}

int allow_add_addr(struct allow *a, const char *text, struct ddp_err *err)
{
    struct number n;
    bool v4;
    if (!read_addr(text, &n, &v4) || a->n_addrs == ALLOW_ADDRS_MAX)
        return ddp_err_set(err, DDP_E_USAGE, "'%.100s' cannot be allowed",
                           text);
    ddp_assert(a->n_addrs <= a->cap);
    if (a->n_addrs == a->cap) {
        size_t cap = a->cap == 0 ? 16 : 2 * a->cap;
        struct number *more = realloc(a->addrs, cap * sizeof(*more));
        if (more == NULL)
            return ddp_err_set(err, DDP_E_NOMEM, "no memory for addresses");
        a->addrs = more;
        a->cap = cap;
    }
    a->addrs[a->n_addrs++] = n;
    a->sorted = false;
    return 0;
}

static int compare(const void *x, const void *y)
{
    return memcmp(x, y, sizeof(struct number));
}

/* Who may not be known is not let in. Said once. */
static bool
is_local(struct allow *a, const struct sockaddr *sa, const char *text)
{
    enum addr_local local = addr_is_local(sa);
    if (local == ADDR_UNKNOWN && !a->told)
        log_warn("cannot find out whether %s is an address of this machine, so "
                 "a connection from it is refused: getifaddrs",
                 text);
    a->told |= local == ADDR_UNKNOWN;
    return local == ADDR_HERE;
}

bool allow_has(struct allow *a, const struct sockaddr *sa)
{
    char text[ADDR_TEXT_MAX];
    struct number n;
    bool v4;
    addr_text(sa, text);
    if (!read_addr(text, &n, &v4))
        return false;
    if (!a->sorted && a->n_addrs > 0)
        qsort(a->addrs, a->n_addrs, sizeof(n), compare);
    a->sorted = true;
    if (a->n_addrs > 0 &&
        bsearch(&n, a->addrs, a->n_addrs, sizeof(n), compare) != NULL)
        return true;
    for (int i = 0; i < a->n_nets; i++)
        if (within(&n, &a->nets[i]))
            return true;
    return is_local(a, sa, text);
}
