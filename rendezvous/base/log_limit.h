/*
 * base/log_limit: keeps peers from filling the log: a burst of lines at once,
 * and a few a second after that. Further lines are left out and counted, and
 * the owner tells the count every LOG_LIMIT_TELL_US. No clock, no I/O.
 */
#ifndef RENDEZVOUS_BASE_LOG_LIMIT_H
#define RENDEZVOUS_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LIMIT_TELL_US INT64_C(10000000)

/* In storage of the caller's. */
struct log_limit {
    int64_t every_us; /* one line in this time, in the long run */
    int64_t slack_us; /* what a burst may take in advance */
    int64_t due_us;   /* the lines so far are paid for at this time */
    int64_t left_out; /* lines that have not been told of */
};

/* `burst` lines at once, then `per_s` a second. */
void log_limit_init(struct log_limit *l, int burst, int per_s);

/* Whether one more line may be logged now; if not, it is counted as left out.
 */
bool log_limit_may(struct log_limit *l, int64_t now_us);

/* Writes a sentence about the lines that were left out into `line`, and sets
 * their count to 0. False: there is nothing to tell. */
bool log_limit_tell(struct log_limit *l, char *line, size_t size);

#endif
