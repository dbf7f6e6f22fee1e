/* links: rendezvous/base/{log,err,mono,utf8,utc} tests/lib/timeless */
/*
 * What comes out of stderr, which is a pipe of the test's.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"
#include "tests/lib/timeless.h"

static int pipe_fd; /* where stderr can be read */
static int kept_stderr;

static void setup(void)
{
    int ends[2];
    kept_stderr = dup(STDERR_FILENO);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    ck_assert_int_eq(close(ends[1]), 0);
    pipe_fd = ends[0];
    log_init("t");
}

static void teardown(void)
{
    ck_assert_int_eq(dup2(kept_stderr, STDERR_FILENO), STDERR_FILENO);
}

static const char *got(void)
{
    static char text[128 * 1024];
    ssize_t n = read(pipe_fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* Text in, line out: what is not printable UTF-8 is escaped. */
static const struct {
    const char *text;
    const char *line;
} cases[] = {
    {"plain, 100 %", "t: plain, 100 %\n"},
    {"", "t: \n"},
    {"two\nlines", "t: two\\x0alines\n"},
    {"\r\t\x7f", "t: \\x0d\\x09\\x7f\n"},
    {"\x1b[31mred", "t: \\x1b[31mred\n"},
    {"\x9b"
     "31m",
     "t: \\x9b31m\n"},
    {"\xc2\x9b", "t: \\xc2\\x9b\n"},           /* CSI of Latin-1 */
    {"\xc0\xaf", "t: \\xc0\\xaf\n"},           /* an overlong slash */
    {"\xe0\x80\x8d", "t: \\xe0\\x80\\x8d\n"},  /* an overlong CR */
    {"\xed\xa0\x80", "t: \\xed\\xa0\\x80\n"},  /* a surrogate */
    {"\xc2\xa7 \xe2\x82\xac \xf0\x9f\x98\x80", /* paragraph, euro, face */
     "t: \xc2\xa7 \xe2\x82\xac \xf0\x9f\x98\x80\n"},
    {"\xc0\x8a", "t: \\xc0\\x8a\n"}, /* overlong newline */
    {"cut \xe2\x82", "t: cut \\xe2\\x82\n"},
    {"\xf5\x80\x80\x80", "t: \\xf5\\x80\\x80\\x80\n"},
};

START_TEST(test_log_unprintable_is_escaped)
{
    log_info("%s", cases[_i].text);
    ck_assert_str_eq(got(), cases[_i].line);
}
END_TEST

/* A time, if there is somebody who tells it. */
START_TEST(test_log_lines_bear_times_if_told_to)
{
    char text[64];
    log_info("without");
    ck_assert_str_eq(got(), "t: without\n");
    log_timestamps(utc_now);
    log_info("with");
    (void)snprintf(text, sizeof(text), "%.60s", got());
    log_timestamps(NULL);
    ck_assert_str_eq(timeless(text), "t: TIME with\n");
}
END_TEST

/* errno's text is behind the `warn` form only. */
START_TEST(test_log_warn_appends_errno)
{
    errno = ENOENT;
    log_warn("%s", "no");
    ck_assert_str_eq(got(), "t: no: No such file or directory\n");
    errno = ENOENT;
    log_warnx("%s", "no");
    ck_assert_str_eq(got(), "t: no\n");
}
END_TEST

/* A text that is too long is cut and is still one line. */
START_TEST(test_log_long_text_is_one_line)
{
    static char text[5000];
    memset(text, _i == 0 ? 'x' : '\x01', sizeof(text) - 1);
    log_info("%s", text);
    const char *line = got();
    ck_assert_uint_gt(strlen(line), 1000);
    ck_assert_uint_le(strlen(line), 2048);
    ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
}
END_TEST

/* A pipe that is full and that nobody reads holds nobody up; when it is read
 * again, it is told how much was lost. */
START_TEST(test_log_full_pipe_does_not_block)
{
    char block[4096];
    memset(block, 'x', sizeof(block));
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK), 0);
    while (write(STDERR_FILENO, block, sizeof(block)) > 0)
        ;
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, 0), 0);
    int64_t began_us = mono_now_us();
    for (int i = 0; i < 100; i++)
        log_info("%d", i);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(1 * MONO_S));
    ck_assert_uint_gt(strlen(got()), 4096);
    log_info("again");
    ck_assert_str_eq(got(), "t: (lines lost before this one: 100) again\n");
    log_info("and again");
    ck_assert_str_eq(got(), "t: and again\n");
}
END_TEST

/* Neither does a terminal that nobody reads, which says that it takes something
 * when it takes less than a line; it is not opened anew, so that it may well be
 * another user's. */
START_TEST(test_log_full_terminal_does_not_block)
{
    static char text[1000], screen[128 * 1024];
    size_t len = 0;
    ssize_t n;
    char name[64];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    ck_assert_int_eq(ptsname_r(master, name, sizeof(name)), 0);
    int terminal = open(name, O_RDWR | O_NOCTTY);
    ck_assert_int_eq(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
    memset(text, 'x', sizeof(text) - 1);
    int64_t began_us = mono_now_us();
    for (int i = 0; i < 300; i++)
        log_info("%s", text);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(1 * MONO_S));
    while ((n = read(master, screen, sizeof(screen))) > 0)
        ;
    log_info("again");
    while ((n = read(master, screen + len, sizeof(screen) - 1 - len)) > 0)
        len += (size_t)n;
    screen[len] = '\0';
    const char *again = strstr(screen, "\nt: (lines lost before this one: ");
    ck_assert_ptr_nonnull(again);
    ck_assert_str_eq(strchr(again, ')'), ") again\r\n");
}
END_TEST

/* It gives up when nobody reads, leaves no trace in how signals are taken, and
 * does not give up early. */
START_TEST(test_log_write_waits_as_long_as_it_may)
{
    char block[4096];
    sigset_t urg, mask;
    struct sigaction sa;
    memset(block, 'x', sizeof(block));
    (void)sigemptyset(&urg);
    (void)sigaddset(&urg, SIGURG);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, &urg, NULL), 0);
    while (log_write(STDERR_FILENO, block, sizeof(block), 50) > 0)
        ;
    ck_assert_int_eq(errno, EINTR);
    int64_t began_us = mono_now_us();
    ck_assert_int_eq(log_write(STDERR_FILENO, block, 1, 50), -1);
    ck_assert_int_ge(mono_now_us() - began_us, 50 * MONO_MS);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(2 * MONO_S));
    ck_assert_int_eq(sigprocmask(SIG_SETMASK, NULL, &mask), 0);
    ck_assert_int_eq(sigismember(&mask, SIGURG), 1);
    ck_assert_int_eq(sigaction(SIGURG, NULL, &sa), 0);
    ck_assert(sa.sa_handler == SIG_DFL);
    (void)got();
    ck_assert_int_eq(log_write(STDERR_FILENO, "!", 1, 1), 1);
}
END_TEST

/* What we find to be wrong with ourselves ends us, whether it is read or not.
 */
START_TEST(test_log_assertion_ends_with_a_full_stderr)
{
    char block[4096];
    memset(block, 'x', sizeof(block));
    while (log_write(STDERR_FILENO, block, sizeof(block), 50) > 0)
        ;
    ddp_assert_failed("file", 1, "it");
}
END_TEST

/* A stream that is closed is not left to the next socket that is made. */
START_TEST(test_log_init_fills_closed_streams)
{
    int ends[2];
    ck_assert_int_eq(close(STDIN_FILENO), 0);
    ck_assert_int_eq(close(STDERR_FILENO), 0);
    log_init("t");
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert_int_gt(ends[0], STDERR_FILENO);
    ck_assert_int_gt(ends[1], STDERR_FILENO);
    /* For the programs that we start, too. */
    ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), 0);
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFD), 0);
    log_info("to nobody");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tc = tcase_create("fast");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, test_log_unprintable_is_escaped, 0,
                        sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tc, test_log_lines_bear_times_if_told_to);
    tcase_add_test(tc, test_log_warn_appends_errno);
    tcase_add_loop_test(tc, test_log_long_text_is_one_line, 0, 2);
    tcase_add_test(tc, test_log_full_pipe_does_not_block);
    tcase_add_test(tc, test_log_full_terminal_does_not_block);
    tcase_add_test(tc, test_log_write_waits_as_long_as_it_may);
    tcase_add_test(tc, test_log_init_fills_closed_streams);
    suite_add_tcase(suite, tc);
    tc = tcase_create("full stderr");
    /* qemu-user tells of a fatal signal there itself, and waits for room. */
    tcase_set_tags(tc, "full-stderr");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test_raise_signal(tc, test_log_assertion_ends_with_a_full_stderr,
                                SIGABRT);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
