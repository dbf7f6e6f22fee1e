/*
 * tests/lib/hurt: what a unit of the launcher has to do when a system call of
 * its fails (tests/lib/fault): go on as if nothing was, or say what failed and
 * end the try with a status of errors.def. It never hangs, crashes or leaves a
 * process or a descriptor behind. Tests with it link -luv and -ldl.
 */
#ifndef HURT_H
#define HURT_H

#include "tests/lib/fault.h"

/* What a run returns, besides the status of fatalx. */
enum {
    HURT_DONE = 0,  /* all that the unit is for came about */
    HURT_TOLD = 11, /* it did not, and stderr says why */
    HURT_TEST = 12, /* a call of the test's own was the one that failed */
    HURT_LEAK = 13, /* descriptors are left */
    HURT_LATE = 14, /* neither came about in time */
    HURT_WRONG = 15 /* something else that must not be; stderr says what */
};

/* Within a run: puts the text on stderr. Returns HURT_TOLD or HURT_WRONG. */
int hurt_told(const char *text);
int hurt_wrong(const char *text);

/*
 * Runs with each call of `role` failing, see fault_each. `must` are calls with
 * blanks between them that have to be among those that failed in the unit:
 * else the test does not test what it is for. Fails the test, with the plan and
 * stderr, if a run ends in any other way than said above.
 */
void hurt_each(const char *role,
               int n_max,
               int (*run)(void *ctx),
               void *ctx,
               const char *must);

#endif
