/* links: launcher/proc/tree rendezvous/base/mono rendezvous/base/err */
/*
 * Real processes, below the test's own, which is a child subreaper.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/tree.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

#define MANY 1500 /* children whose list is longer than one read of it */

static int64_t soon_us(void)
{
    return mono_after(mono_now_us(), 3 * MONO_S);
}

static void setup(void)
{
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

/* A child that sleeps; in a session of its own where `away`, and then it is
 * there when this returns: one that is late would be taken for root's own. */
static pid_t sleeper(bool away)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (away)
            (void)setsid();
        (void)!write(ends[1], "x", 1);
        for (;;)
            (void)pause();
    }
    if (away)
        ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(close(ends[0]) + close(ends[1]), 0);
    return pid;
}

/* A child that leaves a grandchild in a session of its own, and sleeps itself
 * or not. Returns when the grandchild is there. */
static pid_t parent(bool stays)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)sleeper(true);
        (void)!write(ends[1], "x", 1);
        while (stays)
            (void)pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(close(ends[0]) + close(ends[1]), 0);
    return pid;
}

static void assert_childless(void)
{
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

/* Children, grandchildren, orphans: all are killed and reaped. */
START_TEST(test_tree_kill_leaves_nobody)
{
    (void)sleeper(false);
    (void)sleeper(true);
    (void)parent(true);
    (void)parent(false);
    pid_t stopped = sleeper(true);
    ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, soon_us()), 0);
    assert_childless();
}
END_TEST

/* A process that is kept lives, and what is below it. */
START_TEST(test_tree_kill_spares_the_kept)
{
    pid_t keep[2] = {parent(true), sleeper(false)};
    (void)sleeper(false);
    ck_assert_int_eq(tree_kill(keep, 2, soon_us()), 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), 0); /* two, and alive */
    ck_assert_int_eq(kill(keep[0], 0), 0);
    ck_assert_int_eq(kill(keep[1], 0), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, soon_us()), 0);
    assert_childless();
}
END_TEST

/* More children than one read of their list brings. */
/* Once to each (Check catches SIGTERM in what it forks); who obeys is reaped by
 * the next look, a grandchild that comes to us with its parent's death
 * included. */
START_TEST(test_tree_signal_asks_and_looks)
{
    (void)parent(true);
    pid_t kept = sleeper(false);
    ck_assert_int_eq(tree_signal(&kept, 1, 0), 2);
    ck_assert_int_eq(tree_signal(&kept, 1, SIGUSR1), 2);
    for (int tries = 0; tree_signal(&kept, 1, 0) > 0; tries++) {
        ck_assert_int_lt(tries, 1000);
        (void)usleep(1000);
    }
    ck_assert_int_eq(kill(kept, SIGKILL), 0);
    ck_assert_int_eq(waitpid(kept, NULL, 0), kept);
    assert_childless();
}
END_TEST

START_TEST(test_tree_kill_finds_many)
{
    for (int i = 0; i < MANY; i++)
        (void)sleeper(false);
    ck_assert_int_eq(tree_kill(NULL, 0, soon_us()), 0);
    assert_childless();
}
END_TEST

/* Without a descriptor to look with, it does not say that nobody is left. */
START_TEST(test_tree_kill_without_descriptors_is_not_sure)
{
    struct rlimit lim;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    int next = dup(STDIN_FILENO);
    ck_assert_int_eq(close(next), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = lim.rlim_max};
    (void)sleeper(false);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int left = tree_kill(NULL, 0, mono_now_us() + 20 * MONO_MS);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
    ck_assert_int_gt(left, 0);
    ck_assert_int_eq(tree_kill(NULL, 0, soon_us()), 0);
    assert_childless();
}
END_TEST

/* In place of a frozen process: its children of other sessions are killed, its
 * helpers are not, and neither is it. */
START_TEST(test_tree_kill_sessions_spares_the_roots_own)
{
    int ends[2];
    pid_t pids[2]; /* helper, worker */
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t root = fork();
    ck_assert_int_ge(root, 0);
    if (root == 0) {
        (void)setsid();
        pids[0] = sleeper(false);
        (void)parent(true);
        pids[1] = sleeper(true);
        (void)!write(ends[1], pids, sizeof(pids));
        for (;;)
            (void)pause();
    }
    ck_assert_int_eq(read(ends[0], pids, sizeof(pids)), sizeof(pids));
    ck_assert_int_eq(kill(root, SIGSTOP), 0);
    /* The worker, and the grandchild that `parent` left. */
    ck_assert_int_eq(tree_kill_sessions(root, soon_us()), 2);
    ck_assert_int_eq(kill(pids[0], 0), 0);
    ck_assert_int_eq(waitpid(root, NULL, WNOHANG), 0);
    ck_assert_int_eq(tree_kill_sessions(root, soon_us()), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, soon_us()), 0);
    assert_childless();
}
END_TEST

/* What a test that failed leaves comes to us, even what lives in a session of
 * its own or is stopped: nobody else would end it. */
int main(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        perror("no child subreaper");
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("tree");
    TCase *tc = tcase_create("slow");
    tcase_set_timeout(tc, 20);
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, test_tree_kill_leaves_nobody);
    tcase_add_test(tc, test_tree_kill_spares_the_kept);
    tcase_add_test(tc, test_tree_signal_asks_and_looks);
    tcase_add_test(tc, test_tree_kill_finds_many);
    tcase_add_test(tc, test_tree_kill_without_descriptors_is_not_sure);
    tcase_add_test(tc, test_tree_kill_sessions_spares_the_roots_own);
    suite_add_tcase(suite, tc);
    int status = suite_run(suite);
    (void)tree_kill(NULL, 0, soon_us());
    return status;
}
