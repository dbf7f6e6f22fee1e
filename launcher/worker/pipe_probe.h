/*
 * launcher/worker/pipe_probe: looks at a pipe, terminal or socket that others
 * write to: whether it is full, and how much waits in it. A full one that is
 * read is told from one that nobody reads by two looks: the number changes.
 *
 * The number of a pseudo-terminal is always 0, and a pipe may have been filled
 * to the same byte again: equal numbers are no proof that nothing was taken.
 */
#ifndef LAUNCHER_WORKER_PIPE_PROBE_H
#define LAUNCHER_WORKER_PIPE_PROBE_H

#include <stdint.h>

/* Bytes that wait behind `fd`, which is full; -1: it has room, or is a file, or
 * is closed. Never waits. */
int64_t pipe_probe(int fd);

#endif
