/*
 * Happy path: what is put waits in `out` and is written when MANY_BYTES are
 * there or the loop flushes. No write waits, each kind by its own means:
 *
 *     CONSOLE_OWN     a pipe or terminal is opened anew by its name in /proc:
 *                     another open file description, which can be non-blocking
 *                     without our caller's becoming so
 *     CONSOLE_SOCKET  send(2) with MSG_DONTWAIT
 *     CONSOLE_FILE    files and devices that take what they get
 *     CONSOLE_POLLED  opening anew is not allowed (a terminal of another user)
 *
 * Failure modes:
 * - A polled terminal says that it has room when it has less: the write is
 *   ended after WRITE_MS, and the console rests for REST_US, since no worker is
 *   read while we wait in write(2).
 * - It is full: `out` holds FULL_BYTES before console_room says 0, and never
 *   more than MOST_BYTES. The caller sees to the rest.
 * - Others write to the same pipe: PIPE_BUF bytes at once, in whole lines,
 *   which the kernel does not mix with theirs.
 * - Nobody reads any more (EPIPE, EIO): CONSOLE_DEAD, all is dropped. A FIFO
 *   may get another reader: it is looked at now and then, and the first line
 *   that comes then begins a new line.
 * - A disk, a quota or a limit (ulimit -f) is full: what there is is dropped
 *   and counted (`lost`), and the next bytes are tried again.
 */
#include "launcher/output/console.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/output/lines.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/utc.h"

#define FULL_BYTES (256u * 1024u)       /* over this it is full ... */
#define MOST_BYTES (2u * 1024u * 1024u) /* ... and takes nothing over this */
#define MANY_BYTES (16u * 1024u)        /* written at once */
#define WRITE_MS   2 /* longest wait in a write that may wait */
#define REST_US    (20 * MONO_MS)
#define REVIVE_US  (100 * MONO_MS)

/* A stream that owns the console, for a long line, is in the middle of it. */
static void check(const struct console *c)
{
    ddp_assert(c->owner == 0 || c->owner == c->mid);
}

static bool wants_colour(int fd)
{
    const char *no = getenv("NO_COLOR"); /* no-color.org: not empty */
    const char *term = getenv("TERM");
    return isatty(fd) == 1 && (no == NULL || no[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

static bool is_device_to_reopen(int fd, const struct stat *st)
{
    struct stat null;
    return S_ISFIFO(st->st_mode) || isatty(fd) ||
           (S_ISCHR(st->st_mode) && stat("/dev/null", &null) == 0 &&
            null.st_rdev == st->st_rdev);
}

void console_open(struct console *c, int fd, bool shared)
{
    char path[32];
    struct stat st;
    ddp_assert(fd == STDOUT_FILENO || fd == STDERR_FILENO);
    *c = (struct console){.kind = CONSOLE_FILE, .fd = fd};
    buf_init(&c->out, MOST_BYTES);
    if (fstat(fd, &st) != 0 || S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
        return;
    c->colour = wants_colour(fd);
    c->shared = shared;
    c->pollable = true;
    c->kind = S_ISSOCK(st.st_mode) ? CONSOLE_SOCKET : CONSOLE_POLLED;
    if (c->kind == CONSOLE_SOCKET)
        return;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fits */
    int own = is_device_to_reopen(fd, &st)
                  ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
                  : -1;
    if (own < 0)
        return;
    c->kind = CONSOLE_OWN;
    c->fd = own;
}

bool console_same(int fd1, int fd2)
{
    struct stat a, b;
    return fstat(fd1, &a) == 0 && fstat(fd2, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

size_t console_room(const struct console *c)
{
    size_t used = buf_len(&c->out);
    return used < FULL_BYTES ? FULL_BYTES - used : 0;
}

size_t console_waiting(const struct console *c)
{
    return buf_len(&c->out);
}

char *console_reserve(struct console *c, size_t len)
{
    return (char *)buf_reserve(&c->out, len);
}

void console_commit(struct console *c, size_t len)
{
    buf_commit(&c->out, len);
    if (console_waiting(c) >= MANY_BYTES)
        console_flush(c);
}

void console_put(struct console *c, const char *data, size_t len)
{
    (void)buf_put(&c->out, data, len); /* callers look for room first */
    if (console_waiting(c) >= MANY_BYTES)
        console_flush(c);
}

/* How much to write at once. A pipe takes PIPE_BUF bytes whole or not at all,
 * so that no line of another process stands within them. */
static size_t portion(const struct console *c)
{
    size_t len = buf_len(&c->out);
    if ((!c->shared && c->kind != CONSOLE_POLLED) || len <= PIPE_BUF)
        return len;
    size_t whole = lines_whole((const char *)buf_head(&c->out), PIPE_BUF);
    return whole > 0 ? whole : PIPE_BUF;
}

bool console_rests(const struct console *c)
{
    return c->kind == CONSOLE_POLLED && mono_now_us() < c->rests_until_us;
}

static ssize_t write_polled(struct console *c, const void *data, size_t len)
{
    struct pollfd p = {.fd = c->fd, .events = POLLOUT};
    if (console_rests(c) || poll(&p, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t n = log_write(c->fd, data, len, WRITE_MS);
    if (n >= 0 ? (size_t)n < len : errno == EINTR)
        c->rests_until_us = mono_now_us() + REST_US;
    if (n < 0 && errno == EINTR)
        errno = EAGAIN;
    return n;
}

static ssize_t write_some(struct console *c)
{
    size_t len = portion(c);
    const void *data = buf_head(&c->out);
    switch (c->kind) {
    case CONSOLE_FILE:
    case CONSOLE_OWN:
        return write(c->fd, data, len);
    case CONSOLE_SOCKET:
        return send(c->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    case CONSOLE_POLLED:
        return write_polled(c, data, len);
    case CONSOLE_DEAD:
        break;
    }
    DDP_WRONG("a write to a dead console");
}

static bool is_full_file(int sys_errno)
{
    return sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == EFBIG;
}

void console_revive(struct console *c)
{
    struct stat st;
    struct pollfd p = {.fd = c->fd, .events = POLLOUT};
    if (c->kind != CONSOLE_DEAD || mono_now_us() < c->rests_until_us)
        return;
    c->rests_until_us = mono_now_us() + REVIVE_US;
    if (fstat(c->fd, &st) != 0 || !S_ISFIFO(st.st_mode) || poll(&p, 1, 0) < 0 ||
        (p.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        return;
    c->kind = c->was;
    c->rests_until_us = 0;
    c->owner = c->mid = 0;
    if (c->cut)
        console_put(c, "\n", 1);
}

/* It will never take what waits. A file may take what comes later. */
static void refuse(struct console *c, int sys_errno)
{
    if (c->kind != CONSOLE_FILE && !is_full_file(sys_errno)) {
        /* No stream is in a line of it any more. */
        c->was = c->kind;
        c->kind = CONSOLE_DEAD;
        c->owner = c->mid = 0;
        c->rests_until_us = mono_now_us() + REVIVE_US;
        return;
    }
    c->lost += buf_len(&c->out);
    c->sys_errno = sys_errno;
}

void console_flush(struct console *c)
{
    check(c);
    while (buf_len(&c->out) > 0 && c->kind != CONSOLE_DEAD) {
        ssize_t n = write_some(c);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return; /* some of it waits */
        if (n <= 0) {
            refuse(c, n < 0 ? errno : ENOSPC);
            break;
        }
        c->cut = buf_head(&c->out)[n - 1] != '\n';
        buf_take(&c->out, (size_t)n);
        c->gone += (size_t)n;
    }
    c->gone += buf_len(&c->out);
    if (buf_len(&c->out) > 0)
        buf_take(&c->out, buf_len(&c->out)); /* it is lost */
    c->copied = c->sole = false;
}

bool console_say(struct console *c, const char *fmt, ...)
{
    char text[5000], now[UTC_MAX] = "";
    va_list ap;
    va_start(ap, fmt);
    if (c->timed)
        utc_now(now, UTC_MILLIS);
    int n = snprintf(text, sizeof(text), "%sddprun: %s%s", c->mid ? "\n" : "",
                     now, c->timed ? " " : "");
    int m = vsnprintf(text + n, sizeof(text) - (size_t)n - 1, fmt, ap);
    va_end(ap);
    size_t len = strnlen(text, sizeof(text) - 2);
    check(c);
    text[len++] = '\n';
    if (m <= 0 || c->owner != 0)
        return false;
    c->mid = 0;
    console_put(c, text, len);
    console_flush(c);
    return true;
}
