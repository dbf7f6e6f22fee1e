/*
 * worker_rt/snapshot/keeper_places: where a keeper keeps snapshots: the memory
 * of its node, which one rank uses, and a folder, which one rank writes to.
 *
 * Failure modes. There is no such memory, or another process uses it: the
 * reason is noted, and the keeper does without. The folder cannot be made or
 * written: the error of the first rank for which that is so, on all of them.
 */
#include "worker_rt/snapshot/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "worker_rt/comm/comm.h"

#define LOCK_TRIES 200 /* in two seconds */

/* What a worker before us left there must not be the first to go. */
static void find_newest(struct ddp_keeper *k)
{
    struct slot_label best = {0}, label;
    for (int i = 0; i < k->memory.count; i++) {
        if (!mem_slots_read(&k->memory, i, &label))
            continue;
        if (k->newest < 0 ||
            snapshot_dir_newer(k->d->instance, best.round, best.step,
                               label.round, label.step) > 0) {
            k->newest = i;
            best = label;
        }
    }
    ddp_assert(k->newest < k->memory.count || k->newest < 0);
}

/*
 * Two writers would lose each other's snapshots. The descriptor was opened by
 * this process, so the lock is its own, and ends with it: a worker of the round
 * before that is just being killed is waited for.
 */
static bool lock_memory(int fd)
{
    const struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return true; /* it cannot be locked: /dev/shm of an old kernel */
        (void)nanosleep(&nap, NULL); /* a signal may cut it short */
    }
    return false;
}

void keeper_places_memory(struct ddp_keeper *k)
{
    struct ddp_err why;
    k->peeks = k->d->node_rank != 0 && k->d->memory_fd >= 0;
    if (k->d->node_rank != 0)
        return;
    if (k->d->memory_fd < 0)
        (void)snprintf(k->why, sizeof(k->why),
                       "the launcher holds no memory for snapshots");
    else if (k->d->memory_used)
        (void)snprintf(k->why, sizeof(k->why),
                       "another keeper of this process uses it");
    else if (!lock_memory(k->d->memory_fd))
        (void)snprintf(k->why, sizeof(k->why),
                       "another process of this node uses it: is LOCAL_RANK "
                       "the same in two workers?");
    else if (mem_slots_open(&k->memory, k->d->memory_fd, &why) != 0)
        (void)snprintf(k->why, sizeof(k->why), "%.200s", why.text);
    k->d->memory_used |= k->memory.count > 0;
    k->has_memory = k->memory.count > 0;
    find_newest(k);
}

/* Each folder, shared or not, has one writer: the lowest of the nodes' first
 * ranks that see it. */
static int find_writer(struct ddp_keeper *k,
                       const struct snapshot_mark *mark,
                       struct snapshot_mark *all,
                       struct ddp_err *err)
{
    int rc = comm_allgather(k->comm, mark, sizeof(*mark), all, err);
    bool writes = rc == 0 && mark->name[0] != '\0';
    for (int r = 0; writes && r < k->comm->rank; r++)
        writes = !snapshot_dir_sees(&k->dir, &all[r]);
    k->disk = writes ? KEEPER_WRITES : KEEPER_NO_DISK;
    /* No rank removes its mark before all have looked for it. */
    return rc == 0 ? k->comm->ops->barrier(k->comm, err) : -1;
}

/* With stripes the other ranks of a node write and read as well. */
static int look_at(const struct ddp_keeper *k)
{
    if (k->d->node_rank != 0 && !k->stripes.on)
        return -1;
    return open(k->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* To load from only: every node's first rank looks for itself, and what is not
 * there is empty. */
static void look_into_folder(struct ddp_keeper *k)
{
    memcpy(k->dir.instance, k->d->instance, sizeof(k->dir.instance));
    k->dir.fd = look_at(k);
    k->disk =
        k->dir.fd >= 0 && k->d->node_rank == 0 ? KEEPER_READS : KEEPER_NO_DISK;
}

/* Ranks cannot tell by a path whether they share a folder. So each node's first
 * rank puts a mark into its own, and looks which marks of others it sees. */
static int share_folder(struct ddp_keeper *k, struct ddp_err *err)
{
    bool leads = k->d->node_rank == 0;
    struct snapshot_mark mark = {.name = ""};
    struct snapshot_mark *all = calloc((size_t)k->comm->world, sizeof(*all));
    int fd = -1, rc = 0;
    if (leads)
        rc = snapshot_dir_open(&k->dir, k->folder, k->d->instance, k->d->fence,
                               err);
    if (leads && rc == 0 && snapshot_dir_mark(&k->dir, &mark, &fd, err) != 0)
        rc = ddp_err_wrap(err, "folder '%.200s'", k->folder);
    if (rc == 0 && all == NULL)
        rc = snapshot_no_memory(err);
    rc = keeper_agree(k->comm, rc, err);
    if (rc == 0)
        rc = find_writer(k, &mark, all, err);
    if (fd >= 0)
        snapshot_dir_unmark(&k->dir, &mark, fd);
    if (rc == 0 && !leads)
        k->dir.fd = look_at(k);
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
    look_into_folder(k);
    return 0;
}
