/* links: worker_rt/comm/hello rendezvous/base/{siphash,rng,err} */
/*
 * The first words between two ranks: who has the key of the round is known by
 * them, and nobody else is.
 */
#include <check.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "worker_rt/comm/hello.h"

static struct comm_place place_of(int rank)
{
    return (struct comm_place){
        .instance = "0123456789abcdef0123456789abcdef",
        .round = 7,
        .key = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)},
        .id = 3,
        .rank = rank,
        .world = 4};
}

/* Rank 3 calls rank 1. */
static struct comm_place caller, listener;
static struct hello hello;
static struct hello_reply reply;

static void setup(void)
{
    caller = place_of(3);
    listener = place_of(1);
    hello_make(&hello, &caller, 1, 0);
    hello_reply_make(&reply, &listener, &hello, HELLO_TAKEN);
}

/* Whether both would let the other in. */
static bool caller_trusts(void)
{
    return hello_reply_check(&caller, &hello, &reply) == HELLO_TAKEN;
}

static bool listener_trusts(uint64_t proof)
{
    return proof == hello_proof(&listener, &hello, &reply);
}

TEST(test_hello_of_this_round_is_proven_by_both)
{
    ck_assert(hello_begins(&hello, 0) && hello_begins(&hello, sizeof(hello)));
    ck_assert_int_eq(hello_check(&listener, &hello), HELLO_TAKEN);
    ck_assert(caller_trusts());
    ck_assert(listener_trusts(hello_proof(&caller, &hello, &reply)));
    /* One side's proof is not the other's: it cannot be sent back. */
    ck_assert(!listener_trusts(reply.proof));
}

static const struct {
    uint64_t key[2];
    const char *what;
} keys[] = {
    {{0, 0}, "none"},
    {{UINT64_C(0x0123456789abcdef), 0}, "half of it"},
    {{UINT64_C(0x0123456789abcdee), UINT64_C(0xfedcba9876543210)}, "one bit"},
};

TEST_LOOP(test_hello_under_another_key_proves_nothing, 0, 3)
{
    memcpy(caller.key, keys[_i].key, sizeof(caller.key));
    ck_assert_msg(hello_reply_check(&caller, &hello, &reply) == HELLO_OTHER_KEY,
                  "%s", keys[_i].what);
    ck_assert(!listener_trusts(hello_proof(&caller, &hello, &reply)));
}

/* Whatever bit of the hello changes on its way: both see that. */
TEST(test_hello_changed_by_a_bit_proves_nothing)
{
    uint64_t proof = hello_proof(&caller, &hello, &reply);
    for (size_t bit = 0; bit < 8 * sizeof(hello); bit++) {
        struct hello got = hello;
        struct hello_reply to_that;
        ((uint8_t *)&got)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        hello_reply_make(&to_that, &listener, &got, HELLO_TAKEN);
        ck_assert(hello_reply_check(&caller, &hello, &to_that) ==
                  HELLO_OTHER_KEY);
        ck_assert(hello_proof(&listener, &got, &reply) != proof);
    }
}

/* The same of the reply, whose answer may become a refusal. */
TEST(test_hello_reply_changed_by_a_bit_is_not_taken)
{
    struct hello_reply sound = reply;
    for (size_t bit = 0; bit < 8 * sizeof(reply); bit++) {
        if (bit / 8 >= 12 && bit / 8 < 16)
            continue; /* four bytes that mean nothing */
        reply = sound;
        ((uint8_t *)&reply)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert(!caller_trusts());
    }
}

/* Of another connection, between the same ranks, for the same purpose. */
TEST(test_hello_recorded_proves_nothing_again)
{
    uint64_t recorded = hello_proof(&caller, &hello, &reply);
    struct hello_reply again, recorded_reply = reply;
    hello_reply_make(&again, &listener, &hello, HELLO_TAKEN);
    ck_assert(recorded != hello_proof(&listener, &hello, &again));
    hello_make(&hello, &caller, 1, 0);
    reply = recorded_reply;
    ck_assert(!caller_trusts());
}

/* Who has no place here is told why, with nothing that only ranks know. */
TEST(test_hello_refusal_has_no_proof)
{
    static const uint64_t none[2] = {0, 0};
    for (int answer = HELLO_OTHER_INSTANCE; answer <= HELLO_NO_SUCH_PLACE;
         answer++) {
        hello_reply_make(&reply, &listener, &hello, (enum hello_answer)answer);
        ck_assert_mem_eq(reply.nonce, none, sizeof(none));
        ck_assert(reply.proof == 0);
        ck_assert_int_eq(hello_reply_check(&caller, &hello, &reply), answer);
    }
}

TEST_LOOP(test_hello_of_another_place_is_refused, 0, 5)
{
    static const struct {
        enum hello_answer answer;
        int64_t round;
        uint32_t comm, world, to;
    } cases[] = {
        {HELLO_OTHER_ROUND, 8, 3, 4, 1}, {HELLO_OTHER_COMM, 7, 4, 4, 1},
        {HELLO_OTHER_WORLD, 7, 3, 5, 1}, {HELLO_NO_SUCH_PLACE, 7, 3, 4, 2},
        {HELLO_TAKEN, 7, 3, 4, 1},
    };
    hello.round = cases[_i].round;
    hello.comm = cases[_i].comm;
    hello.world = cases[_i].world;
    hello.to = cases[_i].to;
    ck_assert_int_eq(hello_check(&listener, &hello), cases[_i].answer);
    hello.instance[31] = 'e';
    ck_assert_int_eq(hello_check(&listener, &hello), HELLO_OTHER_INSTANCE);
    hello.magic[7]--;
    ck_assert_int_eq(hello_check(&listener, &hello), HELLO_OTHER_PROTOCOL);
}

/* What a rank has in the store stands there for nobody else. */
TEST(test_hello_address_is_signed_for_one_rank)
{
    static const char text[] = "10.0.0.1 10.1.0.1 41234";
    struct comm_place other = place_of(1);
    uint64_t sign = hello_sign_address(&listener, 1, text);
    ck_assert(sign == hello_sign_address(&caller, 1, text));
    ck_assert(sign != hello_sign_address(&caller, 2, text));
    ck_assert(sign != hello_sign_address(&caller, 1, "10.0.0.1 41234"));
    other.id++;
    ck_assert(sign != hello_sign_address(&other, 1, text));
    other = place_of(1);
    other.key[1]++;
    ck_assert(sign != hello_sign_address(&other, 1, text));
}

SUITE("hello", "proofs", FIXTURE(setup, NULL))
