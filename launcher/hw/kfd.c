/*
 * SYS/class/kfd/kfd/topology/nodes/N/properties has one "name value" in each
 * line; nodes are CPUs and GPUs, and a GPU is one with SIMD units. ROCm numbers
 * the GPUs by the numbers of their nodes.
 */
#include "launcher/hw/kfd.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_CAP 4096

/* What is read of a node. What its file does not say is 0. */
struct kfd_node {
    uint64_t simd_count;
    uint64_t gfx_target_version; /* 90402: gfx942 */
    uint64_t location_id;        /* bus, device and function of PCI */
    uint64_t domain;
    uint64_t unique_id;
    uint64_t drm_render_minor;
};

static void keep(struct kfd_node *n, const char *name, uint64_t value)
{
    const struct {
        const char *name;
        uint64_t *to;
    } wanted[] = {
        {"simd_count", &n->simd_count},
        {"gfx_target_version", &n->gfx_target_version},
        {"location_id", &n->location_id},
        {"domain", &n->domain},
        {"unique_id", &n->unique_id},
        {"drm_render_minor", &n->drm_render_minor},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (strcmp(wanted[i].name, name) == 0)
            *wanted[i].to = value;
}

static void read_node(const char *dir, const char *number, struct kfd_node *n)
{
    char path[PATH_CAP + 300], line[256], name[64];
    uint64_t value;
    (void)snprintf(path, sizeof(path), "%s/%s/properties", dir, number);
    FILE *f = fopen(path, "re"); /* the path fits */
    *n = (struct kfd_node){.simd_count = 0};
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "%63s %" SCNu64, name, &value) == 2)
            keep(n, name, value);
    if (f != NULL)
        (void)fclose(f); /* only read */
}

/* Kernels before 5.0 do not tell the render node; it is taken to be there. */
static bool has_render_node(const char *dev, const struct kfd_node *n)
{
    char path[PATH_CAP];
    int len = snprintf(path, sizeof(path), "%s/dri/renderD%" PRIu64, dev,
                       n->drm_render_minor);
    return n->drm_render_minor == 0 || len < 0 || (size_t)len >= sizeof(path) ||
           access(path, F_OK) == 0;
}

static void describe(const struct kfd_node *n, struct kfd_gpu *gpu)
{
    unsigned version = (unsigned)n->gfx_target_version;
    unsigned at = (unsigned)n->location_id;
    *gpu = (struct kfd_gpu){.uuid = ""};
    if (n->unique_id != 0)
        (void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%016" PRIx64,
                       n->unique_id);
    (void)snprintf(gpu->name, sizeof(gpu->name), "gfx%u%x%x", version / 10000,
                   version / 100 % 100, version % 100);
    (void)snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.%x", /* fits */
                   (unsigned)n->domain & 0xffffff, at >> 8 & 0xff,
                   at >> 3 & 0x1f, at & 7);
}

static int is_number(const struct dirent *e)
{
    return e->d_name[0] != '\0' &&
           e->d_name[strspn(e->d_name, "0123456789")] == '\0';
}

int kfd_gpus(const char *sys, const char *dev, struct kfd_gpu *gpus, int max)
{
    char dir[PATH_CAP];
    struct dirent **names = NULL;
    int len =
        snprintf(dir, sizeof(dir), "%s/class/kfd/kfd/topology/nodes", sys);
    if (len < 0 || (size_t)len >= sizeof(dir))
        return 0;
    int found = 0;
    int n = scandir(dir, &names, is_number, versionsort);
    for (int i = 0; i < n; i++) {
        struct kfd_node node;
        read_node(dir, names[i]->d_name, &node);
        free(names[i]);
        if (node.simd_count > 0 && found < max && has_render_node(dev, &node))
            describe(&node, &gpus[found++]);
    }
    free(names);
    return found;
}
