/*
 * worker_rt/snapshot/mem_slots: memory for whole snapshot images, in two or
 * three slots of one memfd. Where the memfd is the launcher's it outlives the
 * worker: a slot is believed if its label says so, and its image stands under
 * checksums.
 *
 * Order of work on a slot: mem_slots_reserve takes its label away, the image is
 * put there, mem_slots_label puts the new label. A writer that is killed leaves
 * no label, or an old one on an old image. So as long as the newest slot is not
 * the next one to be reserved, there is a whole image at any moment.
 */
#ifndef WORKER_RT_SNAPSHOT_MEM_SLOTS_H
#define WORKER_RT_SNAPSHOT_MEM_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

#define MEM_SLOTS_SHARED 3 /* written to disk, newest, next */
#define MEM_SLOTS_OWN    2 /* written to disk, next */
#define MEM_SLOTS_MAX    MEM_SLOTS_SHARED

/* What a slot holds. */
struct slot_label {
    uint64_t len; /* bytes of the image */
    int64_t round;
    int64_t step;
    char instance[40];
};

struct mem_slots {
    int count;    /* 0: there are none */
    int fd;       /* ours, or a duplicate; -1 */
    uint8_t *map; /* count times `each` bytes */
    uint64_t each;
    uint64_t held[MEM_SLOTS_MAX]; /* bytes of it that are surely there */
};

/* Maps the launcher's memfd; borrows it for the call. CONFIG: it is too
 * small to be of use, or cannot be mapped. */
int mem_slots_open(struct mem_slots *s, int fd, struct ddp_err *err);

/* Memory of our own for images of `len` bytes. NOMEM. */
int mem_slots_make(struct mem_slots *s, uint64_t len, struct ddp_err *err);
void mem_slots_close(struct mem_slots *s);

/* The longest image that a slot has room for. */
uint64_t mem_slots_room(const struct mem_slots *s);

/* Makes sure of memory for `len` bytes, no more than mem_slots_room, and takes
 * the slot's label away. NOMEM: it would take more than half of what this
 * machine has left, or cannot be had. */
int mem_slots_reserve(struct mem_slots *s,
                      int i,
                      uint64_t len,
                      struct ddp_err *err);

/* Room for the ranks of the node to talk, MEM_SLOTS_BOARD bytes, aligned as
 * from malloc; no label and no image covers it. */
#define MEM_SLOTS_BOARD 3584
void *mem_slots_board(const struct mem_slots *s);

uint8_t *mem_slots_image(const struct mem_slots *s, int i);
void mem_slots_label(struct mem_slots *s,
                     int i,
                     const struct slot_label *label);

/* Whether the slot has a label. */
bool mem_slots_read(const struct mem_slots *s, int i, struct slot_label *label);

#endif
