/* links: rendezvous/base/{buf,err} */
/* The byte buffer: a queue of bytes that never holds more than its limit. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/buf.h"
#include "tests/lib/suite.h"

/* What is put in comes out in order, however the two alternate. */
TEST(test_buf_puts_and_takes_keep_the_order)
{
    struct buf b;
    buf_init(&b, 1000);
    unsigned in = 0;
    unsigned out = 0;
    for (unsigned turn = 0; turn < 5000; turn++) {
        for (unsigned i = 0; i < turn % 7; i++) {
            uint8_t byte = (uint8_t)in;
            if (buf_put(&b, &byte, 1) == 0)
                in++;
        }
        for (unsigned i = 0; i < turn % 5 && buf_len(&b) > 0; i++) {
            ck_assert_uint_eq(*buf_head(&b), (uint8_t)out);
            buf_take(&b, 1);
            out++;
        }
        ck_assert_uint_eq(buf_len(&b), in - out);
        ck_assert_uint_le(buf_len(&b), 1000);
    }
    ck_assert_uint_gt(in, 5000);
    buf_free(&b);
}

TEST(test_buf_refuses_what_goes_over_its_limit_and_keeps_the_rest)
{
    struct buf b;
    buf_init(&b, 8);
    ck_assert_int_eq(buf_put(&b, "12345", 5), 0);
    ck_assert_int_eq(buf_put(&b, "6789", 4), -1);
    ck_assert_ptr_null(buf_reserve(&b, 4));
    ck_assert_ptr_null(buf_reserve(&b, SIZE_MAX));
    ck_assert_uint_eq(buf_len(&b), 5);
    ck_assert_int_eq(buf_put(&b, "678", 3), 0);
    ck_assert_mem_eq(buf_head(&b), "12345678", 8);
    buf_free(&b);
}

/* The limit counts unread bytes, not all that ever went through. */
TEST(test_buf_room_comes_back_with_each_take)
{
    struct buf b;
    buf_init(&b, 8);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(buf_put(&b, "abcdef", 6), 0);
        buf_take(&b, 4);
        ck_assert_int_eq(buf_put(&b, "gh", 2), 0);
        ck_assert_mem_eq(buf_head(&b), "efgh", 4);
        buf_take(&b, 4);
    }
    buf_free(&b);
}

/* More may be reserved than is written in the end. */
TEST(test_buf_takes_over_only_what_is_committed)
{
    struct buf b;
    buf_init(&b, 100);
    uint8_t *room = buf_reserve(&b, 100);
    ck_assert_ptr_nonnull(room);
    memcpy(room, "xyz", 3);
    buf_commit(&b, 3);
    ck_assert_uint_eq(buf_len(&b), 3);
    ck_assert_mem_eq(buf_head(&b), "xyz", 3);
    buf_free(&b);
    ck_assert_uint_eq(buf_len(&b), 0);
    ck_assert_int_eq(buf_put(&b, "again", 5), 0); /* it may be used on */
    buf_free(&b);
}

TEST(test_buf_gives_large_memory_back_when_it_is_empty)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    char *big = calloc(1, 300000);
    ck_assert_ptr_nonnull(big);
    ck_assert_int_eq(buf_put(&b, big, 300000), 0);
    buf_take(&b, 299999);
    ck_assert_uint_ge(b.cap, 300000);
    buf_take(&b, 1);
    ck_assert_uint_eq(b.cap, 0);
    free(big);
    buf_free(&b);
}

TEST(test_buf_put_of_nothing_is_no_error)
{
    struct buf b;
    buf_init(&b, 0);
    ck_assert_int_eq(buf_put(&b, "", 0), 0);
    ck_assert_int_eq(buf_put(&b, "a", 1), -1);
    buf_free(&b);
}

/* What a put takes is known before, to the byte; and it is little more than
 * what is there. */
TEST(test_buf_growth_is_what_a_put_takes)
{
    static uint8_t piece[100000];
    struct buf b;
    buf_init(&b, 16u << 20);
    for (size_t len = 1; buf_len(&b) + len < 8u << 20; len = len * 7 % 99991) {
        size_t want = b.cap + buf_growth(&b, len);
        ck_assert_int_eq(buf_put(&b, piece, len), 0);
        ck_assert_uint_eq(b.cap, want);
        ck_assert_uint_eq(buf_growth(&b, buf_room(&b)), 0);
        ck_assert_uint_gt(buf_growth(&b, b.cap), 0);
        if (len % 5 == 0)
            buf_take(&b, buf_len(&b) / 100);
    }
    ck_assert_uint_gt(b.cap, 1u << 20);
    buf_free(&b);
    ck_assert_uint_eq(buf_growth(&b, 0), 256);
    ck_assert_int_eq(buf_put(&b, piece, 100000), 0);
    for (int i = 0; i < 79; i++)
        ck_assert_int_eq(buf_put(&b, piece, 100000), 0);
    ck_assert_uint_le(b.cap, 8000000 + 8000000 / 4);
    buf_free(&b);
}

TEST(test_buf_trim_keeps_the_bytes_and_not_the_room)
{
    static uint8_t piece[100000];
    struct buf b;
    buf_init(&b, 1u << 20);
    for (size_t i = 0; i < sizeof(piece); i++)
        piece[i] = (uint8_t)i;
    ck_assert_int_eq(buf_put(&b, piece, sizeof(piece)), 0);
    size_t cap = b.cap;
    buf_trim(&b);
    ck_assert_uint_eq(b.cap, cap); /* it is needed */
    buf_take(&b, sizeof(piece) - 3);
    buf_trim(&b);
    ck_assert_uint_le(b.cap, 256);
    ck_assert_uint_eq(buf_len(&b), 3);
    ck_assert_mem_eq(buf_head(&b), piece + sizeof(piece) - 3, 3);
    ck_assert_int_eq(buf_put(&b, "more", 4), 0);
    ck_assert_mem_eq(buf_head(&b) + 3, "more", 4);
    buf_free(&b);
    buf_trim(&b); /* nothing is there */
}

SUITE("buf", "bytes", .tags = "fast")
