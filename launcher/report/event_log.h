/*
 * launcher/report/event_log: what happens on this node, for programs: --events,
 * a line of JSON for each event (journal.def), written by
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

enum journal_kind {
#define JOURNAL(name, meaning) JOURNAL_##name,
#include "launcher/report/event_log.def"
#undef JOURNAL
    JOURNAL_COUNT
};

/* A worker that ended. */
struct journal_end {
    int local_rank;
    int64_t pid;
    int code;
    int signal; /* 0: it exited */
};

struct journal {
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
    int64_t *pids;           /* by local rank, 0: not started */
    struct ends ends;        /* who did not succeed */
    struct journal_end last; /* the last one of these, pid 0: none */
    int stopped;             /* those that were told to stop, and did */
};

/* Borrows all for its life. Ends the process where there is no memory. */
void journal_init(struct journal *j,
                  const struct conf *conf,
                  struct output *output,
                  const char *node,
                  int64_t now_us);

/* What the agent's core says. */
void journal_note(struct journal *j, const struct note *n, int64_t now_us);
/* It is connected, and asks for its place. */
void journal_joined(struct journal *j, int64_t now_us);
/* It starts the workers of a round. */
void journal_world(struct journal *j,
                   const struct msg_world *w,
                   int64_t now_us);
void journal_started(struct journal *j, int local_rank, int64_t pid);
/* The first sign of progress in this round; step -1: not known. */
void journal_first_beat(struct journal *j,
                        int local_rank,
                        int64_t pid,
                        int64_t step);
void journal_exited(struct journal *j, const struct agent_worker *w);

/* Adds how a worker ended to the object that is open: exit_code, or signal and
 * signal_name. */
void journal_add_end(struct json *json, int code, int signal);

/* The end: closes the sums. */
void journal_finish(struct journal *j, int status, int64_t now_us);

#endif
