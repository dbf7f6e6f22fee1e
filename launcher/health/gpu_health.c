/*
 * Whether the GPUs are fit, by three sources: the number of GPUs that are there
 * against the number that should be, NVML's own state of each (memory rows or
 * pages that could not be repaired, a lost GPU), and Xid errors in the kernel's
 * log since this launcher started.
 *
 * The last check waits: a worker that was killed may hold its GPU memory for
 * seconds, and the next round would fail with "out of memory" until it is
 * freed.
 *
 * What cannot be read does not make a node unfit: no access to /dev/kmsg, or an
 * old driver. NVML that cannot be loaded does, if there are GPUs.
 */
#include "launcher/health/gpu_health.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launcher/hw/gpus.h"
#include "launcher/hw/nvml.h"

/* -- the kernel's log ------------------------------------------------------ */

/* Xids that the hardware or the driver causes, not a program: a double bit
 * error, a failed remapping, NVLink, a GPU that fell off the bus, an error that
 * could not be contained, the GPU's own processor. */
static bool is_fatal(int xid)
{
    static const int fatal[] = {48, 62, 64, 74, 79, 95, 119, 120, 140};
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        if (fatal[i] == xid)
            return true;
    return false;
}

bool gpu_health_xid(const char *line, int64_t since_us, int *xid, char pci[16])
{
    int64_t at_us;
    const char *text = strstr(line, "NVRM: Xid (PCI:");
    return text != NULL && sscanf(line, "%*u,%*u,%" SCNd64, &at_us) == 1 &&
           at_us >= since_us &&
           sscanf(text, "NVRM: Xid (PCI:%15[0-9a-fA-F:]): %d", pci, xid) == 2 &&
           is_fatal(*xid);
}

/* Each read(2) gives one record. EPIPE: this one was overwritten meanwhile, and
 * there are more. If the log cannot be read nothing is found. */
static bool find_xid(const char *pci_wanted, int64_t since_us, int *xid)
{
    char line[8192], pci[16];
    bool found = false;
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && !found;) {
        n = read(fd, line, sizeof(line) - 1);
        if (n < 0 && (errno == EPIPE || errno == EINTR))
            continue;
        if (n <= 0)
            break;
        line[n] = '\0';
        found = gpu_health_xid(line, since_us, xid, pci) &&
                strncasecmp(pci_wanted, pci, strlen(pci)) == 0;
    }
    if (fd >= 0)
        (void)close(fd); /* only read */
    return found;
}

/* -- NVML ------------------------------------------------------------------ */

static int find_index(const struct nvml *nvml, const struct gpu_device *gpu)
{
    struct nvml_gpu seen;
    for (int i = 0; i < nvml_count(nvml); i++)
        if (nvml_gpu(nvml, i, &seen, &(struct ddp_err){0}) == 0 &&
            strcmp(seen.pci, gpu->pci) == 0)
            return i;
    return -1;
}

static const char *what_is_wrong(const struct nvml_health *h)
{
    if (h->lost)
        return "it has fallen off the bus";
    if (h->rows_failed)
        return "a memory row could not be remapped";
    if (h->rows_pending)
        return "memory rows wait to be remapped; reset the GPU";
    if (h->pages_pending)
        return "memory pages wait to be retired; reset the GPU";
    return NULL;
}

/* The first of our dead processes that still holds memory; 0: none. */
static pid_t
find_holder(const struct nvml *nvml, int index, const pid_t *pids, int n)
{
    static struct nvml_process seen[NVML_PROCESSES_MAX]; /* large */
    struct ddp_err err;
    int count = nvml_processes(nvml, index, seen, NVML_PROCESSES_MAX, &err);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < n; k++)
            if (seen[i].pid == pids[k])
                return pids[k];
    return 0;
}

static bool
drain(const struct nvml *nvml, int index, const pid_t *pids, int n, pid_t *pid)
{
    ddp_assert(index >= 0);
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    for (int i = 0; i < GPU_HEALTH_DRAIN_S * 20; i++) {
        *pid = find_holder(nvml, index, pids, n);
        if (*pid == 0)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static bool look(const struct nvml *nvml,
                 const struct gpu_device *gpu,
                 int64_t since_us,
                 const pid_t *pids,
                 int n,
                 char *why,
                 size_t size)
{
    struct nvml_health health;
    struct ddp_err err;
    int xid;
    pid_t pid;
    int index = find_index(nvml, gpu);
    bool read = index >= 0 && nvml_health(nvml, index, &health, &err) == 0;
    const char *wrong = read ? what_is_wrong(&health) : "NVML does not list it";
    if (wrong != NULL)
        (void)snprintf(why, size, "GPU %s (%s): %s", gpu->id, gpu->pci, wrong);
    else if (find_xid(gpu->pci, since_us, &xid))
        (void)snprintf(why, size, "GPU %s (%s): the kernel log has Xid %d",
                       gpu->id, gpu->pci, xid);
    else if (!drain(nvml, index, pids, n, &pid))
        (void)snprintf(
            why, size,
            "GPU %s (%s): dead process %d still holds its memory after %d s",
            gpu->id, gpu->pci, (int)pid, GPU_HEALTH_DRAIN_S);
    else
        return true;
    return false;
}

/* How many GPUs there should be. A lost GPU is not in the list that was found.
 */
static int count_wanted(const struct nvml *nvml, const char *visible)
{
    char id[NVML_UUID_MAX];
    int n = 0;
    if (visible == NULL)
        return nvml_count(nvml);
    while (gpus_next_id(&visible, id) && strcmp(id, "-1") != 0)
        n++;
    return n;
}

bool gpu_health(const char *visible,
                bool some,
                int64_t since_us,
                const pid_t *pids,
                int n,
                char *why,
                size_t size)
{
    static struct gpus gpus; /* large */
    struct ddp_err err;
    bool fit;
    gpus_find(&gpus, &gpus_roots, &(struct gpus_visible){.cuda = visible});
    if (gpus.n == 0) {
        (void)snprintf(why, size, "no GPU was found");
        return !some;
    }
    if (gpus.vendor == GPUS_AMD) {
        (void)snprintf(why, size,
                       "only NVIDIA's GPUs can be checked, and these are AMD's;"
                       " give --health_check a command in place of gpu");
        return !some;
    }
    struct nvml *nvml = nvml_open(&err);
    if (nvml == NULL) {
        (void)snprintf(why, size, "%s", err.text);
        return false;
    }
    int wanted = count_wanted(nvml, visible);
    fit = gpus.n >= wanted;
    if (!fit) /* messages: ok, one is there and one is not */
        (void)snprintf(why, size, "only %d of %d GPUs are there", gpus.n,
                       wanted);
    for (int i = 0; i < gpus.n && fit; i++)
        fit = look(nvml, &gpus.gpu[i], since_us, pids, n, why, size);
    nvml_close(nvml);
    ddp_assert(fit || why[0] != '\0');
    return fit;
}
