/*
 * base/log_limit: keeps strangers from filling the log. Each source
 * (base/quota) may cause so many lines at once and so many a second from then
 * on; what is left out is counted, and told in one line every ten seconds.
 * Bounded memory: where more sources than HUSH_SOURCES are loud at one time,
 * some share what they may say. No clock, no I/O.
 */
#ifndef RENDEZVOUS_BASE_LOG_LIMIT_H
#define RENDEZVOUS_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/quota.h"

#define HUSH_SOURCES 256 /* a power of two */
#define HUSH_WAYS    4   /* places that a source may have among these */
#define HUSH_TELL_US INT64_C(10000000)

struct hush_source {
    char source[SOURCE_TEXT_MAX];
    int64_t due_us;   /* it has used up what it may say until then */
    int64_t left_out; /* lines that nobody was told of */
    bool shared;      /* ... of others as well */
};

/* In storage of the caller's. */
struct hush {
    int64_t every_us; /* one line in so long, in the long run */
    int64_t slack_us; /* as many in advance as go into this */
    int64_t waiting;  /* sources with lines left out */
    struct hush_source at[HUSH_SOURCES];
};

/* `burst` lines at once, then `per_s` a second, of each source. */
void hush_init(struct hush *h, int burst, int per_s);

/* Whether a line that comes of this address or source may be said now; if not,
 * it is counted as left out. */
bool hush_may(struct hush *h, const char *addr, int64_t now_us);

/* Puts into `line` what is to be told of one source, and begins to count anew
 * for it. False: there is nothing to tell. */
bool hush_tell(struct hush *h, char *line, size_t size);

#endif
