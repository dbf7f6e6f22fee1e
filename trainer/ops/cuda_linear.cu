/*
 * trainer/ops/cuda_linear: linear layers, ReLU and the losses on a GPU. Matrix
 * products are cuBLAS's, which is loaded when there is one, else a tiled kernel
 * of our own.
 *
 * Legend:  as in cpu.h
 */
#include "trainer/ops/cuda.cuh"

#include <stdio.h>

#ifndef EMULATED
#include <cublas_v2.h>
#include <dlfcn.h>
#endif

/* -- matrix products ------------------------------------------------------- */

#define TILE 16

/* out (M,N) = a times b; a's element (m,k) is a[m * ar + k * ac], b's (k,n) is
 * b[k * br + n * bc]. */
__global__ void matmul(float *out,
                       const float *a,
                       size_t ar,
                       size_t ac,
                       const float *b,
                       size_t br,
                       size_t bc,
                       size_t M,
                       size_t N,
                       size_t K)
{
    __shared__ float as[TILE][TILE + 1], bs[TILE][TILE + 1];
    unsigned x = threadIdx.x, y = threadIdx.y;
    size_t m = (size_t)blockIdx.x * TILE + y;
    for (size_t first = (size_t)blockIdx.y * TILE; first < N;
         first += (size_t)gridDim.y * TILE) {
        size_t n = first + x;
        float sum = 0.0f;
        for (size_t k = 0; k < K; k += TILE) {
            as[y][x] = m < M && k + x < K ? a[m * ar + (k + x) * ac] : 0.0f;
            bs[y][x] = n < N && k + y < K ? b[(k + y) * br + n * bc] : 0.0f;
            __syncthreads();
            for (unsigned i = 0; i < TILE; i++)
                sum += as[y][i] * bs[i][x];
            __syncthreads();
        }
        if (m < M && n < N)
            out[m * N + n] = sum;
    }
}

#ifndef EMULATED
static struct {
    bool tried;
    bool found;
    bool used;
    cublasHandle_t handle;
    __typeof__(&cublasCreate_v2) create;
    __typeof__(&cublasSetStream_v2) set_stream;
    __typeof__(&cublasSgemm_v2) sgemm;
} blas;

static void *find_blas(void)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "libcublas.so.%d",
                   CUBLAS_VER_MAJOR); /* fits */
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void cuda_load_blas(void)
{
    if (blas.tried)
        return;
    blas.tried = true;
    void *lib = find_blas();
    if (lib == NULL)
        return;
    *(void **)&blas.create = dlsym(lib, "cublasCreate_v2");
    *(void **)&blas.set_stream = dlsym(lib, "cublasSetStream_v2");
    *(void **)&blas.sgemm = dlsym(lib, "cublasSgemm_v2");
    blas.found =
        blas.create != NULL && blas.set_stream != NULL && blas.sgemm != NULL &&
        blas.create(&blas.handle) == CUBLAS_STATUS_SUCCESS &&
        blas.set_stream(blas.handle, cuda_stream) == CUBLAS_STATUS_SUCCESS;
    blas.used = blas.found;
}

/* cuBLAS has columns where we have rows: it is given the transposed problem,
 * which is the same bytes, b times a. */
static bool blas_multiply(float *out,
                          const float *a,
                          bool a_transposed,
                          const float *b,
                          bool b_transposed,
                          size_t M,
                          size_t N,
                          size_t K)
{
    const float one = 1.0f, zero = 0.0f;
    if (!blas.used)
        return false;
    cublasStatus_t rc =
        blas.sgemm(blas.handle, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                   a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)N, (int)M,
                   (int)K, &one, b, (int)(b_transposed ? K : N), a,
                   (int)(a_transposed ? M : K), &zero, out, (int)N);
    return cuda_note(rc == CUBLAS_STATUS_SUCCESS ? cudaSuccess
                                                 : cudaErrorUnknown,
                     "cublasSgemm");
}

bool device_cuda_use_library(bool use)
{
    cuda_load_blas();
    blas.used = use && blas.found;
    return blas.used;
}
#else
void cuda_load_blas(void)
{
}

static bool blas_multiply(
    float *, const float *, bool, const float *, bool, size_t, size_t, size_t)
{
    return false;
}

bool device_cuda_use_library(bool)
{
    return false;
}
#endif

/* out (M,N) = a times b over K; `a` is (M,K), or (K,M) if `a_transposed`; b
 * (K,N), or (N,K). */
static void multiply(float *out,
                     const float *a,
                     bool a_transposed,
                     const float *b,
                     bool b_transposed,
                     size_t M,
                     size_t N,
                     size_t K)
{
    if (blas_multiply(out, a, a_transposed, b, b_transposed, M, N, K))
        return;
    dim3 grid((unsigned)((M + TILE - 1) / TILE), grid_y((N + TILE - 1) / TILE));
    LAUNCH("matrix product", matmul, grid, dim3(TILE, TILE), out, a,
           a_transposed ? (size_t)1 : K, a_transposed ? M : (size_t)1, b,
           b_transposed ? (size_t)1 : N, b_transposed ? K : (size_t)1, M, N, K);
}

/* -- linear layers --------------------------------------------------------- */

static void linear_forward(float *out,
                           const float *x,
                           const float *w,
                           const float *b,
                           size_t B,
                           size_t I,
                           size_t O)
{
    multiply(out, x, false, w, true, B, O, I);
    each("bias", B * O, [=] __device__(size_t i) { out[i] += b[i % O]; });
}

static void linear_backward(float *dx,
                            float *dw,
                            float *db,
                            const float *dout,
                            const float *x,
                            const float *w,
                            size_t B,
                            size_t I,
                            size_t O)
{
    if (dx != NULL)
        multiply(dx, dout, false, w, false, B, I, O);
    multiply(dw, dout, true, x, false, O, I, B);
    columns(
        [=] __device__(size_t n, size_t c) {
            return pair{(double)dout[n * O + c], 0.0};
        },
        [=] __device__(size_t c, pair s) { db[c] = (float)s.a; }, B, O);
}

static void relu_forward(float *out, const float *x, size_t n)
{
    each("relu", n,
         [=] __device__(size_t i) { out[i] = x[i] > 0.0f ? x[i] : 0.0f; });
}

static void
relu_backward(float *dx, const float *dout, const float *out, size_t n)
{
    each("relu", n,
         [=] __device__(size_t i) { dx[i] = out[i] > 0.0f ? dout[i] : 0.0f; });
}

/* -- losses ---------------------------------------------------------------- */

/* A row (C) is one thread's: there are few classes. dlogits (C) or NULL. */
__device__ static void softmax_row(double *loss,
                                   double *hit,
                                   float *dlogits,
                                   const float *row,
                                   size_t label,
                                   float scale,
                                   size_t C)
{
    size_t best = 0;
    for (size_t c = 1; c < C; c++)
        if (row[c] > row[best])
            best = c;
    float sum = 0.0f, most = row[best];
    for (size_t c = 0; c < C; c++)
        sum += expf(row[c] - most);
    *hit = best == label ? 1.0 : 0.0;
    *loss = (double)(logf(sum) - (row[label] - most));
    for (size_t c = 0; dlogits != NULL && c < C; c++) {
        float p = expf(row[c] - most) / sum;
        dlogits[c] = scale * (p - (c == label ? 1.0f : 0.0f));
    }
}

/* One block: sums of both arrays (n). */
__global__ void total(pair *sum, const double *a, const double *b, size_t n)
{
    __shared__ pair sums[THREADS];
    unsigned x = threadIdx.x;
    pair mine = {0.0, 0.0};
    for (size_t i = x; i < n; i += THREADS) {
        mine.a += a[i];
        mine.b += b[i];
    }
    sums[x] = mine;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half) {
            sums[x].a += sums[x + half].a;
            sums[x].b += sums[x + half].b;
        }
    }
    if (x == 0)
        *sum = sums[0];
}

/* Room for n of each and for their sums. */
struct scores {
    pair *sum;
    double *loss;
    double *hit;
};

static scores score_room(size_t n)
{
    double *room = cuda_scratch(2 + 2 * n);
    return scores{(pair *)room, room + 2, room + 2 + n};
}

static struct ops_score add_up(scores r, size_t n)
{
    pair sum = {0.0, 0.0};
    struct ops_score score = {0.0, 0};
    LAUNCH("sum of losses", total, 1, THREADS, r.sum, r.loss, r.hit, n);
    cuda_get(&sum, r.sum, sizeof(sum));
    score.loss = sum.a;
    score.correct = (size_t)sum.b;
    return score;
}

static struct ops_score softmax_xent(float *dlogits,
                                     const float *logits,
                                     const uint8_t *labels,
                                     float scale,
                                     size_t B,
                                     size_t C)
{
    scores r = score_room(B);
    if (r.sum == NULL)
        return ops_score{0.0, 0};
    each("softmax", B, [=] __device__(size_t i) {
        softmax_row(&r.loss[i], &r.hit[i],
                    dlogits == NULL ? NULL : dlogits + i * C, logits + i * C,
                    labels[i], scale, C);
    });
    return add_up(r, B);
}

static struct ops_score mse(float *dout,
                            const float *out,
                            const float *y,
                            float scale,
                            size_t B,
                            size_t O)
{
    scores r = score_room(B * O);
    if (r.sum == NULL)
        return ops_score{0.0, 0};
    each("mse", B * O, [=] __device__(size_t i) {
        float diff = out[i] - y[i];
        r.loss[i] = (double)diff * (double)diff;
        r.hit[i] = 0.0;
        if (dout != NULL)
            dout[i] = scale * 2.0f * diff / (float)O;
    });
    struct ops_score s = add_up(r, B * O);
    s.loss /= (double)O;
    return s;
}

void cuda_fill_linear(struct device_ops *o)
{
    o->linear_forward = linear_forward;
    o->linear_backward = linear_backward;
    o->relu_forward = relu_forward;
    o->relu_backward = relu_backward;
    o->softmax_xent = softmax_xent;
    o->mse = mse;
}
