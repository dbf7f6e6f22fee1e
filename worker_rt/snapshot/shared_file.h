/*
 * worker_rt/snapshot/shared_file: a file that the ranks of a node write or read
 * together, each from or to the launcher's memory, which all of them have
 * mapped. They talk there, too, on a board beside the image: so no thread that
 * writes needs the communicator.
 *
 * The node's first rank leads: it opens the file and puts its name on the
 * board. All take pieces of it, and sync what they wrote. A session is one
 * write, or one search for something to load, in which some files may be read.
 */
#ifndef WORKER_RT_SNAPSHOT_SHARED_FILE_H
#define WORKER_RT_SNAPSHOT_SHARED_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "worker_rt/snapshot/mem_slots.h"

#define SHARED_FILE_RANKS                                                      \
    128 /* of a node; with more of them one rank does it */

/* Bytes that a rank takes at a time: 16 MiB; whole blocks. A test makes it
 * less. */
extern size_t shared_file_piece;

struct shared_file_board;

/* What this rank has of a board. All zero: none. */
struct shared_file {
    struct shared_file_board *board; /* NULL: there is none */
    int fd;         /* of that memory, borrowed; its locks tell who lives .. */
    int lock_at;    /* .. at this byte for rank 0 */
    int rank;       /* in the node */
    int ranks;      /* of the node */
    int first;      /* the number in the world of the node's first rank */
    uint64_t files; /* that this rank has opened as the leader */
    uint64_t session; /* the newest; counted alike on all ranks */
};

/* One for what is written, one for what is read. */
enum shared_file_use {
    SHARED_FILE_WRITES,
    SHARED_FILE_READS
};

/*
 * The leader clears both boards before any rank opens one. `m` is the
 * launcher's memory; borrowed until shared_file_close. Nothing is opened if the
 * node has too many ranks.
 */
void shared_file_clear(const struct mem_slots *m);
void shared_file_open(struct shared_file *s,
                      const struct mem_slots *m,
                      enum shared_file_use use,
                      int rank,
                      int ranks,
                      int first);

/* The leader ends all sessions: the others are told that it gave up. */
void shared_file_close(struct shared_file *s);

/*
 * The leader's: all of the first `len` bytes of slot `slot` go to the file, and
 * to the disk, or come from it. `fd` is open for that; the others open it by
 * its name. Returns when no rank does anything with it any more. Errors: IO (of
 * any rank), CORRUPT (it is shorter), PEER (a rank died over it), ABORTED
 * (`stop` became true, may be NULL).
 */
int shared_file_lead(struct shared_file *s,
                     const struct mem_slots *m,
                     int slot,
                     uint64_t len,
                     int fd,
                     const char *name,
                     const atomic_bool *stop,
                     struct ddp_err *err);

/* The leader's: what became of the session, for all. `rc` 0, or `err`. */
void shared_file_end(struct shared_file *s,
                     uint64_t session,
                     int rc,
                     const struct ddp_err *err);

/* The other ranks': takes part until the session has ended; `dir` is the folder
 * (-1: this rank cannot see it, and only waits). Errors: what the leader said;
 * PEER (it died), ABORTED. */
int shared_file_help(struct shared_file *s,
                     const struct mem_slots *m,
                     uint64_t session,
                     int dir,
                     const atomic_bool *stop,
                     struct ddp_err *err);

#endif
