/*
 * worker_rt/snapshot/snapshot_dir: a folder of snapshots. Each step is a folder
 * in it, with a file of each rank, which is written once:
 *
 *     step-000000001200.r3.0f1e2d3c/shard-00003-of-00008.safetensors
 *
 * The names have the step, the round and the first digits of the instance that
 * wrote it, so that no writer replaces what another round has written, and the
 * rank, here 2, since other programs count such files from 1. Is a step saved
 * twice, what was whole stays beside it as *.safetensors.prev. Before there
 * were files of each rank, a step was a file with the whole state,
 * step-000000001200.r3.0f1e2d3c.safetensors; these are listed, too, and removed
 * when their turn comes. The file `owner` names the instance that the folder
 * belongs to, and below it the owners before. Files of these are loaded until
 * there are newer ones. Its last line has the newest step that was here when
 * the owner came, and how many owners before it in a row had found that one:
 * these made no step that outlived them.
 */
#ifndef WORKER_RT_SNAPSHOT_SNAPSHOT_DIR_H
#define WORKER_RT_SNAPSHOT_SNAPSHOT_DIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/rng.h"

#define SNAPSHOT_DIR_OWNERS   8 /* that are remembered */
#define SNAPSHOT_DIR_WHO      8 /* digits of an instance in a name */
#define SNAPSHOT_DIR_NAME_MAX 104
#define SNAPSHOT_MARK_MAX     96 /* bytes of a mark's name with its NUL */

/* Is not changed once it is open: one thread may write while another lists. */
struct snapshot_dir {
    int fd;           /* of the folder; -1: not open */
    const char *path; /* of it, borrowed */
    char instance[RNG_ID_LEN + 1];
    int64_t round;
};

/* One file. */
struct snapshot_file {
    char name[SNAPSHOT_DIR_NAME_MAX]; /* relative to the folder */
    char who[SNAPSHOT_DIR_WHO + 1];
    int owner; /* index among the owners; SNAPSHOT_DIR_OWNERS: of none of them
                */
    int class; /* for the order of a list; 0: of this instance .. */
    bool by_step; /* .. and whether its rounds say nothing in it */
    int64_t round;
    int64_t step;
    int rank;    /* whose pieces they are .. */
    int world;   /* .. of how many ranks; 0: it is the whole state */
    bool before; /* of a save before of the same step: see snapshot_dir_put */
};

/*
 * Opens the folder, and creates it if there is none, for a writer of this
 * instance and round. Borrows `path` until snapshot_dir_close. Removes what
 * killed writers left. IO (it cannot be made, opened or written), CONFLICT (a
 * file stands in its place).
 */
int snapshot_dir_open(struct snapshot_dir *s,
                      const char *path,
                      const char *instance,
                      int64_t round,
                      struct ddp_err *err);
void snapshot_dir_close(struct snapshot_dir *s);

/*
 * The folder's files, those in the folders of steps one by one, the best to
 * load first: those of this instance, then of the owner, of the owners before,
 * and others; in each the newest first, by round and step. Where no launcher
 * gave an instance (zeros) rounds of different runs look alike, and the step
 * alone counts. Of more than 65536 files the newest steps are listed, as far as
 * they fit. The caller frees `files`. IO, NOMEM.
 */
int snapshot_dir_list(const struct snapshot_dir *s,
                      struct snapshot_file **files,
                      size_t *n,
                      struct ddp_err *err);

/* Sets the name of a file, by all else that is known of it. */
void snapshot_dir_file_name(struct snapshot_file *f);

/* > 0: (round, step) b is newer than a, by the rule above. */
int snapshot_dir_newer(const char *instance,
                       int64_t a_round,
                       int64_t a_step,
                       int64_t b_round,
                       int64_t b_step);

/* Takes the folder over for this instance. `barren`: how many instances before
 * this one, in a row, left no newer step than they had found; 0 as well if this
 * one has. IO. */
int snapshot_dir_own(const struct snapshot_dir *s,
                     int64_t *barren,
                     struct ddp_err *err);

/*
 * Writes what rank `rank` of `world` has of a step, into the folder of the
 * step, which is made if it is not there. Removes nothing; with `keep_before`
 * not even the file that this rank has written of that step before, since all
 * ranks' files of then are whole together, and those of now not yet: its name
 * ends with .prev from now on. If the folder of
 * snapshots was removed meanwhile, it is made again. When it returns 0 the file
 * survives a power cut. CONFLICT: another instance has taken the folder over.
 * IO, NOMEM, ABORTED (`stop` became true).
 */
int snapshot_dir_put(const struct snapshot_dir *s,
                     int64_t step,
                     int rank,
                     int world,
                     bool keep_before,
                     const uint8_t *data,
                     size_t len,
                     const atomic_bool *stop,
                     struct ddp_err *err);

/*
 * Removes all but the newest `keep` steps of the owners: of `whole`, which is
 * known to be there as a whole, and of those before it. Of `whole` its step,
 * round and `who` count. Best effort.
 */
void snapshot_dir_prune(const struct snapshot_dir *s,
                        const struct snapshot_file *whole,
                        int keep);

/* An empty temporary file, with zeros behind its name. */
struct snapshot_mark {
    char name[SNAPSHOT_MARK_MAX];
};

/*
 * Finds out which processes share the folder: each makes a mark, and looks for
 * the marks of the others. A mark vanishes with snapshot_dir_unmark or, after
 * its maker's death, as each temporary file does. IO.
 */
int snapshot_dir_mark(struct snapshot_dir *s,
                      struct snapshot_mark *mark,
                      int *fd,
                      struct ddp_err *err);
bool snapshot_dir_sees(const struct snapshot_dir *s,
                       const struct snapshot_mark *mark);
void snapshot_dir_unmark(struct snapshot_dir *s,
                         const struct snapshot_mark *mark,
                         int fd);

#endif
