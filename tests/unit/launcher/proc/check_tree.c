/* links: launcher/proc/{tree,procfs,pidfd} rendezvous/base/{mono,err} */
/*
 * Real processes, below the test's own, which is a child subreaper.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/proc/procfs.h"
#include "launcher/proc/tree.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

#define MANY 1500 /* children whose list is longer than one read of it */

static int64_t soon_us(void)
{
    return mono_after(mono_now_us(), 30 * MONO_S);
}

static void setup(void)
{
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static bool in_group; /* what is away leads no session, but a group */

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
        (void)signal(SIGTERM, SIG_DFL); /* Check catches it */
        if (away && in_group)
            (void)setpgid(0, 0);
        else if (away)
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
        (void)signal(SIGTERM, SIG_DFL);
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
TEST(test_tree_kill_leaves_nobody)
{
    (void)sleeper(false);
    (void)sleeper(true);
    (void)parent(true);
    (void)parent(false);
    pid_t stopped = sleeper(true);
    ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    assert_childless();
}

/* A process that is kept lives, and what is below it. */
TEST(test_tree_kill_spares_the_kept)
{
    pid_t keep[2] = {parent(true), sleeper(false)};
    (void)sleeper(false);
    ck_assert_int_eq(tree_kill(keep, 2, -1, true, soon_us()), 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), 0); /* two, and alive */
    ck_assert_int_eq(kill(keep[0], 0), 0);
    ck_assert_int_eq(kill(keep[1], 0), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    assert_childless();
}

/* Who obeys is reaped by the next look, a grandchild that comes to us with its
 * parent's death included. One that is stopped obeys, too. */
TEST(test_tree_ask_is_obeyed)
{
    (void)parent(true);
    pid_t kept = sleeper(false);
    pid_t stopped = sleeper(true);
    ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
    ck_assert_int_eq(tree_ask(&kept, 1, -1, true), 3);
    for (int tries = 0; tree_ask(&kept, 1, -1, false) > 0; tries++) {
        ck_assert_int_lt(tries, 20000);
        (void)usleep(1000);
    }
    ck_assert_int_eq(kill(kept, 0), 0);
    ck_assert_int_eq(kill(kept, SIGKILL), 0);
    ck_assert_int_eq(waitpid(kept, NULL, 0), kept);
    assert_childless();
}

static volatile sig_atomic_t asked;

static void on_asked(int signo)
{
    (void)signo;
    asked++;
}

/* Many a program takes a second SIGTERM for "at once". */
TEST(test_tree_ask_asks_each_once)
{
    int ends[2];
    char count = 0;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)signal(SIGTERM, on_asked);
        (void)!write(ends[1], "x", 1);
        (void)usleep(2000 * 1000); /* until it is asked */
        (void)usleep(2000 * 1000);
        count = (char)asked;
        (void)!write(ends[1], &count, 1);
        _exit(0);
    }
    ck_assert_int_eq(read(ends[0], &count, 1), 1);
    ck_assert_int_eq(tree_ask(NULL, 0, -1, true), 1);
    (void)usleep(50 * 1000);
    ck_assert_int_eq(tree_ask(NULL, 0, -1, false), 1);
    ck_assert_int_eq(read(ends[0], &count, 1), 1);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(close(ends[0]) + close(ends[1]), 0);
}

/* More children than one read of their list brings. */
TEST(test_tree_kill_finds_many)
{
    for (int i = 0; i < MANY; i++)
        (void)sleeper(false);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    assert_childless();
}

/* What was there before is told from what comes. */
TEST(test_tree_children_are_ours_only)
{
    pid_t pids[4], child = parent(true);
    ck_assert_int_eq(tree_children(pids, 0, 4, soon_us()), 1);
    ck_assert_int_eq(pids[0], child);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    ck_assert_int_eq(tree_children(pids, 0, 4, soon_us()), 0);
}

/* Without a descriptor to look with, each number is asked for. */
TEST(test_tree_kill_without_descriptors_leaves_nobody)
{
    struct rlimit lim;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    int next = dup(STDIN_FILENO);
    ck_assert_int_eq(close(next), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = lim.rlim_max};
    pid_t kept = sleeper(false);
    (void)sleeper(false);
    (void)parent(true);
    (void)parent(false);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int64_t began_us = mono_now_us();
    int left = tree_kill(&kept, 1, -1, false, began_us + 30 * MONO_S);
    printf("measured: two generations, by number: %d ms\n",
           (int)((mono_now_us() - began_us) / MONO_MS));
    ck_assert_int_eq(left, 0);
    ck_assert_int_eq(kill(kept, 0), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
    assert_childless();
}

/* What tree_children costs, with so much time, if each number is asked for. */
static int64_t cost_of_children_us(int64_t until_us)
{
    pid_t pids[4];
    struct timespec before, after;
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before), 0);
    ck_assert_int_eq(tree_children(pids, 0, 4, until_us), 1);
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after), 0);
    return (int64_t)(after.tv_sec - before.tv_sec) * MONO_S +
           (after.tv_nsec - before.tv_nsec) / 1000;
}

/* The guard hears nothing meanwhile. A child with a number near ours is found
 * in that time as well. */
TEST(test_tree_children_takes_no_longer_than_it_may)
{
    struct rlimit lim;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    struct rlimit none = {.rlim_cur = 3, .rlim_max = lim.rlim_max};
    pid_t child = sleeper(false);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int64_t all_us = cost_of_children_us(mono_now_us() + 60 * MONO_S);
    int64_t near_us = cost_of_children_us(mono_now_us() + 20 * MONO_MS);
    printf("measured: all numbers: %d ms, near ones: %d ms of CPU time\n",
           (int)(all_us / MONO_MS), (int)(near_us / MONO_MS));
    ck_assert_int_lt(near_us, all_us / 2);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* What was known stays known while it is a child. */
TEST(test_tree_children_keeps_those_that_are_known)
{
    pid_t pids[4], gone = sleeper(false), child = sleeper(false);
    ck_assert_int_eq(kill(gone, SIGKILL), 0);
    ck_assert_int_eq(waitpid(gone, NULL, 0), gone);
    pids[0] = gone;
    pids[1] = child;
    ck_assert_int_eq(tree_children(pids, 2, 4, soon_us()), 1);
    ck_assert_int_eq(pids[0], child);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
}

/* The session that the user started the launcher in has nothing of the launch
 * in it. */
TEST(test_tree_kill_spares_a_session)
{
    pid_t ours = sleeper(false);
    (void)sleeper(true);
    ck_assert_int_eq(tree_kill(NULL, 0, getsid(0), true, soon_us()), 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), 0); /* one, and alive */
    ck_assert_int_eq(kill(ours, 0), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    assert_childless();
}

/* As before Linux 5.1, or in a sandbox. */
static void forbid_pidfds(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]),
                                .filter = code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    ck_assert(!pidfd_works());
}

/* Level by level: a child's children are ours when it is dead. */
TEST(test_tree_kill_without_pidfds_leaves_nobody)
{
    forbid_pidfds();
    (void)sleeper(true);
    (void)parent(true);
    (void)parent(false);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    assert_childless();
}

/* In place of a frozen process: its children of other groups are killed, its
 * helpers are not, and neither is it. */
TEST_LOOP(test_tree_kill_groups_spares_the_roots_own, 0, 4)
{
    int ends[2];
    bool held = _i % 2 == 1;
    in_group = _i / 2 == 1;
    if (held)
        forbid_pidfds();
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
    siginfo_t info;
    ck_assert_int_eq(kill(root, SIGSTOP), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)root, &info, WSTOPPED | WNOWAIT), 0);
    /* The worker, and the grandchild that `parent` left; without pidfds a
     * child of root's only. */
    ck_assert_int_eq(tree_kill_groups(root, soon_us()), held ? 1 : 2);
    ck_assert_int_eq(kill(pids[0], 0), 0);
    ck_assert_int_eq(waitpid(root, NULL, WNOHANG), 0);
    ck_assert_int_eq(tree_kill_groups(root, soon_us()), 0);
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    assert_childless();
}

/* Without pidfds the root is stopped meanwhile, and runs on after it. */
TEST(test_tree_kill_groups_holds_the_root)
{
    int ends[2];
    pid_t worker;
    struct procfs_process p = {.state = 'T'};
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    forbid_pidfds();
    pid_t root = fork();
    ck_assert_int_ge(root, 0);
    if (root == 0) {
        (void)setsid();
        worker = sleeper(true);
        (void)!write(ends[1], &worker, sizeof(worker));
        for (;;)
            (void)pause();
    }
    ck_assert_int_eq(read(ends[0], &worker, sizeof(worker)), sizeof(worker));
    ck_assert_int_eq(tree_kill_groups(root, soon_us()), 1);
    for (int tries = 0; p.state == 'T' && tries < 1000; tries++) {
        ck_assert(procfs_read(root, &p));
        (void)usleep(1000);
    }
    ck_assert_int_ne(p.state, 'T');
    ck_assert_int_eq(tree_kill(NULL, 0, -1, true, soon_us()), 0);
    assert_childless();
}

/* What a test that failed leaves comes to us, even what lives in a session of
 * its own or is stopped: nobody else would end it. */
int main(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        perror("no child subreaper");
        return EXIT_FAILURE;
    }
    int status = SUITE_RUN("tree", "slow", .limit_s = 60, FIXTURE(setup, NULL));
    (void)tree_kill(NULL, 0, -1, true, soon_us());
    return status;
}
