/* links: launcher/proc/{procfs,pidfd} rendezvous/base/err */
/* What /proc says of processes, and whether it is that of our pid namespace. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/proc/procfs.h"
#include "tests/lib/suite.h"

static const struct {
    const char *text;
    int pid;
    bool ours;
} statuses[] = {
    {"Name:\tx\nNStgid:\t7\nNSpid:\t7\nNSpgid:\t7\n", 7, true},
    {"Name:\tx\nNSpid:\t7\t7\n", 7, false}, /* the same number by chance */
    {"Name:\tx\nNSpid:\t4711\t7\n", 7, false},
    {"Name:\tx\nNSpid:\t7\t4711\n", 7, false},
    {"Name:\tx\nNSpid:\t8\n", 7, false},
    {"Name:\tx\nNSpid:\t\n", 7, false},
    {"Name:\tx\nPid:\t7\n", 7, true}, /* an old kernel: no such line */
    {"Name:\tNSpid:\t9\nNSpid:\t7\n", 7, true},
};

TEST_EACH(test_procfs_status_says_whose_numbers_these_are, statuses)
{
    ck_assert_int_eq(procfs_parse_status(statuses[_i].text, statuses[_i].pid),
                     statuses[_i].ours);
}

/* The name of a program may look like the rest of the line. */
TEST(test_procfs_stat_is_read_behind_the_name)
{
    struct procfs_process p;
    ck_assert(procfs_parse_stat("7 (a) Z 1 2 3 (b)) S 41 42 43 0 -1 5", &p));
    ck_assert_int_eq(p.state, 'S');
    ck_assert_int_eq(p.parent, 41);
    ck_assert_int_eq(p.group, 42);
    ck_assert(!procfs_parse_stat("", &p));
    ck_assert(!procfs_parse_stat("7 (a", &p));
    ck_assert(!procfs_parse_stat("7 (a) S 41", &p));
}

TEST(test_procfs_here_is_ours)
{
    struct procfs_process p;
    ck_assert(procfs_is_ours());
    ck_assert_int_eq(procfs_self(), getpid());
    ck_assert(procfs_read(getpid(), &p));
    ck_assert_int_eq(p.parent, getppid());
}

/* qemu-user makes up /proc/self/stat. */
CASE("group", .tags = "group")

TEST(test_procfs_group_is_ours)
{
    struct procfs_process p;
    ck_assert(procfs_read(getpid(), &p));
    ck_assert_int_eq(p.group, getpgrp());
}

CASE("procfs")

/* A descriptor is of one process, also after that is gone. */
TEST(test_pidfd_is_of_one_process)
{
    if (!pidfd_works()) {
        puts("skipped: no pidfds here");
        return;
    }
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    while (pid == 0)
        (void)pause();
    int fd = pidfd_of(pid);
    ck_assert_int_ge(fd, 0);
    ck_assert(pidfd_signal(fd, 0));
    ck_assert(pidfd_signal(fd, SIGKILL));
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert(!pidfd_signal(fd, 0));
    ck_assert_int_eq(errno, ESRCH);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("procfs", "procfs", .tags = "fast")
