/* links: launcher/hang/odd_rank rendezvous/base/err */
/*
 * Of ranks that stand still: which one is the cause, for each order of them,
 * and what is said of it and of the others.
 */
#include <check.h>
#include <string.h>

#include "launcher/hang/odd_rank.h"
#include "tests/lib/suite.h"

#define RANKS_MAX 4

/* What a rank does, in short. */
#define STOPPED                                                                \
    {                                                                          \
        .doing = RANK_STOPPED, .step = -1                                      \
    }
#define STOPPED_THERE                                                          \
    {                                                                          \
        .doing = RANK_STOPPED, .step = -1, .where = "all_reduce"               \
    }
#define DEFUNCT                                                                \
    {                                                                          \
        .doing = RANK_DEFUNCT, .step = -1                                      \
    }
#define IN_KERNEL                                                              \
    {                                                                          \
        .doing = RANK_IN_KERNEL, .step = -1                                    \
    }
#define AWAY                                                                   \
    {                                                                          \
        .doing = RANK_AWAY, .step = -1                                         \
    }
#define SLEEPS                                                                 \
    {                                                                          \
        .doing = RANK_SLEEPS, .step = -1                                       \
    }
#define COMPUTES                                                               \
    {                                                                          \
        .doing = RANK_COMPUTES, .step = -1                                     \
    }
#define WAITS                                                                  \
    {                                                                          \
        .doing = RANK_WAITS, .step = -1                                        \
    }
#define UNSEEN                                                                 \
    {                                                                          \
        .doing = RANK_UNSEEN, .step = -1                                       \
    }
#define ELSEWHERE(at)                                                          \
    {                                                                          \
        .doing = RANK_ELSEWHERE, .step = -1, .where = at                       \
    }
#define WITHIN(at)                                                             \
    {                                                                          \
        .doing = RANK_IN_COLLECTIVE, .step = -1, .where = at                   \
    }
#define AT_STEP(n)                                                             \
    {                                                                          \
        .doing = RANK_WAITS, .step = n                                         \
    }

/* -- which one ------------------------------------------------------------- */

static const struct {
    int n, odd; /* `odd` is a place in `looks` */
    struct rank_look looks[RANKS_MAX];
} cases[] = {
    {2, 0, {STOPPED, WAITS}},
    {2, 0, {STOPPED, WITHIN("all_reduce")}},
    {2, 0, {STOPPED_THERE, WITHIN("all_reduce")}},
    {2, 0, {STOPPED, SLEEPS}},
    {2, 0, {STOPPED, UNSEEN}},
    {2, 0, {DEFUNCT, WITHIN("all_reduce")}},
    {2, 0, {IN_KERNEL, WAITS}},
    {2, 0, {AWAY, SLEEPS}},
    {2, 0, {SLEEPS, WAITS}},
    {2, 0, {SLEEPS, COMPUTES}},
    {2, 0, {COMPUTES, WAITS}},
    {2, 0, {COMPUTES, WITHIN("all_reduce")}},
    {2, 0, {ELSEWHERE("get"), WITHIN("all_reduce")}},
    {2, 0, {AT_STEP(10), AT_STEP(11)}},
    {3, 0, {STOPPED, WAITS, WAITS}},
    {3, 0, {STOPPED, IN_KERNEL, WAITS}},
    {3, 0, {SLEEPS, WITHIN("all_reduce"), WITHIN("all_reduce")}},
    {3, 0, {SLEEPS, WITHIN("all_reduce"), WITHIN("barrier")}},
    {3, 0, {COMPUTES, WITHIN("all_reduce"), WAITS}},
    {3, 0, {ELSEWHERE("get"), WITHIN("all_reduce"), WITHIN("all_reduce")}},
    {3, 0, {ELSEWHERE("get"), ELSEWHERE("backward"), ELSEWHERE("backward")}},
    {3, 0, {WITHIN("barrier"), WITHIN("all_reduce"), WITHIN("all_reduce")}},
    {3, 0, {AT_STEP(3), AT_STEP(7), AT_STEP(5)}},
    {4, 0, {STOPPED, WAITS, WAITS, WAITS}},
    {4, 0, {SLEEPS, COMPUTES, WITHIN("all_reduce"), UNSEEN}},
    {4, 0, {WITHIN("b"), WITHIN("a"), WITHIN("a"), WITHIN("a")}},
    {4, 0, {AT_STEP(0), AT_STEP(1), AT_STEP(1), AT_STEP(1)}},
    /* Nothing tells them apart. */
    {2, -1, {WAITS, WAITS}},
    {2, -1, {WITHIN("all_reduce"), WITHIN("all_reduce")}},
    {2, -1, {WITHIN("all_reduce"), WITHIN("barrier")}},
    {2, -1, {WITHIN("all_reduce"), WAITS}},
    {2, -1, {ELSEWHERE("get"), WAITS}},
    {2, -1, {STOPPED, STOPPED}},
    {2, -1, {SLEEPS, SLEEPS}},
    {2, -1, {UNSEEN, WAITS}},
    {2, -1, {AT_STEP(4), AT_STEP(4)}},
    {2, -1, {AT_STEP(4), WAITS}},
    {3, -1, {AT_STEP(4), AT_STEP(4), AT_STEP(5)}},
    {3, -1, {WITHIN("a"), WITHIN("b"), WITHIN("c")}},
    {4, -1, {WITHIN("a"), WITHIN("a"), WITHIN("b"), WITHIN("b")}},
};

/* The orders of four are counted through; of fewer ranks those repeat. */
static int pick(int order, int n, int taken[RANKS_MAX])
{
    int at = order % n;
    for (int i = 0; i < RANKS_MAX; i++)
        if (!taken[i] && at-- == 0) {
            taken[i] = 1;
            return i;
        }
    ck_abort_msg("no rank is left");
}

static void check_order(int which, int order)
{
    struct rank_look looks[RANKS_MAX];
    int taken[RANKS_MAX] = {0}, wanted = ODD_RANK_NONE;
    int n = cases[which].n;
    for (int left = n; left > 0; order /= left, left--) {
        int from = pick(order, left, taken);
        int to = n - left;
        looks[to] = cases[which].looks[from];
        looks[to].rank = to;
        if (from == cases[which].odd)
            wanted = to;
    }
    ck_assert_int_eq(odd_rank_find(looks, n), wanted);
}

TEST_EACH(test_odd_rank_is_found_wherever_it_is, cases)
{
    for (int order = 0; order < 24; order++)
        check_order(_i, order);
}

/* Two do the same that is no waiting: the first of them is named. */
TEST(test_odd_rank_of_several_is_the_first)
{
    struct rank_look looks[] = {WAITS, STOPPED, WAITS, STOPPED};
    ck_assert_int_eq(odd_rank_find(looks, 4), 1);
    ck_assert_int_eq(odd_rank_find(looks, 1), ODD_RANK_NONE);
}

/* -- in words -------------------------------------------------------------- */

static const struct {
    int n, odd, blamed;
    const char *text;
    struct rank_look looks[RANKS_MAX];
} words[] = {
    {3,
     1,
     1,
     "it is stopped (state T: SIGSTOP, or a debugger); ranks 0, 2 wait in "
     "all_reduce",
     {WITHIN("all_reduce"), STOPPED_THERE, WITHIN("all_reduce")}},
    {4,
     0,
     0,
     "it sleeps in nap; ranks 1-3 wait",
     {{.doing = RANK_SLEEPS, .where = "nap"}, WAITS, WAITS, WAITS}},
    {3,
     2,
     2,
     "it stands in get, in no collective; rank 0 waits in all_reduce; rank 1 "
     "waits",
     {WITHIN("all_reduce"), WAITS, ELSEWHERE("get")}},
    {2,
     1,
     0,
     "it waits in all_reduce; rank 1 waits for a disk or a device (state D)",
     {WITHIN("all_reduce"), IN_KERNEL}},
    {4,
     3,
     0,
     "it waits; rank 3 has no main thread any more (state Z); ranks 1, 2 wait",
     {WAITS, WAITS, WAITS, DEFUNCT}},
    {3,
     -1,
     1,
     "it waits in all_reduce, as all ranks do",
     {WITHIN("all_reduce"), WITHIN("all_reduce"), WITHIN("all_reduce")}},
    {2,
     -1,
     0,
     "it waits in all_reduce, and which rank is the cause is not known; rank 1 "
     "waits in barrier",
     {WITHIN("all_reduce"), WITHIN("barrier")}},
    {2,
     0,
     0,
     "it waits, and has done fewer steps than the others; rank 1 waits",
     {AT_STEP(1), AT_STEP(2)}},
    {1, -1, 0, "it computes", {COMPUTES}},
    {2,
     1,
     1,
     "it is away from its peers' collective; rank 0 cannot be seen",
     {UNSEEN, AWAY}},
};

TEST_EACH(test_odd_rank_is_told_beside_the_others, words)
{
    char text[ODD_RANK_TEXT_MAX];
    struct rank_look looks[RANKS_MAX];
    memcpy(looks, words[_i].looks, sizeof(looks));
    for (int i = 0; i < words[_i].n; i++)
        looks[i].rank = i;
    odd_rank_tell(looks, words[_i].n, words[_i].odd, words[_i].blamed, text);
    ck_assert_str_eq(text, words[_i].text);
}

/* A thousand ranks, each second one elsewhere, are no thousand words. */
TEST(test_odd_rank_of_many_is_a_few_words)
{
    static struct rank_look looks[1000];
    char text[ODD_RANK_TEXT_MAX];
    for (int i = 0; i < 1000; i++)
        looks[i] = (struct rank_look){
            .rank = i, .doing = i % 2 == 0 ? RANK_SLEEPS : RANK_WAITS};
    ck_assert_int_eq(odd_rank_find(looks, 1000), 0);
    odd_rank_tell(looks, 1000, 0, 0, text);
    ck_assert_str_eq(text,
                     "it sleeps; ranks 1, 3, 5, 7, 9, 11, ... wait; ranks "
                     "2, 4, 6, 8, 10, 12, ... sleep");
}

SUITE("odd_rank", "ranks", .tags = "fast")
