/*
 * A line is written with one write(2), so that lines of several processes on
 * one terminal or file do not mix. What cannot be written is lost: a logger
 * that blocks or fails must not stop what it tells about.
 */
#include "rendezvous/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *log_name = "ddprun";
static bool debug_on;

void log_init(const char *name)
{
    log_name = name;
}

void log_set_debug(bool on)
{
    debug_on = on;
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

__attribute__((format(printf, 2, 0))) static void
emit(int sys_errno, const char *fmt, va_list ap)
{
    struct line l = {.len = 0};
    line_addf(&l, "%s: ", log_name);
    line_add(&l, fmt, ap);
    if (sys_errno != 0)
        line_addf(&l, ": %s", strerror(sys_errno));
    l.text[l.len++] = '\n';
    ssize_t done = write(STDERR_FILENO, l.text, l.len);
    (void)done; /* see above: lost, and nobody left to tell */
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

void log_debug(const char *fmt, ...)
{
    if (!debug_on)
        return;
    va_list ap;
    va_start(ap, fmt);
    emit(0, fmt, ap);
    va_end(ap);
}
