#include "launcher/placement.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CPUs that this process may use. A mask too small for the machine is EINVAL:
 * try a larger one. */
int placement_count_cpus(int max)
{
    for (size_t cpus = 1024; cpus <= 1 << 18; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (set == NULL)
            break;
        size_t size = CPU_ALLOC_SIZE(cpus);
        int rc = sched_getaffinity(0, size, set);
        int n = rc == 0 ? CPU_COUNT_S(size, set) : 0;
        int saved = errno;
        CPU_FREE(set);
        if (rc == 0 && n > 0)
            return n < max ? n : max;
        if (saved != EINVAL)
            break;
    }
    return 1;
}

static bool is_gpu_node(const char *name)
{
    static const char prefix[] = "nvidia";
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return false;
    const char *number = name + strlen(prefix);
    return number[0] != '\0' && number[strspn(number, "0123456789")] == '\0';
}

static bool is_gpu_entry(const char *name)
{
    return name[0] != '.';
}

static int count_entries(const char *dir, bool (*is)(const char *name), int max)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return 0; /* no driver, no folder */
    int n = 0;
    for (struct dirent *e; n < max && (e = readdir(d)) != NULL;) {
        if (is(e->d_name))
            n++;
    }
    (void)closedir(d); /* read only, nothing to lose */
    return n;
}

/* How many of `total` GPUs CUDA would show: the list ends where an entry is no
 * GPU (CUDA C++ Programming Guide, "CUDA Environment Variables"). */
static int limit_gpus(int total, const char *visible)
{
    int n = 0;
    for (const char *p = visible; n < total;) {
        p += strspn(p, " ");
        bool by_id = strncmp(p, "GPU-", 4) == 0 || strncmp(p, "MIG-", 4) == 0;
        char *end;
        long index = strtol(p, &end, 10);
        if (!by_id && (end == p || index < 0 || index >= total))
            break;
        n++;
        p += strcspn(p, ",");
        if (*p++ == '\0')
            break;
    }
    return n;
}

int placement_count_gpus(const char *proc,
                         const char *dev,
                         const char *visible,
                         int max)
{
    int n = count_entries(dev, is_gpu_node, max);
    char dir[4096];
    int len = snprintf(dir, sizeof(dir), "%s/driver/nvidia/gpus", proc);
    /* The nodes in /dev come with the first use on some machines, but in a
     * container they alone tell which GPUs it was given. */
    if (n == 0 && len > 0 && (size_t)len < sizeof(dir))
        n = count_entries(dir, is_gpu_entry, max);
    return visible != NULL ? limit_gpus(n, visible) : n;
}
