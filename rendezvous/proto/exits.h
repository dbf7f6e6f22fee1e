/*
 * proto/exits: how the unsuccessful workers of a round ended, in little space,
 * since the report names each of them.
 *
 * The exits of one node (struct exits) are runs of local ranks that ended in
 * the same way, ascending. In `ready` they are a text with a blank behind each
 * run. A number below 0 is a signal (or EXITS_UNSTOPPED), any other one an exit
 * code:
 *
 *     0-6=-15 7=77
 *
 * In `end` each node's runs follow the rank of its first worker and its name,
 * ascending by rank:
 *
 *     @0 node-a 0-3=-15 @4 node-b 0=77
 *
 * Runs that do not fit are left out, the highest ranks first; the counts beside
 * them tell how many there were. Pure. A peer's text is
 * parsed and printed anew, and never passed on as it came.
 */
#ifndef RENDEZVOUS_PROTO_EXITS_H
#define RENDEZVOUS_PROTO_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXITS_RUNS       48
#define EXITS_TEXT_MAX   720  /* ready.ends of messages.def */
#define EXITS_LIST_MAX   2000 /* end.ends and end.stopped */
#define EXITS_LOCAL_MAX  4095 /* the largest local rank; join.nproc */
#define EXITS_COUNTS_MAX 43   /* ready.counts and end.counts */

/* Instead of -SIGKILL: the launcher killed a worker that was asked to stop, and
 * did not do so in time. No signal has this number. */
#define EXITS_UNSTOPPED (-127)

struct exits_run {
    int16_t first, last; /* local ranks */
    int16_t how;         /* exit code, negative signal or EXITS_UNSTOPPED */
};

/* All 0: no worker ended badly. */
struct exits {
    int n;
    struct exits_run runs[EXITS_RUNS + 1]; /* one is free between two calls */
};

/* How many workers ended badly, and how. */
struct exits_counts {
    int64_t by_term, by_kill, by_signal; /* another signal than these two */
    int64_t by_code;
};

/* One more; `signal` is 0 if it exited. */
void exits_count(struct exits_counts *c, int64_t signal);

/* One less, if there is one. */
void exits_uncount(struct exits_counts *c, int64_t signal);

/* Each number as far as it can be told: 409,600,000 at most. */
void exits_print_counts(const struct exits_counts *c,
                        char text[EXITS_COUNTS_MAX + 1]);

/* Adds what exits_print_counts wrote, up to the first that is not so. */
void exits_add_counts(struct exits_counts *c, const char *text);

/* Adds a worker. Each is added once, in any order. */
void exits_add(struct exits *e, int local_rank, int how);

void exits_print(const struct exits *e, char text[EXITS_TEXT_MAX + 1]);

/* Reads runs as exits_print writes them, up to the first that is not so. */
void exits_parse(struct exits *e, const char *text);

/* The workers of `e` that ended by `how`, or with `not_so` all others. */
void exits_filter(const struct exits *e,
                  int how,
                  bool not_so,
                  struct exits *out);

/*
 * Inserts a node's runs into a list, sorted by rank; does nothing if there are
 * none. A name is cut at 64 bytes, and characters in it that would break the
 * list become '?'.
 */
void exits_merge(char list[EXITS_LIST_MAX + 1],
                 int64_t base_rank,
                 const char *name,
                 const struct exits *e);

/* A run of workers of one node, read from a list. */
struct exits_found {
    int64_t base_rank; /* of its node */
    char node[65];
    struct exits_run run;
};

/*
 * Reads the next run of a list and moves `*at` behind it. False at the end of
 * the list, or if it is no such list. `f` is all 0 for the first call, and
 * keeps the node from one call to the next.
 */
bool exits_next(const char **at, struct exits_found *f);

#endif
