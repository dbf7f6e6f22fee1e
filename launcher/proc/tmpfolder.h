/*
 * launcher/proc/tmpfolder: the folder of a launch below TMPDIR, which only its
 * user may read. It is removed at the end unless there are files in it. Nobody
 * removes that of a launch all of whose processes were killed at once: it is
 * empty, and no start looks through a folder that it shares with others.
 */
#ifndef LAUNCHER_PROC_TMPFOLDER_H
#define LAUNCHER_PROC_TMPFOLDER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes TMPDIR/ddprun_6random (mode 0700). The parent is /tmp if TMPDIR is not
 * set or is no absolute path. Fills `path`; on an error, which is in errno,
 * with the parent's name.
 */
bool tmpfolder_make(char *path, size_t size);

/* Removes it if it is empty. */
void tmpfolder_remove(const char *path);

#endif
