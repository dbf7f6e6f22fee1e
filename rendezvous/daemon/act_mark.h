/*
 * daemon/act_mark: when a server that was here before acted last. A server
 * keeps that in a page that outlives it, and a lock on it as long as it lives.
 * So the next one on this machine, at the same port, knows that it is dead, and
 * whom it cannot have given up (core/rdzv.h, rdzv_before). Best effort: without
 * it the next server waits longer.
 */
#ifndef RENDEZVOUS_DAEMON_ACT_MARK_H
#define RENDEZVOUS_DAEMON_ACT_MARK_H

#include "rendezvous/core/rdzv.h"

struct act_mark;

/* For a server of this id that listens on that port. `before` tells of the one
 * before it, or has an empty id. NULL: there can be no mark here. Owned by the
 * caller. */
struct act_mark *
act_mark_open(int port, const char *id, struct rdzv_before *before);

/* The server acts at that time, from now on; costs no system call. `mark` may
 * be NULL. */
void act_mark_set(struct act_mark *mark, int64_t now_us);

/* Lets go of it. The page stays if the next server may need it (`keep`); what a
 * server that was killed left goes an hour after that, when another one opens
 * its own. */
void act_mark_close(struct act_mark *mark, bool keep);

#endif
