/*
 * launcher/former: what this launch leaves for a later one of the run on this
 * host, should it die, and what it says of those that died before it. A node
 * whose place is held by a dead launch has it back at once, and not when that
 * one's lease is over.
 */
#ifndef LAUNCHER_FORMER_H
#define LAUNCHER_FORMER_H

#include <stdbool.h>

#include "rendezvous/proto/msg.h"

struct agent;
struct rdzv_client;

/* Writes into this launch's lock who it is now. `held`: its workers may run. */
void former_leave(const struct agent *a,
                  const struct rdzv_client *client,
                  bool held);

/* A message of that kind is about to be sent. What it binds this node to is
 * written before, so that it is known of it even if it is killed now. */
void former_before(const struct agent *a,
                   const struct rdzv_client *client,
                   enum msg_kind kind);

/* The agent has dealt with this message. If the server waits for somebody it is
 * told of each launch of the run on this host that is dead. */
void former_after(const struct agent *a,
                  struct rdzv_client *client,
                  const struct msg *m);

#endif
