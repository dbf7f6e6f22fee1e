/*
 * trainer/ops/cuda: the device of a GPU: its errors, its memory, which one it
 * is.
 */
#include "trainer/ops/cuda.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cudaStream_t cuda_stream;

/* -- errors ---------------------------------------------------------------- */

static cudaError_t failed = cudaSuccess; /* the first since the last check */
static const char *failed_in = "";

bool cuda_note(cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess && failed == cudaSuccess) {
        failed = rc;
        failed_in = what;
    }
    return rc == cudaSuccess;
}

static int
set_error(struct ddp_error *err, int code, const char *what, const char *why)
{
    err->code = code;
    err->sys_errno = 0;
    (void)snprintf(err->text, sizeof(err->text), "%s: %s", what, why);
    return -1;
}

static int cuda_noted(struct ddp_error *err)
{
    if (failed == cudaSuccess)
        return 0;
    (void)set_error(err, DDP_ERR_IO, failed_in, cudaGetErrorString(failed));
    failed = cudaSuccess;
    return -1;
}

static int cuda_check(struct ddp_error *err)
{
    (void)cuda_note(cudaStreamSynchronize(cuda_stream), "the GPU");
    return cuda_noted(err);
}

/* -- memory ---------------------------------------------------------------- */

static void *cuda_alloc(size_t len)
{
    void *p = NULL;
    if (cudaMalloc(&p, len) != cudaSuccess) {
        (void)cudaGetLastError(); /* told by NULL */
        return NULL;
    }
    (void)cuda_note(cudaMemsetAsync(p, 0, len, cuda_stream), "memset");
    return p;
}

static void cuda_free(void *p)
{
    (void)cuda_note(cudaFree(p), "free");
}

static void cuda_put(void *to, const void *host, size_t len)
{
    (void)cuda_note(
        cudaMemcpyAsync(to, host, len, cudaMemcpyHostToDevice, cuda_stream),
        "copy to the GPU");
}

void cuda_get(void *host, const void *from, size_t len)
{
    (void)cuda_note(
        cudaMemcpyAsync(host, from, len, cudaMemcpyDeviceToHost, cuda_stream),
        "copy from the GPU");
    (void)cuda_note(cudaStreamSynchronize(cuda_stream), "the GPU");
}

double *cuda_scratch(size_t n)
{
    static double *room;
    static size_t has;
    if (n <= has)
        return room;
    cuda_free(room);
    void *p = NULL;
    has =
        cuda_note(cudaMalloc(&p, n * sizeof(*room)), "memory for sums") ? n : 0;
    room = (double *)p;
    return room;
}

/* -- the device ------------------------------------------------------------ */

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
        rc = cudaStreamCreateWithFlags(&cuda_stream, cudaStreamNonBlocking);
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
    cuda_load_blas();
    cuda_fill_linear(&d.ops);
    cuda_fill_conv(&d.ops);
    cuda_fill_optim(&d.ops);
    d.gpu = true;
    d.stream = cuda_stream;
    d.alloc = cuda_alloc;
    d.free = cuda_free;
    d.put = cuda_put;
    d.get = cuda_get;
    d.check = cuda_check;
    d.noted = cuda_noted;
    return &d;
}
