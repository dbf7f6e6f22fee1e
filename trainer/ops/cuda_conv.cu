/*
 * trainer/ops/cuda_conv: what surrounds the matrix products of convolutions on a
 * GPU: patches, batch norm, max-pool.
 *
 * Legend:  as in conv.h
 */
#include "trainer/ops/cuda.cuh"

/* -- convolutions ---------------------------------------------------------- */

static void
patches(float *to, const float *x, size_t B, size_t H, size_t W, size_t C)
{
    size_t H2 = H - 2, W2 = W - 2;
    each("patches", B * H2 * W2 * OPS_PATCH * C, [=] __device__(size_t i) {
        size_t c = i % C, k = i / C % OPS_PATCH, at = i / C / OPS_PATCH;
        size_t w = at % W2, h = at / W2 % H2, s = at / W2 / H2;
        to[i] =
            x[((s * H + h + k / OPS_WINDOW) * W + w + k % OPS_WINDOW) * C + c];
    });
}

/* Each pixel collects what the windows over it have for it, in the order in
 * which conv.c adds. */
static void patches_backward(
    float *dx, const float *dpatches, size_t B, size_t H, size_t W, size_t C)
{
    size_t H2 = H - 2, W2 = W - 2;
    each("patches", B * H * W * C, [=] __device__(size_t i) {
        size_t c = i % C, x = i / C % W, y = i / C / W % H, s = i / C / W / H;
        float sum = 0.0f;
        for (size_t kh = OPS_WINDOW; kh-- > 0;)
            for (size_t kw = OPS_WINDOW; kw-- > 0;) {
                if (kh > y || kw > x || y - kh >= H2 || x - kw >= W2)
                    continue;
                size_t at = (s * H2 + y - kh) * W2 + x - kw;
                sum +=
                    dpatches[(at * OPS_PATCH + kh * OPS_WINDOW + kw) * C + c];
            }
        dx[i] = sum;
    });
}

static void turn(float *out, const float *x, size_t B, size_t P, size_t C)
{
    each("turn", B * P * C, [=] __device__(size_t i) {
        size_t p = i % P, c = i / P % C, s = i / P / C;
        out[i] = x[(s * P + p) * C + c];
    });
}

/* -- batch norm ------------------------------------------------------------ */

#define NORM_EPS 1e-5

static void norm_forward(float *out,
                         float *xhat,
                         float *scale,
                         float *stats,
                         const float *x,
                         const float *gamma,
                         const float *beta,
                         size_t N,
                         size_t C)
{
    float *mean = stats, *var = stats + C;
    columns(
        [=] __device__(size_t n, size_t c) {
            return pair{(double)x[n * C + c], 0.0};
        },
        [=] __device__(size_t c, pair s) {
            mean[c] = (float)(s.a / (double)N);
        },
        N, C);
    columns(
        [=] __device__(size_t n, size_t c) {
            float d = x[n * C + c] - mean[c];
            return pair{(double)(d * d), 0.0};
        },
        [=] __device__(size_t c, pair s) {
            scale[c] = (float)(1.0 / sqrt(s.a / (double)N + NORM_EPS));
            var[c] = (float)(s.a / (double)(N - 1));
        },
        N, C);
    each("norm", N * C, [=] __device__(size_t i) {
        size_t c = i % C;
        float v = (x[i] - mean[c]) * scale[c];
        xhat[i] = v;
        out[i] = gamma[c] * v + beta[c];
    });
}

static void norm_backward(float *dx,
                          float *dgamma,
                          float *dbeta,
                          const float *dout,
                          const float *xhat,
                          const float *scale,
                          const float *gamma,
                          size_t N,
                          size_t C)
{
    columns(
        [=] __device__(size_t n, size_t c) {
            float d = dout[n * C + c];
            return pair{(double)(d * xhat[n * C + c]), (double)d};
        },
        [=] __device__(size_t c, pair s) {
            dgamma[c] = (float)s.a;
            dbeta[c] = (float)s.b;
        },
        N, C);
    each("norm", N * C, [=] __device__(size_t i) {
        size_t c = i % C;
        float g = (float)((double)dgamma[c] / (double)N);
        float b = (float)((double)dbeta[c] / (double)N);
        dx[i] = gamma[c] * scale[c] * (dout[i] - b - xhat[i] * g);
    });
}

static void norm_infer(float *out,
                       const float *x,
                       const float *stats,
                       const float *gamma,
                       const float *beta,
                       size_t N,
                       size_t C)
{
    each("norm", N * C, [=] __device__(size_t i) {
        size_t c = i % C;
        float f = gamma[c] / sqrtf(stats[C + c] + (float)NORM_EPS);
        out[i] = (x[i] - stats[c]) * f + beta[c];
    });
}

/* -- max-pool -------------------------------------------------------------- */

/* The first pixel of the four that output i is the largest of. */
__device__ static size_t corner(size_t i, size_t H, size_t W, size_t C)
{
    size_t W2 = W / 2, H2 = H / 2, c = i % C;
    size_t w = i / C % W2, h = i / C / W2 % H2, s = i / C / W2 / H2;
    return ((s * H + 2 * h) * W + 2 * w) * C + c;
}

static void pool_forward(float *out,
                         uint8_t *which,
                         const float *x,
                         size_t B,
                         size_t H,
                         size_t W,
                         size_t C)
{
    size_t n = B * (H / 2) * (W / 2) * C;
    each("pool", n, [=] __device__(size_t i) {
        size_t at = corner(i, H, W, C);
        size_t to[4] = {at, at + C, at + W * C, at + W * C + C};
        uint8_t best = 0;
        for (uint8_t k = 1; k < 4; k++)
            if (x[to[k]] > x[to[best]])
                best = k;
        out[i] = x[to[best]];
        which[i] = best;
    });
}

static void pool_backward(float *dx,
                          const float *dout,
                          const uint8_t *which,
                          size_t B,
                          size_t H,
                          size_t W,
                          size_t C)
{
    size_t n = B * (H / 2) * (W / 2) * C;
    (void)cuda_note(
        cudaMemsetAsync(dx, 0, B * H * W * C * sizeof(*dx), cuda_stream),
        "memset");
    each("pool", n, [=] __device__(size_t i) {
        size_t at = corner(i, H, W, C), k = which[i];
        dx[at + (k / 2) * W * C + (k % 2) * C] = dout[i];
    });
}

void cuda_fill_conv(struct device_ops *o)
{
    o->patches = patches;
    o->patches_backward = patches_backward;
    o->norm_forward = norm_forward;
    o->norm_backward = norm_backward;
    o->norm_infer = norm_infer;
    o->pool_forward = pool_forward;
    o->pool_backward = pool_backward;
    o->turn = turn;
}
