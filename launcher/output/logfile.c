/*
 * Happy path: bytes go behind `size` with pwrite, or by splice from a pipe; at
 * `limit` the file becomes NAME.1 and a new one is opened.
 *
 * Failure modes:
 * - The file cannot be opened, or a write fails or is short: the rest is
 *   counted in `missing`. Each later put tries again; the first that succeeds
 *   says how much is missing before it.
 * - Others write to the same file (`append`): nothing of ours is put between
 *   what comes, so that no gap is marked; but a line that was cut gets its end.
 * - The file or an older one cannot be moved: this one grows over `limit`.
 * - Somebody else moved or removed the file: at `limit` a new one is opened.
 * - Somebody else made the file shorter (": > log", logrotate's copytruncate):
 *   the next byte goes to its new end. What the file had is gone, as after a
 *   rotation.
 */
#include "launcher/output/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/output/lines.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/utc.h"

int logfile_share(int fd)
{
    struct stat st, ours;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return -1;
    for (int own = STDOUT_FILENO; own <= STDERR_FILENO; own++)
        if (fstat(own, &ours) == 0 && ours.st_ino == st.st_ino &&
            ours.st_dev == st.st_dev)
            return fcntl(own, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return -1;
}

/* Not O_APPEND, which splice(2) refuses. No other process writes to this file.
 * If a round begins before the end of the last one was read, its bytes go
 * behind what is there then. */
static bool reopen(struct logfile *f)
{
    struct stat st;
    if (f->path == NULL)
        return false;
    int how = f->append ? O_WRONLY | O_APPEND | O_NONBLOCK : O_RDWR;
    f->fd = open(f->path, how | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (f->fd < 0) {
        f->sys_errno = errno;
        return false;
    }
    int shared = f->append ? logfile_share(f->fd) : -1;
    if (shared >= 0) {
        (void)close(f->fd); /* nothing was written */
        f->fd = shared;
    }
    f->size = fstat(f->fd, &st) == 0 ? st.st_size : 0;
    return true;
}

/* Returns how much it wrote; if not all, the reason is in sys_errno. */
static size_t write_all(struct logfile *f, const char *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = f->append ? write(f->fd, data + done, len - done)
                              : pwrite(f->fd, data + done, len - done, f->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            f->sys_errno = n < 0 ? errno : ENOSPC;
            break;
        }
        f->size += n;
        done += (size_t)n;
        f->inside = data[done - 1] != '\n';
    }
    return done;
}

int logfile_open(
    struct logfile *f, const char *path, int64_t round, int64_t limit, int keep)
{
    char text[96], now[UTC_MAX];
    *f = (struct logfile){
        .fd = -1, .path = strdup(path), .limit = limit, .keep = keep};
    if (f->path == NULL)
        f->sys_errno = ENOMEM;
    if (f->path == NULL || !reopen(f))
        return -1;
    utc_now(now, UTC_MILLIS);
    (void)snprintf(text, sizeof(text),
                   "--- ddprun: round %lld begins, %s ---\n", (long long)round,
                   now);
    if (f->size > 0)
        (void)write_all(f, text, strlen(text)); /* or there is no mark */
    return 0;
}

static void check(const struct logfile *f)
{
    ddp_assert(f->size >= 0 && f->missing >= 0);
    ddp_assert(!f->append || f->limit == 0); /* nobody else's file is moved */
}

/* lseek(2), since fstat(2) waits on NFS until all is on the server. Nothing
 * reads or writes at the offset that this moves. */
static void heed_truncation(struct logfile *f)
{
    int64_t end = f->append ? -1 : lseek(f->fd, 0, SEEK_END);
    if (end < 0 || end >= f->size) /* -1: a pipe, perhaps */
        return;
    f->size = end;
    f->rotations++;
}

static void lose(struct logfile *f, size_t len)
{
    f->missing += (int64_t)len;
}

/* Says in the file how much is missing there. False: that fails, too. */
static bool tell_missing(struct logfile *f)
{
    char text[96] = "\n", now[UTC_MAX];
    utc_now(now, UTC_MILLIS);
    int n = f->append
                ? (int)f->inside
                : snprintf(text, sizeof(text),
                           "\n--- ddprun: %lld %s missing here, %s ---\n",
                           (long long)f->missing,
                           f->missing == 1 ? "byte is" : "bytes are", now);
    int64_t size = f->size;
    if (write_all(f, text, (size_t)n) == (size_t)n) {
        f->missing = 0;
        return true;
    }
    f->size = size; /* half a mark is no mark */
    return false;
}

/* NAME.`i`; NAME itself comes before NAME.1. Paths are of at most 4 KiB. */
static const char *older_name(const struct logfile *f, int i, char name[4200])
{
    if (i == 0)
        return f->path;
    (void)snprintf(name, 4200, "%.4000s.%d", f->path, i);
    return name;
}

/* NAME.1 is the newest of the older ones. They move up to the first name that
 * is free: if this file itself cannot be moved, that is NAME.1 when it is tried
 * again, and they stay. False: one could not be moved out of the way. */
static bool make_older(const struct logfile *f)
{
    char from[4200], to[4200];
    int i = 1;
    while (i < f->keep && access(older_name(f, i, to), F_OK) == 0)
        i++;
    for (; i > 0; i--)
        if (rename(older_name(f, i - 1, from), older_name(f, i, to)) != 0)
            return false;
    return true;
}

/* Somebody has moved or removed it. */
static bool is_gone(const struct logfile *f)
{
    return access(f->path, F_OK) != 0 && errno == ENOENT;
}

/* False: the file stays where it is, and grows. */
static bool rotate(struct logfile *f)
{
    if (!is_gone(f) && !make_older(f))
        return false;
    (void)close(f->fd);
    f->fd = -1;
    f->rotations++;
    (void)reopen(f); /* or what comes is lost, and told */
    return true;
}

bool logfile_put(struct logfile *f, const char *data, size_t len)
{
    check(f);
    heed_truncation(f);
    if ((f->fd < 0 && !reopen(f)) || (f->missing > 0 && !tell_missing(f))) {
        lose(f, len);
        return false;
    }
    while (len > 0) {
        size_t n = lines_fit(data, len, f->inside, f->size, f->limit);
        if (n == 0 && !rotate(f))
            n = len;
        ddp_assert(n <= len);
        size_t done = f->fd >= 0 ? write_all(f, data, n) : 0;
        data += done;
        len -= done;
        if (f->fd < 0 || done < n) {
            lose(f, len);
            return false;
        }
    }
    f->told = false; /* not before: without marks no write shows that it works
                        again */
    return true;
}

int64_t logfile_splice(struct logfile *f, int pipe_fd, size_t most)
{
    check(f);
    ddp_assert(!f->append && f->limit == 0 && most > 0);
    if (f->fd < 0 || f->missing > 0) {
        errno = ENOSPC;
        return -1;
    }
    heed_truncation(f);
    loff_t at = f->size;
    ssize_t n = splice(pipe_fd, NULL, f->fd, &at, most,
                       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0)
        f->size += n;
    return n;
}

void logfile_close(struct logfile *f)
{
    if (f->fd >= 0)
        (void)close(f->fd); /* every write was looked at */
    free(f->path);
    *f = (struct logfile){.fd = -1};
}
