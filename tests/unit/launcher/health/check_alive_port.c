/* links: launcher/health/alive_port launcher/proc/aborts tests/lib/hurt */
/* links: rendezvous/http/{httpd,http} CONN TLS PROTO BASE */
/* links: rendezvous/net/{addr,listener} */
/* libs: -luv -lcjson -ldl */
/*
 * Probes of the port on which a launcher says that it is alive: plain sockets
 * on loopback, some of which say nothing, or nonsense.
 */
#include <check.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/health/alive_port.h"
#include "launcher/proc/aborts.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/suite.h"

#define LIMIT_US (20 * MONO_S)

static const char question[] =
    "GET /healthz HTTP/1.1\r\nHost: node:8080\r\n\r\n";

static uv_loop_t loop;
static int port;

/* One that is free now. */
static void choose_port(void)
{
    int fd;
    char text[16];
    struct ddp_err err;
    if (addr_listen_any(0, &fd, &err) != 0)
        abort();
    port = addr_fd_port(fd);
    (void)close(fd);
    (void)snprintf(text, sizeof(text), "%d", port);
    (void)setenv("TORCHELASTIC_HEALTH_CHECK_PORT", text, 1);
}

static void setup(void)
{
    log_init("ddprun");
    aborts_explain();
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    choose_port();
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
        abort();
    return fd;
}

/* What came until the end, as far as it fits; "" if there is no end in time. */
static void hear(int fd, char *text, size_t size)
{
    int64_t until_us = mono_now_us() + LIMIT_US;
    size_t len = 0;
    ssize_t n = -1;
    while (n != 0 && len + 1 < size && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        fault_hold(true);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 1) == 1) {
            n = recv(fd, text + len, size - 1 - len, 0);
            len += n > 0 ? (size_t)n : 0;
        }
        n = n < 0 && p.revents != 0 ? 0 : n; /* a reset is an end */
        fault_hold(false);
    }
    text[n == 0 ? len : 0] = '\0';
}

static bool is_answered(void)
{
    char text[600];
    fault_hold(true);
    int fd = dial();
    if (write(fd, question, sizeof(question) - 1) < 0)
        abort();
    fault_hold(false);
    hear(fd, text, sizeof(text));
    fault_hold(true);
    (void)close(fd);
    fault_hold(false);
    return strncmp(text, "HTTP/1.1 200 OK\r\n", 17) == 0 &&
           strstr(text, "\r\n\r\nalive\n") != NULL;
}

TEST(test_alive_port_answers_each_probe)
{
    ck_assert(alive_port_open(&loop));
    for (int i = 0; i < 3 * ALIVE_PORT_CONNS; i++)
        ck_assert(is_answered());
}

/* Those that say nothing do not keep others out, and are not kept for ever. */
TEST(test_alive_port_has_room_beside_the_silent)
{
    int silent[2 * ALIVE_PORT_CONNS];
    char text[16];
    ck_assert(alive_port_open(&loop));
    for (int i = 0; i < 2 * ALIVE_PORT_CONNS; i++)
        silent[i] = dial();
    ck_assert(is_answered());
    ck_assert_int_eq(
        poll(&(struct pollfd){.fd = silent[0], .events = POLLIN}, 1, 20000),
        1); /* the first one is closed */
    for (int i = 0; i < 2 * ALIVE_PORT_CONNS; i++) {
        ck_assert_int_eq(write(silent[i], "\0junk\n", 6) < 0, 0);
        if (i >= ALIVE_PORT_CONNS + 1)
            hear(silent[i], text, sizeof(text)); /* nonsense is closed */
        (void)close(silent[i]);
    }
    ck_assert(is_answered());
}

static const char *const wrong[] = {"", "port", "0", "65536", "80 ", "-1"};

TEST_EACH(test_alive_port_that_is_none_is_not_opened, wrong)
{
    (void)setenv("TORCHELASTIC_HEALTH_CHECK_PORT", wrong[_i], 1);
    ck_assert(!alive_port_open(&loop));
}

TEST(test_alive_port_of_another_program_is_left_alone)
{
    ck_assert(alive_port_open(&loop));
    ck_assert(!alive_port_open(&loop));
    ck_assert(is_answered());
}

static int run(void *ctx)
{
    (void)ctx;
    fault_hold(true);
    choose_port(); /* without SO_REUSEADDR one that was used is not free */
    fault_hold(false);
    int descriptors = fault_descriptors();
    if (!alive_port_open(&loop))
        return fault_descriptors() == descriptors ? HURT_TOLD : HURT_LEAK;
    /* What fails once is asked again by the next probe. */
    for (int i = 0; i < 3; i++)
        if (is_answered())
            return HURT_DONE;
    return HURT_LATE;
}

CASE("faults", FAULT_CASE(60), FIXTURE(setup, NULL))

TEST(test_alive_port_answers_or_says_why_not_whatever_call_fails)
{
    hurt_each("test", 1, run, NULL, "socket bind listen accept4");
}

SUITE("alive_port", "fast", .limit_s = 60, FIXTURE(setup, NULL))
