/*
 * launcher/worker/workers: the workers of this node. They are started for a
 * round, watched through their pidfds (or, on a kernel without, by SIGCHLD) and
 * signalled by session.
 */
#ifndef LAUNCHER_WORKER_WORKERS_H
#define LAUNCHER_WORKER_WORKERS_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/agent/agent.h"
#include "launcher/conf/conf.h"
#include "launcher/mpi/mpi.h"
#include "launcher/output/output.h"
#include "launcher/worker/errfile.h"
#include "launcher/worker/hang.h"
#include "launcher/worker/mailbox.h"
#include "launcher/worker/spawn.h"

struct workers;

struct workers_handler {
    /* A worker has ended and is reaped; `w` is borrowed for the call. */
    void (*on_exit)(void *ctx, const struct agent_worker *w);
    /* After on_exit of a worker with a pidfd: wait(2) may show orphans now that
     * the dead worker hid. To be answered by workers_reap_orphans. */
    void (*on_uncovered)(void *ctx);
    /* A worker was started. */
    void (*on_start)(void *ctx, int local_rank, int64_t pid);
    /* A worker has failed, and is not reaped: its MPI library says so
     * (launcher/mpi), and it may live; or it begins to end (death_watch). `w`
     * is borrowed for the call. */
    void (*on_failed)(void *ctx, const struct agent_worker *w);
};

/* Gives a worker to a process that waits for one, as spawn_worker would start
 * it; false: it is to be started, with another argv perhaps, the taker's. */
typedef bool (*workers_taker)(void *ctx,
                              struct spawn_request *req,
                              pid_t *pid,
                              int *pidfd);

/* Borrows everything for the life of the process. Ends the process if memory or
 * descriptors run out, or if the folder of log files cannot be made. */
struct workers *workers_new(uv_loop_t *loop,
                            const struct conf *conf,
                            const struct spawn_origin *origin,
                            struct output *output,
                            const struct workers_handler *handler,
                            void *ctx);

/* Does what workers_start would have to do before the first workers, and what
 * needs no world: while one is waited for. */
void workers_prepare(struct workers *workers);

/*
 * Starts the workers of a round. No worker of the round before may live. On an
 * error (DDP_E_NOMEM) the first *started workers run nevertheless, and the
 * caller has to kill them; else *started is conf->nproc.
 */
int workers_start(struct workers *workers,
                  const struct msg_world *world,
                  int *started,
                  struct ddp_err *err);

/* From now on `taker` is asked first for each worker. */
void workers_set_taker(struct workers *workers, workers_taker taker, void *ctx);

/* Whether a signal asks workers to end, or ends them. */
bool workers_exits(int signo);

/* Sends a signal to the process group of every worker that lives. If the
 * signal asks for an end, stopped workers are continued, so that they can obey.
 * The scheduler has sent the signal to all processes of the step at `sent_us`
 * (mono; INT64_MIN: it has not): workers that were there have it, and only
 * those that were started later are sent it. */
void workers_kill(struct workers *workers, int signo, int64_t sent_us);

/* Tells each worker that lives why a signal comes, before it (mailbox_tell). */
void workers_tell(const struct workers *workers, enum stop_page_why why);

/* Asks each worker to leave: by its mailbox if it looks there, else by SIGTERM,
 * which those that were started before `sent_us` have (workers_kill;
 * INT64_MIN: none has). Returns how many look. */
int workers_ask(struct workers *workers,
                enum msg_graceful graceful,
                int64_t sent_us);

/* Stops all workers (Ctrl-Z), also those that are started until they are
 * continued; or continues them. */
void workers_pause(struct workers *workers, bool paused);

/*
 * A child has perhaps ended (SIGCHLD). If the child is a worker without a
 * pidfd, and has ended, it is reaped and on_exit is called. The caller tells of
 * children in the order of their ends, and then calls workers_reap_orphans,
 * which finds the workers of whose end nobody was told.
 */
void workers_ended(struct workers *workers, pid_t pid);

/* A process that serves their MPI libraries, 0: none; and that it has ended. */
pid_t workers_mpi_helper(const struct workers *workers, enum mpi_helper which);
void workers_mpi_helper_ended(struct workers *workers, enum mpi_helper which);

/*
 * Reaps orphans that came to us as a subreaper. Workers and the children in
 * `others[0..n)` are not reaped here; returns the first of `others` that has
 * ended. A worker without a pidfd that has ended is reaped, on_exit is called,
 * and its pid is returned: `others` may be others then. 0: no more.
 */
pid_t workers_reap_orphans(struct workers *workers, const pid_t *others, int n);

/* The folder of this run's log files; "" if there is none that stays. */
const char *workers_folder(const struct workers *workers);

/* The temporary folder, which is removed at the end; "" if there is none (yet).
 */
const char *workers_temporary(const struct workers *workers);

/* The folder of what MPI's ranks share, which is removed at the end with all
 * that is in it; "" if there is none. */
const char *workers_mpi_folder(const struct workers *workers);

/* The worker's process; 0 if it does not live. */
pid_t workers_pid(const struct workers *workers, int local_rank);

/* Fills in the pids of the workers that were started last, at most `max`.
 * Returns how many. */
int workers_last_pids(const struct workers *workers, pid_t *pids, int max);

/* Takes a sample of a worker's progress. False: the worker does not live. */
bool workers_look(const struct workers *workers,
                  int local_rank,
                  struct hang_sample *out);

/* How many launches before this one, in a row, left no newer step on the disk
 * than they had found, if this one did not, either; by what the workers that
 * have ended told. -1: they told nothing. */
int64_t workers_barren(const struct workers *workers);

/* Fills in what the progress files of living workers tell: steps, the newest
 * one on two nodes, the slowest worker. Nothing if no worker has written any.
 * Reads memory, no disk. Looks as well who may be watched by now (death_watch).
 */
void workers_tell_steps(struct workers *workers, struct msg_beat *beat);

#define WORKERS_PATH_MAX ERRFILE_PATH_MAX

/* The path of `name` beside the worker's error file; "" if it has none. */
void workers_path(const struct workers *workers,
                  int local_rank,
                  const char *name,
                  char path[WORKERS_PATH_MAX]);

/* Passes on what the worker left in its error file, if `pid` is that of the
 * last worker that was started at this local rank. See errfile_pass_on. */
void workers_pass_on(const struct workers *workers,
                     int local_rank,
                     pid_t pid,
                     int code);

/* Removes the empty folders of error files. */
void workers_clean(struct workers *workers);

/* The path of the worker's progress file; "" if it has none. */
void workers_progress_path(const struct workers *workers,
                           int local_rank,
                           char path[MAILBOX_PATH_MAX]);

#endif
