/*
 * The GPUs of this node, numbered as CUDA or HIP numbers them. There are four
 * sources: NVML, if it can be loaded; the driver's files in /proc, which have
 * UUIDs and names but no MIG instances; the device nodes in /dev, which are
 * just counted (a container may have nothing else); and if all of them know
 * none, the kernel's files about AMD's.
 *
 * Then the variables select among them, by the rules of the runtime that reads
 * them. NVIDIA: the list ends at the first entry that is no GPU, and a GPU that
 * is named twice empties it. If UUIDs are not known an entry by UUID is
 * believed. AMD: ROCR_VISIBLE_DEVICES first, and what it leaves is numbered
 * anew; then HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES without it.
 *
 * A machine without a GPU is no error here: the list is empty, and `why` says
 * why for the callers that need one.
 */
#include "launcher/hw/gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "launcher/hw/kfd.h"
#include "launcher/hw/topology.h"
#include "rendezvous/base/err.h"

#define PATH_CAP 4096

const struct gpus_roots gpus_roots = {
    .proc = "/proc",
    .dev = "/dev",
    .sys = "/sys",
    .nvml = true,
};

/* Its number, by which a list can name it. */
static void put_index(struct gpu_device *gpu, int index)
{
    gpu->index = index;
    (void)snprintf(gpu->id, sizeof(gpu->id), "%d", index); /* fits */
}

/* The next free place, which is its number too; NULL: no room. */
static struct gpu_device *add(struct gpus *g)
{
    ddp_assert(g->n >= 0 && g->n <= GPUS_MAX);
    if (g->n == GPUS_MAX)
        return NULL;
    struct gpu_device *gpu = &g->gpu[g->n];
    *gpu = (struct gpu_device){.numa_node = -1};
    put_index(gpu, g->n++);
    return gpu;
}

/* -- by the library -------------------------------------------------------- */

/* A divided GPU is listed as its instances, which CUDA knows by UUID only. */
static void add_instances(struct gpus *g,
                          const struct nvml *nvml,
                          const struct nvml_gpu *whole)
{
    struct nvml_instance parts[16];
    int n = nvml_instances(nvml, whole->index, parts, 16);
    for (int i = 0; i < n && i < 16; i++) {
        struct gpu_device *gpu = add(g);
        if (gpu == NULL)
            return;
        gpu->index = whole->index;
        memcpy(gpu->id, parts[i].uuid, sizeof(gpu->id));
        memcpy(gpu->uuid, parts[i].uuid, sizeof(gpu->uuid));
        memcpy(gpu->divided, whole->uuid, sizeof(gpu->divided));
        gpu->gpu_instance = parts[i].gpu_instance;
        gpu->compute_instance = parts[i].compute_instance;
        memcpy(gpu->name, whole->name, sizeof(gpu->name));
        memcpy(gpu->pci, whole->pci, sizeof(gpu->pci));
        gpu->instance = true;
    }
}

static void ask_nvml(struct gpus *g)
{
    struct ddp_err err;
    struct nvml *nvml = nvml_open(&err);
    if (nvml == NULL) {
        (void)snprintf(g->why, sizeof(g->why), "%.150s", err.text); /* cut */
        return;
    }
    int n = nvml_count(nvml);
    for (int i = 0; i < n; i++) {
        struct nvml_gpu info;
        if (nvml_gpu(nvml, i, &info, NULL) != 0)
            continue; /* a lost GPU, which no worker can use */
        if (info.divided) {
            add_instances(g, nvml, &info);
            continue;
        }
        struct gpu_device *gpu = add(g);
        if (gpu == NULL)
            break;
        put_index(gpu, i);
        memcpy(gpu->uuid, info.uuid, sizeof(gpu->uuid));
        memcpy(gpu->name, info.name, sizeof(gpu->name));
        memcpy(gpu->pci, info.pci, sizeof(gpu->pci));
    }
    nvml_close(nvml);
}

/* -- by the driver's files ------------------------------------------------- */

/* Copies the value of "Device Minor: 	 0" without blanks, if `line` is about
 * `key`. */
static bool value_of(const char *line, const char *key, char *out, size_t cap)
{
    size_t len = strlen(key);
    if (strncmp(line, key, len) != 0 || line[len] != ':')
        return false;
    const char *p = line + len + 1;
    p += strspn(p, " \t");
    size_t n = strcspn(p, "\n");
    while (n > 0 && strchr(" \t", p[n - 1]) != NULL)
        n--;
    if (n >= cap)
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

/* False if it has no device node here: the container was not given this GPU. */
static bool read_driver_file(const struct gpus_roots *roots,
                             struct gpu_device *gpu)
{
    char path[PATH_CAP], line[256], minor[16] = "";
    int n = snprintf(path, sizeof(path), "%s/driver/nvidia/gpus/%s/information",
                     roots->proc, gpu->pci);
    FILE *f = n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (!value_of(line, "GPU UUID", gpu->uuid, sizeof(gpu->uuid)) &&
            !value_of(line, "Model", gpu->name, sizeof(gpu->name)))
            (void)value_of(line, "Device Minor", minor, sizeof(minor));
    }
    if (f != NULL)
        (void)fclose(f);
    if (strchr(gpu->uuid, '?') != NULL)
        gpu->uuid[0] = '\0'; /* not known before the first use */
    n = snprintf(path, sizeof(path), "%s/nvidia%s", roots->dev, minor);
    return minor[0] == '\0' || n < 0 || access(path, F_OK) == 0;
}

static int is_pci(const struct dirent *e)
{
    return isxdigit((unsigned char)e->d_name[0]) &&
           strlen(e->d_name) < NVML_PCI_MAX && strchr(e->d_name, ':') != NULL;
}

static int is_device_node(const struct dirent *e)
{
    static const char prefix[] = "nvidia";
    const char *number = e->d_name + sizeof(prefix) - 1;
    return strncmp(e->d_name, prefix, sizeof(prefix) - 1) == 0 &&
           number[0] != '\0' && number[strspn(number, "0123456789")] == '\0';
}

/* Names in a folder, in order; the caller frees. */
static int
list(const char *dir, int (*is)(const struct dirent *), struct dirent ***names)
{
    int n = scandir(dir, names, is, alphasort);
    return n < 0 ? 0 : n;
}

static void free_list(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    if (n > 0)
        free(names);
}

static void ask_driver(struct gpus *g, const struct gpus_roots *roots)
{
    char dir[PATH_CAP];
    struct dirent **names = NULL;
    int len = snprintf(dir, sizeof(dir), "%s/driver/nvidia/gpus", roots->proc);
    if (len < 0 || (size_t)len >= sizeof(dir))
        return;
    struct dirent **nodes = NULL;
    int n_nodes = list(roots->dev, is_device_node, &nodes);
    int n = list(dir, is_pci, &names);
    for (int i = 0; i < n; i++) {
        struct gpu_device *gpu = add(g);
        if (gpu == NULL)
            break;
        memcpy(gpu->pci, names[i]->d_name, strlen(names[i]->d_name) + 1);
        /* On some machines the first use makes the device nodes. */
        if (!read_driver_file(roots, gpu) && n_nodes > 0)
            g->n--;
    }
    for (int i = g->n; i < n_nodes && n == 0; i++)
        (void)add(g); /* only their number is known */
    free_list(names, n);
    free_list(nodes, n_nodes);
}

/* -- AMD's ----------------------------------------------------------------- */

static void ask_kernel(struct gpus *g, const struct gpus_roots *roots)
{
    static struct kfd_gpu found[GPUS_MAX]; /* large */
    int n = kfd_gpus(roots->sys, roots->dev, found, GPUS_MAX);
    for (int i = 0; i < n; i++) {
        struct gpu_device *gpu = add(g);
        ddp_assert(gpu != NULL); /* as many places as there */
        memcpy(gpu->uuid, found[i].uuid, sizeof(gpu->uuid));
        memcpy(gpu->name, found[i].name, sizeof(gpu->name));
        memcpy(gpu->pci, found[i].pci, sizeof(gpu->pci));
    }
}

/* -- the selection --------------------------------------------------------- */

bool gpus_next_id(const char **list, char id[NVML_UUID_MAX])
{
    const char *p = *list + strspn(*list, " \t");
    size_t len = strcspn(p, ",");
    *list = p + len + (p[len] == ',');
    while (len > 0 && strchr(" \t", p[len - 1]) != NULL)
        len--;
    if (len == 0 || len >= NVML_UUID_MAX)
        return false;
    memcpy(id, p, len);
    id[len] = '\0';
    return true;
}

/* Whether the UUID begins with `id`; ROCm does not look at the case. */
static bool begins(const char *uuid, const char *id, bool any_case)
{
    size_t len = strlen(id);
    return any_case ? strncasecmp(uuid, id, len) == 0
                    : strncmp(uuid, id, len) == 0;
}

/* "MIG-GPU-UUID/1/0", the form of drivers before R470, which newer ones take.
 */
static bool is_part(const struct gpu_device *gpu, const char *id)
{
    char text[NVML_UUID_MAX + 40];
    (void)snprintf(text, sizeof(text), "MIG-%s/%d/%d", gpu->divided, /* fits */
                   gpu->gpu_instance, gpu->compute_instance);
    return gpu->instance && strcmp(text, id) == 0;
}

/* The place of the GPU with this number; -1: none. A lost GPU and the parts of
 * a divided one make it another number than the place. */
static int find_index(const struct gpus *all, long index)
{
    for (int i = 0; i < all->n; i++)
        if (all->gpu[i].index == index)
            return i;
    return -1;
}

/* The place of the GPU that an entry means, by its number or by a unique
 * beginning of its UUID; those of a divided GPU mean its first part. -1: none;
 * `all->n`: it cannot be known. */
static int find(const struct gpus *all, const char *id)
{
    char *end;
    long index = strtol(id, &end, 10);
    if (isdigit((unsigned char)id[0]) && *end == '\0')
        return find_index(all, index);
    if (strncmp(id, "GPU-", 4) != 0 && strncmp(id, "MIG-", 4) != 0)
        return -1;
    bool known = false, amd = all->vendor == GPUS_AMD;
    int found = -1;
    for (int i = 0; i < all->n; i++) {
        const struct gpu_device *gpu = &all->gpu[i];
        known |= gpu->uuid[0] != '\0' || amd;
        bool by_whole = gpu->instance && begins(gpu->divided, id, amd);
        if (!by_whole && !begins(gpu->uuid, id, amd) && !is_part(gpu, id))
            continue;
        if (by_whole && found >= 0 &&
            strcmp(all->gpu[found].divided, gpu->divided) == 0)
            continue; /* a further part of the same GPU */
        if (found >= 0)
            return -1;
        found = i;
    }
    return known || all->n == 0 ? found : all->n;
}

bool gpus_has(const struct gpus *g, const char *id)
{
    return find(g, id) >= 0;
}

static bool is_there(const struct gpus *g, const char *id)
{
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->gpu[i].id, id) == 0)
            return true;
    return false;
}

/* What a GPU that is named twice does to a list. */
enum twice {
    TWICE_EMPTIES,
    TWICE_ENDS,
    TWICE_COUNTS_ONCE,
};

static void limit(struct gpus *g, const char *list, enum twice twice)
{
    static struct gpus all; /* large */
    bool taken[GPUS_MAX] = {false};
    char id[NVML_UUID_MAX];
    all = *g;
    g->n = 0;
    for (const char *p = list; g->n < GPUS_MAX && gpus_next_id(&p, id);) {
        int i = find(&all, id);
        if (i < 0)
            return;
        bool again = i < all.n ? taken[i] : is_there(g, id);
        if (again && twice == TWICE_EMPTIES)
            g->n = 0;
        if (again && twice != TWICE_COUNTS_ONCE)
            return;
        struct gpu_device *gpu = again ? NULL : add(g);
        if (i < all.n)
            taken[i] = true;
        if (gpu != NULL && i < all.n)
            *gpu = all.gpu[i];
        if (gpu != NULL)
            memcpy(gpu->id, id, sizeof(gpu->id)); /* as the user wrote it */
        if (*p == '\0')
            return;
    }
}

/* By one variable, if it is set. Says so if it leaves none. */
static void
select_by(struct gpus *g, const char *name, const char *list, enum twice twice)
{
    int before = g->n;
    if (list == NULL || before == 0)
        return;
    limit(g, list, twice);
    if (g->n == 0)
        (void)snprintf(g->why, sizeof(g->why), /* cut */
                       "%s=%.80s selects no GPU; this machine has %d", name,
                       list, g->all);
}

static void select_amd(struct gpus *g, const struct gpus_visible *visible)
{
    select_by(g, "ROCR_VISIBLE_DEVICES", visible->rocr, TWICE_ENDS);
    for (int i = 0; i < g->n; i++) /* numbered anew */
        put_index(&g->gpu[i], i);
    if (visible->hip != NULL)
        select_by(g, "HIP_VISIBLE_DEVICES", visible->hip, TWICE_COUNTS_ONCE);
    else
        select_by(g, "CUDA_VISIBLE_DEVICES", visible->cuda, TWICE_COUNTS_ONCE);
}

struct gpus_visible gpus_visible_env(void)
{
    return (struct gpus_visible){.cuda = getenv("CUDA_VISIBLE_DEVICES"),
                                 .hip = getenv("HIP_VISIBLE_DEVICES"),
                                 .rocr = getenv("ROCR_VISIBLE_DEVICES")};
}

const char *gpus_list(const struct gpus_visible *visible,
                      enum gpus_vendor vendor,
                      const char **name)
{
    bool hip = vendor != GPUS_NVIDIA && visible->hip != NULL &&
               visible->hip[0] != '\0';
    *name = hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
    return hip ? visible->hip : visible->cuda;
}

/* -- all of it ------------------------------------------------------------- */

static void find_all(struct gpus *g, const struct gpus_roots *roots)
{
    g->n = 0;
    g->why[0] = '\0';
    g->vendor = GPUS_NVIDIA;
    if (roots->nvml)
        ask_nvml(g);
    if (g->n == 0)
        ask_driver(g, roots);
    if (g->n == 0) {
        g->vendor = GPUS_AMD;
        ask_kernel(g, roots);
    }
    g->all = g->n;
    if (g->n == 0)
        g->vendor = GPUS_NONE;
    for (int i = 0; i < g->n; i++)
        if (g->gpu[i].pci[0] != '\0')
            g->gpu[i].numa_node = topology_pci_node(roots->sys, g->gpu[i].pci);
}

void gpus_find(struct gpus *g,
               const struct gpus_roots *roots,
               const struct gpus_visible *visible)
{
    find_all(g, roots);
    ddp_assert((g->vendor == GPUS_NONE) == (g->all == 0));
    if (g->vendor == GPUS_NVIDIA)
        select_by(g, "CUDA_VISIBLE_DEVICES", visible->cuda, TWICE_EMPTIES);
    else if (g->vendor == GPUS_AMD)
        select_amd(g, visible);
}
