/*
 * worker_rt/snapshot/atomic_file: files that are written under a temporary name
 * and then renamed, and the removal of what killed writers left.
 *
 * A temporary file is NAME.tmp.HOST.PID.BOOT.SPACE.RANDOM and locked (flock(2))
 * for as long as its writer lives. BOOT tells the writer's kernel (12 digits of
 * its boot id), SPACE its pid namespace. A sweep removes it
 *
 *  - never, if it is locked;
 *  - at once, if its writer ran on this kernel and is dead: there is no lock,
 *    or, if locks do not work here, no such process;
 *  - else, so of another host, or of this one before a reboot, if it was not
 *    written to for an hour. A lock that is free proves nothing there: a mount
 *    of NFS may keep its locks to itself. Nor can the clocks of two hosts be
 *    compared: what counts is the time by which the folder itself was changed
 *    later than the file.
 *
 * If this is wrong about a writer that lives, that writer's rename fails, and
 * with it its save; no snapshot is torn.
 *
 * Names with too little room are NAME.tmp.RANDOM: they do not say whose they
 * are, and count as another host's.
 */
#ifndef WORKER_RT_SNAPSHOT_ATOMIC_FILE_H
#define WORKER_RT_SNAPSHOT_ATOMIC_FILE_H

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

#define ATOMIC_FILE_MARK   ".tmp."
#define ATOMIC_FILE_RANDOM 16 /* hexadecimal digits of a temporary name */
#define ATOMIC_FILE_NAME_MAX                                                   \
    (NAME_MAX + sizeof(ATOMIC_FILE_MARK) + ATOMIC_FILE_RANDOM)

/* For so long nothing may have been written to what another host left. */
#define ATOMIC_FILE_AGE_S 3600

/* An open folder; -1: IO. The caller closes it. */
int atomic_file_open_dir(const char *path, struct ddp_err *err);

/* A new temporary name for `name`. */
void atomic_file_temp_name(char out[ATOMIC_FILE_NAME_MAX], const char *name);

/* Removes the temporary files of `name` whose writers are dead; NULL: of all
 * names. Best effort: leftovers cost space only. */
void atomic_file_sweep(int dir, const char *name);

/* Creates a temporary file, locked, and writes its name to `temp`. Returns its
 * descriptor, which the caller closes, or -1: IO. */
int atomic_file_create(int dir,
                       const char *name,
                       char temp[ATOMIC_FILE_NAME_MAX],
                       struct ddp_err *err);

/* Syncs the folder to the disk. IO. Does nothing if the file system has no
 * fsync of folders. */
int atomic_file_sync_dir(int dir, struct ddp_err *err);

/* Writes a whole file under a temporary name, renames it to `name` and syncs
 * the folder. IO: `name` is unchanged (or the new file, if only the last sync
 * failed). ABORTED: `stop` (may be NULL) became true; `name` is unchanged. */
int atomic_file_put(int dir,
                    const char *name,
                    const uint8_t *data,
                    size_t len,
                    const atomic_bool *stop,
                    struct ddp_err *err);

#endif
