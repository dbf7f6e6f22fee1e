/*
 * Happy path: two memfds per worker, which it opens by /proc/PID/fd/N of the
 * agent. The worker writes its step to the first one and reads the word `why`
 * of the second one; the agent reads the one and writes the other. Each word is
 * written by one side only, and whole.
 *
 * Failure modes:
 * - /proc is that of another PID namespace: workers see the same one, so the
 *   path has the agent's number there.
 * - No descriptors are left: an error, and the worker is not started.
 * - memfd_create is refused, or there is no /proc: the paths are "", the worker
 *   makes no progress that can be seen here, and is asked to leave by SIGTERM.
 * - The worker cannot open the path (another PID namespace, another user), or
 *   does not look: `looks` stays 0, and it is asked by SIGTERM.
 * - No file may be as large as the memory for snapshots (ulimit -f, which
 *   counts for memfds, too): it is made as large as it may be.
 * - A worker truncates the file to make another one's mapping fault: seals
 *   forbid it. The progress file has no seals, since nobody maps it.
 */
#include "launcher/worker/mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/proc/procfs.h"
#include "rendezvous/base/err.h"

_Static_assert((int)STOP_PAGE_SCALE_UP == (int)MSG_SCALE_UP &&
                   (int)STOP_PAGE_SCALE_DOWN == (int)MSG_SCALE_DOWN,
               "the server's word is handed on as it is");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a word of the page is one store");

/* Of a fixed size, so that no mapping of it can fault. */
static int open_sized(const char *name, off_t size)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (ftruncate(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0)
        return fd;
    (void)close(fd); /* empty, nothing to lose */
    return -1;
}

static bool ran_out(int fd)
{
    return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

int mailbox_open(struct mailbox *m)
{
    mailbox_close(m);
    m->progress_fd = memfd_create(MEMFD_PROGRESS, MFD_CLOEXEC);
    if (ran_out(m->progress_fd))
        return -1;
    m->stop_fd = open_sized(MEMFD_STOP, sizeof(struct stop_page));
    return ran_out(m->stop_fd) ? -1 : 0;
}

void mailbox_close(struct mailbox *m)
{
    if (m->progress_fd >= 0)
        (void)close(m->progress_fd); /* memory, nothing to lose */
    if (m->stop_fd >= 0)
        (void)close(m->stop_fd);
    m->progress_fd = m->stop_fd = -1;
}

static void path_of(int fd, char path[MAILBOX_PATH_MAX])
{
    path[0] = '\0';
    pid_t self = procfs_self();
    if (fd < 0 || self == 0)
        return;
    int n = snprintf(path, MAILBOX_PATH_MAX, "/proc/%d/fd/%d", (int)self, fd);
    ddp_assert(n < MAILBOX_PATH_MAX); /* two ints */
}

void mailbox_progress_path(const struct mailbox *m, char path[MAILBOX_PATH_MAX])
{
    path_of(m->progress_fd, path);
}

void mailbox_stop_path(const struct mailbox *m, char path[MAILBOX_PATH_MAX])
{
    path_of(m->stop_fd, path);
}

void mailbox_memory_path(const struct mailbox *m, char path[MAILBOX_PATH_MAX])
{
    path_of(m->memory_fd, path);
}

int mailbox_open_memory(uint64_t size)
{
    ddp_assert(size > 0 && size <= INT64_MAX);
    struct rlimit limit;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
        size = limit.rlim_cur / page * page;
    return size > 0 ? open_sized(MEMFD_SNAPSHOTS, (off_t)size) : -1;
}

bool mailbox_progressed(const struct mailbox *m)
{
    struct stat st;
    return m->progress_fd >= 0 && fstat(m->progress_fd, &st) == 0 &&
           st.st_size > 0;
}

static int64_t read_step(int fd)
{
    char text[32];
    char *end;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    errno = 0;
    long long step = strtoll(text, &end, 10);
    bool whole = end != text && (*end == '\0' || strcmp(end, "\n") == 0);
    return whole && errno == 0 && step >= 0 ? step : -1;
}

void mailbox_read(const struct mailbox *m, int64_t *written, int64_t *step)
{
    struct stat st;
    *written = 0;
    *step = -1;
    if (m->progress_fd < 0 || fstat(m->progress_fd, &st) != 0 ||
        st.st_size == 0)
        return;
    *written = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    *step = read_step(m->progress_fd);
}

bool mailbox_tell(const struct mailbox *m, enum stop_page_why why)
{
    uint32_t word = (uint32_t)why;
    return m->stop_fd >= 0 &&
           pwrite(m->stop_fd, &word, sizeof(word),
                  offsetof(struct stop_page, why)) == sizeof(word);
}

bool mailbox_ask(const struct mailbox *m, enum msg_graceful graceful)
{
    uint32_t looks = 0;
    ddp_assert(graceful <= MSG_SCALE_DOWN);
    bool asked = mailbox_tell(m, (enum stop_page_why)graceful);
    bool known = pread(m->stop_fd, &looks, sizeof(looks),
                       offsetof(struct stop_page, looks)) == sizeof(looks);
    return asked && known && looks != 0;
}
