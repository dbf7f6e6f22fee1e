/*
 * worker_rt/proof: whether all that a snapshot rests on has completed.
 *
 * The law: no label without proof. A state rests on the collectives that were
 * begun before it was saved. One that only was enqueued on a GPU may still
 * fail, and what lies behind it on the stream goes on with data that was never
 * summed. So each of them draws a ticket, and a save notes the last one drawn,
 * its mark. The snapshot gets its label (in memory, or the name of its file)
 * when every ticket up to the mark is proven, and never if one of them failed.
 *
 * Why the proof of one rank is enough: a collective that completed here was
 * made of the parts of all ranks, and a rank on which anything failed gives no
 * part any more. When a communicator fails with open tickets, all
 * communicators of its handle fail (proof_failed, proof_stopped), before the
 * stream of the failed one goes on.
 *
 * All collectives of a handle count, of whatever communicator: so no program
 * has to say which ones a state rests on, and none is forgotten.
 */
#ifndef WORKER_RT_PROOF_H
#define WORKER_RT_PROOF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

/* A communicator's share. All zero: it has no ticket and belongs to none. */
struct proof_part {
    struct proof *of;
    struct proof_part *next;
    uint64_t newest; /* the last ticket that it drew */
    uint64_t oldest; /* a ticket, and none before it is open; 0: none is */
    uint64_t broken; /* it failed with no ticket open: no mark from here on is
                      * sound as long as it has not left; 0: it did not */
    /* For a part that draws tickets. `mark` notes on the device where ticket
     * `mark` ends; `prove` waits until that is reached, and calls proof_done or
     * proof_failed. Both are called by the thread that saves. */
    void (*mark)(struct proof_part *part, uint64_t mark);
    void (*prove)(struct proof_part *part, uint64_t mark);
};

/* Of a handle. */
struct proof {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t tickets;   /* drawn so far */
    uint64_t broken;    /* the first open ticket of a communicator that failed:
                         * no mark from here on is sound, for ever; 0: none */
    struct ddp_err why; /* the first failure, of either kind */
    uint32_t blame[2];  /* with `broken`: a struct wire_blame for the peers */
    struct proof_part *parts;
};

enum proof_state {
    PROOF_OPEN,
    PROOF_SOUND,
    PROOF_BROKEN
};

void proof_init(struct proof *p);
void proof_free(struct proof *p);

/* A communicator comes, and goes; one that goes with open tickets failed. */
void proof_join(struct proof *p, struct proof_part *part);
void proof_leave(struct proof_part *part);

/* Draws a ticket, after something was enqueued. On a part that has not joined
 * these three do nothing. */
void proof_draw(struct proof_part *part);

/* Its tickets up to `upto` are proven. */
void proof_done(struct proof_part *part, uint64_t upto);

/* The communicator failed, with `why`; the first failure counts. */
void proof_failed(struct proof_part *part,
                  const struct ddp_err *why,
                  const uint32_t blame[2]);

/* Whether a communicator of the same handle failed with open tickets: then -1,
 * with its error, and this one must end too. */
int proof_stopped(const struct proof_part *part,
                  uint32_t blame[2],
                  struct ddp_err *err);

/* The mark of what is saved now. */
uint64_t proof_mark(struct proof *p);

/* 0: all that was begun until now is proven; waits for it. -1: it failed. */
int proof_settle(struct proof *p, struct ddp_err *err);

/* Waits for the proof, in the thread that saves. Afterwards the mark is sound
 * or broken, unless another thread is in a collective. */
void proof_prove(struct proof *p, uint64_t mark);

/* With the reason if the mark is broken. */
enum proof_state
proof_look(struct proof *p, uint64_t mark, struct ddp_err *err);

/* As proof_look, but does not return PROOF_OPEN unless `*quit` is set, which
 * proof_wake tells. From any thread. */
enum proof_state proof_wait(struct proof *p,
                            uint64_t mark,
                            const atomic_bool *quit,
                            struct ddp_err *err);
void proof_wake(struct proof *p);

#endif
