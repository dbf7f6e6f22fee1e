/*
 * launcher/report/event_log: what happens on this node, for programs: a line of
 * JSON in the file of --events for each event (event_log.def). It also keeps
 * the sums for the report: how long the workers ran, how long nodes were waited
 * for, and how long restarts took.
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

struct event_log {
    const struct conf *conf;
    struct output *output;
    char node[65];
    int64_t start_us;
    int64_t round;
    int64_t base_rank;
    int64_t restarts;

    bool running;     /* the workers run, and none has failed yet */
    int64_t since_us; /* when `running` changed last */
    int64_t running_us, waiting_us, restarting_us;
    int rounds;                     /* that were started here */
    struct agent_takeover takeover; /* the last one; count: all */

    struct { /* the last wait that the user was told of */
        int64_t told_us;
        int64_t round;
        char text[512];
    } wait;

    int64_t reached;   /* the most steps that the run told, plus 1; 0: none */
    int64_t new_round; /* the last round with a new one */

    /* Of the last round: */
    int64_t *pids;     /* by local rank, 0: not started */
    bool *failed;      /* by local rank: its failure was told here */
    struct exits ends; /* workers that did not succeed, as the agent judged
                          them; event_log_finish sets it */
    int stopped;       /* workers that ended because we asked */
    char killed[80];   /* how many did not, and after which time; "": none */
};

/* Borrows all arguments for its life. Ends the process if memory runs out. */
void event_log_init(struct event_log *j,
                    const struct conf *conf,
                    struct output *output,
                    const char *node,
                    int64_t now_us);

/* A note of the agent's core, NOTE_worker_failed excepted. */
void event_log_note(struct event_log *j, const struct note *n, int64_t now_us);
/* The agent takes it that a worker of this node failed: `f` is what it tells
 * the server, `text` what its note says. */
void event_log_failed(struct event_log *j,
                      const struct msg_failed *f,
                      const char *text,
                      int64_t now_us);
/* The agent is connected, and asks for a place. */
void event_log_joined(struct event_log *j, int64_t now_us);
/* The agent starts the workers of a round. */
void event_log_world(struct event_log *j,
                     const struct msg_world *w,
                     int64_t now_us);
/* Nothing if it is known already. */
void event_log_taken_over(struct event_log *j,
                          const struct agent_takeover *t,
                          int64_t now_us);
void event_log_started(struct event_log *j, int local_rank, int64_t pid);
/* The first sign of progress in this round; step -1: not known. */
void event_log_first_progress(struct event_log *j,
                              int local_rank,
                              int64_t pid,
                              int64_t step);
/* What the next beat tells of the workers' steps: msg_beat.steps. */
void event_log_steps(struct event_log *j, int64_t steps, int64_t now_us);
/* The workers stand still, as `text` says; "": they go on. */
void event_log_stands(struct event_log *j, const char *text, int64_t now_us);
void event_log_exited(struct event_log *j, const struct agent_worker *w);

/* Adds to the open object how a worker ended: exit_code, or signal and
 * signal_name. */
void event_log_add_end(struct json *json, int code, int signal);

/* The launcher ends: closes the sums. `ends` are the workers of the last round
 * that did not succeed, as the agent told the server of them; `spent` is what
 * the server told of the whole run's time, "" if it told nothing. */
void event_log_finish(struct event_log *j,
                      const struct exits *ends,
                      int status,
                      const char *spent,
                      int64_t now_us);

#endif
