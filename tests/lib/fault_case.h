/*
 * tests/lib/fault_case: what tests have in common in which each system call
 * fails in turn (tests/lib/fault, tests/lib/hurt).
 */
#ifndef FAULT_CASE_H
#define FAULT_CASE_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/lib/fault.h"

/* tests/lib/fault counts what a run leaves behind as a child subreaper, which
 * qemu-user does not have. */
#define FAULT_TAG "subreaper"

/* A case of such tests, each of `seconds`. The case is left out under valgrind,
 * which takes minutes for that many processes. */
/* clang-format off */
#define FAULT_CASE(seconds) \
    .tags = "many-forks " FAULT_TAG, .limit_s = (seconds)
/* clang-format on */

/* libuv's abort, of which aborts_explain cannot tell where ThreadSanitizer
 * gives handlers an errno of its own. */
static inline bool fault_is_unexplained(const struct fault_run *r)
{
#ifdef __SANITIZE_THREAD__
    return strstr(r->plan, ":epoll_ctl:") != NULL && WIFSIGNALED(r->status) &&
           WTERMSIG(r->status) == SIGABRT && !r->late && r->left == 0;
#else
    (void)r;
    return false;
#endif
}

/* It ended by itself and in time, and left no process behind. Returns its exit
 * status. */
static inline int fault_ended(const struct fault_run *r)
{
    ck_assert_msg(!r->late && r->left == 0 && WIFEXITED(r->status),
                  "%s: late %d, left %d, status %#x: %s", r->plan, r->late,
                  r->left, (unsigned)r->status, r->err);
    return WEXITSTATUS(r->status);
}

#endif
