/*
 * launcher/output/relay_priv: what the two files of launcher/output/relay
 * share. relay.c is the process: its loop, the agent's messages, the consoles.
 * relay_intake.c reads what workers write, and puts it into files, into the
 * last lines that are kept, through filters, and on to the consoles. It calls
 * nothing of relay.c.
 */
#ifndef LAUNCHER_OUTPUT_RELAY_PRIV_H
#define LAUNCHER_OUTPUT_RELAY_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/output/console.h"
#include "launcher/output/lines.h"
#include "launcher/output/logfile.h"
#include "launcher/output/relay.h"
#include "launcher/output/stream.h"
#include "rendezvous/base/utc.h"

/* With times before the lines less is read at once: each byte may be a line,
 * and what the console does not take has to fit into `left` of the stream. */
#define RELAY_TIMED     (3 * 1024)
#define RELAY_TIMED_MAX (RELAY_TIMED + (RELAY_TIMED + 1) * UTC_MAX)
_Static_assert(RELAY_TIMED_MAX <= STREAM_LEFT / 2,
               "read_rest reads up to half");

enum relay_phase {
    RELAY_RUNNING,
    RELAY_FINISHING,      /* all workers are dead, or the agent is gone */
    RELAY_FINISHING_LINE, /* ... and the agent has something to say after it */
};

struct relay {
    const struct conf *conf;
    _Atomic int64_t *seen; /* by local rank, shared with the agent; or NULL */
    int ctl;
    int events_fd; /* -1: by name */
    int epoll;
    struct console consoles[2];
    bool one_console; /* stdout and stderr lead to the same */
    char host[256];   /* its name, for prefixes */
    struct stream *streams;
    struct lines_tail **tails; /* by local rank, of stderr; NULL: none yet */
    struct logfile filtered[2];
    char attempt[RELAY_DIR_MAX + 1]; /* folder of `filtered` */
    struct logfile events;
    uint64_t ids;
    enum relay_phase phase;
    bool
        hurry; /* FINISHING: a signal ends the launch, or another relay waits */
    int status; /* to end with */
    int64_t quiet_at_us;
    int64_t hidden;   /* bytes that were never shown, though files have them */
    int64_t partly;   /* ... of which files have some */
    int64_t lost;     /* ... and that nothing has */
    bool interrupted; /* Ctrl-C: stderr is shown of local rank 0 only */
    int64_t *hushed;  /* by local rank: lines that are not shown for that */
    bool told_full;   /* that stdout is a file which takes no more */
    char chunk[STREAM_CHUNK];
    char now[UTC_MAX + 1]; /* the time and a blank, when this was read: */
    char timed[RELAY_TIMED_MAX];
};

/* -- relay_intake.c: the streams ------------------------------------------- */

/* A worker of a round starts. Takes over `fds`, the streams that came along, -1
 * for none. All that the worker before it at this local rank wrote is read
 * first. */
void relay_open_worker(struct relay *r, const struct relay_msg *w, int fds[2]);
/* Reads from a stream that has something, at most STREAM_READS times, so that
 * the others have their turn. */
void relay_read(struct relay *r, struct stream *s);
/* The workers are dead: reads all that is there, and does not wait for the end
 * of a pipe that another process still holds. */
void relay_drain(struct relay *r);
/* Frees the streams of which all was read and shown. */
void relay_drop_ended(struct relay *r);
/* At the end: adds to r->hidden, r->partly or r->lost what of this stream was
 * not shown and will never be. */
void relay_count_unseen(struct relay *r, const struct stream *s);

/* -- relay_intake.c: files ------------------------------------------------- */

/* Appends to a file, and says once if bytes are lost. Does nothing if the file
 * has no name. False: the file has not got it. */
bool relay_log(struct relay *r,
               struct logfile *f,
               const char *data,
               size_t len);
/* The last lines of a worker's stderr, what it has written just now included;
 * returns their length. */
size_t relay_tail(struct relay *r, int local_rank, char text[LINES_TAIL_BYTES]);

#endif
