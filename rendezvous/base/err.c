#include "rendezvous/base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int exits[] = {
#define DDP_ERROR(name, exit, verdict, meaning) exit,
#include "rendezvous/base/errors.def"
#undef DDP_ERROR
};
_Static_assert(sizeof(exits) / sizeof(exits[0]) == DDP_E_COUNT,
               "one row for each code");

/* Appends what there is room for. */
static void append(char *text, size_t size, const char *more)
{
    size_t used = strlen(text);
    size_t len = strnlen(more, size - used - 1);
    memcpy(text + used, more, len);
    text[used + len] = '\0';
}

__attribute__((format(printf, 4, 0))) static void fill(struct ddp_err *err,
                                                       enum ddp_code code,
                                                       int sys_errno,
                                                       const char *fmt,
                                                       va_list ap)
{
    if (err == NULL)
        return;
    err->code = code;
    err->sys_errno = sys_errno;
    /* A cut text is still a text. */
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
    if (sys_errno == 0)
        return;
    append(err->text, sizeof(err->text), ": ");
    append(err->text, sizeof(err->text), strerror(sys_errno));
}

int ddp_err_set(struct ddp_err *err, enum ddp_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, 0, fmt, ap);
    va_end(ap);
    return -1;
}

int ddp_err_sys(struct ddp_err *err, enum ddp_code code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, saved, fmt, ap);
    va_end(ap);
    return -1;
}

int ddp_err_wrap(struct ddp_err *err, const char *fmt, ...)
{
    if (err == NULL)
        return -1;
    char inner[sizeof(err->text)];
    memcpy(inner, err->text, sizeof(inner));
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* may be cut */
    va_end(ap);
    append(err->text, sizeof(err->text), ": ");
    append(err->text, sizeof(err->text), inner);
    return -1;
}

int ddp_code_exit(enum ddp_code code)
{
    ddp_assert(code < DDP_E_COUNT);
    return exits[code];
}

static void on_alarm(int signo)
{
    (void)signo;
    abort();
}

/* A stderr that blocks must not keep the process from its end. */
static void limit_words(void)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGALRM);
    (void)sigaction(SIGALRM, &sa, NULL); /* a valid signal: cannot fail */
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)signal(SIGABRT, SIG_DFL); /* no reason but ours */
#endif
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)alarm(1);
}

void ddp_assert_failed(const char *file, int line, const char *what)
{
    limit_words();
    fprintf(stderr,
            "ddprun: bug: %s:%d: %s does not hold; please report this\n", file,
            line, what);
    abort();
}
