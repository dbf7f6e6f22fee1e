/*
 * trainer/cut: a run of a tensor's elements as pieces of it. The optimizer's
 * state is an array that ranks share out in equal parts, wherever these end; a
 * snapshot knows boxes of tensors (struct ddp_piece).
 */
#ifndef TRAINER_CUT_H
#define TRAINER_CUT_H

#include <stddef.h>
#include <stdint.h>

#include "worker_rt/ddp.h"

/* Boxes that a run of a tensor of so many dims can be: they grow to the largest
 * and shrink again. */
#define CUT_MAX(dims) (2 * (dims)-1)

/*
 * Fills `pieces` with boxes that make up elements [from, to) of `whole`, in C
 * order. `whole` has at least one dim; its data is the element `from`. Borrows
 * its name and data as long as the pieces live. Returns how many there are.
 */
size_t cut_pieces(const struct ddp_tensor *whole,
                  uint64_t from,
                  uint64_t to,
                  struct ddp_piece *pieces);

#endif
