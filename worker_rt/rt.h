/*
 * worker_rt/rt: what the files of libddp share: the handle, and the way
 * from an inner error to the caller's.
 */
#ifndef WORKER_RT_RT_H
#define WORKER_RT_RT_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/base/stop_page.h"
#include "rendezvous/client/store.h"
#include "worker_rt/ddp.h"
#include "worker_rt/fork.h"
#include "worker_rt/proof.h"

#define RT_RUN_ID_MAX 256 /* with NUL */

/* A file by its marks: any change by writing to it changes them. */
struct rt_file {
    dev_t dev;
    ino_t ino; /* 0: none */
    off_t size;
    struct timespec mtime;
};

struct ddp {
    int rank;
    int world;
    int local_rank; /* LOCAL_RANK: the number of a GPU, too */
    int node_rank;  /* which of the node's workers this is */
    int local_world;
    int group_rank;
    int restart_count;
    int64_t round;
    int64_t fence; /* epoch and round as one number: see below */
    char instance[RNG_ID_LEN + 1];
    char run_id[RT_RUN_ID_MAX];
    struct store_client store;
    uint32_t comms;              /* made so far: the next one's id */
    struct proof proof;          /* of what these have done */
    struct rt_file whole;        /* the snapshot last saved or loaded */
    int progress_fd;             /* -1: the launcher does not listen */
    int memory_fd;               /* the launcher's, for snapshots; -1: none */
    bool memory_used;            /* by a keeper */
    struct fork_watch forks[2];  /* no child keeps the store and that open */
    struct stop_page *stop_page; /* NULL: only signals ask it to stop */
    bool stop_page_stays;        /* mapped, for a handler of signals */
    _Atomic int64_t beat_due;    /* no beat is written before, us */
};

/*
 * Snapshots are ordered by term, then by round: a round that a later server
 * made is newer, whatever its number. In the names and labels of snapshots both
 * are one number: the round, and RT_FENCE_EPOCH for each term after the first.
 * In the first term that number is the round.
 */
#define RT_FENCE_EPOCH     INT64_C(10000000000)
#define RT_FENCE_EPOCH_MAX INT64_C(99999999) /* the name's 18 digits */

static inline int64_t rt_fence_round(int64_t fence)
{
    return fence % RT_FENCE_EPOCH;
}

/* When this worker was asked to stop; MONO_NEVER: it was not. */
int64_t rt_stop_since_us(void);

/* How long a rank that was asked to stop waits for others while nothing moves:
 * half of the time that the launcher gives it to end, so that a save fits into
 * the other half; two seconds if the launcher does not say. */
int64_t rt_stop_patience_us(void);

/* Hands an error out: the public code is the exit status. Returns -1. */
static inline int rt_fail(struct ddp_error *out, const struct ddp_err *err)
{
    if (out == NULL)
        return -1;
    _Static_assert(sizeof(out->text) == sizeof(err->text), "no text is cut");
    out->code = ddp_code_exit(err->code);
    out->sys_errno = err->sys_errno;
    memcpy(out->text, err->text, sizeof(out->text));
    return -1;
}

/* The deadline of a time-out in milliseconds; 0 or less is none. */
static inline int64_t rt_deadline(int64_t timeout_ms)
{
    if (timeout_ms <= 0 || timeout_ms > INT64_MAX / MONO_MS)
        return MONO_NEVER;
    return mono_after(mono_now_us(), timeout_ms * MONO_MS);
}

#endif
