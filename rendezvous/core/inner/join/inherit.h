/*
 * core/inner/join/inherit: inside the rendezvous core: the newest round,
 * which a server that is no more had sealed, in the hands of the one that was
 * elected. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_INHERIT_H
#define RENDEZVOUS_CORE_INNER_JOIN_INHERIT_H

#include "rendezvous/core/inner/state/node.h"

/* A spare tells its name, a member all of it. */
bool inherit_is_of_instance(const struct run *run, const struct msg_join *j);

/* Whether what it holds had been begun beside this run, and gives way to it:
 * the node is a newcomer here once it has stopped that. */
bool inherit_is_younger(const struct rdzv *r,
                        const struct run *run,
                        const struct msg_join *j);

/* The newest round that voters told of is the one that runs: a server that was
 * elected has it from now on. Its members are holes until they show up. */
void inherit_round(struct rdzv *r, struct run *run);

/* Whether it is the first to claim its place. A node that was lost and is back
 * does not fill the hole of another one, whose workers may still run. */
bool inherit_is_hole(const struct rdzv *r,
                     const struct run *run,
                     const struct msg_join *j);

/* A node that was a member of the round which was inherited takes its place. */
void inherit_fill_hole(struct rdzv *r,
                       struct run *run,
                       struct node *n,
                       const struct msg_join *j);

/* The member at that place said farewell: it does not come. */
void inherit_close_hole(struct rdzv *r,
                        struct run *run,
                        int group_rank,
                        bool done);

/* What a server before us counted, as a member tells it. Whether that made the
 * round larger is not told: the interval until the next time counts from when
 * the round began. */
void inherit_sums(struct rdzv *r, struct run *run, const struct msg_join *j);

#endif
