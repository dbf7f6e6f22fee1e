/* links: rendezvous/net/{listener,addr} rendezvous/base/{err,log,utf8} */
/* libs: -luv */
/*
 * A listening socket: how many it takes in a turn, and what it does where there
 * is no descriptor for those that come.
 */
#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/net/addr.h"
#include "rendezvous/net/listener.h"
#include "tests/lib/suite.h"

#define COMERS 150

static uv_loop_t loop;
static struct listener *listener;
static struct sockaddr_in at;
static int came, stuck;
static int fds[COMERS];
static bool makes_room;

static void on_fd(void *ctx, int fd)
{
    (void)ctx;
    ck_assert_int_lt(came, COMERS);
    fds[came++] = fd;
}

static bool on_stuck(void *ctx, const char *why)
{
    (void)ctx;
    ck_assert_str_eq(why, "Too many open files");
    stuck++;
    if (makes_room)
        ck_assert_int_eq(close(fds[--came]), 0);
    return makes_room;
}

static const struct listener_handler handler = {.on_fd = on_fd,
                                                .on_stuck = on_stuck};

static void setup(void)
{
    struct ddp_err err;
    int fd;
    came = stuck = 0;
    makes_room = false;
    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    at.sin_port = htons((uint16_t)addr_fd_port(fd));
    ck_assert_int_eq(listener_open(&listener, &loop, fd, &handler, NULL, &err),
                     0);
}

static void teardown(void)
{
    listener_close(listener);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void dial(int n)
{
    for (int i = 0; i < n; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)),
                         0);
    }
}

/* So many more descriptors than there are now. */
static void allow(int more)
{
    struct rlimit lim;
    int next = dup(0);
    ck_assert_int_ge(next, 0);
    ck_assert_int_eq(close(next), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    lim.rlim_cur = (rlim_t)(next + more);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
}

TEST(test_listener_takes_some_in_a_turn)
{
    dial(COMERS);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(came, LISTENER_PER_TURN);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(came, COMERS);
    ck_assert_int_eq(stuck, 0);
}

CASE("limits", .tags = "setrlimit", FIXTURE(setup, teardown))

/* Ten looks a second, and not as many as the CPU makes; who waits comes in when
 * there is room. */
TEST(test_listener_without_descriptors_rests)
{
    dial(5);
    allow(2);
    uint64_t began = uv_hrtime();
    for (int i = 0; i < 250; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
    ck_assert_int_eq(came, 2);
    ck_assert_int_ge(stuck, 1);
    ck_assert_int_le(stuck, 2 + (int)((uv_hrtime() - began) / 100000000));
    ck_assert_int_eq(close(fds[0]), 0);
    allow(10);
    while (came < 5)
        (void)uv_run(&loop, UV_RUN_ONCE);
}

/* An owner that closes something for each is asked again, in the next turn. The
 * kernel wants a descriptor before it looks whether somebody waits. */
TEST(test_listener_goes_on_where_room_is_made)
{
    makes_room = true;
    dial(5);
    allow(1);
    for (int i = 0; i < 6; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(came, 0);
    ck_assert_int_eq(stuck, 5);
}

SUITE("listener", "listener", .tags = "net", FIXTURE(setup, teardown))
