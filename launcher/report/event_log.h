/*
 * launcher/report/event_log: what happens on this node, for programs: --events,
 * a line of JSON for each event (event_log.def), written by
 * launcher/output/relay. And the sums of it: how long the workers ran, how long
 * they were being started again.
 */
#ifndef LAUNCHER_REPORT_EVENT_LOG_H
#define LAUNCHER_REPORT_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/agent/agent.h"
#include "launcher/conf/conf.h"
#include "launcher/output/output.h"
#include "rendezvous/base/json.h"
#include "rendezvous/proto/exits.h"

enum event_log_kind {
#define EVENT_LOG(name, meaning) EVENT_LOG_##name,
#include "launcher/report/event_log.def"
#undef EVENT_LOG
    EVENT_LOG_COUNT
};

/* A worker that ended. */
struct event_log_end {
    int local_rank;
    int64_t pid;
    int code;
    int signal; /* 0: it exited */
};

struct event_log {
    const struct conf *conf;
    struct output *output;
    char node[65];
    int64_t start_us;
    int64_t round;
    int64_t base_rank;
    int64_t restarts;

    bool running;     /* workers, as far as is known: nobody failed */
    int64_t since_us; /* it is, or is not, since then */
    int64_t running_us, waiting_us, restarting_us;
    int rounds; /* that were started here */

    /* Of the last round: */
    int64_t *pids;             /* by local rank, 0: not started */
    struct exits ends;         /* who did not succeed */
    struct event_log_end last; /* the last one of these, pid 0: none */
    int stopped;               /* those that were told to stop, and did */
};

/* Borrows all for its life. Ends the process where there is no memory. */
void event_log_init(struct event_log *j,
                    const struct conf *conf,
                    struct output *output,
                    const char *node,
                    int64_t now_us);

/* What the agent's core says. */
void event_log_note(struct event_log *j, const struct note *n, int64_t now_us);
/* It is connected, and asks for its place. */
void event_log_joined(struct event_log *j, int64_t now_us);
/* It starts the workers of a round. */
void event_log_world(struct event_log *j,
                     const struct msg_world *w,
                     int64_t now_us);
void event_log_started(struct event_log *j, int local_rank, int64_t pid);
/* The first sign of progress in this round; step -1: not known. */
void event_log_first_progress(struct event_log *j,
                              int local_rank,
                              int64_t pid,
                              int64_t step);
void event_log_exited(struct event_log *j, const struct agent_worker *w);

/* Adds how a worker ended to the object that is open: exit_code, or signal and
 * signal_name. */
void event_log_add_end(struct json *json, int code, int signal);

/* The end: closes the sums. */
void event_log_finish(struct event_log *j, int status, int64_t now_us);

#endif
