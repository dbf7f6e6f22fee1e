/*
 * worker_rt/comm/same_call: whether all ranks are in the same collective. The
 * wire finds out by the head of each message; NCCL has none, and waits for ever
 * or adds up garbage. With DDP_CHECK=1 the ranks compare what they call over
 * the control first, which costs a small all-gather each time.
 */
#ifndef WORKER_RT_COMM_SAME_CALL_H
#define WORKER_RT_COMM_SAME_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "worker_rt/comm/comm.h"

/* What must be the same on all ranks; 64-bit members only. */
struct same_call {
    int64_t kind; /* enum wire_kind */
    int64_t dtype;
    int64_t root;
    int64_t len; /* elements, or bytes */
};

/* Whether the environment asks for it. */
bool same_call_wanted(void);

/* Collective on `control`. CONFLICT, on all ranks: two of them differ, the text
 * says in what. The errors of the control. */
int same_call_check(struct ddp_comm *control,
                    const struct same_call *mine,
                    struct ddp_err *err);

#endif
