/* links: tests/lib/{fault,fault_each} launcher/worker/unkilled */
/* links: launcher/proc/{aborts,procfs} rendezvous/base/{err,log,mono,utf8} */
/* libs: -luv -ldl */
/*
 * A worker that the kernel holds (here: one that waits in vfork(2) for its
 * child, which is in state D) is named when the limit is over, while each
 * system call fails in turn; one that only sleeps is not. That SIGKILL has no
 * effect on such a worker shows failure/what-if-the-kernel-holds-a-worker.
 */
#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/aborts.h"
#include "launcher/worker/unkilled.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 8
#define LIMIT_MS  (6000 * SUITE_PATIENCE)

enum end {
    NAMED,
    QUIET,
    MISNAMED,
    LEAKS,
    REFUSED = 71 /* libuv gave up, with a reason */
};

static pid_t workers[2]; /* in place of launcher/worker/workers */

pid_t workers_pid(const struct workers *none, int local_rank)
{
    (void)none;
    return workers[local_rank];
}

/* -- workers --------------------------------------------------------------- */

static char state_of(pid_t pid)
{
    char path[64], state = '?';
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (f != NULL)
        (void)fclose(f); /* only read */
    return state;
}

/* In state D if `held`, else in S; leads a process group. */
static pid_t start_worker(bool held)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_t worker = getpid();
        /* Waits here until the child is dead, as vfork(2) does. */
        if (held &&
            syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != worker)
                _exit(0);
        }
        (void)pause();
        _exit(0);
    }
    while (pid > 0 && state_of(pid) != (held ? 'D' : 'S'))
        (void)usleep(1000);
    return pid;
}

static void end_workers(void)
{
    for (int i = 0; i < 2; i++) {
        (void)kill(-workers[i], SIGKILL);
        (void)waitpid(workers[i], NULL, 0);
    }
}

/* -- the test -------------------------------------------------------------- */

struct job {
    uv_loop_t loop;
    uv_timer_t limit;
    char named[400];
};

static void on_unkilled(void *ctx, const char *text)
{
    struct job *j = ctx;
    (void)snprintf(j->named, sizeof(j->named), "%s", text);
    uv_stop(&j->loop);
}

static const struct unkilled_handler handler = {.on_unkilled = on_unkilled};

static void on_limit(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void open_loop(struct job *j)
{
    if (uv_loop_init(&j->loop) != 0)
        abort();
    (void)uv_timer_init(&j->loop, &j->limit);
    (void)uv_timer_start(&j->limit, on_limit, LIMIT_MS, 0);
}

static bool is_named(const char *text)
{
    char who[80];
    (void)snprintf(who, sizeof(who),
                   "rank 7 (local rank 1, pid %d) on b was sent SIGKILL",
                   (int)workers[1]);
    return strstr(text, who) == text && strstr(text, "(state D") != NULL;
}

/* Two workers, of which one is held if `ctx` says so. */
static int run(void *ctx)
{
    static struct job j;
    static struct conf conf = {.nproc = 2, .unkilled_us = 1};
    const bool *held = ctx;
    fault_hold(true);
    log_init("ddprun");
    aborts_explain();
    open_loop(&j);
    workers[0] = start_worker(false);
    workers[1] = start_worker(*held);
    int descriptors = fault_descriptors();
    fault_hold(false);
    struct unkilled *u = unkilled_new(&j.loop, &conf, NULL, "b", &handler, &j);
    unkilled_watch(u, 6);
    (void)uv_run(&j.loop, UV_RUN_DEFAULT);
    fault_hold(true);
    unkilled_stop(u);
    end_workers();
    if (fault_descriptors() != descriptors)
        return LEAKS;
    if (j.named[0] == '\0')
        return QUIET;
    return is_named(j.named) ? NAMED : MISNAMED;
}

static void judge(const struct fault_run *r, void *ctx)
{
    const bool *held = ctx;
    if (fault_is_unexplained(r))
        return;
    int end = fault_ended(r);
    if (r->struck && end == REFUSED) {
        ck_assert_ptr_nonnull(strstr(r->err, "the kernel refuses"));
        return;
    }
    ck_assert_msg(end == (*held ? NAMED : QUIET), "%s: end %d: %s", r->plan,
                  end, r->err);
    if (strstr(r->plan, ":write:") != NULL)
        return; /* what was to be said is lost */
    ck_assert_msg(strstr(r->err, "this node leaves 1e-06 s after") != NULL ||
                      !*held,
                  "%s: %s", r->plan, r->err);
}

/* A call that fails once costs a look: the next one finds the worker. */
TEST(test_unkilled_worker_is_named)
{
    bool held = true;
    ck_assert_int_gt(fault_each("test", CALLS_MAX, run, judge, &held), 3);
}

TEST(test_unkilled_is_no_worker_that_sleeps)
{
    bool held = false;
    struct fault_run none = {.plan = ""};
    none.status = run(&held) << 8;
    judge(&none, &held);
}

SUITE("unkilled", "fast", FAULT_CASE(120))
