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

/* A run in round 1, whose leader has the term `count`, and no voters. */
static void setup_run(int min, bool strict, int64_t count)
{
    struct authority_rules rules = {
        .lease_us = LEASE, .nodes_min = min, .strict = strict};
    now_us = 1000 * MONO_S;
    authority_init(&authority, &rules);
    authority.heard = count - 1;
    authority_campaign(&authority, "00000000000000ee");
    ck_assert(authority_advance(&authority, now_us) == AUTHORITY_ELECTED);
    authority.round = 1;
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
    setup_run(1 + _i % NODES, true, 1);
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

/* At once in its line or if it never answered anybody, elsewhere after a lease.
 */
TEST_LOOP(test_launchers_count_in_another_line_after_a_lease, 0, 6)
{
    static const struct {
        int64_t line, answered_ms;
        bool at_once;
    } rows[] = {
        {0, -1, true},   {7, 0, true},   {6, 0, false}, {8, 0, false},
        {6, 1000, true}, {-1, 0, false}, /* it does not say in which */
    };
    setup_run(1, true, 7 * AUTHORITY_LEAP + 9);
    if (rows[_i].answered_ms >= 0) {
        launchers[0].line = rows[_i].line;
        launchers[0].answered_us = now_us - rows[_i].answered_ms * MONO_MS;
    }
    obey(0, &authority.term);
    answer(0, now_us);
    ck_assert(launchers_have_answered(&authority) == rows[_i].at_once);
    now_us += LEASE;
    answer(0, now_us);
    ck_assert(launchers_have_answered(&authority));
    ck_assert_int_eq(since_us(), now_us);
}

/* Neither those that promised another term nor those that are gone. */
TEST(test_launchers_that_obey_others_or_are_gone_do_not_count)
{
    struct term higher = term_make(2, "00000000000000ff");
    setup_run(NODES - 1, true, 1);
    promise_all();
    ck_assert(launchers_have_promised(&authority));
    for (int i = 0; i < NODES; i++)
        answer(i, now_us);
    ck_assert(launchers_have_answered(&authority));
    obey(3, &higher);
    answer(3, now_us + 1);
    ck_assert(launchers_have_promised(&authority));
    ck_assert(launchers_have_answered(&authority));
    launchers_remove(&authority, &launchers[4]);
    ck_assert(!launchers_have_promised(&authority));
    ck_assert(!launchers_have_answered(&authority));
}

/* A new term begins without any, and none is left of the one before. */
TEST(test_launchers_of_an_earlier_term_do_not_count)
{
    setup_run(1, true, 1);
    promise_all();
    answer(0, now_us);
    answer(1, now_us);
    authority_campaign(&authority, "00000000000000ee");
    ck_assert_int_eq(authority.launchers.promised, 0);
    answer(0, now_us + 1);
    launchers_remove(&authority, &launchers[1]);
    ck_assert_int_eq(authority.launchers.promised, 0);
    ck_assert(!launchers_have_answered(&authority));
    obey(0, &authority.term);
    ck_assert(launchers_have_promised(&authority));
    answer(0, now_us);
    ck_assert_int_eq(since_us(), now_us);
}

/* They are not asked for in a run of variable size, before its first round, nor
 * after its end. */
TEST_LOOP(test_launchers_are_not_needed_of_all_runs, 0, 4)
{
    setup_run(2, _i != 0, 1);
    authority.round = _i == 1 ? 0 : 1;
    authority.ended = _i == 2;
    bool needed = _i == 3;
    ck_assert(launchers_have_promised(&authority) == !needed);
    ck_assert(launchers_have_answered(&authority) == !needed);
    ck_assert((launchers_until_us(&authority) == MONO_NEVER) == !needed);
}

SUITE("launchers", "launchers", .tags = "fast")
