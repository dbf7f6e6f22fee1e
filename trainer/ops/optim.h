/*
 * trainer/ops/optim: the optimizers. They see parameters and gradients as flat
 * arrays and keep state of the same shape, which a snapshot must hold: a run
 * resumed without it is another run. Each parameter moves by itself, so a part
 * of them moves as it does with the rest.
 *
 * Legend:  P  parameters that the optimizer moves
 */
#ifndef TRAINER_OPS_OPTIM_H
#define TRAINER_OPS_OPTIM_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/ops/device.h"
#include "worker_rt/ddp.h"

#define OPTIM_STATES 2

enum optim_kind {
    OPTIM_SGD,      /* p -= lr * g */
    OPTIM_MOMENTUM, /* m = 0.9 m + g; p -= lr * m */
    OPTIM_ADAM,     /* Kingma and Ba 2014, beta 0.9 and 0.999, eps 1e-8 */
    OPTIM_ADADELTA, /* Zeiler 2012, rho 0.9, eps 1e-6 */
};

struct optim {
    enum optim_kind kind;
    float lr;
    size_t first; /* of the model's parameters; 0, or set by the caller */
    size_t P;
    int64_t step;               /* steps taken */
    float *state[OPTIM_STATES]; /* (P) each, NULL if the kind has none */
    const struct device *dev;   /* where they lie */
};

/* State zero, no step taken. Errors: DDP_ERR_NOMEM; `o` is empty then. */
int optim_init(struct optim *o,
               const struct device *dev,
               enum optim_kind kind,
               float lr,
               size_t P,
               struct ddp_error *err);
void optim_free(struct optim *o);

/* One step: P of the model's `params`, from `first` on, moved against the same
 * of its `grads`, on the device. */
void optim_step(struct optim *o, float *params, const float *grads);

/* "sgd", "momentum", "adam", "adadelta". */
const char *optim_name(enum optim_kind kind);

/* The name of the kind's n-th state ("exp_avg"), or NULL behind the last. */
const char *optim_state_name(enum optim_kind kind, size_t n);

#endif
