/*
 * launcher/worker/errfile: the error files of a launch. PyTorch's @record
 * writes one when a worker ends by an exception; its message goes into the
 * report. With --log_dir they lie as torchrun's do:
 *
 *     LOG_DIR/RUN_8random/attempt_RESTARTS/LOCAL_RANK/error.json
 *
 * with the log files (launcher/output/relay) beside them. If there are log
 * files but no --log_dir, such a folder is made in the temporary one:
 *
 *     TMPDIR/ddprun_6random/RUN_8random/attempt_RESTARTS/LOCAL_RANK/
 *
 * Else they lie in one temporary folder, which is removed when it is empty (a
 * folder per worker would cost more than all the rest of a launch):
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
    ERRFILE_NEW,       /* the next worker makes the folder */
    ERRFILE_TEMPORARY, /* `base` is ours alone, and goes at the end */
    ERRFILE_KEPT,      /* `base` is a run's folder that stays */
    ERRFILE_NONE,      /* there are no files: not wanted, or not possible */
};

struct errfile {
    const struct conf *conf;
    enum errfile_state state;
    char base[3900]; /* TEMPORARY and KEPT: the folder; else "" */
    long long made;  /* the last attempt whose folder was made, -1: none */
    int places;      /* local ranks, from 0 on, that had a path in it */
    bool told;       /* that a folder cannot be made */
};

/*
 * Borrows `conf` for e's life. Makes the run's folder if there is a --log_dir
 * or if there are log files, so that one that cannot be made is an error before
 * the launch joins a world. A temporary folder for error files only is made
 * with the first worker, since nobody asked for it. Errors: DDP_E_CONFIG, with
 * the folder and the reason.
 */
int errfile_init(struct errfile *e,
                 const struct conf *conf,
                 struct ddp_err *err);

/*
 * Fills in the path for a worker of this attempt and the folder of its log
 * files, each of ERRFILE_PATH_MAX bytes; "" if there is none. Makes the folder,
 * also if somebody has removed the run's folder since; a file that an earlier
 * round of the same attempt left there is moved aside. A folder that cannot be
 * made is said once on stderr; training goes on without, and the next worker
 * tries again.
 */
void errfile_prepare(struct errfile *e,
                     long long attempt,
                     int local_rank,
                     char *path,
                     char *folder);

/* The folder of this run's files; "" if there is none that stays. */
const char *errfile_folder(const struct errfile *e);

/*
 * Reads what the worker left in its file: the message, one line of at most
 * ERRFILE_TEXT_MAX bytes, and the traceback, or its last `size` - 1 bytes if it
 * is longer; "" if there is none. Only a plain file is read; of one that is
 * larger than 1 MiB the message says so, and where it is.
 */
void errfile_read(const char *path,
                  char text[ERRFILE_TEXT_MAX + 1],
                  char *trace,
                  size_t size);

/*
 * Copies the file of the worker that failed first to the one that the
 * launcher's own TORCHELASTIC_ERROR_FILE names, with the worker's exit code, or
 * minus its signal, as `errorCode`. torchrun does the same for the program that
 * started it. If the worker left nothing that can be read, nothing is written.
 */
void errfile_pass_on(const char *path, int code);

/* The temporary folder, which is removed at the end; "" if there is none. */
const char *errfile_temporary(const struct errfile *e);

/* Removes the temporary folder, unless there are files in it, and the run's
 * folder if no worker was started. */
void errfile_clean(const struct errfile *e);

#endif
