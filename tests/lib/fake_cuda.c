#include "tests/lib/fake_cuda.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPS     256
#define REGIONS 128
#define STREAMS 16

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
            list[i] = (struct region){at, len};
            return SUCCESS;
        }
    return NO_MEMORY;
}

int cuMemAlloc_v2(uintptr_t *p, size_t len);
int cuMemAlloc_v2(uintptr_t *p, size_t len)
{
    void *at = knobs.no_memory ? NULL : calloc(1, len);
    if (at == NULL || add_region(device, at, len) != SUCCESS) {
        free(at);
        return NO_MEMORY;
    }
    knobs.held += len;
    *p = (uintptr_t)at;
    return SUCCESS;
}

int cuMemFree_v2(uintptr_t p);
int cuMemFree_v2(uintptr_t p)
{
    struct region *r = region_of(device, p, 1);
    if (r == NULL || (uintptr_t)r->at != p)
        return INVALID;
    knobs.held -= r->len;
    free(r->at);
    r->at = NULL;
    return SUCCESS;
}

int cuPointerGetAttribute(void *value, int attribute, uintptr_t p);
int cuPointerGetAttribute(void *value, int attribute, uintptr_t p)
{
    const unsigned on_device = 2;
    if (attribute != 2 || region_of(device, p, 1) == NULL)
        return INVALID; /* as of plain host memory */
    memcpy(value, &on_device, sizeof(on_device));
    return SUCCESS;
}

int cuMemHostRegister_v2(void *p, size_t len, unsigned flags);
int cuMemHostRegister_v2(void *p, size_t len, unsigned flags)
{
    (void)flags;
    if (knobs.no_pin || add_region(pinned, p, len) != SUCCESS)
        return NO_MEMORY;
    knobs.pinned += len;
    return SUCCESS;
}

int cuMemHostUnregister(void *p);
int cuMemHostUnregister(void *p)
{
    struct region *r = region_of(pinned, (uintptr_t)p, 1);
    if (r == NULL || r->at != p)
        return INVALID;
    knobs.pinned -= r->len;
    r->at = NULL;
    return SUCCESS;
}

/* -- streams --------------------------------------------------------------- */

static struct stream *stream_of(void *stream)
{
    return stream == NULL ? &streams[0] : stream;
}

void fake_stream_push(void *stream, fake_op_fn *fn, void *arg)
{
    struct stream *s = stream_of(stream);
    (void)pthread_mutex_lock(&lock);
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

void fake_stream_drop(fake_op_fn *fn)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t k = 0; k < STREAMS; k++)
        for (size_t i = 0; i < streams[k].n;)
            if (streams[k].ops[i].fn == fn)
                take(&streams[k], i);
            else
                i++;
    (void)pthread_mutex_unlock(&lock);
}

/* One may wait for another: so all are asked, as often as one of them moves. */
static void go_on(void)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t k = 0; k < STREAMS; k++)
            while (streams[k].n > 0 &&
                   streams[k].ops[0].fn(streams[k].ops[0].arg)) {
                take(&streams[k], 0);
                moved = true;
            }
    }
}

int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream)
{
    if (knobs.broken)
        return BROKEN;
    (void)pthread_mutex_lock(&lock);
    go_on();
    int rc = stream_of(stream)->n == 0 ? SUCCESS : NOT_READY;
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

/* An event is the number of times that it was recorded, and came about. */
struct event {
    int recorded;
    int came;
};

struct event_op {
    struct event *event;
    int number;
};

static bool event_comes(void *arg)
{
    struct event_op *o = arg;
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
    *event = calloc(1, sizeof(struct event));
    return *event == NULL ? NO_MEMORY : SUCCESS;
}

int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event)
{
    free(event);
    return SUCCESS;
}

int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream)
{
    struct event *e = event;
    e->recorded++;
    return push_event(stream, e, event_comes);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)flags;
    return push_event(stream, event, event_came);
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
    memcpy(c->to, c->from, c->len);
    return true;
}

static int push_copy(uintptr_t to, uintptr_t from, size_t len, void *stream)
{
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

/* -- the rest -------------------------------------------------------------- */

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
