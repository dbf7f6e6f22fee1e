/*
 * ctl/command: sends one order to a rendezvous and reads its answer.
 */
#ifndef RENDEZVOUS_CTL_COMMAND_H
#define RENDEZVOUS_CTL_COMMAND_H

#include "rendezvous/ctl/line.h"
#include "rendezvous/proto/msg.h"

/*
 * Sends `order` on a connection of its own. 0: it is carried out, and `text`
 * says what happens now. Errors: those of ctl_line; DDP_E_PROTO; a refusal has
 * the code and the words of the rendezvous.
 */
int ctl_order(const struct ctl_peer *peer,
              const struct msg *order,
              int64_t deadline_us,
              char text[512],
              struct ddp_err *err);

/* Borrows `text`, one line or more, for the call. */
typedef void (*ctl_take)(void *ctx, const char *text);

/* The same of an order for stacks. `take` gets the answer, with a colon behind
 * it, and then what the node shows, piece by piece: the node may take a while
 * beyond the deadline for it. DDP_E_PEER: one that is absent, or
 * falls silent, or too many workers are looked at. */
int ctl_order_shown(const struct ctl_peer *peer,
                    const struct msg *order,
                    int64_t deadline_us,
                    ctl_take take,
                    void *ctx,
                    struct ddp_err *err);

#endif
