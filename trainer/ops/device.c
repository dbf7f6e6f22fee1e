/*
 * trainer/ops/device: the CPU as a device. Its memory is the program's own, so
 * put and get are copies, and what it was told to do is done on return: there
 * is nothing to wait for, and no error to keep.
 *
 * The loops over all parameters are here; the formula for one of them is in
 * update.h, which the kernels of CUDA share.
 */
#include "trainer/ops/device.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/ops/update.h"

static void *cpu_alloc(size_t len)
{
    return calloc(len, 1);
}

static void cpu_copy(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
}

static int cpu_check(struct ddp_error *err)
{
    (void)err;
    return 0;
}

static void cpu_scale(float *p, size_t n, float f)
{
    for (size_t i = 0; i < n; i++)
        p[i] *= f;
}

static void cpu_lerp(float *to, const float *from, size_t n, float f)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (1.0f - f) * to[i] + f * from[i];
}

static void
cpu_sgd(float *restrict p, const float *restrict g, size_t n, float lr)
{
    for (size_t i = 0; i < n; i++)
        p[i] -= lr * g[i];
}

static void cpu_momentum(float *restrict p,
                         const float *restrict g,
                         float *restrict m,
                         size_t n,
                         float lr,
                         float keep)
{
    for (size_t i = 0; i < n; i++)
        update_momentum(&p[i], g[i], &m[i], lr, keep);
}

static void cpu_adam(float *restrict p,
                     const float *restrict g,
                     float *restrict m,
                     float *restrict v,
                     size_t n,
                     float lr,
                     float fix)
{
    for (size_t i = 0; i < n; i++)
        update_adam(&p[i], g[i], &m[i], &v[i], lr, fix);
}

static void cpu_adadelta(float *restrict p,
                         const float *restrict g,
                         float *restrict v,
                         float *restrict u,
                         size_t n,
                         float lr)
{
    for (size_t i = 0; i < n; i++)
        update_adadelta(&p[i], g[i], &v[i], &u[i], lr);
}

static const struct device cpu = {
    .ops =
        {
            .linear_forward = ops_linear_forward,
            .linear_backward = ops_linear_backward,
            .relu_forward = ops_relu_forward,
            .relu_backward = ops_relu_backward,
            .softmax_xent = ops_softmax_xent,
            .mse = ops_mse,
            .patches = ops_patches,
            .patches_backward = ops_patches_backward,
            .norm_forward = ops_norm_forward,
            .norm_backward = ops_norm_backward,
            .norm_infer = ops_norm_infer,
            .pool_forward = ops_pool_forward,
            .pool_backward = ops_pool_backward,
            .transpose = ops_transpose,
            .scale = cpu_scale,
            .lerp = cpu_lerp,
            .sgd = cpu_sgd,
            .momentum = cpu_momentum,
            .adam = cpu_adam,
            .adadelta = cpu_adadelta,
        },
    .name = "cpu",
    .alloc = cpu_alloc,
    .free = free,
    .put = cpu_copy,
    .get = cpu_copy,
    .check = cpu_check,
    .noted = cpu_check,
};

const struct device *device_cpu(void)
{
    return &cpu;
}
