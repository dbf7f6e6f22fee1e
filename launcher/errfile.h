/*
 * launcher/errfile: the folders of a launch, and the error files in them:
 *
 *     LOG_DIR/RUN_8random/attempt_RESTARTS/LOCAL_RANK/error.json
 *
 * as torchrun lays them out. PyTorch's @record writes the file before a worker
 * dies of an exception; its message goes into the report.
 */
#ifndef ERRFILE_H
#define ERRFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/conf.h"

#define ERRFILE_PATH_MAX 4096
#define ERRFILE_TEXT_MAX 400

struct errfile {
    char base[4200]; /* LOG_DIR/RUN_8random, "" where there are no files */
    char tmp[64];    /* the temporary LOG_DIR that we made, or "" */
    bool complained; /* that files cannot be made */
};

/* Makes the folders of this launch. Where they cannot be made, workers get no
 * error files, which is said once on stderr; training goes on. */
void errfile_init(struct errfile *e, const struct conf *conf);

/*
 * The path for a worker of this attempt; its folder is made, and a file that
 * an earlier round of the same attempt left there is moved aside. "" where
 * there are no files. `path` has ERRFILE_PATH_MAX bytes.
 */
void errfile_prepare(struct errfile *e,
                     long long attempt,
                     int local_rank,
                     char *path);

/* What the worker left in its file, one line of at most ERRFILE_TEXT_MAX
 * bytes; "" if there is nothing. */
void errfile_read(const char *path, char text[ERRFILE_TEXT_MAX + 1]);

/* Removes the folders that hold no file, if the temporary ones are ours. */
void errfile_clean(const struct errfile *e);

#endif
