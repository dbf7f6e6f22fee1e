#include "tests/unit/rendezvous/http/http_hand.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/listener.h"

uv_loop_t loop;
int lost;

static struct listener *listener;
static struct sockaddr_in at;
static void (*give)(struct conn *c);

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    (void)ctx;
    (void)c;
    (void)why;
    lost++;
}

static void on_foreign(void *ctx, struct conn *c, enum first first)
{
    (void)ctx;
    if (first == FIRST_HTTP)
        give(c);
}

static const struct conn_handler handler = {.on_closed = on_closed,
                                            .on_foreign = on_foreign};

static void on_fd(void *ctx, int fd)
{
    struct ddp_err err;
    (void)ctx;
    ck_assert_ptr_nonnull(conn_accept(&loop, fd, &handler, NULL, &err));
}

static const struct listener_handler listener_handler = {.on_fd = on_fd};

void http_hand_open(void (*take)(struct conn *c))
{
    struct ddp_err err;
    int fd;
    (void)signal(SIGPIPE, SIG_IGN);
    give = take;
    lost = 0;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    at.sin_port = htons((uint16_t)addr_fd_port(fd));
    ck_assert_int_eq(
        listener_open(&listener, &loop, fd, &listener_handler, NULL, &err), 0);
}

void http_hand_close(void)
{
    listener_close(listener);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    (void)poll(NULL, 0, 1);
}

void run_for(int ms)
{
    int64_t until_us = mono_now_us() + ms * MONO_MS;
    while (mono_now_us() < until_us)
        turn();
}

int say(const char *bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int small = 65536;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(
        connect(fd, (const struct sockaddr *)&at, sizeof(struct sockaddr_in)),
        0);
    ck_assert_int_eq(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL),
                     (ssize_t)strlen(bytes));
    return fd;
}
