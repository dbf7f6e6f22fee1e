/*
 * tests/lib/fault_case: what tests have in common in which each system call
 * fails in turn (tests/lib/fault, tests/lib/hurt).
 */
#ifndef FAULT_CASE_H
#define FAULT_CASE_H

#include <check.h>
#include <sys/wait.h>

#include "tests/lib/fault.h"

/* tests/lib/fault counts what a run leaves behind as a child subreaper, which
 * qemu-user does not have. */
#define FAULT_TAG "subreaper"

/* A case of such tests, in the suite already. Each has `limit_s` seconds. It is
 * left out under valgrind, which takes minutes for that many processes. */
static inline TCase *fault_case(Suite *suite, const char *name, double limit_s)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, limit_s);
    tcase_set_tags(tc, "many-forks " FAULT_TAG);
    suite_add_tcase(suite, tc);
    return tc;
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
