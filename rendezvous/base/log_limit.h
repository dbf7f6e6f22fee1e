/*
 * base/log_limit: keeps peers from filling the log. Each source (base/quota)
 * may cause a burst of lines at once, and a few a second after that. Further
 * lines are left out and counted, and the owner tells the counts every
 * LOG_LIMIT_TELL_US. Memory is bounded: if more than LOG_LIMIT_SOURCES sources
 * are loud at one time, some share one allowance. No clock, no I/O.
 */
#ifndef RENDEZVOUS_BASE_LOG_LIMIT_H
#define RENDEZVOUS_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/quota.h"

#define LOG_LIMIT_SOURCES 256 /* a power of two */
#define LOG_LIMIT_WAYS    4   /* entries among these that a source may have */
#define LOG_LIMIT_TELL_US INT64_C(10000000)

struct log_limit_source {
    char source[SOURCE_TEXT_MAX];
    int64_t due_us;   /* its lines so far are paid for at this time */
    int64_t left_out; /* lines that have not been told of */
    bool shared;      /* ... of others as well */
};

/* In storage of the caller's. */
struct log_limit {
    int64_t every_us; /* one line in this time, in the long run */
    int64_t slack_us; /* what a burst may take in advance */
    int64_t waiting;  /* sources with lines left out */
    struct log_limit_source at[LOG_LIMIT_SOURCES];
};

/* Of each source: `burst` lines at once, then `per_s` a second. */
void log_limit_init(struct log_limit *l, int burst, int per_s);

/* Whether a line about this address or source ("": about none) may be logged
 * now; if not, it is counted as left out. */
bool log_limit_may(struct log_limit *l, const char *addr, int64_t now_us);

/* Writes a sentence about one source's left-out lines into `line`, and sets its
 * count to 0. False: there is nothing to tell. */
bool log_limit_tell(struct log_limit *l, char *line, size_t size);

#endif
