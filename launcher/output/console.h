/*
 * launcher/output/console: the launcher's own stdout or stderr. Writing never
 * waits: what the console does not take waits in a buffer of a fixed size.
 * Callers write whole lines, or keep in `mid` which stream is in the middle of
 * one.
 */
#ifndef LAUNCHER_OUTPUT_CONSOLE_H
#define LAUNCHER_OUTPUT_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"

/* How it is written to. */
enum console_kind {
    CONSOLE_FILE,   /* takes what it gets */
    CONSOLE_OWN,    /* opened anew: says EAGAIN */
    CONSOLE_SOCKET, /* by send(2), which need not wait */
    CONSOLE_POLLED, /* a write may wait: poll(2) is asked before each */
    CONSOLE_DEAD,   /* nobody reads: what is written is dropped, until
                       console_revive sees a reader again */
};

struct console {
    enum console_kind kind;
    int fd;        /* to write to: CONSOLE_OWN's own, else 1 or 2 */
    bool pollable; /* epoll(7) tells when it has room */
    bool shared;   /* others write into it too */
    bool colour;
    bool timed;             /* console_say writes the time, too */
    bool cut;               /* the last byte that it took was no line's end */
    enum console_kind was;  /* DEAD: what it is if somebody reads again */
    int64_t rests_until_us; /* POLLED: it took less than it said; DEAD: not
                               looked at before */
    struct buf out;
    bool copied;    /* the caller's, while `out` is not empty: a log file has
                       some of it ... */
    bool sole;      /* ... and of some nobody has a copy */
    uint64_t gone;  /* bytes that it took or that were dropped: it moves */
    uint64_t lost;  /* ... of which a file did not take these, ... */
    int sys_errno;  /* ... and why; not those that nobody reads */
    uint64_t owner; /* the stream that is in a long line; 0: none */
    uint64_t mid;   /* the stream in whose unfinished line the cursor is */
};

/* `fd` is 1 or 2. `shared`: other processes write to it as well. */
void console_open(struct console *c, int fd, bool shared);

/* Whether both lead to the same file, pipe or terminal. */
bool console_same(int fd1, int fd2);

/* How many bytes may be put before it counts as full. */
size_t console_room(const struct console *c);

/* Room for `len` bytes, to be filled and then taken over by console_commit;
 * NULL: out of memory, or far too much. */
char *console_reserve(struct console *c, size_t len);
void console_commit(struct console *c, size_t len);
void console_put(struct console *c, const char *data, size_t len);

/* Puts a line of ddprun's own. False: not now, since a worker is in a long
 * line.
 */
__attribute__((format(printf, 2, 3))) bool
console_say(struct console *c, const char *fmt, ...);

/* Writes as much as the console takes now. */
void console_flush(struct console *c);

/* A FIFO that nobody read may have a reader again (a log collector that was
 * restarted); then it is no longer DEAD. Looks at most ten times a second. */
void console_revive(struct console *c);

/* Whether it is not written to for a moment, even if poll(2) says that it has
 * room. */
bool console_rests(const struct console *c);

/* Bytes that wait. */
size_t console_waiting(const struct console *c);

#endif
