/* links: tests/lib/{fault,fault_each} */
/* libs: -ldl */
/*
 * The calls that other tests let fail: which one does, in which process, and
 * what is seen of a run.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

/* The n-th one, once; others are made. */
TEST(test_fault_strikes_the_nth_call_once)
{
    fault_plan("test:dup:2:EMFILE");
    int a = dup(1);
    ck_assert_int_ge(a, 0);
    errno = 0;
    ck_assert_int_eq(dup(1), -1);
    ck_assert_int_eq(errno, EMFILE);
    int b = dup(1);
    ck_assert_int_ge(b, 0);
    ck_assert_int_eq(fault_struck(), 1);
    ck_assert_int_eq(close(a) + close(b), 0);
}

TEST(test_fault_strikes_from_the_nth_call_on)
{
    fault_plan("test:pipe2:2+:ENFILE");
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < 3; i++) {
        int more[2];
        ck_assert_int_eq(pipe2(more, O_CLOEXEC), -1);
        ck_assert_int_eq(errno, ENFILE);
    }
    ck_assert_int_eq(fault_struck(), 3);
    fault_end();
    ck_assert_int_eq(close(ends[0]) + close(ends[1]), 0);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
}

/* -1, MAP_FAILED, NULL, or a number. */
TEST(test_fault_fails_as_the_call_does)
{
    fault_plan("test:mmap:1:ENOMEM");
    ck_assert_ptr_eq(
        mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        MAP_FAILED);
    fault_plan("test:opendir:1:EACCES");
    ck_assert_ptr_null(opendir("/"));
    ck_assert_int_eq(errno, EACCES);
    fault_plan("test:open:1:ENOENT");
    ck_assert_int_eq(open("/", O_RDONLY), -1);
    ck_assert_int_eq(errno, ENOENT);
}

/* A child is another one, and so is what it becomes. */
TEST(test_fault_knows_what_a_process_is)
{
    static const char *const plans[] = {
        "child:dup:1:EMFILE", "worker:dup:1:EMFILE", "helper1:dup:1:EMFILE"};
    for (int i = 0; i < 3; i++) {
        int status;
        fault_plan(plans[i]);
        ck_assert_int_ge(dup(1), 0);
        pid_t pid = fork();
        if (pid == 0) {
            int as_child = dup(1);
            (void)(i == 1 ? setsid()
                          : prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0));
            _exit((as_child < 0 ? 1 : 0) + (dup(1) < 0 ? 2 : 0));
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(WEXITSTATUS(status), i == 0 ? 1 : 2);
        ck_assert_int_eq(fault_struck(), 1);
    }
}

/* -- all of them ----------------------------------------------------------- */

struct seen {
    int runs;
    int bad;
    int failed[4]; /* by exit status */
    int left;
    char last[FAULT_PLAN_MAX];
};

/* 0: all is done; 1: no pipe; 2: no child; 3: the child could not dup. */
static int run(void *ctx)
{
    int ends[2], status;
    (void)ctx;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "no pipe\n");
        return 1;
    }
    pid_t pid = fork();
    if (pid < 0)
        return 2;
    if (pid == 0)
        _exit(dup(1) < 0 ? 3 : 0);
    return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 0;
}

static void judge(const struct fault_run *r, void *ctx)
{
    struct seen *s = ctx;
    s->runs++;
    s->bad += r->late || !WIFEXITED(r->status);
    s->failed[WEXITSTATUS(r->status) & 3]++;
    s->left += r->left;
    ck_assert_int_eq(strcmp(r->err, "no pipe\n") == 0,
                     WEXITSTATUS(r->status) == 1);
    ck_assert_int_eq(r->struck, r->plan[0] != '\0');
}

CASE("each", .tags = FAULT_TAG)

/* Each errno of fork, pipe2 and waitpid; a child that was not waited for is
 * gone by itself. */
TEST(test_fault_each_lets_every_call_fail)
{
    struct seen s = {.runs = 0};
    ck_assert_int_eq(fault_each("test", 5, run, judge, &s), 5);
    ck_assert_int_eq(s.runs, 6);
    ck_assert_int_eq(s.bad, 0);
    ck_assert_int_eq(s.failed[0], 2);
    ck_assert_int_eq(s.failed[1], 2);
    ck_assert_int_eq(s.failed[2], 2);
    ck_assert_int_eq(s.left, 0);
    s = (struct seen){.runs = 0};
    ck_assert_int_eq(fault_each("child", 5, run, judge, &s), 1);
    ck_assert_int_eq(s.failed[3], 1);
}

static int leave(void *ctx)
{
    (void)ctx;
    (void)!dup(1);
    for (int i = 0; i < 2; i++)
        if (fork() == 0)
            for (;;)
                (void)pause();
    return 0;
}

/* What is left behind is found, and is dead afterwards. */
TEST(test_fault_each_finds_what_is_left)
{
    struct seen s = {.runs = 0};
    (void)fault_each("child", 1, leave, judge, &s);
    ck_assert_int_eq(s.runs, 1);
    ck_assert_int_eq(s.left, 2);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}

CASE("fast")

/* What is held is not counted, in a child of that time either. */
TEST(test_fault_does_not_count_while_held)
{
    int status;
    fault_plan("test:dup:1:EMFILE");
    fault_hold(true);
    ck_assert_int_ge(dup(1), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(dup(1) < 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    fault_hold(false);
    ck_assert_int_eq(dup(1), -1);
}

TEST(test_fault_counts_descriptors)
{
    int n = fault_descriptors();
    int fd = dup(1);
    ck_assert_int_eq(fault_descriptors(), n + 1);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(fault_descriptors(), n);
}

SUITE("fault", "fast")
