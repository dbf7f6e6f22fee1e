/* links: worker_rt/snapshot/{mirror_pairs,safetensors,snapshot} */
/* links: worker_rt/comm/reduce rendezvous/base/{err,buf,json,utf8} */
/* libs: -lcjson -lxxhash */
/*
 * Who keeps mirrors of whom: all shapes of up to four nodes with up to four
 * ranks each, and some large ones.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/stop_page.h"
#include "tests/lib/suite.h"
#include "worker_rt/snapshot/mirror_pairs.h"

#define NODES 4
#define EACH  4
#define RANKS 4096

struct shape {
    int nodes;
    int each[RANKS / 8];
};

static int64_t node_of[RANKS];
static struct mirror_pair pairs[RANKS];
static int received[RANKS];

/* Cheap where it holds: each ck_assert is a system call. */
#define HOLDS(what)                                                            \
    do {                                                                       \
        if (!(what))                                                           \
            ck_abort_msg("%s does not hold of %d + %d + %d + %d ranks", #what, \
                         s->each[0], s->each[1], s->each[2], s->each[3]);      \
    } while (0)

/* The ranks of the world, and how many the largest node has. */
static int seat(const struct shape *s, int *largest)
{
    int world = 0;
    *largest = 0;
    for (int node = 0; node < s->nodes; node++) {
        for (int i = 0; i < s->each[node]; i++)
            node_of[world++] = node;
        *largest = s->each[node] > *largest ? s->each[node] : *largest;
    }
    return world;
}

static int make(const struct shape *s, int world)
{
    struct ddp_err err;
    int most = -1;
    HOLDS(mirror_pairs_make(node_of, world, pairs, &most, &err) == 0);
    memset(received, 0, sizeof(received));
    for (int r = 0; r < world; r++) {
        HOLDS(pairs[r].to >= 0 && pairs[r].to < world);
        received[pairs[r].to]++;
    }
    return most;
}

/* In one turn a rank meets one other at most. */
static int check_turns(const struct shape *s, int world)
{
    static uint32_t taken[RANKS];
    int turns = 0;
    memset(taken, 0, sizeof(taken));
    for (int r = 0; r < world; r++) {
        HOLDS(pairs[r].turn >= 0 && pairs[r].turn < 32);
        uint32_t bit = UINT32_C(1) << pairs[r].turn;
        HOLDS((taken[r] & bit) == 0 && (taken[pairs[r].to] & bit) == 0);
        taken[r] |= bit;
        taken[pairs[r].to] |= bit;
        turns = pairs[r].turn >= turns ? pairs[r].turn + 1 : turns;
    }
    return turns;
}

static void check_shape(const struct shape *s)
{
    int largest, world = seat(s, &largest), others = world - largest;
    int most = make(s, world);
    int fair = largest <= others ? 1 : (largest + others - 1) / others;
    HOLDS(most == fair);
    for (int r = 0; r < world; r++) {
        HOLDS(node_of[pairs[r].to] != node_of[r]);
        HOLDS(received[r] <= fair);
        bool of_largest = largest > others && s->each[node_of[r]] == largest;
        int least = largest <= others ? 1 : of_largest ? 0 : largest / others;
        HOLDS(received[r] >= least && (!of_largest || received[r] <= 1));
    }
    HOLDS(check_turns(s, world) <= 2 * fair + 1);
}

TEST(test_mirror_pairs_of_all_small_shapes_are_on_two_nodes_and_even)
{
    struct shape s;
    int shapes = 0;
    for (int code = 0; code < 5 * 5 * 5 * 5; code++) {
        s = (struct shape){.nodes = 0};
        for (int i = 0, left = code; i < NODES; i++, left /= EACH + 1)
            if (left % (EACH + 1) > 0)
                s.each[s.nodes++] = left % (EACH + 1);
        if (s.nodes < 2)
            continue;
        check_shape(&s);
        shapes++;
    }
    ck_assert_int_eq(shapes, 5 * 5 * 5 * 5 - 4 * EACH - 1);
}

/* As it always was: the rank of the same place on the next node, three turns.
 */
TEST(test_mirror_pairs_of_nodes_that_are_alike_are_neighbours)
{
    struct shape s = {.nodes = 512};
    int largest;
    for (int i = 0; i < s.nodes; i++)
        s.each[i] = 8;
    int world = seat(&s, &largest);
    ck_assert_int_eq(make(&s, world), 1);
    for (int r = 0; r < world; r++)
        ck_assert_int_eq(pairs[r].to, (r + 8) % world);
    ck_assert_int_le(check_turns(&s, world), 3);
}

TEST(test_mirror_pairs_of_two_and_one)
{
    const struct shape s = {.nodes = 2, .each = {2, 1}};
    int largest, world = seat(&s, &largest);
    ck_assert_int_eq(make(&s, world), 2);
    ck_assert_int_eq(pairs[0].to, 2);
    ck_assert_int_eq(pairs[1].to, 2);
    ck_assert_int_eq(pairs[2].to, 0);
    ck_assert_int_eq(check_turns(&s, world), 3);
}

/* The numbers of nodes need not be in the order of the ranks. */
TEST(test_mirror_pairs_go_by_nodes_in_whatever_order)
{
    static const int64_t mixed[] = {7, 3, 7, 5, 3, 7};
    struct ddp_err err;
    int most;
    ck_assert_int_eq(mirror_pairs_make(mixed, 6, pairs, &most, &err), 0);
    ck_assert_int_eq(most, 1);
    for (int r = 0; r < 6; r++)
        ck_assert_int_ne(mixed[pairs[r].to], mixed[r]);
}

/* There is nobody to send to. */
TEST(test_mirror_pairs_of_one_node_are_none)
{
    const struct shape s = {.nodes = 1, .each = {3}};
    int largest, world = seat(&s, &largest), most = -1;
    struct ddp_err err;
    ck_assert_int_eq(mirror_pairs_make(node_of, world, pairs, &most, &err), 0);
    ck_assert_int_eq(most, 0);
}

/* One rank beside far more: so many are told, and turns are not dealt. */
TEST_LOOP(test_mirror_pairs_of_too_many_for_one_rank, 0, 2)
{
    const struct shape s = {.nodes = 2,
                            .each = {SNAPSHOT_MIRRORED_MAX + 1 + _i * 50, 1}};
    int largest, world = seat(&s, &largest);
    ck_assert_int_eq(make(&s, world), s.each[0]);
    for (int r = 0; r < world; r++)
        ck_assert_int_eq(pairs[r].turn, 0);
}

SUITE("mirror_pairs", "shapes")
