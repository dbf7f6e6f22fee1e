/*
 * Who gets which group rank. Happy path: the nodes are sorted by seniority, and
 * seated in three passes: survivors keep their places (a worker's data and
 * snapshots lie on its node), newcomers that asked for a free place get it, the
 * rest fills the holes in the order of their names. So the first round of a job
 * is numbered node1, node2, ... node10, in whichever order they came.
 *
 * Failure modes, none of which is an error of the round:
 *   - The round got smaller, and a survivor's place is no more: all survivors
 *     close ranks in their old order.
 *   - Two survivors claim one place (of two instances, or a lie): the senior
 *     one has it, the other is seated with the rest.
 *   - Two newcomers ask for one place, or for one that is taken or beyond the
 *     end: the first to come has it; how many were disappointed is told.
 */
#include "rendezvous/core/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Compares two runs of digits by value and moves both pointers behind them;
 * no overflow, however long they are. */
static int digits_cmp(const char **a, const char **b)
{
    while (**a == '0')
        ++*a;
    while (**b == '0')
        ++*b;
    size_t na = 0;
    while (is_digit((*a)[na]))
        na++;
    size_t nb = 0;
    while (is_digit((*b)[nb]))
        nb++;
    int cmp = na != nb ? (na < nb ? -1 : 1) : memcmp(*a, *b, na);
    *a += na;
    *b += nb;
    return cmp;
}

int ranks_natural_cmp(const char *a, const char *b)
{
    const char *whole_a = a;
    const char *whole_b = b;
    while (*a != '\0' && *b != '\0') {
        if (is_digit(*a) && is_digit(*b)) {
            int cmp = digits_cmp(&a, &b);
            if (cmp != 0)
                return cmp;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    if (*a != *b)
        return *a == '\0' ? -1 : 1;
    return strcmp(whole_a, whole_b); /* node02 and node2: any fixed order */
}

/* Survivors first, in their old order; then newcomers. */
static int by_seniority(const void *va, const void *vb)
{
    const struct ranks_node *a = va;
    const struct ranks_node *b = vb;
    if ((a->previous >= 0) != (b->previous >= 0))
        return a->previous >= 0 ? -1 : 1;
    if (a->previous != b->previous)
        return a->previous < b->previous ? -1 : 1;
    if (a->hosts != b->hosts)
        return a->hosts ? -1 : 1;
    int cmp = ranks_natural_cmp(a->name, b->name);
    if (cmp != 0)
        return cmp;
    return a->arrival < b->arrival ? -1 : a->arrival > b->arrival;
}

static int by_group_rank(const void *va, const void *vb)
{
    const struct ranks_node *a = va;
    const struct ranks_node *b = vb;
    return a->group_rank < b->group_rank ? -1 : a->group_rank > b->group_rank;
}

static void
seat(struct ranks_node *nodes, struct ranks_node *taken, int i, int g)
{
    nodes[i].group_rank = g;
    taken[g].id = i;
}

/*
 * Survivors keep their very places if all of these still exist; if the
 * round got smaller, they close ranks in their old order instead.
 */
static void
seat_survivors(struct ranks_node *nodes, struct ranks_node *taken, int n)
{
    bool close_ranks = false;
    for (int i = 0; i < n; i++)
        if (nodes[i].previous >= n)
            close_ranks = true;
    int next = 0;
    for (int i = 0; i < n && nodes[i].previous >= 0; i++) {
        int g = close_ranks ? next++ : nodes[i].previous;
        if (taken[g].id < 0)
            seat(nodes, taken, i, g);
    }
}

/* Newcomers that asked for a place get it if it is free. `nodes` stand in
 * the order of by_seniority, so among askers the earlier arrival must win. */
static int
seat_askers(struct ranks_node *nodes, struct ranks_node *taken, int n)
{
    int ignored = 0;
    for (int i = 0; i < n; i++) {
        int g = nodes[i].asked;
        if (g < 0 || nodes[i].group_rank >= 0 || nodes[i].previous >= 0)
            continue;
        int holder = g < n ? taken[g].id : i;
        if (holder >= 0)
            ignored++;
        if (holder < 0) {
            seat(nodes, taken, i, g);
        } else if (g < n && nodes[holder].previous < 0 &&
                   nodes[i].arrival < nodes[holder].arrival) {
            nodes[holder].group_rank = -1;
            seat(nodes, taken, i, g);
        }
    }
    return ignored;
}

static void seat_rest(struct ranks_node *nodes, struct ranks_node *taken, int n)
{
    int g = 0;
    for (int i = 0; i < n; i++) {
        if (nodes[i].group_rank >= 0)
            continue;
        while (taken[g].id >= 0)
            g++;
        seat(nodes, taken, i, g);
    }
}

static int by_role(const void *va, const void *vb)
{
    const struct ranks_node *a = va;
    const struct ranks_node *b = vb;
    int cmp = strcmp(a->role, b->role);
    return cmp != 0 ? cmp : by_group_rank(va, vb);
}

/* Counts the workers of each role, in the order of group ranks. `sorted` has
 * room for n; nodes stand at their group ranks. */
static void
number_roles(struct ranks_node *nodes, struct ranks_node *sorted, int n)
{
    memcpy(sorted, nodes, (size_t)n * sizeof(nodes[0]));
    qsort(sorted, (size_t)n, sizeof(sorted[0]), by_role);
    for (int first = 0, behind; first < n; first = behind) {
        int workers = 0;
        for (behind = first; behind < n; behind++) {
            if (strcmp(sorted[behind].role, sorted[first].role) != 0)
                break;
            nodes[sorted[behind].group_rank].role_rank = workers;
            workers += sorted[behind].nproc;
        }
        for (int i = first; i < behind; i++)
            nodes[sorted[i].group_rank].role_world = workers;
    }
}

int ranks_assign(struct ranks_node *nodes,
                 struct ranks_node *scratch,
                 int n,
                 int *ignored)
{
    ddp_assert(n > 0);
    qsort(nodes, (size_t)n, sizeof(nodes[0]), by_seniority);
    for (int i = 0; i < n; i++) {
        nodes[i].group_rank = -1;
        scratch[i].id = -1;
    }
    /* scratch[g].id: the index of the node that sits at g, or -1. */
    seat_survivors(nodes, scratch, n);
    int refused = seat_askers(nodes, scratch, n);
    seat_rest(nodes, scratch, n);
    qsort(nodes, (size_t)n, sizeof(nodes[0]), by_group_rank);
    int world = 0;
    for (int i = 0; i < n; i++) {
        ddp_assert(nodes[i].group_rank == i);
        nodes[i].base_rank = world;
        world += nodes[i].nproc;
    }
    number_roles(nodes, scratch, n);
    if (ignored != NULL)
        *ignored = refused;
    return world;
}
