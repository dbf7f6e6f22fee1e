/* links: tests/lib/store_talk */
/* The store where it is full, and where it is large. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/store_talk.h"
#include "tests/lib/suite.h"

static struct c10d_request set_of(const char *key, uint8_t *value, size_t len)
{
    return (struct c10d_request){
        .op = C10D_SET,
        .key = {(const uint8_t *)key, strlen(key)},
        .value = {value, len},
    };
}

/* A store that is full says so, keeps what it has, and goes on. */
TEST(test_full_store_refuses_and_goes_on)
{
    static uint8_t big[5000];
    struct store *s = new_store(8000);
    struct ddp_err err = {0};
    struct c10d_request a = set_of("/a", big, 2000);
    struct c10d_request b = set_of("/b", big, sizeof(big));
    ck_assert_int_eq(store_step(s, 0, C10D_NEW, &a, &err), 0);
    size_t before = store_bytes(s);
    ck_assert_int_eq(store_step(s, 0, C10D_NEW, &b, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_NOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "SET: the store is full"));
    ck_assert_uint_eq(store_bytes(s), before);
    ck_assert_int_eq(step(s, "1 CHECK /b", NULL), 0);
    expect_sent("1=b:1", "CHECK /b");
    ck_assert_int_eq(step(s, "1 DELETE_KEY /a", NULL), 0);
    sent.len = 0;
    ck_assert_int_eq(store_step(s, 1, C10D_NEW, &b, &err), 0);
    ck_assert_uint_eq(store_keys(s), 1);
    store_del(s);
}

/* Growing a value that is there beyond the room leaves the old one. */
TEST(test_set_without_room_keeps_the_old_value)
{
    static uint8_t big[6000];
    struct store *s = new_store(8000);
    struct c10d_request more = set_of("/a", big, sizeof(big));
    ck_assert_int_eq(step(s, "0 SET /a old", NULL), 0);
    ck_assert_int_eq(store_step(s, 0, C10D_NEW, &more, NULL), -1);
    ck_assert_int_eq(step(s, "1 GET /a", NULL), 0);
    expect_sent("1=v:old", "GET /a");
    store_del(s);
}

/* A wait that finds no room for all of its keys leaves nothing behind. */
TEST(test_wait_without_room_leaves_nothing)
{
    struct store *s = new_store(2048 + 8 * 64 + 200);
    size_t before = store_bytes(s);
    struct ddp_err err = {0};
    ck_assert_int_eq(
        step(s, "0 WAIT /a /b /c /d /e /f /g /h /i /j /k /l", &err), -1);
    ck_assert_int_eq(err.code, DDP_E_NOMEM);
    ck_assert_uint_eq(store_bytes(s), before);
    ck_assert_int_eq(step(s, "1 SET /a 1", NULL), 0);
    expect_sent("", "SET /a");
    store_del(s);
}

/* A watcher of a key that is full of memory is told of nothing untrue. */
TEST(test_watched_value_without_room_is_as_it_was)
{
    static uint8_t big[6000];
    struct store *s = new_store(8000);
    struct c10d_request more = set_of("/a", big, sizeof(big));
    ck_assert_int_eq(step(s, "0 SET /a old", NULL), 0);
    ck_assert_int_eq(step(s, "5 WATCH_KEY /a", NULL), 0);
    expect_sent("5=b:3", "WATCH_KEY /a");
    ck_assert_int_eq(store_step(s, 0, C10D_NEW, &more, NULL), -1);
    expect_sent("", "SET /a");
    ck_assert_int_eq(step(s, "1 GET /a", NULL), 0);
    expect_sent("1=v:old", "GET /a");
    store_del(s);
}

/* A value that grows byte by byte is not moved for each of them, and one that
 * shrinks gives its memory back. */
TEST(test_value_grows_in_steps_and_shrinks)
{
    struct store *s = new_store((size_t)64 << 20);
    size_t empty = store_bytes(s), moves = 0;
    for (int i = 0; i < 20000; i++) {
        size_t before = store_bytes(s);
        ck_assert_int_eq(step(s, "0 APPEND /a x", NULL), 0);
        moves += store_bytes(s) != before;
    }
    ck_assert_uint_lt(moves, 40);
    ck_assert_uint_lt(store_bytes(s) - empty, 40000);
    ck_assert_int_eq(step(s, "0 SET /a small", NULL), 0);
    ck_assert_uint_lt(store_bytes(s) - empty, 400);
    ck_assert_int_eq(step(s, "0 GET /a", NULL), 0);
    expect_sent("0=v:small", "GET /a");
    store_del(s);
}

/* APPEND cannot take a value over what one request could have set. */
TEST(test_append_over_the_value_limit_is_refused)
{
    struct store *s = new_store((size_t)64 << 20);
    uint8_t *big = calloc(1, C10D_VALUE_MAX);
    struct ddp_err err = {0};
    ck_assert_ptr_nonnull(big);
    struct c10d_request a = set_of("/a", big, C10D_VALUE_MAX - 1);
    ck_assert_int_eq(store_step(s, 0, C10D_NEW, &a, NULL), 0);
    ck_assert_int_eq(step(s, "0 APPEND /a x", NULL), 0);
    ck_assert_int_eq(step(s, "0 APPEND /a y", &err), -1);
    ck_assert_int_eq(err.code, DDP_E_PROTO);
    free(big);
    store_del(s);
}

/* Without memory for the first table there is no store. */
TEST(test_store_without_room_for_its_table_is_not_made)
{
    struct store_config cf = {
        .conn_max = 1, .byte_max = 100, .send = on_send, .ctx = &sent};
    struct ddp_err err = {0};
    ck_assert_ptr_null(store_new(&cf, &err));
    ck_assert_int_eq(err.code, DDP_E_NOMEM);
}

CASE("large")

/* The table grows with its keys, and finds them all again. */
TEST(test_many_keys_are_all_found)
{
    enum {
        N = 50000
    };
    struct store *s = new_store((size_t)64 << 20);
    char key[24];
    size_t wrong = 0;
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof(key), "/key/%d", i);
        struct c10d_request r = set_of(key, (uint8_t *)key, strlen(key));
        wrong += store_step(s, 0, C10D_NEW, &r, NULL) != 0;
    }
    ck_assert_uint_eq(store_keys(s), N);
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof(key), "/key/%d", i);
        struct c10d_request r = set_of(key, NULL, 0);
        r.op = C10D_GET;
        wrong += store_step(s, 0, C10D_NEW, &r, NULL) != 0;
        wrong += sent.len != 8 + strlen(key) ||
                 memcmp(sent.byte + 8, key, strlen(key)) != 0;
        sent.len = 0;
    }
    ck_assert_uint_eq(wrong, 0);
    store_del(s);
}

/* A table that was large once does not make a list of few keys dear: 60,000 of
 * them are a client's 60 KB, and the others wait meanwhile. */
TEST(test_list_of_few_keys_is_cheap)
{
    enum {
        N = 200000,
        LISTS = 60000
    };
    struct store *s = new_store((size_t)64 << 20);
    struct c10d_request list = {.op = C10D_LIST_KEYS};
    char key[24];
    for (int i = 0; i < 2 * N; i++) {
        (void)snprintf(key, sizeof(key), "/key/%d", i % N);
        struct c10d_request r = set_of(key, NULL, 0);
        r.op = i < N ? C10D_SET : C10D_DELETE_KEY;
        ck_assert_int_eq(store_step(s, 0, C10D_NEW, &r, NULL), 0);
        sent.len = 0;
    }
    clock_t began = clock();
    for (int i = 0; i < LISTS; i++, sent.len = 0)
        ck_assert_int_eq(store_step(s, 0, C10D_NEW, &list, NULL), 0);
    ck_assert_int_lt((clock() - began) / CLOCKS_PER_SEC, 1);
    store_del(s);
}

SUITE("store_full", "full")
