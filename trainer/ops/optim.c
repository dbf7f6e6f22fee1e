/*
 * trainer/ops/optim: names and states of the optimizers, as PyTorch calls them;
 * what is the same for all parameters of a step is computed here, once.
 */
#include "trainer/ops/optim.h"

#include <assert.h>
#include <math.h>

#include "trainer/ops/fail.h"
#include "trainer/ops/update.h"

#define MOMENTUM 0.9f

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
               const struct device *dev,
               enum optim_kind kind,
               float lr,
               size_t P,
               struct ddp_error *err)
{
    *o = (struct optim){.kind = kind, .lr = lr, .P = P, .dev = dev};
    for (size_t i = 0; optim_state_name(kind, i) != NULL; i++) {
        o->state[i] = dev->alloc(P * sizeof(*o->state[i]));
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
    for (size_t i = 0; i < OPTIM_STATES && o->dev != NULL; i++)
        o->dev->free(o->state[i]);
    *o = (struct optim){0};
}

/* Both averages start at 0, and are too small by 1 - beta^t after t steps: the
 * rate and `fix` correct that. In double, since beta2^t is close to 1 at first.
 */
static void adam(struct optim *o, float *p, const float *g)
{
    const double b1 = (double)UPDATE_ADAM_BETA1, b2 = (double)UPDATE_ADAM_BETA2;
    double t = (double)o->step;
    float lr = (float)((double)o->lr / (1.0 - pow(b1, t)));
    float fix = (float)(1.0 / sqrt(1.0 - pow(b2, t)));
    o->dev->ops.adam(p, g, o->state[0], o->state[1], o->P, lr, fix);
}

void optim_step(struct optim *o, float *params, const float *grads)
{
    const struct device_ops *ops = &o->dev->ops;
    params += o->first;
    grads += o->first;
    o->step++;
    switch (o->kind) {
    case OPTIM_SGD:
        ops->sgd(params, grads, o->P, o->lr);
        break;
    case OPTIM_MOMENTUM:
        ops->momentum(params, grads, o->state[0], o->P, o->lr, MOMENTUM);
        break;
    case OPTIM_ADAM:
        adam(o, params, grads);
        break;
    case OPTIM_ADADELTA:
        ops->adadelta(params, grads, o->state[0], o->state[1], o->P, o->lr);
        break;
    }
}
