/*
 * worker_rt/snapshot/atomic_file: a name has its old file or its new one, at
 * every moment and after a power cut.
 *
 * Happy path of put: create a locked temporary file, write it in pieces past
 * the page cache, fsync it, rename it over the name, fsync the folder.
 *
 * Failure modes. The disk is full or fails: the temporary file is removed, the
 * name is what it was. The writer is killed: its lock goes with it, and the
 * next writer's sweep removes the file. A sweep comes between a file's creation
 * and its lock: create sees that and makes another. The file system knows no
 * direct writes, no locks or no fsync of folders: it is done without. The last
 * fsync fails: IO, though the new file is in place.
 */
#include "worker_rt/snapshot/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"

/* Written and started on its way to the disk at once, so that the sync at the
 * end does not find all of it still to do. */
#define PIECE ((size_t)16 << 20)

/* What a direct write wants: its memory, place and length in blocks. */
#define BLOCK ((size_t)4096)

/* To make a file that no sweep removes before it is locked. */
#define TRIES 100

_Static_assert(PIECE % BLOCK == 0, "a piece is a direct write");

int atomic_file_open_dir(const char *path, struct ddp_err *err)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        (void)ddp_err_sys(err, DDP_E_IO, "cannot open the folder '%.200s'",
                          path);
    return dir;
}

void atomic_file_temp_name(char out[ATOMIC_FILE_NAME_MAX], const char *name)
{
    int len =
        snprintf(out, ATOMIC_FILE_NAME_MAX, "%s" ATOMIC_FILE_MARK "%016llx",
                 name, (unsigned long long)rng_seed());
    ddp_assert(len > 0 && (size_t)len < ATOMIC_FILE_NAME_MAX);
}

static bool is_temp(const char *entry, const char *name)
{
    size_t tail = sizeof(ATOMIC_FILE_MARK) - 1 + ATOMIC_FILE_RANDOM;
    size_t len = strlen(entry);
    if (len <= tail)
        return false;
    const char *mark = entry + len - tail;
    const char *random = mark + sizeof(ATOMIC_FILE_MARK) - 1;
    if (strncmp(mark, ATOMIC_FILE_MARK, sizeof(ATOMIC_FILE_MARK) - 1) != 0 ||
        strspn(random, "0123456789abcdef") != ATOMIC_FILE_RANDOM)
        return false;
    return name == NULL || (strlen(name) == len - tail &&
                            strncmp(entry, name, len - tail) == 0);
}

static void remove_unlocked(int dir, const char *entry)
{
    /* To write: NFS gives an exclusive lock for that only (flock(2)). */
    int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(dir, entry, flags);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(dir, entry, 0);
    (void)close(fd); /* only looked at */
}

void atomic_file_sweep(int dir, const char *name)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL && fd >= 0)
        (void)close(fd);
    const struct dirent *e;
    while (list != NULL && (e = readdir(list)) != NULL)
        if (is_temp(e->d_name, name))
            remove_unlocked(dir, e->d_name);
    if (list != NULL)
        (void)closedir(list);
}

/* A sweep may come between a file's making and its lock: it holds the lock then
 * or has removed the file. If locks do not work, no sweep removes anything. */
static bool is_swept(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return true;
    return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

int atomic_file_create(int dir,
                       const char *name,
                       char temp[ATOMIC_FILE_NAME_MAX],
                       struct ddp_err *err)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    for (int i = 0; i < TRIES; i++) {
        atomic_file_temp_name(temp, name);
        int fd = openat(dir, temp, flags, 0666);
        if (fd < 0)
            return ddp_err_sys(err, DDP_E_IO, "cannot create %.100s", temp);
        if (!is_swept(fd))
            return fd;
        (void)unlinkat(dir, temp, 0); /* mostly gone already */
        (void)close(fd);              /* empty */
    }
    return ddp_err_set(
        err, DDP_E_IO,
        "cannot create %.100s: other processes remove it at once", temp);
}

int atomic_file_write(
    int fd, const uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    ddp_assert(fd >= 0);
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ddp_err_sys(err, DDP_E_IO, "cannot write");
        data += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int atomic_file_sync_dir(int dir, struct ddp_err *err)
{
    if (fsync(dir) != 0 && errno != EINVAL)
        return ddp_err_sys(err, DDP_E_IO, "cannot sync the folder");
    return 0;
}

/* Past the page cache, which would cost a copy and push out what others have
 * there; if the file system has no direct writes, through it. */
static bool set_direct(int fd, bool direct)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return false;
    flags = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    return fcntl(fd, F_SETFL, flags) == 0;
}

static int write_piece(
    int fd, const uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    bool whole = len % BLOCK == 0 && (uintptr_t)data % BLOCK == 0;
    struct ddp_err why;
    if (whole && set_direct(fd, true)) {
        int rc = atomic_file_write(fd, data, len, at, &why);
        if (rc == 0 || why.sys_errno != EINVAL) {
            if (rc != 0 && err != NULL)
                *err = why;
            return rc;
        }
    }
    (void)set_direct(fd, false);
    return atomic_file_write(fd, data, len, at, err);
}

static int write_all(int fd,
                     const uint8_t *data,
                     size_t len,
                     const atomic_bool *stop,
                     struct ddp_err *err)
{
    size_t n;
    for (size_t at = 0; at < len; at += n) {
        n = len - at < PIECE ? len - at : PIECE;
        if (n > BLOCK)
            n -= n % BLOCK; /* the rest is a piece of its own */
        ddp_assert(at % BLOCK == 0 && n > 0 && n <= len - at);
        if (stop != NULL && atomic_load(stop))
            return ddp_err_set(err, DDP_E_ABORTED, "the write was given up");
        if (write_piece(fd, data + at, n, at, err) != 0)
            return -1;
        /* A hint: without it the sync takes longer. */
        (void)sync_file_range(fd, (off_t)at, (off_t)n, SYNC_FILE_RANGE_WRITE);
    }
    return fsync(fd) == 0 ? 0
                          : ddp_err_sys(err, DDP_E_IO, "cannot sync the file");
}

int atomic_file_put(int dir,
                    const char *name,
                    const uint8_t *data,
                    size_t len,
                    const atomic_bool *stop,
                    struct ddp_err *err)
{
    char temp[ATOMIC_FILE_NAME_MAX];
    int fd = atomic_file_create(dir, name, temp, err);
    if (fd < 0)
        return -1;
    int rc = write_all(fd, data, len, stop, err);
    if (rc == 0 && renameat(dir, temp, dir, name) != 0)
        rc =
            ddp_err_sys(err, DDP_E_IO, "cannot rename the new file into place");
    if (rc != 0)
        (void)unlinkat(dir, temp, 0);
    (void)close(fd); /* synced, or given up */
    return rc == 0 ? atomic_file_sync_dir(dir, err) : -1;
}
