/* links: rendezvous/core/inner/authority/{authority,launchers,voters} */
/* links: rendezvous/proto/{msg,term} */
/* links: rendezvous/base/{err,mono,json,rng,utf8,buf} */
/* libs: -lcjson */
/*
 * The launchers of a strict run: when the nodes_min newest of them answered,
 * and which of them count.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/inner/authority/launchers_priv.h"
#include "tests/lib/suite.h"

#define NODES 12
#define LEASE (1000 * MONO_MS)

static struct authority authority;
static struct launcher launchers[NODES];
static int64_t now_us;

static void campaign(void)
{
    authority_campaign(&authority, "00000000000000ee");
}

/* A run in round 1, with a leader and no voters, whose line is unbroken for a
 * lease. */
static void setup_run(int min, bool strict)
{
    struct authority_rules rules = {
        .lease_us = LEASE, .nodes_min = min, .strict = strict};
    now_us = 1000 * MONO_S;
    authority_init(&authority, &rules);
    campaign();
    ck_assert(authority_advance(&authority, now_us) == AUTHORITY_ELECTED);
    authority.round = 1;
    launchers_hold(&authority, now_us + LEASE);
    for (int i = 0; i < NODES; i++)
        launchers[i] = (struct launcher){.echo_us = AUTHORITY_NO_ECHO,
                                         .answered_us = AUTHORITY_NO_ECHO};
}

static void obey(int i, const struct term *term)
{
    launchers[i].term = *term;
    launchers_obey(&authority, &launchers[i]);
}

static void answer(int i, int64_t sent_us)
{
    launchers_answer(&authority, &launchers[i], sent_us, now_us);
}

static void promise_all(void)
{
    for (int i = 0; i < NODES; i++)
        obey(i, &authority.term);
}

static bool have_answered(void)
{
    return launchers_until_us(&authority) != AUTHORITY_NO_ECHO;
}

static int64_t since_us(void)
{
    launchers_check(&authority);
    return launchers_until_us(&authority) - LEASE;
}

/* The same by counting. */
static int64_t counted_us(const int64_t echoes[NODES])
{
    int64_t best_us = AUTHORITY_NO_ECHO;
    for (int i = 0; i < NODES; i++) {
        int n = 0;
        for (int k = 0; k < NODES; k++)
            n += echoes[k] >= echoes[i];
        if (n >= authority.rules.nodes_min && echoes[i] > best_us)
            best_us = echoes[i];
    }
    return best_us;
}

/* Whatever comes in which order, and goes. */
TEST_LOOP(test_launchers_order_is_that_of_their_newest_answers, 0, 24)
{
    struct rng rng;
    int64_t echoes[NODES];
    rng_init(&rng, (uint64_t)_i + 1);
    setup_run(1 + _i % NODES, true);
    promise_all();
    for (int i = 0; i < NODES; i++)
        echoes[i] = AUTHORITY_NO_ECHO;
    for (int step = 0; step < 2000; step++) {
        int i = (int)rng_below(&rng, NODES);
        int64_t sent_us = now_us + step / 4 - rng_below(&rng, 5);
        if (rng_below(&rng, 6) == 0) {
            launchers_remove(&authority, &launchers[i]);
            obey(i, &authority.term);
            echoes[i] = AUTHORITY_NO_ECHO;
        } else {
            answer(i, sent_us);
            if (sent_us > echoes[i])
                echoes[i] = sent_us;
        }
        int64_t since = counted_us(echoes);
        if (since == AUTHORITY_NO_ECHO)
            ck_assert_int_eq(launchers_until_us(&authority), AUTHORITY_NO_ECHO);
        else
            ck_assert_int_eq(since_us(), since);
    }
}

/* A leader that has asked for a line of its own, by count: those that answered
 * another server within a lease do not count yet. */
TEST_LOOP(test_launchers_elect_a_lease_after_another_server, 0, 3)
{
    static const int64_t answered_ms[] = {-1, 0, 1000};
    setup_run(1, true);
    if (answered_ms[_i] >= 0)
        launchers[0].answered_us = now_us - answered_ms[_i] * MONO_MS;
    authority_begin_line(&authority, 0, true, now_us);
    campaign();
    obey(0, &authority.term);
    answer(0, now_us);
    bool at_once = answered_ms[_i] != 0;
    ck_assert(have_answered() == at_once);
    ck_assert((authority_advance(&authority, now_us) == AUTHORITY_ELECTED) ==
              at_once);
}

/* ... and of those that are here so many have to promise within half a lease:
 * a later line is above it then. */
TEST_LOOP(test_launchers_elect_within_half_a_lease, 0, 2)
{
    setup_run(1, true);
    now_us += 9 * LEASE; /* it is broken */
    ck_assert(authority_is_broken(&authority, now_us));
    authority_begin_line(&authority, 9 * LEASE, true, now_us);
    campaign();
    ck_assert(!authority_is_broken(&authority, now_us));
    obey(0, &authority.term);
    now_us += _i == 0 ? LEASE / 2 : LEASE / 2 + 1;
    answer(0, now_us);
    ck_assert((authority_advance(&authority, now_us) == AUTHORITY_ELECTED) ==
              (_i == 0));
    ck_assert(authority_is_broken(&authority, now_us) == (_i == 1));
}

/* Found by the simulator: a leader that had lacked launchers for a lease went
 * on with a newcomer, while others had begun another line, and ended the run.
 * In that lease it may, with those that come; or if a launcher holds a lease.
 */
TEST_LOOP(test_launchers_do_not_mend_a_line_that_is_broken, 0, 3)
{
    setup_run(2, true);
    promise_all();
    answer(0, now_us);
    answer(1, now_us);
    launchers_remove(&authority, &launchers[1]);
    ck_assert(!have_answered());
    now_us += _i == 0 ? LEASE : LEASE + 1;
    if (_i == 2)
        launchers_hold(&authority, now_us);
    answer(0, now_us);
    answer(2, now_us);
    ck_assert(have_answered());
    ck_assert((launchers_until_us(&authority) > now_us) == (_i != 1));
    ck_assert(authority_is_broken(&authority, now_us) == (_i == 1));
}

/* Neither those that promised another term nor those that are gone. */
TEST(test_launchers_that_obey_others_or_are_gone_do_not_count)
{
    struct term higher = term_make(2, "00000000000000ff");
    setup_run(NODES - 1, true);
    promise_all();
    for (int i = 0; i < NODES; i++)
        answer(i, now_us);
    ck_assert(have_answered());
    obey(3, &higher);
    answer(3, now_us + 1);
    ck_assert(have_answered());
    launchers_remove(&authority, &launchers[4]);
    ck_assert(!have_answered());
}

/* A new term begins without any, and none is left of the one before. */
TEST(test_launchers_of_an_earlier_term_do_not_count)
{
    setup_run(1, true);
    promise_all();
    answer(0, now_us);
    answer(1, now_us);
    campaign();
    answer(0, now_us + 1);
    launchers_remove(&authority, &launchers[1]);
    ck_assert(!have_answered());
    obey(0, &authority.term);
    answer(0, now_us);
    ck_assert_int_eq(since_us(), now_us);
}

/* They are not asked for in a run of variable size, before its first round, nor
 * after its end. */
TEST_LOOP(test_launchers_are_not_needed_of_all_runs, 0, 4)
{
    setup_run(2, _i != 0);
    authority.round = _i == 1 ? 0 : 1;
    authority.ended = _i == 2;
    bool needed = _i == 3;
    ck_assert(launchers_are_needed(&authority) == needed);
    ck_assert((launchers_until_us(&authority) == MONO_NEVER) == !needed);
}

SUITE("launchers", "launchers", .tags = "fast")
