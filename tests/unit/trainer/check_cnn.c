/* links: trainer/model trainer/ops/{cpu,conv,device,random,optim} */
/* libs: -ldl */
/*
 * The model with convolutions: PyTorch's losses and gradients for the same
 * parameters and samples, with and without the library, and finite
 * differences.
 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "trainer/model.h"

#define B     8
#define SIDE  28
#define STEPS 6

/* What scripts/cnn-losses prints, with torch 1.13. */
static const double losses[STEPS] = {2.2676663, 1.8193171, 1.6041913,
                                     1.4698851, 1.3660879, 1.3138485};
static const double norms[] = {2.067809,  9.159156e-07, 0.01470134, 0.01144031,
                               0.2525837, 1.125214e-08, 0.02246111, 0.02069776,
                               7.166514,  0.146334,     2.978535,   0.1344997};
static const double evaluated = 2.2022741;
static const double running_mean_1 = 0.186743, running_var_2 = 10.99785;

static struct model m;
static struct optim o;
static float x[B * SIDE * SIDE];
static uint8_t labels[B];

/* Parameters and samples are sines, so that both sides have the same. */
static void make(size_t side)
{
    struct ddp_error err;
    size_t k = 0, n = B * side * side;
    ck_assert_int_eq(model_init(&m, device_cpu(), model_find("cnn"),
                                side * side, 10, 128, B, 1, &err),
                     0);
    ck_assert_int_eq(
        optim_init(&o, device_cpu(), OPTIM_ADADELTA, 0.1f, m.P, &err), 0);
    model_randomize(&m, 1); /* running variances of 1 */
    for (size_t i = 0; i < m.tensors; i++) {
        const struct tensor *t = &m.tensor[i];
        size_t len = 1;
        if (t->state)
            continue;
        for (size_t d = 0; d < t->dims; d++)
            len *= t->shape[d];
        float base =
            strncmp(t->name, "bn", 2) == 0 && strstr(t->name, "weight") != NULL
                ? 1.0f
                : 0.0f;
        for (size_t j = 0; j < len; j++)
            m.params[t->offset + j] =
                base + 0.1f * (float)sin(1.7 * (double)j + (double)k);
        k++;
    }
    for (size_t i = 0; i < n; i++)
        x[i] = (float)sin(0.013 * (double)i) * (float)sin(0.77 * (double)i + 1);
    for (size_t i = 0; i < B; i++)
        labels[i] = (uint8_t)(3 * i % 10);
}

static void drop(void)
{
    model_free(&m);
    optim_free(&o);
}

static double norm(const float *p, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)p[i] * (double)p[i];
    return sqrt(sum);
}

static void check_norms(void)
{
    size_t k = 0;
    for (size_t i = 0; i < m.tensors; i++) {
        const struct tensor *t = &m.tensor[i];
        size_t len = 1;
        for (size_t d = 0; d < t->dims; d++)
            len *= t->shape[d];
        if (t->state)
            continue;
        double got = norm(m.grads + t->offset, len), want = norms[k++];
        ck_assert_msg(fabs(got - want) <= 1e-3 * want + 1e-5,
                      "%s: gradient of norm %g, not %g", t->name, got, want);
    }
    ck_assert_uint_eq(k, sizeof(norms) / sizeof(norms[0]));
}

/* First by our own sums, then by the library's where it is installed. */
START_TEST(test_cnn_losses_are_pytorchs)
{
#ifdef __SANITIZE_ADDRESS__
    if (_i == 1)
        return; /* the leak checker dies of the library's threads */
#endif
    if (_i == 1 && !ops_use_library())
        return;
    make(SIDE);
    for (int step = 0; step < STEPS; step++) {
        struct ops_score s = model_backward(&m, x, labels, NULL, 1.0f / B, B);
        ck_assert_double_eq_tol(s.loss / B, losses[step],
                                2e-4 * (1 + losses[step]));
        if (step == 0)
            check_norms();
        optim_step(&o, m.params, m.grads);
        model_update_stats(&m);
    }
    struct ops_score s = model_forward(&m, x, labels, NULL, B);
    ck_assert_double_eq_tol(s.loss / B, evaluated, 1e-3 * evaluated);
    for (size_t i = 0; i < m.tensors; i++) {
        const struct tensor *t = &m.tensor[i];
        double got = norm(m.params + t->offset, t->shape[0]);
        if (strcmp(t->name, "bn1.running_mean") == 0)
            ck_assert_double_eq_tol(got, running_mean_1, 1e-3);
        if (strcmp(t->name, "bn2.running_var") == 0)
            ck_assert_double_eq_tol(got, running_var_2, 1e-3 * running_var_2);
    }
    drop();
}
END_TEST

/* The slope of the loss along a direction is what the gradient says. */
START_TEST(test_cnn_gradients_are_slopes)
{
    static float direction[400000], start[400000];
    make(12);
    ck_assert_uint_lt(m.P, 400000);
    memcpy(start, m.params, m.P * sizeof(float));
    for (size_t i = 0; i < m.tensors; i++) {
        const struct tensor *t = &m.tensor[i];
        size_t len = 1;
        if (t->state)
            continue;
        for (size_t d = 0; d < t->dims; d++)
            len *= t->shape[d];
        (void)model_backward(&m, x, labels, NULL, 1.0f / B, B);
        /* Along the gradient of this tensor, where the slope is its norm. */
        double n = norm(m.grads + t->offset, len);
        if (n < 1e-4)
            continue; /* biases before a batch norm: nothing depends on them */
        memcpy(direction, m.grads + t->offset, len * sizeof(float));
        double loss[2], h = 2e-4; /* small, for the kinks of max-pools */
        for (int side = 0; side < 2; side++) {
            for (size_t j = 0; j < len; j++)
                m.params[t->offset + j] =
                    start[t->offset + j] +
                    (float)((side == 0 ? -h : h) * (double)direction[j] / n);
            loss[side] =
                model_backward(&m, x, labels, NULL, 1.0f / B, B).loss / B;
        }
        memcpy(m.params, start, m.P * sizeof(float));
        double slope = (loss[1] - loss[0]) / (2 * h);
        ck_assert_msg(fabs(slope - n) < 0.02 * n + 6e-3,
                      "%s: slope %g, gradient %g", t->name, slope, n);
    }
    drop();
}
END_TEST

/* No square, too small. */
START_TEST(test_cnn_refuses_other_images)
{
    struct ddp_error err;
    static const size_t pixels[] = {783, 81, 1};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(model_init(&m, device_cpu(), model_find("cnn"),
                                    pixels[i], 10, 128, B, 1, &err),
                         -1);
        ck_assert_int_eq(err.code, DDP_ERR_USAGE);
    }
}
END_TEST

static Suite *cnn_suite(void)
{
    Suite *s = suite_create("cnn");
    TCase *t = tcase_create("model");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_cnn_losses_are_pytorchs, 0, 1);
    tcase_add_test(t, test_cnn_gradients_are_slopes);
    tcase_add_test(t, test_cnn_refuses_other_images);
    suite_add_tcase(s, t);
    TCase *library = tcase_create("library");
    tcase_set_tags(library, "onednn");
    tcase_set_timeout(library, 60);
    tcase_add_loop_test(library, test_cnn_losses_are_pytorchs, 1, 2);
    suite_add_tcase(s, library);
    return s;
}

int main(void)
{
    return suite_run(cnn_suite());
}
