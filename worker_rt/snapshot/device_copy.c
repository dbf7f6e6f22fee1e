#include "worker_rt/snapshot/device_copy.h"

#include <string.h>
#include <unistd.h>

#define NO_TIMING 2 /* CU_EVENT_DISABLE_TIMING */
#define NO_BLOCK  1 /* CU_STREAM_NON_BLOCKING */
#define ALIGN     ((size_t)256)

static int failed(const struct device_copy *s,
                  int rc,
                  const char *what,
                  struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_IO,
                       "copy of GPU memory for a snapshot: %s: %s", what,
                       gpu_text(s->gpu, rc));
}

int device_copy_open(struct device_copy *s, void *stream, struct ddp_err *err)
{
    const struct gpu_driver *g = gpu_load(err);
    void *ctx = g == NULL ? NULL : gpu_context(g, err);
    if (ctx == NULL)
        return -1;
    *s = (struct device_copy){.gpu = g, .ctx = ctx, .theirs = stream};
    int rc = g->stream_create(&s->ours, NO_BLOCK);
    if (rc != 0)
        s->ours = NULL;
    if (rc == 0)
        rc = g->event_create(&s->ready, NO_TIMING);
    if (rc == 0)
        return 0;
    (void)failed(s, rc, "cannot create a stream or an event", err);
    device_copy_close(s);
    return -1;
}

/* Whatever fails here, nothing can be done about it. */
void device_copy_close(struct device_copy *s)
{
    if (s->gpu == NULL)
        return;
    if (s->ours != NULL)
        (void)s->gpu->stream_wait(s->ours);
    device_copy_unpin(s);
    if (s->room != 0)
        (void)s->gpu->free(s->room);
    if (s->ready != NULL)
        (void)s->gpu->event_destroy(s->ready);
    if (s->ours != NULL)
        (void)s->gpu->stream_destroy(s->ours);
    *s = (struct device_copy){0};
}

/* -- locked pages ---------------------------------------------------------- */

static void unpin(struct device_copy *s, int i)
{
    if (s->pinned[i].at != NULL)
        (void)s->gpu->unpin(s->pinned[i].at);
    s->pinned[i].at = NULL;
}

void device_copy_unpin(struct device_copy *s)
{
    if (s->gpu == NULL)
        return;
    (void)s->gpu->stream_wait(s->ours); /* nothing may be on its way there */
    for (int i = 0; i < MEM_SLOTS_MAX; i++)
        unpin(s, i);
}

void device_copy_pin(struct device_copy *s, int i, uint8_t *at, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (s->gpu == NULL || (s->pinned[i].at == at && s->pinned[i].len >= len))
        return;
    unpin(s, i);
    len = (len + page - 1) / page * page;
    if ((uintptr_t)at % page != 0 || s->gpu->pin(at, len, 0) != 0)
        return; /* slower, no more */
    s->pinned[i].at = at;
    s->pinned[i].len = len;
}

/* -- copies ---------------------------------------------------------------- */

static size_t aligned(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static bool is_device(const struct device_copy *s,
                      const struct device_copy_part *p)
{
    return p->len > 0 && gpu_is_device(s->gpu, p->from);
}

/* Room on the device for all of it, kept from one snapshot to the next. */
static bool make_room(struct device_copy *s, size_t len)
{
    if (len <= s->room_len)
        return len > 0;
    if (s->no_room)
        return false;
    if (s->room != 0)
        (void)s->gpu->free(s->room); /* waits for whoever uses it */
    s->room = 0;
    s->room_len = 0;
    s->no_room = s->gpu->alloc(&s->room, len) != 0;
    s->room = s->no_room ? 0 : s->room;
    s->room_len = s->no_room ? 0 : len;
    return !s->no_room;
}

/* From the tensors to the room, in the order of the program's stream. */
static int
fill_room(struct device_copy *s, const struct device_copy_part *p, size_t n)
{
    size_t at = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!is_device(s, &p[i]))
            continue;
        rc = s->gpu->copy(s->room + at, gpu_addr(p[i].from), p[i].len,
                          s->theirs);
        at += aligned(p[i].len);
    }
    return rc;
}

/* To the slot, when `ready` has come: from the room, or from the tensors. */
static int copy_out(struct device_copy *s,
                    const struct device_copy_part *p,
                    size_t n,
                    bool room)
{
    size_t at = 0;
    int rc = s->gpu->event_record(s->ready, s->theirs);
    if (rc == 0)
        rc = s->gpu->stream_wait_event(s->ours, s->ready, 0);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!is_device(s, &p[i]))
            continue;
        rc =
            s->gpu->copy_out(p[i].to, room ? s->room + at : gpu_addr(p[i].from),
                             p[i].len, s->ours);
        at += aligned(p[i].len);
    }
    return rc;
}

int device_copy_begin(struct device_copy *s,
                      const struct device_copy_part *parts,
                      size_t n,
                      struct ddp_err *err)
{
    size_t len = 0;
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_device(s, &parts[i]))
            len += aligned(parts[i].len);
        else if (parts[i].len > 0)
            memcpy(parts[i].to, parts[i].from, parts[i].len);
    }
    if (len == 0)
        return 0;
    bool room = make_room(s, len);
    if (room)
        rc = fill_room(s, parts, n);
    if (rc == 0)
        rc = copy_out(s, parts, n, room);
    if (rc == 0 && room)
        return 0;
    int waited = s->gpu->stream_wait(s->ours);
    rc = rc != 0 ? rc : waited;
    return rc == 0 ? 0 : failed(s, rc, "the copy failed", err);
}

int device_copy_wait(struct device_copy *s, struct ddp_err *err)
{
    if (s->gpu == NULL)
        return 0;
    int rc = s->gpu->ctx_set(s->ctx); /* a thread begins without one */
    if (rc == 0)
        rc = s->gpu->stream_wait(s->ours);
    return rc == 0 ? 0 : failed(s, rc, "the copy failed", err);
}
