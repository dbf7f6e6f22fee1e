/*
 * base/utc: the time of day for people and logs, in ISO 8601 and UTC:
 * 2026-11-22T14:32:53.123Z. All nodes of a job write the same time, whatever
 * their time zones.
 */
#ifndef RENDEZVOUS_BASE_UTC_H
#define RENDEZVOUS_BASE_UTC_H

#include <stdint.h>

#define UTC_MAX    32 /* the longest text, with NUL */
#define UTC_MILLIS 3  /* digits behind the seconds */
#define UTC_MICROS 6

/* Writes the time of now with `digits` (UTC_MILLIS or UTC_MICROS) behind the
 * seconds, which are cut and not rounded. */
void utc_now(char text[UTC_MAX], int digits);

/* Microseconds since 1970. */
int64_t utc_unix_us(void);

#endif
