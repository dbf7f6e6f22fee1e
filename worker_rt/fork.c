/*
 * worker_rt/fork: a list of all that is watched, and a handler for fork(2).
 *
 * Failure modes. vfork and posix_spawn call no handler, and need none: what
 * they start closes its copies (close-on-exec). The handler cannot be installed
 * for want of memory: then it is as it was, a child delays what peers notice.
 * /dev/null cannot be opened: the child's copies are closed.
 */
#include "worker_rt/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct fork_watch *all;

static void before(void)
{
    (void)pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    (void)pthread_mutex_unlock(&lock);
}

static void replace(int fd, int null)
{
    if (fd < 0)
        return;
    if (null < 0 || dup3(null, fd, O_CLOEXEC) < 0)
        (void)close(fd); /* a copy */
}

/* Only calls that are safe here (signal-safety(7)). */
static void in_child(void)
{
    int null = all == NULL ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const struct fork_watch *f = all; f != NULL; f = f->next)
        for (size_t i = 0; i < f->n; i++)
            replace(*(int *)(void *)((uint8_t *)f->first + i * f->stride),
                    null);
    if (null >= 0)
        (void)close(null);
    (void)pthread_mutex_unlock(&lock);
}

static void install(void)
{
    (void)pthread_atfork(before, in_parent, in_child); /* see failure modes */
}

void fork_watch(struct fork_watch *f, int *first, size_t n, size_t stride)
{
    (void)pthread_once(&once, install);
    (void)pthread_mutex_lock(&lock);
    *f = (struct fork_watch){
        .next = all, .first = first, .n = n, .stride = stride};
    all = f;
    (void)pthread_mutex_unlock(&lock);
}

void fork_forget(struct fork_watch *f)
{
    (void)pthread_mutex_lock(&lock);
    struct fork_watch **at = &all;
    while (*at != NULL && *at != f)
        at = &(*at)->next;
    if (*at != NULL)
        *at = f->next;
    f->first = NULL;
    (void)pthread_mutex_unlock(&lock);
}
