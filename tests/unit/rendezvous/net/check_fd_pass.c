/* net/fd_pass: connections from one process of ours to another. */
/* links: rendezvous/net/fd_pass rendezvous/base/{err,log,buf,utf8} */
/* libs: -luv */
#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "rendezvous/net/fd_pass.h"
#include "tests/lib/suite.h"

static uv_loop_t loop;
static struct giver *giver;
static int taking;

static void setup(void)
{
    struct ddp_err err;
    int giving;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(fd_pass_pair(&giving, &taking, &err), 0);
    ck_assert_int_eq(giver_open(&giver, &loop, giving, &err), 0);
}

static void teardown(void)
{
    if (giver != NULL)
        giver_close(giver);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(close(taking), 0);
}

/* One end goes away with these bytes, the other is returned. */
static int give(const void *data, size_t len, int want)
{
    int pair[2];
    struct buf rest;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    buf_init(&rest, (size_t)1 << 20);
    ck_assert_int_eq(buf_put(&rest, data, len), 0);
    ck_assert_int_eq(giver_give(giver, pair[0], &rest), want);
    ck_assert_uint_eq(buf_len(&rest), 0);
    return pair[1];
}

/* What comes with it, and that it is the other end of `peer`. */
static void take(int peer, const void *data, size_t len)
{
    static uint8_t got[FD_PASS_BYTES_MAX];
    size_t n = 0;
    int fd = -1;
    char c = 0;
    ck_assert_int_eq(fd_pass_take(taking, &fd, got, &n), 1);
    ck_assert_uint_eq(n, len);
    if (len > 0)
        ck_assert_mem_eq(got, data, len);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    ck_assert_int_eq(read(peer, &c, 1), 1);
    ck_assert_int_eq(c, 'x');
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(close(peer), 0);
}

static void is_closed(int peer)
{
    char c;
    ck_assert_int_eq(read(peer, &c, 1), 0);
    ck_assert_int_eq(close(peer), 0);
}

/* A connection arrives with the bytes that were read, also with none. */
TEST(test_fd_pass_brings_descriptor_and_bytes)
{
    static uint8_t most[FD_PASS_BYTES_MAX];
    memset(most, 7, sizeof(most));
    int a = give("\0ab", 3, 0);
    int b = give("", 0, 0);
    int c = give(most, sizeof(most), 0);
    take(a, "\0ab", 3);
    take(b, "", 0);
    take(c, most, sizeof(most));
    int fd;
    size_t n;
    ck_assert_int_eq(fd_pass_take(taking, &fd, most, &n), 0);
}

/* What the channel has no room for waits with the giver, in order; beyond its
 * limit a connection is closed. */
TEST(test_fd_pass_giver_never_waits)
{
    enum {
        ALL = 600
    };
    static uint8_t large[2000];
    static int peer[ALL];
    for (int i = 0; i < ALL; i++) {
        memcpy(large, &i, sizeof(i));
        peer[i] = give(large, sizeof(large), 0);
    }
    for (int i = 0; i < ALL; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        memcpy(large, &i, sizeof(i));
        take(peer[i], large, sizeof(large));
    }
}

/* More bytes than may have been read before: the connection is closed. */
TEST(test_fd_pass_too_many_bytes_closes)
{
    static uint8_t more[FD_PASS_BYTES_MAX + 1];
    is_closed(give(more, sizeof(more), -1));
}

/* Now or not at all: a channel that nobody empties is full some time. */
TEST(test_fd_pass_works_without_a_giver)
{
    struct ddp_err err;
    int own, pair[2];
    ck_assert_int_eq(close(taking), 0);
    ck_assert_int_eq(fd_pass_pair(&own, &taking, &err), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ck_assert_int_eq(fd_pass_give(own, pair[0], (const uint8_t *)"ab", 2), 0);
    ck_assert_int_eq(close(pair[0]), 0); /* a copy is on its way */
    take(pair[1], "ab", 2);
    int n = 0;
    while (n < 100000 && fd_pass_give(own, 0, NULL, 0) == 0)
        n++;
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, 100000);
    ck_assert_int_eq(close(own), 0);
}

/* The taker is told when the giver is gone. */
TEST(test_fd_pass_end_of_giver_is_seen)
{
    uint8_t data[FD_PASS_BYTES_MAX];
    size_t n;
    int fd;
    giver_close(giver);
    giver = NULL;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(fd_pass_take(taking, &fd, data, &n), -1);
}

SUITE("fd_pass", "fd_pass", .tags = "fast", FIXTURE(setup, teardown))
