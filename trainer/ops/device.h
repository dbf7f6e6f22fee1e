/*
 * trainer/ops/device: where a model lives, and what computes it. The operations
 * of the CPU are those of ops/cpu and ops/conv; those of CUDA are in cuda*.cu,
 * and check_ops_cuda compares them with the CPU's. All of them mean what cpu.h
 * and conv.h say. On a GPU their arrays are device memory, and they are done in
 * order, later.
 *
 * No operation returns an error: the first one is kept until `check` asks.
 */
#ifndef TRAINER_OPS_DEVICE_H
#define TRAINER_OPS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/ops/conv.h"
#include "trainer/ops/cpu.h"
#include "worker_rt/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of cpu.h and conv.h, and with their arguments. */
struct device_ops {
    __typeof__(&ops_linear_forward) linear_forward;
    __typeof__(&ops_linear_backward) linear_backward;
    __typeof__(&ops_relu_forward) relu_forward;
    __typeof__(&ops_relu_backward) relu_backward;
    /* These wait for what they return. */
    __typeof__(&ops_softmax_xent) softmax_xent;
    __typeof__(&ops_mse) mse;
    __typeof__(&ops_patches) patches;
    __typeof__(&ops_patches_backward) patches_backward;
    __typeof__(&ops_norm_forward) norm_forward;
    __typeof__(&ops_norm_backward) norm_backward;
    __typeof__(&ops_norm_infer) norm_infer;
    __typeof__(&ops_pool_forward) pool_forward;
    __typeof__(&ops_pool_backward) pool_backward;
    __typeof__(&ops_transpose) transpose;

    /* p (n) *= f; to (n) = (1 - f) * to + f * from (n), as torch.lerp. */
    void (*scale)(float *p, size_t n, float f);
    void (*lerp)(float *to, const float *from, size_t n, float f);

    /* Optimizers, see optim.h and update.h: p (n) moved against g (n). */
    void (*sgd)(float *p, const float *g, size_t n, float lr);
    void (*momentum)(
        float *p, const float *g, float *m, size_t n, float lr, float keep);
    void (*adam)(float *p,
                 const float *g,
                 float *m,
                 float *v,
                 size_t n,
                 float lr,
                 float fix);
    void (*adadelta)(
        float *p, const float *g, float *v, float *u, size_t n, float lr);
};

struct device {
    struct device_ops ops;
    bool gpu;       /* its memory is not the program's own */
    char name[128]; /* "NVIDIA H200" */
    uint8_t id[16]; /* of the GPU; no two in the world have the same */
    void *stream;   /* a cudaStream_t, on which all is done */

    /* Zeros; NULL if there is no room. */
    void *(*alloc)(size_t len);
    void (*free)(void *p); /* NULL is fine */

    /* From the program's memory, which may be changed afterwards; and to it,
     * when all that was begun is done. */
    void (*put)(void *to, const void *host, size_t len);
    void (*get)(void *host, const void *from, size_t len);

    /* What has gone wrong since the last time: DDP_ERR_IO. Waits. */
    int (*check)(struct ddp_error *err);

    /* The same, as far as it is known, without a wait: whether all kernels up
     * to here were launched. What a launched one does wrong stops the device,
     * and with it what comes behind. */
    int (*noted)(struct ddp_error *err);
};

/* Lives for ever. */
const struct device *device_cpu(void);

/*
 * The GPU number local_rank modulo the number of GPUs, so that ranks share them
 * if there are fewer; made the calling thread's current one. Lives for ever.
 * NULL: DDP_ERR_CONFIG, with a sentence why there is none: built without CUDA,
 * no driver, no GPU.
 */
const struct device *device_cuda(int local_rank, struct ddp_error *err);

/* Whether cuBLAS, if it is found, does the sums of linear layers. It does,
 * unless a test says no. Returns whether it does now. */
bool device_cuda_use_library(bool use);

#ifdef __cplusplus
}
#endif

#endif
