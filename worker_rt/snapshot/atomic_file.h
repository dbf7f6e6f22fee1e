/*
 * worker_rt/snapshot/atomic_file: files that are written aside and then
 * renamed, and what killed writers left of them.
 *
 * A temporary file is NAME.tmp.<16 random digits> and locked (flock(2)) for as
 * long as its writer lives; the next writer finds it unlocked and removes it.
 * Where locks do not work nothing is removed.
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

/* An open folder; -1: IO. The caller closes it. */
int atomic_file_open_dir(const char *path, struct ddp_err *err);

/* A name beside `name` that nobody has. */
void atomic_file_temp_name(char out[ATOMIC_FILE_NAME_MAX], const char *name);

/* Removes the temporary files of `name` that nobody holds a lock on; NULL: of
 * all names. Best effort: leftovers cost space, nothing else. */
void atomic_file_sweep(int dir, const char *name);

/* Creates one, locked, under the name that `temp` is given: its descriptor, or
 * -1: IO. */
int atomic_file_create(int dir,
                       const char *name,
                       char temp[ATOMIC_FILE_NAME_MAX],
                       struct ddp_err *err);

/* All of it, at an offset. IO. */
int atomic_file_write(
    int fd, const uint8_t *data, size_t len, uint64_t at, struct ddp_err *err);

/* To the disk. IO. A file system that has no such thing needs none. */
int atomic_file_sync_dir(int dir, struct ddp_err *err);

/* A whole file: written aside, synced, renamed over `name`, the folder synced.
 * IO: `name` is what it was (the new file if only the last sync failed).
 * ABORTED: `stop` (may be NULL) became true; `name` is what it was. */
int atomic_file_put(int dir,
                    const char *name,
                    const uint8_t *data,
                    size_t len,
                    const atomic_bool *stop,
                    struct ddp_err *err);

#endif
