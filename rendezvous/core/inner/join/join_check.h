/*
 * core/inner/join/join_check: inside the rendezvous core: who is refused. If
 * one of these says false, the node was told why, and its connection is closed.
 * Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_JOIN_CHECK_H
#define RENDEZVOUS_CORE_INNER_JOIN_JOIN_CHECK_H

#include "rendezvous/core/inner/state/node.h"

/* Answers with what is wrong, and closes the connection. */
void join_refuse(struct rdzv *r,
                 int conn,
                 const struct msg_join *j,
                 enum ddp_code code,
                 const char *fmt,
                 ...) __attribute__((format(printf, 5, 6)));

/* Whether a join makes sense by itself. */
bool join_is_sound(struct rdzv *r, const struct msg_join *j, int conn);

/* Whether it is of that run. What must agree between nodes of a run does, else
 * somebody else's job on the same endpoint could become our spare; and no other
 * launcher of the run has its place or its GPUs; as long as it is not sure that
 * such a one lives, the node is only sent away, to come again. */
bool join_agrees(struct rdzv *r,
                 const struct run *run,
                 const struct msg_join *j,
                 int conn);

#endif
