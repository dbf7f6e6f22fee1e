/*
 * base/mono: time. Microseconds of CLOCK_BOOTTIME (a suspend counts), as
 * int64_t, named `..._us`. Only the shells read the clock; a pure core gets the
 * time with each event.
 */
#ifndef RENDEZVOUS_BASE_MONO_H
#define RENDEZVOUS_BASE_MONO_H

#include <stdint.h>

#define MONO_NEVER INT64_MAX
#define MONO_MS    INT64_C(1000)
#define MONO_S     INT64_C(1000000)

int64_t mono_now_us(void);

/* Another clock, which stands still in a suspend: for what is measured of
 * processes that stand still then, too. Never compare it with the first. */
int64_t mono_awake_us(void);

/* now + delta; either may be MONO_NEVER. A time before this machine's boot, as
 * another one's age may give it, is negative. */
int64_t mono_after(int64_t now_us, int64_t delta_us);

static inline int64_t mono_min(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Milliseconds from now to then, rounded up, 0 if past, INT32_MAX at most. */
int64_t mono_ms_until(int64_t now_us, int64_t then_us);

#endif
