/* links: tests/lib/job tests/lib/conf_line tests/lib/words */
/* libs: -lcjson -ldl */
/*
 * A front end whose hosts are reached through others, all on this machine
 * (tests/lib/job): what comes of it is the same as without a tree.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/front/hub.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/job.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define WITH "--launch_with=./stand-in --launch_fanout=4 "

static const struct {
    const char *line;
    int status;
    const char *want;
} ends[] = {
    {"--hosts=a,b,c,d exit 0", 0, "starting on 4 hosts"},
    {"--hosts=a,b,c,d,e,f,g,h,i,j exit 7", 7, "starting on 10 hosts"},
    {"--hosts=a,b,c,d exit 255", 255, "starting on 4 hosts"},
    {"--hosts=a,b,c,d exit0 143", 0, "starting on 4 hosts"},
    /* the first of a branch, another one */
    {"--hosts=a,b,none1,d hold", 69,
     "cannot start on none1: stand-in ended with status 255"},
    {"--hosts=a,none1,c,d hold", 69,
     "cannot start on none1: stand-in ended with status 255"},
    {"--hosts=a,none1,c,d hold", 69,
     "none1 was not reached through a: starting on it, and on other hosts"},
    {"--hosts=a,b,none1,d hold", 69,
     "at most 3 hosts can be reached, and the job needs 4: ending it"},
    {"--hosts=a,b,none1,d --nnodes=3:4 exit 3", 3, "none1: no such host\n"},
    {"--hosts=a,b,slow1,d --launch_timeout=2 hold", 69,
     "cannot start on slow1: no answer within 2 s"},
};

START_TEST(test_tree_ends_as_a_list_does)
{
    char line[200];
    (void)snprintf(line, sizeof(line), WITH "%s", ends[_i].line);
    job_start("", line);
    ck_assert_int_eq(job_end(), ends[_i].status);
    ck_assert_msg(job_count(ends[_i].want) == 1, "%s", job_shown);
    ck_assert_ptr_null(strchr(job_shown, '\001'));
    ck_assert_ptr_null(strchr(job_shown, '\002'));
}
END_TEST

/* Few enough for one write: a part of a line is shown after a while. */
START_TEST(test_tree_shows_all_lines_once_and_whole)
{
    job_start("", WITH "--hosts=chatty1,b,chatty2,d lines 100");
    ck_assert_int_eq(job_end(), 0);
    job_has_lines(4, 100);
}
END_TEST

/* Ranks 0 to 3 hold. */
static void start_holding(void)
{
    char want[32];
    job_start("", WITH "--hosts=a,b,c,d hold");
    for (int rank = 0; rank < 4; rank++) {
        (void)snprintf(want, sizeof(want), "rank %d holds", rank);
        job_comes(want);
    }
}

static void all_got(int signo)
{
    char want[40];
    for (int rank = 0; rank < 4; rank++) {
        (void)snprintf(want, sizeof(want), "rank %d got %d\n", rank, signo);
        job_comes(want);
    }
}

START_TEST(test_tree_passes_signals_on)
{
    start_holding();
    ck_assert_int_eq(kill(job_pid, SIGUSR1), 0);
    all_got(SIGUSR1);
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    all_got(SIGTERM);
    ck_assert_int_eq(job_count(" got "), 8);
}
END_TEST

/* How many processes of this test have such a command line; the last one's pid
 * in *pid. */
static int processes(const char *pattern, pid_t *pid)
{
    int n = 0, one;
    char line[100];
    (void)snprintf(line, sizeof(line), "pgrep -f -- '%s'", pattern);
    FILE *f = popen(line, "r");
    ck_assert_ptr_nonnull(f);
    while (fscanf(f, "%d", &one) == 1) {
        char path[64], folder[SCRATCH_MAX + 1] = "";
        (void)snprintf(path, sizeof(path), "/proc/%d/cwd", one);
        ssize_t len = readlink(path, folder, sizeof(folder) - 1);
        if (len > 0 && strcmp(folder, scratch) == 0) {
            *pid = one;
            n++;
        }
    }
    (void)pclose(f);
    return n;
}

static int hubs(pid_t *pid)
{
    return processes(HUB_OPTION "$", pid);
}

/* Its hello comes through the hub when it was started on from here: that one is
 * the only launcher. */
START_TEST(test_tree_starts_one_launcher_on_a_host_whose_hello_is_late)
{
    char want[32];
    pid_t launcher;
    job_start("", WITH "--hosts=a,late1,c,d --launch_timeout=6 hold");
    job_comes("late1 was not reached through a: starting on it");
    for (int rank = 0; rank < 4; rank++) {
        (void)snprintf(want, sizeof(want), "rank %d holds", rank);
        job_comes(want);
    }
    ck_assert_int_eq(processes("--node_rank=1 hold$", &launcher), 1);
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    ck_assert_int_eq(job_count(" got 15\n"), 4);
}
END_TEST

/* What is between is gone, and the launchers are still told and heard. */
START_TEST(test_tree_without_a_hub_goes_on)
{
    pid_t hub = 0;
    start_holding();
    ck_assert_int_eq(hubs(&hub), 2);
    ck_assert_int_eq(kill(hub, SIGKILL), 0);
    job_comes("is lost: connecting to its hosts from here");
    ck_assert_int_eq(kill(job_pid, SIGUSR1), 0);
    all_got(SIGUSR1);
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    all_got(SIGTERM);
    ck_assert_int_eq(job_count(" got "), 8);
    ck_assert_int_eq(job_count(" holds "), 4);
}
END_TEST

/* One of two, while ranks 0 to 3 hold. */
static pid_t stop_a_hub(void)
{
    pid_t hub = 0;
    start_holding();
    ck_assert_int_eq(hubs(&hub), 2);
    ck_assert_int_eq(kill(hub, SIGSTOP), 0);
    return hub;
}

/* The end was ordered, and lost with the hub that was to pass it on. */
START_TEST(test_tree_orders_the_end_again_by_another_connection)
{
    pid_t hub = stop_a_hub();
    int64_t began_us = mono_now_us();
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    job_comes(" got 15\n"); /* of the other branch */
    ck_assert_int_eq(kill(hub, SIGKILL), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    all_got(SIGTERM);
    ck_assert_int_eq(job_count(" got "), 4);
    ck_assert_int_lt(mono_now_us() - began_us, 15 * MONO_S * suite_slow());
}
END_TEST

/* A hub that does nothing any more is given up with what it was to kill. */
START_TEST(test_tree_with_a_stopped_hub_ends)
{
    pid_t hub = stop_a_hub();
    int64_t began_us = mono_now_us();
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    (void)usleep(500000);
    ck_assert_int_eq(kill(hub, SIGCONT), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    ck_assert_int_lt(mono_now_us() - began_us, 10 * MONO_S * suite_slow());
    ck_assert_int_eq(job_count(" got 15\n"), 4);
}
END_TEST

START_TEST(test_tree_whose_front_end_is_killed_leaves_nothing)
{
    pid_t hub;
    int64_t until_us = mono_now_us() + 20 * MONO_S * suite_slow();
    start_holding();
    ck_assert_int_eq(kill(job_pid, SIGKILL), 0);
    ck_assert_int_eq(job_end(), 128 + SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) >= 0 || hubs(&hub) > 0) {
        ck_assert_int_lt(mono_now_us(), until_us);
        (void)usleep(10000);
    }
}
END_TEST

int main(int argc, char *argv[])
{
    int status = job_role(argc, argv);
    if (status >= 0)
        return status;
    Suite *s = suite_create("front_tree");
    TCase *t = tcase_create("tree");
    tcase_add_unchecked_fixture(t, job_setup, scratch_leave);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_tree_ends_as_a_list_does, 0,
                        (int)(sizeof(ends) / sizeof(ends[0])));
    tcase_add_test(t, test_tree_shows_all_lines_once_and_whole);
    tcase_add_test(t, test_tree_passes_signals_on);
    tcase_add_test(t,
                   test_tree_starts_one_launcher_on_a_host_whose_hello_is_late);
    tcase_add_test(t, test_tree_without_a_hub_goes_on);
    tcase_add_test(t, test_tree_orders_the_end_again_by_another_connection);
    tcase_add_test(t, test_tree_with_a_stopped_hub_ends);
    tcase_add_test(t, test_tree_whose_front_end_is_killed_leaves_nothing);
    suite_add_tcase(s, t);
    return suite_run(s);
}
