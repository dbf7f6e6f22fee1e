/*
 * tests/lib/fake_cuda: a libcuda.so.1 for machines without a GPU, with as much
 * of the driver as worker_rt/gpu asks for. Device memory is host memory that
 * it keeps a list of; a stream is a queue whose operations are done no sooner
 * than somebody asks for them, so whoever forgets to wait finds old data.
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

/* Ends the operations whose function is `op` without doing them. */
void fake_stream_drop(fake_op_fn *op);

struct fake_cuda {
    bool no_pin;    /* pages cannot be locked .. */
    bool no_memory; /* .. and the device is full */
    bool broken;    /* streams fail */
    bool no_context;
    size_t pinned;       /* bytes that are locked now */
    size_t held;         /* bytes of device memory that are handed out */
    int unpinned_copies; /* from the device to memory that is not locked */
};

struct fake_cuda *fake_cuda(void);

#endif
