/* links: rendezvous/daemon/conn_slots rendezvous/base/{err,mono} */
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

TEST(test_slots_pending_are_known_by_age)
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

/* However fast others come, a pending one has its time; then the oldest goes.
 */
TEST(test_slots_the_oldest_gives_way_when_it_is_old)
{
    struct conn_slot *member = take();
    struct conn_slot *quiet = take();
    conn_slots_join(slots, member);
    flood();
    ck_assert_ptr_null(conn_slots_victim(slots, is_old, NULL));
    now_us += MONO_S;
    ck_assert_ptr_eq(conn_slots_victim(slots, is_old, NULL), quiet);
}

TEST(test_slots_members_never_give_way)
{
    for (int i = 0; i < MAX; i++)
        conn_slots_join(slots, take());
    now_us += 60 * MONO_S;
    ck_assert_ptr_null(conn_slots_victim(slots, is_old, NULL));
}

SUITE("slots", "slots", .tags = "fast", FIXTURE(setup, teardown))
