/*
 * worker_rt/keeper/keeper_put: a snapshot's way into a slot, and the hand-over
 * to the sealer. See keeper.c.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/snapshot/snapshot.h"

/* Both under the lock. */
static void wait_sealed(struct ddp_keeper *k)
{
    while (k->sealing >= 0)
        (void)pthread_cond_wait(&k->changed, &k->lock);
}

static void wait_written(struct ddp_keeper *k)
{
    while (k->writing >= 0 || k->prune.step >= 0)
        (void)pthread_cond_wait(&k->changed, &k->lock);
}

void keeper_settle(struct ddp_keeper *k, bool disk)
{
    keeper_prove(k);
    (void)pthread_mutex_lock(&k->lock);
    wait_sealed(k);
    if (disk)
        wait_written(k);
    (void)pthread_mutex_unlock(&k->lock);
}

/* Memory cannot be used any more: told once, and the disk goes on alone. What
 * is in its slots stays as good as it was. */
static void give_up_memory(struct ddp_keeper *k, const char *why)
{
    (void)snprintf(k->why, sizeof(k->why), "%.250s", why);
    wait_sealed(k);
    wait_written(k);
    ddp_assert(k->sealing < 0 && k->writing < 0);
    keeper_mirrors_end(k);
    device_copy_unpin(&k->device);
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
 * Makes sure of memory for the image: in slot `i` of the launcher's memory, or
 * else, or if that is -1, in one of our own, which is the result then. Under
 * the lock, when nothing is being sealed; -1: NOMEM.
 *
 * The slots of our own die with us, so only the one on its way to the disk is
 * taken.
 */
static int pick(struct ddp_keeper *k, int i, uint64_t len, struct ddp_err *err)
{
    struct ddp_err why;
    if (i >= 0) {
        if (i == k->newest)
            k->newest = -1;
        if (len > mem_slots_room(&k->memory))
            (void)ddp_err_set(&why, DDP_E_NOMEM,
                              "three snapshots of %.1f MB do not fit into the "
                              "%.1f MB that ddprun holds for them for each "
                              "worker: start it with a larger "
                              "--snapshot_memory",
                              (double)len / 1e6,
                              (double)mem_slots_allowed(&k->memory) / 1e6);
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
    for (size_t t = 0; t < m->ntensors; t++)
        parts[t] = (struct device_copy_part){.to = at + image_at(m, t),
                                             .from = tensors[m->order[t]].data,
                                             .len = (size_t)image_size(m, t)};
    device_copy_pin(&k->device, i, at, (size_t)image_len(m));
    bool wait;
    k->copied = i;
    int rc = device_copy_begin(&k->device, parts, m->ntensors, &wait, err);
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

/* Before the hand-over: from a GPU, now, or (`later`) by the sealer while it
 * sums: one pass over memory instead of two. The caller leaves it unchanged
 * until settle. */
static int copy(struct ddp_keeper *k,
                int i,
                const struct ddp_tensor *tensors,
                struct ddp_err *err)
{
    struct keeper_slot *slot = &k->slot[i];
    const struct image *m = &slot->image;
    uint8_t *at = mem_slots_image(keeper_slots(k), i);
    if (k->device.gpu != NULL)
        return copy_from_gpu(k, i, m, tensors, err);
    ddp_assert(slot->from == NULL);
    if (k->later) {
        slot->from = calloc(m->ntensors + 1, sizeof(*slot->from));
        if (slot->from == NULL)
            return snapshot_no_memory(err);
    }
    for (size_t t = 0; t < m->ntensors; t++)
        if (k->later)
            slot->from[t] = tensors[m->order[t]].data;
        else if (image_size(m, t) > 0)
            memcpy(at + image_at(m, t), tensors[m->order[t]].data,
                   image_size(m, t));
    return 0;
}

/* Under the lock: the error of an earlier save, once. */
int keeper_take_error(struct ddp_keeper *k, struct ddp_err *err)
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

void keeper_free_slot(struct keeper_slot *slot)
{
    image_free(&slot->image);
    free(slot->from);
    slot->from = NULL;
}

/* Whether that step of this round is whole in the folder: what was saved last,
 * or, without an instance, what was loaded. The same on all ranks. */
static bool is_written(const struct ddp_keeper *k, int64_t step)
{
    const struct commit *c = &k->pieces.commit;
    const struct snapshot_file *f = &k->pieces.loaded;
    if (c->for_disk >= 0)
        return c->on_disk == step && c->on_disk_save == c->for_disk_save;
    return f->step == step && f->round == k->d->fence &&
           strncmp(f->who, k->d->instance, SNAPSHOT_DIR_WHO) == 0;
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
    keeper_free_slot(slot);
    slot->image = *m;
    *m = (struct image){0};
    slot->step = step;
    slot->save = k->pieces.commit.save;
    slot->to_disk = disk;
    slot->again = disk && is_written(k, step);
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
    k->sealing = k->handed = i;
    (void)pthread_cond_broadcast(&k->changed);
    if (keeper_take_error(k, err) == 0)
        return 0;
    /* After an error the caller may free the tensors. */
    (void)pthread_mutex_unlock(&k->lock);
    keeper_prove(k);
    (void)pthread_mutex_lock(&k->lock);
    wait_sealed(k);
    return -1;
}

int keeper_put(struct ddp_keeper *k,
               struct image *m,
               int64_t step,
               const struct ddp_tensor *tensors,
               int slot,
               bool disk,
               struct ddp_err *err)
{
    (void)pthread_mutex_lock(&k->lock);
    keeper_check(k);
    ddp_assert(k->sealing < 0);
    int i = pick(k, slot, image_len(m), err);
    int rc = i < 0 ? -1 : hand_over(k, i, m, step, tensors, disk, err);
    (void)pthread_mutex_unlock(&k->lock);
    return rc;
}
