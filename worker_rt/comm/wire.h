/*
 * worker_rt/comm/wire: the connections of one rank to its neighbours. Messages
 * go out and come in at once. Every wait ends when a peer is gone, when it is
 * aborted, or at its deadline. A rank that gives up tells its neighbours why,
 * so that all of them name the same rank.
 *
 * Each message has a head that names the collective and its size, so that
 * ranks which disagree find out instead of adding up garbage.
 *
 * Use: wire_init, wire_add for each neighbour, wire_open; then for each
 * collective wire_begin, any exchanges, wire_end; wire_close. One thread at a
 * time, but wire_abort may come from any.
 */
#ifndef WORKER_RT_COMM_WIRE_H
#define WORKER_RT_COMM_WIRE_H

#include <stdatomic.h>

#include "worker_rt/comm/comm.h"
#include "worker_rt/comm/head.h"
#include "worker_rt/comm/meet.h"
#include "worker_rt/comm/reduce.h"
#include "worker_rt/fork.h"

#define WIRE_PEERS_MAX (COMM_LINKS_MAX / COMM_LANES)
#define WIRE_CHUNK     ((size_t)256 * 1024) /* at most by one system call */

/* How often a blocked rank looks for more than data: whether its peers are
 * silent, or in other calls. A second; a test makes it less. */
extern int64_t wire_look_us;

/* The only message on a connection of its own: which rank is to blame, and for
 * what. */
struct wire_blame {
    uint32_t why; /* enum wire_why */
    uint32_t rank;
};
_Static_assert(sizeof(struct wire_blame) == 8, "no padding on the wire");

enum wire_why {
    WIRE_DIED = 1, /* its connections ended without a blame */
    WIRE_SILENT,   /* nothing comes from its host any more */
    WIRE_LEFT,     /* freed the communicator while others used it */
    WIRE_ABORTED,
    WIRE_LATE,
    WIRE_DIFFERS, /* found that ranks are in different calls */
    WIRE_FAILED,  /* of something else, memory for one */
    WIRE_WHYS
};

struct wire_peer {
    int rank;
    int fd;       /* data; -1: not connected */
    int blame_fd; /* the same */
    enum {
        WIRE_HERE,
        WIRE_BLAMED, /* it gave up and said why: `blame` */
        WIRE_GONE    /* it sent no blame: `blame` is ours about it */
    } state;
    struct wire_blame blame;
    size_t have; /* bytes of `blame` that have come */
};

struct wire {
    int rank;
    int world;
    struct wire_peer peers[WIRE_PEERS_MAX];
    size_t npeers;
    struct fork_watch forks[COMM_LANES]; /* no child keeps these open */
    int abort_fd;                        /* an eventfd: wakes a blocked call */
    atomic_bool aborted;
    bool broken;
    struct ddp_err why;      /* what broke it */
    struct wire_blame blame; /* the same for the peers */
    uint32_t seq;
    struct wire_head head;  /* of this collective, as far as it is fixed */
    int64_t deadline_us;    /* of this collective */
    struct wire_peer *gone; /* the first that was seen gone, or NULL */
    int64_t moved_us;       /* since then: when data last moved */
    int64_t asked_us;       /* when it was last asked which peers are silent */
    bool hurried;           /* keepalive was shortened on all */
    uint8_t *scratch;       /* WIRE_CHUNK bytes: data that comes to be added */
};

/*
 * One message, out or in. What comes in replaces `data`, or is added to it
 * where `combine` is set. All zero: nothing to do.
 */
struct wire_xfer {
    struct wire_peer *peer;
    struct wire_head head; /* what is sent, or must come */
    struct wire_head got;
    uint8_t *data; /* borrowed */
    size_t len;
    size_t done; /* of head and data */
    reduce_fn *combine;
    size_t elem;  /* bytes of an element, with `combine` */
    size_t added; /* bytes of `data` that were combined */
};

static inline size_t wire_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Nothing is allocated yet; wire_close may be called from here on. */
void wire_init(struct wire *w, int rank, int world);

/* A neighbour, once, however often it is named. */
struct wire_peer *wire_add(struct wire *w, int rank);

/* NULL: it is no neighbour. */
struct wire_peer *wire_peer(struct wire *w, int rank);

/* Meets the neighbours: see comm_meet. NOMEM besides. */
int wire_open(struct wire *w,
              const struct comm_place *place,
              struct store_client *store,
              int64_t deadline_us,
              struct ddp_err *err);

void wire_close(struct wire *w);

/*
 * Begins a collective. Of `call` its kind, dtype, operation and root count,
 * which are in each head. Fails at once on a broken wire (with what broke it),
 * after wire_abort, and if a peer is known to be gone. `timeout_us` may be
 * MONO_NEVER.
 */
int wire_begin(struct wire *w,
               const struct comm_call *call,
               int64_t timeout_us,
               struct ddp_err *err);

/* As wire_begin, for a wait, in which the other ranks need not take part: it
 * has no number among the collectives. */
int wire_attend(struct wire *w, int64_t timeout_us, struct ddp_err *err);

/*
 * Ends it and passes `rc` on. A failure (`err` says which) breaks the wire: the
 * neighbours are told which rank is to blame, then the connections are shut.
 */
int wire_end(struct wire *w, int rc, const struct ddp_err *err);

/* `step` is below HEAD_RING; the wire's own head may have that. */
struct wire_xfer wire_message(const struct wire *w,
                              struct wire_peer *peer,
                              uint32_t step,
                              void *data,
                              size_t len);

/*
 * Both directions at once, until both are done. Errors: PEER (the text names
 * the rank that is to blame, as far as it is known), ABORTED, TIMEOUT,
 * CONFLICT, NOMEM.
 */
int wire_exchange(struct wire *w,
                  struct wire_xfer *out,
                  struct wire_xfer *in,
                  struct ddp_err *err);

/*
 * For a caller that waits for something else than these connections, between
 * wire_begin and wire_end: looks, without waiting, whether a peer gave up or is
 * gone, the collective was aborted, or its deadline has come. Errors: those of
 * an exchange.
 */
int wire_watch(struct wire *w, struct ddp_err *err);

/* From any thread. */
void wire_abort(struct wire *w);

/* The communicator whose wire this is failed with `err`. */
static inline void wire_tell_proof(const struct wire *w,
                                   struct proof_part *part,
                                   const struct ddp_err *err)
{
    const uint32_t blame[2] = {w->blame.why, w->blame.rank};
    proof_failed(part, err, blame);
}

/* Whether another communicator of the handle failed so that this one must, too:
 * then -1, and the peers will be told the same. */
static inline int wire_ask_proof(struct wire *w,
                                 const struct proof_part *part,
                                 struct ddp_err *err)
{
    uint32_t blame[2];
    if (proof_stopped(part, blame, err) == 0)
        return 0;
    if (blame[0] != 0)
        w->blame = (struct wire_blame){.why = blame[0], .rank = blame[1]};
    return -1;
}

#endif
