/*
 * tests/gpu/emulate: as much of CUDA as trainer/ops/cuda*.cu use, for a plain
 * C++ compiler, so that the kernels themselves are tested on machines without a
 * GPU. Blocks run one after the other; the threads of a block are coroutines
 * that take turns at __syncthreads(), in an order that changes with each
 * launch. Device memory is host memory, and all is done at once.
 *
 * Where tests/lib/fake_cuda is linked too, device memory is its, so that libddp
 * takes it for that, and what libddp put on a stream is done before what comes
 * here: whole programs run so, over tests/lib/fake_nccl as well.
 *
 * EMULATE_COUNT=1: how many kernels were launched stands on stderr at the end.
 * EMULATE_FAIL=n: the n-th is not launched, nor is any behind it, and the
 * runtime has an error to tell from then on.
 *
 * What it cannot show: anything about speed, about memory that is not coherent,
 * and races between the threads of a block that no order of turns brings out.
 */
#ifndef EMULATE_H
#define EMULATE_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csetjmp>
#include <ucontext.h>

#define EMULATED   1
#define __global__ static
#define __device__
#define __shared__ static /* one block at a time */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Where ASan is linked it wants to know on which stack we are. */
extern "C" {
__attribute__((weak)) void
__sanitizer_start_switch_fiber(void **kept, const void *bottom, size_t size);
__attribute__((weak)) void
__sanitizer_finish_switch_fiber(void *kept, const void **bottom, size_t *size);
}

namespace emulate
{
enum {
    THREADS_MAX = 1024,
    STACK = 32 * 1024,
    GRID_Y_MAX = 3 /* blocks in y or z; a GPU has 65,535 */
};

typedef void body_fn(void *);
/* A context starts a thread; jumps take turns, without a system call each. One
 * that came to its end is parked, and the next block of threads goes on with
 * it. */
inline ucontext_t threads[THREADS_MAX];
inline jmp_buf scheduler, waiting[THREADS_MAX];
inline bool started[THREADS_MAX];
inline bool parked[THREADS_MAX];
inline char *stacks;
inline bool done[THREADS_MAX];
inline unsigned current;
inline bool in_turns; /* else the thread runs without a stack of its own */
inline bool synced;   /* some thread of this block waited for the others */
inline body_fn *body;
inline void *argument;

/* The stack of the scheduler, as ASan knows it. */
inline const void *main_stack;
inline size_t main_stack_len;

inline void leave_for(const void *stack, size_t len)
{
    if (__sanitizer_start_switch_fiber != NULL)
        __sanitizer_start_switch_fiber(NULL, stack, len);
}

inline void arrive(const void **from, size_t *len)
{
    if (__sanitizer_finish_switch_fiber != NULL)
        __sanitizer_finish_switch_fiber(NULL, from, len);
}

inline dim3 place(unsigned i)
{
    return dim3(i % blockDim.x, i / blockDim.x % blockDim.y,
                i / blockDim.x / blockDim.y);
}

inline void wait_for_all()
{
    if (!in_turns) {
        fprintf(stderr, "emulate: not all threads of a block wait\n");
        abort();
    }
    synced = true;
    leave_for(main_stack, main_stack_len);
    if (_setjmp(waiting[current]) == 0)
        _longjmp(scheduler, 1);
    arrive(&main_stack, &main_stack_len);
}

inline void thread_main()
{
    for (;;) {
        arrive(&main_stack, &main_stack_len);
        body(argument);
        done[current] = parked[current] = true;
        leave_for(main_stack, main_stack_len);
        if (_setjmp(waiting[current]) == 0)
            _longjmp(scheduler, 1);
    }
}

inline void begin(unsigned i)
{
    if (stacks == NULL)
        stacks = (char *)malloc((size_t)THREADS_MAX * STACK);
    done[i] = false;
    if (parked[i]) {
        parked[i] = false;
        return;
    }
    started[i] = false;
    getcontext(&threads[i]);
    threads[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
    threads[i].uc_stack.ss_size = STACK;
    threads[i].uc_link = NULL; /* it never returns */
    makecontext(&threads[i], thread_main, 0);
}

inline void turn_of(unsigned i)
{
    current = i;
    threadIdx = place(i);
    leave_for(threads[i].uc_stack.ss_sp, STACK);
    if (_setjmp(scheduler) != 0) {
        arrive(NULL, NULL);
        return;
    }
    if (started[i])
        _longjmp(waiting[i], 1);
    started[i] = true;
    setcontext(&threads[i]);
}

/* All threads up to the next wait, then again. All must wait, or none. */
inline void run_in_turns(unsigned n, unsigned step)
{
    bool more = true;
    while (more) {
        unsigned ended = 0;
        for (unsigned k = 0; k < n; k++) {
            unsigned i = (unsigned)((size_t)k * step % n);
            turn_of(i);
            ended += done[i];
        }
        if (ended != 0 && ended != n) {
            fprintf(stderr, "emulate: not all threads of a block wait\n");
            abort();
        }
        more = ended == 0;
    }
}

/* The first thread of the first block shows whether this kernel waits at all:
 * if not, threads need no stacks, and this one is done. If it does, it begins
 * anew: before the first wait it has done no harm but to its own place in
 * shared memory. */
inline void look()
{
    in_turns = true;
    synced = false;
    begin(0);
    turn_of(0);
    in_turns = synced;
}

inline void run_block(unsigned n, unsigned step, unsigned first)
{
    if (in_turns) {
        for (unsigned i = 0; i < n; i++)
            begin(i);
        run_in_turns(n, step);
        return;
    }
    for (unsigned i = n; i-- > first;) {
        threadIdx = place(i);
        body(argument);
    }
}

inline void run(dim3 grid, dim3 block, body_fn *fn, void *arg)
{
    static unsigned launches;
    unsigned n = block.x * block.y * block.z;
    static const unsigned steps[] = {1, 3, 5, 7, 11, 13};
    unsigned step = steps[launches++ % 6];
    while (n % step == 0 && step != 1)
        step += 2;
    gridDim = grid;
    blockDim = block;
    body = fn;
    argument = arg;
    blockIdx = dim3(0, 0, 0);
    look();
    unsigned first = in_turns ? 0 : 1;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                run_block(n, step, first);
                first = 0;
            }
}

inline long launched; /* kernels */
inline bool failed;
inline bool too_large; /* a grid was, since somebody asked */

inline void tell_count()
{
    fprintf(stderr, "emulate: %ld kernels\n", launched);
}

inline bool can_launch()
{
    static const char *const at = getenv("EMULATE_FAIL");
    if (launched++ == 0 && getenv("EMULATE_COUNT") != NULL)
        atexit(tell_count);
    failed = failed || (at != NULL && launched >= atol(at));
    return !failed;
}

template <class F> inline void launch(dim3 grid, dim3 block, F f)
{
    if (!can_launch())
        return;
    too_large = too_large || grid.y > GRID_Y_MAX || grid.z > GRID_Y_MAX;
    if (too_large)
        return;
    run(
        grid, block, [](void *p) { (*(F *)p)(); }, &f);
}
} // namespace emulate

#define __syncthreads() emulate::wait_for_all()
#define LAUNCH(what, kernel, grid, block, ...)                                 \
    do {                                                                       \
        in_order();                                                            \
        device_access access;                                                  \
        emulate::launch((grid), (block), [=]() { kernel(__VA_ARGS__); });      \
        (void)cuda_note(cudaGetLastError(), what);                             \
    } while (0)

/* -- the runtime ----------------------------------------------------------- */

typedef void *cudaStream_t;
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorUnknown = 999
};
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost
};
enum {
    cudaStreamNonBlocking = 1
};

struct cudaDeviceProp {
    char name[256];
    char uuid[16];
};

extern "C" {
int cuMemAlloc_v2(uintptr_t *p, size_t len) __attribute__((weak));
int cuMemFree_v2(uintptr_t p) __attribute__((weak));
int cuStreamSynchronize(void *stream) __attribute__((weak));
void fake_device_open(bool open) __attribute__((weak));
}

/* Nobody but a kernel and a copy touches device memory. */
struct device_access {
    device_access()
    {
        if (fake_device_open != NULL)
            fake_device_open(true);
    }
    ~device_access()
    {
        if (fake_device_open != NULL)
            fake_device_open(false);
    }
};

static inline void in_order()
{
    if (cuStreamSynchronize != NULL)
        (void)cuStreamSynchronize(NULL);
}

static inline cudaError_t cudaMalloc(void **p, size_t len)
{
    uintptr_t at = 0;
    if (cuMemAlloc_v2 == NULL)
        *p = malloc(len);
    else
        *p = cuMemAlloc_v2(&at, len) == 0 ? (void *)at : NULL;
    device_access access;
    if (*p != NULL)
        memset(*p, 0xa5, len); /* nobody may rely on zeros */
    return *p != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

static inline cudaError_t cudaFree(void *p)
{
    if (cuMemFree_v2 == NULL)
        free(p);
    else if (p != NULL)
        (void)cuMemFree_v2((uintptr_t)p);
    return cudaSuccess;
}

static inline cudaError_t
cudaMemsetAsync(void *p, int value, size_t len, cudaStream_t)
{
    in_order();
    device_access access;
    memset(p, value, len);
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t len, cudaMemcpyKind, cudaStream_t)
{
    in_order();
    device_access access;
    memcpy(to, from, len);
    return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    if (emulate::failed)
        return cudaErrorUnknown;
    bool large = emulate::too_large;
    emulate::too_large = false;
    return large ? cudaErrorInvalidConfiguration : cudaSuccess;
}

static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = NULL;
    return cudaSuccess;
}

static inline cudaError_t cudaGetLastError()
{
    if (emulate::failed)
        return cudaErrorUnknown;
    bool large = emulate::too_large;
    emulate::too_large = false;
    return large ? cudaErrorInvalidConfiguration : cudaSuccess;
}

static inline const char *cudaGetErrorString(cudaError_t)
{
    return "an error";
}

static inline cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

static inline cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    snprintf(p->name, sizeof(p->name), "emulated");
    memset(p->uuid, 7, sizeof(p->uuid));
    return cudaSuccess;
}

#endif
