/*
 * launcher/front/pump: carries what a launcher writes to one of the proxy's own
 * streams, for a proxy whose connection can be replaced (launcher/front/again):
 * what is not taken by the one that is lost goes to the next.
 */
#ifndef LAUNCHER_FRONT_PUMP_H
#define LAUNCHER_FRONT_PUMP_H

#include <stdbool.h>
#include <stddef.h>

#define PUMP_BYTES 4096 /* as much as a pipe takes at once */

struct pump {
    int from;  /* the read end; -1: closed, or there is none */
    int write; /* the launcher's end, until it has it; -1 */
    int to;    /* STDOUT_FILENO, STDERR_FILENO */
    char held[PUMP_BYTES];
    size_t len;
};

/* Makes the pipe. -1: errno. */
int pump_open(struct pump *p, int to);

/* In the launcher: its end becomes `to`. -1: errno. */
int pump_in_child(const struct pump *p);

/* In the proxy, when the launcher has it. */
void pump_started(struct pump *p);

/* Reads if nothing is held. False: it has ended, and is closed. */
bool pump_read(struct pump *p);

/* Writes what is held; false: the stream is broken, and it is held as before.
 * `drop`: nobody wants it. */
bool pump_write(struct pump *p, bool drop);

/* Whether it has bytes that were not read. */
bool pump_has_more(const struct pump *p);

void pump_close(struct pump *p);

#endif
