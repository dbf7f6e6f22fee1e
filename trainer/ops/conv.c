/*
 * trainer/ops/conv: loops whose innermost index runs over channels, which are
 * contiguous, so that the compiler makes vectors of them (the Makefile asks for
 * -O3 here). No sum is reordered for that: each channel has its own.
 */
#include "trainer/ops/conv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define CHANNELS_MAX 256

void ops_patches(float *restrict patches,
                 const float *restrict x,
                 size_t B,
                 size_t H,
                 size_t W,
                 size_t C)
{
    const size_t run = OPS_WINDOW * C; /* of one row of the window */
    for (size_t s = 0; s < B; s++)
        for (size_t h = 0; h + OPS_WINDOW <= H; h++)
            for (size_t w = 0; w + OPS_WINDOW <= W; w++)
                for (size_t k = 0; k < OPS_WINDOW; k++, patches += run)
                    memcpy(patches, x + ((s * H + h + k) * W + w) * C,
                           run * sizeof(*x));
}

/* Windows overlap, so a pixel gets up to nine parts, in the order of the
 * windows. */
void ops_patches_backward(float *restrict dx,
                          const float *restrict dpatches,
                          size_t B,
                          size_t H,
                          size_t W,
                          size_t C)
{
    const size_t run = OPS_WINDOW * C;
    memset(dx, 0, B * H * W * C * sizeof(*dx));
    for (size_t s = 0; s < B; s++)
        for (size_t h = 0; h + OPS_WINDOW <= H; h++)
            for (size_t w = 0; w + OPS_WINDOW <= W; w++)
                for (size_t k = 0; k < OPS_WINDOW; k++, dpatches += run) {
                    float *restrict to = dx + ((s * H + h + k) * W + w) * C;
                    for (size_t i = 0; i < run; i++)
                        to[i] += dpatches[i];
                }
}

/* -- batch norm ------------------------------------------------------------ */

/* Rows are summed in blocks as floats, blocks as doubles: as fast as floats,
 * and as good for millions of rows. */
#define BLOCK 64

/* Of each channel: or, around the mean, of squared distances from that. Not as
 * the mean of squares less the square of the mean, which loses most digits if
 * the mean is large. */
static inline void norm_sums(double *restrict sum,
                             const float *restrict x,
                             const float *restrict mean,
                             size_t N,
                             size_t C)
{
    float part[CHANNELS_MAX];
    memset(sum, 0, C * sizeof(*sum));
    for (size_t n = 0; n < N;) {
        size_t end = N - n < BLOCK ? N : n + BLOCK;
        memset(part, 0, C * sizeof(*part));
        for (; n < end; n++)
            for (size_t c = 0; c < C; c++) {
                float d = x[n * C + c] - (mean == NULL ? 0.0f : mean[c]);
                part[c] += mean == NULL ? d : d * d;
            }
        for (size_t c = 0; c < C; c++)
            sum[c] += (double)part[c];
    }
}

void ops_norm_forward(float *restrict out,
                      float *restrict xhat,
                      float *restrict scale,
                      float *restrict stats,
                      const float *restrict x,
                      const float *restrict gamma,
                      const float *restrict beta,
                      size_t N,
                      size_t C)
{
    double sum[CHANNELS_MAX];
    float *mean = stats, *var = stats + C;
    assert(C <= CHANNELS_MAX && N > 1);
    norm_sums(sum, x, NULL, N, C);
    for (size_t c = 0; c < C; c++)
        mean[c] = (float)(sum[c] / (double)N);
    norm_sums(sum, x, mean, N, C);
    for (size_t c = 0; c < C; c++) {
        double biased = sum[c] / (double)N;
        scale[c] = (float)(1.0 / sqrt(biased + (double)OPS_NORM_EPS));
        var[c] = (float)(sum[c] / (double)(N - 1));
    }
    for (size_t n = 0; n < N; n++)
        for (size_t c = 0; c < C; c++) {
            float v = (x[n * C + c] - mean[c]) * scale[c];
            xhat[n * C + c] = v;
            out[n * C + c] = gamma[c] * v + beta[c];
        }
}

/* dx = gamma * scale * (dout - mean of dout - xhat * mean of dout * xhat). */
void ops_norm_backward(float *restrict dx,
                       float *restrict dgamma,
                       float *restrict dbeta,
                       const float *restrict dout,
                       const float *restrict xhat,
                       const float *restrict scale,
                       const float *restrict gamma,
                       size_t N,
                       size_t C)
{
    float g[CHANNELS_MAX], b[CHANNELS_MAX], f[CHANNELS_MAX];
    double gs[CHANNELS_MAX] = {0}, bs[CHANNELS_MAX] = {0};
    assert(C <= CHANNELS_MAX);
    for (size_t n = 0; n < N;) {
        size_t end = N - n < BLOCK ? N : n + BLOCK;
        memset(g, 0, C * sizeof(*g));
        memset(b, 0, C * sizeof(*b));
        for (; n < end; n++)
            for (size_t c = 0; c < C; c++) {
                g[c] += dout[n * C + c] * xhat[n * C + c];
                b[c] += dout[n * C + c];
            }
        for (size_t c = 0; c < C; c++) {
            gs[c] += (double)g[c];
            bs[c] += (double)b[c];
        }
    }
    for (size_t c = 0; c < C; c++) {
        dgamma[c] = (float)gs[c];
        dbeta[c] = (float)bs[c];
        g[c] = (float)(gs[c] / (double)N);
        b[c] = (float)(bs[c] / (double)N);
        f[c] = gamma[c] * scale[c];
    }
    for (size_t n = 0; n < N; n++)
        for (size_t c = 0; c < C; c++)
            dx[n * C + c] =
                f[c] * (dout[n * C + c] - b[c] - xhat[n * C + c] * g[c]);
}

void ops_norm_infer(float *restrict out,
                    const float *restrict x,
                    const float *restrict stats,
                    const float *restrict gamma,
                    const float *restrict beta,
                    size_t N,
                    size_t C)
{
    float f[CHANNELS_MAX];
    assert(C <= CHANNELS_MAX);
    for (size_t c = 0; c < C; c++)
        f[c] = gamma[c] / sqrtf(stats[C + c] + OPS_NORM_EPS);
    for (size_t n = 0; n < N; n++)
        for (size_t c = 0; c < C; c++)
            out[n * C + c] = (x[n * C + c] - stats[c]) * f[c] + beta[c];
}

/* -- max-pool -------------------------------------------------------------- */

/* One pixel of the result from the four that begin at p: each channel's largest
 * and which it is. Whole words, which vectors like better than bytes. */
static void pool_window(float *restrict out,
                        uint8_t *restrict which,
                        const float *restrict p,
                        size_t W,
                        size_t C)
{
    const float *restrict p1 = p + C, *restrict p2 = p + W * C;
    const float *restrict p3 = p2 + C;
    int32_t best[CHANNELS_MAX];
    for (size_t c = 0; c < C; c++) {
        float x0 = p[c], x1 = p1[c], x2 = p2[c], x3 = p3[c];
        float above = x1 > x0 ? x1 : x0, below = x3 > x2 ? x3 : x2;
        int32_t a = x1 > x0, b = 2 + (x3 > x2), lower = below > above;
        out[c] = below > above ? below : above;
        best[c] = a + lower * (b - a);
    }
    for (size_t c = 0; c < C; c++)
        which[c] = (uint8_t)best[c];
}

void ops_pool_forward(float *out,
                      uint8_t *which,
                      const float *x,
                      size_t B,
                      size_t H,
                      size_t W,
                      size_t C)
{
    assert(C <= CHANNELS_MAX);
    for (size_t s = 0; s < B; s++)
        for (size_t h = 0; h + 1 < H; h += 2)
            for (size_t w = 0; w + 1 < W; w += 2, out += C, which += C)
                pool_window(out, which, x + ((s * H + h) * W + w) * C, W, C);
}

/* The other way: to the one of the four that was the largest. */
static void pool_window_backward(float *restrict p,
                                 const float *restrict dout,
                                 const uint8_t *restrict which,
                                 size_t W,
                                 size_t C)
{
    int32_t best[CHANNELS_MAX];
    for (size_t c = 0; c < C; c++)
        best[c] = which[c];
    for (int32_t k = 0; k < 4; k++) {
        float *restrict corner = p + (k % 2 + k / 2 * (int64_t)W) * (int64_t)C;
        for (size_t c = 0; c < C; c++) {
            float d = dout[c];
            corner[c] = best[c] == k ? d : 0.0f;
        }
    }
}

void ops_pool_backward(float *dx,
                       const float *dout,
                       const uint8_t *which,
                       size_t B,
                       size_t H,
                       size_t W,
                       size_t C)
{
    assert(C <= CHANNELS_MAX);
    if (H % 2 != 0 || W % 2 != 0) /* what no window sees */
        memset(dx, 0, B * H * W * C * sizeof(*dx));
    for (size_t s = 0; s < B; s++)
        for (size_t h = 0; h + 1 < H; h += 2)
            for (size_t w = 0; w + 1 < W; w += 2, dout += C, which += C)
                pool_window_backward(dx + ((s * H + h) * W + w) * C, dout,
                                     which, W, C);
}

void ops_transpose(
    float *restrict out, const float *restrict x, size_t B, size_t P, size_t C)
{
    for (size_t s = 0; s < B; s++)
        for (size_t p = 0; p < P; p++)
            for (size_t c = 0; c < C; c++)
                out[(s * C + c) * P + p] = x[(s * P + p) * C + c];
}
