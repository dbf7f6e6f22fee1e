/*
 * launcher/hw/nvml: what NVIDIA's management library says about this machine's
 * GPUs. libnvidia-ml.so.1 is loaded when somebody asks, with prototypes of our
 * own (the library's ABI, "NVML API Reference Guide"); where there is none, or
 * no driver, nvml_open says so and nothing else is lost. Loading it can take a
 * second where the driver's persistence is off.
 *
 * GPUs are numbered as the driver does, by PCI address. A GPU that is divided
 * (MIG) is one GPU here and has instances.
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

struct nvml;

struct nvml_gpu {
    int index;
    char uuid[NVML_UUID_MAX];
    char name[NVML_NAME_MAX];
    char pci[NVML_PCI_MAX];
    bool divided; /* MIG is on: its instances are what programs use */
};

/* What is wrong with a GPU; false where nothing is, or it cannot be known
 * (GPUs for games do not tell). */
struct nvml_health {
    bool lost;            /* it has fallen off the bus */
    bool pages_pending;   /* pages are to be retired at the next reset */
    bool rows_pending;    /* rows are to be remapped at the next reset */
    bool rows_failed;     /* a row could not be remapped: for the workshop */
    uint64_t memory_used; /* bytes, by all processes and the driver */
    uint64_t memory_total;
};

/* A process that uses a GPU; `memory` is 0 where the driver does not say. */
struct nvml_process {
    int64_t pid;
    uint64_t memory; /* bytes */
};

/*
 * Loads and starts the library. NULL with DDP_E_CONFIG: it is not there, the
 * driver is not loaded, or it is too old (which function is missing is said).
 */
struct nvml *nvml_open(struct ddp_err *err);
void nvml_close(struct nvml *n); /* NULL is fine */

/* Number of GPUs, 0 on an error. */
int nvml_count(const struct nvml *n);

/* One GPU, 0 <= index < nvml_count(). DDP_E_IO: the driver refused; it may
 * have been lost since. */
int nvml_gpu(const struct nvml *n,
             int index,
             struct nvml_gpu *gpu,
             struct ddp_err *err);

/* UUIDs of its instances (MIG), at most `max`; returns how many there are. */
int nvml_instances(const struct nvml *n,
                   int index,
                   char uuids[][NVML_UUID_MAX],
                   int max);

/* What is wrong with it. DDP_E_IO as above, but a lost GPU is no error. */
int nvml_health(const struct nvml *n,
                int index,
                struct nvml_health *health,
                struct ddp_err *err);

/* Processes that compute on it, at most `max`; returns how many of them were
 * written, -1 (DDP_E_IO) where the driver refused. */
int nvml_processes(const struct nvml *n,
                   int index,
                   struct nvml_process *processes,
                   int max,
                   struct ddp_err *err);

#endif
