/* links: launcher/worker/pipe_probe */
/*
 * Is a console that is full told from one that nobody reads?
 */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "launcher/worker/pipe_probe.h"
#include "tests/lib/suite.h"

static char block[4096];

static void fill(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
}

/* Full all the time; what is read from it, if only a little, is seen. */
TEST(test_pipe_probe_a_full_pipe_that_is_read_changes)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe_probe(ends[1]), -1);
    fill(ends[1]);
    int64_t full = pipe_probe(ends[1]);
    ck_assert_int_ge(full, (int64_t)sizeof(block));
    ck_assert_int_eq(pipe_probe(ends[1]), full);
    ck_assert_int_eq(read(ends[0], block, 10), 10);
    ck_assert_int_eq(pipe_probe(ends[1]), full - 10);
    ck_assert_int_eq(read(ends[0], block, sizeof(block)), sizeof(block));
    ck_assert_int_eq(pipe_probe(ends[1]), -1);
}

TEST(test_pipe_probe_a_full_socket_that_is_read_changes)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert_int_eq(pipe_probe(ends[1]), -1);
    fill(ends[1]);
    int64_t full = pipe_probe(ends[1]);
    ck_assert_int_gt(full, 0);
    ck_assert_int_eq(write(ends[0], "to us", 5), 5);
    ck_assert_int_eq(pipe_probe(ends[1]), full);
    ck_assert_int_eq(read(ends[0], block, sizeof(block)), sizeof(block));
    ck_assert_int_lt(pipe_probe(ends[1]), full);
}

/* What is typed while it is stopped is nothing that it takes. */
TEST(test_pipe_probe_a_stopped_terminal_takes_nothing)
{
    char name[64];
    struct termios mode;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    ck_assert_int_eq(ptsname_r(master, name, sizeof(name)), 0);
    int terminal = open(name, O_RDWR | O_NOCTTY);
    ck_assert_int_eq(tcgetattr(terminal, &mode), 0);
    cfmakeraw(&mode);
    ck_assert_int_eq(tcsetattr(terminal, TCSANOW, &mode), 0);
    ck_assert_int_eq(pipe_probe(terminal), -1);
    ck_assert_int_eq(tcflow(terminal, TCOOFF), 0);
    int64_t full = pipe_probe(terminal);
    ck_assert_int_ge(full, 0);
    ck_assert_int_eq(write(master, "typed", 5), 5);
    ck_assert_int_eq(pipe_probe(terminal), full);
    ck_assert_int_eq(tcflow(terminal, TCOON), 0);
    ck_assert_int_eq(pipe_probe(terminal), -1);
}

/* A file takes all, and so does what is closed. */
TEST(test_pipe_probe_a_file_has_room)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pipe_probe(fd), -1);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(pipe_probe(fd), -1);
}

SUITE("pipe_probe", "pipe_probe", .tags = "fast")
