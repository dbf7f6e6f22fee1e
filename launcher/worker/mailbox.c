#include "launcher/worker/mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"

_Static_assert((int)ASKED_SCALE_UP == (int)MSG_SCALE_UP &&
                   (int)ASKED_SCALE_DOWN == (int)MSG_SCALE_DOWN,
               "the server's word is handed on as it is");

/* Of a fixed size: a mapping of it does not fault behind its end. */
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

void mailbox_open(struct mailbox *n)
{
    mailbox_close(n);
    n->progress_fd = memfd_create(ASKED_PROGRESS_NAME, MFD_CLOEXEC);
    n->stop_fd = open_sized(ASKED_STOP_NAME, sizeof(struct asked));
}

void mailbox_close(struct mailbox *n)
{
    if (n->progress_fd >= 0)
        (void)close(n->progress_fd); /* memory, nothing to lose */
    if (n->stop_fd >= 0)
        (void)close(n->stop_fd);
    n->progress_fd = n->stop_fd = -1;
}

static void path_of(int fd, char path[MAILBOX_PATH_MAX])
{
    path[0] = '\0';
    if (fd >= 0)
        (void)snprintf(path, MAILBOX_PATH_MAX, /* two ints: it fits */
                       "/proc/%d/fd/%d", (int)getpid(), fd);
}

void mailbox_progress_path(const struct mailbox *n, char path[MAILBOX_PATH_MAX])
{
    path_of(n->progress_fd, path);
}

void mailbox_stop_path(const struct mailbox *n, char path[MAILBOX_PATH_MAX])
{
    path_of(n->stop_fd, path);
}

void mailbox_memory_path(const struct mailbox *n, char path[MAILBOX_PATH_MAX])
{
    path_of(n->memory_fd, path);
}

int mailbox_open_memory(uint64_t size)
{
    return open_sized(ASKED_SNAPSHOT_NAME, (off_t)size);
}

bool mailbox_progressed(const struct mailbox *n)
{
    struct stat st;
    return n->progress_fd >= 0 && fstat(n->progress_fd, &st) == 0 &&
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

void mailbox_read(const struct mailbox *n, int64_t *written, int64_t *step)
{
    struct stat st;
    *written = 0;
    *step = -1;
    if (n->progress_fd < 0 || fstat(n->progress_fd, &st) != 0 ||
        st.st_size == 0)
        return;
    *written = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    *step = read_step(n->progress_fd);
}

bool mailbox_ask(const struct mailbox *n, enum msg_graceful graceful)
{
    uint32_t word = (uint32_t)graceful;
    uint32_t looks = 0;
    if (n->stop_fd < 0)
        return false;
    bool asked = pwrite(n->stop_fd, &word, sizeof(word),
                        offsetof(struct asked, why)) == sizeof(word);
    bool known = pread(n->stop_fd, &looks, sizeof(looks),
                       offsetof(struct asked, looks)) == sizeof(looks);
    return asked && known && looks != 0;
}
