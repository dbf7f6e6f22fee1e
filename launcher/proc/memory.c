#include "launcher/proc/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/proc/oom.h"
#include "launcher/proc/procfs.h"

int64_t memory_parse(const char *meminfo)
{
    static const char head[] = "MemAvailable:";
    const char *at = strstr(meminfo, head);
    char *end;
    if (at == NULL)
        return -1;
    long long kib = strtoll(at + sizeof(head) - 1, &end, 10);
    bool ok = kib >= 0 && kib < INT64_MAX / 1024 && strncmp(end, " kB", 3) == 0;
    return ok ? kib * 1024 : -1;
}

/* The number behind `name` at the beginning of a line; 0: there is none. */
static int64_t value_of(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) != 0 || line[len] != ' ')
            continue;
        long long value = strtoll(line + len, NULL, 10);
        return value > 0 && value < INT64_MAX / 4 ? value : 0;
    }
    return 0;
}

int64_t memory_cache(const char *stat, bool all)
{
    return value_of(stat, all ? "total_active_file" : "active_file") +
           value_of(stat, all ? "total_inactive_file" : "inactive_file");
}

#define NAME_MAX_LEN 40

static bool slurp_in(const char *folder, const char *name, char *text, size_t n)
{
    char file[600 + NAME_MAX_LEN];
    int len = snprintf(file, sizeof(file), "%s/%s", folder, name);
    return len > 0 && (size_t)len < sizeof(file) &&
           procfs_read_file(file, text, n);
}

/* A number in a file; -1: there is none, or it says "max". */
static int64_t number_in(const char *folder, const char *name)
{
    char text[64];
    char *end;
    if (!slurp_in(folder, name, text, sizeof(text)))
        return -1;
    long long value = strtoll(text, &end, 10);
    return end != text && value >= 0 ? value : -1;
}

/* The limit of this group; -1: none. */
static int64_t group_limit(const char *folder, bool v2)
{
    return number_in(folder, v2 ? "memory.max" : "memory.limit_in_bytes");
}

/* What this group may still take; -1: as much as there is. */
static int64_t group_free(const char *folder, bool v2)
{
    char stat[8192];
    int64_t most = group_limit(folder, v2);
    int64_t now =
        number_in(folder, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (most < 0 || now < 0)
        return -1;
    if (slurp_in(folder, "memory.stat", stat, sizeof(stat)))
        now -= memory_cache(stat, !v2);
    return now < most ? most - (now > 0 ? now : 0) : 0;
}

#define CGROUPS "/sys/fs/cgroup"

/* The least of this cgroup and those above it; INT64_MAX: all have -1. */
static int64_t least_of_groups(int64_t (*of_group)(const char *folder, bool v2))
{
    char text[4096], path[600];
    int64_t least = INT64_MAX;
    if (!procfs_read_file("/proc/self/cgroup", text, sizeof(text)) ||
        !oom_find(text, CGROUPS, path, sizeof(path)))
        return least;
    bool v2 = strstr(path, "memory.events") != NULL;
    while (strlen(path) > strlen(CGROUPS)) {
        *strrchr(path, '/') = '\0'; /* the file's name, then a group's */
        int64_t here = of_group(path, v2);
        least = here >= 0 && here < least ? here : least;
    }
    return least;
}

int64_t memory_all(void)
{
    int64_t of_cgroup = least_of_groups(group_limit);
    int64_t all = (int64_t)sysconf(_SC_PHYS_PAGES) *
                  (int64_t)sysconf(_SC_PAGESIZE); /* neither can fail */
    return of_cgroup < all ? of_cgroup : all;
}

int64_t memory_free(void)
{
    char text[4096];
    int64_t of_cgroup = least_of_groups(group_free);
    int64_t free = procfs_read_file("/proc/meminfo", text, sizeof(text))
                       ? memory_parse(text)
                       : -1;
    return of_cgroup < free ? of_cgroup : free;
}

int64_t memory_of(pid_t pid)
{
    char path[48], text[128];
    long long pages = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid); /* fits */
    if (pid <= 0 || !procfs_is_ours() ||
        !procfs_read_file(path, text, sizeof(text)) ||
        sscanf(text, "%*s %lld", &pages) != 1)
        return -1;
    return pages * sysconf(_SC_PAGESIZE);
}

bool memory_fits(int64_t of_worker, int64_t free)
{
    return of_worker >= 0 && free >= 0 && of_worker <= free / MEMORY_SHARE;
}

bool memory_short(int64_t of_importer, int64_t free)
{
    return of_importer >= 0 && free >= 0 && free < of_importer;
}
