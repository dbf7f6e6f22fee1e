/*
 * launcher/worker/workers: the workers of this node: started for a round,
 * watched through their pidfds, signalled by session, counted.
 */
#ifndef LAUNCHER_WORKER_WORKERS_H
#define LAUNCHER_WORKER_WORKERS_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/agent/agent.h"
#include "launcher/conf/conf.h"
#include "launcher/output/output.h"
#include "launcher/worker/errfile.h"
#include "launcher/worker/hang.h"
#include "launcher/worker/mailbox.h"
#include "launcher/worker/spawn.h"

struct workers;

struct workers_handler {
    /* A worker has ended and is reaped; `w` is borrowed for the call. */
    void (*on_exit)(void *ctx, const struct agent_worker *w);
    /* One was started. */
    void (*on_start)(void *ctx, int local_rank, int64_t pid);
};

/* Everything is borrowed for the workers' life, which is the process's. */
struct workers *workers_new(uv_loop_t *loop,
                            const struct conf *conf,
                            const struct spawn_origin *origin,
                            struct output *output,
                            const struct workers_handler *handler,
                            void *ctx);

/*
 * Starts the workers of a round; none of the one before may live. On an error
 * (DDP_E_NOMEM) the first *started ones run nevertheless, and are the caller's
 * to kill; else *started is conf->nproc.
 */
int workers_start(struct workers *workers,
                  const struct msg_world *world,
                  int *started,
                  struct ddp_err *err);

/* Whether a signal asks workers to end, or makes them. */
bool workers_exits(int signo);

/* Sends a signal to every worker that lives, and to its whole session's
 * process group; one that is stopped and asked to go is continued, so that it
 * can obey. */
void workers_kill(struct workers *workers, int signo);

/* Asks those that look for it to leave, and sends SIGTERM to the others.
 * Returns how many look. */
int workers_ask(struct workers *workers, enum msg_graceful graceful);

/* Stops all workers (Ctrl-Z) and those that are started before they are
 * continued. */
void workers_pause(struct workers *workers, bool paused);

/*
 * Reaps orphans that came to us as a subreaper. Children that are somebody
 * else's to wait for (workers, and `others[0..n)`) are left alone; returns the
 * first of `others` that has ended, or 0.
 */
pid_t workers_reap_orphans(struct workers *workers, const pid_t *others, int n);

/* The folder of this run's log files, "" where there is none that stays. */
const char *workers_folder(const struct workers *workers);

/* The one that goes at the end, "" where there is none (yet). */
const char *workers_temporary(const struct workers *workers);

/* The worker's process; 0 where it does not live. */
pid_t workers_pid(const struct workers *workers, int local_rank);

/* Pids of the workers that were started last, at most `max`; how many. */
int workers_last_pids(const struct workers *workers, pid_t *pids, int max);

/* What can be seen of a worker's progress, its CPU time only where `cpu`;
 * false where it does not live. */
bool workers_look(const struct workers *workers,
                  int local_rank,
                  bool cpu,
                  struct hang_sample *out);

#define WORKERS_PATH_MAX ERRFILE_PATH_MAX

/* A path beside the worker's error file, "" where it has none. */
void workers_path(const struct workers *workers,
                  int local_rank,
                  const char *name,
                  char path[WORKERS_PATH_MAX]);

/* Passes on what the worker of that process left in its error file, if it was
 * one of the last that were started here. See errfile_pass_on. */
void workers_pass_on(const struct workers *workers,
                     int local_rank,
                     pid_t pid,
                     int code);

/* Removes the empty folders of error files. */
void workers_clean(struct workers *workers);

/* Where that worker's progress file is, "" where it has none. */
void workers_progress_path(const struct workers *workers,
                           int local_rank,
                           char path[MAILBOX_PATH_MAX]);

#endif
