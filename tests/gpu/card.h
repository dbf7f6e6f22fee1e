/*
 * tests/gpu/card: the first GPU of a machine, by the driver alone. So the
 * programs that measure it need no toolkit, and run on the stand-in driver
 * (tests/lib/fake_cuda) as they are.
 */
#ifndef GPU_CARD_H
#define GPU_CARD_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARD_NO_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */

/* The driver's functions, without "cu"; see cuda.h. */
static struct card {
    int (*Init)(unsigned flags);
    int (*DeviceGet)(int *device, int number);
    int (*DeviceGetName)(char *name, int len, int device);
    int (*DevicePrimaryCtxRetain)(void **ctx, int device);
    int (*CtxSetCurrent)(void *ctx);
    int (*MemAlloc_v2)(uintptr_t *p, size_t len);
    int (*MemsetD8Async)(uintptr_t p, uint8_t byte, size_t len, void *stream);
    int (*MemcpyHtoDAsync_v2)(uintptr_t p,
                              const void *from,
                              size_t len,
                              void *);
    int (*StreamCreate)(void **stream, unsigned flags);
    int (*StreamSynchronize)(void *stream);
    char name[128];
} card;

/* Ends the program where that call of the driver failed. */
static inline void card_ok(int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "the driver failed with CUDA error %d\n", rc);
    exit(1);
}

static inline void card_find(void *lib, const char *name, void *function)
{
    void *found = dlsym(lib, name);
    if (found == NULL) {
        fprintf(stderr, "libcuda.so.1 has no %s\n", name);
        exit(1);
    }
    memcpy(function, &found, sizeof(found)); /* POSIX lets this be done */
}

/* Chooses it, as cudaSetDevice(0) does. Without one it says so and ends the
 * program with status 77. */
static inline void card_open(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int device = 0;
    void *ctx = NULL;
    if (lib == NULL) {
        puts("skipped: there is no NVIDIA driver");
        exit(77);
    }
#define FIND(name) card_find(lib, "cu" #name, &card.name)
    FIND(Init);
    FIND(DeviceGet);
    FIND(DeviceGetName);
    FIND(DevicePrimaryCtxRetain);
    FIND(CtxSetCurrent);
    FIND(MemAlloc_v2);
    FIND(MemsetD8Async);
    FIND(MemcpyHtoDAsync_v2);
    FIND(StreamCreate);
    FIND(StreamSynchronize);
#undef FIND
    if (card.Init(0) != 0 || card.DeviceGet(&device, 0) != 0) {
        puts("skipped: the NVIDIA driver has no GPU");
        exit(77);
    }
    card_ok(card.DeviceGetName(card.name, sizeof(card.name), device));
    card_ok(card.DevicePrimaryCtxRetain(&ctx, device));
    card_ok(card.CtxSetCurrent(ctx));
}

/* Device memory, all of it `byte`; never given back. */
static inline void *card_alloc(size_t len, uint8_t byte)
{
    uintptr_t p = 0;
    card_ok(card.MemAlloc_v2(&p, len));
    card_ok(card.MemsetD8Async(p, byte, len, NULL));
    card_ok(card.StreamSynchronize(NULL));
    return (void *)p;
}

static inline void *card_stream(void)
{
    void *stream = NULL;
    card_ok(card.StreamCreate(&stream, CARD_NO_BLOCKING));
    return stream;
}

#endif
