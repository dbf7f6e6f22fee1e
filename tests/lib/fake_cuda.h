/*
 * tests/lib/fake_cuda: a libcuda.so.1 for machines without a GPU, with as much
 * of the driver as worker_rt/gpu asks for. Whoever touches device memory is
 * killed by SIGSEGV, as on a real machine: the library itself reaches its bytes
 * through a second mapping, its shadow. A stream is a queue whose operations
 * are done no sooner than somebody asks for them, so whoever forgets to wait
 * finds old data.
 *
 * A fault stops all streams for good at one operation, which is not done. As
 * with a real GPU the program hears of that late and from the wrong call: from
 * any that comes `late` calls later, and from every one after that.
 *
 * A test that has the folder build/tests/lib in its run path gets it by
 * dlopen("libcuda.so.1"), and these functions by dlsym.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>

/* Tries to go on; whether it is done. Under the library's lock. */
typedef bool fake_op_fn(void *arg);

/* `arg` is freed when it is done or dropped. */
void fake_stream_push(void *stream, fake_op_fn *op, void *arg);

/* Ends the operations whose function is `op`, and for which `which` is true,
 * without doing them. Returns how many that were. */
typedef bool fake_which_fn(const void *arg, const void *ctx);
int fake_stream_drop(fake_op_fn *op, fake_which_fn *which, const void *ctx);

/* How many operations of `op` with `which` wait on any stream. */
int fake_stream_count(fake_op_fn *op, fake_which_fn *which, const void *ctx);

/* Where the bytes of this address lie: those of device memory in its shadow,
 * others where they are. */
void *fake_shadow(const void *p);

/* For a kernel that is emulated by code for the host: while it is open, device
 * memory can be touched. */
void fake_device_open(bool open);

/* A new device, with nothing on it or under way, and all knobs as at first. */
void fake_cuda_reset(void);

struct fake_cuda {
    bool no_pin;    /* pages cannot be locked .. */
    bool no_memory; /* .. and the device is full */
    bool broken;    /* every call fails */
    bool no_context;
    int pace;     /* operations done at most when somebody asks; 0: any */
    int fault_at; /* which operation from now on faults, from 1; 0: none */
    int late;     /* calls after a fault that do not know of it */
    bool faulted;
    size_t pinned;       /* bytes that are locked now */
    size_t held;         /* bytes of device memory that are handed out */
    int unpinned_copies; /* from the device to memory that is not locked */
};

struct fake_cuda *fake_cuda(void);

#endif
