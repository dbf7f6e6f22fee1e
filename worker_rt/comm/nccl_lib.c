#ifndef DDP_NCCL /* the Makefile found no nccl.h */
typedef int nccl_lib_is_empty;
#else

#include "worker_rt/comm/nccl_wait.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rendezvous/base/mono.h"
#include "worker_rt/rt.h"

#define NAP_NS  (20 * 1000)

/* -- loading --------------------------------------------------------------- */

static struct nccl_lib nccl;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static struct ddp_err why_not;

static bool find(void *lib, const char *name, void *function)
{
    void *found = dlsym(lib, name);
    memcpy(function, &found, sizeof(found)); /* POSIX lets this be done */
    if (found == NULL)
        (void)ddp_err_set(&why_not, DDP_E_CONFIG,
                          "NCCL is too old (it has no %s): 2.23 or newer is "
                          "needed",
                          name);
    return found != NULL;
}

static void load(void)
{
    const char *path = getenv("DDP_NCCL_LIBRARY");
    if (path == NULL || path[0] == '\0')
        path = "libnccl.so.2";
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        (void)ddp_err_set(&why_not, DDP_E_CONFIG,
                          "cannot load NCCL (%.200s): put its folder into "
                          "LD_LIBRARY_PATH, or the file's name into "
                          "DDP_NCCL_LIBRARY",
                          dlerror());
        return;
    }
    loaded = true;
#define X(name) loaded = loaded && find(lib, "nccl" #name, &nccl.name);
    NCCL_FUNCTIONS(X)
#undef X
}

const struct nccl_lib *nccl_lib_load(struct ddp_err *err)
{
    (void)pthread_once(&once, load); /* cannot fail on a valid control */
    if (loaded)
        return &nccl;
    *err = why_not;
    return NULL;
}

/* -- abort ----------------------------------------------------------------- */

struct abortion {
    atomic_int owners; /* the last one frees it */
    atomic_bool done;
    size_t n;
    ncclComm_t *comms; /* owned */
};

static void let_go(struct abortion *a)
{
    if (atomic_fetch_sub(&a->owners, 1) != 1)
        return;
    free(a->comms);
    free(a);
}

/* Nothing more can be done about what goes wrong here. */
static void abort_group(ncclComm_t *comms, size_t n)
{
    if (n > 1)
        (void)nccl.GroupStart();
    for (size_t i = 0; i < n; i++)
        (void)nccl.CommAbort(comms[i]);
    if (n > 1)
        (void)nccl.GroupEnd();
}

static void *abort_main(void *arg)
{
    struct abortion *a = arg;
    abort_group(a->comms, a->n);
    atomic_store(&a->done, true);
    let_go(a);
    return NULL;
}

bool nccl_lib_abort(ncclComm_t *comms, size_t n, int64_t within_us)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int64_t until_us = mono_now_us() + within_us;
    pthread_t thread;
    struct abortion *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        abort_group(comms, n);
        free(comms);
        return true;
    }
    *a = (struct abortion){.n = n, .comms = comms};
    atomic_store(&a->owners, 2);
    if (rt_start_thread(&thread, abort_main, a) == 0)
        (void)pthread_detach(thread);
    else
        (void)abort_main(a);
    while (!atomic_load(&a->done) && mono_now_us() < until_us)
        (void)nanosleep(&nap, NULL); /* a signal may cut it short */
    bool done = atomic_load(&a->done);
    let_go(a);
    return done;
}

#endif
