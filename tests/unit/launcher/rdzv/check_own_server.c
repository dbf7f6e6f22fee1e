/* links: launcher/rdzv/own_server tests/lib/fault launcher/proc/signals */
/* links: SERVER STORE NET PROTO BASE OPTS */
/* libs: -luv -lcjson -ldl */
/*
 * The server of a launcher: when its process is started, at which ports it
 * answers, and what becomes of it.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/rdzv/own_server.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"
#include "tests/lib/fault.h"
#include "tests/lib/suite.h"

static uv_loop_t loop;
static struct conf conf;
static struct own_server own;

static bool first; /* no server was heard yet */

static void setup(void)
{
    first = false;
    (void)signal(SIGPIPE, SIG_IGN); /* as an agent does, and its server */
    memset(&conf, 0, sizeof(conf));
    conf.nnodes_min = conf.nnodes_max = 2;
    conf.nproc = 1;
    conf.loopback = true;
    conf.is_host = -1;
    conf.endpoints[0] = (struct conf_endpoint){"127.0.0.1", 1};
    conf.endpoints_len = 1;
    (void)snprintf(conf.run_id, sizeof(conf.run_id), "r");
    ck_assert_int_eq(uv_loop_init(&loop), 0);
}

static void teardown(void)
{
    own_server_kill(&own);
}

static void open_own(void)
{
    own_server_init(&own, &loop, &conf, -1, false);
}

static struct sockaddr_in at(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* The connection, or -1 with errno. */
static int dial(int port)
{
    struct sockaddr_in to = at(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    int why = errno;
    ck_assert_int_eq(close(fd), 0);
    errno = why;
    return -1;
}

static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    (void)usleep(500);
}

/* As launcher/loop does when it is told of a child's end. */
static void reap(void)
{
    siginfo_t info = {.si_pid = 0};
    pid_t pid = own_server_pid(&own);
    if (pid > 0 &&
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid)
        own_server_ended(&own, first);
}

static void wait_for_its_end(void)
{
    for (int i = 0; i < 40000 && own_server_pid(&own) != 0; i++) {
        turn();
        reap();
    }
    ck_assert_int_eq(own_server_pid(&own), 0);
}

/* Whether a rendezvous answers there: it serves HTTP at the same port. */
static bool answers(int port)
{
    static const char ask[] = "GET /status HTTP/1.0\r\n\r\n";
    char got[8] = "";
    int fd = dial(port);
    if (fd < 0)
        return false;
    ck_assert_int_eq(send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL),
                     (ssize_t)sizeof(ask) - 1);
    ssize_t n = -1;
    int64_t until_us = mono_now_us() + 30 * MONO_S * suite_slow();
    while (n < 0 && mono_now_us() < until_us) {
        turn();
        reap();
        n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
        ck_assert(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
        if (n < 0 && errno == ECONNRESET)
            n = 0;
    }
    ck_assert_int_eq(close(fd), 0);
    return n == 7 && memcmp(got, "HTTP/1.", 7) == 0;
}

static bool refuses(int port)
{
    int fd = dial(port);
    bool refused = fd < 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        ck_assert_int_eq(close(fd), 0);
    return refused;
}

/* Below those that the kernel gives to whoever connects: another program would
 * have it between a server's death and the next one. */
static int free_port(void)
{
    struct ddp_err err;
    int port = 0, fd = -1;
    while (fd < 0) {
        port = 20000 + (int)(mono_now_us() % 10000);
        struct sockaddr_in sa = at(port);
        if (addr_listen((const struct sockaddr *)&sa, &fd, &err) != 0)
            fd = -1;
    }
    ck_assert_int_eq(close(fd), 0);
    return port;
}

static pid_t serve(int port)
{
    struct ddp_err err = {.text = ""};
    struct sockaddr_in sa = at(port);
    return own_server_serve(&own, (const struct sockaddr *)&sa, false, &err);
}

static bool is_at(int port)
{
    struct sockaddr_in sa = at(port);
    return own_server_is_at(&own, (const struct sockaddr *)&sa);
}

/* -- the spare port -------------------------------------------------------- */

/* No process runs for it, no worker gets it, and it is there before a join. */
TEST(test_spare_port_costs_no_process)
{
    open_own();
    int port = own_server_spare_port(&own);
    ck_assert_int_gt(port, 0);
    ck_assert_int_ne(fcntl(own.spare_fd, F_GETFD) & FD_CLOEXEC, 0);
    for (int i = 0; i < 50; i++)
        turn();
    ck_assert_int_eq(own_server_pid(&own), 0);
    ck_assert(is_at(port)); /* it would be started */
    ck_assert(!is_at(port + 1));
}

/* Nobody else looks for a server of it. */
TEST(test_spare_port_is_not_there_for_a_launch_that_stands_alone)
{
    conf.standalone = true;
    int before = fault_descriptors();
    open_own();
    ck_assert_int_eq(own_server_spare_port(&own), 0);
    ck_assert_int_eq(fault_descriptors(), before);
}

/* The first connection starts the server, which takes that very one. */
TEST(test_first_connection_starts_the_server)
{
    open_own();
    int port = own_server_spare_port(&own);
    ck_assert(answers(port));
    pid_t pid = own_server_pid(&own);
    ck_assert_int_gt(pid, 0);
    ck_assert(is_at(port));
    ck_assert(answers(port));
    ck_assert_int_eq(own_server_pid(&own), pid);
    ck_assert_int_eq(own_server_home_port(&own), 0);
}

/* It is killed: the port stays open, and the next connection starts another
 * one. */
TEST(test_next_connection_starts_a_dead_server_again)
{
    open_own();
    int port = own_server_spare_port(&own);
    ck_assert(answers(port));
    pid_t before = own_server_pid(&own);
    ck_assert_int_eq(kill(before, SIGKILL), 0);
    wait_for_its_end();
    ck_assert(answers(port));
    ck_assert_int_ne(own_server_pid(&own), before);
}

/* A machine without room for one more process may have some later. */
TEST(test_server_that_cannot_be_started_is_tried_again)
{
    open_own();
    fault_plan("test:fork:1:EAGAIN");
    ck_assert(answers(own_server_spare_port(&own)));
    ck_assert_int_eq(fault_struck(), 1);
    fault_end();
}

/* Nor does one that cannot serve end the launch, if another node asked; the
 * next one takes the connection that waits. */
TEST(test_server_that_cannot_serve_is_started_again)
{
    open_own();
    first = true;
    fault_plan("helper1:epoll_create1:1+:EMFILE");
    ck_assert(answers(own_server_spare_port(&own)));
    ck_assert_int_ge(fault_struck(), 1);
    fault_end();
}

TEST(test_spare_port_that_cannot_be_had_is_no_end)
{
    fault_plan("test:listen:1:EADDRINUSE");
    open_own();
    ck_assert_int_eq(fault_struck(), 1);
    fault_end();
    ck_assert_int_eq(own_server_spare_port(&own), 0);
    int port = free_port();
    ck_assert_int_gt(serve(port), 0);
    ck_assert(answers(port));
}

/* -- at an endpoint -------------------------------------------------------- */

/* One process serves at both. */
TEST(test_server_at_the_endpoint_has_the_spare_port_too)
{
    open_own();
    int port = free_port(), spare = own_server_spare_port(&own);
    pid_t pid = serve(port);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(own_server_home_port(&own), port);
    ck_assert(answers(port));
    ck_assert(answers(spare));
    ck_assert(is_at(port) && is_at(spare));
    ck_assert_int_eq(own_server_pid(&own), pid);
    ck_assert_int_eq(serve(free_port()), pid);
}

/* It died at the endpoint, and the spare port is asked first: the next one is
 * at the endpoint again, where newcomers look for it. */
TEST(test_server_of_the_spare_port_takes_the_endpoint_too)
{
    open_own();
    int port = free_port();
    ck_assert_int_gt(serve(port), 0);
    ck_assert(answers(port));
    ck_assert_int_eq(kill(own_server_pid(&own), SIGKILL), 0);
    ck_assert(!refuses(own_server_spare_port(&own)));
    wait_for_its_end();
    ck_assert(answers(own_server_spare_port(&own)));
    ck_assert_int_eq(own_server_home_port(&own), port);
    ck_assert(answers(port));
}

/* It died at the endpoint, and its launcher's run is served elsewhere, so that
 * nobody asks here: newcomers find the endpoint all the same. */
TEST(test_server_that_died_at_the_endpoint_is_started_again)
{
    open_own();
    int port = free_port();
    ck_assert_int_gt(serve(port), 0);
    ck_assert(answers(port));
    pid_t before = own_server_pid(&own);
    ck_assert_int_eq(kill(before, SIGKILL), 0);
    wait_for_its_end();
    int64_t until_us = mono_now_us() + 30 * MONO_S * suite_slow();
    while (own_server_pid(&own) == 0 && mono_now_us() < until_us)
        turn();
    ck_assert_int_gt(own_server_pid(&own), 0);
    ck_assert_int_ne(own_server_pid(&own), before);
    ck_assert_int_eq(own_server_home_port(&own), port);
    ck_assert(answers(port));
}

/* The endpoint is asked first. */
TEST(test_killed_server_serves_at_the_endpoint_again)
{
    open_own();
    int port = free_port();
    ck_assert_int_gt(serve(port), 0);
    ck_assert(answers(port));
    ck_assert_int_eq(kill(own_server_pid(&own), SIGKILL), 0);
    wait_for_its_end();
    ck_assert_int_eq(own_server_home_port(&own), 0);
    ck_assert_int_gt(serve(port), 0);
    ck_assert(answers(port));
    ck_assert_int_eq(own_server_home_port(&own), port);
}

/* It ends with a status, and was never there. */
TEST(test_server_that_could_not_serve_at_the_endpoint_is_started_again)
{
    open_own();
    int port = free_port();
    fault_plan("helper1:epoll_create1:1+:EMFILE");
    ck_assert_int_gt(serve(port), 0);
    wait_for_its_end();
    fault_end();
    ck_assert_int_eq(own_server_home_port(&own), 0);
    ck_assert_int_gt(serve(port), 0);
    ck_assert(answers(port));
}

TEST(test_port_of_another_program_is_left_to_it)
{
    struct ddp_err err;
    struct sockaddr_in any = at(0);
    int fd;
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&any, &fd, &err), 0);
    open_own();
    ck_assert_int_eq(serve(addr_fd_port(fd)), 0);
    ck_assert_int_eq(own_server_pid(&own), 0);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("own_server", "net", .limit_s = 60, FIXTURE(setup, teardown))
