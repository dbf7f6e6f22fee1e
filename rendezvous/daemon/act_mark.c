/*
 * Happy path: a small file in /dev/shm, one per user and port, is locked, read,
 * written, mapped, and from then on changed by a store to memory at each step
 * of the server. The next server gets the lock when this one is dead, whatever
 * killed it. It is written first, so that there is memory for the page: a store
 * into a hole of a file system that is full would kill the server.
 *
 * Failure modes, all of which mean that nothing is known of a server before:
 * somebody holds the lock (a server in another network namespace); the file is
 * not ours, or on a file system whose locks other machines keep; the machine
 * was started again since (the clock began anew); the contents make no sense.
 */
#include "rendezvous/daemon/act_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/access.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/server_mark.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_LEN  36
#define PAGE_MAGIC   UINT64_C(0x64647072756e6d31)
#define OLD_US       (3600 * MONO_S) /* nobody's lease is as long */

struct page {
    uint64_t magic; /* written last: somebody keeps acted_us */
    char boot_id[BOOT_ID_LEN + 1];
    char server[RDZV_SERVER_ID_LEN + 1];
    int64_t acted_us; /* CLOCK_BOOTTIME */
};

struct act_mark {
    int fd;
    char path[SERVER_MARK_PATH_SIZE];
    struct page *page;
};

static bool read_boot_id(char id[BOOT_ID_LEN + 1])
{
    int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, id, BOOT_ID_LEN) : -1;
    if (fd >= 0)
        (void)close(fd); /* read side, nothing to lose */
    id[BOOT_ID_LEN] = '\0';
    return n == BOOT_ID_LEN;
}

/* Everybody may put something there. */
static bool is_ours(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() && st.st_nlink == 1 &&
           (st.st_mode & 077) == 0 && access_is_local(fd);
}

/* -1: it is not to be had, or it was removed in this moment. */
static int open_locked(const char *path, int flags)
{
    int fd =
        open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_ours(fd))) {
        (void)close(fd); /* nothing was written */
        fd = -1;
    }
    return fd;
}

/* That of a dead server which did nothing for an hour. What is younger is not
 * opened: there may be thousands. */
static void remove_old(void *ctx, int port)
{
    char path[SERVER_MARK_PATH_SIZE];
    struct page was = {.magic = 0};
    struct stat st;
    (void)ctx;
    server_mark_path(path, port);
    if (lstat(path, &st) != 0 || time(NULL) - st.st_mtime < OLD_US / MONO_S)
        return;
    int fd = open_locked(path, 0);
    if (fd < 0)
        return;
    ssize_t n = pread(fd, &was, sizeof(was), 0);
    if (n != (ssize_t)sizeof(was) || was.magic != PAGE_MAGIC ||
        was.acted_us < mono_now_us() - OLD_US)
        (void)unlink(path); /* best effort */
    (void)close(fd);
}

/* What the server before left there; and room for this server's own. */
static bool exchange(int fd,
                     const char *boot_id,
                     const char *id,
                     struct rdzv_before *before)
{
    struct page was = {.magic = 0}, ours = {.magic = 0};
    bool whole = pread(fd, &was, sizeof(was), 0) == (ssize_t)sizeof(was);
    memcpy(ours.boot_id, boot_id, sizeof(ours.boot_id));
    (void)snprintf(ours.server, sizeof(ours.server), /* the first digits */
                   "%.*s", RDZV_SERVER_ID_LEN, id);
    if (pwrite(fd, &ours, sizeof(ours), 0) != (ssize_t)sizeof(ours))
        return false;
    if (!whole || was.magic != PAGE_MAGIC ||
        was.server[RDZV_SERVER_ID_LEN] != '\0' ||
        memcmp(was.boot_id, boot_id, sizeof(was.boot_id)) != 0)
        return true;
    memcpy(before->server, was.server, sizeof(before->server));
    before->acted_us = was.acted_us;
    return true;
}

struct act_mark *
act_mark_open(int port, const char *id, struct rdzv_before *before)
{
    char boot_id[BOOT_ID_LEN + 1];
    *before = (struct rdzv_before){.acted_us = 0};
    struct act_mark *m = read_boot_id(boot_id) ? calloc(1, sizeof(*m)) : NULL;
    if (m == NULL)
        return NULL;
    void *page = MAP_FAILED;
    server_mark_path(m->path, port);
    m->fd = -1;
    for (int tries = 0; m->fd < 0 && tries < 2; tries++)
        m->fd = open_locked(m->path, O_CREAT); /* the last may just remove it */
    if (m->fd >= 0 && exchange(m->fd, boot_id, id, before))
        page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE,
                    MAP_SHARED, m->fd, 0);
    if (page != MAP_FAILED) {
        m->page = page;
        m->page->magic = PAGE_MAGIC; /* it will be kept */
        server_mark_each(remove_old, NULL);
        return m;
    }
    if (m->fd >= 0)
        (void)close(m->fd); /* a page without the magic says nothing */
    *before = (struct rdzv_before){.acted_us = 0};
    free(m);
    return NULL;
}

void act_mark_set(struct act_mark *mark, int64_t now_us)
{
    if (mark != NULL)
        mark->page->acted_us = now_us;
}

void act_mark_close(struct act_mark *mark, bool keep)
{
    if (mark == NULL)
        return;
    if (!keep)
        (void)unlink(mark->path);                  /* best effort */
    (void)munmap(mark->page, sizeof(struct page)); /* it is mapped */
    (void)close(mark->fd);                         /* the lock goes with it */
    free(mark);
}
