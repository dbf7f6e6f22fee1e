/*
 * launcher/output/logfile: a log file that holds nobody up. If the disk is
 * full, bytes are counted instead of written, and a line in the file says later
 * how many are missing, and when there was room again. Files are appended to,
 * and rotated at a size.
 */
#ifndef LAUNCHER_OUTPUT_LOGFILE_H
#define LAUNCHER_OUTPUT_LOGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct logfile {
    int fd;          /* -1: there is none */
    char *path;      /* owned */
    int64_t size;    /* where the next byte goes */
    int64_t limit;   /* it is rotated at this size; 0: never */
    int keep;        /* this many older files are kept */
    int64_t missing; /* bytes that were lost since the last write */
    int sys_errno;   /* why */
    bool append;     /* others write to it as well, or it is a pipe: no line of
                        ours is put between what comes */
    bool inside;     /* the last byte that was written was no line's end */
    bool told;       /* the caller's: it has said that bytes are lost */
    int64_t rotations; /* or truncations by others: what was there is not */
};

/*
 * Opens `path` for appending. If the file is not empty, it gets a line that
 * says where `round` begins, and when. Returns -1, with the reason in
 * sys_errno, if it cannot be opened: logfile_put then tries again, and counts
 * until it can. Copies `path`.
 */
int logfile_open(struct logfile *f,
                 const char *path,
                 int64_t round,
                 int64_t limit,
                 int keep);

/* Appends. Returns false if bytes were lost. */
bool logfile_put(struct logfile *f, const char *data, size_t len);

/*
 * Moves at most `most` bytes from a pipe without looking at them. Returns how
 * many; 0: the pipe's end; -1 with errno: EAGAIN if the pipe is empty; any
 * other errno: splicing does not work here, or now, and logfile_put must be
 * used.
 */
int64_t logfile_splice(struct logfile *f, int pipe_fd, size_t most);

void logfile_close(struct logfile *f);

/*
 * If `fd` is the plain file that our stdout or stderr goes to (/dev/stdout
 * after a shell's "> log"): a duplicate of that descriptor. It shares its
 * offset with the workers, so that neither overwrites what the other wrote. -1:
 * it is another file, or there is no descriptor.
 */
int logfile_share(int fd);

#endif
