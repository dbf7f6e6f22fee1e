/*
 * worker_rt/keeper/keeper_places: where a keeper keeps snapshots: each rank has
 * a part of its node's memory, and a folder, which other ranks may share.
 *
 * Failure modes. There is no such memory, or another process uses it: the
 * reason is noted, and the keeper does without. The folder cannot be made or
 * written: the error of the first rank for which that is so, on all of them.
 */
#include "worker_rt/keeper/keeper.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker_rt/comm/comm.h"

#define LOCK_TRIES 200 /* in two seconds */

/*
 * Two writers would lose each other's snapshots. The descriptor was opened by
 * this process, so the lock is its own, and ends with it: a worker of the round
 * before that is just being killed is waited for.
 */
static bool lock_memory(int fd, int part, int parts)
{
    const struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (mem_slots_lock(fd, part, parts))
            return true;
        (void)nanosleep(&nap, NULL); /* a signal may cut it short */
    }
    return false;
}

void keeper_places_memory(struct ddp_keeper *k)
{
    struct ddp_err why;
    int fd = k->d->memory_fd;
    int part = k->d->node_rank, parts = k->d->local_world;
    if (fd < 0)
        (void)snprintf(k->why, sizeof(k->why),
                       "the launcher holds no memory for snapshots");
    else if (k->d->memory_used)
        (void)snprintf(k->why, sizeof(k->why),
                       "another keeper of this process uses it");
    else if (!lock_memory(fd, part, parts))
        (void)snprintf(k->why, sizeof(k->why),
                       "another process of this node uses it: is LOCAL_RANK "
                       "the same in two workers?");
    else if (mem_slots_open(&k->memory, fd, part, parts, &why) != 0)
        (void)snprintf(k->why, sizeof(k->why), "%.200s", why.text);
    k->d->memory_used |= k->memory.count > 0;
    k->has_memory = k->memory.count > 0;
}

/* Each folder, shared or not, is listed and cleaned by one rank: the lowest of
 * the nodes' first ranks whose mark is there. */
static int find_writer(struct ddp_keeper *k,
                       const struct snapshot_mark *mark,
                       struct snapshot_mark *all,
                       struct ddp_err *err)
{
    int r = 0, rc = comm_allgather(k->comm, mark, sizeof(*mark), all, err);
    if (rc != 0)
        return -1;
    while (r < k->comm->world && !snapshot_dir_sees(&k->dir, &all[r]))
        r++;
    k->folder_rank = r < k->comm->world ? r : k->comm->rank;
    k->disk = k->folder_rank == k->comm->rank ? KEEPER_WRITES : KEEPER_ADDS;
    /* No rank removes its mark before all have looked for it. */
    return k->comm->ops->barrier(k->comm, err);
}

/* Ranks cannot tell by a path whether they share a folder. So each node's first
 * rank puts a mark into its own, and all look which marks they see. */
static int share_folder(struct ddp_keeper *k, struct ddp_err *err)
{
    bool leads = k->d->node_rank == 0;
    struct snapshot_mark mark = {.name = ""};
    struct snapshot_mark *all = calloc((size_t)k->comm->world, sizeof(*all));
    int fd = -1;
    int rc =
        snapshot_dir_open(&k->dir, k->folder, k->d->instance, k->d->fence, err);
    if (leads && rc == 0 && snapshot_dir_mark(&k->dir, &mark, &fd, err) != 0)
        rc = ddp_err_wrap(err, "folder '%.200s'", k->folder);
    if (rc == 0 && all == NULL)
        rc = snapshot_no_memory(err);
    rc = keeper_agree(k->comm, rc, err);
    if (rc == 0)
        rc = find_writer(k, &mark, all, err);
    if (fd >= 0)
        snapshot_dir_unmark(&k->dir, &mark, fd);
    free(all);
    return rc;
}

int keeper_places_folder(struct ddp_keeper *k,
                         bool load_only,
                         struct ddp_err *err)
{
    if (k->folder == NULL)
        return 0;
    if (!load_only)
        return share_folder(k, err);
    /* To load from only: each rank looks for itself, and what is not there is
     * empty. The first rank of a node lists it. */
    memcpy(k->dir.instance, k->d->instance, sizeof(k->dir.instance));
    k->dir.fd = open(k->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    k->disk =
        k->dir.fd >= 0 && k->d->node_rank == 0 ? KEEPER_READS : KEEPER_NO_DISK;
    return 0;
}

int keeper_own(struct ddp_keeper *k, struct ddp_err *err)
{
    if (k->disk != KEEPER_WRITES)
        return 0;
    ddp_assert(k->folder != NULL && k->dir.fd >= 0);
    if (snapshot_dir_own(&k->dir, &k->found_barren, err) != 0)
        return ddp_err_wrap(err, "'%.200s'", k->folder);
    k->disk = KEEPER_OWNS;
    return 0;
}
