/*
 * launcher/rdzv/own_join: what this node says of itself when it joins.
 */
#ifndef LAUNCHER_RDZV_OWN_JOIN_H
#define LAUNCHER_RDZV_OWN_JOIN_H

#include "launcher/conf/conf.h"
#include "rendezvous/proto/msg.h"

/* Fills a first join, with a new random name for this agent. The caller adds
 * what changes: state, round, term. `store_port` (1 to 65535) is where this
 * launcher would serve the workers' store. */
void own_join(const struct conf *c, int store_port, struct msg_join *j);

#endif
