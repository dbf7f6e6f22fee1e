/*
 * launcher/hw/nvml: this machine's GPUs, by NVIDIA's management library.
 * nvml_open() loads libnvidia-ml.so.1 and uses prototypes of our own (the
 * library's ABI, "NVML API Reference Guide"). On a machine without the library
 * or the driver nvml_open() fails, and nothing else does. Loading can take a
 * second if the driver's persistence mode is off.
 *
 * GPUs are numbered as the driver does, by PCI address. A divided GPU (MIG) is
 * one GPU here and has instances.
 *
 * Not thread-safe; nothing here may be called between fork and exec.
 */
#ifndef LAUNCHER_HW_NVML_H
#define LAUNCHER_HW_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

#define NVML_UUID_MAX 96 /* with its NUL: "MIG-GPU-..." of old drivers too */
#define NVML_NAME_MAX 96
#define NVML_PCI_MAX  16 /* "0000:3b:00.0", as sysfs writes it */

#define NVML_PROCESSES_MAX 4096 /* on one GPU */

struct nvml;

struct nvml_gpu {
    int index;
    char uuid[NVML_UUID_MAX];
    char name[NVML_NAME_MAX];
    char pci[NVML_PCI_MAX];
    bool divided; /* MIG is on: programs use its instances */
};

/* A part of a divided GPU. */
struct nvml_instance {
    char uuid[NVML_UUID_MAX];
    int gpu_instance, compute_instance; /* their numbers; -1 not known */
};

/* What is wrong with a GPU. False: nothing, or it is not known (consumer GPUs
 * do not report it). */
struct nvml_health {
    bool lost;          /* it has fallen off the bus */
    bool pages_pending; /* pages are to be retired at the next reset */
    bool rows_pending;  /* rows are to be remapped at the next reset */
    bool rows_failed;   /* a row could not be remapped: replace the GPU */
};

/* A process that uses a GPU; `memory` is 0 if the driver does not say. */
struct nvml_process {
    int64_t pid;
    uint64_t memory; /* bytes */
};

/*
 * Loads and starts the library. NULL with DDP_E_CONFIG: there is no library,
 * the driver is not loaded, or it is too old (the message names the function
 * that is missing).
 */
struct nvml *nvml_open(struct ddp_err *err);
void nvml_close(struct nvml *n); /* NULL is fine */

/* Number of GPUs, 0 on an error. */
int nvml_count(const struct nvml *n);

/* One GPU, 0 <= index < nvml_count(). DDP_E_IO: the driver refused; the GPU may
 * be lost. */
int nvml_gpu(const struct nvml *n,
             int index,
             struct nvml_gpu *gpu,
             struct ddp_err *err);

/* Its instances (MIG), at most `max`. Returns how many there are. */
int nvml_instances(const struct nvml *n,
                   int index,
                   struct nvml_instance *instances,
                   int max);

/* What is wrong with it. DDP_E_IO as above; a lost GPU is no error. */
int nvml_health(const struct nvml *n,
                int index,
                struct nvml_health *health,
                struct ddp_err *err);

/* Processes that compute on it, at most `max`. Returns how many were written,
 * or -1 (DDP_E_IO) if the driver refused, or has more than NVML_PROCESSES_MAX.
 */
int nvml_processes(const struct nvml *n,
                   int index,
                   struct nvml_process *processes,
                   int max,
                   struct ddp_err *err);

#endif
