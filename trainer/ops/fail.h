/*
 * trainer/ops/fail: fills libddp's error value with what went wrong here, so
 * that the trainer's functions and libddp's report in one way. Both always
 * return -1, so that a failure is one line.
 */
#ifndef TRAINER_OPS_FAIL_H
#define TRAINER_OPS_FAIL_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "worker_rt/ddp.h"

__attribute__((format(printf, 3, 4))) static inline int
fail_set(struct ddp_error *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    err->sys_errno = 0;
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* cut is fine */
    va_end(ap);
    return -1;
}

/* The same for a failed system call: takes errno, appends its text. */
__attribute__((format(printf, 3, 4))) static inline int
fail_sys(struct ddp_error *err, int code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    err->sys_errno = saved;
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    size_t n = strlen(err->text);
    (void)snprintf(err->text + n, sizeof(err->text) - n, ": %s",
                   strerror(saved));
    return -1;
}

#endif
