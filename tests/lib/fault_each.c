/* links: tests/lib/fault */
/*
 * A run is a child with its stderr in a memfd. What it leaves behind comes to
 * this process, a child subreaper, and is counted when the run has ended. No
 * call of this process itself is counted or fails: only the child has a plan.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/fault_priv.h"
#include "tests/lib/suite.h"

#define LIMIT_MS (45000 * SUITE_PATIENCE) /* of one run, where all is fast */
#define GO_MS    2000 /* for what is killed to be gone, on a busy machine */

struct each {
    const char *role;
    int (*run)(void *ctx);
    void *ctx;
};

__attribute__((noreturn)) static void die(const char *what)
{
    perror(what);
    abort();
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The planned process itself. */
static const char *first_role(const char *role)
{
    static const char *const of_guard[] = {"guard", "split", "agent",
                                           "janitor"};
    for (size_t i = 0; i < sizeof(of_guard) / sizeof(of_guard[0]); i++)
        if (strcmp(role, of_guard[i]) == 0)
            return "guard";
    return "test";
}

__attribute__((noreturn)) static void
run_planned(const struct each *e, const struct fault_run *r, int err)
{
    (void)setsid();
    if (dup2(err, STDERR_FILENO) < 0)
        die("fault: dup2");
    (void)close(err);
    fault_plan_as(first_role(e->role), r->plan[0] != '\0' ? r->plan : "count",
                  NULL);
    int status = e->run(e->ctx);
    fault_end();
    exit(status);
}

/* Each look costs the process that is looked at its turn, where both are busy:
 * looks become rarer. */
static void nap(struct timespec *pause)
{
    (void)nanosleep(pause, NULL);
    if (pause->tv_nsec < 20 * 1000 * 1000)
        pause->tv_nsec += pause->tv_nsec / 8;
}

static void wait_for_end(struct fault_run *r, pid_t pid)
{
    int64_t until = now_ms() + LIMIT_MS * suite_slow();
    struct timespec pause = {.tv_nsec = 200 * 1000};
    pid_t ended;
    while ((ended = waitpid(pid, &r->status, WNOHANG)) == 0) {
        if (!r->late && now_ms() >= until) {
            r->late = true;
            (void)kill(pid, SIGKILL);
        }
        nap(&pause);
    }
    if (ended != pid)
        die("fault: waitpid");
}

/* Kills our children; returns how many there were. */
static int kill_children(void)
{
    char path[64];
    int n = 0, pid;
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children",
                   (int)getpid());
    FILE *f = fopen(path, "re");
    if (f == NULL)
        die(path);
    for (; fscanf(f, "%d", &pid) == 1; n++)
        (void)kill(pid, SIGKILL);
    (void)fclose(f);
    return n;
}

/* A process that was killed with its parent may take a moment to go. */
static int count_left(void)
{
    struct timespec pause = {.tv_nsec = 1000 * 1000};
    int left = 0;
    pid_t pid = 0;
    for (int64_t until = now_ms() + GO_MS; pid >= 0 && now_ms() < until;) {
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid == 0)
            nap(&pause);
    }
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0) {
        int killed = pid == 0 ? kill_children() : 0;
        left += killed;
        for (; killed > 0; killed--) /* theirs come to us then */
            (void)waitpid(-1, NULL, 0);
    }
    return left;
}

static void one_run(const struct each *e, struct fault_run *r)
{
    int err = memfd_create("fault-err", 0);
    /* Several processes write: without it the offset of a memfd is nobody's at
     * a time, and a line replaces another's. */
    if (err < 0 || fcntl(err, F_SETFL, O_APPEND) != 0)
        die("fault: memfd_create");
    (void)fflush(NULL);
    fault_share();
    pid_t pid = fork();
    if (pid < 0)
        die("fault: fork");
    if (pid == 0)
        run_planned(e, r, err);
    wait_for_end(r, pid);
    r->left = count_left();
    r->struck = fault_struck() > 0;
    ssize_t n = pread(err, r->err, sizeof(r->err) - 1, 0);
    r->err[n > 0 ? n : 0] = '\0';
    (void)close(err);
}

/* Whether the n-th call of that kind was made, and failed. */
static bool try(const struct each *e,
                enum fault_kind kind,
                const char *error,
                int n,
                struct fault_run *r)
{
    *r = (struct fault_run){.error = fault_error_named(error)};
    (void)snprintf(r->plan, sizeof(r->plan), "%s:%s:%d:%s", e->role,
                   fault_name_of(kind), n, error);
    one_run(e, r);
    return r->struck;
}

static int each_error(const struct each *e,
                      enum fault_kind kind,
                      int n_max,
                      void (*judge)(const struct fault_run *r, void *ctx))
{
    struct fault_run r;
    const char *error;
    int struck = 0;
    for (int i = 0; (error = fault_error_of(kind, i)) != NULL; i++)
        for (int n = 1; n <= n_max && try(e, kind, error, n, &r); n++) {
            judge(&r, e->ctx);
            struck++;
        }
    return struck;
}

void fault_one(const char *role,
               const char *plan,
               int (*run)(void *ctx),
               void (*judge)(const struct fault_run *r, void *ctx),
               void *ctx)
{
    struct each e = {.role = role, .run = run, .ctx = ctx};
    struct fault_run r = {.struck = false};
    (void)snprintf(r.plan, sizeof(r.plan), "%s", plan);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        die("fault: prctl");
    one_run(&e, &r);
    judge(&r, ctx);
}

int fault_each(const char *role,
               int n_max,
               int (*run)(void *ctx),
               void (*judge)(const struct fault_run *r, void *ctx),
               void *ctx)
{
    struct each e = {.role = role, .run = run, .ctx = ctx};
    struct fault_run r = {.struck = false};
    bool made[FAULT_KIND_COUNT];
    int struck = 0;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        die("fault: prctl");
    one_run(&e, &r);
    judge(&r, ctx);
    for (int k = 0; k < FAULT_KIND_COUNT; k++)
        made[k] = fault_calls(role, (enum fault_kind)k) > 0;
    for (int k = 0; k < FAULT_KIND_COUNT; k++)
        if (made[k])
            struck += each_error(&e, (enum fault_kind)k, n_max, judge);
    return struck;
}
