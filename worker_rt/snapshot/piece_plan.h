/*
 * worker_rt/snapshot/piece_plan: what of a rank's pieces goes into its image,
 * under which names, and what the header says of them. Pure. It is made when
 * the pieces change; a save only fills in where their data lies.
 */
#ifndef WORKER_RT_SNAPSHOT_PIECE_PLAN_H
#define WORKER_RT_SNAPSHOT_PIECE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"
#include "worker_rt/ddp.h"
#include "worker_rt/snapshot/pieces.h"
#include "worker_rt/snapshot/safetensors.h"

struct piece_plan_tensor;

/* All zero: no tensor, and nothing to free. */
struct piece_plan {
    size_t n;
    struct piece_plan_tensor *tensors; /* (n) */
    struct safetensors_pair *pairs;    /* of libddp, for the header */
    size_t npairs;
    struct buf torch; /* that pair's value */
    char rank[24];
    char names[PIECE_NAMES_DIGITS + 1];
};

/* USAGE: a piece has no usable name or no data, or reaches beyond its whole. */
int piece_plan_check(const struct ddp_piece *pieces,
                     size_t n,
                     struct ddp_err *err);

/* USAGE: one of those that passed is there twice. NOMEM. */
int piece_plan_check_twice(const struct ddp_piece *pieces,
                           size_t n,
                           struct ddp_err *err);

/* Of pieces that passed both, those that this rank stores. `names`: the hash
 * that pieces_survey made. USAGE (a name is too long with its suffix), NOMEM.
 * The caller frees it in either case. */
int piece_plan_make(struct piece_plan *p,
                    const struct ddp_piece *pieces,
                    size_t n,
                    const bool *stores,
                    int rank,
                    int world,
                    uint64_t names,
                    struct ddp_err *err);
void piece_plan_free(struct piece_plan *p);

/* The `p->n` tensors of the image: of pieces that are the same but for their
 * data. The names are the plan's. */
void piece_plan_fill(const struct piece_plan *p,
                     const struct ddp_piece *pieces,
                     struct ddp_tensor *tensors);

#endif
