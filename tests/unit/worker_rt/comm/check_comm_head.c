/* links: worker_rt/comm/{head,reduce} rendezvous/base/err */
/*
 * How ranks that are in different calls find out: by the head of a message that
 * nobody asked for.
 */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "worker_rt/comm/head.h"

#define SUM    WIRE_ALLREDUCE
#define SPREAD WIRE_BROADCAST

static const struct {
    const char *what;
    struct wire_head got;
    struct wire_head own;
    bool stray;
} heads[] = {
    {"the same", {.seq = 5, .kind = SUM}, {.seq = 5, .kind = SUM}, 0},
    {"of the past", {.seq = 4, .kind = SUM}, {.seq = 5, .kind = SUM}, 1},
    {"ahead", {.seq = 6, .kind = SPREAD}, {.seq = 5, .kind = SUM}, 0},
    {"ahead, over the end", {.seq = 0, .kind = SUM}, {.seq = UINT32_MAX}, 0},
    {"past, over the end", {.seq = UINT32_MAX}, {.seq = 1, .kind = SUM}, 1},
    {"a kind", {.seq = 5, .kind = SPREAD}, {.seq = 5, .kind = SUM}, 1},
    {"a dtype", {5, SUM, 1, 0, 0, 0, 0}, {5, SUM, 2, 0, 0, 0, 0}, 1},
    {"an operation", {5, SUM, 1, 1, 0, 0, 0}, {5, SUM, 1, 2, 0, 0, 0}, 1},
    {"a root", {5, SPREAD, 0, 0, 0, 1, 0}, {5, SPREAD, 0, 0, 0, 2, 0}, 1},
    {"a step", {5, SUM, 1, 0, 7, 0, 0}, {5, SUM, 1, 0, 2, 0, 0}, 0},
    {"a way",
     {.seq = 5, .kind = SUM},
     {.seq = 5, .kind = SUM, .step = HEAD_RING},
     1},
};

TEST_EACH(test_head_that_nobody_asks_for_is_stray, heads)
{
    ck_assert_msg(head_is_stray(&heads[_i].got, &heads[_i].own) ==
                      heads[_i].stray,
                  "%s", heads[_i].what);
}

TEST(test_head_that_was_awaited_fits)
{
    const struct wire_head sum = {5, SUM, 1, 0, 7, 0, 100};
    struct wire_head other = sum;
    ck_assert(head_fits(&other, &sum));
    other.step = 8;
    ck_assert(!head_fits(&other, &sum));
    other = sum;
    other.len = 99;
    ck_assert(!head_fits(&other, &sum));
}

TEST(test_head_is_described)
{
    char text[HEAD_TEXT];
    const struct wire_head sum = {5, SUM, 2, 2, 7, 0, 100};
    const struct wire_head spread = {.seq = 6, .kind = SPREAD, .root = 3};
    const struct wire_head none = {.seq = UINT32_MAX, .kind = 999};
    head_describe(text, &sum);
    ck_assert_str_eq(text, "all-reduce number 5 with length 100 (F32, MAX)");
    head_describe(text, &spread);
    ck_assert_str_eq(text, "broadcast number 6 (root 3)");
    head_describe(text, &none);
    ck_assert_str_eq(text, "unknown call number 4294967295");
}

SUITE("comm_head", "all")
