/* links: rendezvous/daemon/slots rendezvous/base/log_limit */
/* links: rendezvous/base/quota rendezvous/base/err rendezvous/base/mono */
/*
 * What strangers may take: which of them gives way where all connections are
 * taken, and what the log is told of them.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/log_limit.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/daemon/slots.h"
#include "tests/lib/suite.h"

#define MAX 8

static struct slots *slots;
static int64_t now_us;

static void setup(void)
{
    slots = slots_new(MAX);
    now_us = 5 * MONO_S;
}

static void teardown(void)
{
    slots_del(slots);
}

/* One a millisecond. */
static struct slot *take(const char *addr)
{
    static char a_conn; /* only its address counts */
    struct slot *slot = slots_take(slots, (struct conn *)&a_conn, addr);
    now_us += MONO_MS;
    if (slot != NULL)
        slot->since_us = now_us;
    return slot;
}

/* As the server has it, where nobody proves anything. */
static bool is_old(void *ctx, const struct slot *slot)
{
    (void)ctx;
    return now_us >= slot->since_us + MONO_S;
}

static void flood(const char *addr)
{
    while (take(addr) != NULL)
        ;
    ck_assert_int_eq(slots_used(slots), MAX);
}

START_TEST(test_slots_strangers_are_known_by_age)
{
    struct slot *a = take("10.0.0.1");
    struct slot *b = take("10.0.0.2");
    struct slot *c = take("10.0.0.1");
    ck_assert_int_eq(slots_strangers(slots), 3);
    ck_assert_ptr_eq(slots_oldest(slots), a);
    slots_join(slots, b);
    slots_free(slots, a);
    ck_assert_ptr_eq(slots_oldest(slots), c);
    ck_assert_int_eq(slots_used(slots), 2);
    slots_free(slots, c);
    ck_assert_ptr_null(slots_oldest(slots));
    ck_assert_ptr_eq(slots_at(slots, slots_index(slots, b)), b);
    slots_free(slots, b);
    ck_assert_int_eq(slots_used(slots), 0);
    flood("10.0.0.1");
}
END_TEST

/* However fast it comes: it takes from its own host only. */
START_TEST(test_slots_a_flood_gives_way_to_others_at_once)
{
    struct slot *member = take("10.0.0.2");
    struct slot *quiet = take("10.0.0.3");
    slots_join(slots, member);
    flood("10.0.0.1");
    struct slot *victim = slots_victim(slots, "10.0.0.2", is_old, NULL);
    ck_assert_ptr_nonnull(victim);
    ck_assert(victim != member && victim != quiet);
    ck_assert_int_eq(victim->since_us, now_us - MONO_MS); /* the youngest */
    ck_assert_ptr_null(slots_victim(slots, "10.0.0.1", is_old, NULL));
    now_us += MONO_S;
    victim = slots_victim(slots, "10.0.0.1", is_old, NULL); /* its own oldest */
    ck_assert_int_eq(victim->since_us, 5 * MONO_S + 3 * MONO_MS);
}
END_TEST

/* Each host has one: none has more than the others, so it is time that counts.
 */
START_TEST(test_slots_among_equals_the_oldest_goes_when_it_is_old)
{
    char addr[32];
    for (int i = 0; i < MAX; i++) {
        (void)snprintf(addr, sizeof(addr), "10.0.0.%d", i);
        ck_assert_ptr_nonnull(take(addr));
    }
    ck_assert_ptr_null(slots_victim(slots, "10.0.1.1", is_old, NULL));
    now_us += MONO_S;
    ck_assert_ptr_eq(slots_victim(slots, "10.0.1.1", is_old, NULL),
                     slots_oldest(slots));
}
END_TEST

START_TEST(test_slots_members_never_give_way)
{
    for (int i = 0; i < MAX; i++)
        slots_join(slots, take("10.0.0.1"));
    now_us += 60 * MONO_S;
    ck_assert_ptr_null(slots_victim(slots, "10.0.0.2", is_old, NULL));
}
END_TEST

/* -- the log --------------------------------------------------------------- */

START_TEST(test_hush_counts_what_is_left_out_of_each)
{
    static struct hush h;
    char line[160];
    int said = 0;
    hush_init(&h, 10, 2);
    for (int i = 0; i < 1000; i++) {
        said += hush_may(&h, "10.0.0.1", now_us);
        now_us += 10 * MONO_MS;
    }
    ck_assert_int_eq(said, 10 + 2 * 10 - 1); /* ten at once, ten seconds */
    ck_assert(hush_may(&h, "10.0.0.2", now_us));
    ck_assert(hush_tell(&h, line, sizeof(line)));
    ck_assert_str_eq(line, "971 more lines about 10.0.0.1 were left out");
    ck_assert(!hush_tell(&h, line, sizeof(line)));
    now_us += 60 * MONO_S;
    for (int i = 0; i < 10; i++)
        ck_assert(hush_may(&h, "10.0.0.1", now_us));
    ck_assert(!hush_may(&h, "10.0.0.1", now_us));
}
END_TEST

/* Ten thousand nodes that join at once are all told of; as many loud strangers
 * are not, from however many addresses they are. */
START_TEST(test_hush_of_many_sources_is_bounded)
{
    static struct hush h;
    char addr[32], line[160];
    int said = 0;
    int64_t left_out = 0;
    hush_init(&h, 500, 2);
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(addr, sizeof(addr), "10.0.%d.%d", i / 250, i % 250);
        ck_assert(hush_may(&h, addr, now_us));
    }
    hush_init(&h, 10, 2);
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(addr, sizeof(addr), "10.0.%d.%d", i / 250 % 40, i % 250);
        said += hush_may(&h, addr, now_us);
    }
    ck_assert_int_le(said, 10 * HUSH_SOURCES);
    while (hush_tell(&h, line, sizeof(line)))
        left_out += strtoll(line, NULL, 10);
    ck_assert_int_eq(said + left_out, 100000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slots");
    TCase *tc = tcase_create("slots");
    tcase_set_tags(tc, "fast");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_slots_strangers_are_known_by_age);
    tcase_add_test(tc, test_slots_a_flood_gives_way_to_others_at_once);
    tcase_add_test(tc, test_slots_among_equals_the_oldest_goes_when_it_is_old);
    tcase_add_test(tc, test_slots_members_never_give_way);
    tcase_add_test(tc, test_hush_counts_what_is_left_out_of_each);
    tcase_add_test(tc, test_hush_of_many_sources_is_bounded);
    suite_add_tcase(s, tc);
    return suite_run(s);
}
