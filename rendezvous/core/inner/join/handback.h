/*
 * core/inner/join/handback: inside the rendezvous core: a daemon that is back
 * has its runs again. The nodes of a run that a launcher's server leads tell
 * the endpoint where it is (moved.h); a daemon there answers that it would have
 * the run, and the nodes pass that on to their server. When all voters have
 * said so of one daemon, that server sends all nodes to the endpoint, and knows
 * the run no more. Their promises elect the daemon, as if the server had died,
 * and no worker stops.
 *
 * Safety does not hang on this: the daemon leads by votes, or not at all, and
 * then the nodes look for another leader. So that they do not go to and fro,
 * each launcher passes no more offers of a daemon on to which it was sent.
 * Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_HANDBACK_H
#define RENDEZVOUS_CORE_INNER_JOIN_HANDBACK_H

#include "rendezvous/core/inner/state/node.h"

/* At the endpoint: `serves` came on `conn`, of a run that is not here. A
 * launcher's own server offers nothing. */
void handback_offer(struct rdzv *r, const struct msg_serves *s, int conn);

/* At the leader, from a node: the daemon of that term.id would have the run.
 */
void handback_hear(struct rdzv *r, struct node *n, const struct msg_serves *s);

#endif
