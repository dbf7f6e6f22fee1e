/*
 * base/stop_page: the page of memory by which a launcher asks one worker to
 * leave at a step, or tells the worker that no such step will come, and by
 * which the kernel tells the launcher that the worker begins to end; and the
 * memfds that workers get: their names, what libddp says in that for progress,
 * and how that for snapshots is parted. Of the first two words each side writes
 * one, whole, and reads the other's at any time.
 */
#ifndef RENDEZVOUS_BASE_STOP_PAGE_H
#define RENDEZVOUS_BASE_STOP_PAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* As readlink(2) of a descriptor shows them: "/memfd:NAME (deleted)". */
#define MEMFD_PROGRESS  "ddprun-progress"
#define MEMFD_STOP      "ddprun-stop"
#define MEMFD_SNAPSHOTS "ddprun-snapshots"

/*
 * Any program may write its step to the beginning of $DDP_PROGRESS_FILE. Libddp
 * writes a line behind where a step is read: this word, and the newest step
 * that is in the memory of two nodes; -1: none is. There is no such line if the
 * program keeps no steps in memory, or if all its ranks are on one node.
 *
 * Behind that line are two more: how many microseconds this rank's own part of
 * a step takes, and by how much those of the last steps differ
 * (worker_rt/own_part). The last one may come before there is any progress: how
 * many launches in a row left no newer step on the disk (snapshot_dir).
 */
#define PROGRESS_LINE        32 /* bytes between the beginnings of two */
#define PROGRESS_MIRRORED    "mirrored"
#define PROGRESS_MIRRORED_AT PROGRESS_LINE /* bytes from the beginning */
#define PROGRESS_OWN         "own"
#define PROGRESS_OWN_AT      (2 * PROGRESS_LINE)
#define PROGRESS_NOISE       "noise"
#define PROGRESS_NOISE_AT    (3 * PROGRESS_LINE)
#define PROGRESS_BARREN      "barren"
#define PROGRESS_BARREN_AT   (4 * PROGRESS_LINE)

/*
 * Each worker has a part of the memory for snapshots, or one of them all of it.
 * A part has slots of one length: for the worker's own images, and for mirrors,
 * copies of images of workers on other nodes. Three are as long as
 * --snapshot_memory allows. The others are address space besides: pages are
 * taken one by one, and workers take care that they take no more than is
 * allowed in all.
 */
#define SNAPSHOT_SLOTS_NEEDED 3 /* written to disk, newest, next */
#define SNAPSHOT_SLOTS_OWN    (SNAPSHOT_SLOTS_NEEDED + 1) /* newest compared */
#define SNAPSHOT_SLOTS_MIRROR 2 /* of a worker: newest, next */
#define SNAPSHOT_MIRRORED_MAX 8 /* workers of which one keeps mirrors */
#define SNAPSHOT_SLOTS                                                         \
    (SNAPSHOT_SLOTS_OWN + SNAPSHOT_MIRRORED_MAX * SNAPSHOT_SLOTS_MIRROR)

/* How long the memfd is of which so many bytes may be used; less than
 * INT64_MAX / SNAPSHOT_SLOTS. */
static inline uint64_t snapshot_slots_length(uint64_t allowed)
{
    return (allowed * SNAPSHOT_SLOTS + SNAPSHOT_SLOTS_NEEDED - 1) /
           SNAPSHOT_SLOTS_NEEDED;
}

#define STOP_PAGE_LIFE_AT 64

enum stop_page_why {
    STOP_PAGE_NOT,
    STOP_PAGE_SCALE_UP,   /* nodes join */
    STOP_PAGE_SCALE_DOWN, /* a node leaves */
    STOP_PAGE_FAILED,     /* a rank died: there is no step to leave at */
    STOP_PAGE_SIGNAL,     /* the launcher ends, or has no time to ask: a signal
                             comes, which a handler may hide from libddp */
};

/*
 * $DDP_STOP_FILE is one file for all workers that a node has in a round. Each
 * has a page of it, the machine's, by $DDP_LOCAL_RANK, which begins with this.
 * `life` is a robust mutex that the worker's main thread makes, locks and never
 * unlocks. When the worker ends, the kernel looks at the mutexes that the
 * thread holds before it takes the memory down (get_robust_list(2)): it marks
 * the mutex's first word, which a launcher may wait for
 * (launcher/worker/death_watch.h). In that word is the thread's id, so a
 * launcher whose worker holds no lock, or has another C library, sees none.
 */
struct stop_page {
    _Atomic uint32_t why;   /* the launcher's: enum stop_page_why */
    _Atomic uint32_t looks; /* the worker's: 1 once it has looked at `why` */
    char unused[STOP_PAGE_LIFE_AT - 2 * sizeof(uint32_t)];
    union {
        pthread_mutex_t life;
        _Atomic uint32_t life_word; /* futex(2) */
        char size[64];
    };
};

_Static_assert(sizeof(struct stop_page) == STOP_PAGE_LIFE_AT + 64,
               "the same for each worker, in C and Python");

/* Where the page of one worker begins, or where those of so many end. */
static inline size_t stop_page_at(int local_rank)
{
    return (size_t)local_rank * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
