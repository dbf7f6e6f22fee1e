/* links: worker_rt/keeper/compare */
/* links: worker_rt/snapshot/{pieces,safetensors,snapshot} */
/* links: rendezvous/base/{err,rng,buf,json,utf8} worker_rt/comm/reduce */
/* libs: -lcjson -lxxhash */
/*
 * Which rank has a wrong bit: worlds of ranks that hold pieces of any layout,
 * with whatever values, against a judge that looks at each piece by itself.
 */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/suite.h"
#include "worker_rt/keeper/compare.h"

#define SEEDS  20000
#define RANKS  8
#define PIECES 10
#define ROWS   (RANKS * PIECES)

/* Cheap where it holds: each ck_assert is a system call. */
#define HOLDS(what)                                                            \
    do {                                                                       \
        if (!(what))                                                           \
            ck_abort_msg("seed %llu: %s does not hold",                        \
                         (unsigned long long)w->seed, #what);                  \
    } while (0)

/* Who holds what, with which sum. */
struct world {
    struct rng rng;
    uint64_t seed;
    int ranks, pieces;
    bool holds[RANKS][PIECES], fresh[RANKS][PIECES];
    uint64_t sums[RANKS][PIECES];
};

static int draw(struct world *w, int below)
{
    return (int)rng_below(&w->rng, (uint32_t)below);
}

/* Two pieces may be alike in one half of their keys. */
static void part_of(int piece, uint64_t part[2])
{
    part[0] = (uint64_t)(piece / 2) * UINT64_C(0x9e3779b97f4a7c15);
    part[1] = (uint64_t)(piece % 2);
}

/* `lets_differ`: some ranks call pieces fresh. */
static void draw_world(struct world *w, bool lets_differ)
{
    uint64_t values[PIECES][4];
    rng_init(&w->rng, w->seed);
    for (int p = 0; p < PIECES; p++)
        for (int i = 0; i < 4; i++)
            values[p][i] = rng_next(&w->rng);
    w->ranks = 1 + draw(w, RANKS);
    w->pieces = 1 + draw(w, PIECES);
    for (int r = 0; r < w->ranks; r++)
        for (int p = 0; p < w->pieces; p++) {
            w->holds[r][p] = draw(w, 4) > 0;
            w->fresh[r][p] = lets_differ && draw(w, 16) == 0;
            w->sums[r][p] = values[p][draw(w, 8) > 0 ? 0 : draw(w, 4)];
        }
}

/* -- weights --------------------------------------------------------------- */

/* The keys of all ranks in an order of each rank's own; `of[i]`: the piece. */
static size_t list_keys(struct world *w,
                        struct piece_key keys[ROWS],
                        int of[ROWS],
                        size_t counts[RANKS])
{
    size_t n = 0;
    for (int r = 0; r < w->ranks; r++) {
        int turn = draw(w, w->pieces);
        counts[r] = 0;
        for (int i = 0; i < w->pieces; i++) {
            int p = (i + turn) % w->pieces;
            if (!w->holds[r][p])
                continue;
            memset(&keys[n], 0, sizeof(keys[n]));
            part_of(p, keys[n].part);
            of[n++] = p;
            counts[r]++;
        }
    }
    return n;
}

/* The numbers of all ranks add up to 0 in just those places to which no piece
 * belongs that differs. */
TEST(test_compare_sums_add_up_to_nothing_if_they_are_equal)
{
    int differ = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world = {.seed = seed}, *w = &world;
        struct piece_key keys[ROWS];
        uint64_t weights[ROWS], numbers[COMPARE_BUCKETS] = {0};
        bool wrong[COMPARE_BUCKETS] = {false};
        size_t counts[RANKS], at = 0;
        int of[ROWS];
        struct ddp_err err;
        draw_world(w, false);
        size_t n = list_keys(w, keys, of, counts);
        for (int r = 0; r < w->ranks; r++) {
            HOLDS(compare_weigh(keys, n, at, counts[r], &weights[at], &err) ==
                  0);
            for (size_t i = at; i < at + counts[r]; i++)
                numbers[compare_bucket(keys[i].part)] +=
                    weights[i] * w->sums[r][of[i]];
            at += counts[r];
        }
        for (int p = 0; p < w->pieces; p++) {
            uint64_t part[2];
            int first = 0;
            part_of(p, part);
            while (first < w->ranks && !w->holds[first][p])
                first++;
            for (int r = first; r < w->ranks; r++)
                wrong[compare_bucket(part)] |=
                    w->holds[r][p] && w->sums[r][p] != w->sums[first][p];
        }
        for (size_t b = 0; b < COMPARE_BUCKETS; b++) {
            HOLDS((numbers[b] != 0) == wrong[b]);
            differ += numbers[b] != 0;
        }
    }
    ck_assert_int_gt(differ, SEEDS / 4);
}

/* Nobody else has it; two have it; three. */
TEST(test_compare_weights_count_the_holders)
{
    const struct piece_key keys[] = {
        {.part = {1, 1}}, {.part = {2, 1}}, {.part = {3, 1}}, /* rank 0 */
        {.part = {3, 1}}, {.part = {2, 1}},                   /* rank 1 */
        {.part = {3, 1}}};
    const uint64_t wanted[] = {0, 1, 2, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    uint64_t got[6];
    struct ddp_err err;
    ck_assert_int_eq(compare_weigh(keys, 6, 0, 3, got, &err), 0);
    ck_assert_int_eq(compare_weigh(keys, 6, 3, 2, &got[3], &err), 0);
    ck_assert_int_eq(compare_weigh(keys, 6, 5, 1, &got[5], &err), 0);
    ck_assert_mem_eq(got, wanted, sizeof(got));
}

/* -- judgement ------------------------------------------------------------- */

/* How many holders of the piece have that sum. */
static int count_alike(const struct world *w, int piece, uint64_t sum)
{
    int n = 0;
    for (int r = 0; r < w->ranks; r++)
        n += w->holds[r][piece] && w->sums[r][piece] == sum;
    return n;
}

/* What is to be found about the piece by that rank. */
struct expected {
    bool any;
    struct compare_finding f;
};

static struct expected look_at(const struct world *w, int piece, int rank)
{
    struct expected e = {.any = false};
    int first = -1, most = 0, holders = 0;
    bool fresh = false;
    for (int r = 0; r < w->ranks; r++) {
        if (!w->holds[r][piece])
            continue;
        int n = count_alike(w, piece, w->sums[r][piece]);
        first = first < 0 ? r : first;
        most = n > most ? n : most;
        holders++;
        fresh |= w->fresh[r][piece];
    }
    if (most == holders)
        return e;
    e.f = (struct compare_finding){
        .rank = rank, .holders = holders, .alike = most};
    e.f.kind = fresh                ? COMPARE_LEFT_OUT
               : 2 * most > holders ? COMPARE_ODD
                                    : COMPARE_TIE;
    e.any = e.f.kind == COMPARE_ODD
                ? w->holds[rank][piece] &&
                      count_alike(w, piece, w->sums[rank][piece]) < most
                : rank == first;
    return e;
}

static void check_finding(const struct world *w,
                          int piece,
                          const struct compare_finding *f,
                          const struct compare_finding *wanted)
{
    HOLDS(f->kind == wanted->kind && f->rank == wanted->rank);
    HOLDS(f->holders == wanted->holders && f->alike == wanted->alike);
    HOLDS(w->holds[f->other][piece]);
    HOLDS(w->sums[f->other][piece] != w->sums[f->rank][piece]);
}

/* All findings that there ought to be, and no other. Returns how many. */
static size_t check_findings(const struct world *w,
                             const struct compare_finding *found,
                             size_t n)
{
    size_t wanted = 0;
    int odd = RANKS, ties = 0;
    for (int p = 0; p < w->pieces; p++) {
        uint64_t part[2];
        part_of(p, part);
        for (int r = 0; r < w->ranks; r++) {
            struct expected e = look_at(w, p, r);
            size_t i = 0;
            while (i < n && (found[i].rank != r ||
                             memcmp(found[i].part, part, sizeof(part)) != 0))
                i++;
            HOLDS(e.any == (i < n));
            if (!e.any)
                continue;
            wanted++;
            check_finding(w, p, &found[i], &e.f);
            HOLDS(compare_find(found, n, part) != NULL);
            if (e.f.kind == COMPARE_ODD && r < odd)
                odd = r;
            ties += e.f.kind == COMPARE_TIE;
        }
    }
    const struct compare_finding *worst = compare_worst(found, n);
    HOLDS((worst == NULL) == (odd == RANKS && ties == 0));
    HOLDS(worst == NULL || (worst->kind == COMPARE_ODD) == (odd < RANKS));
    HOLDS(odd == RANKS || worst->rank == odd);
    return wanted;
}

/* Any world; in half of them ranks let pieces differ. */
TEST(test_compare_judges_as_one_who_looks_at_each_piece)
{
    size_t findings = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world = {.seed = seed}, *w = &world;
        struct compare_row rows[ROWS];
        struct compare_finding *found;
        size_t counts[RANKS], n = 0, nfound;
        struct ddp_err err;
        draw_world(w, seed % 2 == 0);
        for (int r = 0; r < w->ranks; r++) {
            counts[r] = 0;
            for (int p = w->pieces - 1; p >= 0; p--) {
                if (!w->holds[r][p])
                    continue;
                rows[n] = (struct compare_row){.sum = w->sums[r][p],
                                               .fresh = w->fresh[r][p]};
                part_of(p, rows[n++].part);
                counts[r]++;
            }
        }
        HOLDS(compare_judge(rows, counts, w->ranks, &found, &nfound, &err) ==
              0);
        size_t wanted = check_findings(w, found, nfound);
        HOLDS(wanted == nfound);
        findings += nfound;
        free(found);
    }
    ck_assert_uint_gt(findings, SEEDS);
}

/* -- pieces ---------------------------------------------------------------- */

/* What is known of a piece stays with it, wherever it stands now. */
TEST(test_compare_carries_over_what_is_known)
{
    struct compare_piece before[] = {
        {{5, 1}, 1, 0, true}, {{2, 7}, 1, 0, false}, {{2, 3}, 1, 1, false}};
    struct compare_piece now[] = {
        {{2, 3}, 9, 2, false}, {{2, 4}, 9, 2, false}, {{5, 1}, 9, 2, false}};
    compare_carry_over(now, 3, before, 3);
    ck_assert_int_eq(now[0].fresh, 1);
    ck_assert_int_eq(now[1].fresh, 2);
    ck_assert_int_eq(now[2].fresh, 0);
    ck_assert(now[2].left_out && !now[0].left_out && !now[1].left_out);
    ck_assert_uint_eq(now[2].weight, 9);
    compare_carry_over(now, 3, NULL, 0);
}

SUITE("compare", "rule", .limit_s = 60)
