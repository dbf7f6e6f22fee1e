/*
 * launcher/output/console: one of the launcher's own output streams, written
 * without ever waiting for it: what it does not take waits in a buffer of a
 * fixed size. Whoever writes gives whole lines, or takes care by `mid` of who
 * is in the middle of one.
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
    CONSOLE_DEAD,   /* nobody reads: what is written is dropped */
};

struct console {
    enum console_kind kind;
    int fd;        /* to write to: CONSOLE_OWN's own, else 1 or 2 */
    bool pollable; /* epoll(7) tells when it has room */
    bool shared;   /* others write into it too */
    bool colour;
    int64_t rests_until_us; /* CONSOLE_POLLED: it took less than it said */
    struct buf out;
    uint64_t taken; /* bytes that it took, to see that it moves */
    uint64_t owner; /* the stream that is in a long line; 0: none */
    uint64_t mid;   /* the stream in whose unfinished line the cursor is */
};

/* Of descriptor 1 or 2. `shared`: others write to it as well. */
void console_open(struct console *c, int fd, bool shared);

/* Whether both lead to the same file, pipe or terminal. */
bool console_same(int fd1, int fd2);

/* How many bytes may be put now before it counts as full. */
size_t console_room(const struct console *c);

/* Room for `len` bytes, which console_commit takes over; NULL: out of memory
 * or far over the size. */
char *console_reserve(struct console *c, size_t len);
void console_commit(struct console *c, size_t len);
void console_put(struct console *c, const char *data, size_t len);

/* A line of ddprun's own among those of the workers; false: not now, since one
 * of them is in a long line. */
__attribute__((format(printf, 2, 3))) bool
console_say(struct console *c, const char *fmt, ...);

/* Writes as much as it takes now. */
void console_flush(struct console *c);

/* Whether it is left alone for a moment, whatever poll(2) says of it. */
bool console_rests(const struct console *c);

/* Bytes that wait. */
size_t console_waiting(const struct console *c);

#endif
