/* links: tests/unit/rendezvous/core/{voter_hand,rdzv_hand} */
/* libs: -lcjson */
/*
 * Strict runs, which need more than half of their nodes: their server acts with
 * enough launchers only, and so many go on by count without the voters.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/core/voter_hand.h"

/* Of three nodes of which two are needed the last round's first server is lost
 * with 0 and 1; 2 comes to another one with node 5, which is new. Nobody can
 * tell whether those two run: so it goes on by count, without them, in a line
 * of its own, when their leases are over, and at the earliest after half a
 * lease. */
TEST(test_count_goes_on_with_others_after_a_lease)
{
    int64_t before = round_of(3, 2, 3);
    serve(2);
    come(2);
    goes_on(3 * HEARTBEAT); /* one is not enough */
    ck_assert_int_eq(voters[2].promised.count, 1);
    come(5);
    goes_on(400 * MONO_MS);
    ck_assert_int_eq(voters[2].promised.count, 1);
    goes_on(200 * MONO_MS);
    ck_assert_int_ge(voters[2].promised.count, AUTHORITY_LEAP);
    ck_assert_ptr_nonnull(strstr(told_without, "group rank 0, 1)"));
    goes_on(400 * MONO_MS);
    ck_assert_int_eq(running(), 2);
    ck_assert(voters[2].runs && voters[5].runs);
    ck_assert_int_gt(newest_round(), before + 1); /* it leaps */
    /* One of the others lives: it is a newcomer. */
    come(0);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
}

/* All nodes of a run are lost at once without a farewell, not its server: that
 * knows the round. Others that come go on by count as soon as they are enough
 * and a lease is over since the last answer. */
TEST(test_count_of_a_server_that_lost_all_voters)
{
    int64_t before = round_of(2, 2, 2);
    breaks(0);
    breaks(1);
    goes_on(500 * MONO_MS);
    come(2);
    goes_on(700 * MONO_MS); /* the leases of 0 and 1 are over */
    ck_assert_int_lt(voters[2].promised.count, AUTHORITY_LEAP);
    come(3);
    goes_on(400 * MONO_MS);
    ck_assert_int_eq(running(), 2);
    ck_assert(voters[2].runs && voters[3].runs);
    ck_assert_int_gt(newest_round(), before + 1);
    ck_assert_int_ge(voters[3].promised.count, AUTHORITY_LEAP);
}

/* That they are connected is not enough: they have to be heard. */
TEST(test_count_is_of_those_that_are_heard)
{
    round_of(3, 2, 3);
    serve(2);
    come(2);
    voters[5].silent = true;
    come(5);
    goes_on(1100 * MONO_MS);
    ck_assert_int_eq(voters[2].promised.count, 1);
    breaks(5);
    voters[5].silent = false;
    come(5);
    goes_on(700 * MONO_MS);
    ck_assert_int_eq(running(), 2);
}

/* Where the voters come in that lease, nobody goes on by count. */
TEST(test_count_is_none_where_the_voters_come)
{
    int64_t before = round_of(2, 2, 2);
    serve(2);
    come(1);
    come(5);
    goes_on(900 * MONO_MS);
    come(0);
    goes_on(3 * HEARTBEAT);
    ck_assert_str_eq(told_without, "");
    ck_assert_int_eq(newest_round(), before + 1); /* their leases were over */
    ck_assert(voters[0].runs && voters[1].runs && !voters[5].runs);
}

/* A leader with half of its voters, which elects nobody, and too few launchers:
 * it goes on by count as soon as they are enough. */
TEST(test_count_of_a_server_that_lost_half_of_the_voters)
{
    round_of(2, 2, 2);
    breaks(1);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    come(2);
    goes_on(100 * MONO_MS);
    ck_assert_int_eq(running(), 2);
    ck_assert_ptr_nonnull(strstr(told_without, "group rank 1)"));
}

/* 1 goes over from a server that lives to this one, which goes on by count with
 * 1 and 2, and loses 2. A launcher that answers the other server until now
 * would be the second one: it counts only a lease later, when that server
 * cannot act with it any more. */
TEST(test_count_launcher_of_another_line_waits)
{
    round_of(2, 2, 2);
    serve(2);
    come_all(1, 2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
    int64_t round = newest_round();
    dies(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    voters[0].answered_us = now_us;
    voters[0].holds.round = 0; /* as a spare there */
    voters[0].accepted.round = 0;
    come(0);
    goes_on(900 * MONO_MS);
    ck_assert_int_eq(newest_round(), 0);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(running(), 2);
    ck_assert_int_gt(newest_round(), round);
}

/* Found by the model (s14): two others that came in its place could go on by
 * count elsewhere as soon as it is dead. So a launcher that said farewell
 * counts no more, and the rest has no new lease. */
TEST(test_count_farewell_leaves_too_few_launchers_without_a_lease)
{
    round_of(2, 2, 2);
    dies(1);
    int64_t until_us = voters[0].lease_until_us;
    goes_on(500 * MONO_MS);
    ck_assert_int_eq(voters[0].lease_until_us, until_us);
    come(2); /* in its place */
    goes_on(100 * MONO_MS);
    ck_assert_int_eq(running(), 2);
}

/* More than half of the voters, but fewer launchers than a round needs: the
 * server is the leader, and others come to it, but it grants nothing. */
TEST(test_count_majority_that_is_too_few_grants_nothing)
{
    int64_t before = round_of(3, 3, 3);
    serve(2);
    come_all(0, 1);
    int64_t until_us = voters[0].lease_until_us;
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 2);
    ck_assert_int_eq(granted[0].grant_ms, 0);
    ck_assert_int_eq(voters[0].lease_until_us, until_us);
    ck_assert_int_eq(running(), 0);
    come(6); /* in the place of the third one */
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_ge(voters[6].promised.count, AUTHORITY_LEAP);
}

/* The newest round may not have been in force, and fewer of its voters live
 * than a round has nodes: half of them, and enough launchers, put it in force
 * again. Found by the simulator: all voters but those that were struck had to
 * accept it, so that the run waited for the dead. */
TEST(test_count_round_in_doubt_needs_half_of_its_voters)
{
    (void)doubt_of(3, 3, 3);
    serve(2);
    come_all(0, 1);
    come(6); /* in the place of the third one */
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_eq(voters[6].promised.count, 2);
}

HAND_SUITE("rdzv_count")
