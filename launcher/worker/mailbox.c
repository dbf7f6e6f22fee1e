/*
 * Happy path: a memfd per worker, and one with a page for each, which it opens
 * by /proc/PID/fd/N of the agent. The worker writes its step to the first one
 * and reads the word `why` of its page; the agent reads the one and writes the
 * other. Each word is written by one side only, and whole. A round has pages of
 * its own: what a worker left behind cannot be taken for the next one's word.
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

static void close_pages(struct mailbox_pages *pages)
{
    if (pages->at != NULL)
        (void)munmap(pages->at, pages->len); /* cannot fail */
    if (pages->fd >= 0)
        (void)close(pages->fd); /* memory, nothing to lose */
    *pages = (struct mailbox_pages)MAILBOX_PAGES_NONE;
}

int mailbox_open_pages(struct mailbox_pages *pages, int workers)
{
    ddp_assert(workers > 0);
    close_pages(pages);
    size_t len = stop_page_at(workers);
    pages->fd = open_sized(MEMFD_STOP, (off_t)len);
    if (pages->fd < 0)
        return ran_out(pages->fd) ? -1 : 0;
    void *at =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, pages->fd, 0);
    if (at == MAP_FAILED)
        return 0;
    pages->at = at;
    pages->len = len;
    return 0;
}

int mailbox_open(struct mailbox *m,
                 const struct mailbox_pages *pages,
                 int local_rank)
{
    mailbox_close(m);
    m->progress_fd = memfd_create(MEMFD_PROGRESS, MFD_CLOEXEC);
    if (ran_out(m->progress_fd))
        return -1;
    m->stop_fd = pages->fd;
    if (pages->at == NULL)
        return 0;
    ddp_assert(stop_page_at(local_rank) < pages->len);
    void *page = (char *)pages->at + stop_page_at(local_rank);
    m->page = page;
    return 0;
}

void mailbox_close(struct mailbox *m)
{
    if (m->progress_fd >= 0)
        (void)close(m->progress_fd); /* memory, nothing to lose */
    m->progress_fd = m->stop_fd = -1;
    m->page = NULL;
}

void mailbox_path(int fd, char path[MAILBOX_PATH_MAX])
{
    static pid_t self; /* in /proc, looked up once; 0: not there */
    path[0] = '\0';
    if (self == 0)
        self = procfs_self();
    if (fd < 0 || self == 0)
        return;
    int n = snprintf(path, MAILBOX_PATH_MAX, "/proc/%d/fd/%d", (int)self, fd);
    ddp_assert(n < MAILBOX_PATH_MAX); /* two ints */
}

int mailbox_open_memory(uint64_t size)
{
    ddp_assert(size > 0 && size <= INT64_MAX / SNAPSHOT_SLOTS);
    struct rlimit limit;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t len = snapshot_slots_length(size);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < len)
        len = limit.rlim_cur / page * page;
    return len > 0 ? open_sized(MEMFD_SNAPSHOTS, (off_t)len) : -1;
}

/* What libddp tells before there is progress stands further behind. */
bool mailbox_progressed(const struct mailbox *m)
{
    char first;
    return m->progress_fd >= 0 && pread(m->progress_fd, &first, 1, 0) == 1 &&
           first != '\0';
}

/* The number behind `word` in the line that begins there. False: there is no
 * such line, or there is more in it. */
static bool read_line(int fd, off_t at, const char *word, int64_t *number)
{
    char text[PROGRESS_LINE];
    char *end;
    size_t skip = strlen(word);
    ssize_t n = pread(fd, text, sizeof(text) - 1, at);
    if (n <= 0)
        return false;
    text[n] = '\0';
    if (strncmp(text, word, skip) != 0)
        return false;
    errno = 0;
    *number = strtoll(text + skip, &end, 10);
    bool whole = end != text + skip && (*end == '\0' || strcmp(end, "\n") == 0);
    return whole && errno == 0;
}

void mailbox_read(const struct mailbox *m, int64_t *written, int64_t *step)
{
    struct stat st;
    *written = 0;
    *step = -1;
    if (!mailbox_progressed(m) || fstat(m->progress_fd, &st) != 0)
        return;
    *written = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (!read_line(m->progress_fd, 0, "", step) || *step < 0)
        *step = -1;
}

bool mailbox_read_mirrored(const struct mailbox *m, int64_t *step)
{
    return m->progress_fd >= 0 &&
           read_line(m->progress_fd, PROGRESS_MIRRORED_AT, PROGRESS_MIRRORED,
                     step) &&
           *step >= -1;
}

void mailbox_take_mirrored(const struct mailbox *m, struct msg_beat *beat)
{
    int64_t step;
    if (!mailbox_read_mirrored(m, &step) || step >= MAILBOX_STEPS_MAX)
        return;
    if (beat->mirrored == 0 || step + 2 < beat->mirrored)
        beat->mirrored = step + 2;
}

#define OWN_MAX INT64_C(1000000000000) /* messages.def: beat */

bool mailbox_read_own(const struct mailbox *m,
                      int64_t *mean_us,
                      int64_t *noise_us)
{
    int fd = m->progress_fd;
    return fd >= 0 && read_line(fd, PROGRESS_OWN_AT, PROGRESS_OWN, mean_us) &&
           read_line(fd, PROGRESS_NOISE_AT, PROGRESS_NOISE, noise_us) &&
           *mean_us >= 0 && *mean_us <= OWN_MAX && *noise_us >= 0 &&
           *noise_us <= OWN_MAX;
}

int64_t mailbox_read_barren(const struct mailbox *m)
{
    int64_t launches = -1;
    if (m->progress_fd >= 0 && read_line(m->progress_fd, PROGRESS_BARREN_AT,
                                         PROGRESS_BARREN, &launches))
        return launches >= 0 ? launches : -1;
    return -1;
}

bool mailbox_tell(const struct mailbox *m, enum stop_page_why why)
{
    if (m->page != NULL)
        atomic_store(&m->page->why, (uint32_t)why);
    return m->page != NULL;
}

bool mailbox_ask(const struct mailbox *m, enum msg_graceful graceful)
{
    ddp_assert(graceful <= MSG_SCALE_DOWN);
    return mailbox_tell(m, (enum stop_page_why)graceful) &&
           atomic_load(&m->page->looks) != 0;
}
