/*
 * trainer/model: the models by name, their parameters, and one step forward
 * and backward through their layers.
 *
 * All parameters lie in an array and all gradients in a second array of the
 * same order, so that a single broadcast, all-reduce or pass of the optimizer
 * does for all tensors. Tensors are named windows into it, laid out as PyTorch
 * lays out nn.Linear, so that a snapshot opens there.
 *
 * Legend:  B    samples in the batch
 *          F    features of a sample
 *          I O  inputs and outputs of a layer, for one sample
 *          H W  rows and columns of an image
 *          C K  channels of an image before and after a convolution
 *          P    parameters in all
 *          S    running statistics of batch norms in all
 */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/ops/cpu.h"
#include "trainer/ops/device.h"
#include "trainer/ops/optim.h"
#include "worker_rt/ddp.h"

#define MODEL_LAYERS_MAX  16
#define MODEL_TENSORS_MAX 16
#define MODEL_DIMS_MAX    4
#define MODEL_NAME_SIZE   32

/*
 * Floats behind the gradients that belong to the caller: what all ranks have
 * to add up each step can ride along in the same all-reduce.
 */
#define MODEL_TAIL 5

enum model_data {
    MODEL_IMAGES, /* IDX files, cross-entropy */
    MODEL_LINEAR_DATA,
    MODEL_REGRESSION_DATA,
};

/* A row of the table of models: what is built unless options say otherwise. */
struct model_spec {
    const char *name;
    enum model_data data;
    size_t hidden; /* width of the hidden layer, 0: there is none */
    bool relu;     /* behind the hidden layer */
    bool conv;     /* two convolutions come before it; square images only */
    enum optim_kind optim;
    float lr;
    size_t batch_size; /* per rank */
};

/* The row of that name, or NULL. */
const struct model_spec *model_find(const char *name);

/* The n-th row, or NULL behind the last. */
const struct model_spec *model_at(size_t n);

enum layer_kind {
    LAYER_LINEAR,
    LAYER_RELU,
    LAYER_CONV,      /* 3 x 3 */
    LAYER_NORM,      /* batch norm */
    LAYER_POOL,      /* the largest of 2 x 2 */
    LAYER_TRANSPOSE, /* channels last to channels first, as PyTorch flattens */
};

struct layer {
    enum layer_kind kind;
    size_t I;    /* inputs per sample */
    size_t O;    /* outputs per sample */
    size_t H, W; /* of images: rows and columns of the input .. */
    size_t C, K; /* .. its channels, and those of the output */
    size_t w;    /* where weight (O,I) starts among the parameters */
    size_t b;    /* where bias (O) starts */
    size_t s;    /* where running mean (C) and variance (C) start */
    float *out;  /* (batch_max,O) */
    float *dout; /* (batch_max,O) */
    /* What the way forward keeps for the way back. */
    float *kept;    /* conv: patches; norm: xhat */
    float *dkept;   /* conv: derivatives of the patches */
    float *scale;   /* norm: (C) */
    uint8_t *which; /* pool */
};

struct tensor {
    char name[MODEL_NAME_SIZE]; /* "fc1.weight" */
    size_t offset;              /* first of its parameters */
    size_t shape[MODEL_DIMS_MAX];
    size_t dims;
    bool state; /* running statistics: the optimizer has none of it */
};

struct model {
    const struct device *dev; /* whose memory all arrays but `host` are */
    size_t batch_max;
    size_t F;
    size_t O;      /* outputs per sample: classes, or targets */
    bool classify; /* cross-entropy against labels; or squared error */
    struct layer layer[MODEL_LAYERS_MAX];
    size_t layers;
    struct tensor tensor[MODEL_TENSORS_MAX];
    size_t tensors;
    size_t P;
    size_t S;
    size_t part;    /* parameters in each of `parts` equal parts; the last ones
                     * may end behind P */
    float *params;  /* (P + S): the running statistics lie behind; with room for
                     * all parts */
    float *grads;   /* (P + S + MODEL_TAIL): behind them the batch's own */
    float *room;    /* all activations and their derivatives, one block */
    float *weight;  /* a convolution's weight, transposed; then its gradient */
    uint8_t *which; /* of all max-pools */

    /* On a GPU: the batch, and room in the program's memory for parameters or
     * gradients (P + S + MODEL_TAIL), and for all parts; on the CPU `host` is
     * `params`. */
    float *x;        /* (batch_max,F) */
    uint8_t *labels; /* (batch_max) */
    float *y;        /* (batch_max,O) */
    float *host;
};

/*
 * Builds the model of `spec` for samples of F features and O outputs, with
 * `hidden` in place of the row's width, in batches of at most batch_max. The
 * parameters can be gathered in so many `parts`. Parameters are zero. Errors:
 * DDP_ERR_NOMEM, DDP_ERR_USAGE (the samples are no square images, or too small
 * ones, for convolutions); `m` is empty then.
 */
int model_init(struct model *m,
               const struct device *dev,
               const struct model_spec *spec,
               size_t F,
               size_t O,
               size_t hidden,
               size_t batch_max,
               size_t parts,
               struct ddp_error *err);
void model_free(struct model *m);

/* Parameters and running statistics, (P + S): from the device to m->host, and
 * back. On the CPU there is nothing to do. */
void model_pull(struct model *m);
void model_push(struct model *m);

/* Parameters at random, even in ±1/sqrt(inputs), as nn.Linear starts. */
void model_randomize(struct model *m, uint64_t seed);

/*
 * Runs x (B,F), in the program's memory as all that is given here, through the
 * model and scores it against labels (B), if the model classifies, or y
 * (B,O). B <= batch_max. Batch norms go by their running statistics.
 */
struct ops_score model_forward(struct model *m,
                               const float *x,
                               const uint8_t *labels,
                               const float *y,
                               size_t B);

/*
 * The same, then fills the gradients of `scale` times the summed loss: with
 * 1/B they are of the batch's mean, with 1/(B*world) the ranks' add up to
 * that of the whole batch. Batch norms go by this batch (B > 1), and its
 * statistics, times scale * B, come behind the gradients: their sum over the
 * ranks is what model_update_stats wants.
 */
struct ops_score model_backward(struct model *m,
                                const float *x,
                                const uint8_t *labels,
                                const float *y,
                                float scale,
                                size_t B);

/* Moves the running statistics a tenth of the way to those of the batch, which
 * stand behind the gradients: PyTorch's momentum of 0.1. */
void model_update_stats(struct model *m);

/* A fingerprint of n floats, bit by bit: FNV-1a of 64 bits. */
uint64_t model_hash(const float *p, size_t n);

#endif
