/* links: tests/lib/scratch launcher/hw/{topology,cpus} rendezvous/base/err */
/*
 * Sets of CPUs, the quota of a cgroup, and which CPUs a seat is bound to, all
 * from folders that look like /sys and /proc.
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/hw/topology.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

/* Not by a shell: a hundred folders a test would be a hundred processes. */
static void make_folder(char *name)
{
    if (access(name, F_OK) == 0)
        return;
    char *slash = strrchr(name, '/');
    if (slash != NULL) {
        *slash = '\0';
        make_folder(name);
        *slash = '/';
    }
    ck_assert_int_eq(mkdir(name, 0700), 0);
}

__attribute__((format(printf, 2, 3))) static void
put(const char *text, const char *fmt, ...)
{
    char name[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    char *slash = strrchr(name, '/');
    *slash = '\0';
    make_folder(name);
    *slash = '/';
    FILE *f = fopen(name, "we");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void
put_cache(int cpu, int index, const char *type, int level, const char *list)
{
    char number[16];
    put(type, "sys/devices/system/cpu/cpu%d/cache/index%d/type", cpu, index);
    (void)snprintf(number, sizeof(number), "%d\n", level);
    put(number, "sys/devices/system/cpu/cpu%d/cache/index%d/level", cpu, index);
    put(list, "sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu,
        index);
}

/*
 * Two sockets, four NUMA nodes (0 and 1 on socket 0), 3 cores a node with two
 * threads each: cores 0..11 are CPUs 0..11, their second threads 12..23. On a
 * node the first two cores share a cache, the third has its own. Node 4 has
 * memory only.
 */
static void setup(void)
{
    char list[64], number[16];
    scratch_enter();
    put("0-7\n", "sys/devices/system/node/possible");
    for (int node = 0; node < 4; node++) {
        (void)snprintf(list, sizeof(list), "%d-%d,%d-%d\n", 3 * node,
                       3 * node + 2, 3 * node + 12, 3 * node + 14);
        put(list, "sys/devices/system/node/node%d/cpulist", node);
    }
    put("\n", "sys/devices/system/node/node4/cpulist");
    for (int cpu = 0; cpu < 24; cpu++) {
        int core = cpu % 12, first = core - core % 3;
        (void)snprintf(number, sizeof(number), "%d\n", core / 6);
        put(number, "sys/devices/system/cpu/cpu%d/topology/physical_package_id",
            cpu);
        (void)snprintf(list, sizeof(list), "%d,%d\n", core, core + 12);
        put(list, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
            cpu);
        put_cache(cpu, 0, "Data\n", 1, list);
        put_cache(cpu, 1, "Instruction\n", 9, "0-23\n");
        if (core % 3 != 2)
            (void)snprintf(list, sizeof(list), "%d-%d,%d-%d\n", first,
                           first + 1, first + 12, first + 13);
        put_cache(cpu, 2, "Unified\n", 3, list);
    }
    put("1\n", "sys/bus/pci/devices/0000:3b:00.0/numa_node");
    put("-1\n", "sys/bus/pci/devices/0000:3c:00.0/numa_node");
}

/* -- sets ------------------------------------------------------------------ */

TEST_LOOP(test_cpus_lists_are_read_and_written, 0, 14)
{
    static const struct {
        const char *read, *written; /* NULL: no list */
    } cases[] = {
        {"0-3,8\n", "0-3,8"}, {"", ""},
        {"\n", ""},           {"5", "5"},
        {"1,0,2", "0-2"},     {"4095,99999", "4095"},
        {"1-", NULL},         {"-1", NULL},
        {"3-1", NULL},        {"1,", NULL},
        {"a", NULL},          {"1 2", NULL},
        {"1\n2", NULL},       {"4094-99999999999", "4094-4095"},
    };
    struct cpus set;
    char text[64];
    bool ok = cpus_read(cases[_i].read, &set);
    ck_assert_int_eq(ok, cases[_i].written != NULL);
    if (ok)
        ck_assert_str_eq(cpus_format(&set, text, sizeof(text)),
                         cases[_i].written);
}

TEST(test_cpus_long_lists_are_cut)
{
    struct cpus set;
    char text[16];
    ck_assert(cpus_read("1,3,5,7,9,11,13,15", &set));
    ck_assert_int_eq(cpus_count(&set), 8);
    ck_assert_str_eq(cpus_format(&set, text, sizeof(text)), "1,3,5,7,9,11...");
}

/* -- the quota ------------------------------------------------------------- */

static const struct {
    const char *cgroup, *mountinfo;
    const char *files[6]; /* name, text, ... */
    int cpus;
} quotas[] = {
    /* v2, at the least of the group and its parents; a fraction is rounded up
     */
    {"0::/a/b\n",
     "30 20 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
     {"cg/a/b/cpu.max", "max 100000\n", "cg/a/cpu.max", "250000 100000\n"},
     3},
    {"0::/a/b\n",
     "30 20 0:26 / /cg rw - cgroup2 cgroup2 rw\n",
     {"cg/a/b/cpu.max", "50000 100000\n", "cg/a/cpu.max", "400000 100000\n"},
     1},
    {"0::/\n", "30 20 0:26 / /cg rw - cgroup2 cgroup2 rw\n", {NULL}, 0},
    /* a container sees its own group at the mount point */
    {"0::/docker/1/x\n",
     "30 20 0:26 /docker/1 /cg rw - cgroup2 cgroup2 rw\n",
     {"cg/x/cpu.max", "700000 100000\n", "cg/cpu.max", "600000 100000\n"},
     6},
    /* v1, beside a v2 without controllers */
    {"4:memory:/z\n3:cpu,cpuacct:/a\n0::/a\n",
     "31 20 0:27 / /m rw - cgroup cgroup rw,memory\n"
     "32 20 0:28 / /c rw - cgroup cgroup rw,cpu,cpuacct\n"
     "33 20 0:29 / /u rw - cgroup2 cgroup2 rw\n",
     {"c/a/cpu.cfs_quota_us", "200000\n", "c/a/cpu.cfs_period_us", "100000\n"},
     2},
    {"3:cpuset:/a\n", "", {NULL}, 0},
    {"3:cpu:/a\n",
     "32 20 0:28 / /c rw - cgroup cgroup rw,cpu\n",
     {"c/a/cpu.cfs_quota_us", "-1\n", "c/a/cpu.cfs_period_us", "100000\n"},
     0},
    /* nonsense */
    {"0:", " - cgroup2\n", {NULL}, 0},
};

TEST_EACH(test_cpus_quota_is_found, quotas)
{
    put(quotas[_i].cgroup, "q/proc/self/cgroup");
    put(quotas[_i].mountinfo, "q/proc/self/mountinfo");
    for (int i = 0; i < 6 && quotas[_i].files[i] != NULL; i += 2)
        put(quotas[_i].files[i + 1], "q/%s", quotas[_i].files[i]);
    ck_assert_int_eq(cpus_quota("q"), quotas[_i].cpus);
}

/* -- binding --------------------------------------------------------------- */

static const struct {
    enum topology_mode mode;
    const char *allowed;
    const char *nodes; /* of the seats, a digit each */
    const char *bound; /* of each seat */
} bindings[] = {
    {TOPOLOGY_NONE, "0-23", "0", "0-23"},
    {TOPOLOGY_NODE, "0-23", "013", "0-2,12-14 3-5,15-17 9-11,21-23"},
    {TOPOLOGY_NODE, "0-4", "01", "0-2 3-4"},
    {TOPOLOGY_SOCKET, "0-23", "02", "0-5,12-17 6-11,18-23"},
    {TOPOLOGY_SOCKET, "2-6", "10", "2-5 2-5"},
    {TOPOLOGY_EXCLUSIVE, "0-23", "0", "0-2,12-14"},
    {TOPOLOGY_EXCLUSIVE, "0-23", "00", "0-1,12-13 2,14"},
    {TOPOLOGY_EXCLUSIVE, "0-23", "000", "0,12 1,13 2,14"},
    {TOPOLOGY_EXCLUSIVE, "0-23", "1010", "3-4,15-16 0-1,12-13 5,17 2,14"},
    {TOPOLOGY_EXCLUSIVE, "1-23", "00", "12-13,1 2,14"},
    {TOPOLOGY_CORE_COMPLEX, "0-23", "00", "0-1,12-13 2,14"},
    {TOPOLOGY_CORE_COMPLEX, "0-23", "0000", "0-1,12-13 2,14 0-1,12-13 2,14"},
    {TOPOLOGY_CORE_COMPLEX, "0,2,14", "00", "2,14 0"},
};

/* Tests that only read the files. */
CASE("fast", FIXTURE_ONCE(setup, scratch_leave))

TEST_EACH(test_topology_seats_are_bound, bindings)
{
    struct cpus allowed, out, want;
    int nodes[8], n = (int)strlen(bindings[_i].nodes);
    char list[256], text[64];
    (void)snprintf(list, sizeof(list), "%s", bindings[_i].bound);
    ck_assert(cpus_read(bindings[_i].allowed, &allowed));
    for (int i = 0; i < n; i++)
        nodes[i] = bindings[_i].nodes[i] - '0';
    char *save, *word = strtok_r(list, " ", &save);
    for (int i = 0; i < n; i++, word = strtok_r(NULL, " ", &save)) {
        struct ddp_err err = {.text = ""};
        ck_assert_msg(topology_bind("sys", bindings[_i].mode, &allowed, nodes,
                                    n, i, &out, &err) == 0,
                      "%s", err.text);
        ck_assert(cpus_read(word, &want));
        ck_assert_msg(memcmp(&out, &want, sizeof(out)) == 0,
                      "seat %d: %s, not %s", i,
                      cpus_format(&out, text, sizeof(text)), word);
    }
}

TEST(test_topology_impossible_seats_are_told)
{
    struct cpus allowed, out;
    struct ddp_err err;
    int four[4] = {0}, away[1] = {2}, memory[1] = {4};
    ck_assert(cpus_read("0-5", &allowed));
    ck_assert_int_eq(topology_bind("sys", TOPOLOGY_EXCLUSIVE, &allowed, four, 4,
                                   0, &out, &err),
                     -1);
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_str_eq(err.text,
                     "exclusive: NUMA node 0 has 3 usable cores for 4 "
                     "workers or GPUs");
    ck_assert_int_eq(
        topology_bind("sys", TOPOLOGY_NODE, &allowed, away, 1, 0, &out, &err),
        -1);
    ck_assert_str_eq(err.text,
                     "this process may not use any CPU of NUMA node 2");
    ck_assert_int_eq(topology_bind("sys", TOPOLOGY_SOCKET, &allowed, memory, 1,
                                   0, &out, &err),
                     -1);
}

/* A machine that says nothing has one node, of cores with one thread. */
TEST(test_topology_without_sysfs_is_one_node)
{
    struct cpus allowed, out;
    int nodes[TOPOLOGY_NODES_MAX], seats[2] = {0, 0};
    char text[64];
    ck_assert(cpus_read("1-4", &allowed));
    ck_assert_int_eq(topology_nodes("none", &allowed, nodes), 1);
    ck_assert_int_eq(nodes[0], 0);
    ck_assert_int_eq(topology_bind("none", TOPOLOGY_EXCLUSIVE, &allowed, seats,
                                   2, 1, &out, NULL),
                     0);
    ck_assert_str_eq(cpus_format(&out, text, sizeof(text)), "3-4");
    ck_assert_int_eq(topology_bind("none", TOPOLOGY_CORE_COMPLEX, &allowed,
                                   seats, 2, 1, &out, NULL),
                     0);
    ck_assert_str_eq(cpus_format(&out, text, sizeof(text)), "1-4");
}

TEST(test_topology_devices_and_nodes)
{
    struct cpus allowed;
    int nodes[TOPOLOGY_NODES_MAX];
    ck_assert(cpus_read("5-9", &allowed));
    ck_assert_int_eq(topology_pci_node("sys", "0000:3b:00.0"), 1);
    ck_assert_int_eq(topology_pci_node("sys", "0000:3c:00.0"), -1);
    ck_assert_int_eq(topology_pci_node("sys", "0000:ff:00.0"), -1);
    ck_assert_int_eq(topology_nodes("sys", &allowed, nodes), 3);
    ck_assert_int_eq(nodes[0], 1);
    ck_assert_int_eq(nodes[2], 3);
}

/* The node of each seat: that of its GPU; of one that sysfs does not place, a
 * node that this process may use, which need not be node 0. */
TEST_LOOP(test_topology_seats_have_nodes, 0, 6)
{
    static const struct {
        const char *allowed;
        int gpu_nodes[3], gpus, seats;
        const char *nodes;
    } cases[] = {
        {"0-23", {2, 0}, 2, 3, "2 0 2"}, {"0-23", {-1, 3}, 2, 2, "0 3"},
        {"6-11", {-1, 3}, 2, 2, "2 3"},  {"3-5", {-1, -1, -1}, 3, 3, "1 1 1"},
        {"0-23", {0}, 0, 4, "0 1 2 3"},  {"6-11", {0}, 0, 4, "2 2 3 3"},
    };
    struct cpus allowed;
    int nodes[8];
    char text[128] = "";
    size_t n = 0;
    ck_assert(cpus_read(cases[_i].allowed, &allowed));
    ck_assert(topology_seat_nodes("sys", &allowed, cases[_i].gpu_nodes,
                                  cases[_i].gpus, cases[_i].seats, nodes));
    for (int i = 0; i < cases[_i].seats; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d",
                              i > 0 ? " " : "", nodes[i]);
    ck_assert_str_eq(text, cases[_i].nodes);
}

SUITE("topology", "cpus", FIXTURE(scratch_enter, scratch_leave))
