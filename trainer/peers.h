/*
 * trainer/peers: errors that a rank learns from the others or shares with them,
 * and whether all ranks have the same.
 */
#ifndef TRAINER_PEERS_H
#define TRAINER_PEERS_H

#include <stdint.h>

#include "trainer/trainer.h"

/* After a collective that failed: says in `err`, whose text names the rank that
 * is to blame, at which step. Returns -1. */
int peers_lost(struct trainer *t, struct ddp_error *err);

/* For an error that every rank finds at the same time, from the same numbers:
 * rank 0 tells it, the others only leave. Returns -1. */
int peers_fail_alike(struct trainer *t);

/* Collective: whether all ranks have the same n integers: 0, or which one of
 * (W,n) is the first that is not rank 0's. -1 on error: NOMEM, and those of
 * ddp_comm_allgather. */
int peers_compare(struct trainer *t,
                  const int64_t *mine,
                  int n,
                  struct ddp_error *err);

#endif
