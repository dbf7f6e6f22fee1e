#include "tests/lib/bad_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

const char *const bad_disk_names[BAD_CALLS] = {
#define X(name, text) [BAD_##name] = text,
    BAD_DISK_CALLS(X)
#undef X
};

enum bad_fault (*bad_disk)(enum bad_call call, int *reason);

/* -- one call -------------------------------------------------------------- */

struct stroke {
    enum bad_fault fault;
    int reason;
};

static struct stroke draw(enum bad_call call)
{
    struct stroke s = {BAD_NONE, EIO};
    if (bad_disk != NULL)
        s.fault = bad_disk(call, &s.reason);
    return s;
}

/* Before the call itself: whether it is made. */
static bool goes_on(const struct stroke *s)
{
    if (s->fault == BAD_DIE_BEFORE)
        _exit(BAD_DIED);
    return s->fault == BAD_NONE || s->fault == BAD_FAIL_DONE ||
           s->fault == BAD_DIE_BEHIND;
}

/* After it. */
static long result(const struct stroke *s, long rc)
{
    if (s->fault == BAD_DIE_BEHIND || s->fault == BAD_DIE_HALF)
        _exit(BAD_DIED);
    if (s->fault == BAD_NONE)
        return rc;
    errno = s->reason;
    return -1;
}

/* A whole wrapper of a call that returns an int. */
#define STRIKE(call, made)                                                     \
    do {                                                                       \
        struct stroke s_ = draw(call);                                         \
        long rc_ = goes_on(&s_) ? (made) : -1;                                 \
        return (int)result(&s_, rc_);                                          \
    } while (0)

/* -- files ----------------------------------------------------------------- */

int __real_openat(int dir, const char *name, int flags, ...);
int __wrap_openat(int dir, const char *name, int flags, ...)
{
    bool makes = (flags & O_CREAT) != 0, folder = (flags & O_DIRECTORY) != 0;
    mode_t mode = 0;
    if (makes) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    struct stroke s = draw(makes ? BAD_MAKE : folder ? BAD_FOLDER : BAD_OPEN);
    int fd = goes_on(&s) ? __real_openat(dir, name, flags, mode) : -1;
    if (s.fault == BAD_FAIL_DONE && fd >= 0)
        (void)close(fd);
    return (int)result(&s, fd);
}

/* Of atomic_file_open_dir and of memory's size; a path that is looked at before
 * others does no harm. */
int __real_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...)
{
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    if (bad_disk != NULL && (flags & O_ACCMODE) != O_RDONLY)
        abort();
    STRIKE((flags & O_DIRECTORY) != 0 ? BAD_FOLDER : BAD_LOOK,
           __real_open(name, flags, mode));
}

struct dirent *__real_readdir(DIR *list);
struct dirent *__wrap_readdir(DIR *list)
{
    struct stroke s = draw(BAD_LIST);
    struct dirent *e = goes_on(&s) ? __real_readdir(list) : NULL;
    return result(&s, 0) == 0 ? e : NULL;
}

int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how)
{
    STRIKE(BAD_LOCK, __real_flock(fd, how));
}

int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
    va_list ap;
    va_start(ap, what);
    long value = what == F_GETFL || what == F_GETFD ? 0 : va_arg(ap, int);
    va_end(ap);
    if (what != F_SETFL)
        return __real_fcntl(fd, what, value);
    STRIKE(BAD_MODE, __real_fcntl(fd, what, value));
}

ssize_t __real_pread(int fd, void *data, size_t len, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at)
{
    struct stroke s = draw(BAD_READ);
    if (s.fault == BAD_HALF)
        return __real_pread(fd, data, (len + 1) / 2, at);
    if (s.fault == BAD_FLIP) {
        ssize_t n = __real_pread(fd, data, len, at);
        if (n > 0)
            ((uint8_t *)data)[n / 2] ^= 4;
        return n;
    }
    ssize_t n = goes_on(&s) ? __real_pread(fd, data, len, at) : -1;
    return result(&s, n);
}

/* Past the cache or into it, as the descriptor is. */
ssize_t __real_pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at)
{
    int flags = __real_fcntl(fd, F_GETFL);
    bool direct = flags >= 0 && (flags & O_DIRECT) != 0;
    struct stroke s = draw(direct ? BAD_DIRECT : BAD_CACHED);
    ssize_t n = -1;
    if (s.fault == BAD_HALF || s.fault == BAD_DIE_HALF)
        n = __real_pwrite(fd, data, (len + 1) / 2, at);
    if (s.fault == BAD_HALF)
        return n;
    if (goes_on(&s))
        n = __real_pwrite(fd, data, len, at);
    return result(&s, n);
}

int __wrap_sync_file_range(int fd, off_t at, off_t len, unsigned flags)
{
    (void)fd, (void)at, (void)len, (void)flags;
    STRIKE(BAD_RANGE, 0);
}

/* No power is cut here, so nothing need be on the disk. */
int __wrap_fsync(int fd)
{
    struct stat st;
    bool folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    STRIKE(folder ? BAD_SYNC_DIR : BAD_SYNC, 0);
}

int __real_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to)
{
    STRIKE(BAD_RENAME, __real_renameat(a, from, b, to));
}

int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags)
{
    STRIKE(BAD_UNLINK, __real_unlinkat(dir, name, flags));
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
    STRIKE(BAD_LOOK, __real_fstat(fd, st));
}

int __real_faccessat(int dir, const char *name, int mode, int flags);
int __wrap_faccessat(int dir, const char *name, int mode, int flags)
{
    STRIKE(BAD_LOOK, __real_faccessat(dir, name, mode, flags));
}

int __real_fallocate(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate(int fd, int mode, off_t at, off_t len)
{
    STRIKE(BAD_MEMORY, __real_fallocate(fd, mode, at, len));
}

/* -- ways that nobody takes ------------------------------------------------ */

/* But the test itself, when nothing is struck. All arguments are integers or
 * pointers, six at most. */
#define NOBODY(name)                                                           \
    long __real_##name(long a, long b, long c, long d, long e, long f);        \
    long __wrap_##name(long a, long b, long c, long d, long e, long f);        \
    long __wrap_##name(long a, long b, long c, long d, long e, long f)         \
    {                                                                          \
        if (bad_disk != NULL) {                                                \
            fputs("bad_disk: nothing strikes " #name "\n", stderr);            \
            abort();                                                           \
        }                                                                      \
        return __real_##name(a, b, c, d, e, f);                                \
    }

/* clang-format off */
NOBODY(write)
NOBODY(writev)
NOBODY(pwritev)
NOBODY(pwritev2)
NOBODY(fdatasync)
NOBODY(syncfs)
NOBODY(msync)
NOBODY(rename)
NOBODY(renameat2)
NOBODY(link)
NOBODY(linkat)
NOBODY(unlink)
NOBODY(copy_file_range)
NOBODY(sendfile)
/* clang-format on */
