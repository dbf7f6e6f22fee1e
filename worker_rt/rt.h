/*
 * worker_rt/rt: what the files of libddp share: the handle, and the way
 * from an inner error to the caller's.
 */
#ifndef WORKER_RT_RT_H
#define WORKER_RT_RT_H

#include <signal.h>
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

#define RT_RUN_ID_MAX    256 /* with NUL */
#define RT_STRANGERS_MAX 320 /* the same */

/* Connections to this rank that no rank of its round made. */
struct rt_strangers {
    int64_t n;
    char first[160]; /* from where, and why it was none; "": none came */
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
    uint64_t round_key[2]; /* zeros under another launcher */
    struct rt_strangers strangers;
    char strangers_text[RT_STRANGERS_MAX]; /* of ddp_strangers */
    char run_id[RT_RUN_ID_MAX];
    struct store_client store;
    uint32_t comms;              /* made so far: the next one's id */
    struct proof proof;          /* of what these have done */
    int progress_fd;             /* -1: the launcher does not listen */
    int memory_fd;               /* the launcher's, for snapshots; -1: none */
    bool memory_used;            /* by a keeper */
    int64_t saves;               /* the number of the last; the same on all
                                  * ranks as soon as there is one */
    struct fork_watch forks[2];  /* no child keeps the store and that open */
    struct stop_page *stop_page; /* NULL: only signals ask it to stop */
    bool stop_page_stays;        /* mapped, for a handler of signals */
    _Atomic int64_t beat_due;    /* no beat is written before, us */
};

/*
 * Snapshots are ordered by term, then by round: a round that a later server
 * made is newer, whatever its number. In the names and labels of snapshots both
 * are one number: the round, and RT_FENCE_EPOCH for each term after the first.
 * In the first term that number is the round. The terms of a later line, of
 * RT_FENCE_LINE each, count as one: in a line the rounds rise anyway.
 */
#define RT_FENCE_LINE      INT64_C(1000000) /* AUTHORITY_LEAP */
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

/* Tells the launcher the newest step that is in the memory of two nodes; -1:
 * none is. */
void rt_tell_mirrored(const struct ddp *d, int64_t step);

/* From now on the launcher is told at once that this process ends, if this is
 * its main thread; `stop_fd` is that of the stop pages, and stays the caller's,
 * and `page_at` is where this process's begins.
 */
void rt_sign_death(int stop_fd, size_t page_at);

/* Tells the launcher how many launches before this one, in a row, left no newer
 * step on the disk than they had found; 0 as well once this one has; -1: it is
 * not known. That is no progress. */
void rt_tell_barren(const struct ddp *d, int64_t launches);

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

/* A thread of libddp's, which blocks all signals: they are the program's.
 * Returns what pthread_create does. */
static inline int
rt_start_thread(pthread_t *thread, void *(*main)(void *arg), void *arg)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* valid arguments */
    int rc = pthread_create(thread, NULL, main, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* A peer's words become a line that ends: of as many bytes. */
static inline void rt_make_line(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

/* The deadline of a time-out in milliseconds; 0 or less is none. */
static inline int64_t rt_deadline(int64_t timeout_ms)
{
    if (timeout_ms <= 0 || timeout_ms > INT64_MAX / MONO_MS)
        return MONO_NEVER;
    return mono_after(mono_now_us(), timeout_ms * MONO_MS);
}

#endif
