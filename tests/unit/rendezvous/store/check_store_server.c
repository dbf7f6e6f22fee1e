/* links: tests/lib/store_world rendezvous/store/process */
/* links: rendezvous/net/{fd_pass,allow,addr} */
/* libs: -luv */
/*
 * The store on real sockets: which connections it serves and which it closes,
 * and how it lives and ends. What it bears is in check_store_limits. Every test
 * ends with the server closed and uv_loop_close() == 0.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/proto/c10d.h"
#include "rendezvous/store/process.h"
#include "rendezvous/store/server.h"
#include "tests/lib/store_world.h"
#include "tests/lib/suite.h"

/* -- serving --------------------------------------------------------------- */

/* Clients of both families see the same keys at the same time. */
TEST(test_both_families_share_the_keys)
{
    struct world w;
    world_open(&w, NULL);
    int old = dial(w.port), new = dial_new(w.port);
    send_bytes(old, OLD_SET, sizeof(OLD_SET) - 1);
    send_bytes(old, OLD_ADD, sizeof(OLD_ADD) - 1);
    expect_bytes(old, "\x05\0\0\0\0\0\0\0", 8);
    send_get(new, "/a");
    expect_value(new, "old");
    send_get(new, "/n");
    expect_value(new, "5");
    send_set(new, "/n", "new");
    send_get(new, "/n");
    expect_value(new, "new");
    send_bytes(old, OLD_GET, sizeof(OLD_GET) - 1);
    expect_value(old, "new");
    (void)close(old);
    (void)close(new);
    world_close(&w);
}

/* A request that comes byte by byte holds up nobody, and is served. */
TEST(test_slow_sender_holds_up_nobody)
{
    struct world w;
    world_open(&w, NULL);
    int slow = dial(w.port), fast = dial_new(w.port);
    for (size_t i = 0; i < sizeof(OLD_ADD) - 1; i++) {
        send_bytes(slow, &OLD_ADD[i], 1);
        send_set(fast, "/f", "fast");
        send_get(fast, "/f");
        expect_value(fast, "fast");
    }
    expect_bytes(slow, "\x05\0\0\0\0\0\0\0", 8);
    (void)close(slow);
    (void)close(fast);
    world_close(&w);
}

/* Many requests in one piece are answered in their order; the piece ends in
 * the middle of one that comes later. */
TEST(test_batch_is_answered_in_order)
{
    struct world w;
    struct buf b;
    world_open(&w, NULL);
    int fd = dial_new(w.port);
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 5000; i++)
        ck_assert_int_eq(
            PUT(&b, NULL, .op = C10D_ADD, .key = slice("/n"), .number = 1), 0);
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

/* The largest value goes in and out. */
TEST(test_largest_value_goes_through)
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
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_SET, .key = slice("/b"),
                         .value = (struct c10d_slice){big, C10D_VALUE_MAX}),
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

/* A large value in pieces of all sizes, and a request right behind it. */
TEST(test_large_value_in_pieces_is_whole)
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
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_SET, .key = slice("/b"),
                         .value = (struct c10d_slice){big, len}),
                     0);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GET, .key = slice("/b")), 0);
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

/* A client that does not read for a while gets all that it asked for, in order:
 * the value of each GET ends in its number. */
TEST(test_slow_reader_gets_all_in_order)
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
        ck_assert_int_eq(
            PUT(&b, NULL, .op = C10D_SET, .key = slice("/v"),
                .value = (struct c10d_slice){value, sizeof(value)}),
            0);
        ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GET, .key = slice("/v")), 0);
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

/* An item of a queue wakes one of those who wait, and if that one is killed
 * before it takes it, the next. */
TEST(test_item_is_not_lost_with_who_was_woken)
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
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_QUEUE_PUSH, .key = slice("/q"),
                         .value = slice("job")),
                     0);
    send_buf(pusher, &b);
    expect_bytes(first, "\0", 1);
    expect_silence(second);
    vanish(first);
    expect_bytes(second, "\0", 1);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_QUEUE_POP, .key = slice("/q")),
                     0);
    send_buf(second, &b);
    expect_bytes(second, "\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0job", 19);
    (void)close(second);
    (void)close(pusher);
    world_close(&w);
}

/* 200 connections: each adds and waits; one set wakes each exactly once. */
TEST(test_two_hundred_wait_and_are_woken_once)
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
            send_bytes(fd[i], OLD_WAIT, sizeof(OLD_WAIT) - 1);
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

/* -- those who go ---------------------------------------------------------- */

/* Clients that are gone in a wait, in the middle of a request, before the
 * first byte: the others go on, and nobody is logged. */
TEST(test_clients_that_vanish_cost_nothing)
{
    struct world w;
    world_open(&w, NULL);
    int stays = dial_new(w.port);
    send_wait(stays, "/w");
    for (int i = 0; i < 20; i++) {
        int waits = dial_new(w.port), half = dial(w.port);
        send_wait(waits, "/w");
        send_bytes(half, OLD_ADD, 5);
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

/* A server that is closed with clients in every state leaves nothing. */
TEST(test_close_with_open_connections)
{
    struct world w;
    world_open(&w, NULL);
    int waits = dial_new(w.port), half = dial(w.port), idle = dial(w.port);
    send_wait(waits, "/w");
    send_bytes(half, OLD_ADD, 5);
    expect_service(w.port);
    world_close(&w);
    expect_closed(waits);
    expect_closed(half);
    expect_closed(idle);
}

/* -- crowds ---------------------------------------------------------------- */

/* The answer to OLD_ADD, which adds five: how many have asked. */
static int times_of(const uint8_t *sum)
{
    return (sum[0] | sum[1] << 8) / 5;
}

/* Two answers, and behind them the end if it is to come. */
static void expect_two_sums(int fd, bool end)
{
    uint8_t sum[16];
    for (size_t have = 0; have < sizeof(sum);) {
        ck_assert_msg(readable(fd, WAIT_MS), "no answer");
        ssize_t n = recv(fd, sum + have, sizeof(sum) - have, 0);
        ck_assert_int_gt(n, 0);
        have += (size_t)n;
    }
    ck_assert_int_lt(times_of(sum), times_of(sum + 8));
    if (end)
        expect_closed(fd);
}

CASE("crowds")

/*
 * All ask at once, round after round; some are gone before they are answered,
 * some have sent their end already and are answered all the same.
 */
TEST(test_crowd_is_answered_while_some_go)
{
    enum {
        N = 150,
        ROUNDS = 40
    };
    struct world w;
    struct store_server_limits lim = store_server_limits_default();
    int fd[N];
    world_open(&w, &lim);
    for (int i = 0; i < N; i++)
        fd[i] = dial(w.port);
    for (int round = 0; round < ROUNDS; round++) {
        world_pause(&w);
        for (int i = 0; i < N; i++) {
            for (int n = 0; n < 2; n++)
                send_bytes(fd[i], OLD_ADD, sizeof(OLD_ADD) - 1);
            if ((i + round) % 8 == 0)
                ck_assert_int_eq(shutdown(fd[i], SHUT_WR), 0);
            if ((i + round) % 8 == 1)
                vanish(fd[i]);
        }
        world_go_on(&w);
        for (int i = 0; i < N; i++) {
            int fate = (i + round) % 8;
            if (fate != 1)
                expect_two_sums(fd[i], fate == 0);
            if (fate <= 1)
                fd[i] = dial(w.port);
        }
    }
    expect_service(w.port);
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    world_close(&w);
}

/* -- life ------------------------------------------------------------------ */

CASE("life")

/* A descriptor that is no socket is an error, and nothing is left of it. */
TEST(test_open_on_what_is_no_socket_fails)
{
    uv_loop_t loop;
    struct store_server *s = NULL;
    struct store_server_limits limits = store_server_limits_default();
    struct ddp_err err = {0};
    int fd = memfd_create("no socket", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(store_server_open(&s, &loop, fd, &limits, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_IO);
    ck_assert_ptr_null(s);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void serve(int listener)
{
    store_process_main(&(struct helper_fds){.listener = listener, .chan = -1},
                       NULL);
}

/* The process that serves and does nothing else, until it is killed. */
TEST(test_main_serves_until_killed)
{
    uint16_t port = 0;
    int status = 0, listener = listen_loopback(&port);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        serve(listener);
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

/* A crowd that came, and asked, while the process was stopped: more than one
 * turn can hold. */
TEST(test_main_serves_a_crowd)
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
        serve(listener);
    (void)close(listener);
    expect_service(port);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    for (int i = 0; i < N; i++) {
        fd[i] = dial(port);
        send_bytes(fd[i], OLD_ADD, sizeof(OLD_ADD) - 1);
    }
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    for (int i = 0; i < N; i++) {
        uint8_t sum[8];
        ck_assert(readable(fd[i], WAIT_MS));
        ck_assert_int_eq(recv(fd[i], sum, 8, MSG_WAITALL), 8);
        int times = times_of(sum);
        ck_assert(times >= 1 && times <= N && !seen[times]);
        seen[times] = true;
        (void)close(fd[i]);
    }
    expect_service(port);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}

SUITE("store_server", "serving")
