/*
 * Happy path: pool_take appends to `todo` and wakes a thread; that does the
 * job, appends it to `finished` and wakes the loop, which calls `done`
 * (on_finished). `lock` guards the two lists, `waiting` and `closing`; all else
 * is the loop's thread's.
 *
 * Failure modes: a thread cannot be made (ulimit -u, pids.max): the pool has
 * those that could be, and with none it takes no jobs. libuv's own pool would
 * end the process (abort) instead. The pool is closed while jobs are under way:
 * it stays until the last one is finished.
 */
#include "rendezvous/net/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "rendezvous/base/err.h"

#define POOL_MAGIC 0x706f6f6cu

/* First in, first out. */
struct pool_jobs {
    struct pool_job *first, *last;
};

struct pool {
    unsigned magic;
    uv_async_t wake; /* something is in `finished` */
    pthread_t threads[POOL_THREADS_MAX];
    int threads_len, threads_wanted;
    bool made; /* the threads, as many as could be */
    int waiting_max;
    int jobs;    /* taken, and `done` has not returned */
    bool ending; /* pool_close was called */
    pthread_mutex_t lock;
    pthread_cond_t more; /* in `todo`, or `closing` */
    bool closing;        /* there is nothing to do, and never will be */
    int waiting;         /* in `todo` */
    struct pool_jobs todo, finished;
};

static struct pool *pool_of(void *data)
{
    struct pool *p = data;
    ddp_assert(p->magic == POOL_MAGIC);
    return p;
}

static void append(struct pool_jobs *to, struct pool_job *job)
{
    job->next = NULL;
    if (to->first == NULL)
        to->first = job;
    else
        to->last->next = job;
    to->last = job;
}

static struct pool_job *take_first(struct pool_jobs *from)
{
    struct pool_job *job = from->first;
    if (job != NULL)
        from->first = job->next;
    return job;
}

/* -- a thread -------------------------------------------------------------- */

static void *do_jobs(void *data)
{
    struct pool *p = pool_of(data);
    (void)pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        struct pool_job *job = take_first(&p->todo);
        if (job == NULL) {
            (void)pthread_cond_wait(&p->more, &p->lock);
            continue;
        }
        p->waiting--;
        (void)pthread_mutex_unlock(&p->lock);
        job->work(job);
        (void)pthread_mutex_lock(&p->lock);
        append(&p->finished, job);
        (void)uv_async_send(&p->wake); /* cannot fail while it is open */
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

int pool_threads(void)
{
    cpu_set_t cpus;
    int n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus)
                                                           : POOL_THREADS_MAX;
    return n == 1 ? 0 : n < POOL_THREADS_MAX ? n : POOL_THREADS_MAX;
}

/* Signals are for the main thread. */
static void make_threads(struct pool *p)
{
    sigset_t all, before;
    p->made = true;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* valid arguments */
    while (p->threads_len < p->threads_wanted &&
           pthread_create(&p->threads[p->threads_len], NULL, do_jobs, p) == 0)
        p->threads_len++;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* -- the loop -------------------------------------------------------------- */

static void on_closed(uv_handle_t *wake)
{
    struct pool *p = pool_of(wake->data);
    (void)pthread_cond_destroy(&p->more);
    (void)pthread_mutex_destroy(&p->lock);
    p->magic = 0;
    free(p);
}

static void end_threads(struct pool *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->closing = true;
    (void)pthread_cond_broadcast(&p->more);
    (void)pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->threads_len; i++)
        (void)pthread_join(p->threads[i], NULL);
}

static void maybe_end(struct pool *p)
{
    if (!p->ending || p->jobs > 0)
        return;
    end_threads(p);
    uv_close((uv_handle_t *)&p->wake, on_closed);
}

static void on_finished(uv_async_t *wake)
{
    struct pool *p = pool_of(wake->data);
    (void)pthread_mutex_lock(&p->lock);
    struct pool_jobs finished = p->finished;
    p->finished = (struct pool_jobs){NULL, NULL};
    (void)pthread_mutex_unlock(&p->lock);
    struct pool_job *job;
    while ((job = take_first(&finished)) != NULL) {
        job->done(job);
        p->jobs--;
    }
    maybe_end(p);
}

struct pool *pool_open(uv_loop_t *loop, int threads, int waiting_max)
{
    ddp_assert(threads >= 0 && threads <= POOL_THREADS_MAX && waiting_max > 0);
    struct pool *p = calloc(1, sizeof(*p));
    if (p == NULL || uv_async_init(loop, &p->wake, on_finished) != 0) {
        free(p);
        return NULL;
    }
    p->magic = POOL_MAGIC;
    p->threads_wanted = threads;
    p->waiting_max = waiting_max;
    p->wake.data = p;
    (void)pthread_mutex_init(&p->lock, NULL); /* these two cannot fail */
    (void)pthread_cond_init(&p->more, NULL);
    return p;
}

bool pool_take(struct pool *p, struct pool_job *job)
{
    ddp_assert(p->magic == POOL_MAGIC);
    if (!p->made)
        make_threads(p);
    if (p->ending || p->threads_len == 0)
        return false;
    (void)pthread_mutex_lock(&p->lock);
    bool has_room = p->waiting < p->waiting_max;
    if (has_room) {
        append(&p->todo, job);
        p->waiting++;
        p->jobs++;
        (void)pthread_cond_signal(&p->more);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return has_room;
}

void pool_close(struct pool *p)
{
    if (p == NULL)
        return;
    ddp_assert(p->magic == POOL_MAGIC && !p->ending);
    p->ending = true;
    maybe_end(p);
}
