/*
 * launcher/standby/learn: the names of the modules that a worker imports, which
 * the runner writes into memory that it shares with us.
 */
#ifndef LAUNCHER_STANDBY_LEARN_H
#define LAUNCHER_STANDBY_LEARN_H

#include <stdbool.h>
#include <stddef.h>

#define LEARN_PATH_MAX 48
#define LEARN_MAX      (256 * 1024) /* bytes of all names, as in imports.py */

/* The shared memory, the caller's; -1 with errno: there is none. */
int learn_open(void);

/* Empties it for a new worker, and gives the path by which that opens it.
 * False: it cannot be emptied, or /proc does not show it. */
bool learn_begin(int fd, char path[LEARN_PATH_MAX]);

/*
 * Reads the names so far, each with a newline behind it, and with `stop` lets
 * the runner write no more. `text` gets a zero byte at its end. Returns the
 * length; what is not written by the runner's rules (letters, digits, _ and .)
 * ends the list.
 */
size_t learn_read(int fd, bool stop, char text[LEARN_MAX + 1]);

#endif
