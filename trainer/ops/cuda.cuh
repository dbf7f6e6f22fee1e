/*
 * trainer/ops/cuda: what the files of the CUDA half share. `cuda` is the device
 * itself, `cuda_linear`, `cuda_conv` and `cuda_optim` are its operations; they
 * mean what cpu.h, conv.h and device.h say.
 *
 * Every sum is taken in a fixed order (no atomics), so the same program on the
 * same kind of GPU gives the same bits on every run: a run that was resumed
 * ends like one that was not.
 *
 * The files are compiled by nvcc, and by a plain C++ compiler for the tests of
 * machines without a GPU (tests/gpu/emulate.h): hence LAUNCH.
 */
#ifndef TRAINER_OPS_CUDA_CUH
#define TRAINER_OPS_CUDA_CUH

#include "trainer/ops/device.h"

#ifndef EMULATED
#include <cuda_runtime.h>
#define LAUNCH(what, kernel, grid, block, ...)                                 \
    do {                                                                       \
        kernel<<<(grid), (block), 0, cuda_stream>>>(__VA_ARGS__);              \
        cuda_note(cudaGetLastError(), what);                                   \
    } while (0)
#endif

/* A grid has so many blocks in y at most: what has more takes turns. */
#ifdef EMULATED
#define GRID_Y_MAX ((size_t)emulate::GRID_Y_MAX)
#else
#define GRID_Y_MAX ((size_t)65535)
#endif

static inline unsigned grid_y(size_t n)
{
    return (unsigned)(n < GRID_Y_MAX ? n : GRID_Y_MAX);
}

/* On which all is done. */
extern cudaStream_t cuda_stream;

/* Remembers the first error since the last check; whether there was none. */
bool cuda_note(cudaError_t rc, const char *what);

void cuda_get(void *host, const void *from, size_t len);

/* Room for what a few kernels leave for the next: it only grows. NULL is noted,
 * and the caller leaves its work undone. */
double *cuda_scratch(size_t n);

/* cuBLAS, if there is one, and what each file can do. */
void cuda_load_blas(void);
void cuda_fill_linear(struct device_ops *o);
void cuda_fill_conv(struct device_ops *o);
void cuda_fill_optim(struct device_ops *o);

/* -- for each element ------------------------------------------------------ */

#define THREADS 256

/* Each i below n is somebody's. */
#define EACH(i, n)                                                             \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (n);    \
         i += (size_t)gridDim.x * blockDim.x)

static inline unsigned blocks(size_t n)
{
    size_t b = (n + THREADS - 1) / THREADS;
    return (unsigned)(b == 0 ? 1 : b > 8192 ? 8192 : b);
}

template <class F> __global__ void call_each(size_t n, F f)
{
    EACH(i, n)
    f(i);
}

/* f(i) for each i below n, all at once; f is a lambda of the device. */
template <class F> static void each(const char *what, size_t n, F f)
{
    LAUNCH(what, call_each, blocks(n), THREADS, n, f);
}

/* -- sums of columns ------------------------------------------------------- */

/*
 * Two sums over the rows of something (N,C), for each column: every block takes
 * a slice of the rows and 32 columns, then one thread for each column adds up
 * the slices. f(n, c) is what is summed, g(c, sums) what becomes of it.
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
    size_t from = N * blockIdx.x / gridDim.x;
    size_t to = N * (blockIdx.x + 1) / gridDim.x;
    for (size_t first = (size_t)blockIdx.y * COLUMNS; first < C;
         first += (size_t)gridDim.y * COLUMNS) {
        size_t c = first + x;
        pair sum = {0.0, 0.0};
        for (size_t n = from + y; n < to && c < C; n += ROWS) {
            pair p = f(n, c);
            sum.a += p.a;
            sum.b += p.b;
        }
        __syncthreads(); /* the last sums were added up */
        sums[y][x] = sum;
        __syncthreads();
        for (unsigned i = 1; y == 0 && i < ROWS; i++) {
            sum.a += sums[i][x].a;
            sum.b += sums[i][x].b;
        }
        if (y == 0 && c < C)
            part[blockIdx.x * C + c] = sum;
    }
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
    pair *part = (pair *)cuda_scratch(2 * slices * C);
    if (part == NULL)
        return;
    dim3 grid((unsigned)slices, grid_y((C + COLUMNS - 1) / COLUMNS));
    LAUNCH("sums of columns", slice_sums, grid, dim3(COLUMNS, ROWS), part, f, N,
           C);
    LAUNCH("sums of slices", add_slices, blocks(C), THREADS, g, part,
           (unsigned)slices, C);
}

#endif
