/*
 * Happy path: the launcher starts, long before its workers do; the thread opens
 * each file of the list and tells the kernel which parts will be needed
 * (posix_fadvise), which starts to read them and does not wait.
 *
 * Failure modes, none of which anybody has to know: there is no list, it is
 * not ours or makes no sense, a file is gone. The workers read what they need.
 */
#include "launcher/standby/prefetch.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

/* The kernel reads no more for one call than its window of read-ahead. */
#define CHUNK INT64_C(131072)

/* Of <linux/ioprio.h>, which older headers do not have. */
#define IOPRIO_PROCESS 1
/* Not the idle class, which a disk that others use serves after up to 10 s
 * (mq-deadline): a worker that needs such a page would wait as long. */
#define IOPRIO_LOWEST (2 << 13 | 7)

static struct {
    const char *path;
    int64_t limit;
} job;

static char list[PREFETCH_LIST_MAX + 1]; /* large, and there is one thread */

static uint64_t add_word(uint64_t hash, const char *word)
{
    do /* FNV-1a, with the zero byte */
        hash = (hash ^ (unsigned char)*word) * UINT64_C(0x100000001b3);
    while (*word++ != '\0');
    return hash;
}

void prefetch_path(const char *interpreter,
                   const char *program,
                   char path[PREFETCH_PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    uint64_t hash = add_word(UINT64_C(0xcbf29ce484222325), interpreter);
    bool given = cache != NULL && cache[0] == '/';
    int n = 0;
    path[0] = '\0';
    if (given || (home != NULL && home[0] == '/'))
        n = snprintf(path, PREFETCH_PATH_MAX, "%s%s/ddprun/files-%016llx",
                     given ? cache : home, given ? "" : "/.cache",
                     (unsigned long long)add_word(hash, program));
    if (n >= PREFETCH_PATH_MAX)
        path[0] = '\0';
}

/* -- one part of a file ---------------------------------------------------- */

static bool is_file(int fd, bool ours)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           (!ours || st.st_uid == geteuid());
}

static int64_t fetch(const char *path, int64_t offset, int64_t len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int64_t at = is_file(fd, false) ? 0 : len;
    int64_t done = 0;
    for (; at < len; at += CHUNK)
        if (posix_fadvise(fd, offset + at, CHUNK, POSIX_FADV_WILLNEED) == 0)
            done += len - at < CHUNK ? len - at : CHUNK;
    if (fd >= 0)
        (void)close(fd); /* read only */
    return done;
}

/* "OFFSET LENGTH PATH": returns how many bytes are read; -1: it is no such
 * line, or they are more than `limit`. */
static int64_t fetch_line(const char *line, int64_t limit)
{
    char *end;
    long long offset = strtoll(line, &end, 10);
    if (end == line || *end != ' ' || offset < 0)
        return -1;
    long long len = strtoll(end + 1, &end, 10);
    if (end[0] != ' ' || end[1] != '/' || len < 0 || len > limit ||
        offset > INT64_MAX - len)
        return -1;
    return fetch(end + 1, offset, len);
}

/* -- the list -------------------------------------------------------------- */

/* A list that is not whole is none. */
static bool read_list(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = is_file(fd, true) ? read(fd, list, sizeof(list)) : -1;
    if (fd >= 0)
        (void)close(fd); /* read only */
    bool whole = n > 0 && n <= PREFETCH_LIST_MAX && list[n - 1] == '\n';
    list[whole ? n : 0] = '\0';
    return whole;
}

int64_t prefetch_list(const char *path, int64_t limit)
{
    int64_t all = 0, n = 0;
    char *rest = NULL;
    if (!read_list(path))
        return 0;
    for (char *line = strtok_r(list, "\n", &rest); line != NULL && n >= 0;
         line = strtok_r(NULL, "\n", &rest)) {
        n = fetch_line(line, limit - all);
        all += n > 0 ? n : 0;
    }
    return all;
}

/* Of this thread alone: Linux has priorities by thread. */
static void lower_priority(void)
{
    id_t self = (id_t)syscall(SYS_gettid);
    (void)setpriority(PRIO_PROCESS, self, 19); /* lower is always allowed */
    (void)syscall(SYS_ioprio_set, IOPRIO_PROCESS, 0, IOPRIO_LOWEST);
}

static void *run(void *arg)
{
    (void)arg;
    lower_priority();
    (void)prefetch_list(job.path, job.limit);
    return NULL;
}

/* Signals are for the main thread. */
void prefetch_start(const char *path, int64_t limit)
{
    sigset_t all, before;
    pthread_t thread;
    ddp_assert(job.path == NULL);
    job.path = path;
    job.limit = limit;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* valid arguments */
    if (pthread_create(&thread, NULL, run, NULL) == 0)
        (void)pthread_detach(thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}
