#include "trainer/model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/fail.h"

/* clang-format off */
static const struct model_spec specs[] = {
    /* name        data              hidden  relu   optimizer   lr      batch */
    {"softmax",    MODEL_IMAGES,          0, false, OPTIM_ADAM, 0.002f, 32},
    {"mlp",        MODEL_IMAGES,        128, true,  OPTIM_ADAM, 0.002f, 32},
    {"linear",     MODEL_LINEAR_DATA,     0, false, OPTIM_SGD,  0.001f, 32},
    {"regression", MODEL_REGRESSION_DATA, 5, false, OPTIM_ADAM, 0.01f,  64},
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

static void add_tensor(struct model *m,
                       size_t number,
                       const char *part,
                       size_t rows,
                       size_t columns)
{
    assert(m->tensors < MODEL_TENSORS_MAX);
    struct tensor *t = &m->tensor[m->tensors++];
    (void)snprintf(t->name, sizeof(t->name), "fc%zu.%s", number, part);
    t->offset = m->P;
    t->shape[0] = rows;
    t->shape[1] = columns;
    t->dims = columns > 0 ? 2 : 1;
    m->P += rows * (columns > 0 ? columns : 1);
}

static void add_linear(struct model *m, size_t I, size_t O)
{
    assert(m->layers < MODEL_LAYERS_MAX);
    struct layer *l = &m->layer[m->layers++];
    size_t number = m->tensors / 2 + 1;
    *l = (struct layer){.kind = LAYER_LINEAR, .I = I, .O = O};
    l->w = m->P;
    add_tensor(m, number, "weight", O, I);
    l->b = m->P;
    add_tensor(m, number, "bias", O, 0);
}

static void add_relu(struct model *m, size_t O)
{
    assert(m->layers < MODEL_LAYERS_MAX);
    m->layer[m->layers++] = (struct layer){.kind = LAYER_RELU, .I = O, .O = O};
}

/* One block for all activations: the layers' windows into it follow. */
static int make_room(struct model *m, struct ddp_error *err)
{
    size_t floats = 0;
    for (size_t i = 0; i < m->layers; i++)
        floats += 2 * m->batch_max * m->layer[i].O;
    m->params = calloc(m->P, sizeof(*m->params));
    m->grads = calloc(m->P + MODEL_TAIL, sizeof(*m->grads));
    m->room = calloc(floats, sizeof(*m->room));
    if (m->params == NULL || m->grads == NULL || m->room == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %zu parameters",
                        m->P);
    float *next = m->room;
    for (size_t i = 0; i < m->layers; i++) {
        struct layer *l = &m->layer[i];
        l->out = next;
        l->dout = next + m->batch_max * l->O;
        next += 2 * m->batch_max * l->O;
    }
    return 0;
}

int model_init(struct model *m,
               const struct model_spec *spec,
               size_t F,
               size_t O,
               size_t hidden,
               size_t batch_max,
               struct ddp_error *err)
{
    *m = (struct model){
        .batch_max = batch_max,
        .F = F,
        .O = O,
        .classify = spec->data == MODEL_IMAGES,
    };
    size_t width = F;
    if (spec->hidden > 0) {
        add_linear(m, F, hidden);
        if (spec->relu)
            add_relu(m, hidden);
        width = hidden;
    }
    add_linear(m, width, O);
    if (make_room(m, err) == 0)
        return 0;
    model_free(m);
    return -1;
}

void model_free(struct model *m)
{
    free(m->params);
    free(m->grads);
    free(m->room);
    *m = (struct model){0};
}

void model_randomize(struct model *m, uint64_t seed)
{
    for (size_t i = 0; i < m->layers; i++) {
        const struct layer *l = &m->layer[i];
        if (l->kind != LAYER_LINEAR)
            continue;
        float bound = 1.0f / sqrtf((float)l->I);
        ops_uniform(m->params + l->w, l->O * l->I, -bound, bound, &seed);
        ops_uniform(m->params + l->b, l->O, -bound, bound, &seed);
    }
}

/* Through all layers; the last one's output is the model's, (B,O). */
static const float *run_layers(struct model *m, const float *x, size_t B)
{
    for (size_t i = 0; i < m->layers; i++) {
        const struct layer *l = &m->layer[i];
        const float *w = m->params + l->w, *b = m->params + l->b;
        switch (l->kind) {
        case LAYER_LINEAR:
            ops_linear_forward(l->out, x, w, b, B, l->I, l->O);
            break;
        case LAYER_RELU:
            ops_relu_forward(l->out, x, B * l->O);
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
        return ops_softmax_xent(dout, out, labels, scale, B, m->O);
    return ops_mse(dout, out, y, scale, B, m->O);
}

struct ops_score model_forward(struct model *m,
                               const float *x,
                               const uint8_t *labels,
                               const float *y,
                               size_t B)
{
    assert(B <= m->batch_max);
    return score(m, NULL, run_layers(m, x, B), labels, y, 0.0f, B);
}

struct ops_score model_backward(struct model *m,
                                const float *x,
                                const uint8_t *labels,
                                const float *y,
                                float scale,
                                size_t B)
{
    assert(B <= m->batch_max);
    const float *out = run_layers(m, x, B);
    float *dout = m->layer[m->layers - 1].dout;
    struct ops_score s = score(m, dout, out, labels, y, scale, B);

    for (size_t i = m->layers; i-- > 0;) {
        const struct layer *l = &m->layer[i];
        const float *in = i > 0 ? m->layer[i - 1].out : x; /* (B,I) */
        float *din = i > 0 ? m->layer[i - 1].dout : NULL;  /* (B,I) */
        switch (l->kind) {
        case LAYER_LINEAR:
            ops_linear_backward(din, m->grads + l->w, m->grads + l->b, l->dout,
                                in, m->params + l->w, B, l->I, l->O);
            break;
        case LAYER_RELU:
            assert(din != NULL);
            ops_relu_backward(din, l->dout, l->out, B * l->O);
            break;
        }
    }
    return s;
}

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
