/* links: launcher/worker/pipe_probe rendezvous/base/mono */
/*
 * Is a console that is full told from one that nobody reads?
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "launcher/worker/pipe_probe.h"
#include "rendezvous/base/mono.h"

static char block[4096];
static struct gauge gauge;

static void fill(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
}

/* Full all the time; what is read from it, if only a little, is seen. */
START_TEST(test_gauge_a_full_pipe_that_is_read_is_slow)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    gauge_init(&gauge, ends[1], MONO_S);
    ck_assert_int_eq(gauge_look(&gauge, 1), GAUGE_FREE);
    fill(ends[1]);
    ck_assert_int_eq(gauge_look(&gauge, 2), GAUGE_SLOW);
    ck_assert_int_eq(gauge_look(&gauge, 3), GAUGE_NONE);
    ck_assert_int_eq(read(ends[0], block, 10), 10);
    ck_assert_int_eq(gauge_look(&gauge, 4), GAUGE_SLOW);
    ck_assert_int_eq(gauge_look(&gauge, 5), GAUGE_NONE);
    ck_assert_int_eq(read(ends[0], block, sizeof(block)), sizeof(block));
    ck_assert_int_eq(gauge_look(&gauge, 6), GAUGE_FREE);
}
END_TEST

/* A FIFO is seen to be read also where it is filled to the same byte again. */
START_TEST(test_gauge_a_fifo_has_times)
{
    const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
    char path[] = "/tmp/gauge.XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/fifo", path);
    ck_assert_int_eq(mkfifo(name, 0600), 0);
    int in = open(name, O_RDWR | O_CLOEXEC);
    int out = open(name, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(rmdir(path), 0);
    fill(out);
    gauge_init(&gauge, out, MONO_S);
    (void)gauge_look(&gauge, 1);
    ck_assert_int_eq(gauge_look(&gauge, 2), GAUGE_NONE);
    (void)nanosleep(&moment, NULL);
    ck_assert_int_eq(read(in, block, sizeof(block)), sizeof(block));
    ck_assert_int_eq(write(out, block, sizeof(block)), sizeof(block));
    ck_assert_int_eq(gauge_look(&gauge, 3), GAUGE_SLOW);
    ck_assert_int_eq(gauge_look(&gauge, 4), GAUGE_NONE);
}
END_TEST

/* What is typed while it is stopped is nothing that it takes. */
START_TEST(test_gauge_a_stopped_terminal_takes_nothing)
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
    gauge_init(&gauge, terminal, MONO_S);
    ck_assert_int_eq(gauge_look(&gauge, 100 * MONO_S), GAUGE_FREE);
    ck_assert_int_eq(tcflow(terminal, TCOOFF), 0);
    ck_assert_int_eq(gauge_look(&gauge, 101 * MONO_S - 1), GAUGE_SLOW);
    ck_assert_int_eq(gauge_look(&gauge, 101 * MONO_S), GAUGE_NONE);
    ck_assert_int_eq(write(master, "typed", 5), 5);
    ck_assert_int_eq(gauge_look(&gauge, 102 * MONO_S), GAUGE_NONE);
    ck_assert_int_eq(tcflow(terminal, TCOON), 0);
    ck_assert_int_eq(gauge_look(&gauge, 103 * MONO_S), GAUGE_FREE);
}
END_TEST

/* A file takes all, and so does what is closed. */
START_TEST(test_gauge_a_file_has_room)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    gauge_init(&gauge, fd, MONO_NEVER);
    ck_assert_int_eq(gauge_look(&gauge, 1), GAUGE_FREE);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(gauge_look(&gauge, 2), GAUGE_FREE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gauge");
    TCase *tc = tcase_create("gauge");
    tcase_set_tags(tc, "fast");
    tcase_add_test(tc, test_gauge_a_full_pipe_that_is_read_is_slow);
    tcase_add_test(tc, test_gauge_a_fifo_has_times);
    tcase_add_test(tc, test_gauge_a_stopped_terminal_takes_nothing);
    tcase_add_test(tc, test_gauge_a_file_has_room);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
