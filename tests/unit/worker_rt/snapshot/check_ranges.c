/* links: worker_rt/snapshot/{ranges,snapshot,safetensors} */
/* links: worker_rt/comm/reduce rendezvous/base/{err,buf,json,utf8} */
/* libs: -lcjson -lxxhash */
/*
 * What one rank asks another for of an image, and the parts of the answer.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "worker_rt/snapshot/ranges.h"

static struct safetensor tensors[3] = {{.begin = 0, .end = 100},
                                       {.begin = 100, .end = 100},
                                       {.begin = 100, .end = 140}};
static const struct safetensors header = {.tensors = tensors, .ntensors = 3};

static const struct asked {
    struct image_range ranges[2];
    size_t n;
    int64_t bytes; /* -1: it makes no sense */
    bool there;
} asked[] = {
    {{{0, 0, 100}}, 1, 100, true},
    {{{0, 10, 11}, {2, 0, 40}}, 2, 41, true},
    {{{2, 39, 40}}, 1, 1, true},
    {{{0, 0, 101}}, 1, 101, false},
    {{{1, 0, 1}}, 1, 1, false}, /* that one has no bytes */
    {{{2, 1, 41}}, 1, 40, false},
    {{{3, 0, 1}}, 1, 1, false},
    {{{UINT64_MAX, 0, 1}}, 1, 1, false},
    {{{0, UINT64_MAX - 1, UINT64_MAX}}, 1, 1, false},
    {{{0, 5, 5}}, 1, -1, false},
    {{{0, 6, 5}}, 1, -1, false},
    {{{0, UINT64_MAX, 5}}, 1, -1, false},
    {{{2, 0, 1}, {0, 0, 1}}, 2, -1, false},
    {{{0, 0, 1}, {0, 1, 2}}, 2, -1, false},
    {{{0, 0, UINT64_MAX}}, 1, -1, false},
    {{{0, 0, INT64_MAX}, {2, 0, 1}}, 2, -1, false},
};
#define ASKED ((int)(sizeof(asked) / sizeof(asked[0])))

TEST_LOOP(test_ranges_that_make_no_sense_are_refused, 0, ASKED)
{
    const struct asked *a = &asked[_i];
    struct ddp_err err;
    uint64_t bytes;
    int rc = ranges_count(a->ranges, a->n, &bytes, &err);
    ck_assert_int_eq(rc, a->bytes < 0 ? -1 : 0);
    if (rc != 0) {
        ck_assert_int_eq(err.code, DDP_E_PROTO);
        return;
    }
    ck_assert_uint_eq(bytes, (uint64_t)a->bytes);
    rc = ranges_check(a->ranges, a->n, &header, &err);
    ck_assert_int_eq(rc, a->there ? 0 : -1);
    if (rc != 0)
        ck_assert_int_eq(err.code, DDP_E_PROTO);
}

#define DATA 1000

static struct ranges_part *make_part(void)
{
    struct ranges_part *p = calloc(1, sizeof(*p) + DATA);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < DATA; i++)
        p->data[i] = (uint8_t)(7 * i);
    return p;
}

/* No bit of a part may change on its way, of whatever length it is. */
TEST(test_ranges_part_with_another_bit_is_refused)
{
    const size_t lens[] = {1, 255, DATA};
    struct ranges_part *p = make_part();
    struct ddp_err err;
    for (size_t l = 0; l < 3; l++) {
        size_t all = sizeof(*p) + lens[l];
        ranges_seal(p, lens[l], NULL);
        ck_assert_int_eq(ranges_open(p, lens[l], &err), 0);
        for (size_t bit = 0; bit < 8 * all; bit++) {
            ((uint8_t *)p)[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (ranges_open(p, lens[l], &err) == 0 || err.code != DDP_E_CORRUPT)
                ck_abort_msg("bit %zu", bit);
            ((uint8_t *)p)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        ck_assert_int_eq(ranges_open(p, lens[l], &err), 0);
    }
    free(p);
}

TEST(test_ranges_part_tells_why_there_is_no_more)
{
    struct ranges_part *p = make_part();
    struct ddp_err why, err;
    (void)ddp_err_set(&why, DDP_E_IO, "the disk\nfails");
    ranges_seal(p, DATA, &why);
    ck_assert_int_eq(ranges_open(p, DATA, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CORRUPT);
    ck_assert_str_eq(err.text, "the disk?fails");
    ranges_seal(p, DATA, NULL); /* and none is left of it */
    ck_assert_int_eq(ranges_open(p, DATA, &err), 0);
    free(p);
}

SUITE("ranges", "ranges")
