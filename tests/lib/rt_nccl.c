#include "tests/lib/rt_nccl.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "tests/lib/rt_world.h"

static void *function(const char *lib, const char *name)
{
    void *handle = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    RT_CHECK(handle != NULL);
    void *found = dlsym(handle, name);
    RT_CHECK(found != NULL);
    return found;
}

struct fake_cuda *rt_cuda(void)
{
    struct fake_cuda *(*get)(void);
    void *found = function("libcuda.so.1", "fake_cuda");
    memcpy(&get, &found, sizeof(found));
    return get();
}

struct fake_nccl *rt_nccl(void)
{
    struct fake_nccl *(*get)(void);
    void *found = function("libnccl.so.2", "fake_nccl");
    memcpy(&get, &found, sizeof(found));
    return get();
}

void *rt_device(size_t len)
{
    int (*alloc)(uintptr_t *, size_t);
    uintptr_t p = 0;
    void *found = function("libcuda.so.1", "cuMemAlloc_v2");
    memcpy(&alloc, &found, sizeof(found));
    RT_CHECK(alloc(&p, len) == 0);
    return (void *)p;
}

void *rt_shadow(void *p)
{
    void *(*get)(const void *);
    void *found = function("libcuda.so.1", "fake_shadow");
    memcpy(&get, &found, sizeof(found));
    return get(p);
}

struct ddp_comm *
rt_try_nccl(struct ddp *d, struct ddp_comm_opts opts, struct ddp_error *e)
{
    opts.kind = DDP_COMM_NCCL;
    if (opts.init_timeout_ms == 0)
        opts.init_timeout_ms = 5000;
    return ddp_comm_new(d, &opts, e);
}

struct ddp_comm *rt_join_nccl(struct ddp *d, struct ddp_comm_opts opts)
{
    struct ddp_error e;
    struct ddp_comm *c = rt_try_nccl(d, opts, &e);
    RT_OK(c == NULL ? -1 : 0, e);
    return c;
}
