/*
 * launcher/worker/pipe_probe: whether what stdout or stderr leads to takes
 * something, seen from outside: others write there. A pipe is full whenever it
 * is looked at where those that wait for room fill it at once, and so a full
 * one is told from one that nobody reads by what changes when something is
 * taken.
 *
 * That is not always seen: a pipe whose writers fill it to the last byte looks
 * the same before and after, and Linux sets the times of a terminal every 8
 * seconds only. Then it is taken for one that takes nothing.
 */
#ifndef LAUNCHER_WORKER_PIPE_PROBE_H
#define LAUNCHER_WORKER_PIPE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

enum gauge_pace {
    GAUGE_FREE, /* it has room */
    GAUGE_SLOW, /* it is full, and has taken something since the last look */
    GAUGE_NONE, /* it is full, and has taken nothing */
};

struct gauge {
    int fd;
    bool pipe, terminal;
    int64_t waiting; /* bytes in a pipe, or that a socket has not sent */
    int64_t read_ns, written_ns; /* the times of a FIFO, or of a terminal */
    int64_t took_us;             /* when one of them was seen to change */
    int64_t memory_us;
};

/* Borrows `fd`. A terminal counts as slow for as long as `memory_us` after it
 * took something, at most for the 8 seconds in which more would not be seen. */
void gauge_init(struct gauge *g, int fd, int64_t memory_us);

enum gauge_pace gauge_look(struct gauge *g, int64_t now_us);

#endif
