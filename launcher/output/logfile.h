/*
 * launcher/output/logfile: a log file that cannot hurt who writes to it: where
 * the disk is full, bytes are counted instead of written, and the file tells
 * later how many are missing. Files are appended to, and changed for new ones
 * at a size.
 */
#ifndef LAUNCHER_OUTPUT_LOGFILE_H
#define LAUNCHER_OUTPUT_LOGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct logfile {
    int fd;          /* -1: there is none */
    char *path;      /* owned */
    int64_t size;    /* what lies behind it is not ours, or not written yet */
    int64_t limit;   /* to be changed then, 0: never */
    int keep;        /* older ones */
    int64_t missing; /* bytes that could not be written since the last one */
    int sys_errno;   /* why */
    bool append;     /* others write to it as well, or it is a pipe or the
                        like: nothing of ours is put between what comes */
    bool cut;        /* of that, the last piece is there in part */
    bool told;       /* the caller's: that this was told */
    int64_t rotations;
};

/*
 * Opens `path` for appending; a file that has something in it already gets a
 * line that says where `round` begins. Returns -1 with the reason in sys_errno
 * where it cannot be opened: logfile_put only counts then, and tries again.
 * `path` is copied.
 */
int logfile_open(struct logfile *f,
                 const char *path,
                 int64_t round,
                 int64_t limit,
                 int keep);

/* Appends as much as goes. Returns false where bytes were lost. */
bool logfile_put(struct logfile *f, const char *data, size_t len);

/*
 * Moves bytes from a pipe without looking at them, at most `most`; returns how
 * many. 0: the pipe's end; -1 with errno: EAGAIN where it is empty; anything
 * else says that it does not work here, or now, and that logfile_put must be
 * used.
 */
int64_t logfile_splice(struct logfile *f, int pipe_fd, size_t most);

void logfile_close(struct logfile *f);

/*
 * Where `fd` is open on the plain file that our stdout or stderr goes to
 * (/dev/stdout behind a shell's "> log"): a duplicate of that one. Only what is
 * written at the place that it shares with the workers stays clear of what they
 * write. -1: it is none, or there is no descriptor.
 */
int logfile_share(int fd);

#endif
