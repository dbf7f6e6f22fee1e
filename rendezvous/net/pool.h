/*
 * net/pool: a few threads that compute while the loop's thread goes on. They
 * are made with the first job.
 *
 * The jobs that may wait are limited. Who has one more does it itself: peers
 * that send more than can be computed slow the loop down, which then accepts
 * fewer of them.
 *
 * A process that has given a pool a job must not fork: what another thread has
 * locked stays locked in the child.
 */
#ifndef RENDEZVOUS_NET_POOL_H
#define RENDEZVOUS_NET_POOL_H

#include <stdbool.h>
#include <uv.h>

#define POOL_THREADS_MAX 4

struct pool;

/* Part of a struct of the caller's, who owns it and fills the first two. */
struct pool_job {
    void (*work)(struct pool_job *job); /* called in another thread ... */
    void (*done)(struct pool_job *job); /* ... and then this from the loop */
    struct pool_job *next;              /* the pool's */
};

/* How many threads are worth it here: one for each CPU, 0 if there is one. The
 * loop's thread needs a CPU as well, but not always. */
int pool_threads(void);

/* For a loop that is not closed before the pool. `threads`: at most
 * POOL_THREADS_MAX. `waiting_max`: jobs that no thread has begun with. NULL: no
 * memory. */
struct pool *pool_open(uv_loop_t *loop, int threads, int waiting_max);

/*
 * Takes the job until `done` is called; it may be freed in there. False: there
 * are no threads, or enough jobs wait; the job is not touched. To be called in
 * the loop's thread only.
 */
bool pool_take(struct pool *p, struct pool_job *job);

/* No more jobs. `done` is still called for those that were taken; memory goes
 * as the loop runs on. NULL is fine. */
void pool_close(struct pool *p);

#endif
