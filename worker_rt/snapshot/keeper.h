/*
 * worker_rt/snapshot/keeper: what the parts of the keeper share. The public
 * calls are in ddp.h.
 *
 *     save: copy into a free slot ─► sealer: checksums, label ─► writer: file
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
#include "worker_rt/snapshot/snapshot_dir.h"

struct ddp_keeper {
    struct ddp *d;
    struct ddp_comm *comm;
    int keep;      /* files */
    bool writes;   /* this rank writes to the disk .. */
    bool reads;    /* .. or loads from it */
    char *folder;  /* owned; NULL: no disk */
    char why[256]; /* why there is no memory; "" if there is */
    struct snapshot_dir dir;
    bool later;              /* the sealer copies */
    bool owns;               /* the folder has been taken over */
    struct mem_slots memory; /* the launcher's; count 0: none */
    struct mem_slots own;    /* on the way to the disk; count 0: not made */
    struct device_copy
        device; /* from a GPU's memory, where tensors lie there */

    /* The threads, started with the first save. */
    bool started;
    pthread_t sealer, writer;
    atomic_bool quit;

    /* Under `lock`; whoever changes something tells `changed`. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct keeper_slot {
        struct image image;
        const uint8_t **from; /* (ntensors), owned; NULL: it is copied */
        int64_t step;
        bool to_disk;
    } slot[MEM_SLOTS_MAX];
    int sealing;          /* -1: nothing to seal */
    int writing;          /* -1: nothing to write */
    int newest;           /* sealed last, -1: none by this worker */
    int64_t saved;        /* the newest step on the disk, -1: none */
    int64_t failed_step;  /* the write that failed, -1: none */
    struct ddp_err error; /* of it */
};

/* The slots that are in use. */
static inline struct mem_slots *keeper_slots(struct ddp_keeper *k)
{
    return k->memory.count > 0 ? &k->memory : &k->own;
}

/* Takes the folder over, once. IO. */
int keeper_own(struct ddp_keeper *k, struct ddp_err *err);

/*
 * All ranks fail if one does, with the error of the first of them: `rc` and
 * `err` are this rank's own. Collective.
 */
int keeper_agree(struct ddp_comm *comm, int rc, struct ddp_err *err);

#endif
