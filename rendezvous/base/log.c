/*
 * A line is written with one write(2), so that lines of several processes on
 * one terminal or file do not mix. A line that is not taken in time is lost: a
 * log that blocks must not stop the program. (An agent that hangs in write(2),
 * because somebody pressed Ctrl-S or a pipe's reader sleeps, would lose its
 * lease, and its workers with it.)
 *
 * Names and texts come from other machines and from users. What is not
 * printable UTF-8 is shown as \xNN, so that no text forges a line or controls
 * the terminal.
 */
#include "rendezvous/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/utf8.h"

#define WAIT_MS  200 /* for a terminal or a pipe that takes nothing */
#define AGAIN_MS 1   /* for one that took nothing the last time */
#define TICK_NS  (10 * 1000 * 1000)

static const char *log_name = "ddprun";
static void (*log_now)(char text[UTC_MAX], int digits);
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

void log_timestamps(void (*now)(char text[UTC_MAX], int digits))
{
    log_now = now;
}

struct log_line {
    char text[2048];
    size_t len; /* below sizeof(text): the last byte is the newline's */
};

__attribute__((format(printf, 2, 0))) static void
line_add(struct log_line *l, const char *fmt, va_list ap)
{
    size_t room = sizeof(l->text) - 1 - l->len;
    int n = vsnprintf(l->text + l->len, room, fmt, ap);
    if (n > 0)
        l->len += (size_t)n < room ? (size_t)n : room - 1;
}

__attribute__((format(printf, 2, 3))) static void
line_addf(struct log_line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_add(l, fmt, ap);
    va_end(ap);
}

/* Bytes of the printable character at `text`; 0: there is none. */
static size_t printable(const char *text)
{
    bool control;
    size_t len = utf8_char(text, &control);
    return control ? 0 : len;
}

static void line_add_safely(struct log_line *l, const char *text)
{
    while (*text != '\0') {
        size_t len = 0; /* of what is printable from here on */
        for (size_t n = 1; n > 0; len += n)
            n = printable(text + len);
        if (len > 0)
            line_addf(l, "%.*s", (int)len, text);
        else
            line_addf(l, "\\x%02x", (unsigned char)*text);
        text += len > 0 ? len : 1;
    }
}

/* -- writing --------------------------------------------------------------- */

static void on_time(int signo)
{
    (void)signo; /* it has ended a write(2), or came too late for it */
}

/*
 * poll(2) alone is not enough: a terminal is writable even if it takes only a
 * part of the line, and another process may fill a pipe in between. O_NONBLOCK
 * would change the stream for all processes that share it, and it cannot be
 * opened anew if it is another user's.
 *
 * So a timer's signal ends the write: a signal that is ignored by default. The
 * timer repeats, in case its signal comes before write(2) has begun.
 */
ssize_t log_write(int fd, const void *data, size_t len, int most_ms)
{
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    struct itimerspec at = {
        .it_value = {.tv_sec = most_ms / 1000,
                     .tv_nsec = most_ms % 1000 * 1000000L},
        .it_interval = {.tv_nsec = TICK_NS},
    };
    struct sigaction ours = {.sa_handler = on_time}, before;
    sigset_t urg, mask;
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &ev, &timer) != 0)
        return write(fd, data,
                     len); /* the user has too many timers: it may block */
    (void)sigemptyset(&urg);
    (void)sigaddset(&urg, SIGURG);
    (void)sigaction(SIGURG, &ours, &before); /* not SA_RESTART */
    (void)sigprocmask(SIG_UNBLOCK, &urg, &mask);
    (void)timer_settime(timer, 0, &at, NULL);
    ssize_t n = write(fd, data, len);
    int error = errno;
    (void)timer_delete(timer);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    (void)sigaction(SIGURG, &before, NULL);
    errno = error;
    return n;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int left_ms(int64_t until_ms)
{
    int64_t left = until_ms - now_ms();
    return left > 0 ? (int)left : 0;
}

static bool takes_some(int64_t until_ms)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    int n;
    do
        n = poll(&p, 1, left_ms(until_ms));
    while (n < 0 && errno == EINTR); /* many workers may die at once: SIGCHLD */
    if (n < 0)
        return left_ms(until_ms) >
               0; /* no memory: the write has a limit, too */
    return n > 0 && (p.revents & POLLOUT) != 0;
}

/* Returns how many bytes were taken. */
static size_t put(const struct log_line *l, int wait_ms)
{
    int64_t until_ms = now_ms() + wait_ms;
    size_t done = 0;
    do {
        if (!takes_some(until_ms))
            break;
        int most_ms = left_ms(until_ms);
        ssize_t n = log_write(STDERR_FILENO, l->text + done, l->len - done,
                              most_ms > 0 ? most_ms : AGAIN_MS);
        if (n <= 0)
            break;
        done += (size_t)n;
    } while (done < l->len && left_ms(until_ms) > 0);
    return done;
}

/* Only the first of the lines that are not taken is waited for. */
static void put_line(struct log_line *l)
{
    l->text[l->len++] = '\n';
    size_t done = put(l, lost == 0 ? WAIT_MS : 0);
    lost = done == l->len ? 0 : lost + 1;
    cut = done == 0 ? cut : done < l->len;
}

__attribute__((format(printf, 2, 0))) static void
emit(int sys_errno, const char *fmt, va_list ap)
{
    char text[1536];
    struct log_line l = {.len = 0};
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* a cut text is a text */
    char now[UTC_MAX] = "";
    if (log_now != NULL)
        log_now(now, UTC_MILLIS);
    line_addf(&l, "%s%s: %s%s", cut ? "\n" : "", log_name, now,
              log_now != NULL ? " " : "");
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
