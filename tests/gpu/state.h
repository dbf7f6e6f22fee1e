/*
 * tests/gpu/state: a model's state in GPU memory, as GPT-2 with 124 million
 * parameters and Adam's averages has it: 148 tensors, 1.5 GB.
 */
#ifndef GPU_STATE_H
#define GPU_STATE_H

#include "tests/gpu/card.h"
#include "worker_rt/ddp.h"

#define STATE_TENSORS 148

struct state {
    struct ddp_tensor tensors[STATE_TENSORS];
    char names[STATE_TENSORS][16];
    size_t each; /* bytes of a tensor */
};

/* `len` bytes, less a part of a float for each tensor. */
static inline void state_make(struct state *s, uint64_t len)
{
    uint64_t floats = len / STATE_TENSORS / 4;
    s->each = (size_t)floats * 4;
    for (int i = 0; i < STATE_TENSORS; i++) {
        (void)snprintf(s->names[i], sizeof(s->names[i]), "t%03d", i); /* fits */
        s->tensors[i] =
            (struct ddp_tensor){.name = s->names[i],
                                .dtype = DDP_F32,
                                .dims = 1,
                                .shape = {floats},
                                .data = card_alloc(s->each, (uint8_t)i)};
    }
}

#endif
