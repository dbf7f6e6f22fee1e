/*
 * worker_rt/snapshot/mirror: copies of images for another node, and of other
 * nodes'. This rank's images go to one rank, and those of some ranks come here,
 * each on a communicator of two, while the program goes on. A thread for each
 * of these, which blocks all signals, does it; a sender uses half of the link
 * at most.
 *
 * A mirror is an image with its label in one of the slots behind a rank's own,
 * two for each rank that sends. Who loads it need not know that it is one.
 */
#ifndef WORKER_RT_SNAPSHOT_MIRROR_H
#define WORKER_RT_SNAPSHOT_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/snapshot/mem_slots.h"

struct mirror;

enum mirror_state {
    MIRROR_FREE, /* nothing is on its way: nothing was, or it came to nothing */
    MIRROR_BUSY,
    MIRROR_DONE, /* the other node has it */
    MIRROR_ENDED /* there will be no more in either direction */
};

/* With which ranks: in each communicator the sender is rank 0. */
struct mirror_ways {
    struct ddp_comm *to;
    struct slot_label like; /* instance, round and world of all that comes */
    struct {
        struct ddp_comm *comm;
        int rank; /* the sender's, in that world */
        int keep; /* the slot of a mirror that is needed until the next one is,
                   * of the two for this sender; -1: none */
    } from[SNAPSHOT_MIRRORED_MAX];
    int nfrom;
};

/* The first slot of the two for the i-th sender. */
static inline int mirror_slot(int i)
{
    return SNAPSHOT_SLOTS_OWN + i * SNAPSHOT_SLOTS_MIRROR;
}

/* Gives up what has been made of them. */
void mirror_ways_leave(const struct mirror_ways *ways);

/* Takes the communicators over, and borrows the memory until mirror_free. NULL:
 * NOMEM. */
struct mirror *mirror_new(struct mem_slots *memory,
                          const struct mirror_ways *ways,
                          struct ddp_err *err);

/* Ends what is on its way. NULL is allowed. */
void mirror_free(struct mirror *m);

/* Sends what is in that slot, which nobody may take meanwhile; -1: there is
 * nothing to send, and it is done. None is on its way. `number`: of the save,
 * the same on all ranks; from now on that of the other node may come.
 * `own_len`: how long this rank's images are now, for which memory must be
 * left. */
void mirror_send(struct mirror *m, int slot, int64_t number, uint64_t own_len);

/* How that goes. Ended: `why` has a text if the reason was found here. */
enum mirror_state mirror_look(struct mirror *m, struct ddp_err *why);

/* All ranks know that the transfer is done: what came here last is what is
 * kept. With `done` false: that it came to nothing, and there may be another.
 */
void mirror_settle(struct mirror *m, bool done);

#endif
