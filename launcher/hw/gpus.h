/*
 * launcher/hw/gpus: the GPUs that workers of this node could see, as CUDA would
 * number them: what NVML says, else what the driver says in PROC and which
 * device nodes are in DEV, then what CUDA_VISIBLE_DEVICES leaves of them.
 */
#ifndef LAUNCHER_HW_GPUS_H
#define LAUNCHER_HW_GPUS_H

#include <stdbool.h>

#include "launcher/hw/nvml.h"

#define GPUS_MAX 256

struct gpu_device {
    char id[NVML_UUID_MAX];   /* what CUDA_VISIBLE_DEVICES calls it */
    char uuid[NVML_UUID_MAX]; /* "" not known */
    char name[NVML_NAME_MAX]; /* "" not known */
    char pci[NVML_PCI_MAX];   /* "" not known */
    int numa_node;            /* -1 not known */
    bool instance;            /* a part of a divided GPU (MIG): a process can
                                 use one only */
};

struct gpus {
    int n;
    char why[160]; /* there is none, or NVML told nothing; else "" */
    struct gpu_device gpu[GPUS_MAX];
};

/* Where to look; tests give others, and switch NVML off. */
struct gpus_roots {
    const char *proc, *dev, *sys; /* "/proc", "/dev", "/sys" */
    bool nvml;
};
extern const struct gpus_roots gpus_roots;

/*
 * Fills `g`. `visible` is the value of CUDA_VISIBLE_DEVICES, NULL when unset:
 * the list ends at the first entry that is no GPU, and a GPU that is there
 * twice makes it empty (CUDA C++ Programming Guide). An entry by UUID counts
 * where UUIDs are not known.
 */
void gpus_find(struct gpus *g,
               const struct gpus_roots *roots,
               const char *visible);

/*
 * Takes the next entry off a list with commas; blanks around it are no part of
 * it. False at the end of the list, or where an entry is longer than an id.
 */
bool gpus_next_id(const char **list, char id[NVML_UUID_MAX]);

#endif
