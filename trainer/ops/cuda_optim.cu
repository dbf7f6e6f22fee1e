/*
 * trainer/ops/cuda_optim: optimizers on a GPU, and what else changes each
 * parameter by itself. The formulas are those of the CPU (update.h).
 */
#include "trainer/ops/cuda.cuh"
#include "trainer/ops/update.h"

static void scale(float *p, size_t n, float f)
{
    each("scale", n, [=] __device__(size_t i) { p[i] *= f; });
}

static void lerp(float *to, const float *from, size_t n, float f)
{
    each("lerp", n, [=] __device__(size_t i) {
        to[i] = (1.0f - f) * to[i] + f * from[i];
    });
}

static void sgd(float *p, const float *g, size_t n, float lr)
{
    each("sgd", n, [=] __device__(size_t i) { p[i] -= lr * g[i]; });
}

static void
momentum(float *p, const float *g, float *m, size_t n, float lr, float keep)
{
    each("momentum", n, [=] __device__(size_t i) {
        update_momentum(&p[i], g[i], &m[i], lr, keep);
    });
}

static void adam(
    float *p, const float *g, float *m, float *v, size_t n, float lr, float fix)
{
    each("adam", n, [=] __device__(size_t i) {
        update_adam(&p[i], g[i], &m[i], &v[i], lr, fix);
    });
}

static void
adadelta(float *p, const float *g, float *v, float *u, size_t n, float lr)
{
    each("adadelta", n, [=] __device__(size_t i) {
        update_adadelta(&p[i], g[i], &v[i], &u[i], lr);
    });
}

void cuda_fill_optim(struct device_ops *o)
{
    o->scale = scale;
    o->lerp = lerp;
    o->sgd = sgd;
    o->momentum = momentum;
    o->adam = adam;
    o->adadelta = adadelta;
}
