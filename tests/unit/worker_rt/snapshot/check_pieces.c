/* links: worker_rt/snapshot/{pieces,safetensors,snapshot} */
/* links: worker_rt/comm/reduce rendezvous/base/{err,rng,buf,json,utf8} */
/* libs: -lcjson -lxxhash */
/*
 * Parts of tensors: where they meet, what they leave out, how they are copied,
 * written down and shared out. What is computed with boxes is compared with
 * what comes out element by element.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/suite.h"
#include "worker_rt/snapshot/pieces.h"

#define DIMS     4
#define DIM_MAX  5
#define ELEMS    625 /* DIM_MAX to the power of DIMS */
#define SEEDS    4000
#define PARTS    48
#define ELEM_MAX 8

static const enum ddp_dtype dtypes[] = {DDP_U8, DDP_BF16, DDP_F32, DDP_I64};

/* -- element by element ---------------------------------------------------- */

/* Some piece of a tensor of up to DIMS dims; the caller gives it data. */
static struct ddp_piece any_whole(struct rng *r)
{
    struct ddp_piece p = {.local = {.name = "w",
                                    .dtype = dtypes[rng_below(r, 4)],
                                    .dims = (int)rng_below(r, DIMS + 1)}};
    for (int i = 0; i < p.local.dims; i++)
        p.whole[i] = p.local.shape[i] =
            rng_below(r, 16) == 0 ? 0 : 1 + rng_below(r, DIM_MAX);
    return p;
}

static struct ddp_piece any_piece(struct rng *r, const struct ddp_piece *whole)
{
    struct ddp_piece p = *whole;
    for (int i = 0; i < p.local.dims; i++) {
        p.offset[i] = rng_below(r, (uint32_t)p.whole[i] + 1);
        p.local.shape[i] =
            rng_below(r, (uint32_t)(p.whole[i] - p.offset[i]) + 1);
    }
    return p;
}

/* The coordinates of the n-th element of the whole; false: it has fewer. */
static bool element(const struct ddp_piece *p, size_t n, uint64_t *at)
{
    for (int i = p->local.dims - 1; i >= 0; i--) {
        if (p->whole[i] == 0)
            return false;
        at[i] = n % p->whole[i];
        n /= p->whole[i];
    }
    return n == 0;
}

/* Which element of the piece's data that is; -1: it does not have it. */
static int place(const struct ddp_piece *p, const uint64_t *at)
{
    uint64_t n = 0;
    for (int i = 0; i < p->local.dims; i++) {
        if (at[i] < p->offset[i] || at[i] >= p->offset[i] + p->local.shape[i])
            return -1;
        n = n * p->local.shape[i] + at[i] - p->offset[i];
    }
    return (int)n;
}

static bool in_box(const struct piece_box *b, const uint64_t *at)
{
    for (int i = 0; i < b->dims; i++)
        if (at[i] < b->offset[i] || at[i] >= b->offset[i] + b->shape[i])
            return false;
    return true;
}

static void meet_and_copy(const struct ddp_piece *to,
                          const struct ddp_piece *from)
{
    static uint8_t here[ELEMS * ELEM_MAX], there[ELEMS * ELEM_MAX];
    struct ddp_piece a = *to, b = *from;
    struct piece_box box;
    uint64_t at[DDP_DIMS_MAX];
    size_t elem = ddp_dtype_size(a.local.dtype), both = 0, copied = 0;
    a.local.data = here;
    b.local.data = there;
    memset(here, 0xee, sizeof(here));
    for (size_t i = 0; i < sizeof(there); i++)
        there[i] = (uint8_t)(i * 7 % 200);
    bool meets = piece_meet(&a, &b, &box);
    if (meets)
        piece_copy(&a, &b, &box);
    for (size_t n = 0; element(&a, n, at); n++) {
        int in_a = place(&a, at), in_b = place(&b, at);
        if (in_a >= 0 && in_b >= 0) {
            both++;
            ck_assert(meets && in_box(&box, at));
            ck_assert_mem_eq(here + (size_t)in_a * elem,
                             there + (size_t)in_b * elem, elem);
        } else {
            ck_assert(!meets || !in_box(&box, at));
        }
    }
    for (size_t i = 0; i < sizeof(here); i++)
        copied += here[i] != 0xee;
    ck_assert_uint_eq(copied, both * elem); /* and nothing beside them */
    ck_assert(meets == (both > 0));
}

/* Any two pieces of a tensor: their intersection is what both have, and the
 * copy is that and no byte more. */
TEST(test_pieces_meet_where_both_have_an_element)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rng r;
        rng_init(&r, seed);
        struct ddp_piece whole = any_whole(&r);
        struct ddp_piece a = any_piece(&r, &whole), b = any_piece(&r, &whole);
        meet_and_copy(&a, &b);
        meet_and_copy(&a, &whole);
        meet_and_copy(&whole, &b);
        meet_and_copy(&b, &b);
    }
}

static struct ddp_piece piece(int dims,
                              const uint64_t *whole,
                              const uint64_t *offset,
                              const uint64_t *shape)
{
    struct ddp_piece p = {
        .local = {.name = "w", .dtype = DDP_F32, .dims = dims}};
    size_t len = (size_t)dims * sizeof(*whole);
    memcpy(p.whole, whole, len);
    memcpy(p.offset, offset, len);
    memcpy(p.local.shape, shape, len);
    return p;
}

#define PIECE2(o0, o1, s0, s1)                                                 \
    piece(2, (uint64_t[]){4, 6}, (uint64_t[]){o0, o1}, (uint64_t[]){s0, s1})

/* The edges of what a piece can be. */
TEST(test_pieces_edges)
{
    struct piece_box box;
    float one = 1, other = 2;
    struct ddp_piece scalar = {.local = {"w", DDP_F32, 0, {0}, &one}};
    struct ddp_piece twin = {.local = {"w", DDP_F32, 0, {0}, &other}};
    ck_assert(piece_meet(&scalar, &twin, &box) && piece_is_whole(&scalar));
    ck_assert_uint_eq(piece_count(&scalar), 1);
    piece_copy(&scalar, &twin, &box);
    ck_assert(one == other);

    struct ddp_piece left = PIECE2(0, 0, 4, 3), right = PIECE2(0, 3, 4, 3);
    struct ddp_piece top = PIECE2(0, 0, 2, 6), none = PIECE2(2, 3, 0, 3);
    ck_assert(!piece_meet(&left, &right, &box)); /* side by side */
    ck_assert(!piece_meet(&none, &right, &box) && piece_count(&none) == 0);
    ck_assert(piece_meet(&top, &right, &box) && box.offset[1] == 3 &&
              box.shape[0] == 2 && box.shape[1] == 3);
    ck_assert(piece_meet(&left, &left, &box) && box.shape[0] == 4 &&
              box.shape[1] == 3 && piece_same_part(&left, &left));
    ck_assert(!piece_is_whole(&left) && !piece_same_part(&left, &right));
}

static const struct {
    enum ddp_dtype dtype;
    int dims;
    uint64_t whole[2], offset[2], shape[2];
    bool good;
} checks[] = {
    {DDP_F32, 2, {4, 6}, {0, 0}, {4, 6}, true},
    {DDP_F32, 2, {4, 6}, {4, 6}, {0, 0}, true},
    {DDP_F32, 2, {4, 6}, {1, 0}, {4, 6}, false},
    {DDP_F32, 2, {4, 6}, {0, 7}, {4, 0}, false},
    {DDP_F32, 2, {4, 6}, {UINT64_MAX, 0}, {2, 6}, false},
    {DDP_F32, 2, {4, 6}, {2, 0}, {UINT64_MAX, 6}, false},
    {DDP_F32, 2, {UINT64_C(1) << 31, UINT64_C(1) << 33}, {0, 0}, {1, 1}, false},
    {DDP_U8, 2, {1 << 20, UINT64_C(1) << 33}, {0, 5}, {1, 1}, true},
    {DDP_F32, 2, {0, 6}, {0, 0}, {0, 3}, true},
    {DDP_F32, DDP_DIMS_MAX + 1, {0}, {0}, {0}, false},
    {DDP_F32, -1, {0}, {0}, {0}, false},
    {(enum ddp_dtype)0, 1, {1}, {0}, {1}, false},
};
#define CHECKS ((int)(sizeof(checks) / sizeof(checks[0])))

/* What lies within its whole is a piece, and nothing else is. */
TEST_LOOP(test_pieces_check_refuses_what_lies_outside, 0, CHECKS)
{
    struct ddp_err err = {.code = DDP_E_OK};
    struct ddp_piece p = {.local = {.name = "w",
                                    .dtype = checks[_i].dtype,
                                    .dims = checks[_i].dims}};
    memcpy(p.whole, checks[_i].whole, sizeof(checks[_i].whole));
    memcpy(p.offset, checks[_i].offset, sizeof(checks[_i].offset));
    memcpy(p.local.shape, checks[_i].shape, sizeof(checks[_i].shape));
    ck_assert_int_eq(piece_check(&p, &err), checks[_i].good ? 0 : -1);
    ck_assert_int_eq(err.code, checks[_i].good ? DDP_E_OK : DDP_E_USAGE);
    p.local.name = NULL;
    ck_assert_int_eq(piece_check(&p, &err), -1);
}

/* -- what is missing ------------------------------------------------------- */

/* Cuts a piece in two, again and again. */
static size_t cut(struct rng *r, struct ddp_piece *parts)
{
    size_t n = 1;
    for (uint32_t cuts = rng_below(r, 12); cuts > 0; cuts--) {
        struct ddp_piece *p = &parts[rng_below(r, (uint32_t)n)];
        if (p->local.dims == 0)
            break;
        uint32_t d = rng_below(r, (uint32_t)p->local.dims);
        uint64_t at = rng_below(r, (uint32_t)p->local.shape[d] + 1);
        parts[n] = *p;
        parts[n].offset[d] += at;
        parts[n++].local.shape[d] -= at;
        p->local.shape[d] = at;
    }
    return n;
}

static int by_order(const void *a, const void *b)
{
    return piece_order(a, b);
}

/* Of the elements of `want`, those that no part has; `*twice`: two different
 * parts have the same one. */
static uint64_t count_missing(const struct ddp_piece *want,
                              const struct ddp_piece *parts,
                              size_t n,
                              bool *twice)
{
    uint64_t at[DDP_DIMS_MAX], missing = 0;
    *twice = false;
    for (size_t e = 0; element(want, e, at); e++) {
        const struct ddp_piece *has = NULL;
        if (place(want, at) < 0)
            continue;
        for (size_t i = 0; i < n; i++) {
            if (place(&parts[i], at) < 0)
                continue;
            *twice |= has != NULL && !piece_same_part(has, &parts[i]);
            has = &parts[i];
        }
        missing += has == NULL;
    }
    return missing;
}

/* Parts of a tensor of which some are lost, some there twice, and sometimes one
 * overlaps others. */
TEST(test_pieces_missing_is_what_no_part_has)
{
    size_t holes = 0, overlaps = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct ddp_piece parts[PARTS];
        struct ddp_err err;
        struct rng r;
        bool twice;
        uint64_t missing;
        rng_init(&r, seed);
        struct ddp_piece whole = any_whole(&r);
        struct ddp_piece want =
            rng_below(&r, 2) == 0 ? whole : any_piece(&r, &whole);
        parts[0] = whole;
        size_t n = cut(&r, parts);
        for (uint32_t lost = rng_below(&r, 3); lost > 0 && n > 1; lost--, n--)
            parts[rng_below(&r, (uint32_t)n)] = parts[n - 1];
        for (uint32_t more = rng_below(&r, 3); more > 0; more--, n++)
            parts[n] = parts[rng_below(&r, (uint32_t)n)];
        if (rng_below(&r, 2) == 0)
            parts[n++] = any_piece(&r, &whole);
        const struct ddp_piece *sorted[PARTS];
        qsort(parts, n, sizeof(parts[0]), by_order);
        for (size_t i = 0; i < n; i++)
            sorted[i] = &parts[i];
        uint64_t count = count_missing(&want, parts, n, &twice);
        int rc = piece_missing(&want, sorted, n, &missing, &err);
        ck_assert_int_eq(rc, twice ? -1 : 0);
        if (twice)
            ck_assert_int_eq(err.code, DDP_E_CORRUPT);
        else
            ck_assert_uint_eq(missing, count);
        holes += !twice && count > 0;
        overlaps += twice;
    }
    ck_assert_uint_gt(holes, 100);
    ck_assert_uint_gt(overlaps, 100);
}

CASE("text")

/* -- text ------------------------------------------------------------------ */

TEST(test_pieces_text_is_read_as_it_was_written)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char text[PIECE_TEXT_MAX];
        struct ddp_err err;
        struct rng r;
        size_t len;
        rng_init(&r, seed);
        struct ddp_piece whole = any_whole(&r), again = {.local.dims = 0};
        struct ddp_piece p = any_piece(&r, &whole);
        unsigned nth = rng_below(&r, 3) == 0 ? 12 : 0;
        if (p.local.dims == 0)
            continue; /* such a tensor has no other part than itself */
        again.local = p.local;
        again.local.name = nth > 0 ? "w#1#12" : "w#1";
        piece_write(text, &p, nth);
        ck_assert_int_eq(piece_read(&again, text, &len, &err), 0);
        ck_assert_uint_eq(len, 3);
        ck_assert(piece_same_part(&again, &p) && piece_same_whole(&again, &p));
    }
}

TEST(test_pieces_longest_text_fits)
{
    char text[PIECE_TEXT_MAX];
    struct ddp_piece p = {.local = {.name = "w", .dims = DDP_DIMS_MAX}};
    for (int i = 0; i < DDP_DIMS_MAX; i++)
        p.whole[i] = p.offset[i] = UINT64_MAX;
    piece_write(text, &p, UINT32_MAX);
    ck_assert_uint_eq(strlen(text), 2 * (8 * 21 - 1) + 1 + 11);
}

static const char *const texts[] = {
    "",
    "@",
    "8,6",
    "8,6@",
    "8,6@0",
    "8@0",
    "8,6,1@0,0,0",
    "8,6@0,0#",
    "8,6@0,0#0",
    "8,6@0,0#01",
    "8,6@0,0#2",
    "8,6@0,0 ",
    " 8,6@0,0",
    "+8,6@0,0",
    "-8,6@0,0",
    "08,6@0,0",
    "8,6@0,00",
    "8,6@5,0",
    "8,6@0,4",
    "8;6@0,0",
    "8,6@0,18446744073709551616",
    "8,6@0,18446744073709551615",
    "18446744073709551615,6@0,0",
    "8,6@0,0#1#1",
    "8,6@0,0,",
    "8,6@0,0#99999999999999999999",
    "3,6@0,0",
    "8,2@0,0",
    "\xff,6@0,0",
};
#define TEXTS ((int)(sizeof(texts) / sizeof(texts[0])))

/* Of a tensor "w#1" of 4 x 3 elements: none of these says where it lies. */
TEST_LOOP(test_pieces_text_of_no_writer_is_refused, 0, TEXTS)
{
    struct ddp_err err;
    size_t len;
    struct ddp_piece p = {.local = {"w#1", DDP_F32, 2, {4, 3}, NULL}};
    ck_assert_int_eq(piece_read(&p, texts[_i], &len, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CORRUPT);
}

/* A suffix counts only where the value says so: a program may call a tensor
 * that. A scalar has no parts. */
TEST(test_pieces_suffix_of_a_name)
{
    struct ddp_err err;
    size_t len;
    struct ddp_piece p = {.local = {"w#1", DDP_F32, 2, {4, 3}, NULL}};
    ck_assert_int_eq(piece_read(&p, "8,6@4,3#1", &len, &err), 0);
    ck_assert_uint_eq(len, 1);
    ck_assert_int_eq(piece_read(&p, "8,6@4,3", &len, &err), 0);
    ck_assert_uint_eq(len, 3);
    ck_assert_int_eq(piece_read(&p, NULL, &len, &err), 0);
    ck_assert(len == 3 && piece_is_whole(&p) && p.whole[0] == 4);
    struct ddp_piece scalar = {.local = {"w", DDP_F32, 0, {0}, NULL}};
    ck_assert_int_eq(piece_read(&scalar, "@", &len, &err), -1);
}

/* -- who stores what ------------------------------------------------------- */

CASE("choice")

/* Two keys are equal where the pieces are; a name, a dtype, a whole, an offset
 * or a shape more makes another one. */
TEST(test_pieces_keys_tell_pieces_apart)
{
    struct ddp_piece p[6];
    for (int i = 0; i < 6; i++)
        p[i] = PIECE2(0, 0, 2, 3);
    p[0].local.name = "v";
    p[1].local.dtype = DDP_I32;
    p[2].whole[1] = 7;
    p[3].offset[1] = 3;
    p[4].local.shape[0] = 1;
    p[5].local.data = p; /* is no part of it */
    struct piece_key k = piece_key_of(&p[5]);
    ck_assert_uint_eq(k.len, 24);
    for (int i = 0; i < 5; i++) {
        struct piece_key other = piece_key_of(&p[i]);
        ck_assert(k.part[0] != other.part[0] && k.part[1] != other.part[1]);
        ck_assert((k.name != other.name) == (i == 0));
        ck_assert((k.whole != other.whole) == (i < 3));
    }
    p[5] = PIECE2(0, 0, 2, 3);
    struct piece_key again = piece_key_of(&p[5]);
    ck_assert_mem_eq(&k, &again, sizeof(k));
}

/* Names whatever their order; who does not agree is found. */
TEST(test_pieces_survey_finds_who_does_not_agree)
{
    struct ddp_err err;
    struct ddp_piece p[3] = {PIECE2(0, 0, 2, 6), PIECE2(2, 0, 2, 6),
                             PIECE2(0, 0, 4, 6)};
    p[2].local.name = "v";
    struct piece_key k[4] = {piece_key_of(&p[0]), piece_key_of(&p[1]),
                             piece_key_of(&p[2]), piece_key_of(&p[2])};
    struct piece_key turned[3] = {k[2], k[1], k[0]};
    uint64_t names, again;
    size_t bad;
    ck_assert_int_eq(pieces_survey(k, 4, &bad, &names, &err), 0);
    ck_assert_uint_eq(bad, 4);
    ck_assert_int_eq(pieces_survey(turned, 3, &bad, &again, &err), 0);
    ck_assert(bad == 3 && names == again);
    ck_assert_int_eq(pieces_survey(k, 2, &bad, &again, &err), 0);
    ck_assert(bad == 2 && names != again);
    p[1].whole[0] = 9;
    k[1] = piece_key_of(&p[1]);
    ck_assert_int_eq(pieces_survey(k, 4, &bad, &names, &err), 0);
    ck_assert_uint_eq(bad, 1);
    ck_assert_int_eq(pieces_survey(k, 0, &bad, &names, &err), 0);
    ck_assert(bad == 0 && names == 0);
}

static bool same_part(const struct piece_key *a, const struct piece_key *b)
{
    return memcmp(a->part, b->part, sizeof(a->part)) == 0;
}

/* Whatever ranks hold, and if one holds a piece twice: each distinct piece is
 * stored once on the node. */
TEST(test_pieces_choose_stores_each_once)
{
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        struct piece_key keys[PARTS];
        size_t counts[4];
        bool stores[PARTS];
        struct ddp_err err;
        struct rng r;
        rng_init(&r, seed);
        int ranks = 1 + (int)rng_below(&r, 4);
        size_t n = 0;
        for (int k = 0; k < ranks; k++)
            n += counts[k] = rng_below(&r, 12);
        for (size_t i = 0; i < n; i++) {
            uint64_t which = rng_below(&r, 10);
            keys[i] = (struct piece_key){.part = {which * 77, which * 31},
                                         .len = which * 100};
        }
        ck_assert_int_eq(pieces_choose(keys, counts, ranks, stores, &err), 0);
        for (size_t i = 0; i < n; i++) {
            int stored = 0;
            for (size_t j = 0; j < n; j++)
                stored += stores[j] && same_part(&keys[i], &keys[j]);
            ck_assert_int_eq(stored, 1);
        }
    }
}

/* Eight ranks that hold the same hundred pieces, as in data-parallel training,
 * share them evenly. */
TEST(test_pieces_choose_is_even)
{
    enum {
        RANKS = 8,
        EACH = 100
    };
    static struct piece_key keys[RANKS * EACH];
    static bool stores[RANKS * EACH];
    size_t counts[RANKS];
    uint64_t bytes[RANKS] = {0}, least = UINT64_MAX, most = 0;
    struct ddp_err err;
    for (size_t i = 0; i < RANKS * EACH; i++) {
        uint64_t which = i % EACH;
        keys[i] = (struct piece_key){.part = {which, which * 7919},
                                     .len = which * which};
        counts[i / EACH] = EACH;
    }
    ck_assert_int_eq(pieces_choose(keys, counts, RANKS, stores, &err), 0);
    for (size_t i = 0; i < RANKS * EACH; i++)
        bytes[i / EACH] += stores[i] ? keys[i].len : 0;
    for (int i = 0; i < RANKS; i++) {
        least = bytes[i] < least ? bytes[i] : least;
        most = bytes[i] > most ? bytes[i] : most;
    }
    ck_assert_uint_lt(most - least, most / 20);
}

/* A piece that one node's ranks have, once or twice, is alone; it is not once
 * another node has it, too. */
TEST(test_pieces_find_alone_looks_at_other_nodes)
{
    const struct piece_key a = {.part = {1, 2}, .len = 8},
                           b = {.part = {3, 4}, .len = 8},
                           c = {.part = {5, 6}, .len = 4};
    const struct piece_key keys[] = {a, b, a, c, b, c};
    const int64_t nodes[] = {7, 7, 7, 8, 9, 8};
    const bool wanted[] = {true, false, true, true, false, true};
    bool alone[6];
    struct ddp_err err;
    ck_assert_int_eq(pieces_find_alone(keys, nodes, 6, alone, &err), 0);
    ck_assert_mem_eq(alone, wanted, sizeof(wanted));
    ck_assert_int_eq(pieces_find_alone(keys, nodes, 0, alone, &err), 0);
}

SUITE("pieces", "geometry", .limit_s = 30)
