/*
 * Happy path: mkdtemp, a shared lock on the folder for the life of the launch,
 * rmdir at the end.
 *
 * The lock is what says that a launch lives: the kernel drops it with the last
 * process that has the descriptor, however that ended, while a pid in the name
 * could be another process's by now, or one of another container.
 *
 * Failure modes:
 *   - A sweep of another launch takes the folder between mkdtemp and flock:
 *     seen by is_there, and another one is made.
 *   - The file system has no locks, or they are not seen by other machines: it
 *     is not swept (is_local).
 *   - A folder of another user, a link, one with files in it: left alone.
 */
#include "launcher/proc/tmpfolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

#define PREFIX    "ddprun_"
#define NAME_LEN  (sizeof(PREFIX) - 1 + 6)
#define TRIES     3
#define LOOK_MAX  4096 /* names in TMPDIR */
#define SHARE     16   /* folders looked at; of those beyond, one in SHARE */
#define AGE_MIN_S 60   /* not one that is just being made */
#define XFS_MAGIC 0x58465342L

/* -- making ---------------------------------------------------------------- */

/* Whether the folder that `fd` is open on is still the one at `path`. */
static bool is_there(int fd, const char *path)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && stat(path, &there) == 0 &&
           ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

static void unlock(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* only read */
    *fd = -1;
}

/* The descriptor stays open, and with it the lock. False: somebody has removed
 * the folder before it was locked. */
static bool lock(const char *path, int *fd)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return errno != ENOENT;          /* then it has no lock */
    (void)flock(*fd, LOCK_SH | LOCK_NB); /* some file systems have none */
    if (is_there(*fd, path))
        return true;
    unlock(fd);
    return false;
}

bool tmpfolder_make(char *path, size_t size, int *lock_fd)
{
    unlock(lock_fd);
    const char *root = getenv("TMPDIR");
    if (root == NULL || root[0] != '/')
        root = "/tmp";
    for (int i = 0; i < TRIES; i++) {
        int n = snprintf(path, size, "%s/" PREFIX "XXXXXX", root);
        errno = ENAMETOOLONG;
        if (n < 0 || (size_t)n >= size || mkdtemp(path) == NULL)
            break;
        ddp_assert(path[0] == '/');
        if (lock(path, lock_fd))
            return true;
    }
    int saved = errno;
    (void)snprintf(path, size, "%s", root); /* to be told of */
    errno = saved;
    return false;
}

/* -- removing -------------------------------------------------------------- */

/* Whether flock(2) is seen by all that use the folder: not over a network. */
static bool is_local(int dir)
{
    struct statfs fs;
    if (fstatfs(dir, &fs) != 0)
        return false;
    long type = (long)fs.f_type;
    return type == TMPFS_MAGIC || type == EXT4_SUPER_MAGIC ||
           type == XFS_MAGIC || type == BTRFS_SUPER_MAGIC ||
           type == OVERLAYFS_SUPER_MAGIC;
}

static bool is_stale(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           time(NULL) - st.st_mtime > AGE_MIN_S;
}

/* Its launch has ended if its lock can be had; one with files in it stays. */
static void remove_stale(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(dir, name, AT_REMOVEDIR);
    (void)close(fd); /* only read */
}

static void sweep_root(const char *root)
{
    DIR *d = opendir(root);
    const struct dirent *entry;
    if (d == NULL)
        return;
    int left = is_local(dirfd(d)) ? LOOK_MAX : 0;
    for (int n = 0; left > 0 && (entry = readdir(d)) != NULL; left--) {
        const char *name = entry->d_name;
        if (strlen(name) != NAME_LEN ||
            strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0)
            continue;
        bool ours = n < SHARE || (n + getpid()) % SHARE == 0;
        n++;
        if (ours && is_stale(dirfd(d), name))
            remove_stale(dirfd(d), name);
    }
    (void)closedir(d); /* only read */
}

void tmpfolder_sweep(const char *path)
{
    char root[PATH_MAX];
    const char *end = strrchr(path, '/');
    if (end == NULL || end == path || (size_t)(end - path) >= sizeof(root))
        return;
    memcpy(root, path, (size_t)(end - path));
    root[end - path] = '\0';
    sweep_root(root);
}

void tmpfolder_remove(const char *path)
{
    (void)rmdir(path); /* what somebody wrote stays */
}
