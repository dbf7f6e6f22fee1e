/*
 * launcher/front/streams: the output of what a front end started, on its own
 * stdout and stderr: whole lines, each once. What a proxy says to the front end
 * (launcher/front/marks) is taken out of it.
 *
 * Nothing waits: if the console takes less than comes, streams are not read,
 * and the launchers on the hosts see to it (launcher/output/relay).
 */
#ifndef LAUNCHER_FRONT_STREAMS_H
#define LAUNCHER_FRONT_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/front/marks.h"
#include "launcher/output/console.h"
#include "rendezvous/base/buf.h"

#define STREAMS_HOLD     (64u * 1024u) /* bytes of a line that has no end yet */
#define STREAMS_QUIET_US 100000        /* then it is shown without one */

/* Launchers on all hosts report a failure in the same words: the first report
 * is shown. To be zeroed. */
struct front_reports {
    char heading[200]; /* its first line; "": none came yet */
    uint64_t from;     /* the stream */
    int repeated;      /* how many others were not shown */
};

/* One pipe from a child. */
struct front_stream {
    int fd;             /* -1: closed */
    uint64_t id;        /* above 0, as console's `mid` */
    struct console *to; /* borrowed */
    const char *mark;   /* of the proxies; NULL: none speak here. Borrowed */
    const char *prefix; /* before each line; "": nothing. Borrowed */
    struct buf held;
    int64_t last_us;               /* when something came */
    int64_t full_us;               /* when it was last not read, since the
                                      console was full; 0: never */
    bool inside;                   /* a part of a line was shown */
    struct front_reports *reports; /* NULL: all is shown. Borrowed */
    bool repeats;                  /* in the middle of a repeated report */
    void (*on_mark)(void *ctx, const struct mark *m);
    void *ctx;
};

/* Takes over `fd`, which must not wait. */
void front_stream_open(struct front_stream *s,
                       int fd,
                       uint64_t id,
                       struct console *to,
                       int64_t now_us);
void front_stream_close(struct front_stream *s);

/* Whether it should be read now: it is open, and the console has room. */
bool front_stream_wants(const struct front_stream *s);

/* Reads what is there if it wants to be read, and shows what can be shown.
 * False: it ended, all of it was shown, and it is closed. */
bool front_stream_read(struct front_stream *s, int64_t now_us);

/* Since when nothing came though it was read. */
int64_t front_stream_quiet_us(const struct front_stream *s);

/* To be called in each turn, since it sees whether the console is full. Shows a
 * line without an end once it is old enough. */
void front_stream_look(struct front_stream *s, int64_t now_us);

#endif
