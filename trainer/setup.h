/*
 * trainer/setup: what a rank needs before its first step: a device, samples, a
 * model, an optimizer, and the certainty that the other ranks have the same.
 */
#ifndef TRAINER_SETUP_H
#define TRAINER_SETUP_H

#include "trainer/trainer.h"

/*
 * All that needs no peer, and the windows on it that a snapshot is made of
 * (`keep`). Wants `o`, `ddp`, `rank`, `world` and `progress`.
 * Errors: CONFIG (--device=cuda or --comm=nccl, and no GPU); those of data.h,
 * model.h and optim.h; NOMEM.
 */
int setup_own(struct trainer *t, struct ddp_error *err);

/* Collective. CONFLICT: a rank was started with other options or data than rank
 * 0. Such ranks would wait for each other in different collectives, or train
 * something meaningless without a sign. */
int setup_compare(struct trainer *t, struct ddp_error *err);

/* Collective: makes `nccl` for gradients that lie on GPUs, unless the options
 * say otherwise or two ranks share a GPU: NCCL wants one GPU for each rank. The
 * caller frees `nccl`, before `comm`. Errors: those of ddp_comm_new. */
int setup_nccl(struct trainer *t, struct ddp_error *err);

/* What setup_own made, whole or a part. */
void setup_free(struct trainer *t);

#endif
