/*
 * worker_rt/keeper/keeper: what the parts of the keeper share. The public
 * calls are in ddp.h.
 *
 *     save: copy into a free slot ─► sealer: checksums, label ─► writer: file
 *
 * The label comes when all that the state rests on is proven to have completed
 * (worker_rt/proof): a copy from a GPU may be of a state that will never be.
 *
 * The caller waits for the copy, or leaves that to the sealer, too; two threads
 * do the rest, so that a slow disk does not keep memory from being sealed at
 * the next step. Of the three slots of the launcher's memory one may be on its
 * way to the disk and one is the newest sealed: the third is the next one.
 * Where there is no such memory, two slots of our own do for the way to the
 * disk.
 *
 * Each rank does that for itself, with an image of the pieces that it stores.
 */
#ifndef WORKER_RT_KEEPER_KEEPER_H
#define WORKER_RT_KEEPER_KEEPER_H

#include <pthread.h>

#include "worker_rt/keeper/commit.h"
#include "worker_rt/keeper/compare.h"
#include "worker_rt/snapshot/mirror_pairs.h"
#include "worker_rt/snapshot/mirror.h"
#include "worker_rt/rt.h"
#include "worker_rt/snapshot/device_copy.h"
#include "worker_rt/snapshot/image.h"
#include "worker_rt/snapshot/mem_slots.h"
#include "worker_rt/snapshot/piece_plan.h"
#include "worker_rt/snapshot/ranges.h"
#include "worker_rt/snapshot/snapshot.h"
#include "worker_rt/snapshot/snapshot_dir.h"

/* What a rank says of itself before it tells of its pieces. It travels: 64-bit
 * members only. */
struct pieces_head {
    int64_t n;      /* pieces */
    int64_t node;   /* its number */
    int64_t folder; /* the rank that lists its folder; -1: it has none */
};

struct ddp_keeper {
    struct ddp *d;
    struct ddp_comm *comm;
    int keep; /* steps in the folder */
    enum {
        KEEPER_NO_DISK, /* none, or one to load from that another rank lists */
        KEEPER_READS,   /* to load from only; this rank lists it */
        KEEPER_ADDS,    /* its own pieces, to a folder that another one has */
        KEEPER_WRITES,  /* the rank that lists the folder, and cleans it .. */
        KEEPER_OWNS     /* .. which has taken it over */
    } disk;             /* what this rank does with the folder */
    int folder_rank;    /* which rank lists it; -1: there is none */
    int64_t found_barren; /* as snapshot_dir_own says; -1: not known */
    char *folder;         /* owned; NULL: no disk */
    char why[256];        /* why there is no memory; "" if there is */
    bool has_memory;      /* the launcher's was opened, by this keeper alone */
    struct snapshot_dir dir;
    bool later;                /* the sealer copies */
    struct mem_slots memory;   /* the launcher's; count 0: none */
    struct fork_watch fork;    /* no child keeps that locked */
    struct mem_slots own;      /* on the way to the disk; count 0: not made */
    struct device_copy device; /* if tensors may lie in a GPU's memory */

    /* What each rank has for itself: rows, see keeper_ranks.c. */
    struct keeper_ranks {
        size_t max;      /* bytes of a rank's state; 0: they have none */
        uint8_t *mine;   /* this rank's row, as it will be saved .. */
        uint8_t *all;    /* .. and those of all ranks, as they were saved last:
                          * the sealer's until that is sealed */
        uint8_t *loaded; /* those of the last load; NULL: it had none */
        uint64_t loaded_world;
        uint64_t loaded_row; /* bytes of each */
        bool failed;         /* there was no memory for them */
    } ranks;

    /* What this rank saves: see keeper_pieces.c. */
    struct keeper_pieces {
        bool begun; /* `commit` knows what was in memory before */
        struct commit commit;
        struct commit_label base;    /* what was loaded, if it is in memory; set
                                      * by the load */
        struct snapshot_file loaded; /* the same, if it is in the folder; step
                                      * -1: it is not */
        struct piece_key *keys;      /* (n) of the save before, owned .. */
        size_t n;
        bool agreed;            /* .. all ranks have told each other theirs */
        struct piece_plan plan; /* what of them this rank stores */
        bool in_folder; /* a lower node has all that in the same folder */
    } pieces;

    /* What several ranks have must be equal: keeper_compare.c. */
    struct keeper_compare {
        int every;                     /* so many saves; 0: never */
        const char *const *may_differ; /* see ddp_keeper_conf */
        struct compare_piece *pieces;  /* (n), of the keys; owned */
        size_t n;
        int fresh;         /* so many saves from now on are compared, too */
        char unequal[256]; /* what is left out, for the program */
    } compare;

    /* Other nodes have copies of this rank's images: keeper_mirrors.c. */
    struct keeper_mirrors {
        bool ended;    /* there will be none, or no more .. */
        char why[256]; /* .. since something is wrong; "": it is not .. */
        bool agreed;   /* .. and all ranks know that */
        bool alone;    /* this rank stores what no other node does */
        int dropped;   /* so many of the last slots, left from before */
        struct mirror_pair *pairs; /* (world), owned; NULL: not needed yet */
        int senders;               /* of these so many send to this rank */
        struct mirror *way;        /* NULL: not begun, or ended */
        int64_t skipped; /* saves, so that nobody waited for mirrors */
    } mirrors;

    /* The threads, started with the first save. */
    bool started;
    pthread_t sealer, writer;
    atomic_bool quit;

    /* Under `lock`; each change is signalled by `changed`. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct keeper_slot {
        struct image image;
        const uint8_t **from; /* (ntensors), owned; NULL: it is copied */
        int64_t step;
        int64_t save;  /* its number: struct slot_label */
        uint64_t mark; /* of what it rests on: worker_rt/proof */
        bool to_disk;
        bool again; /* .. where that step is whole already */
    } slot[MEM_SLOTS_MAX];
    int sealing;      /* -1: nothing to seal */
    int writing;      /* -1: nothing to write */
    int newest;       /* sealed last, -1: none by this worker */
    int handed;       /* the last save's, -1: it did not come so far */
    int copied;       /* the last one from a GPU, -1: none; the caller's */
    int64_t saved;    /* the newest step on the disk, -1: none .. */
    int64_t saved_as; /* .. and the number of its save */
    struct snapshot_file prune; /* remove what is older than this step, which
                                 * is whole; step -1: nothing */
    int64_t failed_step;        /* the write that failed, -1: none */
    struct ddp_err error;       /* of it */
};

/* For how long the device may be busy behind a collective that failed, before
 * the copy is left alone: three seconds. A test makes it less. */
extern int64_t keeper_lost_us;

/* Waits until slot i is copied. -1: there will be no label, `err` says why. */
int keeper_wait_copied(struct ddp_keeper *k, int i, struct ddp_err *err);

/* The threads (keeper_threads.c), for as long as they have not been stopped.
 * NOMEM. */
int keeper_start_threads(struct ddp_keeper *k, struct ddp_err *err);
void keeper_stop_threads(struct ddp_keeper *k);

/* What holds whenever the lock is free. */
void keeper_check(const struct ddp_keeper *k);

/* Waits until nothing is being sealed; with `disk`, nor written. */
void keeper_settle(struct ddp_keeper *k, bool disk);

/* Under the lock: the error of an earlier save, once. */
int keeper_take_error(struct ddp_keeper *k, struct ddp_err *err);
void keeper_free_slot(struct keeper_slot *slot);

/*
 * Copies the tensors to `slot` of the launcher's memory, -1: to a free one of
 * our own, and hands it over to the sealer; then `k->handed` is the slot that
 * it is in. Takes the image over. The save before has been settled. NOMEM, the
 * error of an earlier save.
 */
int keeper_put(struct ddp_keeper *k,
               struct image *m,
               int64_t step,
               const struct ddp_tensor *tensors,
               int slot,
               bool disk,
               struct ddp_err *err);

/* Brings the proof for what is being sealed. In the caller's thread, which may
 * use the communicators; not under the lock. */
void keeper_prove(struct ddp_keeper *k);

/* The slots that are in use. */
static inline struct mem_slots *keeper_slots(struct ddp_keeper *k)
{
    return k->memory.count > 0 ? &k->memory : &k->own;
}

/* A snapshot that this rank holds, by its label or by its name. */
struct keeper_candidate {
    int slot; /* -1: a file */
    struct slot_label label;
    struct snapshot_file file;
};

/* All of them, the best to load first. The caller frees `list`. IO, NOMEM. */
int keeper_find(struct ddp_keeper *k,
                struct keeper_candidate **list,
                size_t *n,
                struct ddp_err *err);

/* One rank of a communicator reads ranges of an image for all others. */
struct keeper_talk {
    struct ddp_comm *few;
    int root;      /* the reader's rank in it .. */
    int asker;     /* .. and that which says what all others want */
    uint64_t left; /* bytes of the answer in the parts that are still to come */
    struct ranges_part *part;
    size_t have;  /* bytes of data in that .. */
    size_t at;    /* .. and how many of them have been taken */
    bool is_lost; /* nothing more can be said or heard */
};

/* The caller sets the rest first. NOMEM. */
int keeper_talk_open(struct keeper_talk *t, struct ddp_err *err);
void keeper_talk_close(struct keeper_talk *t);

/* On all but the reader, with the same: ask->n ranges, 1 or more. On the
 * reader: hear them; the caller frees `*ranges`, on error too. PROTO, NOMEM,
 * those of the collectives: nothing more can be said. */
int keeper_ask(struct keeper_talk *t,
               const struct ranges_ask *ask,
               const struct image_range *ranges,
               struct ddp_err *err);
int keeper_hear(struct keeper_talk *t,
                struct ranges_ask *ask,
                struct image_range **ranges,
                struct ddp_err *err);

/* Then, on the reader, range after range, all bytes; or, once, why there are no
 * more. The errors of the collectives. */
int keeper_put_range(struct keeper_talk *t,
                     const uint8_t *data,
                     uint64_t len,
                     struct ddp_err *err);
int keeper_put_damage(struct keeper_talk *t,
                      const struct ddp_err *why,
                      struct ddp_err *err);

/* On all others. CORRUPT: there is no more; the reader's reason, or that a part
 * came damaged. The errors of the collectives. */
int keeper_get_range(struct keeper_talk *t,
                     uint8_t *to,
                     uint64_t len,
                     struct ddp_err *err);

/*
 * Some ranks meet, each with its rank among them, on communicator number `id`,
 * which all ranks of the job count. They wait for each other a minute for each
 * turn, if this is the turn-th meeting since all ranks met. NULL: the errors of
 * comm_cpu_new. The caller leaves it; NULL is allowed there.
 */
struct ddp_comm *keeper_meet_few(struct ddp_keeper *k,
                                 uint32_t id,
                                 int rank,
                                 int world,
                                 int turn,
                                 struct ddp_err *err);
void keeper_leave_few(struct ddp_comm *few);

/* This rank does not come to that meeting: those that do hear why. */
void keeper_miss_few(struct ddp_keeper *k,
                     uint32_t id,
                     int rank,
                     int world,
                     const struct ddp_err *why);

/* Room for states of up to `max` bytes; 0: none. USAGE, NOMEM. */
int keeper_ranks_open(struct ddp_keeper *k, size_t max, struct ddp_err *err);
void keeper_ranks_free(struct ddp_keeper *k);

/* Collective, before a save, when nothing is being sealed: `rows` becomes the
 * tensor with the states of all ranks, which lives until the next one. The
 * errors of the collective. */
int keeper_ranks_gather(struct ddp_keeper *k,
                        struct ddp_tensor *rows,
                        struct ddp_err *err);

/* A load: begun; whether `t` are the states, and where they go; ended. NOMEM.
 */
void keeper_ranks_begin(struct ddp_keeper *k);
bool keeper_ranks_place(struct ddp_keeper *k,
                        const struct ddp_tensor *t,
                        void **place);
int keeper_ranks_end(struct ddp_keeper *k, bool loaded, struct ddp_err *err);

/* What the program says of a save besides the state; borrowed for the call. */
struct keeper_order {
    int64_t step;
    const struct ddp_kv *meta;
    size_t nmeta;
    bool to_disk;
};

/*
 * Saves pieces of this rank, which are checked here. Collective:
 * `rc` is how this rank came here, and all fail if one does. The errors of
 * ddp_keeper_save_pieces.
 */
int keeper_pieces_save(struct ddp_keeper *k,
                       int rc,
                       const struct keeper_order *o,
                       const struct ddp_piece *pieces,
                       size_t n,
                       struct ddp_err *err);
void keeper_pieces_free(struct ddp_keeper *k);

/*
 * Comparison. Plan: as that of mirrors, `pieces` are this rank's. Due: whether
 * the save that was heard of is compared, the same on all ranks; `changed`:
 * some of the pieces are new.
 */
int keeper_compare_plan(struct ddp_keeper *k,
                        const struct ddp_piece *pieces,
                        const struct piece_key *keys,
                        const struct pieces_head *heads,
                        struct ddp_err *err);
bool keeper_compare_due(struct ddp_keeper *k, bool changed, bool disk);

/*
 * Compares what is about to be saved. Collective; `able`: this rank has a plan.
 * On all ranks: CORRUPT, PEER (see ddp_keeper_save), and then what is in memory
 * counts no more unless it is trusted; NOMEM, PROTO, the errors of the
 * collectives.
 */
int keeper_compare(struct ddp_keeper *k,
                   const struct ddp_piece *pieces,
                   int64_t step,
                   bool able,
                   struct ddp_err *err);
void keeper_compare_free(struct ddp_keeper *k);

/*
 * Mirrors. Plan: the keys of the pieces of all ranks, rank behind rank, and
 * what each said before (world); stores[i]: this rank stores its i-th piece.
 * NOMEM. Say: this rank's words for commit. Heard: what all said; if it
 * `goes_on` and there is something to send, all ranks meet, once, and it is
 * sent.
 */
int keeper_mirrors_plan(struct ddp_keeper *k,
                        const struct piece_key *keys,
                        const struct pieces_head *heads,
                        const bool *stores,
                        struct ddp_err *err);
void keeper_mirrors_say(struct ddp_keeper *k, struct commit_words *w);
void keeper_mirrors_heard(struct ddp_keeper *k,
                          const struct commit_words *all,
                          bool goes_on);

/* From now on nothing is sent or received. */
void keeper_mirrors_end(struct ddp_keeper *k);

/* The label of that image, as ranks compare them. */
struct commit_label keeper_commit_label(const struct ddp_keeper *k,
                                        const struct slot_label *label);

/* This rank's part of the launcher's memory; else `why`. */
void keeper_places_memory(struct ddp_keeper *k);

/* `k->folder`, if there is one. Collective unless `load_only`. IO, CONFLICT,
 * NOMEM; on all ranks. */
int keeper_places_folder(struct ddp_keeper *k,
                         bool load_only,
                         struct ddp_err *err);

/* Takes the folder over, once. IO. */
int keeper_own(struct ddp_keeper *k, struct ddp_err *err);

/*
 * All ranks fail if one does, with the error of the first of them: `rc` and
 * `err` are this rank's own. Collective.
 */
int keeper_agree(struct ddp_comm *comm, int rc, struct ddp_err *err);

/* What all ranks say. */
struct keeper_words {
    uint8_t *all;   /* one rank behind the other; NULL: there are none */
    uint64_t *lens; /* (world): how many bytes are rank r's */
    uint64_t total;
};

/*
 * What each rank has to say, `len` bytes here, told to all. Collective: `rc` is
 * how this rank came here, and all fail if one does. NOMEM, PROTO, and the
 * errors of the collectives, on all ranks; keeper_words_free in any case.
 */
int keeper_collect(struct ddp_comm *comm,
                   int rc,
                   const void *mine,
                   size_t len,
                   struct keeper_words *w,
                   struct ddp_err *err);
void keeper_words_free(struct keeper_words *w);

#endif
