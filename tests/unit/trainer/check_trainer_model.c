/* links: trainer/model trainer/ops/{optim,cpu,conv,random,device} */
/* libs: -lm -ldl */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "trainer/model.h"
#include "trainer/ops/optim.h"
#include "trainer/ops/random.h"

/*
 * Whole models against a second implementation in doubles, and its finite
 * differences.
 */

#define H     1e-5
#define B_MAX 16
#define F_MAX 32
#define O_MAX 8

static const struct mould {
    const char *name;
    size_t F, O, hidden, B;
} moulds[] = {
    {"softmax", 11, 4, 0, 6},    {"mlp", 13, 5, 9, 7},
    {"mlp", 16, 3, 16, 8},       {"linear", 20, 1, 0, 8},
    {"regression", 1, 1, 5, 16},
};
#define MOULDS ((int)(sizeof(moulds) / sizeof(moulds[0])))

struct sample_set {
    float x[B_MAX * F_MAX];
    float y[B_MAX * O_MAX];
    uint8_t labels[B_MAX];
};

static void fill(struct sample_set *s, size_t O, uint64_t seed)
{
    random_uniform(s->x, B_MAX * F_MAX, -1.0f, 1.0f, &seed);
    random_uniform(s->y, B_MAX * O_MAX, -1.0f, 1.0f, &seed);
    for (size_t i = 0; i < B_MAX; i++)
        s->labels[i] = (uint8_t)((i * 7 + 3) % O);
}

static void make(struct model *m, const struct mould *k, uint64_t seed)
{
    struct ddp_error err;
    const struct model_spec *spec = model_find(k->name);
    ck_assert_ptr_nonnull(spec);
    ck_assert_int_eq(model_init(m, device_cpu(), spec, k->F, k->O, k->hidden,
                                B_MAX, 1, &err),
                     0);
    model_randomize(m, seed);
}

/* One linear layer in doubles: to (O) = w (O,I) times from (I) + b (O). */
static const double *plain_linear(
    double *to, const double *from, const double *p, size_t I, size_t O)
{
    for (size_t o = 0; o < O; o++) {
        to[o] = p[O * I + o];
        for (size_t i = 0; i < I; i++)
            to[o] += p[o * I + i] * from[i];
    }
    return p + O * I + O;
}

/* The summed loss of a batch as a function of the parameters, in doubles. */
static double
plain_loss(const struct mould *k, const double *p, const struct sample_set *s)
{
    double in[F_MAX], hidden[F_MAX], out[O_MAX], loss = 0.0;
    const struct model_spec *spec = model_find(k->name);
    for (size_t b = 0; b < k->B; b++) {
        const double *from = in, *next = p;
        size_t width = k->F;
        for (size_t f = 0; f < k->F; f++)
            in[f] = (double)s->x[b * k->F + f];
        if (k->hidden > 0) {
            next = plain_linear(hidden, in, next, k->F, k->hidden);
            for (size_t h = 0; spec->relu && h < k->hidden; h++)
                hidden[h] = hidden[h] > 0.0 ? hidden[h] : 0.0;
            from = hidden;
            width = k->hidden;
        }
        (void)plain_linear(out, from, next, width, k->O);
        double sum = 0.0;
        for (size_t o = 0; o < k->O; o++) {
            double diff = out[o] - (double)s->y[b * k->O + o];
            sum += spec->data == MODEL_IMAGES ? exp(out[o])
                                              : diff * diff / (double)k->O;
        }
        loss += spec->data == MODEL_IMAGES ? log(sum) - out[s->labels[b]] : sum;
    }
    return loss;
}

/* Every single gradient of every model. */
TEST_LOOP(test_model_gradient_is_the_finite_difference, 0, MOULDS)
{
    const struct mould *k = &moulds[_i];
    const float scale = 0.5f;
    struct sample_set s;
    struct model m;
    fill(&s, k->O, 5);
    make(&m, k, 17);
    double *p = calloc(m.P, sizeof(*p));
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < m.P; i++)
        p[i] = (double)m.params[i];

    struct ops_score got = model_backward(&m, s.x, s.labels, s.y, scale, k->B);
    ck_assert_double_eq_tol(got.loss, plain_loss(k, p, &s), 1e-4);
    size_t zeros = 0;
    for (size_t i = 0; i < m.P; i++) {
        double at = p[i];
        p[i] = at + H;
        double up = plain_loss(k, p, &s);
        p[i] = at - H;
        double down = plain_loss(k, p, &s);
        p[i] = at;
        double want = (double)scale * (up - down) / (2 * H);
        ck_assert_double_eq_tol((double)m.grads[i], want,
                                1e-4 * (1.0 + fabs(want)));
        zeros += want == 0.0;
    }
    ck_assert_uint_lt(zeros, m.P / 2); /* else this would show nothing */
    free(p);
    model_free(&m);
}

/* Scoring alone gives what the training step gives. */
TEST_LOOP(test_model_forward_scores_as_backward, 0, MOULDS)
{
    const struct mould *k = &moulds[_i];
    struct sample_set s;
    struct model m;
    fill(&s, k->O, 6);
    make(&m, k, 18);
    struct ops_score a = model_forward(&m, s.x, s.labels, s.y, k->B);
    struct ops_score b = model_backward(&m, s.x, s.labels, s.y, 1.0f, k->B);
    ck_assert(a.loss == b.loss);
    ck_assert_uint_eq(a.correct, b.correct);
    model_free(&m);
}

/* What data-parallel training rests on: the gradients of two halves of a
 * batch, each scaled by the whole, add up to that of the whole. */
TEST_LOOP(test_model_gradients_of_parts_add_up, 0, MOULDS)
{
    const struct mould *k = &moulds[_i];
    size_t half = k->B / 2, B = 2 * half;
    float scale = 1.0f / (float)B;
    struct sample_set s;
    struct model whole, part;
    fill(&s, k->O, 7);
    make(&whole, k, 19);
    make(&part, k, 19);
    float *sum = calloc(whole.P, sizeof(*sum));
    ck_assert_ptr_nonnull(sum);
    (void)model_backward(&whole, s.x, s.labels, s.y, scale, B);
    for (size_t first = 0; first < B; first += half) {
        (void)model_backward(&part, s.x + first * k->F, s.labels + first,
                             s.y + first * k->O, scale, half);
        for (size_t i = 0; i < part.P; i++)
            sum[i] += part.grads[i];
    }
    for (size_t i = 0; i < whole.P; i++)
        ck_assert_double_eq_tol((double)sum[i], (double)whole.grads[i], 1e-6);
    free(sum);
    model_free(&whole);
    model_free(&part);
}

/* Names and shapes as PyTorch's nn.Linear has them, and no gap between. */
TEST(test_model_tensors_are_named_windows)
{
    struct model m;
    make(&m, &(struct mould){"mlp", 784, 10, 128, 1}, 1);
    static const struct {
        const char *name;
        size_t dims, rows, columns;
    } want[] = {
        {"fc1.weight", 2, 128, 784},
        {"fc1.bias", 1, 128, 0},
        {"fc2.weight", 2, 10, 128},
        {"fc2.bias", 1, 10, 0},
    };
    size_t next = 0;
    ck_assert_uint_eq(m.tensors, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct tensor *t = &m.tensor[i];
        ck_assert_str_eq(t->name, want[i].name);
        ck_assert_uint_eq(t->dims, want[i].dims);
        ck_assert_uint_eq(t->shape[0], want[i].rows);
        if (t->dims == 2)
            ck_assert_uint_eq(t->shape[1], want[i].columns);
        ck_assert_uint_eq(t->offset, next);
        next += t->shape[0] * (t->dims == 2 ? t->shape[1] : 1);
    }
    ck_assert_uint_eq(m.P, next);
    ck_assert_uint_eq(m.P, 101770);
    model_free(&m);
}

/* The step does not touch what the caller keeps behind the gradients. */
TEST_LOOP(test_model_backward_leaves_the_tail_alone, 0, MOULDS)
{
    const struct mould *k = &moulds[_i];
    struct sample_set s;
    struct model m;
    fill(&s, k->O, 8);
    make(&m, k, 20);
    for (size_t i = 0; i < MODEL_TAIL; i++)
        m.grads[m.P + i] = 42.0f + (float)i;
    (void)model_backward(&m, s.x, s.labels, s.y, 1.0f, k->B);
    for (size_t i = 0; i < MODEL_TAIL; i++)
        ck_assert(m.grads[m.P + i] == 42.0f + (float)i);
    model_free(&m);
}

TEST(test_model_randomize_is_the_seeds_and_bounded)
{
    struct model a, b, c;
    const struct mould k = {"mlp", 100, 10, 25, 1};
    make(&a, &k, 3);
    make(&b, &k, 3);
    make(&c, &k, 4);
    ck_assert_mem_eq(a.params, b.params, a.P * sizeof(float));
    ck_assert_mem_ne(a.params, c.params, a.P * sizeof(float));
    float largest = 0.0f;
    for (size_t i = 0; i < 100 * 25 + 25; i++)
        largest = fmaxf(largest, fabsf(a.params[i]));
    ck_assert(largest <= 0.1f && largest > 0.099f);
    for (size_t i = 100 * 25 + 25; i < a.P; i++)
        ck_assert(fabsf(a.params[i]) <= 0.2f);
    model_free(&a);
    model_free(&b);
    model_free(&c);
}

/* Every name is found and the table has an end. */
TEST(test_model_table_finds_its_names)
{
    size_t n = 0;
    for (; model_at(n) != NULL; n++)
        ck_assert_ptr_eq(model_find(model_at(n)->name), model_at(n));
    ck_assert_uint_eq(n, 5);
    ck_assert_ptr_null(model_find("MLP"));
    ck_assert_ptr_null(model_find(""));
}

/* FNV-1a of no bytes is its basis; of four zero bytes, by its definition. A
 * single bit, even that of a zero's sign, changes it. */
TEST(test_model_hash_sees_every_bit)
{
    float p[3] = {0.0f, 1.0f, -2.5f};
    ck_assert_uint_eq(model_hash(p, 0), UINT64_C(0xcbf29ce484222325));
    ck_assert_uint_eq(model_hash(p, 1), UINT64_C(0x4d25767f9dce13f5));
    uint64_t before = model_hash(p, 3);
    p[0] = -0.0f;
    ck_assert_uint_ne(model_hash(p, 3), before);
    p[0] = 0.0f;
    ck_assert_uint_eq(model_hash(p, 3), before);
    p[2] = nextafterf(p[2], 0.0f);
    ck_assert_uint_ne(model_hash(p, 3), before);
}

/* -- optimizers ------------------------------------------------------------ */

#define PARAMS 5

CASE("optim", .tags = "fast")

TEST(test_optim_sgd_and_momentum_by_hand)
{
    struct ddp_error err;
    struct optim sgd, heavy;
    float a[PARAMS] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, b[PARAMS];
    const float g[PARAMS] = {1.0f, -1.0f, 0.5f, 0.0f, 2.0f};
    memcpy(b, a, sizeof(b));
    ck_assert_int_eq(
        optim_init(&sgd, device_cpu(), OPTIM_SGD, 0.5f, PARAMS, &err), 0);
    ck_assert_int_eq(
        optim_init(&heavy, device_cpu(), OPTIM_MOMENTUM, 0.5f, PARAMS, &err),
        0);
    for (int i = 0; i < 3; i++) {
        optim_step(&sgd, a, g);
        optim_step(&heavy, b, g);
    }
    /* Momentum has moved by 1 + 1.9 + 2.71 gradients. */
    for (size_t i = 0; i < PARAMS; i++) {
        double start = (double)(i + 1), grad = (double)g[i];
        ck_assert_double_eq_tol((double)a[i], start - 0.5 * 3 * grad, 1e-6);
        ck_assert_double_eq_tol((double)b[i], start - 0.5 * 5.61 * grad, 1e-6);
    }
    ck_assert_int_eq(sgd.step, 3);
    ck_assert_ptr_null(optim_state_name(OPTIM_SGD, 0));
    ck_assert_str_eq(optim_state_name(OPTIM_MOMENTUM, 0), "momentum_buffer");
    optim_free(&sgd);
    optim_free(&heavy);
}

/* Adam as its paper has it, in doubles, over 50 steps. */
TEST(test_optim_adam_is_that_of_the_paper)
{
    struct ddp_error err;
    struct optim o;
    float p[PARAMS] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, g[PARAMS];
    double q[PARAMS] = {1.0, 2.0, 3.0, 4.0, 5.0}, m[PARAMS] = {0},
           v[PARAMS] = {0};
    uint64_t seed = 9;
    ck_assert_int_eq(
        optim_init(&o, device_cpu(), OPTIM_ADAM, 0.01f, PARAMS, &err), 0);
    for (int t = 1; t <= 50; t++) {
        random_uniform(g, PARAMS, -1.0f, 2.0f, &seed);
        optim_step(&o, p, g);
        for (size_t i = 0; i < PARAMS; i++) {
            double d = (double)g[i];
            m[i] = 0.9 * m[i] + 0.1 * d;
            v[i] = 0.999 * v[i] + 0.001 * d * d;
            double m_hat = m[i] / (1.0 - pow(0.9, t));
            double v_hat = v[i] / (1.0 - pow(0.999, t));
            q[i] -= 0.01 * m_hat / (sqrt(v_hat) + 1e-8);
            ck_assert_double_eq_tol((double)p[i], q[i], 2e-5);
        }
    }
    optim_free(&o);
}

/* Step number and state, carried over to a fresh one, are all there is: the
 * same bits come out as without the break. */
TEST_LOOP(test_optim_state_is_all_there_is, 0, 3)
{
    static const enum optim_kind kinds[] = {OPTIM_SGD, OPTIM_MOMENTUM,
                                            OPTIM_ADAM};
    enum optim_kind kind = kinds[_i];
    struct ddp_error err;
    struct optim whole, first, second;
    float a[PARAMS] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, b[PARAMS];
    float g[10][PARAMS];
    uint64_t seed = 10;
    memcpy(b, a, sizeof(b));
    random_uniform(&g[0][0], (size_t)10 * PARAMS, -1.0f, 1.0f, &seed);
    ck_assert_int_eq(optim_init(&whole, device_cpu(), kind, 0.1f, PARAMS, &err),
                     0);
    ck_assert_int_eq(optim_init(&first, device_cpu(), kind, 0.1f, PARAMS, &err),
                     0);
    ck_assert_int_eq(
        optim_init(&second, device_cpu(), kind, 0.1f, PARAMS, &err), 0);
    for (int t = 0; t < 10; t++)
        optim_step(&whole, a, g[t]);
    for (int t = 0; t < 4; t++)
        optim_step(&first, b, g[t]);
    second.step = first.step;
    for (size_t i = 0; optim_state_name(kind, i) != NULL; i++)
        memcpy(second.state[i], first.state[i], PARAMS * sizeof(float));
    for (int t = 4; t < 10; t++)
        optim_step(&second, b, g[t]);
    ck_assert_mem_eq(a, b, sizeof(a));
    optim_free(&whole);
    optim_free(&first);
    optim_free(&second);
}

CASE("model")

/* Each model with its own optimizer and rate learns a batch by heart. */
TEST_LOOP(test_model_learns_a_batch, 0, MOULDS)
{
    const struct mould *k = &moulds[_i];
    const struct model_spec *spec = model_find(k->name);
    struct ddp_error err;
    struct sample_set s;
    struct model m;
    struct optim o;
    fill(&s, k->O, 12);
    make(&m, k, 21);
    ck_assert_int_eq(
        optim_init(&o, device_cpu(), spec->optim, spec->lr, m.P, &err), 0);
    double before = model_forward(&m, s.x, s.labels, s.y, k->B).loss;
    for (int i = 0; i < 2000; i++) {
        (void)model_backward(&m, s.x, s.labels, s.y, 1.0f / (float)k->B, k->B);
        optim_step(&o, m.params, m.grads);
    }
    double after = model_forward(&m, s.x, s.labels, s.y, k->B).loss;
    /* One line through 16 random points leaves most of their variance. */
    double part = k->F == 1 ? 0.99 : 0.5;
    ck_assert_msg(after < part * before, "%s: from %g to %g only", k->name,
                  before, after);
    optim_free(&o);
    model_free(&m);
}

SUITE("trainer_model", "model", .tags = "fast")
