/* links: trainer/ops/{cpu,random} */
/* libs: -lm -ldl */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "trainer/ops/cpu.h"
#include "trainer/ops/random.h"

/*
 * The operations are compared with the plainest code that can be written, in
 * doubles, and gradients with finite differences of it.
 */

#define H 1e-6 /* step of the finite differences */

/* Shapes that meet full tiles, their edges, and less than one tile. */
static const struct shape {
    size_t B, I, O;
} shapes[] = {
    {1, 1, 1},  {3, 5, 2},    {4, 8, 2},   {5, 20, 10},  {7, 9, 11},
    {64, 1, 5}, {2, 785, 10}, {8, 16, 12}, {32, 84, 30}, {1, 20, 1},
};
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static float *numbers(size_t n, uint64_t seed)
{
    float *p = malloc(n * sizeof(*p));
    ck_assert_ptr_nonnull(p);
    random_uniform(p, n, -1.0f, 1.0f, &seed);
    return p;
}

static void close_to(double got, double want, double scale)
{
    ck_assert_msg(fabs(got - want) <= 1e-5 * (fabs(want) + scale),
                  "%.9g is not %.9g", got, want);
}

static double plain_out(const float *x,
                        const float *w,
                        const float *b,
                        size_t s,
                        size_t o,
                        size_t I)
{
    double sum = (double)b[o];
    for (size_t i = 0; i < I; i++)
        sum += (double)x[s * I + i] * (double)w[o * I + i];
    return sum;
}

/* Every shape gives what the plain sums give. */
TEST_LOOP(test_linear_forward_is_the_plain_sum, 0, SHAPES)
{
    size_t B = shapes[_i].B, I = shapes[_i].I, O = shapes[_i].O;
    float *x = numbers(B * I, 1), *w = numbers(O * I, 2), *b = numbers(O, 3);
    float *out = numbers(B * O, 4);
    ops_linear_forward(out, x, w, b, B, I, O);
    for (size_t s = 0; s < B; s++)
        for (size_t o = 0; o < O; o++)
            close_to((double)out[s * O + o], plain_out(x, w, b, s, o, I),
                     sqrt((double)I));
    free(x);
    free(w);
    free(b);
    free(out);
}

/* A sample's output does not depend on the batch that it came in, to the bit:
 * tiles and edges add in the same order. */
TEST_LOOP(test_linear_forward_of_a_row_is_that_of_the_batch, 0, SHAPES)
{
    size_t B = shapes[_i].B, I = shapes[_i].I, O = shapes[_i].O;
    float *x = numbers(B * I, 1), *w = numbers(O * I, 2), *b = numbers(O, 3);
    float *out = numbers(B * O, 4), *row = numbers(O, 5);
    ops_linear_forward(out, x, w, b, B, I, O);
    for (size_t s = 0; s < B; s++) {
        ops_linear_forward(row, x + s * I, w, b, 1, I, O);
        ck_assert_mem_eq(row, out + s * O, O * sizeof(*row));
    }
    free(x);
    free(w);
    free(b);
    free(out);
    free(row);
}

/* The three gradients are the plain sums, and overwrite what was there. */
TEST_LOOP(test_linear_backward_is_the_plain_sum, 0, SHAPES)
{
    size_t B = shapes[_i].B, I = shapes[_i].I, O = shapes[_i].O;
    float *x = numbers(B * I, 1), *w = numbers(O * I, 2);
    float *dout = numbers(B * O, 3);
    float *dx = numbers(B * I, 4), *dw = numbers(O * I, 5), *db = numbers(O, 6);
    ops_linear_backward(dx, dw, db, dout, x, w, B, I, O);
    for (size_t o = 0; o < O; o++) {
        double sum = 0.0;
        for (size_t s = 0; s < B; s++)
            sum += (double)dout[s * O + o];
        close_to((double)db[o], sum, sqrt((double)B));
        for (size_t i = 0; i < I; i++) {
            sum = 0.0;
            for (size_t s = 0; s < B; s++)
                sum += (double)dout[s * O + o] * (double)x[s * I + i];
            close_to((double)dw[o * I + i], sum, sqrt((double)B));
        }
    }
    for (size_t s = 0; s < B; s++) {
        for (size_t i = 0; i < I; i++) {
            double sum = 0.0;
            for (size_t o = 0; o < O; o++)
                sum += (double)dout[s * O + o] * (double)w[o * I + i];
            close_to((double)dx[s * I + i], sum, sqrt((double)O));
        }
    }
    free(x);
    free(w);
    free(dout);
    free(dx);
    free(dw);
    free(db);
}

/* Without dx, dw and db are the same, to the bit. */
TEST(test_linear_backward_without_dx_gives_the_same_dw)
{
    enum {
        B = 6,
        I = 21,
        O = 7
    };
    float *x = numbers(B * I, 1), *w = numbers(O * I, 2);
    float *dout = numbers(B * O, 3);
    float dx[B * I], dw[2][O * I], db[2][O];
    ops_linear_backward(dx, dw[0], db[0], dout, x, w, B, I, O);
    ops_linear_backward(NULL, dw[1], db[1], dout, x, w, B, I, O);
    ck_assert_mem_eq(dw[0], dw[1], sizeof(dw[0]));
    ck_assert_mem_eq(db[0], db[1], sizeof(db[0]));
    free(x);
    free(w);
    free(dout);
}

CASE("losses", .tags = "fast")

/* The gradient at 0 is 0. */
TEST(test_relu_passes_what_is_positive)
{
    const float x[] = {-2.0f, 0.0f, 3.0f, 1e-30f};
    const float dout[] = {5.0f, 6.0f, 7.0f, 8.0f};
    const float out_want[] = {0.0f, 0.0f, 3.0f, 1e-30f};
    const float dx_want[] = {0.0f, 0.0f, 7.0f, 8.0f};
    float out[4], dx[4];
    ops_relu_forward(out, x, 4);
    ops_relu_backward(dx, dout, out, 4);
    ck_assert_mem_eq(out, out_want, sizeof(out));
    ck_assert_mem_eq(dx, dx_want, sizeof(dx));
}

static double plain_xent(const double *row, size_t C, size_t label)
{
    double sum = 0.0;
    for (size_t c = 0; c < C; c++)
        sum += exp(row[c]);
    return log(sum) - row[label];
}

/* Loss as in doubles, gradient as finite differences of it. */
TEST(test_xent_gradient_is_the_finite_difference)
{
    enum {
        B = 5,
        C = 10
    };
    const uint8_t labels[B] = {0, 9, 3, 3, 7};
    const float scale = 0.25f;
    float *logits = numbers(B * C, 7), d[B * C];
    double loss = 0.0;
    struct ops_score s = ops_softmax_xent(d, logits, labels, scale, B, C);
    for (size_t b = 0; b < B; b++) {
        double row[C];
        for (size_t c = 0; c < C; c++)
            row[c] = (double)logits[b * C + c];
        loss += plain_xent(row, C, labels[b]);
        for (size_t c = 0; c < C; c++) {
            double at = row[c];
            row[c] = at + H;
            double up = plain_xent(row, C, labels[b]);
            row[c] = at - H;
            double down = plain_xent(row, C, labels[b]);
            row[c] = at;
            close_to((double)d[b * C + c],
                     (double)scale * (up - down) / (2 * H), 0.1);
        }
    }
    close_to(s.loss, loss, 1.0);
    free(logits);
}

/* The largest logit counts, of equal ones the first; no gradient is asked. */
TEST(test_xent_counts_what_is_correct)
{
    const float logits[] = {1.0f, 2.0f, 0.0f, /* 1 */
                            3.0f, 3.0f, 3.0f, /* 0 */
                            0.0f, 1.0f, 9.0f /* 2 */};
    const uint8_t labels[][3] = {{1, 0, 2}, {1, 1, 2}, {0, 1, 0}};
    const size_t want[] = {3, 2, 0};
    for (size_t i = 0; i < 3; i++) {
        struct ops_score s =
            ops_softmax_xent(NULL, logits, labels[i], 1.0f, 3, 3);
        ck_assert_uint_eq(s.correct, want[i]);
    }
}

/* Logits of any size give finite losses and gradients. */
TEST(test_xent_of_large_logits_is_finite)
{
    const float logits[] = {1e30f, -1e30f, 0.0f, 500.0f, 499.0f, -500.0f};
    const uint8_t labels[] = {0, 1};
    float d[6];
    struct ops_score s = ops_softmax_xent(d, logits, labels, 1.0f, 2, 3);
    close_to(s.loss, log(1.0 + exp(-1.0)) + 1.0, 0.1);
    for (size_t i = 0; i < 6; i++)
        ck_assert(isfinite(d[i]));
    close_to((double)d[4], 1.0 / (1.0 + exp(1.0)) - 1.0, 0.1);
}

/* The error is averaged over the outputs, summed over the samples. */
TEST(test_mse_gradient_is_the_finite_difference)
{
    enum {
        B = 4,
        O = 3
    };
    const float scale = 0.5f;
    float *out = numbers(B * O, 8), *y = numbers(B * O, 9), d[B * O];
    double loss = 0.0;
    struct ops_score s = ops_mse(d, out, y, scale, B, O);
    for (size_t i = 0; i < B * O; i++) {
        double diff = (double)out[i] - (double)y[i];
        double up = (diff + H) * (diff + H), down = (diff - H) * (diff - H);
        loss += diff * diff / O;
        close_to((double)d[i], (double)scale * (up - down) / (2 * H) / O, 0.1);
    }
    close_to(s.loss, loss, 1.0);
    ck_assert_uint_eq(s.correct, 0);
    free(out);
    free(y);
}

CASE("random", .tags = "fast")

/* A seed is a sequence: the same one twice, another from another seed. */
TEST(test_random_is_the_seeds)
{
    float a[64], b[64], c[64];
    uint64_t seed[] = {5, 5, 6};
    random_uniform(a, 64, 2.0f, 4.0f, &seed[0]);
    random_uniform(b, 32, 2.0f, 4.0f, &seed[1]);
    random_uniform(b + 32, 32, 2.0f, 4.0f, &seed[1]);
    random_uniform(c, 64, 2.0f, 4.0f, &seed[2]);
    ck_assert_mem_eq(a, b, sizeof(a));
    ck_assert_mem_ne(a, c, sizeof(a));
    for (size_t i = 0; i < 64; i++)
        ck_assert(a[i] >= 2.0f && a[i] < 4.0f);
}

/* Mean, deviation and symmetry as far as 100,000 samples show them. */
TEST(test_normal_has_mean_0_and_deviation_1)
{
    enum {
        N = 100000
    };
    float *p = malloc(N * sizeof(*p));
    uint64_t seed = 11;
    double sum = 0.0, squares = 0.0, cubes = 0.0;
    ck_assert_ptr_nonnull(p);
    random_normal(p, N, &seed);
    for (size_t i = 0; i < N; i++) {
        double v = (double)p[i];
        sum += v;
        squares += v * v;
        cubes += v * v * v;
    }
    ck_assert_double_lt(fabs(sum / N), 0.02);
    ck_assert_double_lt(fabs(squares / N - 1.0), 0.02);
    ck_assert_double_lt(fabs(cubes / N), 0.1);
    free(p);
}

SUITE("ops_cpu", "linear", .tags = "fast")
