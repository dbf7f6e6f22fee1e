/*
 * worker_rt/keeper/keeper_threads: what becomes of a slot that was handed over:
 * the sealer's checksums and label, the writer's file. See keeper.c.
 *
 * The sealer waits for the device, sums up, and waits for the proof
 * (worker_rt/proof), which the caller's thread brings with keeper_prove in its
 * next call.
 *
 * Failure modes of that. A collective failed: no label, and the copy is waited
 * for as long as NCCL's abort may take. The program ends: it brings no proof
 * any more, so there is no label either. The device never comes to an end: the
 * copy is left alone, with the memory that it may still write to.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/snapshot/snapshot.h"

/* What holds whenever the lock is free: a slot is sealed or written, not both
 * at once, and only a slot that was ordered to the disk is written. */
void keeper_check(const struct ddp_keeper *k)
{
    ddp_assert(k->sealing >= -1 && k->sealing < MEM_SLOTS_MAX);
    ddp_assert(k->writing >= -1 && k->writing < MEM_SLOTS_MAX);
    ddp_assert(k->sealing < 0 || k->sealing != k->writing);
    ddp_assert(k->writing < 0 || k->slot[k->writing].to_disk);
    ddp_assert(k->failed_step < 0 || k->error.code != DDP_E_OK);
}

/* -- what a label rests on ------------------------------------------------- */

int64_t keeper_lost_us = 3 * MONO_S;

/* A wait for the device, behind work that may never end. */
struct proof_wait {
    struct ddp_keeper *k;
    uint64_t mark;    /* of what is copied */
    int64_t until_us; /* 0: it will end, as far as is known */
};

/* A collective that failed ends when NCCL is aborted, mostly; a program that
 * ends brings no proof any more. In both cases the device gets some time. */
static bool goes_on(void *ctx)
{
    struct proof_wait *p = ctx;
    struct ddp_err why;
    enum proof_state state = proof_look(&p->k->d->proof, p->mark, &why);
    if (state == PROOF_SOUND ||
        (state == PROOF_OPEN && !atomic_load(&p->k->quit)))
        return true;
    if (p->until_us == 0)
        p->until_us = mono_now_us() + keeper_lost_us;
    return mono_now_us() < p->until_us;
}

/* If it is given up, the reason counts that the collective had, not that the
 * device waits for it. */
int keeper_wait_copied(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    struct proof_wait p = {.k = k, .mark = k->slot[i].mark};
    struct ddp_err better;
    if (device_copy_wait(&k->device, goes_on, &p, err) == 0)
        return 0;
    if (err->code == DDP_E_ABORTED &&
        proof_look(&k->d->proof, p.mark, &better) == PROOF_BROKEN)
        *err = better;
    return -1;
}

static int wait_proven(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    struct proof *p = &k->d->proof;
    enum proof_state state = proof_wait(p, k->slot[i].mark, &k->quit, err);
    if (state != PROOF_OPEN)
        return state == PROOF_SOUND ? 0 : -1;
    return ddp_err_set(err, DDP_E_ABORTED,
                       "the program ended before it was known whether the "
                       "collectives that it rests on completed");
}

void keeper_prove(struct ddp_keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool sealing = k->sealing >= 0;
    uint64_t mark = sealing ? k->slot[k->sealing].mark : 0;
    (void)pthread_mutex_unlock(&k->lock);
    if (sealing)
        proof_prove(&k->d->proof, mark);
}

/* -- sealing --------------------------------------------------------------- */

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

/* Checksums of what is copied. */
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
        sum_tensor(m, t, at + image_at(m, t),
                   slot->from == NULL ? NULL : slot->from[t]);
    return wait_proven(k, i, err);
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
    struct slot_label label = {.len = image_len(m),
                               .round = k->d->fence,
                               .step = slot->step,
                               .rank = k->d->rank,
                               .world = k->d->world,
                               .save = slot->save};
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
static void
note_sealed(struct ddp_keeper *k, int i, int rc, const struct ddp_err *why)
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
 * and save waits for that, not for the lock. */
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
        int rc = sum_up(k, i, &why);
        if (rc == 0)
            rc = seal(k, i, &why);
        (void)pthread_mutex_lock(&k->lock);
        ddp_assert(k->sealing == i);
        note_sealed(k, i, rc, &why);
        k->sealing = -1;
        keeper_check(k);
        (void)pthread_cond_broadcast(&k->changed);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* These two under the lock, which is open while they use the disk. */
static void write_slot(struct ddp_keeper *k)
{
    struct ddp_err why;
    int i = k->writing;
    const struct keeper_slot *slot = &k->slot[i];
    (void)pthread_mutex_unlock(&k->lock);
    int rc = snapshot_dir_put(&k->dir, slot->step, k->d->rank, k->d->world,
                              slot->again, mem_slots_image(keeper_slots(k), i),
                              (size_t)image_len(&slot->image), &k->quit, &why);
    (void)pthread_mutex_lock(&k->lock);
    if (rc != 0) {
        note_failure(k, i, &why);
    } else {
        if (k->saved < 0)
            rt_tell_barren(k->d, 0);
        k->saved = slot->step;
        k->saved_as = slot->save;
    }
    ddp_assert(k->writing == i);
    k->writing = -1;
    keeper_check(k);
    (void)pthread_cond_broadcast(&k->changed);
}

static void prune(struct ddp_keeper *k)
{
    const struct snapshot_file whole = k->prune;
    (void)pthread_mutex_unlock(&k->lock);
    snapshot_dir_prune(&k->dir, &whole, k->keep);
    (void)pthread_mutex_lock(&k->lock);
    if (k->prune.round == whole.round && k->prune.step == whole.step)
        k->prune.step = -1;
    (void)pthread_cond_broadcast(&k->changed);
}

/* As the sealer. `quit` ends a write in the middle, so that a program which
 * ends does not wait for a slow disk: the file has no name yet. */
static void *writer_main(void *arg)
{
    struct ddp_keeper *k = arg;
    (void)pthread_mutex_lock(&k->lock);
    while (!atomic_load(&k->quit)) {
        if (k->writing >= 0)
            write_slot(k);
        else if (k->prune.step >= 0)
            prune(k);
        else
            (void)pthread_cond_wait(&k->changed, &k->lock);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

static void quit(struct ddp_keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    atomic_store(&k->quit, true);
    (void)pthread_cond_broadcast(&k->changed);
    (void)pthread_mutex_unlock(&k->lock);
}

/* With the first save: a program that only loads needs none. */
int keeper_start_threads(struct ddp_keeper *k, struct ddp_err *err)
{
    if (k->started)
        return 0;
    int rc = rt_start_thread(&k->sealer, sealer_main, k);
    if (rc == 0 && (rc = rt_start_thread(&k->writer, writer_main, k))) {
        quit(k);
        (void)pthread_join(k->sealer, NULL);
        atomic_store(&k->quit, false);
    }
    if (rc != 0)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "cannot start a thread that saves snapshots: %s",
                           strerror(rc));
    k->started = true;
    return 0;
}

void keeper_stop_threads(struct ddp_keeper *k)
{
    if (!k->started)
        return;
    quit(k);
    proof_wake(&k->d->proof);
    (void)pthread_join(k->sealer, NULL);
    (void)pthread_join(k->writer, NULL);
    k->started = false;
}
