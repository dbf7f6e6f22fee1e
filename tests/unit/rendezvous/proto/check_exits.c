/* links: rendezvous/proto/exits rendezvous/base/err */
/*
 * How workers ended, as runs and as text: whatever the order in which they end,
 * within the bounds, and whatever a peer sends.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/proto/exits.h"
#include "tests/lib/suite.h"

static const char *print(const struct exits *e)
{
    static char text[EXITS_TEXT_MAX + 1];
    exits_print(e, text);
    return text;
}

/* Workers that ended alike side by side are one run, in whatever order. */
TEST_LOOP(test_exits_neighbours_are_one_run, 0, 4)
{
    static const int orders[][5] = {
        {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}, {1, 3, 0, 2, 4}};
    struct exits e = {0};
    for (int i = 0; i < 5; i++)
        exits_add(&e, orders[_i][i], -15);
    ck_assert_str_eq(print(&e), "0-4=-15 ");
    exits_add(&e, 7, 77);
    exits_add(&e, 6, -15);
    exits_add(&e, 5, 3);
    ck_assert_str_eq(print(&e), "0-4=-15 5=3 6=-15 7=77 ");
}

/* Of too many runs the highest ranks are left out, whoever came first. */
TEST_LOOP(test_exits_too_many_runs_lose_the_highest_ranks, 0, 2)
{
    struct exits e = {0}, again;
    for (int i = 0; i < 200; i++) {
        int rank = _i == 0 ? i : 199 - i;
        exits_add(&e, rank, rank % 2 == 0 ? 1 : 2);
    }
    ck_assert_int_eq(e.n, EXITS_RUNS);
    ck_assert_int_eq(e.runs[EXITS_RUNS - 1].last, EXITS_RUNS - 1);
    exits_parse(&again, print(&e));
    ck_assert_int_eq(again.n, e.n);
    ck_assert_mem_eq(again.runs, e.runs, EXITS_RUNS * sizeof(e.runs[0]));
    exits_add(&e, EXITS_RUNS, 2); /* but one that goes on in a run has room */
    ck_assert_int_eq(e.runs[EXITS_RUNS - 1].last, EXITS_RUNS);
}

/* The longest text that there is. */
TEST(test_exits_all_runs_fit)
{
    struct exits e = {0};
    for (int i = 0; i < EXITS_RUNS; i++)
        e.runs[e.n++] = (struct exits_run){
            .first = (int16_t)(1000 + 2 * i),
            .last = (int16_t)(1001 + 2 * i),
            .how = (int16_t)(i % 2 == 0 ? -127 : 255),
        };
    ck_assert_uint_le(strlen(print(&e)), EXITS_TEXT_MAX);
    struct exits again;
    exits_parse(&again, print(&e));
    ck_assert_int_eq(again.n, EXITS_RUNS);
}

/* What a peer says is taken as far as it is right. */
TEST_LOOP(test_exits_nonsense_is_left_out, 0, 15)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"0=1", ""},                     /* no blank */
        {"0=1 0=1 ", "0=1 "},            /* twice */
        {"3=1 2=1 ", "3=1 "},            /* descending */
        {"3-2=1 ", ""},                  /* a run backwards */
        {"0-4095=-15 ", "0-4095=-15 "},  /* the largest ... */
        {"0-4096=-15 ", ""},             /* ... and beyond */
        {"0=256 ", ""},                  /* no exit code */
        {"0=-128 ", ""},                 /* no signal */
        {"0=0 ", ""},                    /* that is success */
        {"0=-9 -1=3 ", "0=-9 "},         /* a negative rank */
        {"99999999999999999999=1 ", ""}, /* more digits than a number has */
        {"0=1 @5 x 1=1 ", "0=1 "},       /* somebody else's */
        {"0=1  1=1 ", "0=1 "},
        {"0=\033[1m ", ""},
    };
    struct exits e;
    memset(&e, 0x55, sizeof(e));
    exits_parse(&e, cases[_i][0]);
    ck_assert_str_eq(print(&e), cases[_i][1]);
}

static struct exits parsed(const char *text)
{
    struct exits e;
    exits_parse(&e, text);
    return e;
}

static void merge(char *list, int64_t base, const char *name, const char *text)
{
    struct exits e = parsed(text);
    exits_merge(list, base, name, &e);
}

/* Nodes stand by rank, whoever said it first. */
TEST(test_exits_list_is_by_rank)
{
    char list[EXITS_LIST_MAX + 1] = "";
    merge(list, 8, "c", "0=3 ");
    merge(list, 0, "a", "0-3=-15 ");
    merge(list, 12, "d", ""); /* all well there */
    merge(list, 4, "b b@\n\xc3", "1=77 3=-6 ");
    ck_assert_str_eq(list, "@0 a 0-3=-15 @4 b?b??? 1=77 3=-6 @8 c 0=3 ");
    const char *at = list;
    struct exits_found f = {0};
    char seen[400] = "";
    size_t len = 0;
    while (exits_next(&at, &f))
        len += (size_t)snprintf(seen + len, sizeof(seen) - len, "%s:%d..%d:%d ",
                                f.node, (int)(f.base_rank + f.run.first),
                                (int)(f.base_rank + f.run.last), f.run.how);
    ck_assert_str_eq(seen, "a:0..3:-15 b?b???:5..5:77 b?b???:7..7:-6 "
                           "c:8..8:3 ");
    ck_assert_str_eq(at, "");
}

/* A list that is full keeps the lowest ranks, whole nodes of them. */
TEST_LOOP(test_exits_full_list_keeps_the_lowest_ranks, 0, 2)
{
    char list[EXITS_LIST_MAX + 1] = "";
    int kept = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t node = _i == 0 ? i : 999 - i;
        merge(list, node * 8, "some-node.example.com", "0-7=-15 ");
    }
    const char *at = list;
    struct exits_found f = {0};
    for (; exits_next(&at, &f); kept++)
        ck_assert_int_eq(f.base_rank, kept * 8);
    ck_assert_str_eq(at, "");
    ck_assert_int_gt(kept, EXITS_LIST_MAX / 40);
}

/* A list from a peer is read as far as it is right, and no further. */
TEST_LOOP(test_exits_strange_lists_end_the_reading, 0, 9)
{
    static const struct {
        const char *list;
        int runs;
    } cases[] = {
        {"0=1 ", 0},      {"@0 a", 0},       {"@0 a ", 0},
        {"@0 a 0=1 ", 1}, {"@x a 0=1 ", 0},  {"@-1 a 0=1 ", 0},
        {"@0  0=1 ", 0},  {"@0 a 0=1 b", 1}, {"@0 a @1 b 0=1 ", 1},
    };
    const char *at = cases[_i].list;
    struct exits_found f = {0};
    int runs = 0;
    while (exits_next(&at, &f))
        runs++;
    ck_assert_int_eq(runs, cases[_i].runs);
    char longest[EXITS_LIST_MAX + 1] = "@0 ";
    memset(longest + 3, 'x', EXITS_LIST_MAX - 3);
    at = longest;
    f = (struct exits_found){0};
    ck_assert(!exits_next(&at, &f));
}

/* Those that were told to stop, and the others. */
TEST(test_exits_filter_tells_apart)
{
    struct exits e = parsed("0-3=-15 4=77 5=-15 6-7=-6 ");
    struct exits out;
    exits_filter(&e, -15, false, &out);
    ck_assert_str_eq(print(&out), "0-3=-15 5=-15 ");
    exits_filter(&e, -15, true, &out);
    ck_assert_str_eq(print(&out), "4=77 6-7=-6 ");
}

/* Sums of what nodes say; as much as there is room for, and nothing below 0. */
TEST(test_exits_counts_are_summed_up)
{
    static const int signals[] = {SIGTERM, SIGKILL, 0, SIGTERM, SIGSEGV, 0, 0};
    struct exits_counts all = {0};
    char text[EXITS_COUNTS_MAX + 1];
    for (int i = 0; i < 7; i++)
        exits_count(&all, signals[i]);
    exits_print_counts(&all, text);
    ck_assert_str_eq(text, "2 1 1 3");
    exits_add_counts(&all, text);
    exits_add_counts(&all, "1 2"); /* as far as it is right */
    exits_add_counts(&all, "1x2 3 4");
    exits_add_counts(&all, "");
    exits_add_counts(&all, "-1 1 1 1");
    exits_uncount(&all, 0);
    exits_print_counts(&all, text);
    ck_assert_str_eq(text, "6 4 2 5");
    for (int i = 0; i < 9; i++)
        exits_uncount(&all, SIGKILL);
    all.by_code = all.by_term = all.by_signal = INT64_MAX / 2;
    exits_print_counts(&all, text);
    ck_assert_str_eq(text, "409600000 0 409600000 409600000");
}

SUITE("ends", "ends", .tags = "fast")
