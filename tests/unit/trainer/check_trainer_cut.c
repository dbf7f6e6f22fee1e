/* links: trainer/cut worker_rt/snapshot/safetensors */
/* links: rendezvous/base/{err,buf,json,utf8} worker_rt/comm/reduce */
/* libs: -lcjson */
/*
 * Runs of a tensor's elements as boxes: all runs of a few tensors, compared
 * element by element.
 */
#include <check.h>

#include "tests/lib/suite.h"
#include "trainer/cut.h"

static const struct ddp_tensor tensors[] = {
    {"one", DDP_F32, 1, {7}, NULL},
    {"rows", DDP_F32, 2, {5, 3}, NULL},
    {"flat", DDP_F32, 2, {1, 6}, NULL},
    {"thin", DDP_F32, 3, {4, 1, 3}, NULL},
    {"conv", DDP_F32, 4, {3, 2, 3, 2}, NULL},
};
#define TENSORS ((int)(sizeof(tensors) / sizeof(tensors[0])))

/* Which element of the whole tensor the n-th of the piece is. */
static uint64_t place_of(const struct ddp_piece *p, uint64_t n)
{
    uint64_t place = 0, step = 1;
    for (int d = p->local.dims - 1; d >= 0; d--) {
        place += step * (p->offset[d] + n % p->local.shape[d]);
        step *= p->whole[d];
        n /= p->local.shape[d];
    }
    return place;
}

/* All elements of the run are there, once and in order, and no others. */
static void check_run(const struct ddp_tensor *t, uint64_t from, uint64_t to)
{
    static float data[64];
    struct ddp_tensor whole = *t;
    struct ddp_piece pieces[CUT_MAX(4)];
    uint64_t next = from;
    whole.data = data;
    size_t n = cut_pieces(&whole, from, to, pieces);
    ck_assert_uint_le(n, (size_t)CUT_MAX(t->dims));
    for (size_t i = 0; i < n; i++) {
        const struct ddp_piece *p = &pieces[i];
        ck_assert_ptr_eq(p->local.name, t->name);
        ck_assert_ptr_eq(p->local.data, data + (next - from));
        for (int d = 0; d < t->dims; d++) {
            ck_assert_uint_eq(p->whole[d], t->shape[d]);
            ck_assert_uint_le(p->offset[d] + p->local.shape[d], t->shape[d]);
        }
        uint64_t len = ddp_tensor_len(&p->local) / sizeof(float);
        ck_assert_uint_gt(len, 0);
        for (uint64_t k = 0; k < len; k++)
            ck_assert_uint_eq(place_of(p, k), next++);
    }
    ck_assert_uint_eq(next, to);
}

TEST_LOOP(test_cut_pieces_are_the_run, 0, TENSORS)
{
    const struct ddp_tensor *t = &tensors[_i];
    uint64_t len = ddp_tensor_len(t) / sizeof(float);
    for (uint64_t from = 0; from <= len; from++)
        for (uint64_t to = from; to <= len; to++)
            check_run(t, from, to);
}

/* A run of whole rows is one piece, and so is the whole tensor. */
TEST(test_cut_rows_stay_in_one_piece)
{
    struct ddp_piece pieces[CUT_MAX(4)];
    const struct ddp_tensor *conv = &tensors[TENSORS - 1];
    ck_assert_uint_eq(cut_pieces(conv, 0, 36, pieces), 1);
    ck_assert_uint_eq(cut_pieces(conv, 12, 36, pieces), 1);
    ck_assert_uint_eq(pieces[0].offset[0], 1);
    ck_assert_uint_eq(pieces[0].local.shape[0], 2);
}

SUITE("trainer_cut", "cut", .tags = "fast")
