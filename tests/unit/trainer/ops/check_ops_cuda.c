/* links: trainer/ops/{cuda.emulated,cuda_linear.emulated,random} */
/* links: trainer/ops/{cuda_conv.emulated,cuda_optim.emulated,optim,device} */
/* links: trainer/ops/{cpu,conv} trainer/model */
/* libs: -lm */
/*
 * The kernels against the reference on the CPU: each operation over many
 * shapes, whole models, and some steps of training, whose losses check_cnn and
 * check_trainer_model hold against PyTorch's. In build/tests/unit the kernels
 * are emulated (tests/gpu/emulate.h); the same program in build/tests/gpu runs
 * them on a GPU.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/model.h"
#include "trainer/ops/conv.h"
#include "trainer/ops/device.h"
#include "trainer/ops/optim.h"
#include "trainer/ops/random.h"

#define ARRAYS   8
#define SAME     0.0 /* no arithmetic, or the same on both */
#define ROUNDING 2e-5

static const struct device *gpu, *cpu;
static uint64_t rng = 7;

/* -- pairs of arrays ------------------------------------------------------- */

/* The same numbers on both; all are freed by drop(). */
struct pair {
    float *h;
    float *d;
    size_t n;
};

static struct pair made[ARRAYS];
static size_t count;

/* Even in [lo, 1). */
static struct pair numbers(size_t n, float lo)
{
    ck_assert_uint_lt(count, ARRAYS);
    struct pair p = {.n = n};
    p.h = malloc(n * sizeof(float));
    p.d = gpu->alloc(n * sizeof(float));
    ck_assert(p.h != NULL && p.d != NULL);
    random_uniform(p.h, n, lo, 1.0f, &rng);
    gpu->put(p.d, p.h, n * sizeof(float));
    made[count++] = p;
    return p;
}

static struct pair some(size_t n)
{
    return numbers(n, -1.0f);
}

static void drop(void)
{
    struct ddp_error e;
    ck_assert_int_eq(gpu->check(&e), 0);
    for (size_t i = 0; i < count; i++) {
        free(made[i].h);
        gpu->free(made[i].d);
    }
    count = 0;
}

/* How far they are apart, as a part of the largest number of the reference. */
static double apart(const float *want, const float *got, size_t n)
{
    double most = 1e-30, off = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        off = fmax(off, fabs((double)want[i] - (double)got[i]));
        finite += isfinite(got[i]) != 0;
    }
    ck_assert_uint_eq(finite, n); /* each ck_assert is a write(2) */
    return off / most;
}

static double differ(const float *want, const float *on_gpu, size_t n)
{
    float *got = malloc(n * sizeof(*got));
    ck_assert_ptr_nonnull(got);
    gpu->get(got, on_gpu, n * sizeof(*got));
    double d = apart(want, got, n);
    free(got);
    return d;
}

static void same(struct pair p, double within)
{
    ck_assert_double_le(differ(p.h, p.d, p.n), within);
}

/* -- operations ------------------------------------------------------------ */

static const size_t shapes[][3] = {
    {1, 1, 1},   {5, 7, 3},    {32, 20, 1},   {16, 16, 16},
    {17, 33, 9}, {64, 49, 10}, {200, 31, 65}, {3, 150, 230},
};
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

START_TEST(test_cuda_linear_is_the_cpus)
{
    size_t B = shapes[_i][0], I = shapes[_i][1], O = shapes[_i][2];
    struct pair x = some(B * I), w = some(O * I), b = some(O);
    struct pair out = some(B * O), dout = some(B * O);
    struct pair dx = some(B * I), dw = some(O * I), db = some(O);
    cpu->ops.linear_forward(out.h, x.h, w.h, b.h, B, I, O);
    gpu->ops.linear_forward(out.d, x.d, w.d, b.d, B, I, O);
    same(out, ROUNDING);
    cpu->ops.linear_backward(dx.h, dw.h, db.h, dout.h, x.h, w.h, B, I, O);
    gpu->ops.linear_backward(dx.d, dw.d, db.d, dout.d, x.d, w.d, B, I, O);
    same(dx, ROUNDING);
    same(dw, ROUNDING);
    same(db, ROUNDING);
    gpu->ops.linear_backward(NULL, dw.d, db.d, dout.d, x.d, w.d, B, I, O);
    same(dw, ROUNDING);
    drop();
}
END_TEST

/* Also of more elements than there are threads in one launch. */
START_TEST(test_cuda_elementwise_is_the_cpus)
{
    size_t n = _i == 0 ? 1 : _i == 1 ? 1000 : 2200000;
    struct pair x = some(n), out = some(n), dout = some(n), dx = some(n);
    cpu->ops.relu_forward(out.h, x.h, n);
    gpu->ops.relu_forward(out.d, x.d, n);
    same(out, SAME);
    cpu->ops.relu_backward(dx.h, dout.h, out.h, n);
    gpu->ops.relu_backward(dx.d, dout.d, out.d, n);
    same(dx, SAME);
    cpu->ops.scale(x.h, n, 0.3f);
    gpu->ops.scale(x.d, n, 0.3f);
    same(x, SAME);
    cpu->ops.lerp(x.h, dout.h, n, 0.1f);
    gpu->ops.lerp(x.d, dout.d, n, 0.1f);
    same(x, ROUNDING);
    drop();
}
END_TEST

static uint8_t *labels_on_gpu(uint8_t *labels, size_t B, size_t C)
{
    for (size_t i = 0; i < B; i++)
        labels[i] = (uint8_t)((i * 7 + 3) % C);
    uint8_t *d = gpu->alloc(B);
    ck_assert_ptr_nonnull(d);
    gpu->put(d, labels, B);
    return d;
}

START_TEST(test_cuda_losses_are_the_cpus)
{
    size_t B = shapes[_i][0], C = shapes[_i][1];
    uint8_t labels[256];
    uint8_t *on_gpu = labels_on_gpu(labels, B, C);
    struct pair out = some(B * C), dout = some(B * C), y = some(B * C);
    if (C > 2) /* equal ones: the first is the largest */
        out.h[1] = out.h[2] = 3.0f;
    gpu->put(out.d, out.h, out.n * sizeof(float));
    struct ops_score want, got;
    want = cpu->ops.softmax_xent(dout.h, out.h, labels, 0.5f, B, C);
    got = gpu->ops.softmax_xent(dout.d, out.d, on_gpu, 0.5f, B, C);
    same(dout, ROUNDING);
    ck_assert_double_eq_tol(want.loss, got.loss, 1e-4 * (want.loss + 0.01));
    ck_assert_uint_eq(want.correct, got.correct);
    got = gpu->ops.softmax_xent(NULL, out.d, on_gpu, 0.5f, B, C);
    ck_assert_uint_eq(want.correct, got.correct);
    want = cpu->ops.mse(dout.h, out.h, y.h, 0.5f, B, C);
    got = gpu->ops.mse(dout.d, out.d, y.d, 0.5f, B, C);
    same(dout, ROUNDING);
    ck_assert_double_eq_tol(want.loss, got.loss, 1e-5 * want.loss);
    ck_assert_uint_eq(got.correct, 0);
    gpu->free(on_gpu);
    drop();
}
END_TEST

static const size_t images[][4] = {
    {1, 3, 3, 1}, {2, 5, 7, 3}, {3, 10, 10, 32}, {1, 28, 28, 1}, {4, 4, 9, 40},
};
#define IMAGES ((int)(sizeof(images) / sizeof(images[0])))

START_TEST(test_cuda_patches_are_the_cpus)
{
    const size_t *s = images[_i];
    size_t B = s[0], H = s[1], W = s[2], C = s[3];
    size_t n = B * (H - 2) * (W - 2) * OPS_PATCH * C;
    struct pair x = some(B * H * W * C), p = some(n), dp = some(n);
    struct pair t = some(x.n);
    cpu->ops.patches(p.h, x.h, B, H, W, C);
    gpu->ops.patches(p.d, x.d, B, H, W, C);
    same(p, SAME);
    cpu->ops.transpose(t.h, x.h, B, H * W, C);
    gpu->ops.transpose(t.d, x.d, B, H * W, C);
    same(t, SAME);
    cpu->ops.patches_backward(x.h, dp.h, B, H, W, C);
    gpu->ops.patches_backward(x.d, dp.d, B, H, W, C);
    same(x, SAME);
    drop();
}
END_TEST

START_TEST(test_cuda_pool_is_the_cpus)
{
    const size_t *s = images[_i];
    size_t B = s[0], H = s[1], W = s[2], C = s[3];
    size_t n = B * (H / 2) * (W / 2) * C;
    struct pair x = some(B * H * W * C), out = some(n), dout = some(n);
    uint8_t *which = malloc(n), *got = malloc(n), *on_gpu = gpu->alloc(n);
    ck_assert(which != NULL && got != NULL && on_gpu != NULL);
    for (size_t i = 0; i < x.n; i++) /* many equal ones */
        x.h[i] = roundf(x.h[i] * 2.0f);
    gpu->put(x.d, x.h, x.n * sizeof(float));
    cpu->ops.pool_forward(out.h, which, x.h, B, H, W, C);
    gpu->ops.pool_forward(out.d, on_gpu, x.d, B, H, W, C);
    same(out, SAME);
    gpu->get(got, on_gpu, n);
    ck_assert_mem_eq(got, which, n);
    cpu->ops.pool_backward(x.h, dout.h, which, B, H, W, C);
    gpu->ops.pool_backward(x.d, dout.d, on_gpu, B, H, W, C);
    same(x, SAME);
    free(which);
    free(got);
    gpu->free(on_gpu);
    drop();
}
END_TEST

static const size_t norms[][2] = {{2, 1}, {9, 5}, {300, 33}, {5000, 64}};
#define NORMS ((int)(sizeof(norms) / sizeof(norms[0])))

START_TEST(test_cuda_norm_is_the_cpus)
{
    size_t N = norms[_i][0], C = norms[_i][1];
    struct pair x = some(N * C), out = some(N * C), xhat = some(N * C);
    struct pair gamma = some(C), beta = some(C), scale = some(C);
    struct pair stats = some(2 * C), dx = some(N * C);
    cpu->ops.norm_forward(out.h, xhat.h, scale.h, stats.h, x.h, gamma.h, beta.h,
                          N, C);
    gpu->ops.norm_forward(out.d, xhat.d, scale.d, stats.d, x.d, gamma.d, beta.d,
                          N, C);
    same(out, ROUNDING);
    same(xhat, ROUNDING);
    same(scale, ROUNDING);
    same(stats, ROUNDING);
    cpu->ops.norm_infer(out.h, x.h, stats.h, gamma.h, beta.h, N, C);
    gpu->ops.norm_infer(out.d, x.d, stats.d, gamma.d, beta.d, N, C);
    same(out, ROUNDING);
    /* out stands for dout; the sums for gamma's and beta's go to stats. */
    random_uniform(out.h, out.n, -1.0f, 1.0f, &rng);
    gpu->put(out.d, out.h, out.n * sizeof(float));
    cpu->ops.norm_backward(dx.h, stats.h, stats.h + C, out.h, xhat.h, scale.h,
                           gamma.h, N, C);
    gpu->ops.norm_backward(dx.d, stats.d, stats.d + C, out.d, xhat.d, scale.d,
                           gamma.d, N, C);
    same(stats, 5e-5);
    if (N > 2) /* two rows have no derivative left but rounding */
        same(dx, 5e-5);
    drop();
}
END_TEST

START_TEST(test_cuda_optimizers_are_the_cpus)
{
    size_t n = 1234;
    struct pair p = some(n), g = some(n), m = some(n), v = numbers(n, 0.0f);
    struct pair u = numbers(n, 0.0f);
    cpu->ops.sgd(p.h, g.h, n, 0.1f);
    gpu->ops.sgd(p.d, g.d, n, 0.1f);
    same(p, ROUNDING);
    cpu->ops.momentum(p.h, g.h, m.h, n, 0.1f, 0.9f);
    gpu->ops.momentum(p.d, g.d, m.d, n, 0.1f, 0.9f);
    same(p, ROUNDING);
    same(m, ROUNDING);
    cpu->ops.adam(p.h, g.h, m.h, v.h, n, 0.1f, 1.5f);
    gpu->ops.adam(p.d, g.d, m.d, v.d, n, 0.1f, 1.5f);
    same(p, ROUNDING);
    same(v, ROUNDING);
    cpu->ops.adadelta(p.h, g.h, v.h, u.h, n, 0.1f);
    gpu->ops.adadelta(p.d, g.d, v.d, u.d, n, 0.1f);
    same(p, ROUNDING);
    same(u, ROUNDING);
    drop();
}
END_TEST

/* -- models ---------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t F, O, hidden, B;
} models[] = {
    {"softmax", 50, 10, 0, 32}, {"mlp", 50, 10, 20, 32},
    {"linear", 20, 1, 0, 32},   {"regression", 1, 1, 5, 64},
    {"cnn", 144, 10, 5, 3},
};
#define MODELS ((int)(sizeof(models) / sizeof(models[0])))

struct twin {
    struct model m;
    struct optim o;
};

static void make(struct twin *t, const struct device *dev, int i)
{
    struct ddp_error e = {0};
    const struct model_spec *spec = model_find(models[i].name);
    ck_assert_int_eq(model_init(&t->m, dev, spec, models[i].F, models[i].O,
                                models[i].hidden, models[i].B, 1, &e),
                     0);
    ck_assert_int_eq(optim_init(&t->o, dev, spec->optim, spec->lr, t->m.P, &e),
                     0);
    model_randomize(&t->m, 3);
}

static void drop_twin(struct twin *t)
{
    optim_free(&t->o);
    model_free(&t->m);
}

/* The same batches through both: gradients at first, then a few steps. */
START_TEST(test_cuda_models_learn_as_the_cpus)
{
    enum {
        STEPS = 5
    };
    struct twin a = {0}, b = {0};
    size_t B = models[_i].B, F = models[_i].F, O = models[_i].O;
    float *x = malloc(B * F * sizeof(*x)), *y = malloc(B * O * sizeof(*y));
    uint8_t labels[64];
    make(&a, cpu, _i);
    make(&b, gpu, _i);
    ck_assert(x != NULL && y != NULL);
    for (int step = 0; step < STEPS; step++) {
        float scale = 1.0f / (float)B;
        random_uniform(x, B * F, -1.0f, 1.0f, &rng);
        random_uniform(y, B * O, -1.0f, 1.0f, &rng);
        for (size_t i = 0; i < B; i++)
            labels[i] = (uint8_t)((i + (size_t)step) % O);
        struct ops_score want = model_backward(&a.m, x, labels, y, scale, B);
        struct ops_score got = model_backward(&b.m, x, labels, y, scale, B);
        ck_assert_double_eq_tol(want.loss, got.loss, 1e-3 * want.loss);
        if (step == 0)
            ck_assert_double_le(differ(a.m.grads, b.m.grads, a.m.P + a.m.S),
                                1e-4);
        optim_step(&a.o, a.m.params, a.m.grads);
        optim_step(&b.o, b.m.params, b.m.grads);
        model_update_stats(&a.m);
        model_update_stats(&b.m);
    }
    struct ops_score want = model_forward(&a.m, x, labels, y, B);
    struct ops_score got = model_forward(&b.m, x, labels, y, B);
    ck_assert_double_eq_tol(want.loss, got.loss, 2e-3 * want.loss);
    drop_twin(&a);
    drop_twin(&b);
    free(x);
    free(y);
    drop();
}
END_TEST

/* The same bits on every run, which resuming to the bit rests on. */
START_TEST(test_cuda_is_the_same_to_the_bit_each_time)
{
    uint64_t hash[2];
    for (int run = 0; run < 2; run++) {
        struct twin t = {0};
        float x[64 * 144];
        uint8_t labels[64] = {0};
        uint64_t seed = 5;
        make(&t, gpu, _i);
        for (int step = 0; step < 3; step++) {
            random_uniform(x, 64 * 144, -1.0f, 1.0f, &seed);
            (void)model_backward(&t.m, x, labels, x, 0.1f, models[_i].B);
            optim_step(&t.o, t.m.params, t.m.grads);
            model_update_stats(&t.m);
        }
        model_pull(&t.m);
        hash[run] = model_hash(t.m.host, t.m.P + t.m.S);
        drop_twin(&t);
    }
    ck_assert_uint_eq(hash[0], hash[1]);
    drop();
}
END_TEST

static Suite *cuda_suite(void)
{
    Suite *s = suite_create("ops_cuda");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_cuda_linear_is_the_cpus, 0, SHAPES);
    tcase_add_loop_test(t, test_cuda_elementwise_is_the_cpus, 0, 3);
    tcase_add_loop_test(t, test_cuda_losses_are_the_cpus, 0, SHAPES);
    tcase_add_loop_test(t, test_cuda_patches_are_the_cpus, 0, IMAGES);
    tcase_add_loop_test(t, test_cuda_pool_is_the_cpus, 0, IMAGES);
    tcase_add_loop_test(t, test_cuda_norm_is_the_cpus, 0, NORMS);
    tcase_add_test(t, test_cuda_optimizers_are_the_cpus);
    tcase_add_loop_test(t, test_cuda_models_learn_as_the_cpus, 0, MODELS);
    tcase_add_loop_test(t, test_cuda_is_the_same_to_the_bit_each_time, 0,
                        MODELS);
    suite_add_tcase(s, t);
    return s;
}

static int run(void)
{
    SRunner *r = srunner_create(cuda_suite());
    srunner_set_fork_status(r, CK_NOFORK); /* CUDA does not survive a fork */
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed;
}

int main(void)
{
    struct ddp_error e;
    gpu = device_cuda(0, &e);
    cpu = device_cpu();
    if (gpu == NULL) {
        printf("check_ops_cuda: skipped: %s\n", e.text);
        return 0;
    }
    bool library = device_cuda_use_library(true);
    printf("check_ops_cuda: on %s, %s cuBLAS\n", gpu->name,
           library ? "with" : "without");
    int failed = run();
    if (library) {
        (void)device_cuda_use_library(false);
        printf("check_ops_cuda: without cuBLAS\n");
        failed += run();
    }
    return failed == 0 ? 0 : 1;
}
