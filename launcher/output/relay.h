/*
 * launcher/output/relay: the process that the workers' output passes through.
 * It stands beside the agent, so that a full disk, a slow disk or a terminal
 * that nobody reads can delay no beat and kill no worker:
 *
 *     worker --pipe--> relay --> LOG_DIR/.../stdout.log
 *                        |-----> filtered_stdout.log
 *                        `-----> the launcher's stdout
 *
 * On the console there are whole lines only. A line is held until its end is
 * there; one longer than RELAY_HOLD has the console to itself from then on, for
 * as long as it goes on coming, with pauses of RELAY_LONG_MS (others wait in
 * their pipes or files, at most RELAY_TURN bytes long). The unfinished line of
 * a stream that is passed on as it is (a progress bar on stderr) is shown after
 * RELAY_QUIET_MS, and whoever writes next begins a new line.
 *
 * Where the console takes less than comes, a stream with a log file is shown
 * later from that file; one without waits in its pipe, and its worker with it.
 * A console that is closed takes everything and nobody waits for it.
 */
#ifndef LAUNCHER_OUTPUT_RELAY_H
#define LAUNCHER_OUTPUT_RELAY_H

#include <stdint.h>

#include "launcher/conf/conf.h"

#define RELAY_HOLD     (64 * 1024)
#define RELAY_TURN     (64 * 1024 * 1024)
#define RELAY_QUIET_MS 100
#define RELAY_LONG_MS  2000  /* so long one in a long line may pause */
#define RELAY_STUCK_MS 10000 /* so long the end waits for a console */
#define RELAY_DIR_MAX  4096

/* What the agent says over the socketpair, one datagram each. */
enum relay_kind {
    RELAY_OPEN,   /* a worker starts: its pipes come along, stdout's first */
    RELAY_TAIL,   /* wants the last lines of its stderr, as one datagram */
    RELAY_EVENT,  /* `text` is a line for the events' file */
    RELAY_FINISH, /* all workers are dead: end when all is written */
};

struct relay_msg {
    uint32_t kind;
    int32_t local_rank;
    int64_t rank;
    int64_t round;
    uint8_t piped; /* RELAY_OPEN: bits of enum conf_stream that come along */
    uint8_t line;  /* RELAY_FINISH: the agent still has something to say */
    char text[RELAY_DIR_MAX]; /* RELAY_OPEN: folder of its files, "" none */
};

/* Bytes of a message of which `len` bytes of text are used. */
#define RELAY_MSG_SIZE(len) (offsetof(struct relay_msg, text) + (len))

/* The process. `events_fd` leads to the events' file, -1: it is opened by its
 * name. It counts in seen[local rank], which others may read, the bytes
 * that a worker wrote; NULL: nobody wants to know. Ends after RELAY_FINISH, or
 * when the agent is gone. */
void relay_main(int fd,
                int events_fd,
                const struct conf *conf,
                _Atomic int64_t *seen);

#endif
