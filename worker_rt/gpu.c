#include "worker_rt/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define MEMORY_TYPE        2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define MEMORY_TYPE_DEVICE 2 /* CU_MEMORYTYPE_DEVICE */
#define INVALID_VALUE      1 /* CUDA_ERROR_INVALID_VALUE */

/* Names as of cuda.h, whose macros turn the plain ones into these. */
static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    {"cuInit", offsetof(struct gpu_driver, init)},
    {"cuGetErrorString", offsetof(struct gpu_driver, error_string)},
    {"cuCtxGetCurrent", offsetof(struct gpu_driver, ctx_get)},
    {"cuCtxSetCurrent", offsetof(struct gpu_driver, ctx_set)},
    {"cuPointerGetAttribute", offsetof(struct gpu_driver, pointer_attribute)},
    {"cuStreamCreate", offsetof(struct gpu_driver, stream_create)},
    {"cuStreamDestroy_v2", offsetof(struct gpu_driver, stream_destroy)},
    {"cuStreamQuery", offsetof(struct gpu_driver, stream_query)},
    {"cuStreamSynchronize", offsetof(struct gpu_driver, stream_wait)},
    {"cuStreamWaitEvent", offsetof(struct gpu_driver, stream_wait_event)},
    {"cuEventCreate", offsetof(struct gpu_driver, event_create)},
    {"cuEventDestroy_v2", offsetof(struct gpu_driver, event_destroy)},
    {"cuEventRecord", offsetof(struct gpu_driver, event_record)},
    {"cuEventQuery", offsetof(struct gpu_driver, event_query)},
    {"cuMemAlloc_v2", offsetof(struct gpu_driver, alloc)},
    {"cuMemFree_v2", offsetof(struct gpu_driver, free)},
    {"cuMemcpyDtoHAsync_v2", offsetof(struct gpu_driver, copy_out)},
    {"cuMemcpyDtoDAsync_v2", offsetof(struct gpu_driver, copy)},
    {"cuMemHostRegister_v2", offsetof(struct gpu_driver, pin)},
    {"cuMemHostUnregister", offsetof(struct gpu_driver, unpin)},
};

_Static_assert(sizeof(symbols) / sizeof(symbols[0]) ==
                   sizeof(struct gpu_driver) / sizeof(void (*)(void)),
               "one for each member");

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct gpu_driver driver;
static bool loaded;
static struct ddp_err why;

static void load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        (void)ddp_err_set(&why, DDP_E_CONFIG,
                          "there is no NVIDIA driver on this machine "
                          "(libcuda.so.1 is not found)");
        return;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(lib, symbols[i].name);
        if (found == NULL) {
            (void)ddp_err_set(&why, DDP_E_CONFIG,
                              "the NVIDIA driver is too old: libcuda.so.1 has "
                              "no %s",
                              symbols[i].name);
            return;
        }
        /* POSIX lets a function's address be kept in a void pointer. */
        memcpy((uint8_t *)&driver + symbols[i].at, &found, sizeof(found));
    }
    int rc = driver.init(0);
    if (rc != 0)
        (void)ddp_err_set(&why, DDP_E_CONFIG,
                          "cannot start the NVIDIA driver: %s",
                          gpu_text(&driver, rc));
    loaded = rc == 0;
}

const struct gpu_driver *gpu_load(struct ddp_err *err)
{
    (void)pthread_once(&once, load); /* cannot fail on a valid control */
    if (loaded)
        return &driver;
    *err = why;
    return NULL;
}

void *gpu_context(const struct gpu_driver *g, struct ddp_err *err)
{
    void *ctx = NULL;
    int rc = g->ctx_get(&ctx);
    if (rc == 0 && ctx != NULL)
        return ctx;
    (void)ddp_err_set(err, DDP_E_CONFIG,
                      "no GPU has been chosen in this thread%s%s: call "
                      "cudaSetDevice(ddp_local_rank()) first",
                      rc == 0 ? "" : ", ", rc == 0 ? "" : gpu_text(g, rc));
    return NULL;
}

/* The driver calls an address that it does not know an invalid value. Any other
 * error says nothing of the address. */
enum gpu_place
gpu_where(const struct gpu_driver *g, const void *p, struct ddp_err *err)
{
    unsigned type = 0;
    int rc = g->pointer_attribute(&type, MEMORY_TYPE, gpu_addr(p));
    if (rc == 0)
        return type == MEMORY_TYPE_DEVICE ? GPU_DEVICE : GPU_HOST;
    if (rc == INVALID_VALUE)
        return GPU_HOST;
    (void)ddp_err_set(err, DDP_E_IO,
                      "cannot ask the driver where a buffer lies: %s",
                      gpu_text(g, rc));
    return GPU_UNKNOWN;
}

const char *gpu_text(const struct gpu_driver *g, int error)
{
    const char *text = NULL;
    if (g->error_string(error, &text) != 0 || text == NULL)
        return "unknown driver error";
    return text;
}
