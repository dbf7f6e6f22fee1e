/*
 * worker_rt/snapshot/mem_slots: memory for whole snapshot images, in slots of
 * one memfd. Where the memfd is the launcher's it outlives the
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
#include "rendezvous/base/stop_page.h"

/* In the launcher's memory: a rank's own images are in the first slots, behind
 * them are mirrors of another rank's. */
#define MEM_SLOTS_SHARED SNAPSHOT_SLOTS_OWN
#define MEM_SLOTS_OWN    2 /* in memory of our own: written to disk, next */
#define MEM_SLOTS_MAX    SNAPSHOT_SLOTS

/* What a slot holds. */
struct slot_label {
    uint64_t len; /* bytes of the image */
    int64_t round;
    int64_t step;
    int64_t rank;  /* whose pieces they are .. */
    int64_t world; /* .. of how many ranks; 0: it is the whole state */
    int64_t save;  /* which save it is of: the pieces of one save have one
                    * number; 0 with a whole state */
    char instance[40];
};

struct mem_slots {
    int count;    /* 0: there are none */
    int fd;       /* ours, or a duplicate; -1 */
    uint64_t at;  /* where they begin in its memory */
    int parts;    /* that memory has so many: the others fill theirs, too */
    uint8_t *map; /* count times `each` bytes */
    uint64_t each;
    uint64_t held[MEM_SLOTS_MAX]; /* bytes of it that are surely there */
};

/*
 * Maps one of `parts` equal parts of the launcher's memfd, with slots of its
 * own; borrows it for the call. CONFIG: it is too small to be of use, or cannot
 * be mapped.
 */
int mem_slots_open(
    struct mem_slots *s, int fd, int part, int parts, struct ddp_err *err);

/*
 * Locks that part, for as long as any descriptor of this opening of the memfd
 * is there. False: another opening has it, or a part that overlaps. True also
 * if it cannot be locked at all.
 */
bool mem_slots_lock(int fd, int part, int parts);

/* Memory of our own for images of `len` bytes. NOMEM. */
int mem_slots_make(struct mem_slots *s, uint64_t len, struct ddp_err *err);
void mem_slots_close(struct mem_slots *s);

/* The longest image that a slot has room for. How much memory an image of `len`
 * bytes takes; and how much of the launcher's memory may be used. */
uint64_t mem_slots_room(const struct mem_slots *s);
uint64_t mem_slots_need(uint64_t len);
uint64_t mem_slots_allowed(const struct mem_slots *s);

/* The --snapshot_memory, in bytes, with which that would be `need` bytes. */
uint64_t mem_slots_budget(const struct mem_slots *s, uint64_t need);

/* Makes sure of memory for `len` bytes, no more than mem_slots_room, and takes
 * the slot's label away. The first time what a worker before us had taken
 * beyond that is given back. NOMEM: it would take more than half of what this
 * machine has left for all parts, or cannot be had. */
int mem_slots_reserve(struct mem_slots *s,
                      int i,
                      uint64_t len,
                      struct ddp_err *err);

/* Whether this machine has as much left as that would take. */
bool mem_slots_fits(const struct mem_slots *s, int i, uint64_t len);

/* Takes the slot's label away and gives its memory back. */
void mem_slots_drop(struct mem_slots *s, int i);

uint8_t *mem_slots_image(const struct mem_slots *s, int i);
void mem_slots_label(struct mem_slots *s,
                     int i,
                     const struct slot_label *label);

/* Whether the slot has a label. */
bool mem_slots_read(const struct mem_slots *s, int i, struct slot_label *label);

#endif
