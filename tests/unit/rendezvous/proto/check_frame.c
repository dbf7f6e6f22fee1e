/* links: rendezvous/proto/frame rendezvous/base/{buf,err} */
/* Bytes become frames, in whatever pieces they arrive. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/proto/frame.h"
#include "tests/lib/suite.h"

static struct buf buf;

static void setup(void)
{
    buf_init(&buf, 2 * FRAME_MAX);
}

static void teardown(void)
{
    buf_free(&buf);
}

static void feed(const void *bytes, size_t len)
{
    ck_assert_int_eq(buf_put(&buf, bytes, len), 0);
}

/* An old c10d client starts with 0 to 12, HTTP with a letter. */
TEST(test_frame_hello_starts_like_no_other_protocol)
{
    ck_assert_uint_ge((unsigned char)FRAME_HELLO[0], 0x80);
    ck_assert_uint_eq(sizeof(FRAME_HELLO) - 1, FRAME_HELLO_LEN);
}

TEST(test_frame_hello_may_come_byte_by_byte)
{
    for (size_t i = 0; i < FRAME_HELLO_LEN; i++) {
        ck_assert_int_eq(frame_take_hello(&buf), FRAME_MORE);
        feed(&FRAME_HELLO[i], 1);
    }
    feed("rest", 4);
    ck_assert_int_eq(frame_take_hello(&buf), FRAME_OK);
    ck_assert_uint_eq(buf_len(&buf), 4);
    ck_assert_mem_eq(buf_head(&buf), "rest", 4);
}

/* It is refused at the first wrong byte, not when eight have come. */
TEST_LOOP(test_frame_hello_with_one_wrong_byte_is_refused,
          0,
          (int)FRAME_HELLO_LEN)
{
    char hello[FRAME_HELLO_LEN];
    memcpy(hello, FRAME_HELLO, FRAME_HELLO_LEN);
    hello[_i] ^= 1;
    feed(hello, (size_t)_i + 1);
    ck_assert_int_eq(frame_take_hello(&buf), FRAME_BAD);
}

TEST_LOOP(test_frame_what_is_put_comes_out, 0, 7)
{
    static const size_t sizes[] = {1, 2, 255, 256, 257, 4096, FRAME_MAX};
    size_t size = sizes[_i];
    uint8_t *payload = malloc(size);
    ck_assert_ptr_nonnull(payload);
    memset(payload, 0xA5, size);
    ck_assert_int_eq(frame_put(&buf, payload, size), 0);
    ck_assert_int_eq(frame_put(&buf, "next", 4), 0);
    const uint8_t *got;
    size_t len;
    ck_assert_int_eq(frame_peek(&buf, &got, &len), FRAME_OK);
    ck_assert_uint_eq(len, size);
    ck_assert_mem_eq(got, payload, size);
    frame_drop(&buf, len);
    ck_assert_int_eq(frame_peek(&buf, &got, &len), FRAME_OK);
    ck_assert_mem_eq(got, "next", 4);
    frame_drop(&buf, len);
    ck_assert_int_eq(frame_peek(&buf, &got, &len), FRAME_MORE);
    free(payload);
}

/* The length is little-endian, whatever this machine is. */
TEST(test_frame_bytes_on_the_wire)
{
    ck_assert_int_eq(frame_put(&buf, "abc", 3), 0);
    ck_assert_uint_eq(buf_len(&buf), 7);
    ck_assert_mem_eq(buf_head(&buf),
                     "\x03\x00\x00\x00"
                     "abc",
                     7);
}

TEST(test_frame_in_pieces_is_waited_for)
{
    static const char wire[] = "\x05\x00\x00\x00hello";
    const uint8_t *got;
    size_t len;
    for (size_t i = 0; i < 9; i++) {
        ck_assert_int_eq(frame_peek(&buf, &got, &len), FRAME_MORE);
        feed(&wire[i], 1);
    }
    ck_assert_int_eq(frame_peek(&buf, &got, &len), FRAME_OK);
    ck_assert_mem_eq(got, "hello", 5);
}

/* A length that no frame has is refused before its bytes come. */
TEST_LOOP(test_frame_of_impossible_length_is_refused, 0, 5)
{
    static const uint8_t heads[][4] = {
        {0, 0, 0, 0},    {0, 0, 0, 1},
        {0x01, 0, 1, 0}, /* FRAME_MAX + 1 */
        {0, 0, 2, 0},    {0xff, 0xff, 0xff, 0xff},
    };
    const uint8_t *got;
    size_t len;
    feed(heads[_i], 4);
    ck_assert_int_eq(frame_peek(&buf, &got, &len), FRAME_BAD);
}

TEST(test_frame_put_refuses_what_does_not_fit)
{
    static uint8_t payload[FRAME_MAX + 1];
    ck_assert_int_eq(frame_put(&buf, payload, 0), -1);
    ck_assert_int_eq(frame_put(&buf, payload, FRAME_MAX + 1), -1);
    ck_assert_uint_eq(buf_len(&buf), 0);
    struct buf small;
    buf_init(&small, 10);
    ck_assert_int_eq(frame_put(&small, payload, 7), -1);
    ck_assert_uint_eq(buf_len(&small), 0);
    ck_assert_int_eq(frame_put(&small, payload, 6), 0);
    buf_free(&small);
}

SUITE("frame", "frames", .tags = "fast", FIXTURE(setup, teardown))
