/* links: launcher/rdzv/store_host tests/lib/{hurt,conf_line} STORE NET PROTO */
/* links: BASE */
/* libs: -luv -lcjson -ldl */
/*
 * The workers' store of this node, from its listener to its process, and what
 * becomes of it if a system call fails: of the agent's, or of the process's.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/rdzv/store_host.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/fd_pass.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/suite.h"

#define WAIT_US (30 * MONO_S)

/* As a worker of PyTorch 1.13 says them: SET a to "old", and GET it. */
#define SET "\x00\x02\0\0\0\0\0\0\0/a\x03\0\0\0\0\0\0\0old"
#define GET "\x02\x02\0\0\0\0\0\0\0/a"
static const char got[] = "\x03\0\0\0\0\0\0\0old";

static uv_loop_t loop;
static struct store_host h;
static struct conf conf;
static int port;
static bool patient; /* waits until a store is started again */
static struct sockaddr_in at;

/* -- a worker -------------------------------------------------------------- */

/* Its connection; -1: a fault in the test's own calls. */
static int worker_connects(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static bool says(int fd)
{
    return send(fd, SET GET, sizeof(SET) - 1 + sizeof(GET) - 1, MSG_NOSIGNAL) >
           0;
}

/* 1: the store answered; 0: nothing yet; -1: the connection is over. */
static int hears(int fd)
{
    char text[sizeof(got)];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 5) <= 0)
        return 0;
    ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR ? 0 : -1;
    return n == sizeof(got) - 1 && memcmp(text, got, (size_t)n) == 0 ? 1 : -1;
}

/* -- the agent's loop ------------------------------------------------------ */

/* As launcher/loop does when it is told of a child's end. */
static void reap(int64_t round)
{
    siginfo_t info = {.si_pid = 0};
    if (h.pid > 0 &&
        waitid(P_PID, (id_t)h.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == h.pid)
        store_host_fell(&h, round);
}

/* Until a worker was answered, who connects again if he is cut off. */
static int serve(int fd, int64_t round)
{
    int64_t until_us = mono_now_us() + WAIT_US;
    int heard = says(fd) ? 0 : -1;
    while (heard != 1 && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        reap(round);
        if (!patient && uv_is_active((const uv_handle_t *)&h.again) != 0)
            return HURT_TOLD; /* that it is tried again */
        if (heard < 0) {
            (void)close(fd);
            fd = worker_connects();
            if (fd < 0)
                return HURT_TEST;
            (void)says(fd);
        }
        heard = hears(fd);
    }
    (void)close(fd);
    return heard == 1 ? HURT_DONE : HURT_LATE;
}

static int on_own_fault(void)
{
    return fault_struck() > 0 ? HURT_TEST : hurt_wrong("the test cannot run");
}

static int open_it(void)
{
    struct ddp_err err;
    if (uv_loop_init(&loop) != 0)
        return on_own_fault();
    port = store_host_open(&h, &loop, &conf, &err);
    return port < 0 ? hurt_told(err.text) : HURT_DONE;
}

/* A pair that keeps connections between two stores stays. */
static int compare_descriptors(int before)
{
    if (h.own_take >= 0)
        before += 2;
    if (h.pid != 0)
        return hurt_wrong("a store is left");
    return fault_descriptors() == before ? HURT_DONE : HURT_LEAK;
}

/* Two rounds. The worker of the second connects before it begins. */
static int run_two_rounds(void *ctx)
{
    (void)ctx;
    int rc = open_it();
    if (rc != HURT_DONE)
        return rc;
    int before = fault_descriptors();
    store_host_renew(&h, 1);
    int fd = worker_connects();
    rc = fd < 0 ? on_own_fault() : serve(fd, 1);
    store_host_end(&h);
    if (rc != HURT_DONE)
        return rc;
    if ((rc = compare_descriptors(before)) != HURT_DONE)
        return rc;
    fd = worker_connects();
    if (fd < 0)
        return on_own_fault();
    store_host_renew(&h, 2);
    rc = serve(fd, 2);
    store_host_end(&h);
    if (rc != HURT_DONE)
        return rc;
    return compare_descriptors(before);
}

static int run_shared_port(void *ctx)
{
    (void)ctx;
    int rc = open_it();
    if (rc != HURT_DONE)
        return rc;
    int before = fault_descriptors(), pair[2];
    store_host_renew(&h, 1);
    /* The server of this launcher has read the worker's first words. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return on_own_fault();
    if (fd_pass_give(h.give, pair[1], (const uint8_t *)SET, sizeof(SET) - 1) !=
        0)
        return on_own_fault();
    (void)close(pair[1]);
    int64_t until_us = mono_now_us() + WAIT_US;
    int heard = 0;
    if (send(pair[0], GET, sizeof(GET) - 1, MSG_NOSIGNAL) < 0)
        return on_own_fault();
    while (heard == 0 && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        reap(1);
        if (uv_is_active((const uv_handle_t *)&h.again) != 0)
            return HURT_TOLD;
        heard = hears(pair[0]);
    }
    (void)close(pair[0]);
    store_host_end(&h);
    if (heard == 0)
        return HURT_LATE;
    if (heard < 0)
        return hurt_told("the worker was cut off");
    return compare_descriptors(before);
}

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as an agent does, and its helpers */
    /* libuv's first loop of a process: open_files_room is for it. */
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    memset(&conf, 0, sizeof(conf));
    conf.nnodes_max = conf.nproc = 1;
    conf.worker_store = true;
    conf.is_host = 1;
    conf.backend = CONF_C10D;
}

static void setup_shared(void)
{
    setup();
    conf.backend = CONF_STATIC;
}

/* -- the tests ------------------------------------------------------------- */

TEST(test_store_host_serves_two_rounds_whatever_call_fails)
{
    hurt_each("test", 2, run_two_rounds, NULL,
              "socket bind listen getsockname fork accept4");
}

CASE("net shared", FAULT_CASE(120), FIXTURE(setup_shared, NULL))

/* What cannot be passed on is said by what takes it. */
TEST(test_store_host_serves_at_the_shared_port_whatever_call_fails)
{
    hurt_each("test", 1, run_shared_port, NULL, "socketpair fork");
}

CASE("net faults")

/* The process dies at its start, or says that it has no descriptors; another
 * one takes its place. */
TEST(test_store_host_replaces_a_store_whatever_call_of_it_fails)
{
    hurt_each("helper1", 1, run_two_rounds, NULL, "epoll_create1 eventfd");
}

CASE("net", .limit_s = 120, FIXTURE(setup, NULL))

/* A process that cannot be started is tried again, and serves who waited. */
TEST(test_store_host_tries_again_to_start)
{
    patient = true;
    fault_plan("test:fork:1:EAGAIN");
    ck_assert_int_eq(run_two_rounds(NULL), HURT_DONE);
    ck_assert_int_eq(fault_struck(), 1);
    fault_end();
}

SUITE("store_host", "net faults", FAULT_CASE(120), FIXTURE(setup, NULL))
