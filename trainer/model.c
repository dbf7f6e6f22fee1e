/*
 * trainer/model: models are built from a row of `specs`, layer by layer; a step
 * goes through the layers forward and then backward.
 *
 * Layout: the parameters of all layers in the order in which they are added,
 * then the running statistics of all batch norms. Activations and their
 * derivatives are windows into one block, `room`.
 *
 * A convolution is a linear layer over patches (B*H*W,9*C), so that one matrix
 * product does it. PyTorch has its weight as (K,C,9) and a snapshot must too;
 * the product wants (K,9,C). So the weight is transposed in each step, and its
 * gradient back.
 */
#include "trainer/model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/ops/conv.h"
#include "trainer/ops/fail.h"
#include "trainer/ops/random.h"

/* clang-format off */
static const struct model_spec specs[] = {
    /* name        data              hidden  relu   conv   optimizer       lr      batch */
    {"softmax",    MODEL_IMAGES,          0, false, false, OPTIM_ADAM,     0.002f, 32},
    {"mlp",        MODEL_IMAGES,        128, true,  false, OPTIM_ADAM,     0.002f, 32},
    {"cnn",        MODEL_IMAGES,        128, true,  true,  OPTIM_ADADELTA, 0.01f,  64},
    {"linear",     MODEL_LINEAR_DATA,     0, false, false, OPTIM_SGD,      0.001f, 32},
    {"regression", MODEL_REGRESSION_DATA, 5, false, false, OPTIM_ADAM,     0.01f,  64},
};
/* clang-format on */

const struct model_spec *model_at(size_t n)
{
    return n < sizeof(specs) / sizeof(specs[0]) ? &specs[n] : NULL;
}

const struct model_spec *model_find(const char *name)
{
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        if (strcmp(specs[i].name, name) == 0)
            return &specs[i];
    return NULL;
}

/* A tensor of the layer `name`, number from 1: "fc1.weight". Dims of 0 end the
 * shape. Returns where it starts. */
static size_t add_tensor(struct model *m,
                         const char *name,
                         size_t number,
                         const char *part,
                         const size_t shape[MODEL_DIMS_MAX],
                         bool state)
{
    assert(m->tensors < MODEL_TENSORS_MAX);
    struct tensor *t = &m->tensor[m->tensors++];
    size_t *end = state ? &m->S : &m->P;
    size_t n = 1;
    (void)snprintf(t->name, sizeof(t->name), "%s%zu.%s", name, number, part);
    t->offset = *end; /* statistics: within S, until place_stats */
    t->state = state;
    for (; t->dims < MODEL_DIMS_MAX && shape[t->dims] > 0; t->dims++)
        n *= t->shape[t->dims] = shape[t->dims];
    *end += n;
    return t->offset;
}

static struct layer *
add_layer(struct model *m, enum layer_kind kind, size_t I, size_t O)
{
    assert(m->layers < MODEL_LAYERS_MAX);
    struct layer *l = &m->layer[m->layers++];
    *l = (struct layer){.kind = kind, .I = I, .O = O};
    return l;
}

static void add_linear(struct model *m, size_t number, size_t I, size_t O)
{
    struct layer *l = add_layer(m, LAYER_LINEAR, I, O);
    const size_t w[MODEL_DIMS_MAX] = {O, I}, b[MODEL_DIMS_MAX] = {O};
    l->w = add_tensor(m, "fc", number, "weight", w, false);
    l->b = add_tensor(m, "fc", number, "bias", b, false);
}

static void add_relu(struct model *m, size_t O)
{
    (void)add_layer(m, LAYER_RELU, O, O);
}

/* conv, batch norm, ReLU, max-pool: from (side,side,C) to (*,*,K). Returns the
 * new side. */
static size_t
add_conv(struct model *m, size_t number, size_t side, size_t C, size_t K)
{
    size_t inner = side + 1 - OPS_WINDOW, half = inner / 2;
    size_t O = inner * inner * K;
    const size_t w[MODEL_DIMS_MAX] = {K, C, OPS_WINDOW, OPS_WINDOW};
    const size_t b[MODEL_DIMS_MAX] = {K};
    struct layer *l = add_layer(m, LAYER_CONV, side * side * C, O);
    l->H = l->W = side;
    l->C = C;
    l->K = K;
    l->w = add_tensor(m, "conv", number, "weight", w, false);
    l->b = add_tensor(m, "conv", number, "bias", b, false);
    l = add_layer(m, LAYER_NORM, O, O);
    l->H = l->W = inner;
    l->C = l->K = K;
    l->w = add_tensor(m, "bn", number, "weight", b, false);
    l->b = add_tensor(m, "bn", number, "bias", b, false);
    l->s = add_tensor(m, "bn", number, "running_mean", b, true);
    (void)add_tensor(m, "bn", number, "running_var", b, true);
    add_relu(m, O);
    l = add_layer(m, LAYER_POOL, O, half * half * K);
    l->H = l->W = inner;
    l->C = l->K = K;
    return half;
}

/* Two convolutions; returns the number of outputs, 0 with `err`. */
static size_t add_convs(struct model *m, size_t F, struct ddp_error *err)
{
    size_t side = 0;
    while (side * side < F)
        side++;
    if (side * side != F || side < 10) {
        (void)fail_set(
            err, DDP_ERR_USAGE,
            "cnn needs square images of at least 10 x 10 pixels, but "
            "these have %zu pixels",
            F);
        return 0;
    }
    side = add_conv(m, 1, side, 1, 32);
    side = add_conv(m, 2, side, 32, 64);
    size_t width = side * side * 64;
    struct layer *l = add_layer(m, LAYER_TRANSPOSE, width, width);
    l->H = l->W = side;
    l->C = l->K = 64;
    return width;
}

/* Running statistics lie behind all parameters: how many these are is known
 * when the last layer has been added. */
static void place_stats(struct model *m)
{
    for (size_t i = 0; i < m->tensors; i++)
        if (m->tensor[i].state)
            m->tensor[i].offset += m->P;
    for (size_t i = 0; i < m->layers; i++)
        if (m->layer[i].kind == LAYER_NORM)
            m->layer[i].s += m->P;
}

/* Floats of patches per sample. */
static size_t patches_of(const struct layer *l)
{
    return l->kind == LAYER_CONV ? l->O / l->K * OPS_PATCH * l->C : 0;
}

static float *take(float **next, size_t n)
{
    float *p = *next;
    *next += n;
    return p;
}

/* The layers' windows into `room` and `which`. */
static void place_windows(struct model *m)
{
    float *next = m->room;
    uint8_t *which = m->which;
    size_t B = m->batch_max;
    for (size_t i = 0; i < m->layers; i++) {
        struct layer *l = &m->layer[i];
        l->out = take(&next, B * l->O);
        l->dout = take(&next, B * l->O);
        if (l->kind == LAYER_CONV) {
            l->kept = take(&next, B * patches_of(l));
            l->dkept = take(&next, B * patches_of(l));
        } else if (l->kind == LAYER_NORM) {
            l->kept = take(&next, B * l->O);
            l->scale = take(&next, l->C);
        } else if (l->kind == LAYER_POOL) {
            l->which = which;
            which += B * l->O;
        }
    }
}

/* What only a model on a GPU needs. `spare`: floats of parts behind P. */
static bool make_host(struct model *m, size_t spare)
{
    m->host = m->params;
    if (!m->dev->gpu)
        return true;
    m->x = m->dev->alloc(m->batch_max * m->F * sizeof(*m->x));
    m->y = m->dev->alloc(m->batch_max * m->O * sizeof(*m->y));
    m->labels = m->dev->alloc(m->batch_max);
    m->host = calloc(m->P + m->S + MODEL_TAIL + spare, sizeof(*m->host));
    return m->x != NULL && m->y != NULL && m->labels != NULL && m->host != NULL;
}

/* All memory of the model. `weight` is for the largest convolution. */
static int make_room(struct model *m, size_t parts, struct ddp_error *err)
{
    size_t floats = 0, bytes = 1, weight = 1, spare = parts * m->part - m->P;
    for (size_t i = 0; i < m->layers; i++) {
        const struct layer *l = &m->layer[i];
        /* As place_windows lays them out: each output and each patch also has
         * a derivative. */
        floats += 2 * m->batch_max * (l->O + patches_of(l));
        if (l->kind == LAYER_NORM)
            floats += m->batch_max * l->O + l->C;
        bytes += l->kind == LAYER_POOL ? m->batch_max * l->O : 0;
        if (l->kind == LAYER_CONV && 2 * l->K * l->C * OPS_PATCH > weight)
            weight = 2 * l->K * l->C * OPS_PATCH;
    }
    void *(*alloc)(size_t) = m->dev->alloc;
    m->params = alloc((m->P + m->S + spare) * sizeof(*m->params));
    m->grads = alloc((m->P + m->S + MODEL_TAIL) * sizeof(*m->grads));
    m->room = alloc(floats * sizeof(*m->room));
    m->weight = alloc(weight * sizeof(*m->weight));
    m->which = alloc(bytes);
    if (m->params == NULL || m->grads == NULL || m->room == NULL ||
        m->weight == NULL || m->which == NULL || !make_host(m, spare))
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %zu parameters",
                        m->P);
    place_windows(m);
    return 0;
}

int model_init(struct model *m,
               const struct device *dev,
               const struct model_spec *spec,
               size_t F,
               size_t O,
               size_t hidden,
               size_t batch_max,
               size_t parts,
               struct ddp_error *err)
{
    *m = (struct model){
        .dev = dev,
        .batch_max = batch_max,
        .F = F,
        .O = O,
        .classify = spec->data == MODEL_IMAGES,
    };
    size_t width = spec->conv ? add_convs(m, F, err) : F;
    if (width == 0)
        return -1;
    if (spec->hidden > 0) {
        add_linear(m, 1, width, hidden);
        if (spec->relu)
            add_relu(m, hidden);
        width = hidden;
    }
    add_linear(m, spec->hidden > 0 ? 2 : 1, width, O);
    place_stats(m);
    m->part = (m->P + parts - 1) / parts;
    if (make_room(m, parts, err) == 0)
        return 0;
    model_free(m);
    return -1;
}

void model_free(struct model *m)
{
    const struct device *dev = m->dev;
    if (dev == NULL)
        return; /* it is empty */
    if (dev->gpu)
        free(m->host);
    dev->free(m->params);
    dev->free(m->grads);
    dev->free(m->room);
    dev->free(m->weight);
    dev->free(m->which);
    dev->free(m->x);
    dev->free(m->labels);
    dev->free(m->y);
    *m = (struct model){0};
}

void model_pull(struct model *m)
{
    if (m->dev->gpu)
        m->dev->get(m->host, m->params, (m->P + m->S) * sizeof(*m->host));
}

void model_push(struct model *m)
{
    if (m->dev->gpu)
        m->dev->put(m->params, m->host, (m->P + m->S) * sizeof(*m->host));
}

static void fill(float *p, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        p[i] = value;
}

/* Convolutions and linear layers, in their order, from one sequence: adding a
 * layer at the end leaves the first ones what they were. Batch norms begin as
 * the identity. */
void model_randomize(struct model *m, uint64_t seed)
{
    for (size_t i = 0; i < m->layers; i++) {
        const struct layer *l = &m->layer[i];
        bool conv = l->kind == LAYER_CONV;
        if (l->kind == LAYER_NORM) {
            fill(m->host + l->w, l->C, 1.0f);
            fill(m->host + l->s + l->C, l->C, 1.0f); /* the variance */
        }
        if (!conv && l->kind != LAYER_LINEAR)
            continue;
        size_t I = conv ? l->C * OPS_PATCH : l->I;
        size_t O = conv ? l->K : l->O;
        float bound = 1.0f / sqrtf((float)I);
        random_uniform(m->host + l->w, O * I, -bound, bound, &seed);
        random_uniform(m->host + l->b, O, -bound, bound, &seed);
    }
    model_push(m);
}

/* -- forward --------------------------------------------------------------- */

static void
conv_forward(struct model *m, const struct layer *l, const float *x, size_t B)
{
    const struct device_ops *ops = &m->dev->ops;
    size_t rows = B * (l->O / l->K); /* pixels of the output */
    ops->patches(l->kept, x, B, l->H, l->W, l->C);
    ops->transpose(m->weight, m->params + l->w, l->K, l->C, OPS_PATCH);
    ops->linear_forward(l->out, l->kept, m->weight, m->params + l->b, rows,
                        l->C * OPS_PATCH, l->K);
}

/* The batch's statistics go behind the gradients, to be averaged over all ranks
 * with them; only model_update_stats moves the running ones. */
static void norm_forward(struct model *m,
                         const struct layer *l,
                         const float *x,
                         size_t B,
                         bool train)
{
    const struct device_ops *ops = &m->dev->ops;
    const float *gamma = m->params + l->w, *beta = m->params + l->b;
    size_t N = B * l->H * l->W;
    if (train)
        ops->norm_forward(l->out, l->kept, l->scale, m->grads + l->s, x, gamma,
                          beta, N, l->C);
    else
        ops->norm_infer(l->out, x, m->params + l->s, gamma, beta, N, l->C);
}

/* Through all layers; the last one's output is the model's, (B,O). */
static const float *
run_layers(struct model *m, const float *x, size_t B, bool train)
{
    const struct device_ops *ops = &m->dev->ops;
    for (size_t i = 0; i < m->layers; i++) {
        const struct layer *l = &m->layer[i];
        const float *w = m->params + l->w, *b = m->params + l->b;
        switch (l->kind) {
        case LAYER_LINEAR:
            ops->linear_forward(l->out, x, w, b, B, l->I, l->O);
            break;
        case LAYER_RELU:
            ops->relu_forward(l->out, x, B * l->O);
            break;
        case LAYER_CONV:
            conv_forward(m, l, x, B);
            break;
        case LAYER_NORM:
            norm_forward(m, l, x, B, train);
            break;
        case LAYER_POOL:
            ops->pool_forward(l->out, l->which, x, B, l->H, l->W, l->C);
            break;
        case LAYER_TRANSPOSE:
            ops->transpose(l->out, x, B, l->H * l->W, l->C);
            break;
        }
        x = l->out;
    }
    return x;
}

static struct ops_score score(const struct model *m,
                              float *dout,
                              const float *out,
                              const uint8_t *labels,
                              const float *y,
                              float scale,
                              size_t B)
{
    if (m->classify)
        return m->dev->ops.softmax_xent(dout, out, labels, scale, B, m->O);
    return m->dev->ops.mse(dout, out, y, scale, B, m->O);
}

/* To a GPU, the batch is copied; `x`, `labels` and `y` point to the copy then.
 */
static void batch_to_device(struct model *m,
                            const float **x,
                            const uint8_t **labels,
                            const float **y,
                            size_t B)
{
    const struct device *dev = m->dev;
    assert(B <= m->batch_max);
    if (!dev->gpu)
        return;
    dev->put(m->x, *x, B * m->F * sizeof(**x));
    if (m->classify)
        dev->put(m->labels, *labels, B);
    else
        dev->put(m->y, *y, B * m->O * sizeof(**y));
    *x = m->x;
    *labels = m->labels;
    *y = m->y;
}

struct ops_score model_forward(struct model *m,
                               const float *x,
                               const uint8_t *labels,
                               const float *y,
                               size_t B)
{
    batch_to_device(m, &x, &labels, &y, B);
    return score(m, NULL, run_layers(m, x, B, false), labels, y, 0.0f, B);
}

/* -- backward -------------------------------------------------------------- */

/* dw comes as (K,9,C) and goes to the gradients as (K,C,9). */
static void
conv_backward(struct model *m, const struct layer *l, float *din, size_t B)
{
    const struct device_ops *ops = &m->dev->ops;
    size_t rows = B * (l->O / l->K), n = l->K * l->C * OPS_PATCH;
    float *w = m->weight, *dw = m->weight + n;
    ops->transpose(w, m->params + l->w, l->K, l->C, OPS_PATCH);
    ops->linear_backward(din == NULL ? NULL : l->dkept, dw, m->grads + l->b,
                         l->dout, l->kept, w, rows, l->C * OPS_PATCH, l->K);
    ops->transpose(m->grads + l->w, dw, l->K, OPS_PATCH, l->C);
    if (din != NULL)
        ops->patches_backward(din, l->dkept, B, l->H, l->W, l->C);
}

/* `in` (B,I) went into the layer; `din` (B,I) is NULL for the first one. */
static void layer_backward(struct model *m,
                           const struct layer *l,
                           const float *in,
                           float *din,
                           size_t B)
{
    const struct device_ops *ops = &m->dev->ops;
    switch (l->kind) {
    case LAYER_LINEAR:
        ops->linear_backward(din, m->grads + l->w, m->grads + l->b, l->dout, in,
                             m->params + l->w, B, l->I, l->O);
        return;
    case LAYER_CONV:
        conv_backward(m, l, din, B);
        return;
    case LAYER_RELU:
        assert(din != NULL);
        ops->relu_backward(din, l->dout, l->out, B * l->O);
        return;
    case LAYER_NORM:
        assert(din != NULL);
        ops->norm_backward(din, m->grads + l->w, m->grads + l->b, l->dout,
                           l->kept, l->scale, m->params + l->w, B * l->H * l->W,
                           l->C);
        return;
    case LAYER_POOL:
        assert(din != NULL);
        ops->pool_backward(din, l->dout, l->which, B, l->H, l->W, l->C);
        return;
    case LAYER_TRANSPOSE:
        assert(din != NULL);
        ops->transpose(din, l->dout, B, l->C, l->H * l->W);
        return;
    }
}

struct ops_score model_backward(struct model *m,
                                const float *x,
                                const uint8_t *labels,
                                const float *y,
                                float scale,
                                size_t B)
{
    batch_to_device(m, &x, &labels, &y, B);
    const float *out = run_layers(m, x, B, true);
    float *dout = m->layer[m->layers - 1].dout;
    struct ops_score s = score(m, dout, out, labels, y, scale, B);

    for (size_t i = m->layers; i-- > 0;) {
        const float *in = i > 0 ? m->layer[i - 1].out : x; /* (B,I) */
        float *din = i > 0 ? m->layer[i - 1].dout : NULL;  /* (B,I) */
        layer_backward(m, &m->layer[i], in, din, B);
    }
    if (m->S > 0)
        m->dev->ops.scale(m->grads + m->P, m->S, scale * (float)B);
    return s;
}

void model_update_stats(struct model *m)
{
    if (m->S > 0)
        m->dev->ops.lerp(m->params + m->P, m->grads + m->P, m->S, 0.1f);
}

/* Bits, not values: 0 and -0 differ, and a NaN equals itself. */
uint64_t model_hash(const float *p, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &p[i], sizeof(bits));
        for (int k = 0; k < 4; k++, bits >>= 8)
            h = (h ^ (bits & 0xff)) * UINT64_C(0x100000001b3);
    }
    return h;
}
