/* links: tests/lib/{fault,fault_each} launcher/worker/first_progress */
/* links: launcher/proc/aborts rendezvous/base/{err,log,utf8} */
/* libs: -luv -ldl */
/*
 * The first beat of a round is told, while each system call fails in turn; or
 * it is said that it cannot be seen, and is told when the worker has ended. The
 * workers are this test's: one, with a real progress file.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/aborts.h"
#include "launcher/worker/first_progress.h"
#include "rendezvous/base/log.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 8
#define PID       4711
#define LIMIT_MS  (6000 * SUITE_PATIENCE)

enum end {
    TOLD,
    TOLD_AT_THE_END,
    NOT_WATCHED,
    UNTOLD,
    LEAKS,
    REFUSED = 71 /* libuv gave up, with a reason */
};

static int progress_fd;

/* -- in place of launcher/worker/workers ----------------------------------- */

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers, (void)local_rank;
    return PID;
}

bool workers_look(const struct workers *workers,
                  int local_rank,
                  struct hang_sample *out)
{
    struct stat st;
    (void)workers, (void)local_rank;
    fault_hold(true);
    bool written = fstat(progress_fd, &st) == 0 && st.st_size > 0;
    fault_hold(false);
    *out = (struct hang_sample){.written = written, .step = 7};
    return true;
}

void workers_progress_path(const struct workers *workers,
                           int local_rank,
                           char path[MAILBOX_PATH_MAX])
{
    (void)workers, (void)local_rank;
    (void)snprintf(path, MAILBOX_PATH_MAX, "/proc/self/fd/%d", progress_fd);
}

/* -- the test -------------------------------------------------------------- */

static void on_beat(void *ctx, int local_rank, int64_t pid, int64_t step)
{
    int *beats = ctx;
    *beats += local_rank == 0 && pid == PID && (step == 7 || step == -1);
}

static const struct first_progress_handler handler = {.on_beat = on_beat};

static void on_limit(uv_timer_t *timer)
{
    bool *late = timer->data;
    *late = true;
}

/* As a worker does: not everything that is written to an unnamed file is told
 * of. */
static void beat(void)
{
    char path[MAILBOX_PATH_MAX];
    fault_hold(true);
    workers_progress_path(NULL, 0, path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "7\n", 2) != 2)
        abort();
    (void)close(fd);
    fault_hold(false);
}

static int run(void *ctx)
{
    static uv_loop_t loop;
    static uv_timer_t limit;
    static int beats;
    static bool late;
    const struct agent_worker ended = {.pid = PID, .progressed = true};
    (void)ctx;
    fault_hold(true);
    log_init("ddprun");
    aborts_explain();
    progress_fd = memfd_create("progress", MFD_CLOEXEC);
    if (progress_fd < 0 || uv_loop_init(&loop) != 0)
        abort();
    (void)uv_timer_init(&loop, &limit);
    limit.data = &late;
    (void)uv_timer_start(&limit, on_limit, LIMIT_MS, 0);
    int descriptors = fault_descriptors();
    fault_hold(false);
    static struct first_progress *f; /* as long as the process lives */
    f = first_progress_new(&loop, NULL, 1, &handler, &beats);
    if (f == NULL)
        return fault_descriptors() == descriptors ? NOT_WATCHED : LEAKS;
    first_progress_watch(f);
    beat();
    while (beats == 0 && !late)
        (void)uv_run(&loop, UV_RUN_ONCE);
    first_progress_exited(f, &ended);
    if (beats != 1)
        return UNTOLD;
    return late ? TOLD_AT_THE_END : TOLD;
}

static void judge(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    int end = fault_ended(r);
    if (end == TOLD)
        return;
    ck_assert_msg(r->struck && (end == TOLD_AT_THE_END || end == NOT_WATCHED ||
                                end == REFUSED),
                  "%s: end %d: %s", r->plan, end, r->err);
    ck_assert_msg(strstr(r->err, end == REFUSED ? "the kernel refuses"
                                                : "first_beat") != NULL &&
                      strstr(r->err, strerror(r->error)) != NULL,
                  "%s: %s", r->plan, r->err);
}

TEST(test_first_progress_is_told_or_it_is_said_that_it_is_not)
{
    ck_assert_int_gt(fault_each("test", CALLS_MAX, run, judge, NULL), 6);
}

SUITE("first_progress", "fast", .tags = FAULT_TAG, .limit_s = 60)
