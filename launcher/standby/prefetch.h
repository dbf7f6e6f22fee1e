/*
 * launcher/standby/prefetch: asks the kernel to read, ahead of the workers, the
 * parts of files that their imports needed in an earlier launch of the program:
 * a node that waits for others has them in memory when its workers start. The
 * list of them is in the user's cache folder, written by imports.py.
 */
#ifndef LAUNCHER_STANDBY_PREFETCH_H
#define LAUNCHER_STANDBY_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#define PREFETCH_PATH_MAX 4096
#define PREFETCH_LIST_MAX (1024 * 1024) /* bytes, as in imports.py */

/* Where the list of an interpreter and a program is, which need not exist. An
 * empty path: there is neither $XDG_CACHE_HOME nor $HOME. */
void prefetch_path(const char *interpreter,
                   const char *program,
                   char path[PREFETCH_PATH_MAX]);

/*
 * Reads ahead what the list at `path` names, `limit` bytes at most. Returns how
 * many bytes that were; 0 if there is no list, or it is not this user's. For
 * one thread only.
 */
int64_t prefetch_list(const char *path, int64_t limit);

/* The same in a thread of the lowest priority, which ends by itself. Borrows
 * `path` for ever. To be called once. Without a thread nothing is done. */
void prefetch_start(const char *path, int64_t limit);

#endif
