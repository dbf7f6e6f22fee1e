/* links: tests/lib/fault tests/lib/fault_each */
/* links: launcher/worker/spawn launcher/proc/pidfd launcher/proc/cgroup */
/* links: rendezvous/base/err rendezvous/base/rng rendezvous/base/open_files */
/* libs: -ldl */
/*
 * One worker, real, while each system call of the launcher and of the worker
 * before its execve fails in turn.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
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
    char kept[32];
    char *const envp[] = {kept, NULL};
    struct pipes p;
    struct spawn_origin origin;
    struct ddp_err err;
    struct rlimit files;
    pid_t pid = 0;
    int pidfd = -1;
    (void)ctx;
    fault_hold(true);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        abort();
    files.rlim_cur = 1024;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        abort();
    open_pipes(&p);
    (void)snprintf(kept, sizeof(kept), "KEPT=%d", p.kept);
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
START_TEST(test_spawn_starts_a_worker_or_says_why_not)
{
    static const char *const roles[] = {"test", "child", "worker"};
    static const int least[] = {10, 1, 8};
    ck_assert_int_ge(fault_each(roles[_i], CALLS_MAX, run, judge, NULL),
                     least[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spawn");
    TCase *tc = fault_case(suite, "fast", 30);
    tcase_add_loop_test(tc, test_spawn_starts_a_worker_or_says_why_not, 0, 3);
    return suite_run(suite);
}
