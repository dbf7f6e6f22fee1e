/* links: tests/lib/{fault,fault_each} */
/* links: launcher/proc/{sweep,tree,procfs,pidfd,children} */
/* links: rendezvous/base/{err,log,mono,utf8} */
/* libs: -luv -ldl */
/*
 * What workers left behind is asked to end, or killed, while each system call
 * fails in turn. One of them ignores SIGTERM where it says so.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/children.h"
#include "launcher/proc/pidfd.h"
#include "launcher/proc/sweep.h"
#include "rendezvous/base/log.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 8
#define LIMIT_MS  (30000 * SUITE_PATIENCE)

enum end {
    DONE,
    SOMEBODY_LIVES,
    HELPER_DEAD,
    LATE,
    LEAKS,
};

struct job {
    struct sweep sweep;
    uv_loop_t loop;
    uv_poll_t children;
    uv_timer_t limit;
    pid_t helper; /* is spared */
    bool swept;
    bool late;
};

static int keep(void *ctx, pid_t pids[SWEEP_KEEP_MAX])
{
    const struct job *j = ctx;
    pids[0] = j->helper;
    return 1;
}

static pid_t session(void *ctx)
{
    (void)ctx;
    return -1;
}

static void on_swept(void *ctx)
{
    struct job *j = ctx;
    j->swept = true;
}

static const struct sweep_handler handler = {
    .keep = keep, .session = session, .on_swept = on_swept};

static void on_children(uv_poll_t *poll, int status, int events)
{
    struct job *j = poll->data;
    (void)status, (void)events;
    while (children_next() > 0)
        ;
    sweep_look(&j->sweep);
}

static void on_limit(uv_timer_t *timer)
{
    struct job *j = timer->data;
    j->late = true;
}

static pid_t start(bool leaves, bool stubborn)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGTERM, stubborn ? SIG_IGN : SIG_DFL);
        (void)setsid();
        if (leaves && fork() != 0)
            _exit(0);
        (void)!write(ready[1], "x", 1);
        for (;;)
            (void)pause();
    }
    if (read(ready[0], &byte, 1) != 1)
        abort();
    (void)close(ready[0]);
    (void)close(ready[1]);
    return pid;
}

static void begin(struct job *j, bool stubborn)
{
    fault_hold(true);
    log_init("ddprun");
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)pidfd_works();
    if (uv_loop_init(&j->loop) != 0 ||
        uv_poll_init(&j->loop, &j->children, children_watch()) != 0 ||
        uv_poll_start(&j->children, UV_READABLE, on_children) != 0)
        abort();
    (void)uv_timer_init(&j->loop, &j->limit);
    (void)uv_timer_start(&j->limit, on_limit, LIMIT_MS, 0);
    j->children.data = j->limit.data = j;
    j->helper = start(false, false);
    (void)start(true, false);
    (void)start(false, stubborn);
    sweep_init(&j->sweep, &j->loop, &handler, j);
    (void)uv_run(&j->loop, UV_RUN_NOWAIT);
    fault_hold(false);
}

/* The helper lives, and is the only one. */
static enum end finish(const struct job *j, int descriptors)
{
    int status;
    fault_hold(true);
    pid_t dead;
    while ((dead = waitpid(-1, &status, WNOHANG)) > 0)
        if (dead == j->helper)
            return HELPER_DEAD;
    if (kill(j->helper, SIGKILL) != 0 ||
        waitpid(j->helper, NULL, 0) != j->helper)
        return HELPER_DEAD;
    if (waitpid(-1, NULL, WNOHANG) != -1)
        return SOMEBODY_LIVES;
    if (j->late)
        return LATE;
    return fault_descriptors() == descriptors ? DONE : LEAKS;
}

static int run_gently(void *ctx)
{
    static struct job j;
    const bool *stubborn = ctx;
    begin(&j, *stubborn);
    int descriptors = fault_descriptors();
    sweep_gently(&j.sweep);
    while (j.sweep.busy && !j.swept && !j.late)
        (void)uv_run(&j.loop, UV_RUN_ONCE);
    return (int)finish(&j, descriptors);
}

static int run_hard(void *ctx)
{
    static struct job j;
    const bool *stubborn = ctx;
    begin(&j, *stubborn);
    int descriptors = fault_descriptors();
    sweep_hard(&j.sweep);
    return (int)finish(&j, descriptors);
}

static void judge(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(fault_ended(r) == DONE, "%s: status %#x: %s", r->plan,
                  (unsigned)r->status, r->err);
}

TEST(test_sweep_ends_all_but_a_helper)
{
    bool stubborn = false;
    ck_assert_int_gt(
        fault_each("test", CALLS_MAX, run_gently, judge, &stubborn), 20);
    stubborn = true;
    ck_assert_int_gt(fault_each("test", CALLS_MAX, run_hard, judge, &stubborn),
                     20);
}

/* Who ignores SIGTERM is killed after its grace, a second. There is no helper1
 * here whose calls could fail. */
TEST(test_sweep_kills_who_stays)
{
    bool stubborn = true;
    ck_assert_int_eq(fault_each("helper1", 1, run_gently, judge, &stubborn), 0);
}

SUITE("sweep", "slow", FAULT_CASE(90))
