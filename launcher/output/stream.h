/*
 * launcher/output/stream: one stream of one worker in the relay, and how it is
 * shown on a console that other streams use as well, by the rules in relay.h:
 * whole lines, long lines in one piece, unfinished lines after a while, and
 * later what the console did not take at once.
 */
#ifndef LAUNCHER_OUTPUT_STREAM_H
#define LAUNCHER_OUTPUT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/conf/conf.h"
#include "launcher/output/console.h"
#include "launcher/output/logfile.h"
#include "rendezvous/base/buf.h"

#define STREAM_CHUNK (32 * 1024)  /* bytes of one read; see console_commit */
#define STREAM_LEFT  (256 * 1024) /* most bytes in `left` */
#define STREAM_READS 8            /* reads before the others have a turn */

/* What is done with what comes. */
enum stream_input {
    STREAM_PAUSED,  /* not read: the console has no room */
    STREAM_READ,    /* into memory, and from there on */
    STREAM_SPLICED, /* into the log file, without looking at it */
    STREAM_ENDED,   /* its end was read; fd is -1 */
};

/* Where the console stands. */
enum shown {
    SHOWN_LIVE,        /* it has all that came */
    SHOWN_FROM_FILE,   /* it is behind: the rest is in the log file ... */
    SHOWN_FROM_MEMORY, /* ... or, without one, in `left`, and more is not read
                        */
};

#define STREAM_MAGIC 0x73747265u

struct stream {
    unsigned magic;
    struct stream *next;
    uint64_t id; /* counts up from 1 */
    int fd;
    enum stream_input input;
    int local_rank;
    enum conf_stream which;
    struct conf_plan plan;
    struct console *console; /* NULL: not shown */
    struct logfile file;
    struct logfile *filtered; /* NULL: no filters */
    int epoll;                /* where it is watched for */
    char colour[320], prefix[300];
    size_t colour_len, prefix_len;

    struct buf part; /* of a line, not shown yet */
    int64_t part_at_us;
    int64_t turn; /* bytes of the long line that it is in */
    enum shown shown;
    bool timed;  /* each line of it begins with the time */
    bool inside; /* the last byte that came was no line's end */
    bool skip;   /* its console was dead within a line: the rest of that line is
                    not shown */
    struct {
        int64_t at;        /* where to read on */
        int64_t unseen;    /* how much of it is left */
        int64_t rotations; /* of the file when it fell behind */
    } behind;              /* SHOWN_FROM_FILE */
    struct buf left;       /* SHOWN_FROM_MEMORY; else empty */
    int64_t hidden;        /* bytes that were never shown; the file has them */
    int64_t lost;          /* ... and it has not, or there is none */
    bool gap;              /* the file has not got all of this stream */
    struct buf match;      /* of a line, not yet filtered */
};

/* From epoll's data. */
struct stream *stream_of(void *data);

/* Starts reading again, which stopped while the stream waited for its console.
 * Nothing happens if it goes on already, or if the stream has ended. */
void stream_resume(struct stream *s);

/* Closes the pipe: its end was read, or is not waited for any longer. */
void stream_end(struct stream *s);

/*
 * Shows data[0..len), which was just read (`inside` is set) and, if the stream
 * has a log file, just written there. What the console does not take now is
 * shown later: from the file, or from `left`, and then the stream is paused.
 * The stream must have a console.
 */
void stream_show(struct stream *s, const char *data, size_t len, int64_t now);

bool stream_is_behind(const struct stream *s);

/* It is behind, and stream_catch_up can do something about it now. */
bool stream_may_catch_up(const struct stream *s);

/* Shows what is left of a stream that is behind, as far as there is room;
 * `chunk` is room for reading. False: the console is full, or another stream
 * owns it. */
bool stream_catch_up(struct stream *s, char *chunk, size_t size);

/* Shows a line that stayed unfinished; to be called each RELAY_QUIET_MS. */
void stream_show_quiet(struct stream *s, int64_t now);

/* Shows the last line, which may have no newline; the stream has ended. */
void stream_finish_line(struct stream *s);

#endif
