/*
 * ctl/command: gives a rendezvous one order and hears its answer.
 */
#ifndef RENDEZVOUS_CTL_COMMAND_H
#define RENDEZVOUS_CTL_COMMAND_H

#include "rendezvous/ctl/line.h"
#include "rendezvous/proto/msg.h"

/*
 * Sends `order` on a connection of its own. 0: it is carried out, and `text`
 * says what happens now. Errors: those of ctl_line; DDP_E_PROTO; and whatever
 * the rendezvous refused it with, in its words.
 */
int ctl_order(const struct ctl_peer *peer,
              const struct msg *order,
              int64_t deadline_us,
              char text[512],
              struct ddp_err *err);

#endif
