/* links: rendezvous/daemon/conn_slots */
/* links: rendezvous/base/err rendezvous/base/mono */
/*
 * Which pending connection gives way when all are taken.
 */
#include <check.h>
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
static struct conn_slot *take(void)
{
    static char a_conn; /* only its address counts */
    struct conn_slot *slot = conn_slots_take(slots, (struct conn *)&a_conn);
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

static void flood(void)
{
    while (take() != NULL)
        ;
    ck_assert_int_eq(conn_slots_used(slots), MAX);
}

START_TEST(test_slots_pending_are_known_by_age)
{
    struct conn_slot *a = take();
    struct conn_slot *b = take();
    struct conn_slot *c = take();
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
    flood();
}
END_TEST

/* However fast others come, a pending one has its time; then the oldest goes.
 */
START_TEST(test_slots_the_oldest_gives_way_when_it_is_old)
{
    struct conn_slot *member = take();
    struct conn_slot *quiet = take();
    conn_slots_join(slots, member);
    flood();
    ck_assert_ptr_null(conn_slots_victim(slots, is_old, NULL));
    now_us += MONO_S;
    ck_assert_ptr_eq(conn_slots_victim(slots, is_old, NULL), quiet);
}
END_TEST

START_TEST(test_slots_members_never_give_way)
{
    for (int i = 0; i < MAX; i++)
        conn_slots_join(slots, take());
    now_us += 60 * MONO_S;
    ck_assert_ptr_null(conn_slots_victim(slots, is_old, NULL));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slots");
    TCase *tc = tcase_create("slots");
    tcase_set_tags(tc, "fast");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_slots_pending_are_known_by_age);
    tcase_add_test(tc, test_slots_the_oldest_gives_way_when_it_is_old);
    tcase_add_test(tc, test_slots_members_never_give_way);
    suite_add_tcase(s, tc);
    return suite_run(s);
}
