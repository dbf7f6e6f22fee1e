/*
 * worker_rt/snapshot/device_copy: two copies on two streams, so that the
 * program waits for none of them.
 *
 * Happy path: begin copies the tensors into room on the device, in the order of
 * the program's stream, records an event there, lets our stream wait for it,
 * and copies from the room to the slot. wait, in the sealer's thread, ends when
 * our stream is empty.
 *
 * If the room is too small for all of it, that goes in rounds, with one half of
 * the room each: the program's stream waits until a half is empty before it is
 * filled again.
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
#define ROOM_MIN (2 * ALIGN) /* two halves */

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
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = g->event_create(&s->empty[i], GPU_NO_TIMING);
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
    if (s->room != 0 && !s->given)
        (void)s->gpu->free(s->room);
    if (s->ready != NULL)
        (void)s->gpu->event_destroy(s->ready);
    for (int i = 0; i < 2; i++)
        if (s->empty[i] != NULL)
            (void)s->gpu->event_destroy(s->empty[i]);
    if (s->ours != NULL)
        (void)s->gpu->stream_destroy(s->ours);
    *s = (struct device_copy){0};
}

void device_copy_give_room(struct device_copy *s, void *room, size_t len)
{
    ddp_assert(s->room == 0);
    s->given = room != NULL && len > 0;
    s->room_max = len;
    if (s->given) {
        s->room = gpu_addr(room);
        s->room_len = len;
    }
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

/* Room on the device, for all of it unless there is a limit; kept from one
 * snapshot to the next. */
static bool make_room(struct device_copy *s, size_t len)
{
    ddp_assert((s->room != 0) == (s->room_len > 0));
    ddp_assert(!s->no_room || s->room == 0);
    if (s->room_max > 0 && len > s->room_max)
        len = s->room_max;
    if (s->given || len <= s->room_len)
        return s->room_len >= ROOM_MIN;
    if (s->no_room || len < ROOM_MIN)
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

/* A place in the parts: the next byte to be copied. */
struct copy_place {
    size_t part;
    size_t at;
};

/* Copies from there on what `len` bytes at `room` have place for: into the
 * room, in the order of the program's stream, or out of it, on ours. */
static int copy_some(const struct device_copy *s,
                     const struct device_copy_part *p,
                     size_t n,
                     struct copy_place *c,
                     gpu_ptr room,
                     size_t len,
                     bool out)
{
    size_t used = 0;
    int rc = 0;
    while (rc == 0 && c->part < n && used < len) {
        const struct device_copy_part *part = &p[c->part];
        size_t some = is_device(part) ? part->len - c->at : 0;
        some = some < len - used ? some : len - used;
        if (some > 0 && out)
            rc = s->gpu->copy_out(part->to + c->at, room + used, some, s->ours);
        else if (some > 0)
            rc = s->gpu->copy(room + used, gpu_addr(part->from) + c->at, some,
                              s->theirs);
        used += aligned(some);
        c->at += some;
        if (!is_device(part) || c->at == part->len)
            *c = (struct copy_place){.part = c->part + 1};
    }
    return rc;
}

/* Our stream goes on when the program's has come here. */
static int come_behind(const struct device_copy *s)
{
    int rc = s->gpu->event_record(s->ready, s->theirs);
    return rc == 0 ? s->gpu->stream_wait_event(s->ours, s->ready, 0) : rc;
}

/* Through the room, in one round, or with half of it in each. */
static int copy_through_room(const struct device_copy *s,
                             const struct device_copy_part *p,
                             size_t n,
                             size_t len)
{
    struct copy_place in = {0}, out = {0};
    size_t half = len <= s->room_len ? len : s->room_len / 2 / ALIGN * ALIGN;
    int rc = 0;
    ddp_assert(half > 0);
    for (size_t round = 0; rc == 0 && out.part < n; round++) {
        size_t which = round % 2;
        gpu_ptr room = s->room + which * half;
        if (round >= 2)
            rc = s->gpu->stream_wait_event(s->theirs, s->empty[which], 0);
        if (rc == 0)
            rc = copy_some(s, p, n, &in, room, half, false);
        if (rc == 0)
            rc = come_behind(s);
        if (rc == 0)
            rc = copy_some(s, p, n, &out, room, half, true);
        if (rc == 0)
            rc = s->gpu->event_record(s->empty[which], s->ours);
        ddp_assert(in.part == out.part && in.at == out.at);
    }
    return rc;
}

/* Straight from the tensors. */
static int copy_straight(const struct device_copy *s,
                         const struct device_copy_part *p,
                         size_t n)
{
    int rc = come_behind(s);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (is_device(&p[i]))
            rc = s->gpu->copy_out(p[i].to, gpu_addr(p[i].from), p[i].len,
                                  s->ours);
    return rc;
}

int device_copy_begin(struct device_copy *s,
                      struct device_copy_part *parts,
                      size_t n,
                      bool *wait,
                      struct ddp_err *err)
{
    size_t len;
    *wait = false;
    if (find_places(s, parts, n, &len, err) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (parts[i].len > 0 && !parts[i].device)
            memcpy(parts[i].to, parts[i].from, parts[i].len);
    if (len == 0)
        return 0;
    bool room = make_room(s, len);
    int rc =
        room ? copy_through_room(s, parts, n, len) : copy_straight(s, parts, n);
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
