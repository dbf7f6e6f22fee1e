/*
 * From NUMA nodes to a set of CPUs for one worker, by sysfs.
 *
 * topology_bind() is asked for one seat at a time, and computes all seats of
 * the same node to find this seat's part: the order of the seats alone decides,
 * so that all workers of a node, each asking for itself, get parts that do not
 * overlap.
 *
 * sysfs is incomplete on many machines (virtual machines, containers, old
 * kernels). A file that is missing is no error: a machine without nodes has
 * node 0, a core without siblings is one CPU, a CPU without caches shares one
 * with its whole node. Errors are left for what cannot be done at all: no CPU
 * of the node is allowed, or there are more seats than cores.
 */
#include "launcher/hw/topology.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_CAP 4096

/* CPUs that share a core or a cache. */
struct cpu_group {
    int first; /* its lowest CPU, allowed or not */
    struct cpus cpus;
};

/* -- files of sysfs -------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static bool
read_text(char *text, int cap, const char *fmt, ...)
{
    char path[PATH_CAP];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(path, sizeof(path), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(path))
        return false;
    FILE *f = fopen(path, "re");
    bool got = f != NULL && fgets(text, cap, f) != NULL;
    if (f != NULL)
        (void)fclose(f); /* read only */
    if (got)
        text[strcspn(text, "\n")] = '\0';
    return got;
}

static bool node_cpus(const char *sys, int node, struct cpus *cpus)
{
    char text[PATH_CAP];
    return read_text(text, sizeof(text),
                     "%s/devices/system/node/node%d/cpulist", sys, node) &&
           cpus_read(text, cpus);
}

/* The numbers of all possible nodes; false if sysfs has none. */
static bool possible_nodes(const char *sys, struct cpus *nodes)
{
    char text[PATH_CAP];
    return read_text(text, sizeof(text), "%s/devices/system/node/possible",
                     sys) &&
           cpus_read(text, nodes);
}

/* The allowed CPUs of a node, and how many. If sysfs has no nodes, node 0 has
 * all CPUs. */
static int allowed_of(const char *sys,
                      int node,
                      const struct cpus *allowed,
                      struct cpus *cpus)
{
    struct cpus nodes;
    if (!node_cpus(sys, node, cpus))
        *cpus = node == 0 && !possible_nodes(sys, &nodes) ? *allowed
                                                          : (struct cpus){{0}};
    cpus_and(cpus, allowed);
    return cpus_count(cpus);
}

static int socket_of(const char *sys, int cpu)
{
    char text[32];
    return read_text(text, sizeof(text),
                     "%s/devices/system/cpu/cpu%d/topology/"
                     "physical_package_id",
                     sys, cpu)
               ? atoi(text)
               : 0;
}

int topology_pci_node(const char *sys, const char *pci)
{
    char text[32], *end;
    if (!read_text(text, sizeof(text), "%s/bus/pci/devices/%s/numa_node", sys,
                   pci))
        return -1;
    long node = strtol(text, &end, 10);
    return end != text && node >= 0 && node < TOPOLOGY_NODES_MAX ? (int)node
                                                                 : -1;
}

int topology_nodes(const char *sys,
                   const struct cpus *allowed,
                   int nodes[TOPOLOGY_NODES_MAX])
{
    int n = 0;
    struct cpus all, cpus;
    if (!possible_nodes(sys, &all)) {
        nodes[0] = 0;
        return 1;
    }
    for (int node = cpus_next(&all, 0); node >= 0 && node < TOPOLOGY_NODES_MAX;
         node = cpus_next(&all, node + 1)) {
        if (allowed_of(sys, node, allowed, &cpus) > 0)
            nodes[n++] = node;
    }
    return n;
}

bool topology_seat_nodes(const char *sys,
                         const struct cpus *allowed,
                         const int gpu_nodes[],
                         int gpus,
                         int seats,
                         int nodes[])
{
    int all[TOPOLOGY_NODES_MAX];
    int n = topology_nodes(sys, allowed, all);
    ddp_assert(gpus >= 0 && seats > 0);
    for (int i = 0; i < seats && n > 0; i++) {
        int node =
            gpus > 0 ? gpu_nodes[i % gpus] : all[(int)((int64_t)i * n / seats)];
        nodes[i] = node >= 0 ? node : all[0];
    }
    return n > 0;
}

/* -- cores and caches ------------------------------------------------------ */

/* The threads of the core of `cpu`; `cpu` alone if sysfs does not say. */
static void core_of(const char *sys, int cpu, struct cpus *cpus)
{
    char text[PATH_CAP];
    if (!read_text(text, sizeof(text),
                   "%s/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                   sys, cpu) ||
        !cpus_read(text, cpus) || !cpus_has(cpus, cpu)) {
        *cpus = (struct cpus){{0}};
        cpus_add(cpus, cpu);
    }
}

/* The CPUs that share the last-level data cache of `cpu`; all of `otherwise` if
 * sysfs does not say. */
static void cache_of(const char *sys,
                     int cpu,
                     const struct cpus *otherwise,
                     struct cpus *cpus)
{
    int highest = 0;
    *cpus = *otherwise;
    for (int index = 0; index < 16; index++) {
        char text[PATH_CAP], type[32], level[16];
        struct cpus shared;
        static const char dir[] =
            "%s/devices/system/cpu/cpu%d/cache/index%d/%s";
        if (!read_text(type, sizeof(type), dir, sys, cpu, index, "type"))
            return;
        if (strcmp(type, "Instruction") == 0 ||
            !read_text(level, sizeof(level), dir, sys, cpu, index, "level") ||
            !read_text(text, sizeof(text), dir, sys, cpu, index,
                       "shared_cpu_list") ||
            atoi(level) <= highest || !cpus_read(text, &shared))
            continue;
        highest = atoi(level);
        *cpus = shared;
    }
}

/* Divides `cpus` into groups that share a core or a cache; the caller frees.
 * NULL: no memory. Files are read for the first CPU of each group only, since a
 * machine can have hundreds. */
static struct cpu_group *
make_groups(const char *sys, bool caches, const struct cpus *cpus, int *n)
{
    struct cpu_group *groups =
        calloc((size_t)cpus_count(cpus), sizeof(*groups));
    struct cpus left = *cpus;
    *n = 0;
    for (int cpu = cpus_next(&left, 0); groups != NULL && cpu >= 0;
         cpu = cpus_next(&left, cpu + 1)) {
        struct cpus all;
        if (caches)
            cache_of(sys, cpu, cpus, &all);
        else
            core_of(sys, cpu, &all);
        struct cpu_group *g = &groups[(*n)++];
        g->first = cpus_next(&all, 0);
        g->cpus = all;
        cpus_and(&g->cpus, &left); /* no CPU is in two groups, even ... */
        cpus_add(&g->cpus, cpu);   /* ... if the files say so */
        cpus_drop(&left, &g->cpus);
    }
    ddp_assert(groups == NULL || *n <= cpus_count(cpus));
    return groups;
}

static int by_first(const void *a, const void *b)
{
    const struct cpu_group *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static int by_size(const void *a, const void *b)
{
    const struct cpu_group *x = a, *y = b;
    int more = cpus_count(&y->cpus) - cpus_count(&x->cpus);
    return more != 0 ? more : by_first(a, b);
}

/* -- the modes ------------------------------------------------------------- */

static void bind_socket(const char *sys,
                        const struct cpus *allowed,
                        const struct cpus *node,
                        struct cpus *out)
{
    int nodes[TOPOLOGY_NODES_MAX];
    int n = topology_nodes(sys, allowed, nodes);
    int socket = socket_of(sys, cpus_next(node, 0));
    *out = *node;
    for (int i = 0; i < n; i++) {
        struct cpus cpus;
        if (allowed_of(sys, nodes[i], allowed, &cpus) > 0 &&
            socket_of(sys, cpus_next(&cpus, 0)) == socket)
            cpus_or(out, &cpus);
    }
}

/* Seat `place` of `seats` on one node. */
static int share_cores(struct cpu_group *groups,
                       int cores,
                       int seats,
                       int place,
                       int node,
                       struct cpus *out,
                       struct ddp_err *err)
{
    ddp_assert(place >= 0 && place < seats);
    int each = cores / seats, more = cores % seats;
    if (each == 0)
        return ddp_err_set(
            err, DDP_E_CONFIG,
            "exclusive: NUMA node %d has %d usable core%s for %d "
            "worker%s or GPU%s",
            node, cores, cores == 1 ? "" : "s", seats, seats == 1 ? "" : "s",
            seats == 1 ? "" : "s");
    int first = place * each + (place < more ? place : more);
    int last = first + each + (place < more);
    qsort(groups, (size_t)cores, sizeof(*groups), by_first);
    *out = (struct cpus){{0}};
    for (int i = first; i < last; i++)
        cpus_or(out, &groups[i].cpus);
    return 0;
}

static int bind_part(const char *sys,
                     bool caches,
                     const struct cpus *cpus,
                     const int node_of[],
                     int n,
                     int at,
                     struct cpus *out,
                     struct ddp_err *err)
{
    int seats = 0, place = 0, groups_len = 0, rc = 0;
    for (int i = 0; i < n; i++) {
        place += node_of[i] == node_of[at] && i < at;
        seats += node_of[i] == node_of[at];
    }
    struct cpu_group *groups = make_groups(sys, caches, cpus, &groups_len);
    if (groups == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the topology");
    ddp_assert(groups_len > 0); /* the node has a CPU */
    if (caches) {
        qsort(groups, (size_t)groups_len, sizeof(*groups), by_size);
        *out = groups[place % groups_len].cpus;
    } else {
        rc = share_cores(groups, groups_len, seats, place, node_of[at], out,
                         err);
    }
    free(groups);
    return rc;
}

int topology_bind(const char *sys,
                  enum topology_mode mode,
                  const struct cpus *allowed,
                  const int node_of[],
                  int n,
                  int at,
                  struct cpus *out,
                  struct ddp_err *err)
{
    struct cpus node;
    ddp_assert(at >= 0 && at < n);
    *out = *allowed;
    if (mode == TOPOLOGY_NONE)
        return 0;
    if (allowed_of(sys, node_of[at], allowed, &node) == 0)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "this process may not use any CPU of NUMA node %d",
                           node_of[at]);
    switch (mode) {
    case TOPOLOGY_NONE:
        return 0;
    case TOPOLOGY_NODE:
        *out = node;
        return 0;
    case TOPOLOGY_SOCKET:
        bind_socket(sys, allowed, &node, out);
        return 0;
    case TOPOLOGY_EXCLUSIVE:
    case TOPOLOGY_CORE_COMPLEX:
        return bind_part(sys, mode == TOPOLOGY_CORE_COMPLEX, &node, node_of, n,
                         at, out, err);
    }
    DDP_WRONG("mode of binding");
}
