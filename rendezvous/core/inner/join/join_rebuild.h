/*
 * core/inner/join/join_rebuild: inside the rendezvous core: a round of a server
 * that is no more is taken over from what its members tell when they come. See
 * enum anchor in run.h for what is believed of whom. Nothing outside
 * rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_JOIN_REBUILD_H
#define RENDEZVOUS_CORE_INNER_JOIN_JOIN_REBUILD_H

#include "rendezvous/core/inner/state/node.h"

/* A spare tells its name, a member all of it. */
bool join_is_of_instance(const struct run *run, const struct msg_join *j);

/* Whether what it holds had been begun beside this run, and gives way to it:
 * the node is a newcomer here once it has stopped that. */
bool join_is_younger(const struct rdzv *r,
                     const struct run *run,
                     const struct msg_join *j);

/* Whether what it holds began while this run, which has ended, had not: had
 * both met, it would have given way. A server before us may have seen that, or
 * none. */
bool join_began_beside(const struct rdzv *r,
                       const struct run *run,
                       const struct msg_join *j);

/*
 * Whether it proves that another server was in charge since this one heard of
 * the run last, as when an address moves to a standby's host and back: what is
 * known here is out of date, and worth nothing. `known`: it is in that run
 * here.
 */
bool join_outdates(const struct run *run, const struct msg_join *j, bool known);

/* Whether what this node tells is news of its run. */
bool join_is_news(const struct rdzv *r,
                  const struct run *run,
                  const struct msg_join *j);

/*
 * A daemon that has no memory of a run takes the round over from what a node
 * tells of it. The other members are holes until they show up. A node that
 * knows a later round than the nodes that came first is believed.
 */
void join_rebuild(struct rdzv *r, struct run *run, const struct msg_join *j);

/* Whether it is the first to claim its place. A node that was lost and is back
 * does not fill the hole of another one, whose workers may still run. */
bool join_is_hole(const struct rdzv *r,
                  const struct run *run,
                  const struct msg_join *j);

/* A node that was a member of the round which was rebuilt takes its place. */
void join_fill_hole(struct rdzv *r,
                    struct run *run,
                    struct node *n,
                    const struct msg_join *j);

/* The member at that place said farewell: it does not come. */
void join_close_hole(struct rdzv *r, struct run *run, int group_rank);

/* What a server before us counted, as a node tells it. */
void join_restore(struct rdzv *r, struct run *run, const struct msg_join *j);

#endif
