/* links: rendezvous/daemon/sd rendezvous/base/{opts,err} */
/* Under systemd, which is played by sockets of our own. */
#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/daemon/sd.h"
#include "tests/lib/suite.h"

static struct sd sd;
static struct ddp_err err;
static char name[100];

/* What systemd listens on: a path, or a name without a file. */
static int open_manager(bool abstract)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(fd, 0);
    if (abstract)
        (void)snprintf(name, sizeof(name), "@ddprun-check-sd-%d",
                       (int)getpid());
    else
        (void)snprintf(name, sizeof(name), "/tmp/ddprun-check-sd-%d",
                       (int)getpid());
    memcpy(at.sun_path, name, strlen(name));
    if (abstract)
        at.sun_path[0] = '\0';
    socklen_t len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, len), 0);
    ck_assert_int_eq(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static void is_told(int fd, const char *want)
{
    char got[200] = "";
    ssize_t n = recv(fd, got, sizeof(got) - 1, 0);
    ck_assert_int_eq(n, (ssize_t)strlen(want));
    ck_assert_str_eq(got, want);
}

TEST_LOOP(test_sd_manager_is_told, 0, 2)
{
    int fd = open_manager(_i == 0);
    ck_assert_int_eq(sd_open(&sd, &err), 0);
    ck_assert_ptr_null(getenv("NOTIFY_SOCKET"));
    sd_tell(&sd, "READY=1");
    is_told(fd, "READY=1");
    sd_tell(&sd, "WATCHDOG=1\nSTATUS=1 run, 2 nodes");
    is_told(fd, "WATCHDOG=1\nSTATUS=1 run, 2 nodes");
    sd_close(&sd);
    sd_tell(&sd, "STOPPING=1"); /* to nobody */
    ck_assert_int_eq(recv(fd, name, 1, 0), -1);
    ck_assert_int_eq(close(fd), 0);
    (void)unlink(name);
}

/* A manager that does not read, or is gone, holds nobody up. */
TEST(test_sd_manager_that_does_not_listen)
{
    int fd = open_manager(true);
    ck_assert_int_eq(sd_open(&sd, &err), 0);
    for (int i = 0; i < 10000; i++)
        sd_tell(&sd, "WATCHDOG=1");
    ck_assert_int_eq(close(fd), 0);
    sd_tell(&sd, "WATCHDOG=1");
    sd_close(&sd);
}

TEST(test_sd_without_a_manager_is_silent)
{
    ck_assert_int_eq(unsetenv("NOTIFY_SOCKET"), 0);
    ck_assert_int_eq(setenv("WATCHDOG_USEC", "1000", 1), 0);
    ck_assert_int_eq(sd_open(&sd, &err), 0);
    ck_assert_int_eq(sd.fd, -1);
    ck_assert_int_eq(sd.watchdog_us, 0);
    sd_tell(&sd, "READY=1");
    sd_close(&sd);
}

static const struct {
    const char *usec;
    int pid; /* 0: not set; 1: ours; 2: another's */
    int64_t want;
} watchdogs[] = {
    {"3000000", 0, 3000000},
    {"3000000", 1, 3000000},
    {"3000000", 2, 0},
    {"3s", 1, 0},
    {"-1", 1, 0},
    {"", 1, 0},
};

TEST_EACH(test_sd_watchdog, watchdogs)
{
    char pid[20];
    int fd = open_manager(true);
    (void)snprintf(pid, sizeof(pid), "%d",
                   (int)getpid() + watchdogs[_i].pid - 1);
    ck_assert_int_eq(setenv("WATCHDOG_USEC", watchdogs[_i].usec, 1), 0);
    ck_assert_int_eq(watchdogs[_i].pid > 0 ? setenv("WATCHDOG_PID", pid, 1)
                                           : unsetenv("WATCHDOG_PID"),
                     0);
    ck_assert_int_eq(sd_open(&sd, &err), 0);
    ck_assert_int_eq(sd.watchdog_us, watchdogs[_i].want);
    sd_close(&sd);
    ck_assert_int_eq(close(fd), 0);
}

static char too_long[200];
static const char *const no_sockets[] = {"relative", "@", "/", "vsock:2:1",
                                         too_long};

TEST_EACH(test_sd_socket_that_is_none_is_an_error, no_sockets)
{
    memset(too_long, 'a', sizeof(too_long) - 1);
    too_long[0] = '/';
    ck_assert_int_eq(setenv("NOTIFY_SOCKET", no_sockets[_i], 1), 0);
    ck_assert_int_eq(sd_open(&sd, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_int_eq(sd.fd, -1);
}

/* -- a socket that is passed ----------------------------------------------- */

/* Check itself talks over descriptor 3: what is passed there is passed to a
 * child, which says by its status what became of it. */
enum outcome {
    TAKEN,
    NONE,
    REFUSED,
    BLOCKS,
    STAYS /* in the environment */
};

static enum outcome take_passed(void)
{
    int fd = 0;
    if (sd_listener(&fd, &err) != 0)
        return err.code == DDP_E_CONFIG && fd == -1 ? REFUSED : STAYS;
    if (getenv("LISTEN_FDS") != NULL || getenv("LISTEN_PID") != NULL)
        return STAYS;
    if (fd == -1)
        return NONE;
    int again = 0;
    if (fd != 3 || sd_listener(&again, &err) != 0 || again != -1)
        return STAYS;
    return accept(fd, NULL, NULL) == -1 && errno == EAGAIN ? TAKEN : BLOCKS;
}

static enum outcome pass(int fd, const char *n, bool to_another)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char text[20];
        (void)close(3);
        (void)snprintf(text, sizeof(text), "%d", (int)getpid() + to_another);
        if ((fd >= 0 && dup2(fd, 3) != 3) || setenv("LISTEN_FDS", n, 1) != 0 ||
            setenv("LISTEN_PID", text, 1) != 0)
            _exit(100);
        _exit((int)take_passed());
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return (enum outcome)WEXITSTATUS(status);
}

static int tcp_socket(bool listens)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert(!listens || listen(fd, 1) == 0);
    return fd;
}

TEST(test_sd_listener_that_is_passed_is_taken)
{
    ck_assert_int_eq(pass(tcp_socket(true), "1", false), TAKEN);
}

TEST(test_sd_listener_of_another_process_is_none)
{
    ck_assert_int_eq(pass(tcp_socket(true), "1", true), NONE);
    ck_assert_int_eq(pass(-1, "0", false), NONE);
}

TEST(test_sd_listener_that_does_not_fit_is_an_error)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ck_assert_int_eq(pass(tcp_socket(true), "2", false), REFUSED);
    ck_assert_int_eq(pass(tcp_socket(false), "1", false), REFUSED);
    ck_assert_int_eq(pass(pair[0], "1", false), REFUSED);
    ck_assert_int_eq(pass(-1, "1", false), REFUSED);
}

SUITE("sd", "fast")
