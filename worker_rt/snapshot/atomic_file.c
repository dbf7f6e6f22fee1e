/*
 * worker_rt/snapshot/atomic_file: a name has its old file or its new one, at
 * every moment and after a power cut.
 *
 * Happy path of put: create a locked temporary file, write it in pieces past
 * the page cache, fsync it, rename it over the name, fsync the folder.
 *
 * Failure modes. The disk is full or fails: the temporary file is removed, the
 * name is what it was. The writer is killed: its lock goes with it, and the
 * next writer's sweep removes the file, or, on another host, one an hour later.
 * A sweep comes between a file's creation
 * and its lock: create sees that and makes another. The file system knows no
 * direct writes, no locks or no fsync of folders: it is done without. The last
 * fsync fails: IO, though the new file is in place.
 */
#include "worker_rt/snapshot/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
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

#define HEX "0123456789abcdef"
#define HOST_CHARS                                                             \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"
#define OWNER_MAX 64

int atomic_file_open_dir(const char *path, struct ddp_err *err)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        (void)ddp_err_sys(err, DDP_E_IO, "cannot open the folder '%.200s'",
                          path);
    return dir;
}

/* -- names ----------------------------------------------------------------- */

#define BOOT_DIGITS 12
#define HOST_MAX    25 /* with NUL */

/* Who has a temporary file. */
struct temp_owner {
    char host[HOST_MAX]; /* for people */
    int pid;
    char boot[BOOT_DIGITS + 1]; /* of the kernel that runs it */
    unsigned space;             /* the pid namespace, in that kernel */
};

/* Only letters, digits and hyphens, so that the dots around it are the only
 * ones. */
static void read_host(char host[HOST_MAX])
{
    char name[HOST_NAME_MAX + 1];
    size_t n = 0;
    if (gethostname(name, sizeof(name)) != 0)
        name[0] = '\0';
    name[sizeof(name) - 1] = '\0';
    for (; n + 1 < HOST_MAX && name[n] != '\0' && name[n] != '.'; n++)
        host[n] = strchr(HOST_CHARS, name[n]) != NULL ? name[n] : '-';
    if (n == 0)
        host[n++] = '-';
    host[n] = '\0';
}

/* The first digits of the boot id, without its hyphens. */
static bool read_boot(char boot[BOOT_DIGITS + 1])
{
    char text[64];
    size_t n = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
    if (fd >= 0)
        (void)close(fd); /* only read */
    for (ssize_t i = 0; i < len && n < BOOT_DIGITS; i++)
        if (text[i] != '\0' && strchr(HEX, text[i]) != NULL)
            boot[n++] = text[i];
    boot[n] = '\0';
    return n == BOOT_DIGITS;
}

/* This process; false: where /proc is hidden, it has no way to tell. */
static bool find_owner(struct temp_owner *o)
{
    struct stat st;
    if (!read_boot(o->boot) || stat("/proc/self/ns/pid", &st) != 0)
        return false;
    read_host(o->host);
    o->pid = (int)getpid();
    o->space = (unsigned)st.st_ino; /* 32 bits in the kernel, too */
    return true;
}

static void put_owner(char out[OWNER_MAX], const struct temp_owner *o)
{
    (void)snprintf(out, OWNER_MAX, "%s.%d.%s.%08x.", /* fits */
                   o->host, o->pid, o->boot, o->space);
}

/* The part between mark and random digits; false: there is none, or it is not
 * what put_owner makes. */
static bool read_owner(const char *text, size_t len, struct temp_owner *o)
{
    char again[OWNER_MAX];
    if (sscanf(text, "%24[A-Za-z0-9-].%9d.%12[0-9a-f].%8x.", o->host, &o->pid,
               o->boot, &o->space) != 4 ||
        o->pid <= 0 || strlen(o->boot) != BOOT_DIGITS)
        return false;
    put_owner(again, o);
    return strlen(again) == len && memcmp(again, text, len) == 0;
}

void atomic_file_temp_name(char out[ATOMIC_FILE_NAME_MAX], const char *name)
{
    struct temp_owner o;
    char owner[OWNER_MAX] = "";
    int n = snprintf(out, ATOMIC_FILE_NAME_MAX, "%s" ATOMIC_FILE_MARK "%016llx",
                     name, (unsigned long long)rng_seed());
    ddp_assert(n > 0 && (size_t)n < ATOMIC_FILE_NAME_MAX);
    if (find_owner(&o))
        put_owner(owner, &o);
    size_t all = (size_t)n, len = strlen(owner);
    if (all + len > NAME_MAX)
        return;
    char *random = out + all - ATOMIC_FILE_RANDOM;
    memmove(random + len, random, ATOMIC_FILE_RANDOM + 1);
    memcpy(random, owner, len);
}

/* A temporary file: where its name ends, and whose it is (pid 0: it does not
 * say). False: it is none. */
static bool read_temp(const char *entry, size_t *name_len, struct temp_owner *o)
{
    size_t all = strlen(entry);
    if (all < ATOMIC_FILE_RANDOM)
        return false;
    const char *random = entry + all - ATOMIC_FILE_RANDOM;
    if (strspn(random, HEX) != ATOMIC_FILE_RANDOM)
        return false;
    /* A name, or a host, may have that mark as well. */
    const char *mark = entry;
    while ((mark = strstr(mark, ATOMIC_FILE_MARK)) != NULL) {
        const char *owner = mark + sizeof(ATOMIC_FILE_MARK) - 1;
        *name_len = (size_t)(mark - entry);
        o->pid = 0;
        if (*name_len > 0 && (owner == random ||
                              (owner < random &&
                               read_owner(owner, (size_t)(random - owner), o))))
            return true;
        mark++;
    }
    return false;
}

/* -- leftovers ------------------------------------------------------------- */

/* What all of a sweep compares with. */
struct temp_sweep {
    int dir;
    struct timespec changed; /* the folder, by the clock of its files */
    bool known;
    struct temp_owner own; /* if `known` */
};

static bool is_old(const struct temp_sweep *s, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 &&
           s->changed.tv_sec - st.st_mtim.tv_sec > ATOMIC_FILE_AGE_S;
}

static bool
is_dead(const struct temp_sweep *s, const struct temp_owner *o, int fd)
{
    bool here = s->known && o->pid != 0 && strcmp(o->boot, s->own.boot) == 0;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return here || is_old(s, fd);
    if (errno == EWOULDBLOCK || errno == EINTR)
        return false;
    bool gone = here && o->space == s->own.space && kill(o->pid, 0) != 0 &&
                errno == ESRCH;
    return gone || is_old(s, fd);
}

static void look_at(const struct temp_sweep *s,
                    const char *entry,
                    const struct temp_owner *o)
{
    /* To write: NFS gives an exclusive lock for that only (flock(2)). */
    int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(s->dir, entry, flags);
    if (fd < 0)
        return;
    if (is_dead(s, o, fd))
        (void)unlinkat(s->dir, entry, 0);
    (void)close(fd); /* only looked at */
}

void atomic_file_sweep(int dir, const char *name)
{
    struct stat st;
    struct temp_sweep s = {.dir = dir};
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL && fd >= 0)
        (void)close(fd);
    s.known = find_owner(&s.own);
    if (fstat(dir, &st) == 0)
        s.changed = st.st_mtim;
    const struct dirent *e;
    while (list != NULL && (e = readdir(list)) != NULL) {
        struct temp_owner o;
        size_t len;
        if (read_temp(e->d_name, &len, &o) &&
            (name == NULL ||
             (strlen(name) == len && memcmp(name, e->d_name, len) == 0)))
            look_at(&s, e->d_name, &o);
    }
    if (list != NULL)
        (void)closedir(list);
}

/* -- writing --------------------------------------------------------------- */

/* A sweep may come between a file's making and its lock: it holds the lock then
 * or has removed the file. If locks do not work, no sweep removes what is new
 * and has a living writer. */
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

static int write_all(
    int fd, const uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    ddp_assert(fd >= 0);
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; /* no file system does so; it would never end */
        if (n <= 0)
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
        int rc = write_all(fd, data, len, at, &why);
        if (rc == 0 || why.sys_errno != EINVAL) {
            if (rc != 0 && err != NULL)
                *err = why;
            return rc;
        }
    }
    (void)set_direct(fd, false);
    return write_all(fd, data, len, at, err);
}

/* All bytes, synced. */
static int write_bytes(int fd,
                       const uint8_t *data,
                       size_t len,
                       const atomic_bool *stop,
                       struct ddp_err *err)
{
    size_t n;
    for (size_t at = 0; at < len; at += n) {
        n = len - at < PIECE ? len - at : PIECE;
        size_t whole = n > BLOCK ? n - n % BLOCK : n;
        if (stop != NULL && atomic_load(stop))
            return ddp_err_set(err, DDP_E_ABORTED, "the write was given up");
        if (write_piece(fd, data + at, whole, at, err) != 0 ||
            (whole < n && write_piece(fd, data + at + whole, n - whole,
                                      at + whole, err) != 0))
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
    int rc = write_bytes(fd, data, len, stop, err);
    if (rc == 0 && renameat(dir, temp, dir, name) != 0)
        rc =
            ddp_err_sys(err, DDP_E_IO, "cannot rename the new file into place");
    if (rc != 0)
        (void)unlinkat(dir, temp, 0);
    (void)close(fd); /* synced, or given up */
    return rc == 0 ? atomic_file_sync_dir(dir, err) : -1;
}
