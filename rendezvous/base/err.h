/*
 * base/err: what went wrong, as a value.
 *
 * A function that can fail returns 0 or -1 and takes `struct ddp_err *err` as
 * its last parameter. The error is filled once, at the place of the failure.
 * Callers may put context before it (ddp_err_wrap), and one place at the top
 * reports it. `err` may be NULL: the text is dropped then.
 */
#ifndef RENDEZVOUS_BASE_ERR_H
#define RENDEZVOUS_BASE_ERR_H

#include <stdbool.h>

enum ddp_code {
#define DDP_ERROR(name, exit, verdict, meaning) DDP_E_##name,
#include "rendezvous/base/errors.def"
#undef DDP_ERROR
    DDP_E_COUNT
};

/* The caller's storage; nothing to free. `text` has no trailing full stop. */
struct ddp_err {
    enum ddp_code code;
    int sys_errno; /* 0: no system call was involved */
    char text[512];
};

/* Fills `err`; always returns -1, so that a failure is one line. */
int ddp_err_set(struct ddp_err *err, enum ddp_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: takes errno, appends its text. */
int ddp_err_sys(struct ddp_err *err, enum ddp_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts context and ": " before the text that is there; returns -1. */
int ddp_err_wrap(struct ddp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The exit status of a program that ends with this error: errors.def's. */
int ddp_code_exit(enum ddp_code code);

/*
 * Assertions about our own invariants, always compiled in. Never used on
 * anything that comes from a peer, a file or a user.
 */
void ddp_assert_failed(const char *file, int line, const char *what)
    __attribute__((noreturn));

#define ddp_assert(x)                                                          \
    ((x) ? (void)0 : ddp_assert_failed(__FILE__, __LINE__, #x))
#define DDP_WRONG(what) ddp_assert_failed(__FILE__, __LINE__, (what))

#endif
