/* links: worker_rt/comm/head worker_rt/comm/blame worker_rt/comm/reduce */
/* links: rendezvous/base/err */
/*
 * How ranks that are in different calls find out: by the head of a message that
 * nobody asked for, and by a note of a rank that waits for a send.
 */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "worker_rt/comm/blame.h"
#include "worker_rt/comm/head.h"

#define SUM    WIRE_ALLREDUCE
#define SPREAD WIRE_BROADCAST

/* clang-format off */
#define HEAD(number, of_kind) {.seq = number, .kind = of_kind}
#define NOTE(of_kind, number, came, went)                                      \
    {.why = of_kind, .rank = 1, .seq = number, .got = came, .sent = went}
/* clang-format on */

static const struct {
    const char *what;
    struct wire_head got;
    struct wire_head own;
    bool sending;
    bool stray;
} heads[] = {
    {"the same", {.seq = 5, .kind = SUM}, {.seq = 5, .kind = SUM}, 0, 0},
    {"of the past", {.seq = 4, .kind = SUM}, {.seq = 5, .kind = SUM}, 0, 1},
    {"ahead", {.seq = 6, .kind = SPREAD}, {.seq = 5, .kind = SUM}, 0, 0},
    {"ahead, over the end", {.seq = 0, .kind = SUM}, {.seq = UINT32_MAX}, 0, 0},
    {"past, over the end", {.seq = UINT32_MAX}, {.seq = 1, .kind = SUM}, 0, 1},
    {"a kind", {.seq = 5, .kind = SPREAD}, {.seq = 5, .kind = SUM}, 0, 1},
    {"a dtype", {5, SUM, 1, 0, 0, 0, 0}, {5, SUM, 2, 0, 0, 0, 0}, 0, 1},
    {"an operation", {5, SUM, 1, 1, 0, 0, 0}, {5, SUM, 1, 2, 0, 0, 0}, 0, 1},
    {"a root", {5, SPREAD, 0, 0, 0, 1, 0}, {5, SPREAD, 0, 0, 0, 2, 0}, 0, 1},
    {"a step", {5, SUM, 1, 0, 7, 0, 0}, {5, SUM, 1, 0, 2, 0, 0}, 0, 0},
    {"a way", HEAD(5, SUM), {.seq = 5, .kind = SUM, .step = HEAD_RING}, 0, 1},
    {"a send before", {.seq = 4, .kind = WIRE_SEND}, HEAD(5, SUM), 1, 1},
    {"a send behind", {.seq = 5, .kind = WIRE_SEND}, HEAD(5, SUM), 1, 0},
    {"a sum that is over", HEAD(5, SUM), {.seq = 5, .kind = WIRE_RECV}, 0, 1},
    {"the next sum", HEAD(6, SUM), {.seq = 5, .kind = WIRE_RECV}, 0, 0},
    {"a send, in a group",
     {.seq = 5, .kind = WIRE_SEND, .step = HEAD_IN_GROUP},
     {.seq = 5, .kind = WIRE_SEND},
     1,
     0},
    {"a send, alone",
     {.seq = 5, .kind = WIRE_SEND, .step = HEAD_ALONE},
     {.seq = 5, .kind = WIRE_SEND},
     1,
     1},
    {"a send alone, for another one's",
     {.seq = 5, .kind = WIRE_SEND, .step = HEAD_ALONE},
     {.seq = 5, .kind = WIRE_SEND},
     0,
     0},
    {"a send alone, for a group",
     {.seq = 5, .kind = WIRE_SEND, .step = HEAD_ALONE},
     {.seq = 5, .kind = WIRE_GROUP},
     1,
     0},
};

START_TEST(test_head_that_nobody_asks_for_is_stray)
{
    ck_assert_msg(head_is_stray(&heads[_i].got, &heads[_i].own,
                                heads[_i].sending) == heads[_i].stray,
                  "%s", heads[_i].what);
}
END_TEST

/* A send fits, however it is sent; else all must be the same. */
START_TEST(test_head_that_was_awaited_fits)
{
    const struct wire_head sum = {5, SUM, 1, 0, 7, 0, 100};
    struct wire_head send = {5, WIRE_SEND, 1, 0, HEAD_ALONE, 0, 100};
    struct wire_head other = sum;
    ck_assert(head_fits(&other, &sum));
    other.step = 8;
    ck_assert(!head_fits(&other, &sum));
    other = send;
    other.step = HEAD_IN_GROUP;
    ck_assert(head_fits(&other, &send));
    other.len = 99;
    ck_assert(!head_fits(&other, &send));
    ck_assert(!head_fits(&sum, &send));
}
END_TEST

START_TEST(test_head_is_described)
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
END_TEST

/* This rank has sent 4 and received 7. */
static const struct {
    const char *what;
    struct wire_blame note;
    struct wire_head own;
    bool receiving;
    bool in_vain;
} notes[] = {
    {"none", NOTE(0, 0, 0, 0), HEAD(5, SUM), 0, 0},
    {"of an earlier call", NOTE(WIRE_WAITS, 4, 4, 7), HEAD(5, SUM), 0, 1},
    {"a send is on its way", NOTE(WIRE_WAITS, 4, 3, 7), HEAD(5, SUM), 0, 0},
    {"of what comes behind", NOTE(WIRE_WAITS, 5, 4, 7), HEAD(5, SUM), 0, 0},
    {"while this one leaves", NOTE(WIRE_WAITS, 4, 4, 7), HEAD(5, WIRE_LEAVE), 0,
     0},
    {"both wait", NOTE(WIRE_WAITS_ALONE, 5, 4, 7), HEAD(5, WIRE_RECV), 1, 1},
    {"this one for another", NOTE(WIRE_WAITS_ALONE, 5, 4, 7),
     HEAD(5, WIRE_RECV), 0, 0},
    {"its send is on its way", NOTE(WIRE_WAITS_ALONE, 5, 4, 8),
     HEAD(5, WIRE_RECV), 1, 0},
    {"it is in a group", NOTE(WIRE_WAITS, 5, 4, 7), HEAD(5, WIRE_RECV), 1, 0},
    {"this one is", NOTE(WIRE_WAITS_ALONE, 5, 4, 7), HEAD(5, WIRE_GROUP), 1, 0},
    {"it waits to be received", NOTE(WIRE_WAITS_TO_SEND, 4, 4, 7), HEAD(5, SUM),
     0, 0},
    {"this one is, and late", NOTE(WIRE_WAITS, 4, 4, 7), HEAD(5, WIRE_GROUP), 1,
     1},
};

START_TEST(test_head_note_of_a_rank_that_waits_in_vain)
{
    ck_assert_msg(blame_waits_in_vain(&notes[_i].note, &notes[_i].own, 4, 7,
                                      notes[_i].receiving) == notes[_i].in_vain,
                  "%s", notes[_i].what);
}
END_TEST

/* What a rank waits for that has sent 4 to this one, and received 7. */
START_TEST(test_head_note_holds_until_something_moves)
{
    const struct wire_blame none = {.why = 0},
                            waits = NOTE(WIRE_WAITS_ALONE, 5, 7, 4),
                            sends = NOTE(WIRE_WAITS_TO_SEND, 5, 7, 4),
                            group = NOTE(WIRE_WAITS, 5, 7, 4);
    ck_assert(blame_holds(&waits, 7, 4) && blame_holds(&waits, 7, 3));
    ck_assert(!blame_holds(&waits, 8, 4)); /* its send is on its way */
    ck_assert(blame_holds(&sends, 7, 4) && blame_holds(&sends, 8, 4));
    ck_assert(!blame_holds(&sends, 7, 5)); /* that was received */
    ck_assert(!blame_holds(&group, 7, 4) && !blame_holds(&none, 0, 0));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("comm_head");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, test_head_that_nobody_asks_for_is_stray, 0,
                        (int)(sizeof(heads) / sizeof(heads[0])));
    tcase_add_test(t, test_head_that_was_awaited_fits);
    tcase_add_test(t, test_head_is_described);
    tcase_add_test(t, test_head_note_holds_until_something_moves);
    tcase_add_loop_test(t, test_head_note_of_a_rank_that_waits_in_vain, 0,
                        (int)(sizeof(notes) / sizeof(notes[0])));
    suite_add_tcase(s, t);
    return suite_run(s);
}
