/*
 * worker_rt/gpu: what libddp needs of the CUDA driver, loaded when it is first
 * asked for. Its interface is stable and there is one driver on a machine, so
 * this works beside any version of the CUDA runtime in the program, and libddp
 * needs no toolkit to be built.
 *
 * The functions have the driver's names without "cu" and return its numbers:
 * 0 is success, see gpu_text. Streams are CUstream, which is cudaStream_t;
 * NULL is the default stream. All work on the context that is current in the
 * calling thread, that of cudaSetDevice.
 */
#ifndef WORKER_RT_GPU_H
#define WORKER_RT_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

#define GPU_NOT_READY 600 /* CUDA_ERROR_NOT_READY */
#define GPU_NO_TIMING 2   /* CU_EVENT_DISABLE_TIMING */

typedef uint64_t gpu_ptr; /* CUdeviceptr */

struct gpu_driver {
    int (*init)(unsigned flags);
    int (*error_string)(int error, const char **text);
    int (*ctx_get)(void **ctx);
    int (*ctx_set)(void *ctx);
    int (*pointer_attribute)(void *value, int attribute, gpu_ptr p);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_query)(void *stream);
    int (*stream_wait)(void *stream);
    int (*stream_wait_event)(void *stream, void *event, unsigned flags);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*alloc)(gpu_ptr *p, size_t len);
    int (*free)(gpu_ptr p);
    int (*copy_out)(void *host, gpu_ptr p, size_t len, void *stream);
    int (*copy)(gpu_ptr to, gpu_ptr from, size_t len, void *stream);
    int (*pin)(void *host, size_t len, unsigned flags);
    int (*unpin)(void *host);
};

/* From any thread. NULL: CONFIG, there is no driver on this machine or it does
 * not start; the same each time. */
const struct gpu_driver *gpu_load(struct ddp_err *err);

/* The context that is current in this thread; NULL: CONFIG, the program has
 * chosen no device yet. */
void *gpu_context(const struct gpu_driver *g, struct ddp_err *err);

enum gpu_place {
    GPU_HOST,
    GPU_DEVICE,
    GPU_UNKNOWN
};

/* Where this address lies. GPU_UNKNOWN: IO, the driver cannot say, since the
 * GPU failed in an earlier call for example. Device memory that is taken for
 * host memory would be touched, which kills the process. */
enum gpu_place
gpu_where(const struct gpu_driver *g, const void *p, struct ddp_err *err);

/* What a number means; lives for ever. */
const char *gpu_text(const struct gpu_driver *g, int error);

static inline gpu_ptr gpu_addr(const void *p)
{
    return (gpu_ptr)(uintptr_t)p;
}

#endif
