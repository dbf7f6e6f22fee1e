#include "launcher/standby/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/proc/oom.h"
#include "launcher/proc/procfs.h"

/* False: there is no such file. A longer one is cut. */
static bool slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* read only */
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

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

#define NAME_MAX_LEN 40

/* A number in a file beside `path`; -1: there is none, or it says "max". */
static int64_t beside(const char *path, const char *name)
{
    char file[600], text[64];
    char *end;
    size_t len = (size_t)(strrchr(path, '/') - path); /* it begins with one */
    if (len > sizeof(file) - NAME_MAX_LEN)
        return -1;
    memcpy(file, path, len);
    (void)snprintf(file + len, NAME_MAX_LEN, "/%s", name); /* fits */
    if (!slurp(file, text, sizeof(text)))
        return -1;
    long long value = strtoll(text, &end, 10);
    return end != text && value >= 0 ? value : -1;
}

/* What this cgroup may still take; -1: no limit that can be seen. */
static int64_t cgroup_free(void)
{
    char text[4096], path[512];
    if (!slurp("/proc/self/cgroup", text, sizeof(text)) ||
        !oom_find(text, "/sys/fs/cgroup", path, sizeof(path)))
        return -1;
    bool v2 = strstr(path, "memory.events") != NULL;
    int64_t most = beside(path, v2 ? "memory.max" : "memory.limit_in_bytes");
    int64_t now = beside(path, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (most < 0 || now < 0)
        return -1;
    return now < most ? most - now : 0;
}

int64_t memory_free(void)
{
    char text[4096];
    int64_t of_cgroup = cgroup_free();
    int64_t free =
        slurp("/proc/meminfo", text, sizeof(text)) ? memory_parse(text) : -1;
    return of_cgroup >= 0 && of_cgroup < free ? of_cgroup : free;
}

int64_t memory_of(pid_t pid)
{
    char path[48], text[128];
    long long pages = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid); /* fits */
    if (pid <= 0 || !procfs_is_ours() || !slurp(path, text, sizeof(text)) ||
        sscanf(text, "%*s %lld", &pages) != 1)
        return -1;
    return pages * sysconf(_SC_PAGESIZE);
}

bool memory_fits(int64_t of_worker, int64_t free)
{
    return of_worker >= 0 && free >= 0 && of_worker <= free / MEMORY_SHARE;
}
