/*
 * worker_rt/snapshot/keeper: what the parts of the keeper share. The public
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
 */
#ifndef WORKER_RT_SNAPSHOT_KEEPER_H
#define WORKER_RT_SNAPSHOT_KEEPER_H

#include <pthread.h>

#include "worker_rt/rt.h"
#include "worker_rt/snapshot/device_copy.h"
#include "worker_rt/snapshot/image.h"
#include "worker_rt/snapshot/mem_slots.h"
#include "worker_rt/snapshot/shared_file.h"
#include "worker_rt/snapshot/snapshot.h"
#include "worker_rt/snapshot/snapshot_dir.h"

/* What the first rank of a node tells the others. It travels: 64-bit members
 * only. */
struct stripes_offer {
    int64_t slot; /* one more than its number; 0: it saves alone, or nothing */
    int64_t len;  /* of the image */
    int64_t step; /* that is saved */
    int64_t session; /* in which all write it to the disk; 0: none */
};

struct ddp_keeper {
    struct ddp *d;
    struct ddp_comm *comm;
    int keep; /* files */
    enum {
        KEEPER_NO_DISK, /* another rank of the node, or of the job, has it */
        KEEPER_READS,   /* loads from the folder only */
        KEEPER_WRITES,  /* the folder's one writer .. */
        KEEPER_OWNS     /* .. which has taken it over */
    } disk;             /* what this rank does with the folder */
    char *folder;       /* owned; NULL: no disk */
    char why[256];      /* why there is no memory; "" if there is */
    bool has_memory;    /* the launcher's was opened, by this keeper alone */
    bool peeks;         /* another rank of the node has it: to load only */
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

    /* Each rank of a node copies and sums up a part: see keeper_stripes.c. */
    struct keeper_stripes {
        bool on;
        bool due;     /* a save that must be joined; the same on all ranks */
        int parts;    /* of that save on this node; 1: its first rank's alone */
        int slot;     /* for this rank's part of it; -1: it has none */
        bool differs; /* it is another image than that of the first rank */
        bool summed;  /* the sealer is done with the part: under `lock` */
        uint64_t session; /* in which the parts are written to the disk; 0:
                           * they are not */
        struct mem_slots theirs; /* the node's memory, on the other ranks .. */
        struct fork_watch fork;  /* .. no child keeps its locks */
        struct shared_file written;   /* both without a board, if .. */
        struct shared_file read;      /* .. one rank does it alone */
        struct stripes_offer *offers; /* (world), owned */
        int64_t *states;              /* the same */
    } stripes;

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
        uint64_t mark; /* of what it rests on: worker_rt/proof */
        bool to_disk;
        uint64_t session; /* in which all write it; 0: this rank alone does */
    } slot[MEM_SLOTS_MAX];
    int sealing;          /* -1: nothing to seal */
    int writing;          /* -1: nothing to write */
    int newest;           /* sealed last, -1: none by this worker */
    int copied;           /* the last one from a GPU, -1: none; the caller's */
    int64_t saved;        /* the newest step on the disk, -1: none */
    int64_t failed_step;  /* the write that failed, -1: none */
    struct ddp_err error; /* of it */
};

/* For how long the device may be busy behind a collective that failed, before
 * the copy is left alone: three seconds. A test makes it less. */
extern int64_t keeper_lost_us;

/*
 * What comes before a label; see keeper_prove.c. The first waits until slot i
 * is copied, the second until all that it rests on is proven. -1: there will be
 * no label, `err` says why.
 */
int keeper_wait_copied(struct ddp_keeper *k, int i, struct ddp_err *err);
int keeper_wait_proven(struct ddp_keeper *k, int i, struct ddp_err *err);

/* Brings the proof for what is being sealed. In the caller's thread, which may
 * use the communicators; not under the lock. */
void keeper_prove(struct ddp_keeper *k);

/* The slots that are in use. */
static inline struct mem_slots *keeper_slots(struct ddp_keeper *k)
{
    return k->memory.count > 0           ? &k->memory
           : k->stripes.theirs.count > 0 ? &k->stripes.theirs
                                         : &k->own;
}

/* A snapshot that this rank holds, by its label or by its name. */
struct keeper_candidate {
    int slot; /* -1: a file */
    int held; /* the slot into which that file was read; -1: none */
    struct slot_label label;
    struct snapshot_file file;
};

/* All of them, the best to load first. The caller frees `list`. IO, NOMEM. */
int keeper_find(struct ddp_keeper *k,
                struct keeper_candidate **list,
                size_t *n,
                struct ddp_err *err);

/* One of them, opened. */
struct keeper_opened {
    int fd; /* -1: it lies in memory */
    struct snapshot_source from;
};

/* NOINPUT (the file has gone), IO, CORRUPT. `o` must stay where it is until
 * keeper_close. */
int keeper_open(const struct ddp_keeper *k,
                const struct keeper_candidate *c,
                struct keeper_opened *o,
                struct ddp_err *err);
void keeper_close(struct keeper_opened *o);

/* A source's `read`; `ctx` is a slot's image. */
int keeper_read_slot(
    void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err);

/* What a rank offers to the others. It travels: 64-bit members only. */
struct keeper_offer {
    int64_t has;    /* 0: nothing (more); 1: this; else: keeper_load.c */
    int64_t memory; /* 1: it lies in memory */
    int64_t own;    /* 1: written by this instance */
    int64_t round;
    int64_t step;
    int64_t len;
    char who[SNAPSHOT_DIR_WHO]; /* the writer */
    char sum[SNAPSHOT_DIGITS];  /* the header's checksum */
};
_Static_assert(sizeof(struct keeper_offer) == 88, "no gaps");

/* Whether a snapshot is what its name or label, or the rank that has it, says.
 * CORRUPT. */
int keeper_check_offer(const struct keeper_offer *o,
                       const struct snapshot_fence *f,
                       struct ddp_err *err);

/* One snapshot on its way to all ranks. */
struct keeper_share {
    struct ddp_keeper *k;
    int reader;                          /* the rank that offers it .. */
    const struct keeper_offer *offer;    /* .. and what it offers */
    const struct keeper_candidate *mine; /* the reader's; NULL on the others */
    int64_t *states;                     /* (world), of the caller */
    struct snapshot_fence fence;         /* becomes that of the snapshot */
    struct ddp_err refused;              /* why the reader refused it .. */
    bool found_whole; /* .. or it did not, but another rank did: .. */
    int refuser;      /* .. this one, the first that did */
};

/*
 * Loads it on all ranks: from the memory of the node where that has the same
 * bytes, else from the reader. Collective. 0: all have it. 1: it was damaged,
 * or not what was offered, on one of them. -1: an error, on all ranks: USAGE,
 * NOMEM, PROTO, those of the collectives.
 */
int keeper_share(struct keeper_share *s,
                 const struct snapshot_wanted *wanted,
                 struct ddp_err *err);

/* Room for states of up to `max` bytes; 0: none. USAGE, NOMEM. */
int keeper_ranks_open(struct ddp_keeper *k, size_t max, struct ddp_err *err);
void keeper_ranks_free(struct ddp_keeper *k);

/* Collective, before a save, when nothing is being sealed: `with` becomes the
 * tensors and one more for the states of all ranks. The caller frees it. NOMEM,
 * CONFLICT (another rank saves another step), those of the collective. */
int keeper_ranks_gather(struct ddp_keeper *k,
                        int64_t step,
                        const struct ddp_tensor *tensors,
                        size_t n,
                        struct ddp_tensor **with,
                        struct ddp_err *err);

/* A load: begun; whether `t` are the states, and where they go; ended. NOMEM.
 */
void keeper_ranks_begin(struct ddp_keeper *k);
bool keeper_ranks_place(struct ddp_keeper *k,
                        const struct ddp_tensor *t,
                        void **place);
int keeper_ranks_end(struct ddp_keeper *k, bool loaded, struct ddp_err *err);

/*
 * Stripes: what a rank needs for them (USAGE, CONFIG, NOMEM), not collective.
 * All the others are: made, if all want them; the first rank of each node says
 * into which slot (-1: none that is shared) its image of `len` bytes goes, and
 * whether all write it to the disk, the others what theirs has; what became of
 * the parts. The errors of the collectives. The second one also CONFLICT: the
 * ranks save different steps. The last one, on the first rank of
 * a node, also CONFLICT and PEER: a part is missing; else it has the sums of
 * all of them.
 */
int keeper_stripes_prepare(struct ddp_keeper *k, bool on, struct ddp_err *err);
int keeper_stripes_open(struct ddp_keeper *k, struct ddp_err *err);
int keeper_stripes_offer(struct ddp_keeper *k,
                         int64_t step,
                         int slot,
                         uint64_t len,
                         bool disk,
                         struct ddp_err *err);
int keeper_stripes_join(struct ddp_keeper *k, struct ddp_err *err);

/* From now on this rank writes and reads alone; no thread does so with others,
 * and the memory is still open. Then the rest of it. */
void keeper_stripes_leave(struct ddp_keeper *k);
void keeper_stripes_close(struct ddp_keeper *k);

/*
 * The file of a save, on each rank of a node that writes it: the leader puts it
 * into the folder, the others help it. On all of them the same error.
 */
int keeper_stripes_put(struct ddp_keeper *k, int i, struct ddp_err *err);

/* There will be no file of that session: the others are told why. */
void keeper_stripes_drop(struct ddp_keeper *k,
                         uint64_t session,
                         const struct ddp_err *why);

/*
 * The ranks of a node read files into its memory, each a part of them. Between
 * the two the leader fetches what it looks at, and the others help with it:
 * begin returns when the leader has called end. Not collective beyond the node.
 */
void keeper_stripes_begin_load(struct ddp_keeper *k);
void keeper_stripes_end_load(struct ddp_keeper *k);

/* `o`, a file, lies in memory then, if there is room for it and all could read
 * their parts; else the leader reads it alone, and knows what is wrong with it.
 */
void keeper_stripes_fetch(struct ddp_keeper *k,
                          struct keeper_candidate *c,
                          struct keeper_opened *o);

/* What was fetched is whole, and this: the other ranks may take it from there.
 */
void keeper_stripes_label(struct ddp_keeper *k,
                          const struct keeper_candidate *c,
                          const struct snapshot_fence *f);

/* Whether this rank copies the t-th tensor of the image. */
bool keeper_stripes_mine(const struct ddp_keeper *k,
                         const struct image *m,
                         size_t t);

/* The launcher's memory, if this rank is the one that uses it; else `why`. */
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

/* Whether this rank saves the step that rank 0 saves. CONFLICT. */
int keeper_same_step(int64_t zero, int rank, int64_t step, struct ddp_err *err);

#endif
