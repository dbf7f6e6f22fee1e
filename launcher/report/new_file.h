/*
 * launcher/report/new_file: a new file beside another one, which it is to
 * replace by rename(2). Nodes share folders, and hosts give the same pids: its
 * name is random, so that no launcher writes to another's.
 */
#ifndef LAUNCHER_REPORT_NEW_FILE_H
#define LAUNCHER_REPORT_NEW_FILE_H

#include <stddef.h>

#define NEW_FILE_MORE 16 /* bytes that the name is longer, with NUL */

/* Makes it, writes its name to `name` (`size` must do: the path's length and
 * NEW_FILE_MORE), and returns a descriptor to write to; -1 with errno. */
int new_file_beside(const char *path, char *name, size_t size);

#endif
