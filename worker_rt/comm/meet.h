/*
 * worker_rt/comm/meet: how the ranks of a communicator find each other. Each
 * listens, publishes its address in the store, connects to the lower ones that
 * it needs and accepts the higher ones. A caller says which rank it is, and for
 * which instance, round and communicator, and both prove that they have the key
 * of the round (comm/hello). Callers that do not belong to this meeting are
 * turned away, and the meeting goes on.
 */
#ifndef WORKER_RT_COMM_MEET_H
#define WORKER_RT_COMM_MEET_H

#include "rendezvous/client/store.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/rt.h"

/* Two connections to each neighbour, for what must not wait in one queue. */
enum comm_lane {
    COMM_DATA,
    COMM_BLAME, /* one message at most: why the peer gives up */
    COMM_LANES
};

/* Two of the ring, one for each bit of a rank, two lanes. */
#define COMM_LINKS_MAX 68

/* A connection to be made: to which rank, for what. Both ends make it. */
struct comm_link {
    int rank; /* not our own */
    enum comm_lane lane;
    int fd; /* non-blocking; -1 until it is made */
};

/* How soon a rank that waits for others asks the store whether one of them gave
 * up; then twice as long, up to eight seconds. A second; a test makes it less.
 */
extern int64_t comm_meet_look_us;

/* Some ranks of the handle's round: this one is `rank` of `world` of them. The
 * place borrows the handle. */
static inline struct comm_place
comm_place_of(struct ddp *d, uint32_t id, int rank, int world)
{
    return (struct comm_place){.instance = d->instance,
                               .round = d->round,
                               .key = {d->round_key[0], d->round_key[1]},
                               .strangers = &d->strangers,
                               .id = id,
                               .rank = rank,
                               .world = world,
                               .spans_nodes = d->world > d->local_world};
}

/*
 * Makes all `links` (each of them once, those to one rank side by side, at most
 * COMM_LINKS_MAX). Borrows everything for the call. The descriptors are the
 * caller's to close, on error too, as far as they are not -1.
 *
 * Errors: those of the store; TIMEOUT (not all came until the deadline, the
 * text names them); PEER (one gave up, see below); PROTO (one refused us: it is
 * in another round, say, or what answered has not the key of ours); NOMEM;
 * CONFIG. Where a rank could not be reached, the text has its address and port.
 *
 * A rank that dies before the others have connected to it is not noticed here
 * but by the deadline.
 */
int comm_meet(const struct comm_place *place,
              struct store_client *store,
              struct comm_link *links,
              size_t nlinks,
              int64_t deadline_us,
              struct ddp_err *err);

/*
 * This rank found by itself that it cannot make the communicator (no memory, no
 * GPU, wrong options), before or while it met the others: they hear it, with
 * `why`, and need not wait until their deadline. Best effort.
 */
void comm_meet_give_up(const struct comm_place *place,
                       struct store_client *store,
                       const struct ddp_err *why);

#endif
