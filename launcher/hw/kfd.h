/*
 * launcher/hw/kfd: AMD's GPUs, by the topology files of the kernel's compute
 * driver (amdkfd), which are the list that ROCm itself reads. No library is
 * needed.
 */
#ifndef LAUNCHER_HW_KFD_H
#define LAUNCHER_HW_KFD_H

#include "launcher/hw/nvml.h"

struct kfd_gpu {
    char uuid[NVML_UUID_MAX]; /* "GPU-" and 16 digits; "": it has none */
    char name[NVML_NAME_MAX]; /* of its architecture: "gfx942" */
    char pci[NVML_PCI_MAX];   /* parts of one GPU have the same */
};

/*
 * The GPUs below SYS/class/kfd in ROCm's order, at most `max`. One that this
 * container was not given is left out: its files cannot be read, or DEV has no
 * render node of it. Returns how many were written.
 */
int kfd_gpus(const char *sys, const char *dev, struct kfd_gpu *gpus, int max);

#endif
