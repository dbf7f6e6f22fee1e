/*
 * worker_rt/keeper/keeper: saving, in three stages: the caller's copy, the
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
#include "worker_rt/keeper/keeper.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/abi.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/snapshot/snapshot.h"

#define KEEP_DEFAULT 2
#define COPIES_MAX   2 /* and the default */
#define CHECK_EVERY  50

/* The states of the ranks, if they have any, become one tensor more: `rows`,
 * and `*n` counts it. `rc` is how this rank came here. */
static int gather_ranks(struct ddp_keeper *k,
                        int rc,
                        struct ddp_tensor *rows,
                        size_t *n,
                        struct ddp_err *err)
{
    struct ddp_err other;
    if (k->ranks.max == 0)
        return rc;
    ddp_keeper_settle(k); /* until then the sealer reads what they set */
    int got = keeper_ranks_gather(k, rows, &other);
    if (got == 0)
        (*n)++;
    if (rc == 0 && got != 0)
        *err = other;
    return rc != 0 ? rc : got;
}

/* Whole tensors, which other ranks may have alike, are several pieces. */
static size_t count_parts(const struct ddp_piece *p)
{
    struct ddp_err why;
    return piece_check(p, &why) == 0 && piece_is_whole(p)
               ? piece_parts(&p->local)
               : 1;
}

/* `rc` and `why` are how this rank came here. */
static int save(struct ddp_keeper *k,
                int rc,
                struct ddp_err *why,
                const struct keeper_order *o,
                const struct ddp_piece *pieces,
                size_t n,
                struct ddp_error *err)
{
    struct ddp_tensor rows;
    size_t parts = 0, at = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        parts += count_parts(&pieces[i]);
    struct ddp_piece *all = calloc(parts + 1, sizeof(*all));
    if (rc == 0 && all == NULL)
        rc = snapshot_no_memory(why);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t count = count_parts(&pieces[i]);
        for (size_t part = 0; part < count; part++)
            all[at++] =
                count > 1 ? piece_part(&pieces[i].local, part) : pieces[i];
    }
    size_t with = at;
    rc = gather_ranks(k, rc, &rows, &with, why);
    if (rc == 0 && with > at)
        all[at] = piece_of_tensor(&rows);
    rc = keeper_pieces_save(k, rc, o, all, with, why);
    free(all);
    if (rc != 0)
        return rt_fail(err, why);
    ddp_beat(k->d, o->step); /* a program may say nothing else of its steps */
    return 0;
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
    const struct keeper_order o = {step, meta, nmeta, to_disk};
    struct ddp_err why;
    int rc = snapshot_check_names(tensors, ntensors, &why);
    struct ddp_piece *all = calloc(ntensors + 1, sizeof(*all));
    if (rc == 0 && all == NULL)
        rc = snapshot_no_memory(&why);
    for (size_t i = 0; rc == 0 && i < ntensors; i++)
        all[i] = piece_of_tensor(&tensors[i]);
    rc = save(k, rc, &why, &o, all, ntensors, err);
    free(all);
    return rc;
}

int ddp_keeper_save_pieces(struct ddp_keeper *k,
                           int64_t step,
                           const struct ddp_piece *pieces,
                           size_t npieces,
                           const struct ddp_kv *meta,
                           size_t nmeta,
                           bool to_disk,
                           struct ddp_error *err)
{
    const struct keeper_order o = {step, meta, nmeta, to_disk};
    struct ddp_err why;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < npieces; i++)
        rc = snapshot_check_names(&pieces[i].local, 1, &why);
    return save(k, rc, &why, &o, pieces, npieces, err);
}

void ddp_keeper_settle(struct ddp_keeper *k)
{
    keeper_settle(k, false);
}

int ddp_keeper_wait(struct ddp_keeper *k, struct ddp_error *err)
{
    struct ddp_err why;
    keeper_settle(k, true);
    (void)pthread_mutex_lock(&k->lock);
    int rc = keeper_take_error(k, &why);
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
    if (conf->copies < 0 || conf->copies > COPIES_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "copies is %d, must be 1, or 2, or 0 (the default)",
                           conf->copies);
    if (conf->check_every < -1)
        return ddp_err_set(err, DDP_E_USAGE,
                           "check_every is %d, must be a number of saves, or 0 "
                           "(the default), or -1 (never)",
                           conf->check_every);
    if (conf->check_every >= 0)
        k->compare.every =
            conf->check_every == 0 ? CHECK_EVERY : conf->check_every;
    k->compare.may_differ = conf->may_differ;
    k->keep = conf->keep == 0 ? KEEP_DEFAULT : conf->keep;
    k->later = conf->later;
    k->mirrors.ended = conf->copies == 1 || k->d->world == k->d->local_world;
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
    return 0;
}

static struct ddp_keeper *begin(struct ddp *d, struct ddp_comm *comm)
{
    struct ddp_keeper *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return NULL;
    k->d = d;
    k->comm = comm;
    k->dir.fd = k->memory.fd = k->own.fd = k->folder_rank = -1;
    fork_watch(&k->fork, &k->memory.fd, 1, 0);
    k->sealing = k->writing = k->newest = k->copied = -1;
    k->handed = -1;
    k->saved = k->failed_step = k->found_barren = -1;
    k->prune.step = k->pieces.loaded.step = -1;
    commit_init(&k->pieces.commit);
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
    keeper_mirrors_end(k);  /* these and .. */
    keeper_stop_threads(k); /* .. these before anything that they use goes */
    keeper_check(k);
    /* Nor while the device writes there. What never comes is left alone. */
    if (k->copied >= 0)
        (void)keeper_wait_copied(k, k->copied, &why);
    for (int i = 0; i < MEM_SLOTS_MAX; i++)
        keeper_free_slot(&k->slot[i]);
    fork_forget(&k->fork);
    device_copy_close(&k->device);
    if (k->has_memory)
        k->d->memory_used = false;
    if (!k->device.lost) { /* else the driver may still write there */
        mem_slots_close(&k->memory);
        mem_slots_close(&k->own);
    }
    keeper_pieces_free(k);
    keeper_ranks_free(k);
    snapshot_dir_close(&k->dir);
    (void)pthread_cond_destroy(&k->changed);
    (void)pthread_mutex_destroy(&k->lock);
    free(k->folder);
    free(k);
}
