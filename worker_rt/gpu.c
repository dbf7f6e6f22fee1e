#include "worker_rt/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define MEMORY_TYPE        2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define MEMORY_TYPE_DEVICE 2 /* CU_MEMORYTYPE_DEVICE */

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
    {"cuMemAlloc_v2", offsetof(struct gpu_driver, alloc)},
    {"cuMemFree_v2", offsetof(struct gpu_driver, free)},
    {"cuMemcpyDtoHAsync_v2", offsetof(struct gpu_driver, copy_out)},
    {"cuMemcpyHtoDAsync_v2", offsetof(struct gpu_driver, copy_in)},
    {"cuMemcpyDtoDAsync_v2", offsetof(struct gpu_driver, copy)},
    {"cuMemHostRegister_v2", offsetof(struct gpu_driver, pin)},
    {"cuMemHostUnregister", offsetof(struct gpu_driver, unpin)},
};

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

bool gpu_is_device(const struct gpu_driver *g, const void *p)
{
    unsigned type = 0;
    return g->pointer_attribute(&type, MEMORY_TYPE, gpu_addr(p)) == 0 &&
           type == MEMORY_TYPE_DEVICE;
}

const char *gpu_text(const struct gpu_driver *g, int error)
{
    const char *text = NULL;
    if (g->error_string(error, &text) != 0 || text == NULL)
        return "unknown driver error";
    return text;
}
