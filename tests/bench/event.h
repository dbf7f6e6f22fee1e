/*
 * tests/bench/event: what a worker of the bench tells, and where. Each trial
 * has a folder; in it
 *
 *     events   struct event after struct event, appended by the workers
 *     gate     locked by the driver until the workers may end
 *     output   what launchers and workers print
 *
 * The times are the worker's own, so nobody has to be awake to take them, and
 * appending wakes nobody up who would want a CPU at that very moment.
 */
#ifndef EVENT_H
#define EVENT_H

#include <stdint.h>
#include <time.h>

enum event_kind {
    EVENT_START = 1, /* the first thing in main */
    EVENT_END,       /* the last thing before exit 0 */
};

struct event {
    int64_t ns; /* CLOCK_BOOTTIME */
    int32_t pid;
    int32_t kind;
};

static inline int64_t event_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t); /* cannot fail on Linux */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
