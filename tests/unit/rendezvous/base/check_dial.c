/* links: rendezvous/base/{dial,mono} */
/*
 * Connections within a deadline: who answers is reached, who refuses or is
 * silent ends the attempt in time, and a signal stops it.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "rendezvous/base/dial.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

/* A socket bound to a port of 127.0.0.1; it listens if `backlog` >= 0. */
static int serve(struct sockaddr_storage *at, int backlog)
{
    struct sockaddr_in *sin = (struct sockaddr_in *)at;
    socklen_t len = sizeof(*sin);
    memset(at, 0, sizeof(*at));
    sin->sin_family = AF_INET;
    sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)at, len), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)at, &len), 0);
    if (backlog >= 0)
        ck_assert_int_eq(listen(fd, backlog), 0);
    return fd;
}

/* A listener whose queue is full: it answers no further handshake. */
static int serve_full(struct sockaddr_storage *at, int fill[8])
{
    int fd = serve(at, 0);
    for (int i = 0; i < 8; i++)
        fill[i] = dial_begin((const struct sockaddr *)at);
    (void)usleep(20000);
    return fd;
}

static void close_all(int fd, const int fill[8])
{
    for (int i = 0; i < 8; i++)
        if (fill[i] >= 0)
            ck_assert_int_eq(close(fill[i]), 0);
    ck_assert_int_eq(close(fd), 0);
}

static int64_t soon(int64_t ms)
{
    return mono_now_us() + ms * MONO_MS;
}

/* The descriptor is connected, non-blocking, close-on-exec and tuned. */
TEST(test_dial_addr_connects)
{
    struct sockaddr_storage at;
    int listener = serve(&at, 8), on = 0;
    socklen_t len = sizeof(on);
    int fd = dial_addr((struct sockaddr *)&at, soon(2000), NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    ck_assert_int_ne(on, 0);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(close(listener), 0);
}

/* Without a deadline a refusal still ends the attempt. */
TEST(test_dial_addr_refused_is_told_at_once)
{
    struct sockaddr_storage at;
    int bound = serve(&at, -1);
    ck_assert_int_eq(dial_addr((struct sockaddr *)&at, MONO_NEVER, NULL), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    ck_assert_int_eq(close(bound), 0);
}

/* Silence ends at the deadline; one that is past does not wait at all. */
TEST(test_dial_addr_silence_ends_at_the_deadline)
{
    struct sockaddr_storage at;
    int fill[8], listener = serve_full(&at, fill);
    int64_t since_us = mono_now_us();
    ck_assert_int_eq(dial_addr((struct sockaddr *)&at, soon(100), NULL), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_ge(mono_now_us() - since_us, 99 * MONO_MS);
    ck_assert_int_lt(mono_now_us() - since_us, suite_room_us(2 * MONO_S));
    since_us = mono_now_us();
    ck_assert_int_eq(dial_addr((struct sockaddr *)&at, since_us - 1, NULL), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_lt(mono_now_us() - since_us, suite_room_us(MONO_S));
    close_all(listener, fill);
}

/* A silent address leaves time for the next one. */
TEST(test_dial_any_shares_the_time)
{
    struct sockaddr_storage at[3];
    int fill[8], silent = serve_full(&at[0], fill);
    int refuses = serve(&at[1], -1), answers = serve(&at[2], 8);
    int fd = dial_any(at, 3, soon(900), NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(dial_any(at, 2, soon(100), NULL), -1);
    ck_assert_int_eq(errno, ETIMEDOUT); /* of the first */
    ck_assert_int_eq(dial_any(at + 1, 1, soon(100), NULL), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    ck_assert_int_eq(dial_any(at, 0, soon(100), NULL), -1);
    ck_assert_int_eq(errno, EADDRNOTAVAIL);
    close_all(silent, fill);
    ck_assert_int_eq(close(refuses), 0);
    ck_assert_int_eq(close(answers), 0);
}

static volatile sig_atomic_t told;

static void on_alarm(int signo)
{
    (void)signo;
    told = 1;
}

static void alarm_in_ms(int ms)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    struct itimerval after = {.it_value = {.tv_usec = ms * 1000}};
    told = 0;
    ck_assert_int_eq(sigaction(SIGALRM, &sa, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &after, NULL), 0);
}

/* A signal ends a wait only if the caller says so. */
TEST(test_dial_wait_is_stopped_by_a_signal)
{
    struct dial_stop any = {.told = NULL}, flag = {.told = &told};
    alarm_in_ms(50);
    ck_assert_int_eq(dial_wait(-1, 0, soon(5000), &any), -1);
    ck_assert_int_eq(errno, ECANCELED);
    alarm_in_ms(50);
    ck_assert_int_eq(dial_wait(-1, 0, soon(5000), &flag), -1);
    ck_assert_int_eq(errno, ECANCELED);
    ck_assert_int_eq(dial_wait(-1, 0, soon(5000), &flag), -1); /* still */
    ck_assert_int_eq(errno, ECANCELED);
    alarm_in_ms(50);
    ck_assert_int_eq(dial_wait(-1, 0, soon(200), NULL), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_eq(told, 1);
}

/* A signal that is blocked outside of the wait is not lost before it. */
TEST(test_dial_wait_opens_the_mask)
{
    sigset_t alarms, before;
    struct dial_stop stop = {.told = &told, .mask = &before};
    (void)sigemptyset(&alarms);
    (void)sigaddset(&alarms, SIGALRM);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, &alarms, &before), 0);
    alarm_in_ms(1);
    (void)usleep(20000);
    ck_assert_int_eq(told, 0);
    ck_assert_int_eq(dial_wait(-1, 0, soon(5000), &stop), -1);
    ck_assert_int_eq(errno, ECANCELED);
}

/* What poll(2) is given. */
TEST(test_dial_poll_ms_of_deadlines)
{
    ck_assert_int_eq(dial_poll_ms(MONO_NEVER), -1);
    ck_assert_int_eq(dial_poll_ms(mono_now_us() - 1), 0);
    int ms = dial_poll_ms(soon(1000));
    ck_assert(ms > 500 && ms <= 1000);
}

SUITE("dial", "dial")
