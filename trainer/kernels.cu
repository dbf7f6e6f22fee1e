/*
 * trainer/kernels: the operations of trainer/device on a GPU. Matrix products
 * are cuBLAS's, which is loaded when there is one, else a tiled kernel of our
 * own; all else is here, fused where that is simpler.
 *
 * Every sum is taken in a fixed order (no atomics), so the same program on the
 * same kind of GPU gives the same bits on every run: a run that was resumed
 * ends like one that was not.
 *
 * Legend:  as in ops_cpu.h and ops_conv.h
 *
 * The file is compiled by nvcc, and by a plain C++ compiler for the tests of
 * machines without a GPU (tests/gpu/emulate.h): hence LAUNCH.
 */
#include "trainer/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef EMULATED
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#define LAUNCH(kernel, grid, block, ...)                                       \
    do {                                                                       \
        kernel<<<(grid), (block), 0, stream>>>(__VA_ARGS__);                   \
        note(cudaGetLastError(), #kernel);                                     \
    } while (0)
#endif

static cudaStream_t stream;

/* -- errors ---------------------------------------------------------------- */

static cudaError_t failed = cudaSuccess; /* the first since the last check */
static const char *failed_in = "";

static bool note(cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess && failed == cudaSuccess) {
        failed = rc;
        failed_in = what;
    }
    return rc == cudaSuccess;
}

static int set_error(struct ddp_error *err,
                     int code,
                     const char *what,
                     const char *why)
{
    err->code = code;
    err->sys_errno = 0;
    (void)snprintf(err->text, sizeof(err->text), "%s: %s", what, why);
    return -1;
}

static int cuda_check(struct ddp_error *err)
{
    (void)note(cudaStreamSynchronize(stream), "the GPU");
    if (failed == cudaSuccess)
        return 0;
    (void)set_error(err, DDP_ERR_IO, failed_in, cudaGetErrorString(failed));
    failed = cudaSuccess;
    return -1;
}

/* -- memory ---------------------------------------------------------------- */

static void *cuda_alloc(size_t len)
{
    void *p = NULL;
    if (cudaMalloc(&p, len) != cudaSuccess) {
        (void)cudaGetLastError(); /* told by NULL */
        return NULL;
    }
    (void)note(cudaMemsetAsync(p, 0, len, stream), "memset");
    return p;
}

static void cuda_free(void *p)
{
    (void)note(cudaFree(p), "free");
}

static void cuda_put(void *to, const void *host, size_t len)
{
    (void)note(cudaMemcpyAsync(to, host, len, cudaMemcpyHostToDevice, stream),
               "copy to the GPU");
}

static void cuda_get(void *host, const void *from, size_t len)
{
    (void)note(cudaMemcpyAsync(host, from, len, cudaMemcpyDeviceToHost, stream),
               "copy from the GPU");
    (void)note(cudaStreamSynchronize(stream), "the GPU");
}

/* Room for what a few kernels leave for the next: it only grows. NULL is
 * noted, and the caller leaves its work undone. */
static double *scratch(size_t n)
{
    static double *room;
    static size_t has;
    if (n <= has)
        return room;
    cuda_free(room);
    void *p = NULL;
    has = note(cudaMalloc(&p, n * sizeof(*room)), "memory for sums") ? n : 0;
    room = (double *)p;
    return room;
}

/* -- shapes of the launches ------------------------------------------------ */

#define THREADS 256

/* Each i below n is somebody's. */
#define EACH(i, n)                                                             \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (n);    \
         i += (size_t)gridDim.x * blockDim.x)

static unsigned blocks(size_t n)
{
    size_t b = (n + THREADS - 1) / THREADS;
    return (unsigned)(b == 0 ? 1 : b > 8192 ? 8192 : b);
}

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
    size_t n = (size_t)blockIdx.y * TILE + x;
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

static void load_blas(void)
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
    blas.found = blas.create != NULL && blas.set_stream != NULL &&
                 blas.sgemm != NULL &&
                 blas.create(&blas.handle) == CUBLAS_STATUS_SUCCESS &&
                 blas.set_stream(blas.handle, stream) == CUBLAS_STATUS_SUCCESS;
    blas.used = blas.found;
}

/* cuBLAS has columns where we have rows: it is given the transposed problem,
 * which is the same bytes, b times a. */
static bool blas_multiply(float *out,
                          const float *a,
                          bool a_turned,
                          const float *b,
                          bool b_turned,
                          size_t M,
                          size_t N,
                          size_t K)
{
    const float one = 1.0f, zero = 0.0f;
    if (!blas.used)
        return false;
    cublasStatus_t rc = blas.sgemm(
        blas.handle, b_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
        a_turned ? CUBLAS_OP_T : CUBLAS_OP_N, (int)N, (int)M, (int)K, &one, b,
        (int)(b_turned ? K : N), a, (int)(a_turned ? M : K), &zero, out, (int)N);
    return note(rc == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown,
                "cublasSgemm");
}

bool device_cuda_use_library(bool use)
{
    load_blas();
    blas.used = use && blas.found;
    return blas.used;
}
#else
static void load_blas(void)
{
}

static bool blas_multiply(float *,
                          const float *,
                          bool,
                          const float *,
                          bool,
                          size_t,
                          size_t,
                          size_t)
{
    return false;
}

bool device_cuda_use_library(bool)
{
    return false;
}
#endif

/* out (M,N) = a times b over K; `a` is (M,K), or (K,M) if `a_turned`; b (K,N),
 * or (N,K). */
static void multiply(float *out,
                     const float *a,
                     bool a_turned,
                     const float *b,
                     bool b_turned,
                     size_t M,
                     size_t N,
                     size_t K)
{
    if (blas_multiply(out, a, a_turned, b, b_turned, M, N, K))
        return;
    dim3 grid((unsigned)((M + TILE - 1) / TILE),
              (unsigned)((N + TILE - 1) / TILE));
    LAUNCH(matmul, grid, dim3(TILE, TILE), out, a, a_turned ? (size_t)1 : K,
           a_turned ? M : (size_t)1, b, b_turned ? (size_t)1 : N,
           b_turned ? K : (size_t)1, M, N, K);
}

/* -- sums of columns ------------------------------------------------------- */

/*
 * Two sums over the rows of something (N,C), for each column: every block takes
 * a slice of the rows and 32 columns, then one thread for each column adds up
 * the slices. `F` says what is summed, `G` what becomes of it.
 */
#define COLUMNS    32
#define ROWS       8
#define SLICES_MAX 128

struct pair {
    double a;
    double b;
};

template <class F>
__global__ void slice_sums(pair *part, F f, size_t N, size_t C)
{
    __shared__ pair sums[ROWS][COLUMNS];
    unsigned x = threadIdx.x, y = threadIdx.y;
    size_t c = (size_t)blockIdx.y * COLUMNS + x;
    size_t from = N * blockIdx.x / gridDim.x;
    size_t to = N * (blockIdx.x + 1) / gridDim.x;
    pair sum = {0.0, 0.0};
    for (size_t n = from + y; n < to && c < C; n += ROWS) {
        pair p = f(n, c);
        sum.a += p.a;
        sum.b += p.b;
    }
    sums[y][x] = sum;
    __syncthreads();
    for (unsigned i = 1; y == 0 && i < ROWS; i++) {
        sum.a += sums[i][x].a;
        sum.b += sums[i][x].b;
    }
    if (y == 0 && c < C)
        part[blockIdx.x * C + c] = sum;
}

template <class G>
__global__ void add_slices(G g, const pair *part, unsigned slices, size_t C)
{
    EACH(c, C)
    {
        pair sum = {0.0, 0.0};
        for (unsigned i = 0; i < slices; i++) {
            sum.a += part[i * C + c].a;
            sum.b += part[i * C + c].b;
        }
        g(c, sum);
    }
}

template <class F, class G> static void columns(F f, G g, size_t N, size_t C)
{
    size_t slices = (N + 127) / 128;
    slices = slices == 0 ? 1 : slices > SLICES_MAX ? SLICES_MAX : slices;
    pair *part = (pair *)scratch(2 * slices * C);
    if (part == NULL)
        return;
    dim3 grid((unsigned)slices, (unsigned)((C + COLUMNS - 1) / COLUMNS));
    LAUNCH(slice_sums, grid, dim3(COLUMNS, ROWS), part, f, N, C);
    LAUNCH(add_slices, blocks(C), THREADS, g, part, (unsigned)slices, C);
}

/* -- linear layers --------------------------------------------------------- */

__global__ void add_bias(float *out, const float *b, size_t n, size_t O)
{
    EACH(i, n)
    out[i] += b[i % O];
}

static void linear_forward(float *out,
                           const float *x,
                           const float *w,
                           const float *b,
                           size_t B,
                           size_t I,
                           size_t O)
{
    multiply(out, x, false, w, true, B, O, I);
    LAUNCH(add_bias, blocks(B * O), THREADS, out, b, B * O, O);
}

struct element {
    const float *x;
    size_t C;
    __device__ pair operator()(size_t n, size_t c) const
    {
        return pair{(double)x[n * C + c], 0.0};
    }
};

struct as_sum {
    float *to;
    __device__ void operator()(size_t c, pair s) const
    {
        to[c] = (float)s.a;
    }
};

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
    columns(element{dout, O}, as_sum{db}, B, O);
}

__global__ void relu(float *out, const float *x, size_t n)
{
    EACH(i, n)
    out[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

static void relu_forward(float *out, const float *x, size_t n)
{
    LAUNCH(relu, blocks(n), THREADS, out, x, n);
}

__global__ void relu_back(float *dx, const float *d, const float *out, size_t n)
{
    EACH(i, n)
    dx[i] = out[i] > 0.0f ? d[i] : 0.0f;
}

static void
relu_backward(float *dx, const float *dout, const float *out, size_t n)
{
    LAUNCH(relu_back, blocks(n), THREADS, dx, dout, out, n);
}

/* -- losses ---------------------------------------------------------------- */

/* A row is one thread's: there are few classes. loss (B), hit (B). */
__global__ void softmax(double *loss,
                        double *hit,
                        float *dlogits,
                        const float *logits,
                        const uint8_t *labels,
                        float scale,
                        size_t B,
                        size_t C)
{
    EACH(s, B)
    {
        const float *row = logits + s * C;
        size_t best = 0, label = labels[s];
        for (size_t c = 1; c < C; c++)
            if (row[c] > row[best])
                best = c;
        float sum = 0.0f, most = row[best];
        for (size_t c = 0; c < C; c++)
            sum += expf(row[c] - most);
        hit[s] = best == label ? 1.0 : 0.0;
        loss[s] = (double)(logf(sum) - (row[label] - most));
        for (size_t c = 0; dlogits != NULL && c < C; c++) {
            float p = expf(row[c] - most) / sum;
            dlogits[s * C + c] = scale * (p - (c == label ? 1.0f : 0.0f));
        }
    }
}

__global__ void squares(double *loss,
                        double *hit,
                        float *dout,
                        const float *out,
                        const float *y,
                        float scale,
                        size_t n,
                        size_t O)
{
    EACH(i, n)
    {
        float diff = out[i] - y[i];
        loss[i] = (double)diff * (double)diff;
        hit[i] = 0.0;
        if (dout != NULL)
            dout[i] = scale * 2.0f * diff / (float)O;
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
    double *room = scratch(2 + 2 * n);
    return scores{(pair *)room, room + 2, room + 2 + n};
}

static struct ops_score add_up(scores r, size_t n)
{
    pair sum = {0.0, 0.0};
    struct ops_score score = {0.0, 0};
    LAUNCH(total, 1, THREADS, r.sum, r.loss, r.hit, n);
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
    LAUNCH(softmax, blocks(B), THREADS, r.loss, r.hit, dlogits, logits, labels,
           scale, B, C);
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
    LAUNCH(squares, blocks(B * O), THREADS, r.loss, r.hit, dout, out, y, scale,
           B * O, O);
    struct ops_score s = add_up(r, B * O);
    s.loss /= (double)O;
    return s;
}

/* -- convolutions ---------------------------------------------------------- */

#define WINDOW 3
#define PATCH  (WINDOW * WINDOW)

__global__ void gather_patches(
    float *patches, const float *x, size_t n, size_t H, size_t W, size_t C)
{
    size_t H2 = H - 2, W2 = W - 2;
    EACH(i, n)
    {
        size_t c = i % C, k = i / C % PATCH, at = i / C / PATCH;
        size_t w = at % W2, h = at / W2 % H2, s = at / W2 / H2;
        patches[i] =
            x[((s * H + h + k / WINDOW) * W + w + k % WINDOW) * C + c];
    }
}

static void patches(
    float *to, const float *x, size_t B, size_t H, size_t W, size_t C)
{
    size_t n = B * (H - 2) * (W - 2) * PATCH * C;
    LAUNCH(gather_patches, blocks(n), THREADS, to, x, n, H, W, C);
}

/* Each pixel collects what the windows over it have for it, in the order in
 * which ops_conv adds. */
__global__ void collect_patches(
    float *dx, const float *dpatches, size_t n, size_t H, size_t W, size_t C)
{
    size_t H2 = H - 2, W2 = W - 2;
    EACH(i, n)
    {
        size_t c = i % C, x = i / C % W, y = i / C / W % H, s = i / C / W / H;
        float sum = 0.0f;
        for (size_t kh = WINDOW; kh-- > 0;)
            for (size_t kw = WINDOW; kw-- > 0;) {
                if (kh > y || kw > x || y - kh >= H2 || x - kw >= W2)
                    continue;
                size_t at = (s * H2 + y - kh) * W2 + x - kw;
                sum += dpatches[(at * PATCH + kh * WINDOW + kw) * C + c];
            }
        dx[i] = sum;
    }
}

static void patches_backward(
    float *dx, const float *dpatches, size_t B, size_t H, size_t W, size_t C)
{
    size_t n = B * H * W * C;
    LAUNCH(collect_patches, blocks(n), THREADS, dx, dpatches, n, H, W, C);
}

__global__ void transpose(float *out, const float *x, size_t n, size_t P, size_t C)
{
    EACH(i, n)
    {
        size_t p = i % P, c = i / P % C, s = i / P / C;
        out[i] = x[(s * P + p) * C + c];
    }
}

static void turn(float *out, const float *x, size_t B, size_t P, size_t C)
{
    LAUNCH(transpose, blocks(B * P * C), THREADS, out, x, B * P * C, P, C);
}

/* -- batch norm ------------------------------------------------------------ */

#define NORM_EPS 1e-5

struct as_mean {
    float *mean;
    size_t N;
    __device__ void operator()(size_t c, pair s) const
    {
        mean[c] = (float)(s.a / (double)N);
    }
};

struct deviation {
    const float *x;
    const float *mean;
    size_t C;
    __device__ pair operator()(size_t n, size_t c) const
    {
        float d = x[n * C + c] - mean[c];
        return pair{(double)(d * d), 0.0};
    }
};

struct as_scale {
    float *scale;
    float *var;
    size_t N;
    __device__ void operator()(size_t c, pair s) const
    {
        scale[c] = (float)(1.0 / sqrt(s.a / (double)N + NORM_EPS));
        var[c] = (float)(s.a / (double)(N - 1));
    }
};

__global__ void normalize(float *out,
                          float *xhat,
                          const float *x,
                          const float *mean,
                          const float *scale,
                          const float *gamma,
                          const float *beta,
                          size_t n,
                          size_t C)
{
    EACH(i, n)
    {
        size_t c = i % C;
        float v = (x[i] - mean[c]) * scale[c];
        xhat[i] = v;
        out[i] = gamma[c] * v + beta[c];
    }
}

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
    columns(element{x, C}, as_mean{mean, N}, N, C);
    columns(deviation{x, mean, C}, as_scale{scale, var, N}, N, C);
    LAUNCH(normalize, blocks(N * C), THREADS, out, xhat, x, mean, scale, gamma,
           beta, N * C, C);
}

struct products {
    const float *dout;
    const float *xhat;
    size_t C;
    __device__ pair operator()(size_t n, size_t c) const
    {
        float d = dout[n * C + c];
        return pair{(double)(d * xhat[n * C + c]), (double)d};
    }
};

struct as_two {
    float *a;
    float *b;
    __device__ void operator()(size_t c, pair s) const
    {
        a[c] = (float)s.a;
        b[c] = (float)s.b;
    }
};

__global__ void norm_back(float *dx,
                          const float *dgamma,
                          const float *dbeta,
                          const float *dout,
                          const float *xhat,
                          const float *scale,
                          const float *gamma,
                          size_t N,
                          size_t C)
{
    EACH(i, N * C)
    {
        size_t c = i % C;
        float g = (float)((double)dgamma[c] / (double)N);
        float b = (float)((double)dbeta[c] / (double)N);
        dx[i] = gamma[c] * scale[c] * (dout[i] - b - xhat[i] * g);
    }
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
    columns(products{dout, xhat, C}, as_two{dgamma, dbeta}, N, C);
    LAUNCH(norm_back, blocks(N * C), THREADS, dx, dgamma, dbeta, dout, xhat,
           scale, gamma, N, C);
}

__global__ void infer(float *out,
                      const float *x,
                      const float *stats,
                      const float *gamma,
                      const float *beta,
                      size_t n,
                      size_t C)
{
    EACH(i, n)
    {
        size_t c = i % C;
        float f = gamma[c] / sqrtf(stats[C + c] + (float)NORM_EPS);
        out[i] = (x[i] - stats[c]) * f + beta[c];
    }
}

static void norm_infer(float *out,
                       const float *x,
                       const float *stats,
                       const float *gamma,
                       const float *beta,
                       size_t N,
                       size_t C)
{
    LAUNCH(infer, blocks(N * C), THREADS, out, x, stats, gamma, beta, N * C, C);
}

/* -- max-pool -------------------------------------------------------------- */

/* The first pixel of the four that output i is the largest of. */
__device__ static size_t
corner(size_t i, size_t H, size_t W, size_t C)
{
    size_t W2 = W / 2, H2 = H / 2, c = i % C;
    size_t w = i / C % W2, h = i / C / W2 % H2, s = i / C / W2 / H2;
    return ((s * H + 2 * h) * W + 2 * w) * C + c;
}

__global__ void pool(float *out,
                     uint8_t *which,
                     const float *x,
                     size_t n,
                     size_t H,
                     size_t W,
                     size_t C)
{
    EACH(i, n)
    {
        size_t at = corner(i, H, W, C);
        size_t to[4] = {at, at + C, at + W * C, at + W * C + C};
        uint8_t best = 0;
        for (uint8_t k = 1; k < 4; k++)
            if (x[to[k]] > x[to[best]])
                best = k;
        out[i] = x[to[best]];
        which[i] = best;
    }
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
    LAUNCH(pool, blocks(n), THREADS, out, which, x, n, H, W, C);
}

__global__ void pool_back(float *dx,
                          const float *dout,
                          const uint8_t *which,
                          size_t n,
                          size_t H,
                          size_t W,
                          size_t C)
{
    EACH(i, n)
    {
        size_t at = corner(i, H, W, C), k = which[i];
        dx[at + (k / 2) * W * C + (k % 2) * C] = dout[i];
    }
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
    (void)note(cudaMemsetAsync(dx, 0, B * H * W * C * sizeof(*dx), stream),
               "memset");
    LAUNCH(pool_back, blocks(n), THREADS, dx, dout, which, n, H, W, C);
}

/* -- optimizers, and what else there is ------------------------------------ */

__global__ void scale_by(float *p, size_t n, float f)
{
    EACH(i, n)
    p[i] *= f;
}

static void scale(float *p, size_t n, float f)
{
    LAUNCH(scale_by, blocks(n), THREADS, p, n, f);
}

__global__ void approach_by(float *to, const float *from, size_t n, float f)
{
    EACH(i, n)
    to[i] = (1.0f - f) * to[i] + f * from[i];
}

static void approach(float *to, const float *from, size_t n, float f)
{
    LAUNCH(approach_by, blocks(n), THREADS, to, from, n, f);
}

__global__ void sgd_step(float *p, const float *g, size_t n, float lr)
{
    EACH(i, n)
    p[i] -= lr * g[i];
}

static void sgd(float *p, const float *g, size_t n, float lr)
{
    LAUNCH(sgd_step, blocks(n), THREADS, p, g, n, lr);
}

__global__ void momentum_step(
    float *p, const float *g, float *m, size_t n, float lr, float keep)
{
    EACH(i, n)
    {
        m[i] = keep * m[i] + g[i];
        p[i] -= lr * m[i];
    }
}

static void momentum(
    float *p, const float *g, float *m, size_t n, float lr, float keep)
{
    LAUNCH(momentum_step, blocks(n), THREADS, p, g, m, n, lr, keep);
}

__global__ void adam_step(
    float *p, const float *g, float *m, float *v, size_t n, float lr, float fix)
{
    const float b1 = DEVICE_ADAM_BETA1, b2 = DEVICE_ADAM_BETA2;
    EACH(i, n)
    {
        m[i] = b1 * m[i] + (1.0f - b1) * g[i];
        v[i] = b2 * v[i] + (1.0f - b2) * g[i] * g[i];
        p[i] -= lr * m[i] / (sqrtf(v[i]) * fix + DEVICE_ADAM_EPS);
    }
}

static void adam(
    float *p, const float *g, float *m, float *v, size_t n, float lr, float fix)
{
    LAUNCH(adam_step, blocks(n), THREADS, p, g, m, v, n, lr, fix);
}

__global__ void adadelta_step(
    float *p, const float *g, float *v, float *u, size_t n, float lr)
{
    const float rho = DEVICE_DELTA_RHO, eps = DEVICE_DELTA_EPS;
    EACH(i, n)
    {
        v[i] = rho * v[i] + (1.0f - rho) * g[i] * g[i];
        float step = sqrtf(u[i] + eps) / sqrtf(v[i] + eps) * g[i];
        u[i] = rho * u[i] + (1.0f - rho) * step * step;
        p[i] -= lr * step;
    }
}

static void adadelta(
    float *p, const float *g, float *v, float *u, size_t n, float lr)
{
    LAUNCH(adadelta_step, blocks(n), THREADS, p, g, v, u, n, lr);
}

/* -- the device ------------------------------------------------------------ */

static void fill_ops(struct device_ops *o)
{
    o->linear_forward = linear_forward;
    o->linear_backward = linear_backward;
    o->relu_forward = relu_forward;
    o->relu_backward = relu_backward;
    o->softmax_xent = softmax_xent;
    o->mse = mse;
    o->patches = patches;
    o->patches_backward = patches_backward;
    o->norm_forward = norm_forward;
    o->norm_backward = norm_backward;
    o->norm_infer = norm_infer;
    o->pool_forward = pool_forward;
    o->pool_backward = pool_backward;
    o->turn = turn;
    o->scale = scale;
    o->approach = approach;
    o->sgd = sgd;
    o->momentum = momentum;
    o->adam = adam;
    o->adadelta = adadelta;
}

/* Any error of the first call means that there is no GPU: without a driver it
 * is cudaErrorInsufficientDriver, and the count stays as it was. */
static int choose(struct device *d, int local_rank, struct ddp_error *err)
{
    static struct cudaDeviceProp prop;
    int count = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);
    if (rc == cudaErrorInsufficientDriver)
        return set_error(err, DDP_ERR_CONFIG, "no GPU can be used",
                         "there is no NVIDIA driver on this machine, or it is "
                         "older than the CUDA that ddptrain was built with");
    if (rc != cudaSuccess || count < 1)
        return set_error(err, DDP_ERR_CONFIG, "no GPU can be used",
                         rc == cudaSuccess ? "this machine has none"
                                           : cudaGetErrorString(rc));
    rc = cudaSetDevice(local_rank % count);
    if (rc == cudaSuccess)
        rc = cudaGetDeviceProperties(&prop, local_rank % count);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (rc != cudaSuccess)
        return set_error(err, DDP_ERR_CONFIG, "the GPU cannot be used",
                         cudaGetErrorString(rc));
    (void)snprintf(d->name, sizeof(d->name), "%.120s", prop.name);
    static_assert(sizeof(prop.uuid) == sizeof(d->id), "16 bytes");
    memcpy(d->id, &prop.uuid, sizeof(d->id));
    return 0;
}

const struct device *device_cuda(int local_rank, struct ddp_error *err)
{
    static struct device d;
    if (d.gpu)
        return &d;
    if (choose(&d, local_rank, err) != 0)
        return NULL;
    load_blas();
    fill_ops(&d.ops);
    d.gpu = true;
    d.stream = stream;
    d.alloc = cuda_alloc;
    d.free = cuda_free;
    d.put = cuda_put;
    d.get = cuda_get;
    d.check = cuda_check;
    return &d;
}
