/*
 * worker_rt/snapshot/device_copy: two copies on two streams, so that the
 * program waits for none of them.
 *
 * Happy path: begin copies the tensors into room on the device, in the order of
 * the program's stream, records an event there, lets our stream wait for it,
 * and copies from the room to the slot. wait, in the sealer's thread, ends when
 * our stream is empty.
 *
 * Failure modes. No room on the device: remembered, and the caller waits for
 * the copy from the tensors themselves. Pages cannot be locked: the copy is
 * slower. A call of the driver fails: IO, and nothing more is on its way, since
 * then all of the device has failed. The program's stream stands still, behind
 * a collective whose peer is dead: the wait is given up, and pages and room are
 * left as they are, since the driver may still write there.
 */
#include "worker_rt/snapshot/device_copy.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define NO_BLOCK 1 /* CU_STREAM_NON_BLOCKING */
#define ALIGN    ((size_t)256)
#define NAP_NS   (50 * 1000)

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
    ddp_assert(s->gpu == NULL);
    const struct gpu_driver *g = gpu_load(err);
    void *ctx = g == NULL ? NULL : gpu_context(g, err);
    if (ctx == NULL)
        return -1;
    *s = (struct device_copy){.gpu = g, .ctx = ctx, .theirs = stream};
    int rc = g->stream_create(&s->ours, NO_BLOCK);
    if (rc != 0)
        s->ours = NULL;
    if (rc == 0)
        rc = g->event_create(&s->ready, GPU_NO_TIMING);
    if (rc == 0)
        return 0;
    (void)failed(s, rc, "cannot create a stream or an event", err);
    device_copy_close(s);
    return -1;
}

/* Whatever fails here, nothing can be done about it. */
void device_copy_close(struct device_copy *s)
{
    if (s->gpu == NULL || s->lost)
        return;
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
    if (s->gpu == NULL || s->lost)
        return;
    if (s->ours != NULL)
        (void)s->gpu->stream_wait(s->ours); /* nothing may be on its way */
    for (int i = 0; i < MEM_SLOTS_MAX; i++)
        unpin(s, i);
}

void device_copy_pin(struct device_copy *s, int i, uint8_t *at, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    ddp_assert(i >= 0 && i < MEM_SLOTS_MAX);
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

static bool is_device(const struct device_copy_part *p)
{
    return p->len > 0 && p->device;
}

/* Each is asked for once; how much room they need on the device. */
static int find_places(struct device_copy *s,
                       struct device_copy_part *p,
                       size_t n,
                       size_t *len,
                       struct ddp_err *err)
{
    *len = 0;
    for (size_t i = 0; i < n; i++) {
        enum gpu_place place =
            p[i].len > 0 ? gpu_where(s->gpu, p[i].from, err) : GPU_HOST;
        if (place == GPU_UNKNOWN)
            return -1;
        p[i].device = place == GPU_DEVICE;
        *len += p[i].device ? aligned(p[i].len) : 0;
    }
    return 0;
}

/* Room on the device for all of it, kept from one snapshot to the next. */
static bool make_room(struct device_copy *s, size_t len)
{
    ddp_assert((s->room != 0) == (s->room_len > 0));
    ddp_assert(!s->no_room || s->room == 0);
    if (len <= s->room_len)
        return len > 0;
    if (s->no_room)
        return false;
    if (s->room != 0)
        (void)s->gpu->free(s->room); /* waits until no copy uses it */
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
        if (!is_device(&p[i]))
            continue;
        ddp_assert(p[i].len <= s->room_len - at);
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
        if (!is_device(&p[i]))
            continue;
        rc =
            s->gpu->copy_out(p[i].to, room ? s->room + at : gpu_addr(p[i].from),
                             p[i].len, s->ours);
        at += aligned(p[i].len);
    }
    return rc;
}

int device_copy_begin(struct device_copy *s,
                      struct device_copy_part *parts,
                      size_t n,
                      bool *wait,
                      struct ddp_err *err)
{
    size_t len;
    int rc = 0;
    *wait = false;
    if (find_places(s, parts, n, &len, err) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (parts[i].len > 0 && !parts[i].device)
            memcpy(parts[i].to, parts[i].from, parts[i].len);
    if (len == 0)
        return 0;
    bool room = make_room(s, len);
    if (room)
        rc = fill_room(s, parts, n);
    if (rc == 0)
        rc = copy_out(s, parts, n, room);
    *wait = !room;
    return rc == 0 ? 0 : failed(s, rc, "the copy failed", err);
}

/* No call that blocks: the program's stream may stand behind a collective that
 * only ends when somebody gives it up. */
int device_copy_wait(struct device_copy *s,
                     device_copy_fn *goes_on,
                     void *ctx,
                     struct ddp_err *err)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (s->gpu == NULL)
        return 0;
    int rc = s->gpu->ctx_set(s->ctx); /* a thread begins without one */
    while (rc == 0 && (rc = s->gpu->stream_query(s->ours)) == GPU_NOT_READY) {
        if (!goes_on(ctx)) {
            s->lost = true;
            return ddp_err_set(err, DDP_E_ABORTED,
                               "copy of GPU memory for a snapshot: given up, "
                               "since the work before it does not end");
        }
        (void)nanosleep(&nap, NULL); /* a signal may cut it short */
        rc = 0;
    }
    return rc == 0 ? 0 : failed(s, rc, "the copy failed", err);
}
