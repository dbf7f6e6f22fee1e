/* links: tests/lib/store_world */
/* libs: -luv */
/*
 * What a store on real sockets bears: garbage, promises that are not kept, who
 * does not read, and more connections than it may have.
 */
#include <check.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/proto/c10d.h"
#include "rendezvous/store/server.h"
#include "tests/lib/store_world.h"
#include "tests/lib/suite.h"

/* -- bad input ------------------------------------------------------------- */

static const struct {
    const char *bytes;
    size_t len;
    const char *reason;
} garbage[] = {
#define G(text, reason)                                                        \
    {                                                                          \
        text, sizeof(text) - 1, reason                                         \
    }
    G("GET / HTTP/1.1\r\n\r\n", "no c10d operation starts with byte 0x47"),
    G("\xff\xff\xff\xff", "no c10d operation"),
    G("\x16\x03\x01\x02\x00\x01", "no c10d operation"), /* TLS */
    G("\x02\xff\xff\xff\xff\xff\xff\xff\xff", "GET of"),
    G("\x05\x01\0\x02\0\0\0\0\0", "WAIT of 131073 keys"),
    G("\0\xce\xf7\x85\x3c\x13", "no c10d operation starts with byte 0x13"),
    G("\0\xce\xf7\x85\x3c\x0e\x01\0\0\0\0\0\0\0q\0\0\0\x01\0\0\0\0",
      "QUEUE_PUSH of 16777216 value bytes"),
    G("\0\xce\xf7\x85\x3c\0\0\0\0\0", "VALIDATE has a wrong magic number"),
    G("\x00\x01\0\0\0\0\0\0\0k\x01\0\0\0\0\0\0\0x"
      "\x03\x01\0\0\0\0\0\0\0k\x01\0\0\0\0\0\0\0",
      "ADD: the value is not a number"),
#undef G
};
#define GARBAGE (int)(sizeof(garbage) / sizeof(garbage[0]))

/* Each kind is closed, with its reason and its peer in the log. */
TEST_LOOP(test_garbage_is_closed_with_a_reason, 0, GARBAGE)
{
    struct world w;
    world_open(&w, NULL);
    int bad = dial(w.port);
    send_bytes(bad, garbage[_i].bytes, garbage[_i].len);
    expect_closed(bad);
    ck_assert_int_eq(log_lines(&w, garbage[_i].reason), 1);
    ck_assert_int_eq(log_lines(&w, "from [127.0.0.1]:"), 1);
    expect_service(w.port);
    world_close(&w);
}

/* Also of one that sent large values before, which is read otherwise; its place
 * is free once, not twice. */
TEST(test_garbage_behind_a_large_value)
{
    struct world w;
    struct buf b;
    static uint8_t big[1 << 20];
    world_open(&w, NULL);
    for (int i = 0; i < 3; i++) {
        int bad = dial_new(w.port);
        buf_init(&b, sizeof(big) + 100);
        ck_assert_int_eq(PUT(&b, NULL, .op = C10D_SET, .key = slice("/b"),
                             .value = (struct c10d_slice){big, sizeof(big)}),
                         0);
        send_buf(bad, &b);
        send_set(bad, "/a", "yes");
        send_get(bad, "/a");
        expect_value(bad, "yes");
        send_set(bad, "/a", "no"); /* lets it see that the answer is out */
        expect_silence(bad);
        send_bytes(bad, "\xff", 1);
        expect_closed(bad);
        expect_service(w.port);
    }
    world_close(&w);
}

/* A flood of it does not flood the log, and says how much was left out. */
TEST(test_garbage_in_the_log_is_bounded)
{
    struct world w;
    world_open(&w, NULL);
    for (int i = 0; i < 100; i++) {
        int bad = dial(w.port);
        send_bytes(bad, "\xff", 1);
        expect_closed(bad);
    }
    int lines = log_lines(&w, "closed");
    ck_assert_int_ge(lines, 1);
    ck_assert_int_le(lines, 30); /* ten and one a second, on a slow machine */
    expect_service(w.port);
    world_close(&w);
}

/* -- limits ---------------------------------------------------------------- */

CASE("limits")

/* A client that asks and does not read is closed; the others are served
 * meanwhile. */
TEST(test_reader_that_does_not_read_is_closed)
{
    struct world w;
    struct buf b;
    struct store_server_limits lim = store_server_limits_default();
    static uint8_t value[1 << 18];
    lim.reply_bytes = (size_t)1 << 20;
    world_open(&w, &lim);
    int fd = dial_new(w.port), small = 4096;
    ck_assert_int_eq(
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    buf_init(&b, 1 << 20);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_SET, .key = slice("/v"),
                         .value = (struct c10d_slice){value, sizeof(value)}),
                     0);
    for (int i = 0; i < 200; i++) /* 50 MiB: more than the kernel takes */
        ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GET, .key = slice("/v")), 0);
    send_doomed(fd, buf_head(&b), buf_len(&b));
    buf_free(&b);
    expect_service(w.port);
    expect_closed(fd);
    ck_assert_int_eq(log_lines(&w, "too many replies unread"), 1);
    world_close(&w);
}

/* Sends it in two parts, the second one when the server has read the first. */
static void send_cut(const struct world *w,
                     int fd,
                     const uint8_t *data,
                     size_t first,
                     size_t len)
{
    send_bytes(fd, data, first);
    for (int i = 0; i < 3; i++) { /* a turn of the loop or more, each */
        expect_service(w->port);
        (void)poll(NULL, 0, 5);
    }
    send_bytes(fd, data + first, len - first);
}

/* Half requests of all together: the one that sent most is closed, wherever
 * TCP cuts their bytes. */
TEST_LOOP(test_heaviest_is_closed_when_all_hold_too_much, 0, 6)
{
    static const size_t cuts[] = {1000, 100000, 200000, 255000, 300000, 399999};
    struct world w;
    struct store_server_limits lim = store_server_limits_default();
    static uint8_t value[1 << 20];
    uint8_t head[18] = "\x01\x01\0\0\0\0\0\0\0k";
    lim.held_bytes = (size_t)5 << 18; /* what the lighter one needs alone */
    world_open(&w, &lim);
    c10d_pack_u64(head + 10, 1 << 20);
    int light = dial_new(w.port), heavy = dial_new(w.port);
    send_bytes(light, head, sizeof(head));
    send_cut(&w, light, value, cuts[_i], 400000);
    send_bytes(heavy, head, sizeof(head));
    send_doomed(heavy, value, (1 << 20) - 1000);
    expect_closed(heavy);
    ck_assert_int_eq(log_lines(&w, "it holds"), 1);
    send_bytes(light, value, sizeof(value) - 400000);
    send_get(light, "none");
    expect_value(light, "");
    (void)close(light);
    world_close(&w);
}

/* Replies that the sockets take at once do not count as held. */
TEST(test_replies_on_their_way_out_are_not_held)
{
    enum {
        N = 48
    };
    struct world w;
    struct store_server_limits lim = store_server_limits_default();
    struct buf b;
    static char text[12001];
    int fd[N];
    memset(text, 'v', sizeof(text) - 1);
    buf_init(&b, 1 << 16);
    ck_assert_int_eq(
        PUT(&b, NULL, .op = C10D_SET, .key = slice("/v"), .value = slice(text)),
        0);
    lim.held_bytes = (size_t)1 << 17; /* of 576000 bytes */
    world_open(&w, &lim);
    for (int i = 0; i < N; i++)
        fd[i] = dial_new(w.port);
    send_buf(fd[0], &b);
    send_get(fd[0], "/v");
    expect_value(fd[0], text);
    world_pause(&w);
    for (int i = 0; i < N; i++)
        send_get(fd[i], "/v");
    world_go_on(&w);
    for (int i = 0; i < N; i++)
        expect_value(fd[i], text);
    ck_assert_int_eq(log_lines(&w, "it holds"), 0);
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    world_close(&w);
}

/* One connection too many is closed with a line; when one has left, the
 * next is served. */
TEST(test_connection_too_many_is_turned_away)
{
    struct world w;
    struct store_server_limits lim = store_server_limits_default();
    int fd[4];
    lim.conn_max = 4;
    world_open(&w, &lim);
    for (int i = 0; i < 4; i++) {
        fd[i] = dial_new(w.port);
        send_set(fd[i], "/k", "v");
        send_get(fd[i], "/k");
        expect_value(fd[i], "v");
    }
    expect_closed(dial(w.port));
    ck_assert_int_eq(log_lines(&w, "that are allowed"), 1);
    for (int i = 0; i < 3; i++) {
        (void)close(fd[i]);
        bool served = false;
        for (int tries = 0; tries < 100 && !served; tries++) {
            fd[i] = dial(w.port);
            send_doomed(fd[i], OLD_GET_K, sizeof(OLD_GET_K) - 1);
            uint8_t c;
            ck_assert(readable(fd[i], WAIT_MS));
            served = recv(fd[i], &c, 1, MSG_PEEK) == 1;
            if (!served)
                (void)close(fd[i]);
        }
        ck_assert(served);
        expect_value(fd[i], "v");
    }
    for (int i = 0; i < 4; i++)
        (void)close(fd[i]);
    world_close(&w);
}

/* What is promised costs nothing, only what is sent: 300 connections announce
 * the largest value and send a hundred bytes of it. */
TEST(test_promised_bytes_take_no_memory)
{
    enum {
        N = 300
    };
    struct world w;
    int fd[N];
    static uint8_t some[100];
    uint8_t head[18] = "\x01\x01\0\0\0\0\0\0\0k";
    (void)mallopt(M_ARENA_MAX, 1); /* mallinfo sees the first one only */
    world_open(&w, NULL);
    c10d_pack_u64(head + 10, C10D_VALUE_MAX);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < N; i++) {
        fd[i] = dial_new(w.port);
        send_bytes(fd[i], head, sizeof(head));
        send_bytes(fd[i], some, sizeof(some));
    }
    expect_service(w.port);
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    ck_assert_uint_lt(after - before, N * 2048);
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    world_close(&w);
}

/* -- the most memory at any moment ----------------------------------------- */

/* Sanitizers keep what was freed, or more beside each byte. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLACK ((size_t)512 << 20)
#else
#define SLACK ((size_t)24 << 20)
#endif

/* Of this process, in bytes: now, or the most that it ever was. */
static size_t memory(const char *name)
{
    char line[128];
    size_t kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kb = strtoul(line + strlen(name) + 1, NULL, 10);
    (void)fclose(f);
    ck_assert_uint_gt(kb, 0);
    return kb << 10;
}

static void watch_key(int fd)
{
    static const char watch[] = "\x07\x01\0\0\0\0\0\0\0v";
    send_bytes(fd, watch, sizeof(watch) - 1);
    expect_bytes(fd, &(uint8_t){C10D_KEY_CALLBACK_REGISTERED}, 1);
}

static void set_big(int fd, const char *key, size_t len)
{
    static uint8_t value[C10D_VALUE_MAX];
    struct buf b;
    buf_init(&b, len + 100);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_SET, .key = slice(key),
                         .value = (struct c10d_slice){value, len}),
                     0);
    send_buf(fd, &b);
}

CASE("memory", .limit_s = 60)

/* One change of a large value is told to 60 watchers that read nothing: each is
 * to get 16 MiB, at once. */
TEST(test_memory_of_one_fan_out_is_bounded)
{
    enum {
        N = 60
    };
    struct world w;
    struct store_server_limits lim = store_server_limits_default();
    int fd[N];
    lim.held_bytes = (size_t)64 << 20;
    lim.store_bytes = (size_t)64 << 20;
    world_open(&w, &lim);
    int setter = dial_new(w.port);
    set_big(setter, "v", C10D_VALUE_MAX);
    send_get(setter, "none");
    expect_value(setter, "");
    for (int i = 0; i < N; i++)
        watch_key(fd[i] = dial(w.port));
    size_t before = memory("VmRSS");
    set_big(setter, "v", C10D_VALUE_MAX);
    send_get(setter, "none");
    expect_value(setter, "");
    size_t grown = memory("VmHWM") - before;
    /* One value more, and what clients are to be sent. */
    ck_assert_uint_lt(grown, C10D_VALUE_MAX + lim.held_bytes + SLACK);
    ck_assert_int_ge(log_lines(&w, "it holds"), 1);
    expect_service(w.port);
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    (void)close(setter);
    world_close(&w);
}

/* Large requests that all come in one turn, and are not whole. */
TEST(test_memory_of_half_requests_is_bounded)
{
    enum {
        N = 48
    };
    static uint8_t some[(size_t)3 << 20];
    struct world w;
    struct store_server_limits lim = store_server_limits_default();
    uint8_t head[18] = "\x01\x01\0\0\0\0\0\0\0k";
    int fd[N];
    memset(some, 1, sizeof(some));
    c10d_pack_u64(head + 10, C10D_VALUE_MAX);
    lim.held_bytes = (size_t)32 << 20;
    world_open(&w, &lim);
    size_t before = memory("VmRSS");
    for (int i = 0; i < N; i++) {
        fd[i] = dial_new(w.port);
        send_bytes(fd[i], head, sizeof(head));
    }
    for (int i = 0; i < N; i++)
        send_doomed(fd[i], some, sizeof(some));
    expect_service(w.port);
    size_t grown = memory("VmHWM") - before;
    ck_assert_uint_lt(grown, lim.held_bytes + SLACK / 2);
    ck_assert_int_ge(log_lines(&w, "it holds"), 1);
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    world_close(&w);
}

static size_t heap(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Connections that sent much, or were sent much, and are idle: many requests
 * and one byte of the next, or four replies of 15 KiB. */
TEST_LOOP(test_memory_of_idle_connections_is_little, 0, 2)
{
    enum {
        N = 200
    };
    static uint8_t some[15000], got[4 * (sizeof(some) + 8)];
    struct world w;
    struct buf b;
    int fd[N];
    (void)mallopt(M_ARENA_MAX, 1); /* mallinfo sees the first one only */
    world_open(&w, NULL);
    int setter = dial_new(w.port);
    set_big(setter, "v", sizeof(some));
    send_get(setter, "none");
    expect_value(setter, "");
    for (int i = 0; i < N; i++)
        fd[i] = dial_new(w.port);
    expect_service(w.port);
    size_t before = heap();
    for (int i = 0; i < N; i++) {
        buf_init(&b, 1 << 20);
        for (int k = 0; k < 4000 && _i == 0; k++) /* 120 KB */
            ck_assert_int_eq(PUT(&b, NULL, .op = C10D_SET, .key = slice("k"),
                                 .value = slice("0123456789ab")),
                             0);
        for (int k = 0; k < 4; k++)
            ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GET, .key = slice("v")),
                             0);
        send_bytes(fd[i], buf_head(&b), 1);
        (void)poll(NULL, 0, 1); /* it is read, and kept */
        send_bytes(fd[i], buf_head(&b) + 1, buf_len(&b) - 1);
        send_bytes(fd[i], "\x01", 1);
        buf_free(&b);
        for (size_t have = 0; have < sizeof(got);) {
            ssize_t n = recv(fd[i], got, sizeof(got) - have, 0);
            ck_assert_int_gt(n, 0);
            have += (size_t)n;
        }
    }
    expect_service(w.port);
    ck_assert_uint_lt(heap() - before, N * 4096);
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    (void)close(setter);
    world_close(&w);
}

SUITE("store_limits", "bad input")
