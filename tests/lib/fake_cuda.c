#include "tests/lib/fake_cuda.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPS     256
#define REGIONS 256
#define STREAMS 16
#define EVENTS  64

enum {
    SUCCESS = 0,
    INVALID = 1,
    NO_MEMORY = 2,
    NOT_READY = 600,
    BROKEN = 700
};

struct op {
    fake_op_fn *fn;
    void *arg;
};

struct stream {
    bool used;
    size_t n;
    struct op ops[OPS];
};

struct region {
    uint8_t *at; /* NULL: free */
    size_t len;
    uint8_t *shadow; /* of device memory */
};

static pthread_mutex_t lock;
static struct fake_cuda knobs;
static struct stream streams[STREAMS]; /* the first is the default one */
static struct region device[REGIONS], pinned[REGIONS];

__attribute__((constructor)) static void init(void)
{
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&lock, &attr);
}

struct fake_cuda *fake_cuda(void)
{
    return &knobs;
}

/* What a call answers that has nothing else to say. */
static int verdict(void)
{
    if (knobs.broken)
        return BROKEN;
    (void)pthread_mutex_lock(&lock);
    bool told = knobs.faulted && knobs.late-- <= 0;
    if (told)
        knobs.late = 0;
    (void)pthread_mutex_unlock(&lock);
    return told ? BROKEN : SUCCESS;
}

/* -- memory ---------------------------------------------------------------- */

static struct region *region_of(struct region *list, uintptr_t at, size_t len)
{
    for (size_t i = 0; i < REGIONS; i++) {
        uintptr_t from = (uintptr_t)list[i].at;
        if (from != 0 && at >= from && at + len <= from + list[i].len)
            return &list[i];
    }
    return NULL;
}

static int add_region(struct region *list, void *at, size_t len)
{
    for (size_t i = 0; i < REGIONS; i++)
        if (list[i].at == NULL) {
            list[i] = (struct region){.at = at, .len = len};
            return SUCCESS;
        }
    return NO_MEMORY;
}

int cuMemAlloc_v2(uintptr_t *p, size_t len);
int cuMemAlloc_v2(uintptr_t *p, size_t len)
{
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    if (knobs.no_memory)
        return NO_MEMORY;
    (void)pthread_mutex_lock(&lock);
    int fd = memfd_create("fake-device", MFD_CLOEXEC);
    void *at = MAP_FAILED, *shadow = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)len) == 0) {
        at = mmap(NULL, len, PROT_NONE, MAP_SHARED, fd, 0);
        shadow = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0)
        (void)close(fd);
    if (at == MAP_FAILED || shadow == MAP_FAILED ||
        add_region(device, at, len) != SUCCESS)
        abort(); /* a test needs more than this has */
    struct region *r = region_of(device, (uintptr_t)at, len);
    if (r != NULL)
        r->shadow = shadow;
    knobs.held += len;
    (void)pthread_mutex_unlock(&lock);
    *p = (uintptr_t)at;
    return SUCCESS;
}

static void give_back(struct region *r)
{
    knobs.held -= r->len;
    (void)munmap(r->at, r->len);
    (void)munmap(r->shadow, r->len);
    r->at = NULL;
}

int cuMemFree_v2(uintptr_t p);
int cuMemFree_v2(uintptr_t p)
{
    int rc = verdict();
    (void)pthread_mutex_lock(&lock);
    struct region *r = region_of(device, p, 1);
    if (r == NULL || (uintptr_t)r->at != p)
        rc = rc != SUCCESS ? rc : INVALID;
    else if (rc == SUCCESS)
        give_back(r);
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

void *fake_shadow(const void *p)
{
    (void)pthread_mutex_lock(&lock);
    struct region *r = region_of(device, (uintptr_t)p, 1);
    uintptr_t at = (uintptr_t)p;
    if (r != NULL)
        at = (uintptr_t)r->shadow + (at - (uintptr_t)r->at);
    (void)pthread_mutex_unlock(&lock);
    return (void *)at;
}

void fake_device_open(bool open)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < REGIONS; i++)
        if (device[i].at != NULL)
            (void)mprotect(device[i].at, device[i].len,
                           open ? PROT_READ | PROT_WRITE : PROT_NONE);
    (void)pthread_mutex_unlock(&lock);
}

int cuPointerGetAttribute(void *value, int attribute, uintptr_t p);
int cuPointerGetAttribute(void *value, int attribute, uintptr_t p)
{
    const unsigned on_device = 2;
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    if (attribute != 2 || region_of(device, p, 1) == NULL)
        return INVALID; /* as of plain host memory */
    memcpy(value, &on_device, sizeof(on_device));
    return SUCCESS;
}

int cuMemHostRegister_v2(void *p, size_t len, unsigned flags);
int cuMemHostRegister_v2(void *p, size_t len, unsigned flags)
{
    (void)flags;
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    if (knobs.no_pin || add_region(pinned, p, len) != SUCCESS)
        return NO_MEMORY;
    knobs.pinned += len;
    return SUCCESS;
}

int cuMemHostUnregister(void *p);
int cuMemHostUnregister(void *p)
{
    struct region *r = region_of(pinned, (uintptr_t)p, 1);
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    if (r == NULL || r->at != p)
        return INVALID;
    knobs.pinned -= r->len;
    r->at = NULL;
    return SUCCESS;
}

/* -- streams --------------------------------------------------------------- */

static void go_on(void);

static struct stream *stream_of(void *stream)
{
    return stream == NULL ? &streams[0] : stream;
}

void fake_stream_push(void *stream, fake_op_fn *fn, void *arg)
{
    struct stream *s = stream_of(stream);
    (void)pthread_mutex_lock(&lock);
    if (s->n == OPS)
        go_on(); /* the real one waits for room */
    if (s->n == OPS)
        abort();
    s->ops[s->n++] = (struct op){fn, arg};
    (void)pthread_mutex_unlock(&lock);
}

static void take(struct stream *s, size_t i)
{
    free(s->ops[i].arg);
    s->n--;
    memmove(&s->ops[i], &s->ops[i + 1], (s->n - i) * sizeof(s->ops[0]));
}

static int
look_for(fake_op_fn *fn, fake_which_fn *which, const void *ctx, bool drop)
{
    int n = 0;
    (void)pthread_mutex_lock(&lock);
    for (size_t k = 0; k < STREAMS; k++)
        for (size_t i = 0; i < streams[k].n;) {
            const struct op *op = &streams[k].ops[i];
            bool found = op->fn == fn && which(op->arg, ctx);
            n += found;
            if (found && drop)
                take(&streams[k], i);
            else
                i++;
        }
    (void)pthread_mutex_unlock(&lock);
    return n;
}

int fake_stream_drop(fake_op_fn *fn, fake_which_fn *which, const void *ctx)
{
    return look_for(fn, which, ctx, true);
}

int fake_stream_count(fake_op_fn *fn, fake_which_fn *which, const void *ctx)
{
    return look_for(fn, which, ctx, false);
}

/* The first of a stream, if it can be done now. */
static bool step(struct stream *s)
{
    if (s->n == 0 || knobs.faulted)
        return false;
    if (knobs.fault_at == 1) {
        knobs.faulted = true;
        return false;
    }
    if (!s->ops[0].fn(s->ops[0].arg))
        return false;
    if (knobs.fault_at > 1)
        knobs.fault_at--;
    take(s, 0);
    return true;
}

/* One may wait for another: so all are asked, as often as one of them moves. */
static void go_on(void)
{
    int left = knobs.pace > 0 ? knobs.pace : -1;
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t k = 0; k < STREAMS; k++)
            while (left != 0 && step(&streams[k])) {
                moved = true;
                left -= left > 0;
            }
    }
}

/* Somebody asks: what can be done now is done. */
int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream)
{
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    (void)pthread_mutex_lock(&lock);
    go_on();
    rc = stream_of(stream)->n == 0 ? SUCCESS : NOT_READY;
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream)
{
    int rc;
    while ((rc = cuStreamQuery(stream)) == NOT_READY)
        (void)usleep(100);
    return rc;
}

int cuStreamCreate(void **stream, unsigned flags);
int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    for (size_t k = 1; k < STREAMS; k++)
        if (!streams[k].used) {
            streams[k].used = true;
            *stream = &streams[k];
            return SUCCESS;
        }
    return NO_MEMORY;
}

int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream)
{
    int rc = cuStreamSynchronize(stream);
    stream_of(stream)->used = false;
    return rc;
}

/* An event is the number of times that it was recorded, and came about. Both
 * only grow, since operations may be left of one that was destroyed. */
struct event {
    bool used;
    int recorded;
    int came;
};
static struct event events[EVENTS];

struct event_op {
    struct event *event;
    int number;
};

static bool event_comes(void *arg)
{
    struct event_op *o = arg;
    if (o->event->came < o->number)
        o->event->came = o->number;
    return true;
}

static bool event_came(void *arg)
{
    struct event_op *o = arg;
    return o->event->came >= o->number;
}

static int push_event(void *stream, struct event *e, fake_op_fn *fn)
{
    struct event_op *o = malloc(sizeof(*o));
    if (o == NULL)
        return NO_MEMORY;
    *o = (struct event_op){e, e->recorded};
    fake_stream_push(stream, fn, o);
    return SUCCESS;
}

int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    (void)pthread_mutex_lock(&lock);
    struct event *e = events;
    while (e->used)
        if (++e == events + EVENTS)
            abort();
    e->used = true;
    e->came = e->recorded;
    (void)pthread_mutex_unlock(&lock);
    *event = e;
    return SUCCESS;
}

int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event)
{
    struct event *e = event;
    e->used = false;
    return SUCCESS;
}

int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream)
{
    struct event *e = event;
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    e->recorded++;
    return push_event(stream, e, event_comes);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)flags;
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    return push_event(stream, event, event_came);
}

int cuEventQuery(void *event);
int cuEventQuery(void *event)
{
    const struct event *e = event;
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    (void)pthread_mutex_lock(&lock);
    go_on();
    rc = e->came >= e->recorded ? SUCCESS : NOT_READY;
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

/* -- copies ---------------------------------------------------------------- */

struct copy {
    void *to;
    const void *from;
    size_t len;
};

static bool copy_now(void *arg)
{
    const struct copy *c = arg;
    memcpy(fake_shadow(c->to), fake_shadow(c->from), c->len);
    return true;
}

static int push_copy(uintptr_t to, uintptr_t from, size_t len, void *stream)
{
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    struct copy *c = malloc(sizeof(*c));
    if (c == NULL)
        return NO_MEMORY;
    *c = (struct copy){(void *)to, (const void *)from, len};
    fake_stream_push(stream, copy_now, c);
    return SUCCESS;
}

static bool is_device(uintptr_t p, size_t len)
{
    return region_of(device, p, len) != NULL;
}

int cuMemcpyDtoHAsync_v2(void *host, uintptr_t p, size_t len, void *stream);
int cuMemcpyDtoHAsync_v2(void *host, uintptr_t p, size_t len, void *stream)
{
    if (!is_device(p, len))
        return INVALID;
    knobs.unpinned_copies += region_of(pinned, (uintptr_t)host, len) == NULL;
    return push_copy((uintptr_t)host, p, len, stream);
}

int cuMemcpyHtoDAsync_v2(uintptr_t p,
                         const void *host,
                         size_t len,
                         void *stream);
int cuMemcpyHtoDAsync_v2(uintptr_t p,
                         const void *host,
                         size_t len,
                         void *stream)
{
    if (!is_device(p, len))
        return INVALID;
    return push_copy(p, (uintptr_t)host, len, stream);
}

int cuMemcpyDtoDAsync_v2(uintptr_t to,
                         uintptr_t from,
                         size_t len,
                         void *stream);
int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t len, void *stream)
{
    if (!is_device(to, len) || !is_device(from, len))
        return INVALID;
    return push_copy(to, from, len, stream);
}

struct fill {
    void *at;
    size_t len;
    uint8_t byte;
};

static bool fill_now(void *arg)
{
    const struct fill *f = arg;
    memset(fake_shadow(f->at), f->byte, f->len);
    return true;
}

int cuMemsetD8Async(uintptr_t p, uint8_t byte, size_t len, void *stream);
int cuMemsetD8Async(uintptr_t p, uint8_t byte, size_t len, void *stream)
{
    int rc = verdict();
    if (rc != SUCCESS)
        return rc;
    struct fill *f = is_device(p, len) ? malloc(sizeof(*f)) : NULL;
    if (f == NULL)
        return INVALID;
    *f = (struct fill){(void *)p, len, byte};
    fake_stream_push(stream, fill_now, f);
    return SUCCESS;
}

/* -- the rest -------------------------------------------------------------- */

int cuDeviceGet(int *found, int number);
int cuDeviceGet(int *found, int number)
{
    *found = number;
    return number == 0 ? SUCCESS : INVALID;
}

int cuDeviceGetName(char *name, int len, int number);
int cuDeviceGetName(char *name, int len, int number)
{
    if (number != 0 || len < (int)sizeof("stand-in"))
        return INVALID;
    memcpy(name, "stand-in", sizeof("stand-in"));
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **ctx, int number);
int cuDevicePrimaryCtxRetain(void **ctx, int number)
{
    *ctx = &knobs;
    return number == 0 ? SUCCESS : INVALID;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text)
{
    *text = error == BROKEN ? "an illegal memory access was encountered"
                            : "some error";
    return SUCCESS;
}

int cuCtxGetCurrent(void **ctx);
int cuCtxGetCurrent(void **ctx)
{
    *ctx = knobs.no_context ? NULL : &knobs;
    return SUCCESS;
}

int cuCtxSetCurrent(void *ctx);
int cuCtxSetCurrent(void *ctx)
{
    return ctx == &knobs ? SUCCESS : INVALID;
}

void fake_cuda_reset(void)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t k = 0; k < STREAMS; k++) {
        while (streams[k].n > 0)
            take(&streams[k], 0);
        streams[k].used = false;
    }
    for (size_t i = 0; i < EVENTS; i++)
        events[i].used = false;
    for (size_t i = 0; i < REGIONS; i++) {
        if (device[i].at != NULL)
            give_back(&device[i]);
        pinned[i].at = NULL;
    }
    knobs = (struct fake_cuda){0};
    (void)pthread_mutex_unlock(&lock);
}
