/* links: rendezvous/core/ranks rendezvous/base/{err,rng} */
/* Who gets which group rank, and the global and role ranks that follow. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/rng.h"
#include "rendezvous/core/ranks.h"
#include "tests/lib/suite.h"

#define MAX 64

static struct ranks_node nodes[MAX], scratch[MAX];
static int n;

static void setup(void)
{
    n = 0;
}

/* A node, arriving after those before it. */
static struct ranks_node *add(const char *name, int asked, int previous)
{
    nodes[n] = (struct ranks_node){.name = name,
                                   .role = "default",
                                   .asked = asked,
                                   .previous = previous,
                                   .arrival = n,
                                   .nproc = 1,
                                   .id = n};
    return &nodes[n++];
}

/* Names in the order of group ranks. */
static const char *order(int *ignored)
{
    static char text[1000];
    size_t len = 0;
    (void)ranks_assign(nodes, scratch, n, ignored);
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
                                i > 0 ? " " : "", nodes[i].name);
    return text;
}

TEST(test_ranks_first_round_goes_by_natural_names)
{
    add("node10", -1, -1);
    add("node2", -1, -1);
    add("node1", -1, -1);
    add("a", -1, -1);
    ck_assert_str_eq(order(NULL), "a node1 node2 node10");
}

/* MASTER_ADDR is then the endpoint's host, as the user expects. */
TEST(test_ranks_node_that_hosts_the_server_is_first)
{
    add("a", -1, -1);
    add("z", -1, -1)->hosts = true;
    ck_assert_str_eq(order(NULL), "z a");
}

TEST(test_ranks_equal_names_go_by_arrival)
{
    add("x", -1, -1)->arrival = 5;
    add("x", -1, -1)->arrival = 3;
    (void)order(NULL);
    ck_assert_int_eq(nodes[0].arrival, 3);
}

TEST(test_ranks_asked_ranks_are_given)
{
    int ignored;
    add("a", 2, -1);
    add("b", 0, -1);
    add("c", -1, -1);
    ck_assert_str_eq(order(&ignored), "b c a");
    ck_assert_int_eq(ignored, 0);
}

TEST(test_ranks_asked_twice_the_earlier_wins)
{
    int ignored;
    add("a", 1, -1)->arrival = 9;
    add("b", 1, -1)->arrival = 1;
    add("c", -1, -1);
    ck_assert_str_eq(order(&ignored), "a b c");
    ck_assert_int_eq(ignored, 1);
}

TEST(test_ranks_asked_beyond_the_round_is_ignored)
{
    int ignored;
    add("a", 7, -1);
    add("b", -1, -1);
    ck_assert_str_eq(order(&ignored), "a b");
    ck_assert_int_eq(ignored, 1);
}

/* A survivor's place is not taken by one who asks for it. */
TEST(test_ranks_survivor_goes_before_asker)
{
    int ignored;
    add("new", 0, -1)->arrival = 0;
    add("old", -1, 0)->arrival = 1;
    ck_assert_str_eq(order(&ignored), "old new");
    ck_assert_int_eq(ignored, 1);
}

TEST(test_ranks_newcomer_takes_the_vacated_place)
{
    add("new", -1, -1);
    add("c", -1, 2);
    add("a", -1, 0);
    ck_assert_str_eq(order(NULL), "a new c");
}

TEST(test_ranks_survivors_close_ranks_in_their_order)
{
    add("c", -1, 3);
    add("b", -1, 2);
    add("a", -1, 0);
    ck_assert_str_eq(order(NULL), "a b c");
}

TEST(test_ranks_larger_round_appends_newcomers)
{
    add("aa", -1, -1);
    add("b", -1, 1);
    add("a", -1, 0);
    ck_assert_str_eq(order(NULL), "a b aa");
}

/* What a hostile node says of its old place cannot unseat another. */
TEST(test_ranks_two_survivors_of_one_place_both_get_one)
{
    add("a", -1, 1);
    add("b", -1, 1);
    add("c", -1, 0);
    (void)order(NULL);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(nodes[i].group_rank, i);
}

TEST(test_ranks_global_ranks_are_contiguous_per_node)
{
    add("a", -1, -1)->nproc = 2;
    add("b", -1, -1)->nproc = 8;
    add("c", -1, -1)->nproc = 1;
    ck_assert_int_eq(ranks_assign(nodes, scratch, n, NULL), 11);
    ck_assert_int_eq(nodes[0].base_rank, 0);
    ck_assert_int_eq(nodes[1].base_rank, 2);
    ck_assert_int_eq(nodes[2].base_rank, 10);
}

/* Roles may be mixed: a (2) and c (3) train, b (4) evaluates. */
TEST(test_ranks_roles_count_by_themselves)
{
    add("a", -1, -1)->nproc = 2;
    nodes[0].role = "train";
    add("b", -1, -1)->nproc = 4;
    nodes[1].role = "eval";
    add("c", -1, -1)->nproc = 3;
    nodes[2].role = "train";
    (void)ranks_assign(nodes, scratch, n, NULL);
    ck_assert_int_eq(nodes[0].role_rank, 0);
    ck_assert_int_eq(nodes[2].role_rank, 2);
    ck_assert_int_eq(nodes[0].role_world, 5);
    ck_assert_int_eq(nodes[2].role_world, 5);
    ck_assert_int_eq(nodes[1].role_rank, 0);
    ck_assert_int_eq(nodes[1].role_world, 4);
}

/* Whatever is asked and whatever was: a permutation, and survivors keep their
 * order. */
TEST(test_ranks_any_mixture_is_a_permutation)
{
    struct rng rng;
    rng_init(&rng, 7);
    for (int turn = 0; turn < 20000; turn++) {
        n = 0;
        int size = 1 + (int)rng_below(&rng, 12);
        int old = 0;
        int procs = 0;
        for (int i = 0; i < size; i++) {
            bool survives = rng_below(&rng, 2) == 0;
            int asked = rng_below(&rng, 3) == 0 ? (int)rng_below(&rng, 15) : -1;
            old += (int)rng_below(&rng, 3);
            struct ranks_node *node = add("n", asked, survives ? old++ : -1);
            node->arrival = (int)rng_below(&rng, 5);
            node->nproc = 1 + (int)rng_below(&rng, 4);
            procs += node->nproc;
        }
        ck_assert_int_eq(ranks_assign(nodes, scratch, n, NULL), procs);
        int last = -1;
        int base = 0;
        for (int i = 0; i < n; i++) {
            ck_assert_int_eq(nodes[i].group_rank, i);
            ck_assert_int_eq(nodes[i].base_rank, base);
            base += nodes[i].nproc;
            if (nodes[i].previous < 0)
                continue;
            ck_assert_int_gt(nodes[i].previous, last);
            last = nodes[i].previous;
        }
    }
}

static const struct {
    const char *a, *b;
    int cmp;
} pairs[] = {
    {"a", "a", 0},
    {"a", "b", -1},
    {"node2", "node10", -1},
    {"node10", "node2", 1},
    {"node02", "node2", -1},
    {"node02", "node10", -1},
    {"node", "node1", -1},
    {"", "a", -1},
    {"a1b2", "a1b10", -1},
    {"a1b2", "a01b1", 1},
    {"9", "a", -1},
    {"a-1", "a-1x", -1},
    {"99999999999999999999998", "99999999999999999999999", -1},
    {"000", "00", 1},
    {"x\xc3\xa9", "xz", 1},
};

TEST_EACH(test_ranks_natural_order, pairs)
{
    int there = ranks_natural_cmp(pairs[_i].a, pairs[_i].b);
    int back = ranks_natural_cmp(pairs[_i].b, pairs[_i].a);
    ck_assert_int_eq((there > 0) - (there < 0), pairs[_i].cmp);
    ck_assert_int_eq((back > 0) - (back < 0), -pairs[_i].cmp);
}

SUITE("ranks", "ranks", .tags = "fast", FIXTURE(setup, NULL))
