/*
 * A line is written with one write(2), so that lines of several processes on
 * one terminal or file do not mix. What is not taken is lost: a logger
 * that blocks or fails must not stop what it tells about (an agent that hangs
 * in write(2), since somebody pressed Ctrl-S or a pipe's reader sleeps, would
 * lose its lease, and its workers with it).
 *
 * Names and texts come from other machines and from users: what is no
 * printable UTF-8 is shown as \xNN, so that nobody forges a line or speaks to
 * the terminal.
 */
#include "rendezvous/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 200 /* for a terminal or a pipe that takes nothing */

static const char *log_name = "ddprun";
static int lost; /* lines since the last one that was taken */
static bool cut; /* what was taken last was a part of a line */

void log_init(const char *name)
{
    int fd;
    log_name = name;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) == 0);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
}

struct line {
    char text[2048];
    size_t len; /* below sizeof(text): the last byte is the newline's */
};

__attribute__((format(printf, 2, 0))) static void
line_add(struct line *l, const char *fmt, va_list ap)
{
    size_t room = sizeof(l->text) - 1 - l->len;
    int n = vsnprintf(l->text + l->len, room, fmt, ap);
    if (n > 0)
        l->len += (size_t)n < room ? (size_t)n : room - 1;
}

__attribute__((format(printf, 2, 3))) static void
line_addf(struct line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_add(l, fmt, ap);
    va_end(ap);
}

/* Length of the printable UTF-8 character at `p`, 0 if there is none: for a
 * control character (of ASCII or of Latin-1) and for what is no UTF-8. Overlong
 * forms and surrogates show as what they are, which does no harm. */
static size_t printable(const unsigned char *p)
{
    if (p[0] < 0x80)
        return p[0] >= ' ' && p[0] != 0x7f;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || (p[0] == 0xc2 && p[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0u) != 0x80u) /* also where the text ends */
            return 0;
    return len;
}

static void line_add_safely(struct line *l, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p != '\0') {
        size_t len = 0; /* of what is printable from here on */
        for (size_t n = 1; n > 0; len += n)
            n = printable(p + len);
        if (len > 0)
            line_addf(l, "%.*s", (int)len, (const char *)p);
        else
            line_addf(l, "\\x%02x", *p);
        p += len > 0 ? len : 1;
    }
}

static bool takes_some(int fd, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, wait_ms) > 0 && (p.revents & POLLOUT) != 0;
}

/*
 * A terminal that takes something may take less than a line, and write(2) waits
 * for the rest. Opened anew it can be non-blocking without becoming so for
 * those who share ours with us. -1: it is none, or another user's.
 */
static int open_terminal(void)
{
    if (isatty(STDERR_FILENO) != 1)
        return -1;
    return open("/proc/self/fd/2",
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* How much of it was taken. */
static size_t put_on_terminal(int fd, const struct line *l, int wait_ms)
{
    int64_t until_ms = now_ms() + wait_ms;
    size_t done = 0;
    while (done < l->len) {
        int64_t left_ms = until_ms - now_ms();
        if (!takes_some(fd, left_ms > 0 ? (int)left_ms : 0))
            break;
        ssize_t n = write(fd, l->text + done, l->len - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

/* One wait for all lines that nobody takes: the first one's. */
static void put_line(struct line *l)
{
    int wait_ms = lost == 0 ? WAIT_MS : 0;
    int terminal = open_terminal();
    size_t done = 0;
    l->text[l->len++] = '\n';
    if (terminal >= 0) {
        done = put_on_terminal(terminal, l, wait_ms);
        (void)close(terminal); /* the writes have told */
    } else if (takes_some(STDERR_FILENO, wait_ms) &&
               write(STDERR_FILENO, l->text, l->len) >= 0) {
        done = l->len;
    }
    lost = done == l->len ? 0 : lost + 1;
    cut = done == 0 ? cut : done < l->len;
}

__attribute__((format(printf, 2, 0))) static void
emit(int sys_errno, const char *fmt, va_list ap)
{
    char text[1536];
    struct line l = {.len = 0};
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* a cut text is a text */
    line_addf(&l, "%s%s: ", cut ? "\n" : "", log_name);
    if (lost > 0)
        line_addf(&l, "(lines lost before this one: %d) ", lost);
    line_add_safely(&l, text);
    if (sys_errno != 0)
        line_addf(&l, ": %s", strerror(sys_errno));
    put_line(&l);
}

void fatal(int status, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    emit(saved, fmt, ap);
    va_end(ap);
    exit(status);
}

void fatalx(int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(0, fmt, ap);
    va_end(ap);
    exit(status);
}

void log_warn(const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    emit(saved, fmt, ap);
    va_end(ap);
}

void log_warnx(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(0, fmt, ap);
    va_end(ap);
}

void log_info(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(0, fmt, ap);
    va_end(ap);
}
