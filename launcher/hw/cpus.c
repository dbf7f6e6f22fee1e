/*
 * Sets of CPUs, and how many of them this process may use: by its affinity
 * mask, and by the CPU quota of its cgroup. A container is often given a quota
 * and no mask, so that a count by mask alone would start one worker for each
 * CPU of the host.
 *
 * The quota is the least of the process's group and all its parents. Anything
 * that cannot be read or understood there counts as "no limit": the count of
 * CPUs is then too high, which costs speed, while an error would cost the run.
 */
#include "launcher/hw/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define WORDS (CPUS_MAX / CPUS_WORD_BITS)
_Static_assert(sizeof(struct cpus) * 8 == CPUS_MAX, "a bit for each CPU");

/* -- sets ------------------------------------------------------------------ */

void cpus_add(struct cpus *set, int cpu)
{
    ddp_assert(cpu >= 0 && cpu < CPUS_MAX);
    set->bits[cpu / CPUS_WORD_BITS] |= 1ul << (cpu % CPUS_WORD_BITS);
}

bool cpus_has(const struct cpus *set, int cpu)
{
    return cpu >= 0 && cpu < CPUS_MAX &&
           (set->bits[cpu / CPUS_WORD_BITS] >> (cpu % CPUS_WORD_BITS) & 1) != 0;
}

int cpus_count(const struct cpus *set)
{
    int n = 0;
    for (int i = 0; i < WORDS; i++)
        n += __builtin_popcountl(set->bits[i]);
    return n;
}

int cpus_next(const struct cpus *set, int from)
{
    ddp_assert(from >= 0);
    for (int cpu = from; cpu < CPUS_MAX; cpu++)
        if (cpus_has(set, cpu))
            return cpu;
    return -1;
}

void cpus_and(struct cpus *set, const struct cpus *other)
{
    for (int i = 0; i < WORDS; i++)
        set->bits[i] &= other->bits[i];
}

void cpus_or(struct cpus *set, const struct cpus *other)
{
    for (int i = 0; i < WORDS; i++)
        set->bits[i] |= other->bits[i];
}

void cpus_drop(struct cpus *set, const struct cpus *other)
{
    for (int i = 0; i < WORDS; i++)
        set->bits[i] &= ~other->bits[i];
}

/* -- lists ----------------------------------------------------------------- */

/* Reads the digits at *at and moves *at behind them; -1 if there are none. */
static int read_number(const char **at)
{
    if (**at < '0' || **at > '9')
        return -1;
    int n = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        n = n < CPUS_MAX ? n * 10 + (**at - '0') : n;
    return n;
}

bool cpus_read(const char *text, struct cpus *set)
{
    *set = (struct cpus){{0}};
    const char *p = text;
    if (*p == '\0' || *p == '\n')
        return true;
    for (;;) {
        int first = read_number(&p);
        int last = first;
        if (*p == '-') {
            p++;
            last = read_number(&p);
        }
        if (first < 0 || last < first)
            return false;
        for (int cpu = first; cpu <= last && cpu < CPUS_MAX; cpu++)
            cpus_add(set, cpu);
        if (*p != ',')
            return *p == '\0' || (*p == '\n' && p[1] == '\0');
        p++;
    }
}

char *cpus_format(const struct cpus *set, char *text, size_t cap)
{
    static const char more[] = "...";
    ddp_assert(cap > sizeof(more));
    size_t used = 0;
    text[0] = '\0';
    for (int cpu = cpus_next(set, 0); cpu >= 0;) {
        char part[32];
        int last = cpu;
        while (cpus_has(set, last + 1))
            last++;
        int n = snprintf(part, sizeof(part), "%s%d", used > 0 ? "," : "", cpu);
        if (last > cpu)
            n += snprintf(part + n, sizeof(part) - (size_t)n, "-%d", last);
        if (used + (size_t)n + sizeof(more) > cap) {
            memcpy(text + used, more, sizeof(more));
            break;
        }
        memcpy(text + used, part, (size_t)n + 1);
        used += (size_t)n;
        cpu = cpus_next(set, last + 1);
    }
    return text;
}

/* -- this process ---------------------------------------------------------- */

void cpus_allowed(struct cpus *set)
{
    *set = (struct cpus){{0}};
    /* EINVAL if the machine can have more CPUs than the set. */
    cpu_set_t *mask = (cpu_set_t *)(void *)set->bits;
    if (sched_getaffinity(0, sizeof(set->bits), mask) != 0)
        *set = (struct cpus){{0}};
    if (cpus_next(set, 0) < 0)
        cpus_add(set, 0);
    ddp_assert(cpus_count(set) > 0);
}

/* -- the quota of the cgroup ----------------------------------------------- */

#define PATH_CAP 4096
#define PART_CAP 1000
#define LINE_CAP 8192

static FILE *open_in(const char *root, const char *path)
{
    char name[PATH_CAP];
    int n = snprintf(name, sizeof(name), "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof(name) ? fopen(name, "re") : NULL;
}

/* The first line of a small file, without its newline; false on an error. */
static bool read_line(const char *path, char *line, int cap)
{
    FILE *f = fopen(path, "re");
    bool got = f != NULL && fgets(line, cap, f) != NULL;
    if (f != NULL)
        (void)fclose(f); /* read only */
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

/* Whether `word` is in a comma-separated list. */
static bool in_list(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; *p != '\0'; p += *p == ',') {
        size_t n = strcspn(p, ",");
        if (n == len && strncmp(p, word, n) == 0)
            return true;
        p += n;
    }
    return false;
}

/*
 * The group of this process: its path in the v2 hierarchy ("0::PATH") or in the
 * v1 hierarchy with the controller cpu ("4:cpu,cpuacct:PATH").
 */
static bool find_group(const char *root, bool v2, char *path, size_t cap)
{
    char line[LINE_CAP];
    bool found = false;
    FILE *f = open_in(root, "/proc/self/cgroup");
    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL) {
        char *controllers = strchr(line, ':');
        char *where = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (where == NULL)
            continue;
        *where++ = '\0';
        where[strcspn(where, "\n")] = '\0';
        found = v2 ? controllers[1] == '\0' : in_list(controllers + 1, "cpu");
        if (found)
            (void)snprintf(path, cap, "%s", where);
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/*
 * Where that hierarchy is mounted (`point`), and which of its groups is the
 * root of the mount (`top`): a container sees its own group as the root.
 * proc(5): the fields after " - " are the type, the source and the options of
 * the file system.
 */
static bool
find_mount(const char *root, bool v2, char point[PART_CAP], char top[PART_CAP])
{
    char line[LINE_CAP];
    bool found = false;
    FILE *f = open_in(root, "/proc/self/mountinfo");
    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL) {
        char type[32] = "", options[1024] = "";
        const char *tail = strstr(line, " - ");
        if (tail == NULL ||
            sscanf(line, "%*s %*s %*s %999s %999s", top, point) != 2 ||
            sscanf(tail, " - %31s %*s %1023s", type, options) != 2)
            continue;
        found = v2 ? strcmp(type, "cgroup2") == 0
                   : strcmp(type, "cgroup") == 0 && in_list(options, "cpu");
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* The quota in CPUs, rounded up; 0: no limit. */
static int whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota / period >= CPUS_MAX)
        return 0;
    return (int)((quota + period - 1) / period);
}

static int group_quota(const char *dir, bool v2)
{
    char path[3 * PART_CAP + 32], line[64], period[64];
    long long q = 0, p = 0;
    if (v2) {
        (void)snprintf(path, sizeof(path), "%s/cpu.max", dir);
        /* "max 100000": no limit. */
        if (!read_line(path, line, sizeof(line)) ||
            sscanf(line, "%lld %lld", &q, &p) != 2)
            return 0;
        return whole_cpus(q, p);
    }
    (void)snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
    if (!read_line(path, line, sizeof(line)))
        return 0;
    (void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
    if (!read_line(path, period, sizeof(period)))
        return 0;
    return whole_cpus(strtoll(line, NULL, 10), strtoll(period, NULL, 10));
}

/* The least of the group and its parents up to the mount point. */
static int hierarchy_quota(const char *root, bool v2)
{
    char group[PART_CAP], point[PART_CAP], top[PART_CAP];
    char dir[3 * PART_CAP];
    if (!find_group(root, v2, group, sizeof(group)) ||
        !find_mount(root, v2, point, top))
        return 0;
    size_t top_len = strcmp(top, "/") == 0 ? 0 : strlen(top);
    const char *below =
        strncmp(group, top, top_len) == 0 ? group + top_len : "";
    int n = snprintf(dir, sizeof(dir), "%s%s%s", root, point, below);
    size_t shortest = strlen(root) + strlen(point);
    if (n < 0 || (size_t)n >= sizeof(dir))
        return 0;
    int least = 0;
    for (;;) {
        int cpus = group_quota(dir, v2);
        if (cpus > 0 && (least == 0 || cpus < least))
            least = cpus;
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= shortest || slash == NULL)
            return least;
        *slash = '\0';
    }
}

int cpus_quota(const char *root)
{
    int v2 = hierarchy_quota(root, true);
    int v1 = hierarchy_quota(root, false);
    return v2 == 0 || (v1 > 0 && v1 < v2) ? v1 : v2;
}
