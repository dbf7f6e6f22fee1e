/*
 * tests/lib/rt_pieces: some tensors that a job has as a whole, and the pieces
 * of them that the ranks of a world hold, drawn by a seed. Every element is a
 * function of step and place, so whatever piece is loaded can be checked.
 */
#ifndef RT_PIECES_H
#define RT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker_rt/ddp.h"

#define PIECES_TENSORS 6
#define PIECES_MAX     256 /* of a rank */

/* Whole, without data. */
extern const struct ddp_tensor pieces_tensors[PIECES_TENSORS];

/* How a layout may be drawn. */
enum pieces_kind {
    PIECES_ANY,     /* each tensor in a way of its own */
    PIECES_SHARDED, /* along the first dim, as FSDP does; scalars are copied */
    PIECES_COPIED,  /* all ranks have all of it, as DDP does */
};

/* The pieces of one rank. */
struct pieces {
    struct ddp_piece list[PIECES_MAX]; /* with data, owned */
    size_t n;
};

/* Those of `rank` in a world of `world`. */
void pieces_draw(struct pieces *p,
                 enum pieces_kind kind,
                 uint64_t seed,
                 int world,
                 int rank);
void pieces_free(struct pieces *p);

/* Their values after `step`; nonsense; whether they have these values. */
void pieces_fill(struct pieces *p, int64_t step);
void pieces_spoil(struct pieces *p);
bool pieces_right(const struct pieces *p, int64_t step);

/* A ddp_want_fn that wants them all; `ctx` is a struct pieces. */
bool pieces_want(void *ctx,
                 const struct ddp_tensor *whole,
                 size_t i,
                 struct ddp_piece *want);

#endif
