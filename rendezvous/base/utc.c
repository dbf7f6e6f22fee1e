#include "rendezvous/base/utc.h"

#include <stdio.h>
#include <time.h>

#include "rendezvous/base/err.h"

void utc_now(char text[UTC_MAX], int digits)
{
    struct timespec now;
    struct tm tm;
    char day[20] = "";
    ddp_assert(digits == UTC_MILLIS || digits == UTC_MICROS);
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
    if (gmtime_r(&now.tv_sec, &tm) != NULL)    /* else the clock is mad */
        (void)strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    long unit_ns = digits == UTC_MILLIS ? 1000000 : 1000;
    unsigned part = (unsigned)(now.tv_nsec / unit_ns) % 1000000u;
    (void)snprintf(text, UTC_MAX, "%s.%0*uZ", day, digits, part); /* fits */
}

int64_t utc_unix_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
