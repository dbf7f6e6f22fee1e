/*
 * launcher/standby/learn: what a worker imports, and what it changes meanwhile,
 * in lines that the runner writes into memory that it shares with us
 * (imports.py, Recorder). Only the runner knows what they mean, but for the
 * last one.
 */
#ifndef LAUNCHER_STANDBY_LEARN_H
#define LAUNCHER_STANDBY_LEARN_H

#include <stdbool.h>
#include <stddef.h>

#define LEARN_PATH_MAX 48
#define LEARN_MAX      (1024 * 1024) /* bytes of all lines */

/* The shared memory, the caller's; -1 with errno: there is none. */
int learn_open(void);

/* Empties it for a new worker, and gives the path by which that opens it.
 * False: it cannot be emptied, or /proc does not show it. */
bool learn_begin(int fd, char path[LEARN_PATH_MAX]);

/* Reads the whole lines so far. `text` gets a zero byte at its end. Returns the
 * length; a byte that is not printable ends the text. */
size_t learn_read(int fd, char text[LEARN_MAX + 1]);

/* The runner writes no more. */
void learn_stop(int fd);

enum learn_stage {
    LEARN_IMPORTS,  /* an import is not over */
    LEARN_BETWEEN,  /* none is being done */
    LEARN_COMPLETE, /* the worker has said that there will be none */
};

/* Pure. */
enum learn_stage learn_stage(const char *text, size_t len);

#endif
