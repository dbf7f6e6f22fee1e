/* links: launcher/{loop,loop_helpers} AGENT */
/* links: tests/lib/{hurt,conf_line,scratch,words} */
/* libs: -luv -lcjson -lm -ldl */
/*
 * A whole launch in a process of the test's: guard, agent and workers as
 * main.c makes them. It ends with 0, or with a status of errors.def and a
 * reason, whichever system call of the agent fails, and however few
 * descriptors there are.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/loop.h"
#include "launcher/proc/guard.h"
#include "launcher/proc/pidfd.h"
#include "rendezvous/base/log.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static struct conf conf;
static struct spawn_origin origin;

static void read_line(const char *line)
{
    struct ddp_err err = {.text = ""};
    ck_assert_msg(conf_line_conf(&conf, "TMPDIR=/tmp", line, &err) == 0, "%s",
                  err.text);
    log_init("ddprun");
}

/* The guard ends with the agent's status, and does not come back from here. */
static int launch(void *ctx)
{
    (void)ctx;
    (void)pidfd_works();
    spawn_remember(&origin);
    int guard_fd = guard_split(conf.signals, NULL);
    _exit(loop_run(&conf, &origin, guard_fd));
}

/* -- a call fails ---------------------------------------------------------- */

TEST(test_launch_ends_and_says_why_whatever_call_of_the_agent_fails)
{
    read_line(
        "--cgroup=none --nproc_per_node=2 --no-python --shutdown_timeout=2 "
        "/bin/true");
    hurt_each("agent", 1, launch, NULL, "pipe2 fork socket bind listen");
}

/* -- few descriptors ------------------------------------------------------- */

/* A launch that has no descriptor left cannot look for leaks: LSan, which needs
 * some, kills what it finds instead, this test among it. */
static bool looks_for_no_leaks;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return looks_for_no_leaks;
}

/* The status of a launch with so many descriptors, and what it said. */
static int launch_with(rlim_t limit, char *said, size_t size)
{
    int status = -1;
    FILE *err = tmpfile();
    ck_assert_ptr_nonnull(err);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct rlimit few = {.rlim_cur = limit, .rlim_max = limit};
        looks_for_no_leaks = true;
        (void)dup2(fileno(err), STDERR_FILENO);
        for (int fd = 3; fd < 1024; fd++)
            (void)close(fd);
        (void)alarm(20 * (unsigned)suite_slow());
        if (setrlimit(RLIMIT_NOFILE, &few) == 0)
            (void)launch(NULL);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    rewind(err);
    said[fread(said, 1, size - 1, err)] = '\0';
    ck_assert_int_eq(fclose(err), 0);
    return status;
}

/* From none to enough: never a signal, never without a word. */
TEST(test_launch_with_few_descriptors_says_so)
{
    char said[4096];
    bool went = false;
    read_line(
        "--cgroup=none --nproc_per_node=2 --no-python --shutdown_timeout=2 "
        "/bin/true");
    for (rlim_t limit = 3; limit <= 40; limit++) {
        int status = launch_with(limit, said, sizeof(said));
        ck_assert_msg(WIFEXITED(status), "with %d: signal %d\n%s", (int)limit,
                      WTERMSIG(status), said);
        went = WEXITSTATUS(status) == 0;
        ck_assert_msg(went || WEXITSTATUS(status) == ddp_code_exit(DDP_E_NOMEM),
                      "with %d: status %d\n%s", (int)limit, WEXITSTATUS(status),
                      said);
        ck_assert_msg(went || strcasestr(said, strerror(EMFILE)) != NULL ||
                          strstr(said, "ulimit -n") != NULL,
                      "with %d:\n%s", (int)limit, said);
    }
    ck_assert(went);
}

SUITE("loop",
      "net",
      FAULT_CASE(120),
      FIXTURE_ONCE(conf_line_setup, scratch_leave))
