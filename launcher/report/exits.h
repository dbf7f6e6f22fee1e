/*
 * launcher/report/exits: the workers that ended after the first failure or the
 * loss of a node, and mostly because of it: those of all nodes, as the server
 * listed them at the end, or else those of this node.
 */
#ifndef LAUNCHER_REPORT_EXITS_H
#define LAUNCHER_REPORT_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/agent/agent.h"
#include "launcher/report/event_log.h"

/* Workers of one node with consecutive ranks that ended in the same way. */
struct report_end {
    const char *node;
    int64_t rank; /* of the first one */
    int local_rank;
    int count;
    const int64_t *pids; /* of each, if they ran here; else NULL */
    int code;
    int signal;     /* 0: they exited */
    bool unstopped; /* SIGKILL of their launcher, when their grace was over */
};

/* Calls `each` for all that are known: first those that were not asked to stop,
 * ascending by rank, then those that were. `e` lives for the call. */
void report_exits_each(const struct agent_verdict *v,
                       const struct event_log *j,
                       void (*each)(void *ctx, const struct report_end *e),
                       void *ctx);

/* Prints a line for each of the first 16, and one that says how many others
 * there were. */
void report_exits(const struct agent_verdict *v, const struct event_log *j);

/* How a worker ended: "signal 9 (SIGKILL)" or "exit code 3". */
void report_exits_how(int64_t code, int64_t signal, char *text, size_t size);

#endif
