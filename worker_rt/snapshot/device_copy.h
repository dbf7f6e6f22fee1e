/*
 * worker_rt/snapshot/device_copy: the way of a snapshot from a GPU's memory to
 * a slot. The program waits for none of it if there is room on the device:
 *
 *     its stream:  tensors ─► room on the device, event
 *     our stream:  event ─► room ─► slot, whose pages are locked
 *
 * A copy within the device takes a millisecond or so for a gigabyte, and the
 * program's next work comes behind it on its stream, so the tensors may be
 * changed at once. If the room is smaller than the tensors, it is a ring of two
 * halves: while one is on its way to the slot the other is filled, and the
 * program's stream waits for the last one, the program for none. Without any
 * room the tensors are copied straight to the slot, and the program waits.
 * Pages that cannot be locked cost speed only.
 */
#ifndef WORKER_RT_SNAPSHOT_DEVICE_COPY_H
#define WORKER_RT_SNAPSHOT_DEVICE_COPY_H

#include "worker_rt/gpu.h"
#include "worker_rt/snapshot/mem_slots.h"

struct device_copy {
    const struct gpu_driver
        *gpu; /* NULL: there is none, tensors are host memory */
    void *ctx;
    void *theirs; /* the program's stream */
    void *ours;
    void *ready;    /* event: what is to be copied is there */
    void *empty[2]; /* event: that half of the room is copied out */
    gpu_ptr room;
    size_t room_len;
    size_t room_max; /* no more is allocated; 0: no limit */
    bool given;      /* the room is the program's */
    bool no_room;    /* it could not be had */
    bool lost; /* a copy may be under way for ever: nothing is given back */
    struct {
        uint8_t *at; /* NULL: not locked */
        size_t len;
    } pinned[MEM_SLOTS_MAX];
};

/* One tensor's way. */
struct device_copy_part {
    uint8_t *to;
    const void *from; /* host or device memory */
    size_t len;
    bool device; /* found out by device_copy_begin */
};

/* All zero before. CONFIG: no driver, or no GPU chosen in this thread. IO. */
int device_copy_open(struct device_copy *s, void *stream, struct ddp_err *err);
void device_copy_close(struct device_copy *s);

/* Room of the program's, borrowed until device_copy_close; NULL: at most `len`
 * bytes are allocated, 0 for no limit. */
void device_copy_give_room(struct device_copy *s, void *room, size_t len);

/* Locks the pages of slot i's image; once is enough. */
void device_copy_pin(struct device_copy *s, int i, uint8_t *at, size_t len);

/* Before the slots' memory goes. */
void device_copy_unpin(struct device_copy *s);

/* Begins the copies: when it returns, the parts' sources may be changed, in the
 * order of the program's stream; with `*wait`, for want of room, only after
 * device_copy_wait. One at a time: device_copy_wait before the next. IO: the
 * slot may be written to until device_copy_wait. */
int device_copy_begin(struct device_copy *s,
                      struct device_copy_part *parts,
                      size_t n,
                      bool *wait,
                      struct ddp_err *err);

/*
 * Until they are done, from any thread. IO. `goes_on` is asked now and
 * then whether the program's stream will come to them. If not: ABORTED, and
 * what is under way is left alone for ever.
 */
typedef bool device_copy_fn(void *ctx);
int device_copy_wait(struct device_copy *s,
                     device_copy_fn *goes_on,
                     void *ctx,
                     struct ddp_err *err);

#endif
