/* links: tests/lib/{job,conf_line,words} */
/* libs: -lcjson -ldl */
/*
 * A proxy alone, with what its front end says and reads in the test's hands
 * (tests/lib/job).
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/front/proxy.h"
#include "rendezvous/base/log.h"
#include "tests/lib/job.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static int in_fd;

#define MARK "0123456789abcdef0123456789abcdef"

static void start_proxy(const char *text, size_t len)
{
    int in[2], ends_of[2];
    job_shown_len = 0;
    job_shown[0] = '\0';
    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(ends_of), 0);
    job_pid = fork();
    if (job_pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(ends_of[1], STDOUT_FILENO);
        (void)dup2(ends_of[1], STDERR_FILENO);
        (void)close(in[0]);
        (void)close(in[1]);
        (void)close(ends_of[0]);
        (void)close(ends_of[1]);
        (void)signal(SIGTERM, SIG_DFL); /* Check's ends the whole test */
        log_init("ddprun");
        _exit(proxy_main());
    }
    (void)close(in[0]);
    (void)close(ends_of[1]);
    in_fd = in[1];
    job_out_fd = ends_of[0];
    ck_assert_int_eq(write(in_fd, text, len), (ssize_t)len);
}

/* So many ms without a word, whether it is a task of a scheduler's step, and
 * what the launcher is to do. */
static void start_launcher(int beat_ms, int step, const char *verb)
{
    char text[200], body[50];
    int n = snprintf(body, sizeof(body), "%cddprun%c%s", 0, 0, verb) + 1;
    int len = snprintf(text, sizeof(text),
                       "ddprun-front 1 " MARK " %d 5000 %d 2 0 %d\n", beat_ms,
                       step, n);
    memcpy(text + len, body, (size_t)n);
    start_proxy(text, (size_t)(len + n));
}

static void hold_by_proxy(int beat_ms, int step)
{
    start_launcher(beat_ms, step, "hold");
    job_comes(" holds ");
}

static void tell(const char *order)
{
    size_t len = strlen(order);
    ck_assert_int_eq(write(in_fd, order, len), (ssize_t)len);
}

TEST(test_proxy_says_what_it_does)
{
    hold_by_proxy(0, 0);
    job_comes("\001" MARK " hello ");
    ck_assert_int_eq(write(in_fd, "signal 15\n", 10), 10);
    ck_assert_int_eq(job_end(), 143);
    ck_assert_int_eq(job_count("\001" MARK " end 143 "), 1);
    (void)close(in_fd);
}

/* The front end reads no more for now: nothing has room in the pipe. */
static void fill_pipe(void)
{
    static const char zeros[4096];
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", job_out_fd);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    for (ssize_t n = sizeof(zeros); n > 0;)
        n = write(fd, zeros, sizeof(zeros));
    ck_assert_int_eq(close(fd), 0);
}

/* A front end whose console is full beats, and reads later: the end of the
 * launcher is said then. */
TEST(test_proxy_says_the_end_when_the_front_end_reads_again)
{
    start_launcher(1000, 0, "await");
    job_comes("\001" MARK " hello ");
    fill_pipe();
    ck_assert_int_eq(mkdir("go", 0700), 0);
    for (int i = 0; i < 10; i++) {
        tell("beat\n");
        (void)usleep(200 * 1000);
    }
    job_shown_len = 0; /* zeros would end the text */
    char byte = 0;
    while (byte == 0)
        ck_assert_int_eq(read(job_out_fd, &byte, 1), 1);
    job_comes(MARK " end 0 ");
    ck_assert_int_eq(job_end(), 0);
    (void)close(in_fd);
    ck_assert_int_eq(rmdir("go"), 0);
}

/* A front end that reads nothing and beats no more: nobody is told the end, and
 * the proxy is none that is left for ever. */
TEST(test_proxy_ends_if_nobody_hears_the_end)
{
    start_launcher(500, 0, "await");
    job_comes("\001" MARK " hello ");
    fill_pipe();
    ck_assert_int_eq(mkdir("go", 0700), 0);
    int status;
    ck_assert_int_eq(waitpid(job_pid, &status, 0), job_pid); /* reads nothing */
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(job_out_fd);
    (void)close(in_fd);
    ck_assert_int_eq(rmdir("go"), 0);
}

/* Nobody will read it. */
TEST(test_proxy_waits_for_no_front_end_that_is_gone)
{
    int status;
    start_launcher(0, 0, "await");
    job_comes("\001" MARK " hello ");
    fill_pipe();
    ck_assert_int_eq(mkdir("go", 0700), 0);
    (void)usleep(300 * 1000);
    ck_assert_int_eq(close(in_fd), 0);
    ck_assert_int_eq(waitpid(job_pid, &status, 0), job_pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(close(job_out_fd), 0);
    ck_assert_int_eq(rmdir("go"), 0);
}

/* The hello was not said yet. */
TEST(test_proxy_passes_on_an_order_that_comes_with_the_start)
{
    static const char text[] =
        "ddprun-front 1 " MARK " 0 5000 0 2 0 14\n\0ddprun\0await\0signal 15\n";
    start_proxy(text, sizeof(text) - 1);
    ck_assert_int_eq(job_end(), 143);
    (void)close(in_fd);
}

/* Whatever --signals_to_handle names may come to all processes of a step. */
TEST(test_proxy_outlives_signals_that_a_launcher_can_take)
{
    static const int sent[] = {SIGPWR,    SIGXCPU, SIGXFSZ, SIGPROF,
                               SIGVTALRM, SIGALRM, SIGUSR1, SIGUSR2,
                               SIGHUP,    SIGQUIT, SIGINT,  SIGTERM};
    hold_by_proxy(0, 0);
    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
        ck_assert_int_eq(kill(job_pid, sent[i]), 0);
    tell("signal 15\n");
    ck_assert_int_eq(job_end(), 143);
    ck_assert_int_eq(job_count("\001" MARK " end 143 "), 1);
    (void)close(in_fd);
}

TEST(test_proxy_without_beats_ends_its_launcher)
{
    hold_by_proxy(500, 0);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(write(in_fd, "beat\n", 5), 5);
        (void)usleep(100 * 1000);
    }
    ck_assert_int_eq(job_count("front end is gone"), 0);
    ck_assert_int_eq(job_end(), 143);
    ck_assert_int_eq(job_count("the front end is gone (no word came from it)"),
                     1);
    (void)close(in_fd);
}

TEST(test_proxy_that_is_paused_expects_no_beats)
{
    hold_by_proxy(300, 0);
    ck_assert_int_eq(write(in_fd, "signal 20\n", 10), 10);
    job_comes(" got 20");
    (void)usleep(900 * 1000);
    ck_assert_int_eq(write(in_fd, "signal 18\n", 10), 10);
    ck_assert_int_eq(write(in_fd, "signal 10\n", 10), 10);
    job_comes(" got 10");
    ck_assert_int_eq(job_count("front end is gone"), 0);
    ck_assert_int_eq(job_end(), 143);
    ck_assert_int_eq(job_count("the front end is gone (no word came from it)"),
                     1);
    (void)close(in_fd);
}

TEST(test_proxy_ends_its_launcher_at_a_line_that_is_no_order)
{
    hold_by_proxy(0, 0);
    ck_assert_int_eq(write(in_fd, "sing 15\n", 8), 8);
    ck_assert_int_eq(job_end(), 143);
    ck_assert_int_eq(job_count("gone (it sent what is no order)"), 1);
    (void)close(in_fd);
}

/* In a step, where a scheduler signals all: the launcher has it already. */
TEST(test_proxy_drops_an_order_that_the_scheduler_gave_as_well)
{
    for (int first = 0; first < 2; first++) {
        hold_by_proxy(0, 1);
        if (first == 0)
            ck_assert_int_eq(kill(job_pid, SIGUSR1), 0);
        ck_assert_int_eq(write(in_fd, "signal 10\n", 10), 10);
        if (first == 1)
            ck_assert_int_eq(kill(job_pid, SIGUSR1), 0);
        (void)usleep(800 * 1000);
        ck_assert_int_eq(write(in_fd, "signal 15\n", 10), 10);
        ck_assert_int_eq(job_end(), 143);
        ck_assert_int_eq(job_count(" got 10\n"), 0);
        (void)close(in_fd);
    }
    hold_by_proxy(0, 1);
    ck_assert_int_eq(write(in_fd, "signal 10\n", 10), 10);
    job_comes(" got 10\n");
    (void)close(in_fd);
    ck_assert_int_eq(job_end(), 143);
}

TEST(test_proxy_that_is_killed_takes_its_launcher_along)
{
    hold_by_proxy(0, 0);
    ck_assert_int_eq(kill(job_pid, SIGKILL), 0);
    ck_assert_int_eq(job_end(), 128 + SIGKILL);
    ck_assert_int_eq(job_count(" got "), 0);
    (void)close(in_fd);
}

static const struct {
    const char *text;
    int status;
} starts[] = {
    {"", 77},
    {"ddprun-front 1 ", 77},
    {"SSH-2.0-OpenSSH\n", 76},
    {"ddprun-front 1 " MARK " 0 0 0 1 0 3\nab", 77},
    {"ddprun-front 1 " MARK " 0 0 0 1 0 3\nabc", 76},
    {"01234567890123456789012345678901234567890123456789012345678901234567890"
     "12345678901234567890123456789012345678901234567890123456789012345678901"
     "2345678901234567890123456789",
     76},
};

TEST_EACH(test_proxy_starts_nothing_for_what_is_no_front_end, starts)
{
    start_proxy(starts[_i].text, strlen(starts[_i].text));
    (void)close(in_fd);
    ck_assert_int_eq(job_end(), starts[_i].status);
    ck_assert_msg(job_count("ddprun: ") == 1, "%s", job_shown);
}

int main(int argc, char *argv[])
{
    int status = job_role(argc, argv);
    if (status >= 0)
        return status;
    return SUITE_RUN("front_proxy", "proxy", .limit_s = 60,
                     FIXTURE_ONCE(job_setup, scratch_leave));
}
