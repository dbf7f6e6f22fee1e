/* links: launcher/preflight/reach rendezvous/base/{err,mono,dial} */
/* links: rendezvous/net/addr */
/*
 * Which nodes try to reach which in a preflight, and what one finds out of
 * another: a real answering process on loopback, and peers that are none.
 */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/preflight/reach.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"
#include "tests/lib/suite.h"

#define MOST   200
#define SECRET "00112233445566778899aabbccddeeff"

/* -- which nodes ----------------------------------------------------------- */

/* Few nodes try all others. */
TEST(test_reach_few_nodes_try_all_others)
{
    int step[REACH_ALL_MAX];
    for (int n = 1; n <= REACH_ALL_MAX; n++) {
        ck_assert_int_eq(reach_choose(step, n), n - 1);
        for (int i = 0; i < n - 1; i++)
            ck_assert_int_eq(step[i], i + 1);
    }
}

/* Many nodes are in one ring, and each tries as many others besides, which are
 * as far from each other as may be, the one before it among them. */
TEST(test_reach_many_nodes_try_the_next_one_and_a_few)
{
    int step[REACH_ALL_MAX];
    for (int n = REACH_ALL_MAX + 1; n <= MOST; n++) {
        ck_assert_int_eq(reach_choose(step, n), 1 + REACH_FEW);
        ck_assert_int_eq(step[0], 1);
        ck_assert_int_eq(step[REACH_FEW], n - 1);
        for (int i = 0; i < REACH_FEW; i++)
            ck_assert_int_ge(step[i + 1] - step[i], (n - 2) / REACH_FEW);
    }
}

/* -- one link -------------------------------------------------------------- */

static int listen_fd, port;

static void setup(void)
{
    ck_assert_int_eq(addr_listen_any(0, &listen_fd, NULL), 0);
    port = addr_fd_port(listen_fd);
}

static void expect(const char *secret, enum preflight_state state, int code)
{
    struct preflight_link l = {.from = 0};
    ck_assert_int_eq(reach_try(&l, "127.0.0.1", port, secret, NULL), 0);
    ck_assert_msg(l.state == (int64_t)state && l.code == code,
                  "state %" PRId64 " (%s), not %d (%s)", l.state,
                  strerror((int)l.code), (int)state, strerror(code));
    if (state == PREFLIGHT_OK)
        ck_assert(l.clock_us > -1000000 && l.clock_us < 1000000);
}

CASE("net", .limit_s = 60, FIXTURE(setup, NULL))

/* Also while a peer that says nothing is connected, and one with another
 * secret gets no answer. */
TEST(test_reach_probe_answers_all_that_know_the_run)
{
    pid_t pid = reach_answer(listen_fd, SECRET, NULL);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(close(listen_fd), 0);
    struct addr_list list;
    ck_assert_int_eq(addr_resolve("127.0.0.1", port, &list, NULL), 0);
    int silent =
        dial_any(list.at, list.n, mono_now_us() + 5 * MONO_S, reach_stop());
    ck_assert_int_ge(silent, 0);
    expect(SECRET, PREFLIGHT_OK, 0);
    expect("another", PREFLIGHT_MUTE, 0);
    expect(SECRET, PREFLIGHT_OK, 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(close(silent), 0);
    expect(SECRET, PREFLIGHT_NO, ECONNREFUSED);
}

/* One that listens and never answers. */
TEST(test_reach_program_that_says_nothing_is_mute)
{
    expect(SECRET, PREFLIGHT_MUTE, ETIMEDOUT);
    ck_assert_int_eq(close(listen_fd), 0);
}

/* A first clock comes, and a second one does not: what is large is lost. */
TEST(test_reach_link_that_loses_large_packets_is_stuck)
{
    pid_t pid = fork();
    if (pid == 0) {
        char secret[REACH_SECRET_MAX];
        struct pollfd p = {.fd = listen_fd, .events = POLLIN};
        (void)poll(&p, 1, 10000);
        int fd = accept(listen_fd, NULL, NULL);
        (void)recv(fd, secret, sizeof(secret), MSG_WAITALL);
        (void)send(fd, "12345678", 8, 0);
        (void)sleep(20);
        _exit(0);
    }
    expect(SECRET, PREFLIGHT_STUCK, ETIMEDOUT);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(close(listen_fd), 0);
}

SUITE("preflight_reach", "choice")
