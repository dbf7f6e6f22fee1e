/*
 * launcher/hw/gpus: the GPUs that workers of this node can see, numbered as
 * CUDA numbers them. They are found by NVML, else by the driver's files in PROC
 * and the device nodes in DEV, and selected by CUDA_VISIBLE_DEVICES.
 */
#ifndef LAUNCHER_HW_GPUS_H
#define LAUNCHER_HW_GPUS_H

#include <stdbool.h>

#include "launcher/hw/nvml.h"

#define GPUS_MAX 256

struct gpu_device {
    char id[NVML_UUID_MAX];   /* its name in CUDA_VISIBLE_DEVICES */
    char uuid[NVML_UUID_MAX]; /* "" not known */
    char name[NVML_NAME_MAX]; /* "" not known */
    char pci[NVML_PCI_MAX];   /* "" not known */
    int numa_node;            /* -1 not known */
    bool instance;            /* a part of a divided GPU (MIG), of which a
                                 process can use one only */
};

struct gpus {
    int n;
    char why[160]; /* why there is none, or NVML does not work; else "" */
    struct gpu_device gpu[GPUS_MAX];
};

/* Where to look. Tests give other folders, and switch NVML off. */
struct gpus_roots {
    const char *proc, *dev, *sys; /* "/proc", "/dev", "/sys" */
    bool nvml;
};
extern const struct gpus_roots gpus_roots;

/*
 * Fills `g`. `visible` is the value of CUDA_VISIBLE_DEVICES, or NULL if it is
 * not set. The list ends at the first entry that is no GPU, and a GPU that is
 * named twice makes it empty (CUDA C++ Programming Guide). If UUIDs are not
 * known, an entry by UUID counts as a GPU.
 */
void gpus_find(struct gpus *g,
               const struct gpus_roots *roots,
               const char *visible);

/*
 * Takes the next entry, without blanks around it, off a comma-separated list.
 * False at the end of the list, or if an entry is longer than an id.
 */
bool gpus_next_id(const char **list, char id[NVML_UUID_MAX]);

#endif
