/*
 * A libnvidia-ml.so.1 for machines without a GPU. $FAKE_NVML says what it
 * tells, one GPU after the other, with semicolons between them (+ may stand
 * for a blank):
 *
 *     UUID PCI [mig=UUID,UUID] [lost] [pages] [rows] [failed]
 *     [pids=PID:MIB,PID:?]
 *
 * "broken" in its place is a driver that is not loaded. Types are the
 * library's ABI as launcher/hw/nvml.c has it, written here once more so that
 * the two can be compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DONE = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    LOST = 15,
};

#define GPUS 16
#define MIGS 7

struct fake {
    char uuid[96], pci[32];
    char mig[MIGS][96];
    unsigned migs;
    int lost, pages, rows, failed;
    char pids[16384];
};

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct process_info {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

struct memory {
    unsigned long long total, free, used;
};

static struct fake fakes[GPUS];
static unsigned count;

/* The functions' prototypes: nothing includes them. */
int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int rc);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d);
int nvmlDeviceGetUUID(void *d, char *text, unsigned len);
int nvmlDeviceGetName(void *d, char *text, unsigned len);
int nvmlDeviceGetPciInfo_v3(void *d, struct pci_info *pci);
int nvmlDeviceGetMemoryInfo(void *d, struct memory *m);
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later);
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n);
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **mig);
int nvmlDeviceGetGpuInstanceId(void *d, unsigned *id);
int nvmlDeviceGetComputeInstanceId(void *d, unsigned *id);
int nvmlDeviceGetRetiredPagesPendingStatus(void *d, int *pending);
int nvmlDeviceGetRemappedRows(void *d,
                              unsigned *corr,
                              unsigned *unc,
                              unsigned *pending,
                              unsigned *failed);
int nvmlDeviceGetComputeRunningProcesses_v3(void *d,
                                            unsigned *n,
                                            struct process_info *info);

static void copy(char *to, size_t cap, const char *text, size_t len)
{
    if (len >= cap)
        len = cap - 1;
    memcpy(to, text, len);
    to[len] = '\0';
}

static void read_migs(struct fake *g, const char *list)
{
    for (const char *p = list; *p != '\0' && g->migs < MIGS;) {
        size_t len = strcspn(p, ",");
        copy(g->mig[g->migs++], sizeof(g->mig[0]), p, len);
        p += len + (p[len] == ',');
    }
}

static void read_word(struct fake *g, int at, const char *word)
{
    if (at == 0)
        copy(g->uuid, sizeof(g->uuid), word, strlen(word));
    else if (at == 1)
        copy(g->pci, sizeof(g->pci), word, strlen(word));
    else if (strncmp(word, "mig=", 4) == 0)
        read_migs(g, word + 4);
    else if (strncmp(word, "pids=", 5) == 0)
        copy(g->pids, sizeof(g->pids), word + 5, strlen(word + 5));
    g->lost |= strcmp(word, "lost") == 0;
    g->pages |= strcmp(word, "pages") == 0;
    g->rows |= strcmp(word, "rows") == 0;
    g->failed |= strcmp(word, "failed") == 0;
}

int nvmlInit_v2(void)
{
    static char text[20000];
    const char *said = getenv("FAKE_NVML");
    count = 0;
    if (said == NULL || strcmp(said, "broken") == 0)
        return DRIVER_NOT_LOADED;
    copy(text, sizeof(text), said, strlen(said));
    char *rest, *more;
    for (char *gpu = strtok_r(text, ";", &rest); gpu != NULL && count < GPUS;
         gpu = strtok_r(NULL, ";", &rest)) {
        int at = 0;
        fakes[count] = (struct fake){.migs = 0};
        for (char *word = strtok_r(gpu, " +", &more); word != NULL;
             word = strtok_r(NULL, " +", &more))
            read_word(&fakes[count], at++, word);
        count++;
    }
    return DONE;
}

int nvmlShutdown(void)
{
    count = 0;
    return DONE;
}

const char *nvmlErrorString(int rc)
{
    return rc == DRIVER_NOT_LOADED ? "Driver Not Loaded"
           : rc == LOST            ? "GPU is lost"
                                   : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = count;
    return DONE;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)
{
    if (i >= count)
        return INVALID_ARGUMENT;
    *d = &fakes[i];
    return fakes[i].lost ? LOST : DONE;
}

/* Whether the handle is an instance's, whose name is its UUID. */
static int is_mig(const void *d)
{
    const char *p = d;
    for (unsigned i = 0; i < count; i++) {
        const char *first = fakes[i].mig[0];
        if (p >= first && p < first + sizeof(fakes[i].mig))
            return 1;
    }
    return 0;
}

int nvmlDeviceGetUUID(void *d, char *text, unsigned len)
{
    const struct fake *g = d;
    const char *uuid = is_mig(d) ? d : g->uuid;
    copy(text, len, uuid, strlen(uuid));
    return DONE;
}

int nvmlDeviceGetName(void *d, char *text, unsigned len)
{
    (void)d;
    copy(text, len, "Fake GPU", 8);
    return DONE;
}

int nvmlDeviceGetPciInfo_v3(void *d, struct pci_info *pci)
{
    const struct fake *g = d;
    memset(pci, 0, sizeof(*pci));
    return sscanf(g->pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) ==
                   3
               ? DONE
               : NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(void *d, struct memory *m)
{
    (void)d;
    *m = (struct memory){.total = 1ull << 34, .free = 1ull << 34};
    return DONE;
}

int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later)
{
    const struct fake *g = d;
    *now = *later = g->migs > 0;
    return DONE;
}

int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n)
{
    (void)d;
    *n = MIGS;
    return DONE;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **mig)
{
    struct fake *g = d;
    if (i >= g->migs)
        return NOT_FOUND;
    *mig = g->mig[i];
    return DONE;
}

/* The first instance is 1/0, the second 2/0. */
int nvmlDeviceGetGpuInstanceId(void *d, unsigned *id)
{
    const char *p = d;
    if (!is_mig(d))
        return NOT_SUPPORTED;
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < fakes[i].migs; k++)
            if (p == fakes[i].mig[k])
                *id = k + 1;
    return DONE;
}

int nvmlDeviceGetComputeInstanceId(void *d, unsigned *id)
{
    *id = 0;
    return is_mig(d) ? DONE : NOT_SUPPORTED;
}

int nvmlDeviceGetRetiredPagesPendingStatus(void *d, int *pending)
{
    const struct fake *g = d;
    *pending = g->pages;
    return DONE;
}

int nvmlDeviceGetRemappedRows(
    void *d, unsigned *corr, unsigned *unc, unsigned *pending, unsigned *failed)
{
    const struct fake *g = d;
    *corr = 1;
    *unc = 1;
    *pending = (unsigned)g->rows;
    *failed = (unsigned)g->failed;
    return DONE;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *d,
                                            unsigned *n,
                                            struct process_info *info)
{
    const struct fake *g = d;
    unsigned room = *n;
    *n = 0;
    for (const char *p = g->pids; *p != '\0'; (*n)++) {
        unsigned pid = 0, mib = 0;
        int got = sscanf(p, "%u:%u", &pid, &mib);
        if (*n < room)
            info[*n] = (struct process_info){
                .pid = pid,
                .memory = got == 2 ? (unsigned long long)mib << 20 : ~0ull,
            };
        p += strcspn(p, ",");
        p += *p == ',';
    }
    return *n > room ? INSUFFICIENT_SIZE : DONE;
}
