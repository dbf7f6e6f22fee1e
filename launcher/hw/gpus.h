/*
 * launcher/hw/gpus: the GPUs that workers of this node can see, numbered as
 * their runtime numbers them. NVIDIA's are found by NVML, else by the driver's
 * files in PROC and the device nodes in DEV; AMD's by the kernel's files in SYS
 * (launcher/hw/kfd), if there is none of NVIDIA's.
 */
#ifndef LAUNCHER_HW_GPUS_H
#define LAUNCHER_HW_GPUS_H

#include <stdbool.h>

#include "launcher/hw/nvml.h"

#define GPUS_MAX 256

enum gpus_vendor {
    GPUS_NONE, /* no GPU was found */
    GPUS_NVIDIA,
    GPUS_AMD,
};

struct gpu_device {
    char id[NVML_UUID_MAX];   /* its name in CUDA_VISIBLE_DEVICES, or in
                                 HIP_VISIBLE_DEVICES */
    int index;                /* its number; a part's: of the divided GPU */
    char uuid[NVML_UUID_MAX]; /* "" not known */
    char name[NVML_NAME_MAX]; /* "" not known */
    char pci[NVML_PCI_MAX];   /* "" not known */
    int numa_node;            /* -1 not known */
    bool instance;            /* a part of a divided GPU (MIG), of which a
                                 process can use one only */
    /* Of an instance: the UUID of the divided GPU, and the part by numbers. */
    char divided[NVML_UUID_MAX];
    int gpu_instance, compute_instance;
};

struct gpus {
    enum gpus_vendor vendor; /* of the machine's GPUs */
    int all;                 /* of the machine, before the selection */
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

/* The variables that select GPUs; NULL: not set. Borrowed. */
struct gpus_visible {
    const char *cuda; /* CUDA_VISIBLE_DEVICES; HIP reads it, too */
    const char *hip;  /* HIP_VISIBLE_DEVICES: before cuda, on AMD's only */
    const char *rocr; /* ROCR_VISIBLE_DEVICES: AMD's; the numbers of the other
                         two count in what it leaves */
};

/* Those of our environment. */
struct gpus_visible gpus_visible_env(void);

/*
 * Fills `g`. NVIDIA's GPUs are selected by `visible->cuda`: the list ends at
 * the first entry that is no GPU, and a GPU that is named twice makes it empty
 * (CUDA C++ Programming Guide). If UUIDs are not known, an entry by UUID counts
 * as a GPU. AMD's are selected by `rocr`, and then by `hip`, else `cuda`; a GPU
 * that is named twice ends rocr's list, and counts once in the other (ROCm,
 * "GPU isolation techniques"). An empty list selects none.
 */
void gpus_find(struct gpus *g,
               const struct gpus_roots *roots,
               const struct gpus_visible *visible);

/* Whether an entry by number or UUID means one GPU of `g`. An entry by UUID is
 * believed if UUIDs are not known. */
bool gpus_has(const struct gpus *g, const char *id);

/*
 * The list in whose numbers a worker's GPU is told, and in *name the variable
 * it is from; NULL: all GPUs. A HIP_VISIBLE_DEVICES that is not empty goes
 * before CUDA_VISIBLE_DEVICES, as for torchrun, but not on a machine of
 * NVIDIA's.
 */
const char *gpus_list(const struct gpus_visible *visible,
                      enum gpus_vendor vendor,
                      const char **name);

/*
 * Takes the next entry, without blanks around it, off a comma-separated list.
 * False at the end of the list, or if an entry is longer than an id.
 */
bool gpus_next_id(const char **list, char id[NVML_UUID_MAX]);

#endif
