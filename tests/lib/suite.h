/*
 * tests/lib/suite: what ends the main of every test program, and how slow it
 * is.
 */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* How many times as long all takes here (a sanitizer, an emulator):
 * CK_TIMEOUT_MULTIPLIER, by which Check's own limits grow, else 1. */
static inline int suite_slow(void)
{
    const char *given = getenv("CK_TIMEOUT_MULTIPLIER");
    long times = given == NULL ? 1 : strtol(given, NULL, 10);
    return times < 1 || times > 100 ? 1 : (int)times;
}

/* For what share of the last 10 s processes waited for `what` (cpu, io), in
 * percent; 0 if the kernel does not say (CONFIG_PSI). */
static inline double suite_pressure(const char *what)
{
    char path[32];
    double percent = 0;
    (void)snprintf(path, sizeof(path), "/proc/pressure/%s", what);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "some avg10=%lf", &percent) != 1)
        percent = 0;
    (void)fclose(f); /* read only */
    return percent;
}

/* A limit in us for what takes some time: it grows as all here is slower, and
 * if others use the machine as well, up to three times, by the share of time in
 * which processes waited for a CPU or for a disk. */
static inline int64_t suite_room_us(int64_t us)
{
    double percent = suite_pressure("cpu") + suite_pressure("io");
    percent = percent > 100 ? 100 : percent;
    return (int64_t)((double)(us * suite_slow()) * (1 + percent / 50));
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
