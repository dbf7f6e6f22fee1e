/*
 * worker_rt/snapshot/keeper: saving, in three stages: the caller's copy, the
 * sealer's checksums and label, the writer's file.
 *
 * Happy path: save waits until nothing is being sealed, picks a slot that
 * nobody needs, copies (or leaves that to the sealer) and hands the slot over
 * in `sealing`. The sealer sums, labels and, for a save to the disk, hands it
 * on in `writing`. The writer puts the file into the folder.
 *
 * A collective that the state rests on may still be under way on a GPU. Then
 * the sealer waits with the label for its proof, which the caller's thread
 * brings in its next call: it alone may use the communicator.
 *
 * Failure modes. Such a collective fails: there is no label, and every later
 * save is refused. The memory runs out: it is given up once for all, with a
 * reason, and the disk goes on alone. A seal or a write fails: the error waits
 * for the caller's next save, and training goes on. The program ends in the
 * middle: a slot without a label is ignored, and a file without its name is
 * swept away by the next writer. A slow disk: the next save to the disk waits,
 * saves to memory do not.
 *
 * Ownership of a slot: the caller's from pick to `sealing`, then the sealer's,
 * then the writer's or nobody's. The lock guards the hand-over, not the bytes.
 */
#include "worker_rt/snapshot/keeper.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/abi.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/snapshot/snapshot.h"

#define KEEP_DEFAULT 2

/* What holds whenever the lock is free: a slot is sealed or written, not both
 * at once, and only a slot that was ordered to the disk is written. */
static void check(const struct ddp_keeper *k)
{
    ddp_assert(k->sealing >= -1 && k->sealing < MEM_SLOTS_MAX);
    ddp_assert(k->writing >= -1 && k->writing < MEM_SLOTS_MAX);
    ddp_assert(k->sealing < 0 || k->sealing != k->writing);
    ddp_assert(k->writing < 0 || k->slot[k->writing].to_disk);
    ddp_assert(k->failed_step < 0 || k->error.code != DDP_E_OK);
}

/* -- the threads ----------------------------------------------------------- */

/* In pieces, so that each is summed while it is in the cache. `from`: NULL
 * if it has been copied. */
static void
sum_tensor(struct image *m, size_t t, uint8_t *to, const uint8_t *from)
{
    uint64_t left = image_size(m, t);
    image_hash_begin(m);
    while (left > 0) {
        size_t n = left < SNAPSHOT_PIECE ? (size_t)left : SNAPSHOT_PIECE;
        if (from != NULL) {
            memcpy(to, from, n);
            from += n;
        }
        image_hash(m, to, n);
        to += n;
        left -= n;
    }
    image_hash_end(m, t);
}

/* Checksums of what is copied: of all, or of this rank's part. */
static int sum_up(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    struct mem_slots *slots = keeper_slots(k);
    struct keeper_slot *slot = &k->slot[i];
    struct image *m = &slot->image;
    uint8_t *at = mem_slots_image(slots, i);
    ddp_assert(image_len(m) <= mem_slots_room(slots));
    /* Without a label nobody believes what is in the slot. */
    if (keeper_wait_copied(k, i, err) != 0)
        return -1;
    for (size_t t = 0; t < m->ntensors; t++)
        if (keeper_stripes_mine(k, m, t))
            sum_tensor(m, t, at + image_at(m, t),
                       slot->from == NULL ? NULL : slot->from[t]);
    return keeper_wait_proven(k, i, err);
}

/* The header, with the sums, before the data; then the label. */
static int seal(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    struct mem_slots *slots = keeper_slots(k);
    struct keeper_slot *slot = &k->slot[i];
    struct image *m = &slot->image;
    const uint8_t *header = image_header(m, err);
    if (header == NULL)
        return -1;
    memcpy(mem_slots_image(slots, i), header, m->header_len);
    struct slot_label label = {
        .len = image_len(m), .round = k->d->fence, .step = slot->step};
    memcpy(label.instance, k->d->instance, sizeof(k->d->instance));
    mem_slots_label(slots, i, &label); /* last: it says that all is there */
    return 0;
}

/* Under the lock. A newer failure replaces one that nobody has asked for. */
static void note_failure(struct ddp_keeper *k, int i, const struct ddp_err *why)
{
    k->failed_step = k->slot[i].step;
    k->error = *why;
}

/* Under the lock: what becomes of a slot whose seal ended with `rc`. */
static void sealed(struct ddp_keeper *k, int i, int rc, struct ddp_err *why)
{
    if (rc != 0) {
        note_failure(k, i, why);
        return;
    }
    k->newest = i;
    if (k->slot[i].to_disk) {
        ddp_assert(k->writing < 0); /* put has waited for it */
        k->writing = i;
    }
}

/* The lock is open while a slot is sealed: `sealing` keeps others away from it,
 * and save waits for that, not for the lock. The label of parts is left to
 * finish. */
static void *sealer_main(void *arg)
{
    struct ddp_keeper *k = arg;
    (void)pthread_mutex_lock(&k->lock);
    while (!atomic_load(&k->quit)) {
        if (k->sealing < 0) {
            (void)pthread_cond_wait(&k->changed, &k->lock);
            continue;
        }
        struct ddp_err why;
        int i = k->sealing;
        (void)pthread_mutex_unlock(&k->lock);
        bool whole = k->stripes.parts == 1;
        int rc = sum_up(k, i, &why);
        if (rc == 0 && whole)
            rc = seal(k, i, &why);
        (void)pthread_mutex_lock(&k->lock);
        ddp_assert(k->sealing == i);
        if (rc != 0 || whole)
            sealed(k, i, rc, &why);
        k->stripes.summed = rc == 0;
        k->sealing = -1;
        check(k);
        (void)pthread_cond_broadcast(&k->changed);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

static int write_file(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    const struct keeper_slot *slot = &k->slot[i];
    if (slot->session > 0)
        return keeper_stripes_put(k, i, err);
    return snapshot_dir_put(
        &k->dir, slot->step, mem_slots_image(keeper_slots(k), i),
        (size_t)image_len(&slot->image), k->keep, &k->quit, err);
}

/* As the sealer. `quit` ends a write in the middle, so that a program which
 * ends does not wait for a slow disk: the file has no name yet. */
static void *writer_main(void *arg)
{
    struct ddp_keeper *k = arg;
    (void)pthread_mutex_lock(&k->lock);
    while (!atomic_load(&k->quit)) {
        if (k->writing < 0) {
            (void)pthread_cond_wait(&k->changed, &k->lock);
            continue;
        }
        struct ddp_err why;
        int i = k->writing;
        (void)pthread_mutex_unlock(&k->lock);
        int rc = write_file(k, i, &why);
        (void)pthread_mutex_lock(&k->lock);
        if (rc != 0)
            note_failure(k, i, &why);
        else if (k->disk == KEEPER_OWNS)
            k->saved = k->slot[i].step;
        ddp_assert(k->writing == i);
        k->writing = -1;
        check(k);
        (void)pthread_cond_broadcast(&k->changed);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* With the first save: a program that only loads needs none. Signals are the
 * program's: its own threads take them. */
static int start_threads(struct ddp_keeper *k, struct ddp_err *err)
{
    sigset_t all, old;
    if (k->started)
        return 0;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* valid arguments */
    int rc = pthread_create(&k->sealer, NULL, sealer_main, k);
    if (rc == 0 && (rc = pthread_create(&k->writer, NULL, writer_main, k))) {
        (void)pthread_mutex_lock(&k->lock);
        atomic_store(&k->quit, true);
        (void)pthread_cond_broadcast(&k->changed);
        (void)pthread_mutex_unlock(&k->lock);
        (void)pthread_join(k->sealer, NULL);
        atomic_store(&k->quit, false);
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "cannot start a thread that saves snapshots: %s",
                           strerror(rc));
    k->started = true;
    return 0;
}

static void stop_threads(struct ddp_keeper *k)
{
    if (!k->started)
        return;
    (void)pthread_mutex_lock(&k->lock);
    atomic_store(&k->quit, true);
    (void)pthread_cond_broadcast(&k->changed);
    (void)pthread_mutex_unlock(&k->lock);
    proof_wake(&k->d->proof);
    (void)pthread_join(k->sealer, NULL);
    (void)pthread_join(k->writer, NULL);
    k->started = false;
}

/* -- save ------------------------------------------------------------------ */

/* Both under the lock. */
static void wait_sealed(struct ddp_keeper *k)
{
    while (k->sealing >= 0)
        (void)pthread_cond_wait(&k->changed, &k->lock);
}

static void wait_written(struct ddp_keeper *k)
{
    while (k->writing >= 0)
        (void)pthread_cond_wait(&k->changed, &k->lock);
}

/* Memory cannot be used any more: told once, and the disk goes on alone. What
 * is in its slots stays as good as it was. */
static void give_up_memory(struct ddp_keeper *k, const char *why)
{
    (void)snprintf(k->why, sizeof(k->why), "%.250s", why);
    wait_sealed(k);
    wait_written(k);
    ddp_assert(k->sealing < 0 && k->writing < 0);
    device_copy_unpin(&k->device);
    keeper_stripes_leave(k);
    mem_slots_close(&k->memory);
    k->newest = -1;
}

/* Slots of our own, once they are needed or too small. The new ones are another
 * memfd, so nothing may be under way in the old ones: the writer reads there,
 * and the driver has locked their pages. */
static int reserve_own(struct ddp_keeper *k, uint64_t len, struct ddp_err *err)
{
    if (k->own.count > 0 && mem_slots_room(&k->own) >= len)
        return 0;
    wait_written(k);
    device_copy_unpin(&k->device);
    mem_slots_close(&k->own);
    return mem_slots_make(&k->own, len, err);
}

/*
 * Picks a free slot, with memory for the image. Under the lock, when nothing is
 * being sealed; -1: NOMEM.
 *
 * In the launcher's memory the newest slot is not free: it is what the next
 * worker resumes from if this one dies before the new image has its label. The
 * slots of our own die with us, so only the one on its way to the disk is
 * taken.
 */
static int pick(struct ddp_keeper *k, uint64_t len, struct ddp_err *err)
{
    struct ddp_err why;
    int i = 0;
    if (k->memory.count > 0) {
        while (i == k->writing || i == k->newest)
            i++;
        ddp_assert(i < k->memory.count); /* two of three at most are needed */
        if (len > mem_slots_room(&k->memory))
            (void)ddp_err_set(&why, DDP_E_NOMEM,
                              "three snapshots of %.1f MB do not fit into the "
                              "%.1f MB that ddprun holds for them: start it "
                              "with a larger --snapshot_memory",
                              (double)len / 1e6,
                              (double)(k->memory.each * MEM_SLOTS_SHARED) /
                                  1e6);
        else if (mem_slots_reserve(&k->memory, i, len, &why) == 0)
            return i;
        give_up_memory(k, why.text);
    }
    if (reserve_own(k, len, err) != 0)
        return -1;
    i = k->writing == 0 ? 1 : 0;
    return mem_slots_reserve(&k->own, i, len, err) == 0 ? i : -1;
}

/* The parts in the order of the image. On return the tensors may be changed:
 * what is left of the copy goes on behind the program's stream (device_copy).
 */
static int copy_from_gpu(struct ddp_keeper *k,
                         int i,
                         const struct image *m,
                         const struct ddp_tensor *tensors,
                         struct ddp_err *err)
{
    uint8_t *at = mem_slots_image(keeper_slots(k), i);
    struct device_copy_part *parts = calloc(m->ntensors + 1, sizeof(*parts));
    if (parts == NULL)
        return snapshot_no_memory(err);
    size_t n = 0;
    for (size_t t = 0; t < m->ntensors; t++)
        if (keeper_stripes_mine(k, m, t))
            parts[n++] =
                (struct device_copy_part){.to = at + image_at(m, t),
                                          .from = tensors[m->order[t]].data,
                                          .len = (size_t)image_size(m, t)};
    device_copy_pin(&k->device, i, at, (size_t)image_len(m));
    bool wait;
    k->copied = i;
    int rc = device_copy_begin(&k->device, parts, n, &wait, err);
    free(parts);
    if (rc == 0 && !wait)
        return 0;
    /* Behind a collective whose peer is dead it would never end. After an error
     * some may be under way, and the slot is the next save's. */
    struct ddp_err why;
    proof_prove(&k->d->proof, k->slot[i].mark);
    if (keeper_wait_copied(k, i, &why) == 0 || rc != 0)
        return rc;
    *err = why;
    return -1;
}

/* Notes where the sealer finds everything, which it copies while it sums: one
 * pass over memory instead of two. The caller leaves it unchanged until settle.
 */
static int note_sources(struct keeper_slot *slot,
                        const struct ddp_tensor *tensors,
                        struct ddp_err *err)
{
    const struct image *m = &slot->image;
    ddp_assert(slot->from == NULL);
    slot->from = calloc(m->ntensors + 1, sizeof(*slot->from));
    if (slot->from == NULL)
        return snapshot_no_memory(err);
    for (size_t t = 0; t < m->ntensors; t++)
        slot->from[t] = tensors[m->order[t]].data;
    return 0;
}

/* Before the hand-over: from a GPU, not at all (`later`), or now. */
static int copy(struct ddp_keeper *k,
                int i,
                const struct ddp_tensor *tensors,
                struct ddp_err *err)
{
    const struct image *m = &k->slot[i].image;
    uint8_t *at = mem_slots_image(keeper_slots(k), i);
    if (k->device.gpu != NULL)
        return copy_from_gpu(k, i, m, tensors, err);
    if (k->later)
        return note_sources(&k->slot[i], tensors, err);
    for (size_t t = 0; t < m->ntensors; t++)
        if (image_size(m, t) > 0 && keeper_stripes_mine(k, m, t))
            memcpy(at + image_at(m, t), tensors[m->order[t]].data,
                   image_size(m, t));
    return 0;
}

/* Under the lock: the error of an earlier save, once. */
static int take_error(struct ddp_keeper *k, struct ddp_err *err)
{
    if (k->failed_step < 0)
        return 0;
    *err = k->error;
    (void)ddp_err_wrap(err, "snapshot of step %lld in '%.200s'",
                       (long long)k->failed_step,
                       k->folder == NULL ? "memory" : k->folder);
    k->failed_step = -1;
    return -1;
}

static void free_slot(struct keeper_slot *slot)
{
    image_free(&slot->image);
    free(slot->from);
    slot->from = NULL;
}

/*
 * Under the lock, which is open during the copy. Waits, if it goes to the disk
 * too, for the last file: so at most one image is sealed and one is written,
 * and three slots always suffice.
 *
 * An error that it returns may be that of an earlier save; this one has been
 * handed over then all the same.
 */
static int hand_over(struct ddp_keeper *k,
                     int i,
                     struct image *m,
                     int64_t step,
                     const struct ddp_tensor *tensors,
                     bool disk,
                     struct ddp_err *err)
{
    ddp_assert(i != k->writing && i < keeper_slots(k)->count);
    struct keeper_slot *slot = &k->slot[i];
    free_slot(slot);
    slot->image = *m;
    *m = (struct image){0};
    slot->step = step;
    slot->to_disk = disk;
    slot->session = disk ? k->stripes.session : 0;
    (void)pthread_mutex_unlock(&k->lock);
    /* No thread knows of this slot yet. */
    slot->mark = proof_mark(&k->d->proof);
    int rc = proof_look(&k->d->proof, slot->mark, err) == PROOF_BROKEN
                 ? -1
                 : copy(k, i, tensors, err);
    (void)pthread_mutex_lock(&k->lock);
    if (rc != 0)
        return -1;
    if (disk)
        wait_written(k);
    ddp_assert(k->sealing < 0 && k->writing != i);
    k->sealing = i;
    (void)pthread_cond_broadcast(&k->changed);
    if (take_error(k, err) == 0)
        return 0;
    /* After an error the caller may free the tensors. */
    (void)pthread_mutex_unlock(&k->lock);
    keeper_prove(k);
    (void)pthread_mutex_lock(&k->lock);
    wait_sealed(k);
    return -1;
}

/* Waits for the seal of the step before. */
static int put(struct ddp_keeper *k,
               struct image *m,
               int64_t step,
               const struct ddp_tensor *tensors,
               bool disk,
               struct ddp_err *err)
{
    keeper_prove(k);
    (void)pthread_mutex_lock(&k->lock);
    wait_sealed(k);
    check(k);
    int i = pick(k, image_len(m), err);
    int rc = i < 0 ? -1 : hand_over(k, i, m, step, tensors, disk, err);
    (void)pthread_mutex_unlock(&k->lock);
    return rc;
}

/* As put, on all ranks, with stripes: the save before has been joined. `rc` is
 * how this rank came here. */
static int put_part(struct ddp_keeper *k,
                    struct image *m,
                    int rc,
                    int64_t step,
                    const struct ddp_tensor *tensors,
                    bool disk,
                    struct ddp_err *err)
{
    int i = -1;
    struct ddp_err lost;
    if (keeper_agree(k->comm, rc, err) != 0)
        return -1;
    (void)pthread_mutex_lock(&k->lock);
    if (disk || k->memory.count > 0)
        rc = (i = pick(k, image_len(m), err)) < 0 ? -1 : 0;
    bool shared = i >= 0 && k->memory.count > 0;
    (void)pthread_mutex_unlock(&k->lock);
    if (keeper_stripes_offer(k, step, shared ? i : -1, image_len(m), disk,
                             &lost) != 0) {
        *err = lost;
        return -1;
    }
    if (k->d->node_rank != 0) {
        i = k->stripes.slot;
        disk = k->stripes.session > 0;
    }
    if (i < 0)
        return rc;
    (void)pthread_mutex_lock(&k->lock);
    if (k->writing == i) /* the first rank knows already that it is written */
        wait_written(k);
    rc = hand_over(k, i, m, step, tensors, disk, err);
    (void)pthread_mutex_unlock(&k->lock);
    return rc;
}

/* The first rank of a node: `rc` is whether all parts are there. */
static void make_whole(struct ddp_keeper *k, int i, int rc, struct ddp_err *why)
{
    if (!k->stripes.summed) {
        (void)ddp_err_set(why, DDP_E_PEER,
                          "stripes: rank %d did not copy its part", k->d->rank);
        keeper_stripes_drop(k, k->slot[i].session, why);
        return; /* the sealer has told this rank why */
    }
    if (rc == 0)
        rc = seal(k, i, why);
    if (rc != 0)
        keeper_stripes_drop(k, k->slot[i].session, why);
    (void)pthread_mutex_lock(&k->lock);
    sealed(k, i, rc, why);
    (void)pthread_cond_broadcast(&k->changed);
    (void)pthread_mutex_unlock(&k->lock);
}

/* With stripes: the parts of the last save become one snapshot, if all of them
 * are there. Collective then. */
static void finish(struct ddp_keeper *k)
{
    struct ddp_err why;
    if (!k->stripes.due)
        return;
    keeper_prove(k);
    (void)pthread_mutex_lock(&k->lock);
    wait_sealed(k);
    (void)pthread_mutex_unlock(&k->lock);
    int i = k->stripes.slot, rc = keeper_stripes_join(k, &why);
    if (i < 0 || k->stripes.parts == 1)
        return;
    if (k->d->node_rank == 0) {
        make_whole(k, i, rc, &why);
        return;
    }
    if (rc != 0 || !k->stripes.summed || k->slot[i].session == 0)
        return;
    (void)pthread_mutex_lock(&k->lock);
    ddp_assert(k->writing < 0); /* hand_over has waited for it */
    k->writing = i;
    (void)pthread_cond_broadcast(&k->changed);
    (void)pthread_mutex_unlock(&k->lock);
}

/* What can be refused without the lock is refused first. The folder is taken
 * over before its first file, not at the start: a load may have failed. `rc` is
 * how this rank came here: with stripes the others wait for it in any case. */
static int save(struct ddp_keeper *k,
                int rc,
                int64_t step,
                const struct ddp_tensor *tensors,
                size_t ntensors,
                const struct ddp_kv *meta,
                size_t nmeta,
                bool disk,
                struct ddp_err *err)
{
    struct image m = {.ntensors = 0};
    if (rc == 0 && step < 0)
        rc = ddp_err_set(err, DDP_E_USAGE,
                         "the step is %lld, must not be negative",
                         (long long)step);
    if (rc == 0)
        rc = image_init(&m, k->d, step, tensors, ntensors, meta, nmeta, err);
    if (rc == 0)
        rc = start_threads(k, err);
    if (rc == 0 && disk)
        rc = keeper_own(k, err);
    if (k->stripes.on)
        rc = put_part(k, &m, rc, step, tensors, disk, err);
    else if (rc == 0)
        rc = put(k, &m, step, tensors, disk, err);
    image_free(&m);
    return rc;
}

int ddp_keeper_save(struct ddp_keeper *k,
                    int64_t step,
                    const struct ddp_tensor *tensors,
                    size_t ntensors,
                    const struct ddp_kv *meta,
                    size_t nmeta,
                    bool to_disk,
                    struct ddp_error *err)
{
    struct ddp_err why, other;
    struct ddp_tensor *with = NULL;
    bool disk = to_disk && k->disk >= KEEPER_WRITES;
    int rc = snapshot_check_names(tensors, ntensors, &why);
    finish(k);
    if (k->ranks.max > 0) {
        ddp_keeper_settle(k); /* until then the sealer reads what they set */
        int got =
            keeper_ranks_gather(k, step, tensors, ntensors, &with, &other);
        if (rc == 0 && got != 0)
            why = other;
        rc = rc != 0 ? rc : got;
        tensors = with;
        ntensors++;
    }
    if (k->stripes.on || (rc == 0 && (disk || k->memory.count > 0)))
        rc = save(k, rc, step, tensors, ntensors, meta, nmeta, disk, &why);
    free(with);
    if (rc == 0)
        ddp_beat(k->d, step); /* a program may say nothing else of its steps */
    return rc == 0 ? 0 : rt_fail(err, &why);
}

void ddp_keeper_settle(struct ddp_keeper *k)
{
    finish(k);
    keeper_prove(k);
    (void)pthread_mutex_lock(&k->lock);
    wait_sealed(k);
    (void)pthread_mutex_unlock(&k->lock);
}

int ddp_keeper_wait(struct ddp_keeper *k, struct ddp_error *err)
{
    struct ddp_err why;
    finish(k);
    keeper_prove(k);
    (void)pthread_mutex_lock(&k->lock);
    wait_sealed(k);
    wait_written(k);
    int rc = take_error(k, &why);
    (void)pthread_mutex_unlock(&k->lock);
    return rc == 0 ? 0 : rt_fail(err, &why);
}

int64_t ddp_keeper_saved(struct ddp_keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    int64_t step = k->saved;
    (void)pthread_mutex_unlock(&k->lock);
    return step;
}

const char *ddp_keeper_no_memory(const struct ddp_keeper *k)
{
    return k->why;
}

int keeper_own(struct ddp_keeper *k, struct ddp_err *err)
{
    if (k->disk != KEEPER_WRITES)
        return 0;
    ddp_assert(k->folder != NULL && k->dir.fd >= 0);
    if (snapshot_dir_own(&k->dir, err) != 0)
        return ddp_err_wrap(err, "'%.200s'", k->folder);
    k->disk = KEEPER_OWNS;
    return 0;
}

/* -- open ------------------------------------------------------------------ */

/* All that this rank can lack or find wrong by itself. */
static int prepare(struct ddp_keeper *k,
                   const struct ddp_keeper_conf *conf,
                   struct ddp_err *err)
{
    if (conf->keep < 0 || conf->keep > 1000)
        return ddp_err_set(err, DDP_E_USAGE,
                           "keep is %d, must be from 0 (the default) to 1000",
                           conf->keep);
    k->keep = conf->keep == 0 ? KEEP_DEFAULT : conf->keep;
    k->later = conf->later;
    k->folder = conf->folder == NULL ? NULL : strdup(conf->folder);
    if (conf->folder != NULL && k->folder == NULL)
        return snapshot_no_memory(err);
    if (keeper_ranks_open(k, conf->rank_state_max, err) != 0)
        return -1;
    if (conf->gpu && device_copy_open(&k->device, conf->stream, err) != 0)
        return -1;
    if (conf->gpu)
        device_copy_give_room(&k->device, conf->room, conf->room_len);
    if (conf->no_memory)
        (void)snprintf(k->why, sizeof(k->why), "the options turn it off");
    else
        keeper_places_memory(k);
    return keeper_stripes_prepare(k, conf->stripes && !conf->no_memory, err);
}

static struct ddp_keeper *begin(struct ddp *d, struct ddp_comm *comm)
{
    struct ddp_keeper *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return NULL;
    k->d = d;
    k->comm = comm;
    k->dir.fd = k->memory.fd = k->own.fd = k->stripes.theirs.fd = -1;
    k->stripes.parts = 1;
    fork_watch(&k->fork, &k->memory.fd, 1, 0);
    k->sealing = k->writing = k->newest = k->copied = -1;
    k->saved = k->failed_step = -1;
    (void)pthread_mutex_init(&k->lock, NULL); /* these cannot fail here */
    (void)pthread_cond_init(&k->changed, NULL);
    return k;
}

/* A rank that fails by itself says so first: in what follows the others would
 * wait for it. */
struct ddp_keeper *ddp_keeper_new(struct ddp *d,
                                  struct ddp_comm *comm,
                                  const struct ddp_keeper_conf *conf,
                                  struct ddp_error *err)
{
    struct ddp_err why;
    struct ddp_keeper_conf full;
    struct ddp_keeper *k = begin(d, comm);
    int rc = k == NULL ? snapshot_no_memory(&why) : 0;
    if (rc == 0)
        rc = abi_take(&full, sizeof(full), conf, ABI_KEEPER_CONF_MIN, &why);
    if (rc == 0)
        rc = prepare(k, &full, &why);
    if (keeper_agree(comm, rc, &why) == 0 &&
        keeper_stripes_open(k, &why) == 0 &&
        keeper_places_folder(k, full.load_only, &why) == 0)
        return k;
    ddp_keeper_free(k);
    (void)rt_fail(err, &why);
    return NULL;
}

void ddp_keeper_free(struct ddp_keeper *k)
{
    if (k == NULL)
        return;
    struct ddp_err why;
    stop_threads(k); /* before anything that they use goes */
    check(k);
    /* Nor while the device writes there. What never comes is left alone. */
    if (k->copied >= 0)
        (void)keeper_wait_copied(k, k->copied, &why);
    for (int i = 0; i < MEM_SLOTS_MAX; i++)
        free_slot(&k->slot[i]);
    fork_forget(&k->fork);
    device_copy_close(&k->device);
    if (k->has_memory)
        k->d->memory_used = false;
    keeper_stripes_leave(k);
    if (!k->device.lost) { /* else the driver may still write there */
        mem_slots_close(&k->memory);
        mem_slots_close(&k->own);
    }
    keeper_stripes_close(k);
    keeper_ranks_free(k);
    snapshot_dir_close(&k->dir);
    (void)pthread_cond_destroy(&k->changed);
    (void)pthread_mutex_destroy(&k->lock);
    free(k->folder);
    free(k);
}
