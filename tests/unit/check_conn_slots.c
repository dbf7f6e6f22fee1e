/* links: rendezvous/daemon/conn_slots rendezvous/base/quota */
/* links: rendezvous/base/err rendezvous/base/mono */
/*
 * Which pending connection gives way when all are taken.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/daemon/conn_slots.h"
#include "tests/lib/suite.h"

#define MAX 8

static struct conn_slots *slots;
static int64_t now_us;

static void setup(void)
{
    slots = conn_slots_new(MAX);
    now_us = 5 * MONO_S;
}

static void teardown(void)
{
    conn_slots_del(slots);
}

/* One a millisecond. */
static struct conn_slot *take(const char *addr)
{
    static char a_conn; /* only its address counts */
    struct conn_slot *slot =
        conn_slots_take(slots, (struct conn *)&a_conn, addr);
    now_us += MONO_MS;
    if (slot != NULL)
        slot->since_us = now_us;
    return slot;
}

/* As the server has it, where nobody proves anything. */
static bool is_old(void *ctx, const struct conn_slot *slot)
{
    (void)ctx;
    return now_us >= slot->since_us + MONO_S;
}

static void flood(const char *addr)
{
    while (take(addr) != NULL)
        ;
    ck_assert_int_eq(conn_slots_used(slots), MAX);
}

START_TEST(test_slots_pending_are_known_by_age)
{
    struct conn_slot *a = take("10.0.0.1");
    struct conn_slot *b = take("10.0.0.2");
    struct conn_slot *c = take("10.0.0.1");
    ck_assert_int_eq(conn_slots_pending(slots), 3);
    ck_assert_ptr_eq(conn_slots_oldest(slots), a);
    conn_slots_join(slots, b);
    conn_slots_free(slots, a);
    ck_assert_ptr_eq(conn_slots_oldest(slots), c);
    ck_assert_int_eq(conn_slots_used(slots), 2);
    conn_slots_free(slots, c);
    ck_assert_ptr_null(conn_slots_oldest(slots));
    ck_assert_ptr_eq(conn_slots_at(slots, conn_slots_index(slots, b)), b);
    conn_slots_free(slots, b);
    ck_assert_int_eq(conn_slots_used(slots), 0);
    flood("10.0.0.1");
}
END_TEST

/* However fast it comes: it takes from its own host only. */
START_TEST(test_slots_a_flood_gives_way_to_others_at_once)
{
    struct conn_slot *member = take("10.0.0.2");
    struct conn_slot *quiet = take("10.0.0.3");
    conn_slots_join(slots, member);
    flood("10.0.0.1");
    struct conn_slot *victim =
        conn_slots_victim(slots, "10.0.0.2", is_old, NULL);
    ck_assert_ptr_nonnull(victim);
    ck_assert(victim != member && victim != quiet);
    ck_assert_int_eq(victim->since_us, now_us - MONO_MS); /* the youngest */
    ck_assert_ptr_null(conn_slots_victim(slots, "10.0.0.1", is_old, NULL));
    now_us += MONO_S;
    victim =
        conn_slots_victim(slots, "10.0.0.1", is_old, NULL); /* its own oldest */
    ck_assert_int_eq(victim->since_us, 5 * MONO_S + 3 * MONO_MS);
}
END_TEST

/* Each host has one: none is largest, so it is time that counts. */
START_TEST(test_slots_among_equals_the_oldest_goes_when_it_is_old)
{
    char addr[32];
    for (int i = 0; i < MAX; i++) {
        (void)snprintf(addr, sizeof(addr), "10.0.0.%d", i);
        ck_assert_ptr_nonnull(take(addr));
    }
    ck_assert_ptr_null(conn_slots_victim(slots, "10.0.1.1", is_old, NULL));
    now_us += MONO_S;
    ck_assert_ptr_eq(conn_slots_victim(slots, "10.0.1.1", is_old, NULL),
                     conn_slots_oldest(slots));
}
END_TEST

START_TEST(test_slots_members_never_give_way)
{
    for (int i = 0; i < MAX; i++)
        conn_slots_join(slots, take("10.0.0.1"));
    now_us += 60 * MONO_S;
    ck_assert_ptr_null(conn_slots_victim(slots, "10.0.0.2", is_old, NULL));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slots");
    TCase *tc = tcase_create("slots");
    tcase_set_tags(tc, "fast");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_slots_pending_are_known_by_age);
    tcase_add_test(tc, test_slots_a_flood_gives_way_to_others_at_once);
    tcase_add_test(tc, test_slots_among_equals_the_oldest_goes_when_it_is_old);
    tcase_add_test(tc, test_slots_members_never_give_way);
    suite_add_tcase(s, tc);
    return suite_run(s);
}
