#include "rendezvous/base/mono.h"

#include <time.h>

static int64_t read_us(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts); /* cannot fail on Linux */
    return (int64_t)ts.tv_sec * MONO_S + ts.tv_nsec / 1000;
}

int64_t mono_now_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t mono_awake_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t mono_after(int64_t now_us, int64_t delta_us)
{
    if (now_us == MONO_NEVER || delta_us == MONO_NEVER ||
        (now_us > 0 && delta_us > MONO_NEVER - now_us))
        return MONO_NEVER;
    return now_us + delta_us;
}

int64_t mono_ms_until(int64_t now_us, int64_t then_us)
{
    if (then_us <= now_us)
        return 0;
    int64_t left_us = then_us - now_us;
    if (left_us >= (int64_t)INT32_MAX * MONO_MS)
        return INT32_MAX;
    return (left_us + MONO_MS - 1) / MONO_MS;
}
