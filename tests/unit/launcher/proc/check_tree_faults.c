/* links: tests/lib/{fault,fault_each} launcher/proc/{tree,procfs,pidfd} */
/* links: rendezvous/base/{mono,err} */
/* libs: -ldl */
/*
 * Looking for processes and killing them while each system call that it takes
 * fails in turn: nobody is overlooked.
 */
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/proc/procfs.h"
#include "launcher/proc/tree.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 12
#define LIMIT_US  (20 * MONO_S)
#define GONE_MS   20000

/* What a run found wrong; its exit status. */
enum wrong {
    NOTHING,
    SOMEBODY_LEFT,
    CHILDREN_LEFT,
    DESCRIPTORS_LEFT,
    NOT_FOUND,
};

/* A child in a session of its own, if `away`; with a grandchild that `tell` is
 * open in, if there is one, also if the child ends at once. */
static pid_t start(bool away, bool stays, int tell)
{
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        if (away)
            (void)setsid();
        if (tell >= 0 && fork() == 0) {
            (void)setsid();
            (void)!write(ends[1], "x", 1);
            for (;;)
                (void)pause();
        }
        if (tell < 0)
            (void)!write(ends[1], "x", 1);
        if (tell >= 0)
            (void)close(tell);
        while (stays)
            (void)pause();
        _exit(0);
    }
    if (read(ends[0], &byte, 1) != 1)
        abort();
    (void)close(ends[0]);
    (void)close(ends[1]);
    return pid;
}

/* As the guard and the agent are before anything runs out. */
static void begin(void)
{
    fault_hold(true);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)pidfd_works();
    (void)procfs_is_ours();
}

static void judge(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(fault_ended(r) == NOTHING, "%s: status %#x, %s", r->plan,
                  (unsigned)r->status, r->err);
}

static enum wrong check_none(int descriptors)
{
    fault_hold(true);
    if (waitpid(-1, NULL, WNOHANG) != -1)
        return CHILDREN_LEFT;
    return fault_descriptors() == descriptors ? NOTHING : DESCRIPTORS_LEFT;
}

static int run_kill(void *ctx)
{
    (void)ctx;
    begin();
    int descriptors = fault_descriptors();
    (void)start(true, true, STDIN_FILENO);
    (void)start(false, false, STDIN_FILENO);
    (void)start(true, true, -1);
    fault_hold(false);
    int left = tree_kill(NULL, 0, -1, true, mono_now_us() + LIMIT_US);
    return left == 0 ? (int)check_none(descriptors) : SOMEBODY_LEFT;
}

TEST(test_tree_kill_overlooks_nobody)
{
    ck_assert_int_gt(fault_each("test", CALLS_MAX, run_kill, judge, NULL), 20);
}

static int run_ask(void *ctx)
{
    (void)ctx;
    begin();
    int descriptors = fault_descriptors();
    (void)signal(SIGTERM, SIG_DFL); /* Check catches it */
    (void)start(true, true, STDIN_FILENO);
    (void)start(true, true, -1);
    int64_t until_us = mono_now_us() + LIMIT_US;
    fault_hold(false);
    bool anew = true;
    while (tree_ask(NULL, 0, -1, anew) > 0 && mono_now_us() < until_us) {
        anew = false;
        (void)poll(NULL, 0, 1);
    }
    return (int)check_none(descriptors);
}

TEST(test_tree_ask_overlooks_nobody)
{
    ck_assert_int_gt(fault_each("test", CALLS_MAX, run_ask, judge, NULL), 10);
}

/* ENOENT says that a process is gone, and is believed. */
static void judge_sessions(const struct fault_run *r, void *ctx)
{
    if (strstr(r->plan, "ENOENT") == NULL)
        judge(r, ctx);
}

/* A worker of a frozen agent is dead afterwards, or it is said that it could
 * not be found, also if there was time for one look only. What was killed may
 * take a moment to go. */
static int run_sessions(void *ctx)
{
    const int64_t *limit_us = ctx;
    int alive[2];
    begin();
    if (pipe2(alive, O_CLOEXEC) != 0)
        abort();
    pid_t root = start(true, true, alive[1]);
    (void)close(alive[1]);
    int descriptors = fault_descriptors();
    fault_hold(false);
    int killed = tree_kill_groups(root, mono_now_us() + *limit_us);
    fault_hold(true);
    struct pollfd p = {.fd = alive[0]};
    bool dead = poll(&p, 1, killed > 0 ? GONE_MS : 0) == 1;
    int after = fault_descriptors();
    (void)kill(root, SIGKILL);
    (void)waitpid(root, NULL, 0);
    (void)tree_kill(NULL, 0, -1, true, mono_now_us() + LIMIT_US);
    if (after != descriptors)
        return DESCRIPTORS_LEFT;
    return dead || killed < 0 ? NOTHING : SOMEBODY_LEFT;
}

TEST_LOOP(test_tree_kill_groups_kills_or_says_that_it_cannot, 0, 2)
{
    int64_t limit_us = _i == 0 ? LIMIT_US : 0;
    ck_assert_int_gt(
        fault_each("test", CALLS_MAX, run_sessions, judge_sessions, &limit_us),
        10);
}

/* -- another user's -------------------------------------------------------- */

#define SOON_US (LIMIT_US / 4)

enum {
    SAID_AT_ONCE = 20,
    SAID_LATE,
    NOT_SAID
};

static int said(bool right, int64_t began_us)
{
    if (!right)
        return NOT_SAID;
    return mono_now_us() - began_us < SOON_US ? SAID_AT_ONCE : SAID_LATE;
}

static int run_kill_forbidden(void *ctx)
{
    (void)ctx;
    begin();
    (void)start(true, true, -1);
    (void)start(false, true, -1);
    fault_hold(false);
    int64_t began_us = mono_now_us();
    int left = tree_kill(NULL, 0, -1, true, began_us + LIMIT_US);
    return said(left == 2, began_us);
}

static int run_sessions_forbidden(void *ctx)
{
    (void)ctx;
    begin();
    pid_t root = start(true, true, STDIN_FILENO);
    fault_hold(false);
    int64_t began_us = mono_now_us();
    int killed = tree_kill_groups(root, began_us + LIMIT_US);
    return said(killed == TREE_FORBIDDEN, began_us);
}

static void judge_forbidden(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(!r->late && WIFEXITED(r->status) && r->left == 2 &&
                      WEXITSTATUS(r->status) == SAID_AT_ONCE,
                  "%s: status %#x, left %d: %s", r->plan, (unsigned)r->status,
                  r->left, r->err);
}

/* What we may not signal is not tried until the time is over. */
TEST(test_tree_what_is_forbidden_is_said_at_once)
{
    fault_one("test", "test:kill:1+:EPERM", run_kill_forbidden, judge_forbidden,
              NULL);
    fault_one("test", "test:pidfd_send_signal:1+:EPERM", run_sessions_forbidden,
              judge_forbidden, NULL);
}

static int run_children(void *ctx)
{
    pid_t pids[4], child;
    (void)ctx;
    begin();
    int descriptors = fault_descriptors();
    child = start(true, true, -1);
    fault_hold(false);
    int n = tree_children(pids, 0, 4, mono_now_us() + 20 * MONO_MS);
    fault_hold(true);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    if (n != 1 || pids[0] != child)
        return NOT_FOUND;
    return (int)check_none(descriptors);
}

/* A child that is not found would be killed at the end of the launch. */
TEST(test_tree_children_are_found)
{
    ck_assert_int_gt(fault_each("test", CALLS_MAX, run_children, judge, NULL),
                     5);
}

SUITE("tree_faults", "slow", FAULT_CASE(60))
