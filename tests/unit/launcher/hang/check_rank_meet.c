/* links: tests/lib/rt_world launcher/hang/rank_meet rendezvous/client/store */
/* links: rendezvous/base/{dial,rng} */
/* libs: -luv */
/*
 * Nodes that tell each other what their ranks do come to know the same; one
 * that says nothing, or nonsense, holds nobody up for longer than is allowed.
 * The store is a real one.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/hang/rank_meet.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/client/store.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"

#define ROUND 3

static uint16_t port;
static pid_t server;

static void start(void)
{
    server = rt_store_start(&port);
}

static void stop(void)
{
    rt_kill(server);
}

static struct rank_meet node(int64_t group_rank)
{
    return (struct rank_meet){.host = "127.0.0.1",
                              .port = port,
                              .round = ROUND,
                              .group_rank = group_rank,
                              .group_world = 3};
}

static struct rank_look look(int64_t rank, enum rank_doing doing)
{
    return (struct rank_look){
        .rank = rank, .doing = doing, .step = 7, .where = "f<int, 2>"};
}

/* -- the text -------------------------------------------------------------- */

TEST(test_rank_meet_text_comes_back)
{
    char text[400];
    struct rank_look in[2] = {look(5, RANK_WAITS), look(9, RANK_STOPPED)},
                     out[3];
    bool whole;
    in[0].where[0] = '\0';
    ck_assert_uint_gt(rank_meet_write(in, 2, true, text, sizeof(text)), 0);
    ck_assert_int_eq(rank_meet_read(text, out, 3, &whole), 2);
    ck_assert(whole);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(out[i].rank, in[i].rank);
        ck_assert_int_eq(out[i].doing, in[i].doing);
        ck_assert_int_eq(out[i].step, in[i].step);
        ck_assert_str_eq(out[i].where, in[i].where);
    }
    ck_assert_uint_gt(rank_meet_write(in, 2, false, text, sizeof(text)), 0);
    ck_assert_int_eq(rank_meet_read(text, out, 1, &whole), 1);
    ck_assert(!whole);
    ck_assert_uint_eq(rank_meet_write(in, 2, true, text, 20), 0);
}

TEST_LOOP(test_rank_meet_text_of_anybody_is_checked, 0, 11)
{
    static const char *const texts[] = {
        "",
        "wholesale\n",
        "whole\nnothing\n",
        "whole\n1 0 7\n",
        "whole\n-1 0 7 f\n",
        "whole\n1 99 7 f\n",
        "whole\n1 -1 7 f\n",
        "whole\n1 0 -2 f\n",
        "whole\n500000000 0 7 f\n",
        "whole\n1 0 7 \x1b[31m\n",
        ("whole\n1 0 7 "
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"),
    };
    struct rank_look out[2];
    bool whole;
    ck_assert_int_eq(rank_meet_read(texts[_i], out, 2, &whole), -1);
}

/* -- the meeting ----------------------------------------------------------- */

static bool works, over; /* as the last gather found */

static struct rank_look *
gather(int64_t group_rank, const struct rank_look *own, int64_t us, int *n)
{
    struct rank_meet m = node(group_rank);
    const struct rank_meet_limits limits = {
        .first_us = mono_now_us(), .whole_us = mono_after(mono_now_us(), us)};
    struct rank_look *all =
        rank_meet_gather(&m, own, 1, &limits, n, &works, &over);
    ck_assert_ptr_nonnull(all);
    for (int i = 1; i < *n; i++)
        ck_assert_int_lt(all[i - 1].rank, all[i].rank);
    return all;
}

CASE("net", .limit_s = 60, FIXTURE(start, stop))

TEST(test_rank_meet_the_last_word_of_each_node_counts)
{
    struct rank_look own = look(4, RANK_WAITS), *all;
    struct rank_look first[2] = {look(0, RANK_WAITS), look(1, RANK_WAITS)};
    struct rank_look last = look(8, RANK_STOPPED);
    struct rank_meet a = node(0), c = node(2);
    int n;
    rank_meet_tell(&a, first, 2, false);
    rank_meet_tell(&c, &last, 1, true);
    first[1].doing = RANK_SLEEPS;
    rank_meet_over(&a);
    rank_meet_tell(&a, first, 2, true);
    int64_t began_us = mono_now_us();
    all = gather(1, &own, 100 * MONO_S, &n);
    ck_assert_int_lt(mono_now_us() - began_us, 20 * MONO_S); /* all are whole */
    ck_assert(over && !works);
    ck_assert_int_eq(n, 4);
    ck_assert_int_eq(all[0].doing, RANK_WAITS);
    ck_assert_int_eq(all[1].doing, RANK_SLEEPS);
    ck_assert_int_eq(all[2].rank, 4);
    ck_assert_int_eq(all[3].doing, RANK_STOPPED);
    free(all);
}

/* Nobody is waited for then. What was said to an earlier question does not
 * count. */
TEST(test_rank_meet_one_node_that_works_is_enough)
{
    struct rank_look own = look(4, RANK_WAITS);
    struct rank_meet a = node(0);
    int n;
    a.look = 1;
    rank_meet_work(&a);
    rank_meet_over(&a);
    free(gather(1, &own, 300 * MONO_MS, &n));
    ck_assert(!works && !over);
    a.look = 0;
    rank_meet_work(&a);
    int64_t began_us = mono_now_us();
    free(gather(1, &own, 100 * MONO_S, &n));
    ck_assert(works);
    ck_assert_int_lt(mono_now_us() - began_us, 20 * MONO_S);
}

TEST(test_rank_meet_a_silent_node_is_left_out)
{
    struct rank_look own = look(4, RANK_WAITS), early = look(0, RANK_STOPPED);
    struct rank_look *all;
    struct rank_meet a = node(0);
    int n;
    rank_meet_tell(&a, &early, 1, false); /* its stacks never come */
    all = gather(1, &own, 300 * MONO_MS, &n);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(all[0].doing, RANK_STOPPED);
    free(all);
}

TEST(test_rank_meet_nonsense_is_left_out)
{
    struct rank_look own = look(4, RANK_WAITS), *all;
    struct store_client s;
    struct ddp_err err;
    char key[80];
    int n;
    store_client_init(&s, "127.0.0.1", port);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(key, sizeof(key), "ddprun/odd_rank/%d/0/%d", ROUND, i);
        ck_assert_int_eq(
            store_client_set(&s, key, "whole\nx", 7, MONO_NEVER, &err), 0);
    }
    store_client_free(&s);
    all = gather(1, &own, 100 * MONO_S, &n);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(all[0].rank, 4);
    free(all);
}

/* A store that is gone, none at all, and a round of one node. */
TEST_LOOP(test_rank_meet_without_others_knows_its_own, 0, 3)
{
    struct rank_look own = look(4, RANK_WAITS), *all;
    struct rank_meet m = node(1);
    const struct rank_meet_limits limits = {mono_now_us(), mono_now_us()};
    int n;
    stop();
    m.host = _i == 1 ? "" : m.host;
    m.group_world = _i == 2 ? 1 : m.group_world;
    rank_meet_tell(&m, &own, 1, true);
    all = rank_meet_gather(&m, &own, 1, &limits, &n, &works, &over);
    ck_assert_ptr_nonnull(all);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(all[0].rank, 4);
    free(all);
    start();
}

SUITE("rank_meet", "text", .tags = "fast")
