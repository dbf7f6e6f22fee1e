/*
 * launcher/proc/tmpfolder: the folder of a launch below TMPDIR, which only its
 * user may read. It is removed at the end unless there are files in it. If the
 * whole launch was killed at once, a later launch of the same user removes it:
 * a living launch holds a lock on its folder.
 */
#ifndef LAUNCHER_PROC_TMPFOLDER_H
#define LAUNCHER_PROC_TMPFOLDER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes TMPDIR/ddprun_6random (mode 0700) and locks it for as long as this
 * process, or one that it forks, has `*lock_fd` open; -1 if the file system has
 * no locks. What was in `*lock_fd` before, -1 or the lock of a folder that is
 * gone, is closed. The parent is /tmp if TMPDIR is not set or is no absolute
 * path. Fills `path`; on an error, which is in errno, with the parent's name.
 */
bool tmpfolder_make(char *path, size_t size, int *lock_fd);

/* Removes it if it is empty. */
void tmpfolder_remove(const char *path);

/*
 * Removes empty folders beside it that are not locked, belong to this user and
 * are more than a minute old; only on file systems of this machine, since locks
 * are not seen over every network. Takes well below a millisecond, also if
 * TMPDIR is full: it looks at a bounded number of names, and, if many folders
 * stay, at a share of them.
 */
void tmpfolder_sweep(const char *path);

#endif
