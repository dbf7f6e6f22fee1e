/* links: tests/lib/{fault,fault_each} launcher/proc/cgroup */
/* links: rendezvous/base/{rng,err,open_files,mono} */
/* libs: -ldl */
/*
 * The launch's cgroup, while each system call fails in turn: it is there and
 * whole, or is not there, and nothing of it stays. Where no cgroup can be made
 * only the ways to find that out are tested.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/cgroup.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 8
#define KILLED_MS 20000
#define SPARED_MS 20 /* that one is looked at which was not to be killed */
#define HELD      1  /* the parent's folder */

enum end {
    DONE,
    NOT_MADE,
    NOT_KILLED,
    LEAKS
};

/* A process in it, which is killed with it. */
static enum end use(void)
{
    char byte;
    int ready[2], status = 0;
    if (pipe2(ready, O_CLOEXEC) != 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        int fd = openat(cgroup_fd(), "cgroup.procs", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1)
            _exit(1);
        (void)!write(ready[1], "x", 1);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    bool in = read(ready[0], &byte, 1) == 1;
    (void)close(ready[0]);
    int before = fault_struck();
    fault_hold(false);
    cgroup_kill();
    fault_hold(true);
    int wait_ms = fault_struck() > before ? SPARED_MS : KILLED_MS;
    for (int i = 0; i < wait_ms && in; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFSIGNALED(status) ? DONE : NOT_KILLED;
        (void)usleep(1000);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return NOT_KILLED;
}

static int run(void *ctx)
{
    char link[64], path[4096] = "";
    const bool *used = ctx;
    fault_hold(true);
    int descriptors = fault_descriptors();
    fault_hold(false);
    bool made = cgroup_make();
    fault_hold(true);
    if (!made)
        return cgroup_fd() < 0 && fault_descriptors() <= descriptors + 1
                   ? NOT_MADE
                   : LEAKS;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", cgroup_fd());
    if (readlink(link, path, sizeof(path) - 1) < 0)
        abort();
    fprintf(stderr, "%s", path);
    enum end end = *used ? use() : DONE;
    fault_hold(false);
    cgroup_remove();
    fault_hold(true);
    if (fault_descriptors() != descriptors + HELD)
        return LEAKS;
    return (int)end;
}

/* A refused cgroup.kill leaves its processes to the guard, which kills them one
 * by one; a refused removal leaves an empty group, which the next launch
 * removes.
 */
static void judge(const struct fault_run *r, void *ctx)
{
    struct stat st;
    (void)ctx;
    int end = fault_ended(r);
    ck_assert_msg(end == DONE || end == NOT_MADE ||
                      (end == NOT_KILLED && r->struck),
                  "%s: end %d: %s", r->plan, end, r->err);
    if (r->struck && strstr(r->plan, ":unlink:") != NULL)
        (void)rmdir(r->err); /* gone already, or empty */
    for (int i = 0; i < 4000 && r->err[0] == '/' && stat(r->err, &st) == 0; i++)
        (void)usleep(5000);
    ck_assert_msg(r->err[0] != '/' || stat(r->err, &st) != 0, "%s: %s stays",
                  r->plan, r->err);
}

TEST_LOOP(test_cgroup_is_whole_or_not_there, 0, 3)
{
    static const char *const roles[] = {"test", "child", "worker"};
    static const int least[] = {5, 0, 0};
    bool used = _i == 0;
    ck_assert_int_ge(fault_each(roles[_i], CALLS_MAX, run, judge, &used),
                     least[_i]);
}

static void path_of_own(char path[4096])
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", cgroup_fd());
    ssize_t n = readlink(link, path, 4000);
    ck_assert_int_gt(n, 0);
    path[n] = '\0';
}

/* A group beside the launch's, of a launch with this pid. */
static void make_beside(pid_t pid, char path[4096])
{
    char name[64];
    path_of_own(path);
    (void)snprintf(name, sizeof(name), "/ddprun-%d-sweep", (int)pid);
    (void)strcpy(strrchr(path, '/'), name); /* fits */
    ck_assert_int_eq(mkdir(path, 0755), 0);
}

/* Groups within groups in this one, as far down. */
static void make_below(const char *path, int depth)
{
    char below[4096];
    (void)strcpy(below, path);
    for (int i = 0; i < depth; i++) {
        (void)strcat(below, "/a");
        ck_assert_int_eq(mkdir(below, 0755), 0);
    }
}

/* What workers made below it goes with it. */
TEST(test_cgroup_goes_with_those_below_it)
{
    char path[4096], other[4096];
    if (!cgroup_make())
        return; /* none can be made here */
    path_of_own(path);
    make_below(path, 3);
    (void)snprintf(other, sizeof(other), "%.4000s/b", path);
    ck_assert_int_eq(mkdir(other, 0755), 0);
    cgroup_remove();
    ck_assert(access(path, F_OK) != 0);
}

/* One that cannot be removed is not tried for long. */
TEST(test_cgroup_too_deep_stays_at_once)
{
    char path[4096], below[4096];
    if (!cgroup_make())
        return; /* none can be made here */
    path_of_own(path);
    make_below(path, 17);
    int64_t began_us = mono_now_us();
    cgroup_remove();
    int64_t took_us = mono_now_us() - began_us;
    ck_assert_int_eq(access(path, F_OK), 0);
    for (int i = 17; i >= 0; i--) {
        (void)strcpy(below, path);
        for (int k = 0; k < i; k++)
            (void)strcat(below, "/a");
        ck_assert_int_eq(rmdir(below), 0);
    }
    ck_assert_int_lt(took_us, MONO_S);
}

/* A process in the group, until it is killed. */
static pid_t live_in(const char *path)
{
    char procs[4096];
    (void)snprintf(procs, sizeof(procs), "%.4000s/cgroup.procs", path);
    pid_t pid = fork();
    while (pid == 0)
        (void)pause();
    FILE *f = fopen(procs, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_gt(fprintf(f, "%d", (int)pid), 0);
    ck_assert_int_eq(fclose(f), 0);
    return pid;
}

/* Where something lives nothing is swept below: it may be about to use it. */
TEST(test_cgroup_sweep_takes_those_below_where_nothing_lives)
{
    char path[4096], below[4096];
    int status;
    if (!cgroup_make())
        return; /* none can be made here */
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(dead, &status, 0), dead);
    make_beside(dead, path);
    make_below(path, 2);
    pid_t pid = live_in(path);
    cgroup_sweep();
    (void)snprintf(below, sizeof(below), "%.4000s/a/a", path);
    ck_assert_int_eq(access(below, F_OK), 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < 2000 && access(path, F_OK) == 0; i++) {
        cgroup_sweep();
        (void)usleep(1000); /* the kernel may count the dead one still */
    }
    ck_assert(access(path, F_OK) != 0);
    cgroup_remove();
}

/* No start looks for groups that others left; what lives is not swept. */
TEST(test_cgroup_sweep_removes_what_dead_launches_left)
{
    char dead[4096], alive[4096];
    int status;
    if (!cgroup_make())
        return; /* none can be made here */
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    make_beside(pid, dead);
    make_beside(getpid(), alive);
    cgroup_sweep();
    ck_assert(access(dead, F_OK) != 0);
    ck_assert_int_eq(rmdir(alive), 0);
    cgroup_remove();
}

SUITE("cgroup", "slow", FAULT_CASE(60))
