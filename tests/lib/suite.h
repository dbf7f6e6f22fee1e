/*
 * tests/lib/suite: what ends the main of every test program, and how slow it
 * is.
 */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdlib.h>

/* How many times as long all takes here (a sanitizer, an emulator):
 * CK_TIMEOUT_MULTIPLIER, by which Check's own limits grow, else 1. */
static inline int suite_slow(void)
{
    const char *given = getenv("CK_TIMEOUT_MULTIPLIER");
    long times = given == NULL ? 1 : strtol(given, NULL, 10);
    return times < 1 || times > 100 ? 1 : (int)times;
}

/* Runs and frees the suite, as loud as CK_VERBOSITY says. Returns what main
 * returns: EXIT_SUCCESS where no test failed. */
static inline int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
