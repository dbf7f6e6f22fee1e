/* links: launcher/front/fan launcher/front/frames rendezvous/base/err */
/* links: rendezvous/base/opts rendezvous/base/opts_help rendezvous/base/utf8 */
/* links: rendezvous/base/opts_complete rendezvous/base/log */
/* links: rendezvous/base/mono */
/*
 * Which hosts are started through which, and the frames between a front end and
 * a hub.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/front/fan.h"
#include "launcher/front/frames.h"
#include "tests/lib/suite.h"

/* -- the tree -------------------------------------------------------------- */

static const struct {
    int hosts, from, branches;
} trees[] = {
    {1, 32, 0},    {31, 32, 0}, {32, 32, 6}, {40, 32, 7}, {200, 32, 15},
    {512, 32, 23}, {512, 0, 0}, {3, 1, 0},   {4, 1, 2},   {4, 4, 2},
    {5, 4, 3},     {9, 4, 3},   {10, 4, 4},
};

START_TEST(test_fan_has_as_many_branches_as_each_has_hosts)
{
    ck_assert_int_eq(fan_branches(trees[_i].hosts, trees[_i].from),
                     trees[_i].branches);
}
END_TEST

/* For any list: each host is in one branch, and branches are alike. */
START_TEST(test_fan_has_each_host_once)
{
    for (int hosts = 4; hosts <= 512; hosts++) {
        int n = fan_branches(hosts, 1), next = 0;
        ck_assert_int_ge(n * n, hosts);
        for (int i = 0; i < n; i++) {
            struct fan_branch b = fan_branch(hosts, n, i);
            ck_assert_int_eq(b.first, next);
            ck_assert_int_ge(b.len, hosts / n);
            ck_assert_int_le(b.len, hosts / n + 1);
            ck_assert_int_le(b.len, n);
            next += b.len;
        }
        ck_assert_int_eq(next, hosts);
    }
}
END_TEST

/* -- frames ---------------------------------------------------------------- */

#define MARK "0123456789abcdef0123456789abcdef"

static size_t put(char *out, enum frame_kind kind, int number, const char *data)
{
    size_t n = frames_head(out, MARK, kind, number, strlen(data));
    memcpy(out + n, data, strlen(data));
    return n + strlen(data);
}

/* However it is cut, the same comes out: text, a frame, text, a frame. */
START_TEST(test_frames_are_found_between_text)
{
    char all[400];
    size_t len = 0;
    len += (size_t)snprintf(all, sizeof(all),
                            "hi\2"
                            "0123 b 1 2\n");
    len += put(all + len, FRAME_BYTES, 7, "a\2" MARK " x 1 1\nb");
    all[len++] = '!';
    len += put(all + len, FRAME_END, 1023, "255");
    for (size_t cut = 0; cut <= len; cut++) {
        struct frame f;
        bool found = frames_find(all, cut, MARK, &f);
        ck_assert_uint_le(f.plain, 14);
        if (!found)
            continue;
        ck_assert_uint_eq(f.plain, 14);
        ck_assert_int_eq(f.kind, FRAME_BYTES);
        ck_assert_int_eq(f.number, 7);
        ck_assert_uint_eq(f.len, 42);
        size_t at = f.plain + f.used;
        ck_assert_uint_le(at, cut);
        if (cut < len)
            continue;
        ck_assert(frames_find(all + at, len - at, MARK, &f));
        ck_assert_uint_eq(f.plain, 1);
        ck_assert_int_eq(f.kind, FRAME_END);
        ck_assert_int_eq(f.number, 1023);
        ck_assert_uint_eq(f.len, 3);
        ck_assert_uint_eq(at + f.plain + f.used, len);
    }
    struct frame f;
    ck_assert(frames_find(all, len, MARK, &f));
}
END_TEST

static const char *const odd[] = {
    "\2" MARK " y 1 0\n",
    "\2" MARK " b 1024 0\n",
    "\2" MARK " b -1 0\n",
    "\2" MARK " b 1 16385\n",
    "\2" MARK " b 1\n",
    "\2" MARK " bb 1 0\n",
    "\2" MARK "b 1 0\n",
    "\2" MARK "\n",
    "\2" MARK " b 1 0 0\n",
    "\2"
    "0123456789abcdef0123456789abcdee b 1 0\n",
    "\2" MARK " b  1\n",
    "\2" MARK " b 1 00000000000000000000000000000000000000000000000000000000\n",
};

START_TEST(test_frames_that_cannot_be_are_text)
{
    struct frame f;
    ck_assert(!frames_find(odd[_i], strlen(odd[_i]), MARK, &f));
    ck_assert_uint_eq(f.plain, strlen(odd[_i]));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("front_fan");
    TCase *t = tcase_create("fan");
    tcase_add_loop_test(t, test_fan_has_as_many_branches_as_each_has_hosts, 0,
                        (int)(sizeof(trees) / sizeof(trees[0])));
    tcase_add_test(t, test_fan_has_each_host_once);
    tcase_add_test(t, test_frames_are_found_between_text);
    tcase_add_loop_test(t, test_frames_that_cannot_be_are_text, 0,
                        (int)(sizeof(odd) / sizeof(odd[0])));
    suite_add_tcase(s, t);
    return suite_run(s);
}
