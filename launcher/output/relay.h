/*
 * launcher/output/relay: the process for the workers' output. It stands beside
 * the agent, so that a full disk, a slow disk or a terminal that nobody reads
 * delays no heartbeat and kills no worker:
 *
 *     worker --pipe--> relay --> LOG_DIR/.../stdout.log
 *                        |-----> filtered_stdout.log
 *                        `-----> the launcher's stdout
 *
 * Both streams of each worker come here, but for a stdout that is inherited
 * (--stdout=inherit) or that nobody is to see.
 *
 * The console gets whole lines. A line is held until its end comes. A line
 * longer than RELAY_HOLD has the console to itself, until it ends, pauses for
 * RELAY_LONG_MS or is longer than RELAY_TURN; the other streams wait in their
 * pipes or files. The unfinished line of a stream that is passed on as it is (a
 * progress bar, a question) is shown after RELAY_QUIET_MS; the stream that is
 * shown next begins a new line.
 *
 * If the console takes less than comes, a stream with a log file is shown later
 * from that file. A stream without one waits in its pipe, and its worker with
 * it. A console that nobody reads any more holds nobody up: its output is
 * dropped, until a FIFO has a reader again.
 *
 * After Ctrl-C each interpreter writes the same traceback. From then on the
 * console gets the stderr of local rank 0 only; that of the others goes into
 * their files and last lines as ever, and is summed up in a line at the end.
 */
#ifndef LAUNCHER_OUTPUT_RELAY_H
#define LAUNCHER_OUTPUT_RELAY_H

#include <stdint.h>

#include "launcher/conf/conf.h"

#define RELAY_HOLD     (64 * 1024)
#define RELAY_TURN     (64 * 1024 * 1024)
#define RELAY_QUIET_MS 100
#define RELAY_LONG_MS  2000  /* longest pause within a long line */
#define RELAY_STUCK_MS 10000 /* the end waits so long for a stuck console */
#define RELAY_HURRY_MS 500   /* ... and after a signal, in all, for any */
#define RELAY_DIR_MAX  4096

/* What the agent says over the socketpair, one datagram each. */
enum relay_kind {
    RELAY_OPEN,  /* a worker starts: its pipes come along, stdout's first */
    RELAY_TAIL,  /* asks for the last lines of its stderr, as one datagram */
    RELAY_EVENT, /* `text` is a line for the events' file */
    RELAY_INTERRUPTED, /* Ctrl-C: the workers get SIGINT now */
    RELAY_FINISH,      /* all workers are dead: end when all is written */
};

struct relay_msg {
    uint32_t kind;
    int32_t local_rank;
    int64_t rank;
    int64_t round;
    uint8_t piped; /* RELAY_OPEN: bits of enum conf_stream that come along */
    uint8_t line;  /* RELAY_FINISH: the agent still has something to say */
    uint8_t hurry; /* RELAY_FINISH: a signal ends the launch */
    char text[RELAY_DIR_MAX]; /* RELAY_OPEN: folder of its files, "" none */
};

/* Bytes of a message of which `len` bytes of text are used. */
#define RELAY_MSG_SIZE(len) (offsetof(struct relay_msg, text) + (len))

/* The main function of the process. `events_fd` leads to the events' file; -1:
 * it is opened by its name. The bytes that each worker wrote are counted in
 * seen[local rank], which the agent reads; NULL: not counted. Ends after
 * RELAY_FINISH, when the agent is gone, or with the exit status of DDP_E_NOMEM
 * if it has no descriptors for a worker's pipes. */
void relay_main(int fd,
                int events_fd,
                const struct conf *conf,
                _Atomic int64_t *seen);

#endif
