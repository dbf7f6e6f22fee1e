#include "launcher/mpi/pmix_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/mpi/mapping.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

#define WORKERS_MAX 409600000 /* messages.def */
#define MAP_MAX     ((size_t)256 << 20)

/* What one line says. */
struct told_node {
    int64_t rank;
    int64_t workers; /* 0: it has not told yet */
    char host[PMIX_NODES_HOST_MAX + 16];
};

/* ASCII only, in any locale. */
static bool is_of_a_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '-';
}

size_t pmix_nodes_tell(char line[PMIX_NODES_LINE_MAX],
                       int64_t group_rank,
                       int nproc,
                       const char *host)
{
    char plain[PMIX_NODES_HOST_MAX];
    (void)snprintf(plain, sizeof(plain), "%s", /* may be cut */
                   host[0] == '\0' ? "node" : host);
    for (char *at = plain; *at != '\0'; at++)
        if (!is_of_a_name(*at))
            *at = '-';
    int n = snprintf(line, PMIX_NODES_LINE_MAX, "%lld=%d=%s\n",
                     (long long)group_rank, nproc, plain);
    ddp_assert(n > 0 && n < PMIX_NODES_LINE_MAX);
    return (size_t)n;
}

/* Takes a host and its newline. */
static bool take_host(const char **at, const char *end, struct told_node *node)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    size_t len = newline == NULL ? 0 : (size_t)(newline - *at);
    if (len == 0 || len >= PMIX_NODES_HOST_MAX)
        return false;
    for (const char *c = *at; c < newline; c++)
        if (!is_of_a_name(*c))
            return false;
    memcpy(node->host, *at, len);
    node->host[len] = '\0';
    *at = newline + 1;
    return true;
}

static bool read_lines(struct told_node *all,
                       const char *at,
                       size_t len,
                       int64_t nodes,
                       int64_t world_size)
{
    const char *end = at + len;
    int64_t told = 0, ranks = 0, i, n;
    for (; at < end; told++, ranks += n) {
        if (!mapping_take_number(&at, end, '=', nodes - 1, &i) ||
            !mapping_take_number(&at, end, '=', WORKERS_MAX, &n) || n == 0 ||
            all[i].workers != 0 || !take_host(&at, end, &all[i]))
            return false;
        all[i].workers = n;
        all[i].rank = i;
    }
    return told == nodes && ranks == world_size;
}

static int compare_hosts(const void *a, const void *b)
{
    const struct told_node *const *x = a, *const *y = b;
    return strcmp((*x)->host, (*y)->host);
}

/* Equal names stand side by side once they are sorted. False: no memory. */
static bool part_hosts(struct told_node *all, int64_t nodes)
{
    struct told_node **by_host = calloc((size_t)nodes, sizeof(*by_host));
    if (by_host == NULL)
        return false;
    for (int64_t i = 0; i < nodes; i++)
        by_host[i] = &all[i];
    qsort(by_host, (size_t)nodes, sizeof(struct told_node *), compare_hosts);
    for (int64_t i = 0, next; i < nodes; i = next) {
        for (next = i + 1; next < nodes &&
                           strcmp(by_host[i]->host, by_host[next]->host) == 0;)
            next++;
        for (int64_t k = i; k < next && next > i + 1; k++) {
            struct told_node *t = by_host[k];
            size_t len = strlen(t->host);
            (void)snprintf(t->host + len, sizeof(t->host) - len, "_%lld",
                           (long long)t->rank); /* fits */
        }
    }
    free(by_host);
    return true;
}

static bool put_text(struct buf *b, const char *text)
{
    return buf_put(b, text, strlen(text)) == 0;
}

/* "4,5,6" */
static bool put_ranks(struct buf *b, int64_t first, int64_t n)
{
    char text[24];
    for (int64_t i = 0; i < n; i++) {
        (void)snprintf(text, sizeof(text), "%s%lld", i == 0 ? "" : ",",
                       (long long)(first + i)); /* fits */
        if (!put_text(b, text))
            return false;
    }
    return true;
}

/* What is in `b`, as a text of its own; NULL: nothing, or no memory. */
static char *take_text(struct buf *b)
{
    char *text =
        buf_len(b) == 0 ? NULL : strndup((const char *)buf_head(b), buf_len(b));
    buf_free(b);
    return text;
}

static bool write_maps(struct pmix_nodes *n,
                       const struct told_node *all,
                       int64_t nodes,
                       int64_t group_rank)
{
    struct buf hosts, ranks, peers;
    int64_t base = 0;
    bool ok;
    buf_init(&hosts, MAP_MAX);
    buf_init(&ranks, MAP_MAX);
    buf_init(&peers, MAP_MAX);
    n->first_ranks = calloc((size_t)nodes, sizeof(*n->first_ranks));
    ok = n->first_ranks != NULL;
    for (int64_t i = 0; ok && i < nodes; base += all[i].workers, i++) {
        n->first_ranks[i] = base;
        ok = (i == 0 || (put_text(&hosts, ",") && put_text(&ranks, ";"))) &&
             put_text(&hosts, all[i].host) &&
             put_ranks(&ranks, base, all[i].workers);
        if (i == group_rank)
            n->base_rank = base;
    }
    ok = ok && put_ranks(&peers, n->base_rank, all[group_rank].workers);
    memcpy(n->host, all[group_rank].host, sizeof(n->host));
    n->hosts = take_text(&hosts);
    n->ranks = take_text(&ranks);
    n->peers = take_text(&peers);
    return ok && n->hosts != NULL && n->ranks != NULL && n->peers != NULL;
}

bool pmix_nodes_read(struct pmix_nodes *n,
                     const char *lines,
                     size_t len,
                     int64_t nodes,
                     int64_t group_rank,
                     int64_t world_size)
{
    ddp_assert(nodes >= 1 && group_rank >= 0 && group_rank < nodes);
    struct told_node *all = calloc((size_t)nodes, sizeof(*all));
    *n = (struct pmix_nodes){.hosts = NULL};
    bool ok = all != NULL && read_lines(all, lines, len, nodes, world_size) &&
              part_hosts(all, nodes) && write_maps(n, all, nodes, group_rank);
    free(all);
    if (!ok)
        pmix_nodes_free(n);
    return ok;
}

int64_t pmix_nodes_of(const struct pmix_nodes *n, int64_t nodes, int64_t rank)
{
    int64_t i = nodes - 1;
    while (i > 0 && n->first_ranks[i] > rank)
        i--;
    return i;
}

void pmix_nodes_free(struct pmix_nodes *n)
{
    free(n->first_ranks);
    free(n->hosts);
    free(n->ranks);
    free(n->peers);
    *n = (struct pmix_nodes){.hosts = NULL};
}
