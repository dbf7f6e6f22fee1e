/*
 * Both directions of a linear layer are two small kernels, each with a tile of
 * sums that stays in registers:
 *
 *   dot_rows   out[m][n] = sum over k of a[m][k] * b[n][k]    (forward)
 *   mix_rows   out[m][n] = sum over k of a[m,k] * b[k][n]     (backward, twice)
 *
 * The lanes of a vector run along the contiguous index of b. GCC and clang
 * know vectors as a type on every target; at -O2 that is surer than hoping for
 * the loop vectorizer. The order of additions is part of the source (and
 * -ffast-math would break that).
 */
#include "trainer/ops/cpu.h"

#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#define LANES 4
typedef float vec __attribute__((vector_size(LANES * sizeof(float))));

/* Rows of a matrix start anywhere; memcpy is an unaligned load. */
static inline vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void store(float *p, vec v)
{
    memcpy(p, &v, sizeof(v));
}

static inline float lane_sum(vec v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

static float dot(const float *a, const float *b, size_t K)
{
    vec s = {0};
    size_t k = 0;
    for (; k + LANES <= K; k += LANES)
        s += load(a + k) * load(b + k);
    float sum = lane_sum(s);
    for (; k < K; k++)
        sum += a[k] * b[k];
    return sum;
}

/*
 * Four rows of a against two of b. Each of the eight sums is taken exactly as
 * dot() does, so it does not matter which of the two computes an element.
 */
static void dot_tile(float *restrict out,
                     const float *restrict a,
                     const float *restrict b,
                     size_t N,
                     size_t K)
{
    vec s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0};
    vec s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0};
    size_t k = 0;
    for (; k + LANES <= K; k += LANES) {
        vec b0 = load(b + k), b1 = load(b + K + k);
        vec a0 = load(a + k), a1 = load(a + K + k);
        vec a2 = load(a + 2 * K + k), a3 = load(a + 3 * K + k);
        s00 += a0 * b0;
        s01 += a0 * b1;
        s10 += a1 * b0;
        s11 += a1 * b1;
        s20 += a2 * b0;
        s21 += a2 * b1;
        s30 += a3 * b0;
        s31 += a3 * b1;
    }
    float sum[4][2] = {
        {lane_sum(s00), lane_sum(s01)},
        {lane_sum(s10), lane_sum(s11)},
        {lane_sum(s20), lane_sum(s21)},
        {lane_sum(s30), lane_sum(s31)},
    };
    for (size_t m = 0; m < 4; m++) {
        for (size_t n = 0; n < 2; n++) {
            for (size_t t = k; t < K; t++)
                sum[m][n] += a[m * K + t] * b[n * K + t];
            out[m * N + n] = sum[m][n];
        }
    }
}

/* out (M,N) = a (M,K) times b (N,K) transposed. */
static void dot_rows(
    float *out, const float *a, const float *b, size_t M, size_t N, size_t K)
{
    size_t m4 = M - M % 4, n2 = N - N % 2;
    for (size_t n = 0; n < n2; n += 2)
        for (size_t m = 0; m < m4; m += 4)
            dot_tile(out + m * N + n, a + m * K, b + n * K, N, K);
    for (size_t m = 0; m < M; m++)
        for (size_t n = m < m4 ? n2 : 0; n < N; n++)
            out[m * N + n] = dot(a + m * K, b + n * K, K);
}

/* A matrix read by rows or by columns: element (m,k) is p[m*row + k*col]. */
struct view {
    const float *p;
    size_t row;
    size_t col;
};

/* Four rows and eight columns of the result. */
static void mix_tile(float *restrict out,
                     struct view a,
                     const float *restrict b,
                     size_t N,
                     size_t K)
{
    vec s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0};
    vec s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0};
    const float *p = a.p;
    for (size_t k = 0; k < K; k++, p += a.col, b += N) {
        vec b0 = load(b), b1 = load(b + LANES);
        float a0 = p[0], a1 = p[a.row], a2 = p[2 * a.row], a3 = p[3 * a.row];
        s00 += a0 * b0;
        s01 += a0 * b1;
        s10 += a1 * b0;
        s11 += a1 * b1;
        s20 += a2 * b0;
        s21 += a2 * b1;
        s30 += a3 * b0;
        s31 += a3 * b1;
    }
    store(out, s00);
    store(out + LANES, s01);
    store(out + N, s10);
    store(out + N + LANES, s11);
    store(out + 2 * N, s20);
    store(out + 2 * N + LANES, s21);
    store(out + 3 * N, s30);
    store(out + 3 * N + LANES, s31);
}

/* out (M,N) = a (M,K) times b (K,N). */
static void mix_rows(
    float *out, struct view a, const float *b, size_t M, size_t N, size_t K)
{
    const size_t wide = 2 * LANES;
    size_t m4 = M - M % 4, n8 = N - N % wide;
    /* Columns outside: K rows of eight floats of b stay in the first cache. */
    for (size_t n = 0; n < n8; n += wide) {
        for (size_t m = 0; m < m4; m += 4) {
            struct view rows = {a.p + m * a.row, a.row, a.col};
            mix_tile(out + m * N + n, rows, b + n, N, K);
        }
    }
    for (size_t m = 0; m < M; m++) {
        for (size_t n = m < m4 ? n8 : 0; n < N; n++) {
            float sum = 0.0f;
            for (size_t k = 0; k < K; k++)
                sum += a.p[m * a.row + k * a.col] * b[k * N + n];
            out[m * N + n] = sum;
        }
    }
}

/* -- the library ----------------------------------------------------------- */

/* oneDNN's C interface (dnnl.h, dnnl_sgemm): matrices by rows; C = A B, either
 * of them transposed by 'T'. It returns 0 for success. */
typedef int sgemm_fn(char transa,
                     char transb,
                     int64_t M,
                     int64_t N,
                     int64_t K,
                     float alpha,
                     const float *A,
                     int64_t lda,
                     const float *B,
                     int64_t ldb,
                     float beta,
                     float *C,
                     int64_t ldc);
static sgemm_fn *sgemm;

bool ops_use_library(void)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
    for (size_t i = 0; sgemm == NULL && i < 2; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        void *found = lib == NULL ? NULL : dlsym(lib, "dnnl_sgemm");
        memcpy(&sgemm, &found, sizeof(sgemm)); /* POSIX lets this be done */
    }
    return sgemm != NULL;
}

/* out (M,N) = a times b over K; `a` is (M,K), or (K,M) if `a_transposed`, and b
 * alike. */
static void multiply(float *out,
                     const float *a,
                     bool a_transposed,
                     const float *b,
                     bool b_transposed,
                     size_t M,
                     size_t N,
                     size_t K)
{
    int64_t m = (int64_t)M, n = (int64_t)N, k = (int64_t)K;
    int rc =
        sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, k, 1.0f,
              a, a_transposed ? m : k, b, b_transposed ? k : n, 0.0f, out, n);
    assert(rc == 0); /* it fails on bad arguments only */
    (void)rc;
}

/* -- linear layers --------------------------------------------------------- */

void ops_linear_forward(float *out,
                        const float *x,
                        const float *w,
                        const float *b,
                        size_t B,
                        size_t I,
                        size_t O)
{
    if (sgemm != NULL)
        multiply(out, x, false, w, true, B, O, I);
    else
        dot_rows(out, x, w, B, O, I);
    for (size_t s = 0; s < B; s++)
        for (size_t o = 0; o < O; o++)
            out[s * O + o] += b[o];
}

void ops_linear_backward(float *dx,
                         float *dw,
                         float *db,
                         const float *dout,
                         const float *x,
                         const float *w,
                         size_t B,
                         size_t I,
                         size_t O)
{
    struct view by_row = {dout, O, 1};
    struct view by_column = {dout, 1, O};
    if (dx != NULL && sgemm != NULL)
        multiply(dx, dout, false, w, false, B, I, O);
    else if (dx != NULL)
        mix_rows(dx, by_row, w, B, I, O);
    if (sgemm != NULL)
        multiply(dw, dout, true, x, false, O, I, B);
    else
        mix_rows(dw, by_column, x, O, I, B);
    memset(db, 0, O * sizeof(*db));
    for (size_t s = 0; s < B; s++)
        for (size_t o = 0; o < O; o++)
            db[o] += dout[s * O + o];
}

void ops_relu_forward(float *restrict out, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

void ops_relu_backward(float *restrict dx,
                       const float *restrict dout,
                       const float *restrict out,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float d = dout[i]; /* read in any case: so it can be a vector */
        dx[i] = out[i] > 0.0f ? d : 0.0f;
    }
}

struct ops_score ops_softmax_xent(float *dlogits,
                                  const float *logits,
                                  const uint8_t *labels,
                                  float scale,
                                  size_t B,
                                  size_t C)
{
    struct ops_score score = {0};
    for (size_t s = 0; s < B; s++) {
        const float *row = logits + s * C;
        size_t best = 0;
        for (size_t c = 1; c < C; c++)
            if (row[c] > row[best])
                best = c;
        score.correct += best == labels[s];

        /* Less the largest logit, so that no exponential overflows. */
        float sum = 0.0f;
        for (size_t c = 0; c < C; c++)
            sum += expf(row[c] - row[best]);
        score.loss += (double)(logf(sum) - (row[labels[s]] - row[best]));
        if (dlogits == NULL)
            continue;
        for (size_t c = 0; c < C; c++) {
            float p = expf(row[c] - row[best]) / sum;
            dlogits[s * C + c] = scale * (p - (c == labels[s] ? 1.0f : 0.0f));
        }
    }
    return score;
}

struct ops_score ops_mse(float *dout,
                         const float *out,
                         const float *y,
                         float scale,
                         size_t B,
                         size_t O)
{
    double sum = 0.0;
    for (size_t i = 0; i < B * O; i++) {
        float diff = out[i] - y[i];
        sum += (double)diff * (double)diff;
        if (dout != NULL)
            dout[i] = scale * 2.0f * diff / (float)O;
    }
    return (struct ops_score){.loss = sum / (double)O};
}
