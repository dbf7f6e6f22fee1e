/*
 * worker_rt/keeper/commit: when a step counts of which each rank saves pieces,
 * and which slot of its memory a rank may take for the next one. Pure: no I/O,
 * no clock.
 *
 * The rule. Before a save all ranks combine a few words by MIN, once. From the
 * result each of them knows that all came to this save, and whether the save
 * before is sealed on all: then that one is whole. Only after that a rank takes
 * a slot, and never the one with the newest save that it knows to be whole.
 *
 *     settled ─► commit_say ─► MIN of all ranks ─► commit_hear ─► commit_pick
 *
 * So ranks may die at any moment. Before the words are combined no rank has
 * taken a slot; afterwards what is whole stands in a slot that nobody takes.
 *
 * With mirrors another node gets a copy of what is whole, one save after the
 * other. The words also say whether the last transfer is done on all: then a
 * node may be lost, too, and the next transfer begins, of what is whole now.
 * The slots of the newest save that is mirrored and of the one on its way are
 * not taken either. If those are all there are, the save is skipped: nobody
 * waits for a transfer. A save to the disk is never skipped; it takes the slot
 * of the mirrored one.
 *
 * Now and then the ranks compare what several of them have (compare). The
 * newest whole save on which they agreed stays, too, since all later ones may
 * rest on a wrong bit. There is a slot more for it.
 */
#ifndef WORKER_RT_KEEPER_COMMIT_H
#define WORKER_RT_KEEPER_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker_rt/snapshot/mem_slots.h"

/* Travels, and is combined member by member with MIN: int64_t only. */
struct commit_words {
    int64_t ready; /* 1: this rank can begin the save */
    int64_t step;  /* of the save; with .. */
    int64_t minus_step;
    int64_t disk; /* 1: it goes to the disk, too; with .. */
    int64_t minus_disk;
    int64_t sealed;        /* 1: the save before is sealed in memory */
    int64_t written;       /* 1: the last save for the disk is there */
    int64_t minus_changed; /* -1: the pieces are not those of the save before */
    int64_t minus_save;    /* the number of the last save */
    int64_t mirror;        /* enum commit_mirror */
    int64_t minus_alone;   /* -1: no other node stores some of its pieces */
};
#define COMMIT_WORDS (sizeof(struct commit_words) / sizeof(int64_t))

/* What a rank says of its transfer to another node. */
enum commit_mirror {
    COMMIT_MIRROR_OFF = -1, /* there will be none */
    COMMIT_MIRROR_BUSY,
    COMMIT_MIRROR_FREE, /* none is under way: there was none, or it failed */
    COMMIT_MIRROR_DONE
};

/* Which image a slot has, as ranks tell each other: 64-bit members only. */
struct commit_label {
    int64_t there; /* 0: none, and the rest is 0 */
    int64_t own;   /* 1: of this instance */
    int64_t round;
    int64_t save; /* of the round: see struct slot_label */
    int64_t step;
    uint64_t who; /* a hash of the instance */
};

/* A save, and where this rank has it. */
struct commit_save {
    int slot;       /* -1: nowhere */
    int64_t number; /* 0: that of a worker before; -1: there is no such save */
    int64_t step;
};

/* What a rank knows of the saves. But for the slots that is the same on all. */
struct commit {
    int64_t save;                /* the number of the last one */
    struct commit_save last;     /* if it came into a slot */
    struct commit_save whole;    /* the newest that all sealed */
    struct commit_save mirrored; /* the newest that is on two nodes .. */
    struct commit_save sent;     /* .. and the one that is on its way there */
    struct commit_save trusted;  /* the newest whole one that was compared */
    int64_t compared; /* the number of the last one that was; 0: none */
    int64_t tried;    /* the number of the last one that was sent; 0: none */
    bool alone;       /* some pieces are on one node only: they are sent */
    int64_t for_disk; /* the step of the last one for the disk; -1: none .. */
    int64_t for_disk_save; /* .. and its number */
    int64_t on_disk;       /* the newest step that all wrote; -1: none .. */
    int64_t on_disk_save;  /* .. and its number */
};

enum commit_verdict {
    COMMIT_GOES_ON,
    COMMIT_NOT_READY, /* a rank cannot begin the save */
    COMMIT_STEPS_DIFFER,
    COMMIT_DISKS_DIFFER /* not all ranks save to the disk */
};

void commit_init(struct commit *c);

/* The words of this rank but `ready`, `minus_changed`, `mirror` and
 * `minus_alone`. `sealed`: the slot
 * that was sealed last, -1: none. `written`: the number of the save that was
 * written last. Nothing is being sealed and, with `disk`, written. */
struct commit_words commit_say(const struct commit *c,
                               int64_t step,
                               bool disk,
                               int sealed,
                               int64_t written);

/* The words of all ranks, combined. If the verdict is to go on, the save has a
 * number. */
enum commit_verdict commit_hear(struct commit *c,
                                const struct commit_words *all);

/* After that verdict. Whether what is whole is to be sent now: `c->sent`. */
bool commit_send(struct commit *c);

/* Whether there is a slot for the save, as far as all ranks know it. With
 * `disk` there always is. */
bool commit_make_room(struct commit *c, bool disk);

/* All ranks agreed about what they are going to save: the save that was heard
 * of last. */
void commit_agreed(struct commit *c);

/* The slot of the trusted save is of no more use than others. */
void commit_give_up_trusted(struct commit *c);

/* The slot for the save; -1: all are needed. `labels`: of this rank's slots, of
 * which the last is used only if there is a trusted save in one of them.
 * `writing`: the slot that is on its way to the disk; -1: none. */
int commit_pick(const struct commit *c,
                const struct commit_label labels[MEM_SLOTS_SHARED],
                int writing);

/* What is whole before the first save; `slot` -1: not here. */
void commit_take_over(struct commit *c, int slot, int64_t step);

/* The save has been handed over to `slot`; -1: to none. */
void commit_began(struct commit *c, int slot, int64_t step, bool disk);

/* What is in memory counts no more. The second: but for the trusted save. */
void commit_forget(struct commit *c);
void commit_distrust(struct commit *c);

/*
 * What is whole before the first save: of the labels of all ranks, in the order
 * of the ranks, the newest that every rank has. Not there: no rank has one that
 * all have.
 */
struct commit_label
commit_common(const struct commit_label (*labels)[MEM_SLOTS_SHARED], int world);

/* The slot with that image; -1: none. */
int commit_find(const struct commit_label labels[MEM_SLOTS_SHARED],
                const struct commit_label *wanted);

#endif
