/*
 * launcher/worker/errfile: the error files of a launch. PyTorch's @record
 * writes one before a worker dies of an exception; its message goes into the
 * report. With --log_dir they lie as torchrun lays them out:
 *
 *     LOG_DIR/RUN_8random/attempt_RESTARTS/LOCAL_RANK/error.json
 *
 * and the log files (launcher/output/relay) beside them, for which such a
 * folder is made even where none is given:
 *
 *     TMPDIR/ddprun_6random/RUN_8random/attempt_RESTARTS/LOCAL_RANK/
 *
 * Else in one folder of their own that goes when it is empty (a folder per
 * worker would cost more than all the rest of a launch):
 *
 *     TMPDIR/ddprun_6random/attempt_RESTARTS.LOCAL_RANK.error.json
 */
#ifndef LAUNCHER_WORKER_ERRFILE_H
#define LAUNCHER_WORKER_ERRFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/conf/conf.h"

#define ERRFILE_PATH_MAX 4096
#define ERRFILE_TEXT_MAX 400
#define ERRFILE_NAME     "error.json" /* how each path ends */

enum errfile_state {
    ERRFILE_NEW,       /* the first worker makes the folder */
    ERRFILE_TEMPORARY, /* `base` is ours alone, and goes at the end */
    ERRFILE_KEPT,      /* `base` is a run's folder that stays */
    ERRFILE_NONE,      /* there are no files: not wanted, or not possible */
};

struct errfile {
    const struct conf *conf;
    enum errfile_state state;
    char base[3900]; /* TEMPORARY and KEPT: the folder; else "" */
    long long made;  /* the last attempt whose folder was made, -1: none */
};

/* Borrows `conf` for its life. Makes nothing yet: a launch that never comes to
 * start a worker leaves no folder behind. */
void errfile_init(struct errfile *e, const struct conf *conf);

/*
 * The path for a worker of this attempt; its folder is made, and a file that
 * an earlier round of the same attempt left there is moved aside. "" where
 * there are no files: where a folder cannot be made, which is said once on
 * stderr; training goes on. `path` has ERRFILE_PATH_MAX bytes, and so has
 * `folder`: the folder where log files lie, "" where there are none.
 */
void errfile_prepare(struct errfile *e,
                     long long attempt,
                     int local_rank,
                     char *path,
                     char *folder);

/* The folder of this run's files, "" where there is none or it goes. */
const char *errfile_folder(const struct errfile *e);

/*
 * What the worker left in its file: the message, one line of at most
 * ERRFILE_TEXT_MAX bytes, and the traceback, the end of it where it is longer
 * than `size`; "" if there is none. What is no file of at most 1 MiB (a FIFO, a
 * device) is not read.
 */
void errfile_read(const char *path,
                  char text[ERRFILE_TEXT_MAX + 1],
                  char *trace,
                  size_t size);

/*
 * What the worker that failed first left in its file, with its exit code (or
 * its signal below 0) as `errorCode`, goes to the file that the launcher's own
 * TORCHELASTIC_ERROR_FILE names: so whoever started the launcher is told, as by
 * torchrun. Nothing is written where the worker left nothing that can be read.
 */
void errfile_pass_on(const char *path, int code);

/* The temporary folder that goes at the end, "" where there is none. */
const char *errfile_temporary(const struct errfile *e);

/* Removes a folder of ours, unless there are files in it. */
void errfile_clean(const struct errfile *e);

#endif
