/*
 * NVML without its header: prototypes of our own for the functions that we
 * need, looked up by name in the library of the installed driver. So ddprun
 * builds and runs on machines without NVIDIA's software, and with drivers old
 * and new.
 *
 * Each function is found when nvml_open() loads the library. If one is missing
 * that we need, the driver is too old and nvml_open() fails with its name;
 * optional ones (MIG, remapped rows) are NULL then, and the callers take the
 * answer for "not known". Any other error of the library becomes DDP_E_IO, with
 * NVML's own text.
 */
#include "launcher/hw/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

/* The part of the library's ABI that we use. A struct never changes: a function
 * with another one gets another name (_v2, _v3). */

typedef void *device;
typedef int result;
enum {
    DONE = 0,
    NOT_SUPPORTED = 3,
    GPU_IS_LOST = 15,
};

struct pci_info { /* nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3 */
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct process_info { /* nvmlProcessInfo_v2_t of ...Processes_v3 */
    unsigned pid;
    unsigned long long memory; /* all ones: not known */
    unsigned gpu_instance, compute_instance;
};

struct memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

_Static_assert(sizeof(struct pci_info) == 68, "as in nvml.h");
_Static_assert(sizeof(struct process_info) == 24, "as in nvml.h");
_Static_assert(sizeof(struct memory) == 24, "as in nvml.h");

/* Member, function, whether a library without it will do, arguments. */
/* clang-format off */
#define FUNCTIONS(F)                                                           \
    F(init,      "nvmlInit_v2",                       0, (void))               \
    F(shut_down, "nvmlShutdown",                      0, (void))               \
    F(count,     "nvmlDeviceGetCount_v2",             0, (unsigned *))         \
    F(by_index,  "nvmlDeviceGetHandleByIndex_v2",     0, (unsigned, device *)) \
    F(uuid,      "nvmlDeviceGetUUID",                 0, (device, char *, unsigned)) \
    F(name,      "nvmlDeviceGetName",                 0, (device, char *, unsigned)) \
    F(pci,       "nvmlDeviceGetPciInfo_v3",           0, (device, struct pci_info *)) \
    F(memory,    "nvmlDeviceGetMemoryInfo",           0, (device, struct memory *)) \
    F(mig_mode,  "nvmlDeviceGetMigMode",              1, (device, unsigned *, unsigned *)) \
    F(mig_max,   "nvmlDeviceGetMaxMigDeviceCount",    1, (device, unsigned *)) \
    F(mig,       "nvmlDeviceGetMigDeviceHandleByIndex", 1, (device, unsigned, device *)) \
    F(mig_gpu,   "nvmlDeviceGetGpuInstanceId",        1, (device, unsigned *)) \
    F(mig_compute, "nvmlDeviceGetComputeInstanceId",  1, (device, unsigned *)) \
    F(pages,     "nvmlDeviceGetRetiredPagesPendingStatus", 1, (device, int *)) \
    F(rows,      "nvmlDeviceGetRemappedRows",         1, (device, unsigned *, unsigned *, unsigned *, unsigned *)) \
    F(processes, "nvmlDeviceGetComputeRunningProcesses_v3", 1, (device, unsigned *, struct process_info *))
/* clang-format on */

struct nvml {
    void *library;
    const char *(*text)(result); /* may be NULL */
#define MEMBER(member, symbol, optional, arguments) result(*member) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

/* dlsym returns a pointer to an object; ISO C has no cast from that to a
 * function, so the bytes are copied (POSIX guarantees that it works). */
static void load(void *library, const char *symbol, void *function)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof(found));
}

static int load_all(struct nvml *n, struct ddp_err *err)
{
#define LOAD(member, symbol, optional, arguments)                              \
    load(n->library, symbol, &n->member);                                      \
    if (n->member == NULL && !(optional))                                      \
        return ddp_err_set(err, DDP_E_CONFIG,                                  \
                           LIBRARY ": the driver is too old: it has no %s",    \
                           symbol);
    FUNCTIONS(LOAD)
#undef LOAD
    load(n->library, "nvmlErrorString", &n->text);
    return 0;
}

static const char *text_of(const struct nvml *n, result rc)
{
    return n->text != NULL ? n->text(rc) : "NVML error";
}

struct nvml *nvml_open(struct ddp_err *err)
{
    struct nvml *n = calloc(1, sizeof(*n));
    if (n == NULL) {
        ddp_err_set(err, DDP_E_NOMEM, "no memory for NVML");
        return NULL;
    }
    n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (n->library == NULL) {
        ddp_err_set(err, DDP_E_CONFIG, "%.200s", dlerror());
        free(n);
        return NULL;
    }
    result rc = DONE;
    if (load_all(n, err) == 0 && (rc = n->init()) == DONE)
        return n;
    if (rc != DONE)
        ddp_err_set(err, DDP_E_CONFIG, LIBRARY ": %s", text_of(n, rc));
    (void)dlclose(n->library); /* nothing to be done about an error */
    free(n);
    return NULL;
}

void nvml_close(struct nvml *n)
{
    if (n == NULL)
        return;
    (void)n->shut_down(); /* nothing to be done about it */
    (void)dlclose(n->library);
    free(n);
}

int nvml_count(const struct nvml *n)
{
    unsigned count = 0;
    return n->count(&count) == DONE && count <= INT16_MAX ? (int)count : 0;
}

static int
refused(const struct nvml *n, int index, result rc, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_IO, "GPU %d: %s", index, text_of(n, rc));
}

int nvml_gpu(const struct nvml *n,
             int index,
             struct nvml_gpu *gpu,
             struct ddp_err *err)
{
    ddp_assert(index >= 0);
    device d;
    struct pci_info pci = {.domain = 0};
    *gpu = (struct nvml_gpu){.index = index};
    result rc = n->by_index((unsigned)index, &d);
    if (rc == DONE)
        rc = n->uuid(d, gpu->uuid, sizeof(gpu->uuid));
    if (rc == DONE)
        rc = n->name(d, gpu->name, sizeof(gpu->name));
    if (rc == DONE)
        rc = n->pci(d, &pci);
    if (rc != DONE)
        return refused(n, index, rc, err);
    /* NVML writes the domain with eight digits, sysfs with four or more. */
    (void)snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.0",
                   pci.domain & 0xffffff, pci.bus & 0xff, pci.device & 0xff);
    unsigned now = 0, later = 0;
    gpu->divided =
        n->mig_mode != NULL && n->mig_mode(d, &now, &later) == DONE && now == 1;
    return 0;
}

/* The number that `ask` tells of an instance; -1: it does not. */
static int ask_number(result (*ask)(device, unsigned *), device d)
{
    unsigned number = 0;
    bool told = ask != NULL && ask(d, &number) == DONE && number <= INT16_MAX;
    return told ? (int)number : -1;
}

int nvml_instances(const struct nvml *n,
                   int index,
                   struct nvml_instance *instances,
                   int max)
{
    device d, instance;
    unsigned places = 0;
    int found = 0;
    if (n->mig_max == NULL || n->mig == NULL ||
        n->by_index((unsigned)index, &d) != DONE ||
        n->mig_max(d, &places) != DONE)
        return 0;
    for (unsigned i = 0; i < places && i < 64; i++) {
        struct nvml_instance part = {.uuid = ""};
        /* A place without an instance. */
        if (n->mig(d, i, &instance) != DONE ||
            n->uuid(instance, part.uuid, sizeof(part.uuid)) != DONE)
            continue;
        part.gpu_instance = ask_number(n->mig_gpu, instance);
        part.compute_instance = ask_number(n->mig_compute, instance);
        if (found < max)
            instances[found] = part;
        found++;
    }
    return found;
}

int nvml_health(const struct nvml *n,
                int index,
                struct nvml_health *health,
                struct ddp_err *err)
{
    device d;
    struct memory memory; /* asked for the answer's code only */
    *health = (struct nvml_health){.lost = false};
    result rc = n->by_index((unsigned)index, &d);
    if (rc == DONE)
        rc = n->memory(d, &memory);
    if (rc == GPU_IS_LOST) {
        health->lost = true;
        return 0;
    }
    if (rc != DONE && rc != NOT_SUPPORTED)
        return refused(n, index, rc, err);
    int pages = 0;
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (n->pages != NULL && n->pages(d, &pages) == DONE)
        health->pages_pending = pages == 1;
    if (n->rows != NULL &&
        n->rows(d, &corrected, &uncorrected, &pending, &failed) == DONE) {
        health->rows_pending = pending != 0;
        health->rows_failed = failed != 0;
    }
    return 0;
}

int nvml_processes(const struct nvml *n,
                   int index,
                   struct nvml_process *processes,
                   int max,
                   struct ddp_err *err)
{
    static struct process_info info[NVML_PROCESSES_MAX]; /* large */
    ddp_assert(index >= 0 && max >= 0);
    device d;
    unsigned count = NVML_PROCESSES_MAX;
    if (n->processes == NULL)
        return ddp_err_set(
            err, DDP_E_IO,
            "GPU %d: the driver is too old to list its processes", index);
    result rc = n->by_index((unsigned)index, &d);
    if (rc == DONE)
        rc = n->processes(d, &count, info);
    if (rc != DONE) /* if there are more, `info` need not be filled */
        return refused(n, index, rc, err);
    int found = 0;
    for (unsigned i = 0; i < count && i < NVML_PROCESSES_MAX && found < max;
         i++)
        processes[found++] = (struct nvml_process){
            .pid = info[i].pid,
            .memory = info[i].memory == ~0ull ? 0 : info[i].memory,
        };
    return found;
}
