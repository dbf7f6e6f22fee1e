/*
 * launcher/mpi/space: what a node's launcher answers to the MPI libraries of
 * its workers (PMI-1): the key space of one round, the barrier, the names, and
 * whose fault it is if a rank will never come. It is pure: commands and ends of
 * workers go in, answers and wishes come out by the handler. All workers of the
 * node are its clients:
 *
 *     event \ state   NEW        IDLE         BARRIER   ASKING    FINAL   LOST
 *     init            IDLE       -            (lost)    (lost)    IDLE    -
 *     barrier_in      (lost)     BARRIER      (lost)    (lost)    (lost)  -
 *     get, others     (lost)     IDLE/ASKING  (lost)    (lost)    (lost)  -
 *     finalize        (lost)     FINAL        (lost)    (lost)    (lost)  -
 *     abort           (fails)    (fails)      (fails)   (fails)   (fails) -
 *     breaks the
 *     protocol        LOST       LOST, fails  ..        ..        LOST    -
 *     ends with 0     (noted)    fails        fails     fails     - (noted)
 *
 * ASKING waits for the other nodes; LOOKING, which is as ASKING, for the file
 * with this node's topology. A worker that has ended with 0 and without
 * MPI_Init fails once another worker of this node has called MPI_Init, since
 * the second may wait for the first in shared memory. A worker that is LOST and
 * lives fails once another worker waits in the barrier.
 *
 * Over several nodes a barrier also carries the keys that are new on each of
 * them: `fence` is called with this node's once all workers here are in it, and
 * space_fenced is told those of all. A node with a worker that will never come
 * into the first barrier brings an empty line instead, at once: the nodes that
 * wait fail.
 */
#ifndef LAUNCHER_MPI_SPACE_H
#define LAUNCHER_MPI_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/mpi/kvs.h"
#include "launcher/mpi/mapping.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/proto/pmi.h"

/* Bytes of the new keys of one node between two barriers; what all nodes bring
 * is bounded by the store's C10D_VALUE_MAX. */
#define SPACE_FRESH_MAX ((size_t)4 << 20)

#define SPACE_KVSNAME_MAX 64
#define SPACE_WHY_MAX     300
/* Of a rank, once a round. */
#define SPACE_NO_SPAWN                                                         \
    "MPI_Comm_spawn is refused: ddprun starts no further processes for an "    \
    "MPI "                                                                     \
    "program"

#define SPACE_CODE_EARLY 1 /* of a worker that ended with 0 and should not */

struct space_handler {
    /* The answer to a worker's command, borrowed for the call. */
    void (*say)(void *ctx, int local_rank, const struct pmi_answer *answer);
    /* The worker has failed for all, with this exit code (1 to 255). It may
     * live, or may have ended with 0. */
    void (*fail)(void *ctx, int local_rank, int code, const char *why);
    /* What the worker asked for is refused, and its library may not say why:
     * each reason once a round. */
    void (*warn)(void *ctx, int local_rank, const char *why);
    /* Several nodes only: all workers here are in the barrier, or one will
     * never come. space_fenced follows. */
    void (*fence)(void *ctx, const void *fresh, size_t len);
    /* Several nodes only: publish_name (value), lookup_name or unpublish_name.
     * space_named follows. Borrowed for the call. */
    void (*name)(void *ctx,
                 int local_rank,
                 enum pmi_op op,
                 struct pmi_text name,
                 struct pmi_text value);
    /* The path of the topology is wanted; space_told_topology follows, perhaps
     * within the call. */
    void (*look)(void *ctx);
};

enum space_client_state {
    SPACE_NEW,
    SPACE_IDLE,
    SPACE_BARRIER,
    SPACE_ASKING,
    SPACE_LOOKING,
    SPACE_FINAL,
    SPACE_LOST,
};

struct space_client {
    enum space_client_state state;
    enum pmi_op asks; /* ASKING: get (the mapping) or a name */
    bool uninit;      /* NEW, or was so when it was LOST */
    bool ended;       /* its process, with 0 */
};

/* The caller's storage. */
struct space {
    const struct space_handler *handler;
    void *ctx;
    int nproc;
    int64_t nodes;
    int64_t world_size;
    char kvsname[SPACE_KVSNAME_MAX];
    struct space_client *clients; /* nproc, owned */
    int waiting;                  /* of them in BARRIER */
    int inside;                   /* in IDLE, BARRIER, ASKING or LOOKING */
    int absent;                   /* LOST, or ended without MPI_Init */
    bool fencing;                 /* all wait for space_fenced */
    bool fenced;                  /* `fence` was called in this round */
    bool failed;                  /* `fail` was called: once a round */
    unsigned warned;              /* a bit for each reason */
    struct kvs keys;
    struct kvs names;            /* one node only */
    struct buf fresh;            /* "KEY=VALUE\n" ..., since the last barrier */
    bool mapped;                 /* `mapping` is known */
    char cut_off[SPACE_WHY_MAX]; /* why the other nodes cannot be reached; "":
                                    they can, as far as is known */
    char mapping[MAPPING_MAX];
};

/* Borrows the handler. -1: no memory. */
int space_init(struct space *s,
               int nproc,
               const struct space_handler *handler,
               void *ctx);
void space_free(struct space *s);

/* An empty one, for a round of this instance; all clients are NEW. */
void space_begin(struct space *s,
                 const char *instance,
                 int64_t round,
                 int64_t nodes,
                 int64_t world_size);

void space_request(struct space *s,
                   int local_rank,
                   const struct pmi_request *req);

/* What the worker said is no PMI, or it cannot be answered. Nothing is said to
 * it or taken from it any more. */
void space_broke(struct space *s, int local_rank, const char *why);
bool space_is_lost(const struct space *s, int local_rank);

/* Whether it has said nothing so far. */
bool space_is_new(const struct space *s, int local_rank);

/* The worker has ended with 0. Returns NULL, or why that is a failure. */
const char *space_ended(struct space *s, int local_rank);

/* Where the file with this node's topology is; "": there is none. */
void space_told_topology(struct space *s, const char *path);

/* -- several nodes --------------------------------------------------------- */

/* The lines of mapping_tell of all nodes. */
void space_told_nodes(struct space *s, const char *lines, size_t len);

/* The new keys of all nodes. */
void space_fenced(struct space *s, const char *fresh, size_t len);

/* A name is published, looked up (found: its value) or withdrawn. */
void space_named(struct space *s,
                 int local_rank,
                 bool found,
                 struct pmi_text value);

/* The other nodes cannot be reached any more: who waits for them fails, now or
 * later. */
void space_cut_off(struct space *s, const char *why);

#endif
