/* links: worker_rt/snapshot/{pieces,safetensors} rendezvous/base/{rng,err} */
#include "tests/lib/rt_pieces.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/rt_world.h"
#include "worker_rt/snapshot/pieces.h"

const struct ddp_tensor pieces_tensors[PIECES_TENSORS] = {
    {"scalar", DDP_F32, 0, {0}, NULL},
    {"vector", DDP_I64, 1, {13}, NULL},
    {"matrix", DDP_F32, 2, {12, 10}, NULL},
    {"cube", DDP_BF16, 3, {6, 5, 7}, NULL},
    {"empty", DDP_F32, 2, {0, 4}, NULL},
    {"bytes", DDP_U8, 4, {3, 4, 5, 2}, NULL},
};

/* -- a layout -------------------------------------------------------------- */

static void add(struct pieces *p, const struct ddp_piece *piece)
{
    uint64_t len = ddp_tensor_len(&piece->local);
    RT_CHECK(p->n < PIECES_MAX);
    p->list[p->n] = *piece;
    p->list[p->n].local.data = malloc((size_t)len + 1);
    RT_CHECK(p->list[p->n++].local.data != NULL);
}

/* The part from `at` on, `n` long, along one dim. */
static void add_slice(struct pieces *p,
                      const struct ddp_piece *of,
                      int dim,
                      uint64_t at,
                      uint64_t n)
{
    struct ddp_piece piece = *of;
    uint64_t all = of->local.shape[dim];
    at = at > all ? all : at;
    piece.offset[dim] += at;
    piece.local.shape[dim] = n > all - at ? all - at : n;
    add(p, &piece);
}

/* As FSDP cuts: the last ranks may have less, or nothing. */
static void add_chunk(
    struct pieces *p, const struct ddp_piece *of, int dim, int world, int rank)
{
    uint64_t chunk =
        (of->local.shape[dim] + (uint64_t)world - 1) / (uint64_t)world;
    add_slice(p, of, dim, (uint64_t)rank * chunk, chunk);
}

/* Two ranks side by side share the columns, the others the rows. */
static void
add_cell(struct pieces *p, const struct ddp_piece *of, int world, int rank)
{
    struct ddp_piece half = *of;
    uint64_t all = half.local.shape[1], left = all / 3;
    half.offset[1] = rank % 2 == 0 ? 0 : left;
    half.local.shape[1] = rank % 2 == 0 ? left : all - left;
    add_chunk(p, &half, 0, world / 2, rank / 2);
}

/* Row after row to the next rank: several pieces for each. */
static void add_rows(struct pieces *p,
                     const struct ddp_piece *of,
                     uint64_t rows,
                     int world,
                     int rank)
{
    uint64_t all = of->local.shape[0];
    for (uint64_t at = (uint64_t)rank * rows; at < all;
         at += (uint64_t)world * rows)
        add_slice(p, of, 0, at, rows);
}

/* Cut anywhere; each part on some rank, some of them on a second one. */
static void add_some(struct pieces *p,
                     const struct ddp_piece *of,
                     struct rng *r,
                     int world,
                     int rank)
{
    struct ddp_piece parts[8] = {*of};
    size_t n = 1;
    while (n < 8) {
        struct ddp_piece *cut = &parts[rng_below(r, (uint32_t)n)];
        uint32_t dim = rng_below(r, (uint32_t)of->local.dims);
        uint64_t at = rng_below(r, (uint32_t)cut->local.shape[dim] + 1);
        parts[n] = *cut;
        parts[n].offset[dim] += at;
        parts[n++].local.shape[dim] -= at;
        cut->local.shape[dim] = at;
    }
    for (size_t i = 0; i < n; i++) {
        int one = (int)rng_below(r, (uint32_t)world);
        int two = (int)rng_below(r, 3 * (uint32_t)world);
        bool again = false; /* cuts at an edge leave the same empty part */
        for (size_t j = 0; j < i; j++)
            again |= piece_same_part(&parts[i], &parts[j]);
        if (!again && (rank == one || rank == two))
            add(p, &parts[i]);
    }
}

static void draw_tensor(struct pieces *p,
                        enum pieces_kind kind,
                        const struct ddp_tensor *t,
                        struct rng *r,
                        int world,
                        int rank)
{
    struct ddp_piece whole = piece_of_tensor(t);
    uint32_t way = rng_below(r, 5);
    bool copied = kind == PIECES_COPIED ||
                  (kind == PIECES_SHARDED ? t->dims == 0 : way == 0);
    if (copied)
        add(p, &whole);
    else if (t->dims == 0) {
        if (rank == (int)rng_below(r, (uint32_t)world))
            add(p, &whole);
    } else if (kind == PIECES_SHARDED || way == 1)
        add_chunk(p, &whole, 0, world, rank);
    else if (way == 2 && t->dims > 1 && world % 2 == 0)
        add_cell(p, &whole, world, rank);
    else if (way == 3 && t->shape[0] > 0)
        add_rows(p, &whole, 1 + rng_below(r, 2), world, rank);
    else
        add_some(p, &whole, r, world, rank);
}

void pieces_draw(
    struct pieces *p, enum pieces_kind kind, uint64_t seed, int world, int rank)
{
    p->n = 0;
    for (uint64_t t = 0; t < PIECES_TENSORS; t++) {
        struct rng r;
        rng_init(&r, seed * PIECES_TENSORS + t);
        draw_tensor(p, kind, &pieces_tensors[t], &r, world, rank);
    }
}

void pieces_free(struct pieces *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->list[i].local.data);
    p->n = 0;
}

/* -- values ---------------------------------------------------------------- */

/* The i-th byte of the element that is the n-th of the whole tensor. */
static uint8_t value(int64_t step, const char *name, uint64_t n, size_t i)
{
    return (uint8_t)(step * 59 + name[0] * 31 + (int64_t)n * 7 +
                     (int64_t)(n / 251) + (int64_t)i * 3);
}

/* Which element of the whole the e-th of the piece is. */
static uint64_t place(const struct ddp_piece *p, uint64_t e)
{
    uint64_t n = 0, times = 1;
    for (int d = p->local.dims - 1; d >= 0; d--) {
        n += (p->offset[d] + e % p->local.shape[d]) * times;
        e /= p->local.shape[d];
        times *= p->whole[d];
    }
    return n;
}

void pieces_fill(struct pieces *p, int64_t step)
{
    for (size_t k = 0; k < p->n; k++) {
        const struct ddp_piece *piece = &p->list[k];
        size_t elem = ddp_dtype_size(piece->local.dtype);
        uint8_t *data = piece->local.data;
        for (uint64_t e = 0; e < piece_count(piece); e++)
            for (size_t i = 0; i < elem; i++)
                *data++ = value(step, piece->local.name, place(piece, e), i);
    }
}

void pieces_spoil(struct pieces *p)
{
    for (size_t k = 0; k < p->n; k++)
        memset(p->list[k].local.data, 0xee,
               (size_t)ddp_tensor_len(&p->list[k].local));
}

bool pieces_right(const struct pieces *p, int64_t step)
{
    for (size_t k = 0; k < p->n; k++) {
        const struct ddp_piece *piece = &p->list[k];
        size_t elem = ddp_dtype_size(piece->local.dtype);
        const uint8_t *data = piece->local.data;
        for (uint64_t e = 0; e < piece_count(piece); e++)
            for (size_t i = 0; i < elem; i++)
                if (*data++ !=
                    value(step, piece->local.name, place(piece, e), i))
                    return false;
    }
    return true;
}

bool pieces_want(void *ctx,
                 const struct ddp_tensor *whole,
                 size_t i,
                 struct ddp_piece *want)
{
    const struct pieces *p = ctx;
    for (size_t k = 0; k < p->n; k++) {
        const struct ddp_piece *piece = &p->list[k];
        if (strcmp(piece->local.name, whole->name) != 0 || i-- > 0)
            continue;
        memcpy(want->offset, piece->offset, sizeof(want->offset));
        memcpy(want->local.shape, piece->local.shape,
               sizeof(want->local.shape));
        want->local.data = piece->local.data;
        return true;
    }
    return false;
}
