/*
 * launcher/report/may_die: one line at the start of a job of variable size:
 * what it survives, and what not.
 */
#ifndef LAUNCHER_REPORT_MAY_DIE_H
#define LAUNCHER_REPORT_MAY_DIE_H

#include "launcher/conf/conf.h"
#include "rendezvous/proto/msg.h"

#define MAY_DIE_MAX 256

/* Of the first round, at the node with group rank 0. False: there is nothing
 * that a user would not expect, as with one node, nodes that must all be there,
 * or under static. */
bool may_die_describe(const struct conf *conf,
                      const struct msg_world *first,
                      char text[MAY_DIE_MAX]);

#endif
