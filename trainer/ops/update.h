/*
 * trainer/ops/update: what becomes of one parameter in a step of each optimizer
 * (see optim.h). The CPU's loops and CUDA's kernels are made of these, so there
 * is one place for each formula.
 */
#ifndef TRAINER_OPS_UPDATE_H
#define TRAINER_OPS_UPDATE_H

#include <math.h>

#ifdef __CUDACC__
#define UPDATE_FN static inline __host__ __device__
#else
#define UPDATE_FN static inline
#endif

#define UPDATE_ADAM_BETA1 0.9f
#define UPDATE_ADAM_BETA2 0.999f
#define UPDATE_ADAM_EPS   1e-8f
#define UPDATE_DELTA_RHO  0.9f
#define UPDATE_DELTA_EPS  1e-6f

/* *m: the velocity. */
UPDATE_FN void
update_momentum(float *p, float g, float *m, float lr, float keep)
{
    *m = keep * *m + g;
    *p -= lr * *m;
}

/* *m, *v: averages of gradients and of their squares; `fix` mends that they
 * began at zero. */
UPDATE_FN void
update_adam(float *p, float g, float *m, float *v, float lr, float fix)
{
    const float b1 = UPDATE_ADAM_BETA1, b2 = UPDATE_ADAM_BETA2;
    *m = b1 * *m + (1.0f - b1) * g;
    *v = b2 * *v + (1.0f - b2) * g * g;
    *p -= lr * *m / (sqrtf(*v) * fix + UPDATE_ADAM_EPS);
}

/* *v: average of squared gradients; *u: of squared steps. */
UPDATE_FN void update_adadelta(float *p, float g, float *v, float *u, float lr)
{
    const float rho = UPDATE_DELTA_RHO, eps = UPDATE_DELTA_EPS;
    *v = rho * *v + (1.0f - rho) * g * g;
    float step = sqrtf(*u + eps) / sqrtf(*v + eps) * g;
    *u = rho * *u + (1.0f - rho) * step * step;
    *p -= lr * step;
}

#endif
