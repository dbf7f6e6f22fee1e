/*
 * launcher/output/output: the agent's side of launcher/output/relay: makes the
 * workers' pipes, hands them over, asks for last words. Nothing here waits for
 * a disk or a terminal.
 */
#ifndef LAUNCHER_OUTPUT_OUTPUT_H
#define LAUNCHER_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <sys/types.h>

#include "launcher/conf/conf.h"
#include "launcher/output/lines.h"
#include "rendezvous/proto/msg.h"

struct output;

/* Starts nothing yet. Borrows `conf` for the process's life. */
struct output *output_new(const struct conf *conf);

/* Starts the relay early, where a worker will need one: while the agent waits
 * for its world this costs nothing. Errors come with output_open. */
void output_prepare(struct output *o);

/* The other ends of a worker's streams; -1: it inherits that one. */
struct output_fds {
    int out;
    int err;
};

/*
 * Makes the pipes of one worker of a round and hands them to the relay, which
 * is started where there is none. `folder` is that of its files, "" where there
 * are none. The caller closes the ends after the fork. Errors: DDP_E_NOMEM
 * where a stream is to go to a file and cannot; one that would only pass
 * through is inherited then.
 */
int output_open(struct output *o,
                const struct msg_world *world,
                int local_rank,
                const char *folder,
                struct output_fds *ends,
                struct ddp_err *err);
void output_close(struct output_fds *ends);

/* A worker is dead: its pipes are no more needed, should the relay die. */
void output_worker_ended(struct output *o, int local_rank);

/* The last lines of a worker's stderr, with what it wrote before it died. ""
 * where the relay does not answer in time (100 ms), and then until it does. */
void output_tail(struct output *o,
                 int local_rank,
                 char text[LINES_TAIL_BYTES + 1]);

/* How much has come from a worker and those before it at its local rank; 0
 * where --hang_timeout is off. */
int64_t output_bytes(const struct output *o, int local_rank);

/* Hands a line of JSON to the events' file. Lost where the relay is stuck. */
void output_event(struct output *o, const char *line);

/* The relay, 0: none. When it has died unexpectedly: output_restart starts
 * another one, which takes over the pipes. */
pid_t output_pid(const struct output *o);
void output_restart(struct output *o);

/* The end: waits until everything is written, as long as the console takes it,
 * or until `hurry_fd` can be read. `line`: the agent has more to say. */
void output_finish(struct output *o, bool line, int hurry_fd);

#endif
