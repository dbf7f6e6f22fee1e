/* clang-format off */
/* links: rendezvous/daemon/store_server rendezvous/core/store rendezvous/core/store_table rendezvous/core/store_wait rendezvous/proto/c10d rendezvous/base/err rendezvous/base/log rendezvous/base/rng rendezvous/base/buf */
/* libs: -luv */
/* clang-format on */
/*
 * The store on real sockets: the server runs in a thread with its own loop,
 * the clients are plain blocking sockets in the test. Every test ends with the
 * server closed and uv_loop_close() == 0.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/daemon/store_server.h"
#include "rendezvous/proto/c10d.h"
#include "tests/lib/suite.h"

#define WAIT_MS   3000 /* for what must come */
#define SILENT_MS 50   /* for what must not */

/* -- the server's thread --------------------------------------------------- */

struct world {
    uv_loop_t loop;
    uv_async_t stop;
    struct store_server *server;
    pthread_t thread;
    uint16_t port;
    int log_fd; /* what went to stderr */
    int stderr_fd;
};

static int listen_loopback(uint16_t *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    ck_assert_int_eq(listen(fd, 128), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    *port = ntohs(sa.sin_port);
    return fd;
}

static void on_stop(uv_async_t *async)
{
    struct world *w = async->data;
    store_server_close(w->server);
    uv_close((uv_handle_t *)async, NULL);
}

static void *run_loop(void *arg)
{
    struct world *w = arg;
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void world_open(struct world *w, const struct store_server_limits *lim)
{
    struct store_server_limits usual = store_server_limits_default();
    struct ddp_err err = {0};
    ck_assert(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    w->log_fd = memfd_create("log", MFD_CLOEXEC);
    w->stderr_fd = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(w->log_fd, STDERR_FILENO), 0);
    ck_assert_int_eq(uv_loop_init(&w->loop), 0);
    ck_assert_int_eq(uv_async_init(&w->loop, &w->stop, on_stop), 0);
    w->stop.data = w;
    ck_assert_int_eq(store_server_open_limited(
                         &w->server, &w->loop, listen_loopback(&w->port),
                         lim != NULL ? lim : &usual, &err),
                     0);
    ck_assert_uint_eq(store_server_port(w->server), w->port);
    ck_assert_int_eq(pthread_create(&w->thread, NULL, run_loop, w), 0);
}

static void world_close(struct world *w)
{
    ck_assert_int_eq(uv_async_send(&w->stop), 0);
    ck_assert_int_eq(pthread_join(w->thread, NULL), 0);
    ck_assert_int_eq(uv_loop_close(&w->loop), 0);
    ck_assert_int_ge(dup2(w->stderr_fd, STDERR_FILENO), 0);
    (void)close(w->stderr_fd);
    (void)close(w->log_fd);
}

/* How many lines of the log have `what` in them. */
static int log_lines(const struct world *w, const char *what)
{
    static char text[1 << 16];
    ssize_t n = pread(w->log_fd, text, sizeof(text) - 1, 0);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    int count = 0;
    char *rest = NULL;
    for (char *l = strtok_r(text, "\n", &rest); l != NULL;
         l = strtok_r(NULL, "\n", &rest))
        count += strstr(l, what) != NULL;
    return count;
}

/* -- clients --------------------------------------------------------------- */

static int dial(uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)),
                     0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

static void send_bytes(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        ck_assert_int_gt(n, 0);
        at += n;
        len -= (size_t)n;
    }
}

/* To a server that may close while this is under way. */
static void send_doomed(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return;
        ck_assert_int_gt(n, 0);
        at += n;
        len -= (size_t)n;
    }
}

static void send_buf(int fd, struct buf *b)
{
    send_bytes(fd, buf_head(b), buf_len(b));
    buf_free(b);
}

/* Of the new family, its hello said. */
static int dial_new(uint16_t port)
{
    struct buf b;
    int fd = dial(port);
    buf_init(&b, 64);
    ck_assert_int_eq(c10d_put_hello(&b, NULL), 0);
    send_buf(fd, &b);
    return fd;
}

static struct c10d_slice slice(const char *s)
{
    return (struct c10d_slice){(const uint8_t *)s, strlen(s)};
}

static void send_set(int fd, const char *key, const char *value)
{
    struct buf b;
    buf_init(&b, 1 << 12);
    ck_assert_int_eq(c10d_put_set(&b, slice(key), slice(value), NULL), 0);
    send_buf(fd, &b);
}

static void send_get(int fd, const char *key)
{
    struct buf b;
    buf_init(&b, 1 << 12);
    ck_assert_int_eq(c10d_put_get(&b, slice(key), NULL), 0);
    send_buf(fd, &b);
}

static void send_wait(int fd, const char *key)
{
    struct buf b;
    struct c10d_slice s = slice(key);
    buf_init(&b, 1 << 12);
    ck_assert_int_eq(c10d_put_wait(&b, &s, 1, NULL), 0);
    send_buf(fd, &b);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

static void expect_bytes(int fd, const void *want, size_t len)
{
    uint8_t *got = malloc(len + 1);
    size_t have = 0;
    ck_assert_ptr_nonnull(got);
    while (have < len) {
        ck_assert_msg(readable(fd, WAIT_MS), "no answer");
        ssize_t n = recv(fd, got + have, len - have, 0);
        ck_assert_int_gt(n, 0);
        have += (size_t)n;
    }
    ck_assert_mem_eq(got, want, len);
    free(got);
}

static void expect_value(int fd, const char *want)
{
    uint8_t head[8];
    c10d_pack_u64(head, strlen(want));
    expect_bytes(fd, head, sizeof(head));
    if (*want != '\0')
        expect_bytes(fd, want, strlen(want));
}

static void expect_silence(int fd)
{
    ck_assert_msg(!readable(fd, SILENT_MS), "an answer that is not due");
}

/* Reads what there still is, until the server's end or a reset. */
static void expect_closed(int fd)
{
    static char bin[1 << 16];
    ssize_t n;
    do {
        ck_assert_msg(readable(fd, WAIT_MS), "the connection stays open");
        n = recv(fd, bin, sizeof(bin), 0);
    } while (n > 0);
    ck_assert(n == 0 || errno == ECONNRESET);
    (void)close(fd);
}

/* The server lives: a client of its own sets and gets. */
static void expect_service(uint16_t port)
{
    int fd = dial_new(port);
    send_set(fd, "/alive", "yes");
    send_get(fd, "/alive");
    expect_value(fd, "yes");
    (void)close(fd);
}

/* Closes with a reset, as a killed process whose bytes were not read. */
static void vanish(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)),
                     0);
    (void)close(fd);
}

/* -- serving --------------------------------------------------------------- */

/* SET, ADD and GET as PyTorch 1.13 puts them on the wire. */
static const char old_set[] = "\x00\x02\0\0\0\0\0\0\0/a\x03\0\0\0\0\0\0\0old";
static const char old_add[] = "\x03\x02\0\0\0\0\0\0\0/n\x05\0\0\0\0\0\0\0";
static const char old_get[] = "\x02\x02\0\0\0\0\0\0\0/n";
static const char old_get_k[] = "\x02\x02\0\0\0\0\0\0\0/k";
static const char old_wait[] = "\x05\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/w";

/* Clients of both families see the same keys at the same time. */
START_TEST(test_both_families_share_the_keys)
{
    struct world w;
    world_open(&w, NULL);
    int old = dial(w.port), new = dial_new(w.port);
    send_bytes(old, old_set, sizeof(old_set) - 1);
    send_bytes(old, old_add, sizeof(old_add) - 1);
    expect_bytes(old, "\x05\0\0\0\0\0\0\0", 8);
    send_get(new, "/a");
    expect_value(new, "old");
    send_get(new, "/n");
    expect_value(new, "5");
    send_set(new, "/n", "new");
    send_get(new, "/n");
    expect_value(new, "new");
    send_bytes(old, old_get, sizeof(old_get) - 1);
    expect_value(old, "new");
    (void)close(old);
    (void)close(new);
    world_close(&w);
}
END_TEST

/* A request that comes byte by byte holds up nobody, and is served. */
START_TEST(test_slow_sender_holds_up_nobody)
{
    struct world w;
    world_open(&w, NULL);
    int slow = dial(w.port), fast = dial_new(w.port);
    for (size_t i = 0; i < sizeof(old_add) - 1; i++) {
        send_bytes(slow, old_add + i, 1);
        send_set(fast, "/f", "fast");
        send_get(fast, "/f");
        expect_value(fast, "fast");
    }
    expect_bytes(slow, "\x05\0\0\0\0\0\0\0", 8);
    (void)close(slow);
    (void)close(fast);
    world_close(&w);
}
END_TEST

/* Many requests in one piece are answered in their order; the piece ends in
 * the middle of one that comes later. */
START_TEST(test_batch_is_answered_in_order)
{
    struct world w;
    struct buf b;
    world_open(&w, NULL);
    int fd = dial_new(w.port);
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 5000; i++)
        ck_assert_int_eq(c10d_put_add(&b, slice("/n"), 1, NULL), 0);
    send_bytes(fd, buf_head(&b), buf_len(&b) - 3);
    for (int i = 1; i < 5000; i++) {
        uint8_t want[8];
        c10d_pack_u64(want, (uint64_t)i);
        expect_bytes(fd, want, sizeof(want));
    }
    expect_silence(fd);
    send_bytes(fd, buf_head(&b) + buf_len(&b) - 3, 3);
    expect_bytes(fd, "\x88\x13\0\0\0\0\0\0", 8);
    buf_free(&b);
    (void)close(fd);
    world_close(&w);
}
END_TEST

/* The largest value goes in and out. */
START_TEST(test_largest_value_goes_through)
{
    struct world w;
    struct buf b;
    uint8_t *big = malloc(C10D_VALUE_MAX), head[8];
    world_open(&w, NULL);
    int fd = dial_new(w.port);
    ck_assert_ptr_nonnull(big);
    for (size_t i = 0; i < C10D_VALUE_MAX; i++)
        big[i] = (uint8_t)(i * 31 >> 7);
    buf_init(&b, C10D_REQUEST_MAX);
    ck_assert_int_eq(c10d_put_set(&b, slice("/b"),
                                  (struct c10d_slice){big, C10D_VALUE_MAX},
                                  NULL),
                     0);
    send_buf(fd, &b);
    send_get(fd, "/b");
    c10d_pack_u64(head, C10D_VALUE_MAX);
    expect_bytes(fd, head, sizeof(head));
    expect_bytes(fd, big, C10D_VALUE_MAX);
    free(big);
    (void)close(fd);
    world_close(&w);
}
END_TEST

/* A large value in pieces of all sizes, and a request right behind it. */
START_TEST(test_large_value_in_pieces_is_whole)
{
    static const size_t pieces[] = {1, 17, 20000, 65536, 100000, 3000000};
    struct world w;
    struct buf b;
    size_t len = 5000000, at = 0;
    uint8_t *big = malloc(len), head[8];
    world_open(&w, NULL);
    int fd = dial_new(w.port);
    ck_assert_ptr_nonnull(big);
    for (size_t i = 0; i < len; i++)
        big[i] = (uint8_t)(i * 7 >> 3);
    buf_init(&b, C10D_REQUEST_MAX);
    ck_assert_int_eq(
        c10d_put_set(&b, slice("/b"), (struct c10d_slice){big, len}, NULL), 0);
    ck_assert_int_eq(c10d_put_get(&b, slice("/b"), NULL), 0);
    for (size_t i = 0; i < 6 && at < buf_len(&b); at += pieces[i++]) {
        size_t left = buf_len(&b) - at;
        send_bytes(fd, buf_head(&b) + at, left < pieces[i] ? left : pieces[i]);
        usleep(5000);
    }
    if (at < buf_len(&b))
        send_bytes(fd, buf_head(&b) + at, buf_len(&b) - at);
    c10d_pack_u64(head, len);
    expect_bytes(fd, head, sizeof(head));
    expect_bytes(fd, big, len);
    buf_free(&b);
    free(big);
    (void)close(fd);
    world_close(&w);
}
END_TEST

/* What is promised costs nothing, only what is sent: 300 connections announce
 * the largest value and send a hundred bytes of it. */
START_TEST(test_promised_bytes_take_no_memory)
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
END_TEST

/* Who does not read for a while gets all that it asked for, in order: the value
 * of each GET ends in its number. */
START_TEST(test_slow_reader_gets_all_in_order)
{
    enum {
        N = 40
    };
    static uint8_t value[1 << 18];
    struct world w;
    struct buf b;
    int small = 1 << 18;
    world_open(&w, NULL);
    int fd = dial_new(w.port);
    ck_assert_int_eq(
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    buf_init(&b, (size_t)N << 20);
    for (uint8_t i = 0; i < N; i++) {
        value[sizeof(value) - 1] = i;
        ck_assert_int_eq(c10d_put_set(&b, slice("/v"),
                                      (struct c10d_slice){value, sizeof(value)},
                                      NULL),
                         0);
        ck_assert_int_eq(c10d_put_get(&b, slice("/v"), NULL), 0);
    }
    send_buf(fd, &b); /* the server reads it all the same */
    expect_service(w.port);
    for (uint8_t i = 0; i < N; i++) {
        uint8_t head[8];
        c10d_pack_u64(head, sizeof(value));
        expect_bytes(fd, head, sizeof(head));
        value[sizeof(value) - 1] = i;
        expect_bytes(fd, value, sizeof(value));
    }
    (void)close(fd);
    world_close(&w);
}
END_TEST

/* An item of a queue wakes one of those who wait, and if that one is killed
 * before it takes it, the next. */
START_TEST(test_item_is_not_lost_with_who_was_woken)
{
    struct world w;
    struct buf b;
    world_open(&w, NULL);
    int first = dial_new(w.port), second = dial_new(w.port);
    int pusher = dial_new(w.port);
    send_wait(first, "/q");
    send_get(pusher, "/none"); /* the first wait is there */
    expect_value(pusher, "");
    send_wait(second, "/q");
    send_get(pusher, "/none");
    expect_value(pusher, "");
    buf_init(&b, 1 << 12);
    ck_assert_int_eq(c10d_put_queue_push(&b, slice("/q"), slice("job"), NULL),
                     0);
    send_buf(pusher, &b);
    expect_bytes(first, "\0", 1);
    expect_silence(second);
    vanish(first);
    expect_bytes(second, "\0", 1);
    ck_assert_int_eq(c10d_put_queue_pop(&b, slice("/q"), NULL), 0);
    send_buf(second, &b);
    expect_bytes(second, "\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0job", 19);
    (void)close(second);
    (void)close(pusher);
    world_close(&w);
}
END_TEST

/* 200 connections: each adds and waits; one set wakes each exactly once. */
START_TEST(test_two_hundred_wait_and_are_woken_once)
{
    enum {
        N = 200
    };
    struct world w;
    int fd[N];
    world_open(&w, NULL);
    for (int i = 0; i < N; i++) {
        fd[i] = i % 2 == 0 ? dial_new(w.port) : dial(w.port);
        if (i % 2 == 0)
            send_wait(fd[i], "/w");
        else
            send_bytes(fd[i], old_wait, sizeof(old_wait) - 1);
    }
    int setter = dial_new(w.port);
    /* A wait that comes after the set would be answered all the same. */
    for (int i = 0; i < N; i += 50)
        expect_silence(fd[i]);
    send_set(setter, "/w", "go");
    for (int i = 0; i < N; i++)
        expect_bytes(fd[i], "\0", 1);
    send_set(setter, "/w", "again");
    for (int i = 0; i < N; i += 20)
        expect_silence(fd[i]);
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    (void)close(setter);
    world_close(&w);
}
END_TEST

/* -- those who go ---------------------------------------------------------- */

/* Clients that are gone in a wait, in the middle of a request, before the
 * first byte: the others go on, and nobody is logged. */
START_TEST(test_clients_that_vanish_cost_nothing)
{
    struct world w;
    world_open(&w, NULL);
    int stays = dial_new(w.port);
    send_wait(stays, "/w");
    for (int i = 0; i < 20; i++) {
        int waits = dial_new(w.port), half = dial(w.port);
        send_wait(waits, "/w");
        send_bytes(half, old_add, 5);
        if (i % 2 == 0) {
            vanish(waits);
            vanish(half);
        } else {
            (void)close(waits);
            (void)close(half);
        }
        vanish(dial(w.port));
    }
    expect_service(w.port);
    int setter = dial_new(w.port);
    send_set(setter, "/w", "go");
    expect_bytes(stays, "\0", 1);
    expect_service(w.port);
    ck_assert_int_eq(log_lines(&w, "closed"), 0);
    (void)close(setter);
    (void)close(stays);
    world_close(&w);
}
END_TEST

/* A server that is closed with clients in every state leaves nothing. */
START_TEST(test_close_with_open_connections)
{
    struct world w;
    world_open(&w, NULL);
    int waits = dial_new(w.port), half = dial(w.port), idle = dial(w.port);
    send_wait(waits, "/w");
    send_bytes(half, old_add, 5);
    expect_service(w.port);
    world_close(&w);
    expect_closed(waits);
    expect_closed(half);
    expect_closed(idle);
}
END_TEST

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
    G("\0\xce\xf7\x85\x3c\0\0\0\0\0", "VALIDATE with a wrong magic"),
    G("\x00\x01\0\0\0\0\0\0\0k\x01\0\0\0\0\0\0\0x"
      "\x03\x01\0\0\0\0\0\0\0k\x01\0\0\0\0\0\0\0",
      "ADD to a value that is not a number"),
#undef G
};
#define GARBAGE (int)(sizeof(garbage) / sizeof(garbage[0]))

/* Each kind is closed, with its reason and its peer in the log. */
START_TEST(test_garbage_is_closed_with_a_reason)
{
    struct world w;
    world_open(&w, NULL);
    int bad = dial(w.port);
    send_bytes(bad, garbage[_i].bytes, garbage[_i].len);
    expect_closed(bad);
    ck_assert_int_eq(log_lines(&w, garbage[_i].reason), 1);
    ck_assert_int_eq(log_lines(&w, "peer=[127.0.0.1]:"), 1);
    expect_service(w.port);
    world_close(&w);
}
END_TEST

/* Also of one that sent large values before, which is read otherwise; its place
 * is free once, not twice. */
START_TEST(test_garbage_behind_a_large_value)
{
    struct world w;
    struct buf b;
    static uint8_t big[1 << 20];
    world_open(&w, NULL);
    for (int i = 0; i < 3; i++) {
        int bad = dial_new(w.port);
        buf_init(&b, sizeof(big) + 100);
        ck_assert_int_eq(c10d_put_set(&b, slice("/b"),
                                      (struct c10d_slice){big, sizeof(big)},
                                      NULL),
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
END_TEST

/* A flood of it does not flood the log, and says how much was left out. */
START_TEST(test_garbage_in_the_log_is_bounded)
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
    ck_assert_int_le(lines, 20); /* two windows, on a very slow machine */
    expect_service(w.port);
    world_close(&w);
}
END_TEST

/* -- limits ---------------------------------------------------------------- */

/* Who asks and does not read is closed; the others are served meanwhile. */
START_TEST(test_reader_that_does_not_read_is_closed)
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
    ck_assert_int_eq(c10d_put_set(&b, slice("/v"),
                                  (struct c10d_slice){value, sizeof(value)},
                                  NULL),
                     0);
    for (int i = 0; i < 200; i++) /* 50 MiB: more than the kernel takes */
        ck_assert_int_eq(c10d_put_get(&b, slice("/v"), NULL), 0);
    send_doomed(fd, buf_head(&b), buf_len(&b));
    buf_free(&b);
    expect_service(w.port);
    expect_closed(fd);
    ck_assert_int_eq(log_lines(&w, "more replies wait"), 1);
    world_close(&w);
}
END_TEST

/* Half requests of all together: whoever holds most is closed. */
START_TEST(test_heaviest_is_closed_when_all_hold_too_much)
{
    struct world w;
    struct store_server_limits lim = store_server_limits_default();
    static uint8_t value[1 << 20];
    uint8_t head[18] = "\x01\x01\0\0\0\0\0\0\0k";
    lim.held_bytes = (size_t)1 << 20;
    world_open(&w, &lim);
    c10d_pack_u64(head + 10, 1 << 20);
    int light = dial_new(w.port), heavy = dial_new(w.port);
    send_bytes(light, head, sizeof(head));
    send_bytes(light, value, 200000);
    send_bytes(heavy, head, sizeof(head));
    send_doomed(heavy, value, (1 << 20) - 1000);
    expect_closed(heavy);
    ck_assert_int_eq(log_lines(&w, "it holds"), 1);
    send_bytes(light, value, sizeof(value) - 200000);
    send_get(light, "none");
    expect_value(light, "");
    (void)close(light);
    world_close(&w);
}
END_TEST

/* One connection too many is turned away with a line; when one has left, the
 * next is served. */
START_TEST(test_connection_too_many_is_turned_away)
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
    ck_assert_int_eq(log_lines(&w, "turned away"), 1);
    for (int i = 0; i < 3; i++) {
        (void)close(fd[i]);
        bool served = false;
        for (int tries = 0; tries < 100 && !served; tries++) {
            fd[i] = dial(w.port);
            send_doomed(fd[i], old_get_k, sizeof(old_get_k) - 1);
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
END_TEST

/* -- life ------------------------------------------------------------------ */

/* A descriptor that is no socket is an error, and nothing is left of it. */
START_TEST(test_open_on_what_is_no_socket_fails)
{
    uv_loop_t loop;
    struct store_server *s = NULL;
    struct ddp_err err = {0};
    int fd = memfd_create("no socket", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(store_server_open(&s, &loop, fd, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_IO);
    ck_assert_ptr_null(s);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

/* The process that serves and does nothing else, until it is killed. */
START_TEST(test_main_serves_until_killed)
{
    uint16_t port = 0;
    int status = 0, listener = listen_loopback(&port);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        store_server_main(listener);
    (void)close(listener);
    int fd = dial_new(port);
    expect_service(port);
    send_wait(fd, "/alive");
    expect_bytes(fd, "\0", 1);
    ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    expect_closed(fd);
}
END_TEST

/* A crowd that came, and asked, while the process was stopped: more than one
 * turn can hold. */
START_TEST(test_main_serves_a_crowd)
{
    enum {
        N = 700
    };
    static int fd[N];
    static bool seen[N + 1];
    uint16_t port = 0;
    int status = 0, listener = listen_loopback(&port);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        store_server_main(listener);
    (void)close(listener);
    expect_service(port);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    for (int i = 0; i < N; i++) {
        fd[i] = dial(port);
        send_bytes(fd[i], old_add, sizeof(old_add) - 1);
    }
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    for (int i = 0; i < N; i++) {
        uint8_t sum[8];
        ck_assert(readable(fd[i], WAIT_MS));
        ck_assert_int_eq(recv(fd[i], sum, 8, MSG_WAITALL), 8);
        int times = (sum[0] | sum[1] << 8) / 5;
        ck_assert(times >= 1 && times <= N && !seen[times]);
        seen[times] = true;
        (void)close(fd[i]);
    }
    expect_service(port);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("store_server");
    TCase *t = tcase_create("serving");
    tcase_add_test(t, test_both_families_share_the_keys);
    tcase_add_test(t, test_slow_sender_holds_up_nobody);
    tcase_add_test(t, test_batch_is_answered_in_order);
    tcase_add_test(t, test_largest_value_goes_through);
    tcase_add_test(t, test_large_value_in_pieces_is_whole);
    tcase_add_test(t, test_slow_reader_gets_all_in_order);
    tcase_add_test(t, test_item_is_not_lost_with_who_was_woken);
    tcase_add_test(t, test_two_hundred_wait_and_are_woken_once);
    tcase_add_test(t, test_clients_that_vanish_cost_nothing);
    tcase_add_test(t, test_close_with_open_connections);
    suite_add_tcase(s, t);
    t = tcase_create("bad input");
    tcase_add_loop_test(t, test_garbage_is_closed_with_a_reason, 0, GARBAGE);
    tcase_add_test(t, test_garbage_behind_a_large_value);
    tcase_add_test(t, test_garbage_in_the_log_is_bounded);
    suite_add_tcase(s, t);
    t = tcase_create("limits");
    tcase_add_test(t, test_reader_that_does_not_read_is_closed);
    tcase_add_test(t, test_promised_bytes_take_no_memory);
    tcase_add_test(t, test_heaviest_is_closed_when_all_hold_too_much);
    tcase_add_test(t, test_connection_too_many_is_turned_away);
    suite_add_tcase(s, t);
    t = tcase_create("life");
    tcase_add_test(t, test_open_on_what_is_no_socket_fails);
    tcase_add_test(t, test_main_serves_until_killed);
    tcase_add_test(t, test_main_serves_a_crowd);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return suite_run(suite());
}
