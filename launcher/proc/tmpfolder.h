/*
 * launcher/proc/tmpfolder: the folder of a launch below TMPDIR, nobody else's
 * to look into. It goes at the end unless there are files in it; where the
 * whole launch was killed at once, so that nobody was left to see to it, a
 * later one of the same user finds it: a living launch holds a lock on its
 * folder.
 */
#ifndef LAUNCHER_PROC_TMPFOLDER_H
#define LAUNCHER_PROC_TMPFOLDER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes TMPDIR/ddprun_6random (mode 0700) and locks it for the life of this
 * process and of those that it forks; /tmp where TMPDIR is not set, or is no
 * absolute path. Fills `path`, or on an error, with errno, the parent's name.
 */
bool tmpfolder_make(char *path, size_t size);

/* Removes it if it is empty. */
void tmpfolder_remove(const char *path);

/*
 * Removes empty ones beside it that nobody has locked, are this user's and more
 * than a minute old; only on file systems of this machine, where a lock is seen
 * by all. Takes well below a millisecond, also where TMPDIR is full: it looks
 * at a bounded number of names, and, where many folders stay, at a share of
 * them.
 */
void tmpfolder_sweep(const char *path);

#endif
