/*
 * worker_rt/comm/same_call: whether all ranks are in the same collective. The
 * wire finds out by the head of each message; NCCL has none, and waits for ever
 * or adds up garbage. With DDP_CHECK=1 the ranks compare what they call over
 * the control first, which costs a small all-gather each time, or a message
 * from the one that sends to the one that receives.
 */
#ifndef WORKER_RT_COMM_SAME_CALL_H
#define WORKER_RT_COMM_SAME_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "worker_rt/comm/comm.h"

/* Whether the environment asks for it. */
bool same_call_wanted(void);

/* Collective on `control`. CONFLICT, on all ranks: two of them differ, the text
 * says in what. The errors of the control. */
int same_call_check(struct ddp_comm *control,
                    const struct comm_call *mine,
                    struct ddp_err *err);

/*
 * For sends and receives: each pair of ranks that `control` connects compares
 * what one sends with what the other receives; both do so in the same order.
 * CONFLICT: they differ; the other rank hears it from this one. The errors of
 * the control, and NOMEM.
 */
int same_call_between(struct ddp_comm *control,
                      const struct comm_call *calls,
                      size_t n,
                      struct ddp_err *err);

#endif
