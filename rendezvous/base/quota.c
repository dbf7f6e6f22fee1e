#include "rendezvous/base/quota.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

struct quota_source {
    int count;  /* 0: free */
    int next;   /* in its bucket, or in the list of free ones; -1 ends both */
    int active; /* where it stands in `active` */
    char text[SOURCE_TEXT_MAX];
};

struct quota {
    int holders_max, n_active, free;
    int64_t total;      /* of all counts */
    uint32_t n_buckets; /* a power of two */
    struct quota_source *at;
    int *active; /* those that have a count, in no order */
    int *buckets;
};

/* -- what a source is ------------------------------------------------------ */

static void source_of_v6(const struct in6_addr *a, char text[SOURCE_TEXT_MAX])
{
    struct in6_addr net = *a;
    char name[INET6_ADDRSTRLEN];
    /* Those of one link have that prefix all. */
    bool whole = IN6_IS_ADDR_LINKLOCAL(a);
    if (!whole)
        memset(net.s6_addr + 8, 0, 8);
    if (inet_ntop(AF_INET6, &net, name, sizeof(name)) == NULL)
        name[0] = '\0'; /* never: there is room */
    (void)snprintf(text, /* some may be cut */ SOURCE_TEXT_MAX, "%.43s%s", name,
                   whole ? "" : "/64");
}

/* Prefixes of IPv6 behind which an IPv4 address stands. */
static const struct {
    uint8_t prefix[12];
    size_t len; /* of the prefix; the address follows it */
    bool any;   /* be it loopback or not */
} within[] = {
    {{[10] = 0xff, [11] = 0xff}, 12, true}, /* mapped: RFC 4291, 2.5.5.2 */
    {{0, 0x64, 0xff, 0x9b}, 12, false},     /* translated: RFC 6052, 2.1 */
    {{0x20, 0x02}, 2, false},               /* 6to4: RFC 3056, 2 */
};

/* The IPv4 address that one of IPv6 stands for; false: none. */
static bool find_v4(const struct in6_addr *a, char text[SOURCE_TEXT_MAX])
{
    for (size_t i = 0; i < sizeof(within) / sizeof(within[0]); i++) {
        const uint8_t *v4 = a->s6_addr + within[i].len;
        if (memcmp(a->s6_addr, within[i].prefix, within[i].len) != 0 ||
            (v4[0] == 127 && !within[i].any))
            continue;
        (void)snprintf(text, /* fits */ SOURCE_TEXT_MAX, "%d.%d.%d.%d", v4[0],
                       v4[1], v4[2], v4[3]);
        return true;
    }
    return false;
}

void quota_source_of(const char *addr, char text[SOURCE_TEXT_MAX])
{
    struct in6_addr v6;
    char bare[SOURCE_TEXT_MAX]; /* without the zone of "fe80::1%eth0" */
    size_t len = strcspn(addr, "%");
    if (len >= sizeof(bare))
        len = sizeof(bare) - 1;
    memcpy(bare, addr, len);
    memset(bare + len, 0, sizeof(bare) - len);
    bool is_v6 =
        strchr(bare, ':') != NULL && inet_pton(AF_INET6, bare, &v6) == 1;
    if (is_v6 && find_v4(&v6, bare))
        is_v6 = false;
    if (strncmp(bare, "127.", 4) == 0 || (is_v6 && IN6_IS_ADDR_LOOPBACK(&v6)))
        (void)snprintf(text, SOURCE_TEXT_MAX, "loopback");
    else if (is_v6)
        source_of_v6(&v6, text);
    else
        memcpy(text, bare, sizeof(bare));
}

/* -- counting -------------------------------------------------------------- */

static void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        DDP_WRONG("out of memory while sources are made");
    return p;
}

struct quota *quota_new(int holders_max)
{
    ddp_assert(holders_max > 0);
    struct quota *s = xcalloc(1, sizeof(*s));
    s->holders_max = holders_max;
    s->n_buckets = 16;
    while (s->n_buckets < (uint32_t)holders_max)
        s->n_buckets *= 2;
    s->at = xcalloc((size_t)holders_max, sizeof(s->at[0]));
    s->active = xcalloc((size_t)holders_max, sizeof(s->active[0]));
    s->buckets = xcalloc(s->n_buckets, sizeof(s->buckets[0]));
    for (uint32_t i = 0; i < s->n_buckets; i++)
        s->buckets[i] = -1;
    s->free = -1;
    return s;
}

void quota_del(struct quota *s)
{
    if (s == NULL)
        return;
    free(s->at);
    free(s->active);
    free(s->buckets);
    free(s);
}

/* FNV-1a. A host with many addresses can put some of them into one bucket, and
 * gains a walk along these. */
static uint32_t bucket_of(const struct quota *s, const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return (h ^ h >> 16) & (s->n_buckets - 1);
}

static int find(const struct quota *s, const char *text)
{
    int i = s->buckets[bucket_of(s, text)];
    while (i >= 0 && strcmp(s->at[i].text, text) != 0)
        i = s->at[i].next;
    return i;
}

/* One whose slot was never used, or is free again. */
static int begin(struct quota *s, const char *text)
{
    int i = s->free;
    if (i >= 0)
        s->free = s->at[i].next;
    else
        i = s->n_active; /* none is free: all before this one are in use */
    ddp_assert(i < s->holders_max);
    int *bucket = &s->buckets[bucket_of(s, text)];
    struct quota_source *source = &s->at[i];
    memcpy(source->text, text, sizeof(source->text));
    source->next = *bucket;
    source->active = s->n_active;
    s->active[s->n_active++] = i;
    *bucket = i;
    return i;
}

int quota_take(struct quota *s, const char *addr)
{
    char text[SOURCE_TEXT_MAX];
    quota_source_of(addr, text);
    int i = find(s, text);
    if (i < 0)
        i = begin(s, text);
    s->at[i].count++;
    s->total++;
    return i;
}

void quota_drop(struct quota *s, int source)
{
    struct quota_source *it = &s->at[source];
    ddp_assert(it->count > 0);
    s->total--;
    if (--it->count > 0)
        return;
    int *link = &s->buckets[bucket_of(s, it->text)];
    while (*link != source)
        link = &s->at[*link].next;
    *link = it->next;
    int last = s->active[--s->n_active];
    s->active[it->active] = last;
    s->at[last].active = it->active;
    it->next = s->free;
    s->free = source;
}

int quota_count(const struct quota *s, int source)
{
    return s->at[source].count;
}

int quota_find(const struct quota *s, const char *addr)
{
    char text[SOURCE_TEXT_MAX];
    quota_source_of(addr, text);
    return find(s, text);
}

int quota_count_of(const struct quota *s, const char *addr)
{
    int i = quota_find(s, addr);
    return i < 0 ? 0 : s->at[i].count;
}

const char *quota_text(const struct quota *s, int source)
{
    return s->at[source].text;
}

bool quota_within_share(const struct quota *s, const char *addr)
{
    int64_t have = quota_count_of(s, addr);
    return have * s->n_active < s->total;
}

bool quota_may_take(int have, int count)
{
    return count >= have + 2;
}

int quota_largest(const struct quota *s, const char *addr)
{
    int most = -1;
    if (!quota_within_share(s, addr))
        return -1;
    for (int i = 0; i < s->n_active; i++)
        if (most < 0 || s->at[s->active[i]].count > s->at[most].count)
            most = s->active[i];
    bool may =
        most >= 0 && quota_may_take(quota_count_of(s, addr), s->at[most].count);
    return may ? most : -1;
}
