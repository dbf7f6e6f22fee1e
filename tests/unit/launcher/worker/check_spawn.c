/* links: tests/lib/{fault,fault_each} launcher/worker/spawn */
/* links: launcher/proc/{pidfd,cgroup} rendezvous/base/{err,rng,open_files} */
/* libs: -ldl */
/*
 * One worker, real, while each system call of the launcher and of the worker
 * before its execve fails in turn.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/worker/spawn.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 20

enum end {
    DONE,         /* the program ran, with its output where it belongs */
    NOT_STARTED,  /* an error with a reason */
    NOT_EXECUTED, /* the child has told why */
    WRONG_OUTPUT,
    WRONG_STATUS,
    LEAKS
};

struct pipes {
    int out[2];
    int trouble[2];
    int kept; /* the writing end of `out` once more */
};

static void open_pipes(struct pipes *p)
{
    if (pipe2(p->out, O_CLOEXEC) != 0 ||
        pipe2(p->trouble, O_CLOEXEC | O_NONBLOCK) != 0)
        abort();
    p->kept = fcntl(p->out[1], F_DUPFD_CLOEXEC, 0);
    if (p->kept < 0)
        abort();
}

static void close_pipes(const struct pipes *p)
{
    (void)close(p->out[0]);
    (void)close(p->out[1]);
    (void)close(p->kept);
    (void)close(p->trouble[0]);
    (void)close(p->trouble[1]);
}

/* What has become of a worker that was started. */
static enum end look(struct pipes *p, pid_t pid)
{
    char text[64] = "";
    int status;
    struct spawn_trouble t;
    if (waitpid(pid, &status, 0) != pid)
        return WRONG_STATUS;
    if (read(p->trouble[0], &t, sizeof(t)) == (ssize_t)sizeof(t)) {
        fprintf(stderr, "not executed: %s", strerror(t.sys_errno));
        return WIFEXITED(status) && WEXITSTATUS(status) >= 126 ? NOT_EXECUTED
                                                               : WRONG_STATUS;
    }
    (void)close(p->out[1]);
    p->out[1] = -1;
    ssize_t n = read(p->out[0], text, sizeof(text) - 1);
    if (n < 0 || strcmp(text, "out 1024\nerr\nkept\n") != 0)
        return WRONG_OUTPUT;
    return status == 7 << 8 ? DONE : WRONG_STATUS;
}

/* Its limit of open files is that of the user, not ours. */
static int run(void *ctx)
{
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"},
                          (char[]){"echo out $(ulimit -n); echo err >&2\n"
                                   "echo kept >/proc/self/fd/$KEPT; exit 7"},
                          NULL};
    char kept[32], wrong[] = "KEPT=999";
    char *const envp[] = {ctx != NULL ? wrong : kept, NULL};
    struct pipes p;
    struct spawn_origin origin;
    struct ddp_err err;
    struct rlimit files;
    pid_t pid = 0;
    int pidfd = -1;
    int variables[2] = {-1, -1};
    fault_hold(true);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        abort();
    files.rlim_cur = 1024;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        abort();
    open_pipes(&p);
    int len = snprintf(kept, sizeof(kept), "KEPT=%d", p.kept);
    kept[len + 1] = '\0';
    if (ctx != NULL && (pipe2(variables, O_CLOEXEC) != 0 ||
                        write(variables[1], kept, (size_t)len + 2) != len + 2))
        abort();
    fault_hold(false);
    spawn_remember(&origin);
    int descriptors = fault_descriptors();
    const struct spawn_request req = {
        .path = "/bin/sh",
        .argv = argv,
        .envp = envp,
        .origin = &origin,
        .report_fd = p.trouble[1],
        .out_fd = p.out[1],
        .err_fd = p.out[1],
        .keep_fd = p.kept,
        .env_fd = variables[0],
        .local_rank = 3,
        .watched = true,
    };
    int rc = spawn_worker(&req, &pid, &pidfd, &err);
    fault_hold(true);
    enum end end = rc == 0 ? look(&p, pid) : NOT_STARTED;
    descriptors -= p.out[1] < 0;
    if (rc != 0)
        fprintf(stderr, "%s", err.text);
    else if (pidfd >= 0)
        (void)close(pidfd);
    if (fault_descriptors() != descriptors)
        end = LEAKS;
    for (int i = 0; ctx != NULL && i < 2; i++)
        (void)close(variables[i]); /* the child has read it */
    close_pipes(&p);
    return (int)end;
}

static void judge(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(!r->late && r->left == 0, "%s: late %d, left %d", r->plan,
                  r->late, r->left);
    ck_assert_msg(WIFEXITED(r->status), "%s: status %#x: %s", r->plan,
                  (unsigned)r->status, r->err);
    int end = WEXITSTATUS(r->status);
    if (end == DONE)
        return;
    ck_assert_msg(r->struck && (end == NOT_STARTED || end == NOT_EXECUTED),
                  "%s: end %d: %s", r->plan, end, r->err);
    ck_assert_msg(strstr(r->err, strerror(r->error)) != NULL, "%s: %s", r->plan,
                  r->err);
    if (end == NOT_STARTED)
        ck_assert_msg(strstr(r->err, "local rank 3") != NULL, "%s: %s", r->plan,
                      r->err);
}

/* Whatever fails: it runs, or there is a reason and nobody. */
TEST_LOOP(test_spawn_starts_a_worker_or_says_why_not, 0, 6)
{
    static const char *const roles[] = {"test", "child", "worker"};
    static const int least[] = {10, 1, 8};
    static char waits[] = "for its variables";
    ck_assert_int_ge(
        fault_each(roles[_i % 3], CALLS_MAX, run, judge, _i < 3 ? NULL : waits),
        least[_i % 3]);
}

/* One that waits for its variables keeps nothing of ours open, however high its
 * number is: who reads the other end of a pipe waits for its end. */
TEST(test_spawn_child_that_waits_keeps_nothing)
{
    char *const argv[] = {(char[]){"true"}, NULL}, *const envp[] = {NULL};
    int ends[2], variables[2], trouble[2], pidfd, status;
    struct spawn_origin origin;
    struct ddp_err err;
    pid_t pid;
    ck_assert(pipe2(ends, O_CLOEXEC) == 0 && pipe2(variables, O_CLOEXEC) == 0 &&
              pipe2(trouble, O_CLOEXEC) == 0);
    int high = fcntl(ends[1], F_DUPFD_CLOEXEC, 700);
    ck_assert_int_ge(high, 700);
    (void)close(ends[1]);
    spawn_remember(&origin);
    const struct spawn_request req = {.path = "/bin/true",
                                      .argv = argv,
                                      .envp = envp,
                                      .origin = &origin,
                                      .report_fd = trouble[1],
                                      .out_fd = -1,
                                      .err_fd = -1,
                                      .keep_fd = -1,
                                      .env_fd = variables[0]};
    ck_assert_int_eq(spawn_worker(&req, &pid, &pidfd, &err), 0);
    (void)close(high);
    struct pollfd hung_up = {.fd = ends[0]};
    ck_assert_int_eq(poll(&hung_up, 1, 30000), 1);
    ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
    (void)close(variables[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 128 + SIGKILL);
}

SUITE("spawn", "fast", FAULT_CASE(30))
