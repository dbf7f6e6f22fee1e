/* links: tests/lib/{fault,fault_each} launcher/hang/own_store */
/* links: launcher/proc/{aborts,procfs} rendezvous/base/{err,log,utf8} */
/* libs: -luv -ldl */
/*
 * A worker that waits as PyTorch does for a port at which nobody listens, or a
 * child of such a worker, is told of if nobody has come to the store, whatever
 * system call fails once; none of its likes is.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/hang/own_store.h"
#include "launcher/proc/aborts.h"
#include "rendezvous/base/log.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 4
#define AFTER_MS  100
#define APART_MS  500

enum end {
    OVER,
    LEAKS,
    REFUSED = 71 /* libuv gave up, with a reason */
};

/* What the process does, and the store. */
struct program {
    bool torch;       /* has PyTorch loaded */
    bool child;       /* it is a child of the worker */
    clockid_t clock;  /* that it sleeps by ... */
    int ms;           /* ... for so long each time */
    bool used;        /* somebody has come to the store */
    const char *says; /* NULL: nothing is told */
};

static const struct program programs[] = {
    {.torch = true,
     .child = true,
     .ms = 700,
     .says = "a child of local rank 0"},
    {.torch = true, .ms = 700, .says = "the worker of local rank 0"},
    {.ms = 700},
    {.torch = true, .ms = 1}, /* many times, as for a store in a file */
    {.torch = true, .clock = CLOCK_MONOTONIC, .ms = 700}, /* as time.sleep */
    {.torch = true, .ms = 700, .used = true},
};

static pid_t worker; /* in place of launcher/worker/workers */

pid_t workers_pid(const struct workers *none, int local_rank)
{
    (void)none, (void)local_rank;
    return worker;
}

/* -- the worker ------------------------------------------------------------ */

static void map_torch(void)
{
    char name[] = "/tmp/libtorch_XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) != 0 || write(fd, "x", 1) != 1 ||
        mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        abort();
}

static void sleep_for_ever(const struct program *p, int ready)
{
    if (p->torch)
        map_torch();
    if (write(ready, "", 1) != 1)
        abort();
    for (;;) {
        const struct timespec t = {.tv_sec = 0, .tv_nsec = p->ms * 1000000L};
        (void)clock_nanosleep(p->clock, 0, &t, NULL);
    }
}

static void start_worker(const struct program *p)
{
    int ready[2];
    char c;
    if (pipe(ready) != 0)
        abort();
    worker = fork();
    if (worker != 0) {
        if (read(ready[0], &c, 1) != 1)
            abort();
        (void)close(ready[0]);
        (void)close(ready[1]);
        return;
    }
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (p->child && fork() != 0)
        for (;;)
            (void)pause();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    sleep_for_ever(p, ready[1]);
}

/* -- the test -------------------------------------------------------------- */

static bool unused(void *ctx)
{
    const struct program *p = ctx;
    return !p->used;
}

static int run(void *ctx)
{
    static uv_loop_t loop;
    static struct program p;
    fault_hold(true);
    memcpy(&p, ctx, sizeof(p));
    log_init("ddprun");
    aborts_explain();
    if (uv_loop_init(&loop) != 0)
        abort();
    start_worker(&p);
    int descriptors = fault_descriptors();
    fault_hold(false);
    struct own_store *o = own_store_new(&loop, NULL, 1, unused, &p);
    own_store_watch(o, AFTER_MS, APART_MS);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until there is no look to come */
    fault_hold(true);
    own_store_stop(o);
    (void)kill(-worker, SIGKILL);
    (void)waitpid(worker, NULL, 0);
    return fault_descriptors() == descriptors ? OVER : LEAKS;
}

static void judge(const struct fault_run *r, void *ctx)
{
    const struct program *p = ctx;
    bool says = strstr(r->err, "--worker_store=none") != NULL;
    if (fault_is_unexplained(r))
        return;
    int end = fault_ended(r);
    if (r->struck && end == REFUSED) {
        ck_assert_ptr_nonnull(strstr(r->err, "the kernel refuses"));
        return;
    }
    ck_assert_msg(end == OVER, "%s: end %d: %s", r->plan, end, r->err);
    if (strstr(r->plan, ":write:") != NULL)
        return; /* what was to be said is lost */
    if (p->says == NULL)
        ck_assert_msg(!says, "%s: %s", r->plan, r->err);
    else
        ck_assert_msg(says && strstr(r->err, p->says) != NULL, "%s: %s",
                      r->plan, r->err);
}

/* A call that fails costs a look: one of the next finds the process. */
TEST(test_own_store_is_told_whatever_fails)
{
    struct program p = programs[0];
    ck_assert_int_gt(fault_each("test", CALLS_MAX, run, judge, &p), 3);
}

TEST_LOOP(test_own_store_is_told_of_no_other_program,
          1,
          sizeof(programs) / sizeof(programs[0]))
{
    struct program p = programs[_i];
    fault_one("test", "", run, judge, &p);
}

SUITE("own_store", "fast", FAULT_CASE(120))
