/*
 * launcher/output/output: the agent's side of launcher/output/relay. It makes
 * the workers' pipes, hands them to the relay, and asks for a worker's last
 * lines. It never waits for a disk or a terminal.
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

/* Starts the relay early, if any worker will need one: while the agent waits
 * for its world this costs nothing. Errors come with output_open. */
void output_prepare(struct output *o);

/* The ends that a worker writes to; -1: it inherits that stream. */
struct output_fds {
    int out;
    int err;
};

/*
 * Makes the pipes of one worker of a round and hands them to the relay, which
 * is started if there is none. `folder` is that of its log files, "" for none.
 * The caller closes `ends` after the fork. Errors: DDP_E_NOMEM if a stream that
 * is to go to a file gets no pipe, or the relay does not take it. A stream that
 * would only pass through is inherited instead.
 */
int output_open(struct output *o,
                const struct msg_world *world,
                int local_rank,
                const char *folder,
                struct output_fds *ends,
                struct ddp_err *err);
void output_close(struct output_fds *ends);

/* A worker is dead: another relay would not need its pipes any more. */
void output_worker_ended(struct output *o, int local_rank);

/* The last lines of a worker's stderr, up to its death. "" if the relay does
 * not answer within 100 ms, and from then on until it has answered. */
void output_tail(struct output *o,
                 int local_rank,
                 char text[LINES_TAIL_BYTES + 1]);

/* How many bytes have come from the workers at this local rank, all rounds
 * together; 0 with --hang_timeout=0. */
int64_t output_bytes(const struct output *o, int local_rank);

/* Hands a line of JSON to the events' file. It is lost if the relay hangs. */
void output_event(struct output *o, const char *line);

/* Ctrl-C, before the workers get their signal: of what they write on stderr
 * from now on the console gets one worker's. */
void output_interrupted(struct output *o);

/* The relay's process, 0: none. If it has died unexpectedly, with a status as
 * wait(2) has it, output_restart starts another one, which takes over the
 * pipes. */
pid_t output_pid(const struct output *o);
void output_restart(struct output *o, int status);

/* The window of our stdout or stderr may have another size: workers that have a
 * terminal in its place get that size, too. */
void output_resize(const struct output *o);

/* How long the end may wait for readers. */
struct output_hurry {
    bool now; /* a signal ended the launch: consoles are waited for
                 RELAY_HURRY_MS in all, a disk that hangs for seconds */
    int fd;   /* if something is there, it may ask not to wait at all; or -1 */
    bool (*asks)(int fd); /* whether it does; takes away what does not */
};

/* The end: waits until everything is written, for as long as the console takes
 * it. `line`: the agent will write to stderr afterwards, and wants to begin a
 * line. */
void output_finish(struct output *o, bool line, const struct output_hurry *h);

#endif
