#include "trainer/optim.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "trainer/fail.h"

#define MOMENTUM   0.9f
#define ADAM_BETA1 0.9f
#define ADAM_BETA2 0.999f
#define ADAM_EPS   1e-8f
#define DELTA_RHO  0.9f
#define DELTA_EPS  1e-6f

static const struct {
    const char *name;
    const char *state[OPTIM_STATES + 1];
} kinds[] = {
    [OPTIM_SGD] = {"sgd", {NULL}},
    [OPTIM_MOMENTUM] = {"momentum", {"momentum_buffer", NULL}},
    [OPTIM_ADAM] = {"adam", {"exp_avg", "exp_avg_sq", NULL}},
    [OPTIM_ADADELTA] = {"adadelta", {"square_avg", "acc_delta", NULL}},
};

const char *optim_name(enum optim_kind kind)
{
    return kinds[kind].name;
}

const char *optim_state_name(enum optim_kind kind, size_t n)
{
    assert(n <= OPTIM_STATES);
    return kinds[kind].state[n];
}

int optim_init(struct optim *o,
               enum optim_kind kind,
               float lr,
               size_t P,
               struct ddp_error *err)
{
    *o = (struct optim){.kind = kind, .lr = lr, .P = P};
    for (size_t i = 0; optim_state_name(kind, i) != NULL; i++) {
        o->state[i] = calloc(P, sizeof(*o->state[i]));
        if (o->state[i] == NULL) {
            fail_sys(err, DDP_ERR_NOMEM, "no memory for the optimizer");
            optim_free(o);
            return -1;
        }
    }
    return 0;
}

void optim_free(struct optim *o)
{
    for (size_t i = 0; i < OPTIM_STATES; i++)
        free(o->state[i]);
    *o = (struct optim){0};
}

static void sgd(struct optim *o, float *restrict p, const float *restrict g)
{
    for (size_t i = 0; i < o->P; i++)
        p[i] -= o->lr * g[i];
}

static void momentum(struct optim *o,
                     float *restrict p,
                     const float *restrict g,
                     float *restrict m)
{
    for (size_t i = 0; i < o->P; i++) {
        m[i] = MOMENTUM * m[i] + g[i];
        p[i] -= o->lr * m[i];
    }
}

/* With t the steps taken: both averages start at 0 and are corrected for it. */
static void adam(struct optim *o,
                 float *restrict p,
                 const float *restrict g,
                 float *restrict m,
                 float *restrict v)
{
    double t = (double)o->step;
    float lr = (float)((double)o->lr / (1.0 - pow((double)ADAM_BETA1, t)));
    float fix = (float)(1.0 / sqrt(1.0 - pow((double)ADAM_BETA2, t)));
    for (size_t i = 0; i < o->P; i++) {
        m[i] = ADAM_BETA1 * m[i] + (1.0f - ADAM_BETA1) * g[i];
        v[i] = ADAM_BETA2 * v[i] + (1.0f - ADAM_BETA2) * g[i] * g[i];
        p[i] -= lr * m[i] / (sqrtf(v[i]) * fix + ADAM_EPS);
    }
}

/* v: average of squared gradients; u: of squared steps. */
static void adadelta(struct optim *o,
                     float *restrict p,
                     const float *restrict g,
                     float *restrict v,
                     float *restrict u)
{
    for (size_t i = 0; i < o->P; i++) {
        v[i] = DELTA_RHO * v[i] + (1.0f - DELTA_RHO) * g[i] * g[i];
        float step = sqrtf(u[i] + DELTA_EPS) / sqrtf(v[i] + DELTA_EPS) * g[i];
        u[i] = DELTA_RHO * u[i] + (1.0f - DELTA_RHO) * step * step;
        p[i] -= o->lr * step;
    }
}

void optim_step(struct optim *o, float *params, const float *grads)
{
    o->step++;
    switch (o->kind) {
    case OPTIM_SGD:
        sgd(o, params, grads);
        break;
    case OPTIM_MOMENTUM:
        momentum(o, params, grads, o->state[0]);
        break;
    case OPTIM_ADAM:
        adam(o, params, grads, o->state[0], o->state[1]);
        break;
    case OPTIM_ADADELTA:
        adadelta(o, params, grads, o->state[0], o->state[1]);
        break;
    }
}
