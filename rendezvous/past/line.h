/*
 * past/line: one line of an --events file. Pure.
 */
#ifndef RENDEZVOUS_PAST_LINE_H
#define RENDEZVOUS_PAST_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAST_TAIL_SIZE 1024
#define PAST_SUMS_SIZE 121 /* account/goodput */

/* The events that a report is made of; all others are PAST_OTHER. */
enum past_kind {
    PAST_OTHER,
    PAST_CONNECTING,
    PAST_JOINED,
    PAST_SEALED,
    PAST_STARTED,
    PAST_NEW_STEP, /* the first one of a round that is new to its node */
    PAST_EXITED,
    PAST_FAILED,
    PAST_STOPPED,
    PAST_FENCED,
    PAST_DONE,
    PAST_TAKEN_OVER,
    PAST_LEAVING,
    PAST_END,
};

/* What it does not say is -1 or "". */
struct past_line {
    enum past_kind kind;
    int64_t time_us; /* since 1970, by the node's clock */
    int64_t up_us;   /* since the launcher's start */
    char run[129];
    char node[65];
    char text[256];
    char tail[PAST_TAIL_SIZE]; /* the last lines of a worker that failed */
    int64_t round, rank, group_rank, nodes, world_size, restarts, exit_code;
    char spent[PAST_SUMS_SIZE]; /* sums that the server told, with a round and
                                   with the end */
    int64_t step;
    int64_t detect_us;     /* of what ended a round: age of the first sign */
    int64_t epoch, gap_us; /* of a take-over */
    char server[160], before[160];
};

/* False: it is no event of ddprun. `line` need not end with a NUL. */
bool past_line_read(const char *line, size_t len, struct past_line *out);

#endif
