/*
 * worker_rt/death_sign: has the kernel tell the launcher at once that this
 * process ends (base/stop_page). The lock is made once for the process, by its
 * main thread, and never unlocked: so its page stays mapped, too. A process
 * that this one forks holds no lock, and the main thread's id in the page says
 * so to that process.
 */
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker_rt/rt.h"

/* The mutex is nobody's: the last owner has executed this program. */
static bool is_free(const struct stop_page *page)
{
    uint32_t word = atomic_load(&page->life_word);
    return word == 0 || (word & FUTEX_OWNER_DIED) != 0;
}

static bool lock(pthread_mutex_t *life)
{
    pthread_mutexattr_t attr;
    if (pthread_mutexattr_init(&attr) != 0)
        return false;
    bool ok =
        pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0 &&
        pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0 &&
        pthread_mutex_init(life, &attr) == 0 && pthread_mutex_lock(life) == 0;
    (void)pthread_mutexattr_destroy(&attr);
    return ok;
}

void rt_sign_death(int stop_fd, size_t page_at)
{
    if (syscall(SYS_gettid) != getpid())
        return; /* this thread may end before the process */
    void *at = mmap(NULL, sizeof(struct stop_page), PROT_READ | PROT_WRITE,
                    MAP_SHARED, stop_fd, (off_t)page_at);
    if (at == MAP_FAILED)
        return;
    struct stop_page *page = at;
    if (!is_free(page) || !lock(&page->life))
        (void)munmap(at, sizeof(*page)); /* cannot fail */
}
