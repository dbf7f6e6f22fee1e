/*
 * Happy path: a worker's main thread locks the mutex of its page. At the next
 * look the launcher sees the thread's id in the mutex's word, sets
 * FUTEX_WAITERS there, without which the kernel wakes nobody, and has the
 * thread wait for that word, with all the others. The worker is killed: the
 * kernel sets FUTEX_OWNER_DIED and wakes the thread, which wakes the loop,
 * which reads in /proc with what status the worker ends.
 *
 * Failure modes:
 * - The worker executes another program: that marks the word as well. The
 *   process is not about to end (PF_EXITING), and nothing is told.
 * - Its main thread ends alone, or it ends with 0: its status is 0, and nothing
 *   is told.
 * - A worker writes anything to its page: at most it is looked at in vain, or
 *   not at all. The word is watched only if it holds the worker's own id.
 * - The page is unmapped while the thread waits: the wait goes by the memfd,
 *   and words are read only under the lock that death_watch_drop takes.
 * - futex_waitv is unknown (Linux before 5.16, a sandbox), or no thread can be
 *   made: there are no hints.
 */
#include "launcher/worker/death_watch.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/proc/procfs.h"
#include "rendezvous/base/err.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* on all architectures */
#endif

/* As struct futex_waitv and FUTEX_32 of linux/futex.h, which old headers lack.
 */
struct waited {
    uint64_t val, uaddr;
    uint32_t flags, reserved;
};
#define WAITED_U32 2

#define STACK_SIZE (512 * 1024) /* with all thread-local memory */

enum thread_state {
    THREAD_NONE,
    THREAD_RUNS,
    THREAD_FAILED
};

struct death_watch {
    death_watch_handler handler;
    void *ctx;
    enum thread_state thread;
    uv_thread_t id;
    uv_async_t async;
    uv_mutex_t lock; /* of what follows */
    int n;
    struct watched {
        pid_t pid;
        bool died;
        struct stop_page *page;
    } all[DEATH_WATCH_MAX];
    _Atomic uint32_t changes; /* a futex: what is waited for has changed */
};

static bool has_died(uint32_t word)
{
    return (word & FUTEX_OWNER_DIED) != 0;
}

/* -- the thread ------------------------------------------------------------ */

static struct waited waited_of(_Atomic uint32_t *word, uint32_t value)
{
    return (struct waited){
        .val = value, .uaddr = (uint64_t)(uintptr_t)word, .flags = WAITED_U32};
}

/* What to wait for; marks those that died meanwhile. */
static unsigned gather(struct death_watch *d,
                       struct waited list[DEATH_WATCH_MAX + 1],
                       bool *died)
{
    unsigned n = 0;
    list[n++] = waited_of(&d->changes, atomic_load(&d->changes));
    uv_mutex_lock(&d->lock);
    for (int i = 0; i < d->n; i++) {
        struct watched *w = &d->all[i];
        uint32_t word = atomic_load(&w->page->life_word);
        if (!w->died && has_died(word))
            *died = w->died = true;
        if (!w->died)
            list[n++] = waited_of(&w->page->life_word, word);
    }
    uv_mutex_unlock(&d->lock);
    return n;
}

static void wait_for_deaths(void *arg)
{
    struct death_watch *d = arg;
    for (;;) {
        struct waited list[DEATH_WATCH_MAX + 1];
        bool died = false;
        unsigned n = gather(d, list, &died);
        if (died)
            (void)uv_async_send(&d->async); /* cannot fail */
        long rc = syscall(SYS_futex_waitv, list, n, 0, NULL, 0);
        /* EAGAIN: a word has changed; EFAULT: a page is gone. */
        if (rc < 0 && errno != EAGAIN && errno != EFAULT && errno != EINTR)
            return;
    }
}

static void start_thread(struct death_watch *d)
{
    uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE,
                                   .stack_size = STACK_SIZE};
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    d->thread = uv_thread_create_ex(&d->id, &options, wait_for_deaths, d) == 0
                    ? THREAD_RUNS
                    : THREAD_FAILED;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* -- the loop -------------------------------------------------------------- */

/* Takes one that died from the list; 0: there is none. */
static pid_t take_dead(struct death_watch *d)
{
    pid_t pid = 0;
    uv_mutex_lock(&d->lock);
    for (int i = 0; i < d->n && pid == 0; i++) {
        if (!d->all[i].died)
            continue;
        pid = d->all[i].pid;
        d->all[i] = d->all[--d->n];
    }
    uv_mutex_unlock(&d->lock);
    return pid;
}

static void on_died(uv_async_t *async)
{
    struct death_watch *d = async->data;
    pid_t pid;
    int status;
    while ((pid = take_dead(d)) != 0)
        if (procfs_is_ending(pid, &status) && status != 0)
            d->handler(d->ctx, pid, status);
}

struct death_watch *
death_watch_new(uv_loop_t *loop, death_watch_handler handler, void *ctx)
{
    struct death_watch *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return NULL;
    if (uv_mutex_init(&d->lock) != 0) {
        free(d);
        return NULL;
    }
    if (uv_async_init(loop, &d->async, on_died) != 0) {
        uv_mutex_destroy(&d->lock);
        free(d);
        return NULL;
    }
    d->handler = handler;
    d->ctx = ctx;
    d->async.data = d;
    uv_unref((uv_handle_t *)&d->async); /* keeps no loop running */
    return d;
}

static bool is_watched(const struct death_watch *d, pid_t pid)
{
    for (int i = 0; i < d->n; i++)
        if (d->all[i].pid == pid)
            return true;
    return false;
}

/* The worker holds the lock: whoever waits is to be woken when it dies. */
static bool mark_waited(struct stop_page *page, pid_t pid)
{
    uint32_t word = atomic_load(&page->life_word);
    while ((word & FUTEX_TID_MASK) == (uint32_t)pid && !has_died(word))
        if (atomic_compare_exchange_weak(&page->life_word, &word,
                                         word | FUTEX_WAITERS))
            return true;
    return false;
}

void death_watch_look(struct death_watch *d, pid_t pid, struct stop_page *page)
{
    ddp_assert(pid > 0 && page != NULL);
    if (d->thread == THREAD_FAILED)
        return;
    uv_mutex_lock(&d->lock);
    bool added =
        d->n < DEATH_WATCH_MAX && !is_watched(d, pid) && mark_waited(page, pid);
    if (added)
        d->all[d->n++] = (struct watched){.pid = pid, .page = page};
    uv_mutex_unlock(&d->lock);
    if (!added)
        return;
    if (d->thread == THREAD_NONE) {
        start_thread(d);
    } else {
        atomic_fetch_add(&d->changes, 1);
        (void)syscall(SYS_futex, &d->changes, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

void death_watch_drop(struct death_watch *d, const struct stop_page *page)
{
    uv_mutex_lock(&d->lock);
    for (int i = d->n - 1; i >= 0; i--)
        if (d->all[i].page == page)
            d->all[i] = d->all[--d->n];
    uv_mutex_unlock(&d->lock);
}
