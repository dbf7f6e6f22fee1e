/* links: rendezvous/core/slow tests/lib/{fault,fault_each,scratch} */
/* links: launcher/worker/{workers,spawn,env,death_watch,mailbox,errfile} */
/* links: launcher/cluster/task_vars */
/* links: launcher/output/{output,relay,relay_intake,stream,console,logfile} */
/* links: launcher/output/lines launcher/conf/{output,options,words} */
/* links: launcher/proc/{children,pidfd,procfs,aborts,oom,cgroup,tmpfolder} */
/* links: rendezvous/base/{opts,buf,err,utc,log,mono,utf8,siphash,rng} */
/* links: rendezvous/base/{open_files,json} rendezvous/proto/{msg,term} */
/* links: rendezvous/net/helper TLS */
/* libs: -luv -lcjson -ldl */
/*
 * Two rounds of two real workers on a loop, with each system call of the
 * launcher failing in turn. In the first round one fails, in the second none.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/mpi/mpi.h"
#include "launcher/proc/aborts.h"
#include "launcher/proc/children.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/log.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 6
#define LIMIT_MS  30000

enum end {
    DONE,
    NOT_STARTED, /* a round, with a reason; what was started has ended */
    WRONG,       /* a worker ended otherwise than it does, without a reason */
    LATE,
    LEAKS,
    NO_START = 71 /* fatal: what is needed for any worker cannot be had */
};

/* -- in place of launcher/mpi, which has a test of its own ----------------- */

struct mpi *mpi_new(uv_loop_t *loop,
                    const struct conf *c,
                    const struct mpi_handler *handler,
                    void *ctx)
{
    (void)loop, (void)c, (void)handler, (void)ctx;
    return NULL;
}

void mpi_round(struct mpi *m, const struct msg_world *world)
{
    (void)m, (void)world;
}

int mpi_open_worker(struct mpi *m,
                    int local_rank,
                    struct mpi_fds *fds,
                    struct ddp_err *err)
{
    (void)m, (void)local_rank, (void)err;
    *fds = (struct mpi_fds){.pmi = -1, .env = -1};
    return 0;
}

void mpi_close_fds(const struct mpi_fds *fds)
{
    (void)fds;
}

const char *mpi_folder(const struct mpi *m)
{
    (void)m;
    return "";
}

pid_t mpi_helper(const struct mpi *m, enum mpi_helper which)
{
    (void)m, (void)which;
    return 0;
}

void mpi_helper_ended(struct mpi *m, enum mpi_helper which)
{
    (void)m, (void)which;
}

void mpi_started(struct mpi *m, int local_rank, pid_t pid)
{
    (void)m, (void)local_rank, (void)pid;
}

void mpi_ended(struct mpi *m, struct agent_worker *w)
{
    (void)m, (void)w;
}

/* -- the test -------------------------------------------------------------- */

struct job {
    uv_loop_t loop;
    uv_poll_t children;
    uv_timer_t limit;
    struct workers *workers;
    struct output *output;
    int ended;
    int failed;
    bool late;
};

static struct conf conf;

static void on_exit_of(void *ctx, const struct agent_worker *w)
{
    struct job *j = ctx;
    j->ended++;
    j->failed += w->code != 0 || w->signal != 0;
    fprintf(stderr, "local rank %d: exit code %d, signal %d %s\n",
            w->local_rank, w->code, w->signal, w->text);
}

/* As launcher/loop does. */
static void reap_others(struct job *j)
{
    pid_t ours[1], pid;
    do {
        ours[0] = output_pid(j->output);
        pid = workers_reap_orphans(j->workers, ours, 1);
        if (pid > 0 && pid == ours[0]) {
            int status = 0;
            (void)waitpid(pid, &status, WNOHANG);
            output_restart(j->output, status);
        }
    } while (pid > 0);
}

static void on_uncovered(void *ctx)
{
    reap_others(ctx);
}

static void on_start(void *ctx, int local_rank, int64_t pid)
{
    (void)ctx, (void)local_rank, (void)pid;
}

static void on_children(uv_poll_t *poll, int status, int events)
{
    struct job *j = poll->data;
    pid_t pid;
    (void)status, (void)events;
    while ((pid = children_next()) > 0)
        workers_ended(j->workers, pid);
    reap_others(j);
}

static void on_limit(uv_timer_t *timer)
{
    struct job *j = timer->data;
    j->late = true;
}

static const struct workers_handler handler = {
    .on_exit = on_exit_of,
    .on_uncovered = on_uncovered,
    .on_start = on_start,
};

/* The loop itself is the launcher's (check_loop), and is whole here. */
static void open_loop(struct job *j)
{
    fault_hold(true);
    log_init("ddprun");
    aborts_explain();
    if (uv_loop_init(&j->loop) != 0 ||
        uv_poll_init(&j->loop, &j->children, children_watch()) != 0 ||
        uv_poll_start(&j->children, UV_READABLE, on_children) != 0)
        abort();
    (void)uv_timer_init(&j->loop, &j->limit);
    (void)uv_timer_start(&j->limit, on_limit, LIMIT_MS, 0);
    j->children.data = j->limit.data = j;
    (void)uv_run(&j->loop, UV_RUN_NOWAIT);
    fault_hold(false);
}

/* False: it was not started, or not as a whole; what was is dead then. */
static bool run_round(struct job *j, int round)
{
    struct msg_world world = {
        .instance = "0123456789abcdef0123456789abcdef",
        .round = round,
        .restarts = round - 1,
        .group_world = 1,
        .world_size = 2,
        .role_world = 2,
        .master_addr = "127.0.0.1",
        .master_port = 29500,
    };
    struct ddp_err err;
    int started = 0;
    j->ended = j->failed = 0;
    bool whole = workers_start(j->workers, &world, &started, &err) == 0;
    if (!whole) {
        fprintf(stderr, "%s\n", err.text);
        workers_kill(j->workers, SIGKILL, INT64_MIN);
    }
    while (j->ended < started && !j->late)
        (void)uv_run(&j->loop, UV_RUN_ONCE);
    return whole;
}

static int run(void *ctx)
{
    static struct job j;
    static const struct output_hurry patient = {.fd = -1};
    struct spawn_origin origin;
    int *descriptors = ctx; /* of a run without a fault, and of a round */
    open_loop(&j);
    spawn_remember(&origin);
    j.output = output_new(&conf);
    j.workers = workers_new(&j.loop, &conf, &origin, j.output, &handler, &j);
    bool whole = run_round(&j, 1);
    bool good = !whole || j.failed == 1;
    if (!run_round(&j, 2))
        whole = false;
    else
        good &= j.failed == 0;
    fault_hold(true);
    int now = fault_descriptors();
    fprintf(stderr, "descriptors: %d\n", now);
    workers_clean(j.workers);
    output_finish(j.output, false, &patient);
    if (j.late)
        return LATE;
    if (*descriptors > 0 && now > *descriptors)
        return LEAKS;
    return good ? (whole ? DONE : NOT_STARTED) : WRONG;
}

static void judge(const struct fault_run *r, void *ctx)
{
    int *descriptors = ctx;
    if (fault_is_unexplained(r))
        return;
    int end = fault_ended(r);
    const char *at = strstr(r->err, "descriptors: ");
    if (!r->struck && at != NULL)
        *descriptors = (int)strtol(at + strlen("descriptors: "), NULL, 10);
    if (end == DONE)
        return;
    ck_assert_msg(r->struck && (end == NOT_STARTED || end == NO_START),
                  "%s: end %d: %s", r->plan, end, r->err);
    ck_assert_msg(strstr(r->err, strerror(r->error)) != NULL ||
                      strstr(r->err, uv_strerror(-r->error)) != NULL,
                  "%s: %s", r->plan, r->err);
}

static void setup(void)
{
    static char shell[] = "sh", option[] = "-c", path[] = "/bin/sh";
    static char script[] = "echo err >&2\n"
                           "[ $TORCHELASTIC_RESTART_COUNT$RANK != 01 ]";
    static char *argv[] = {shell, option, script, NULL};
    scratch_enter();
    ck_assert_int_eq(setenv("TMPDIR", scratch, 1), 0);
    conf.nproc = 2;
    conf.max_restarts = 3;
    conf.snapshot_memory = 4096;
    conf.argv = argv;
    conf.exec_path = path;
}

/* Both rounds are as they should be, or one was not started with a reason. */
TEST(test_workers_start_or_there_is_a_reason)
{
    int descriptors = 0;
    ck_assert_int_ge(fault_each("test", CALLS_MAX, run, judge, &descriptors),
                     60);
    ck_assert_int_gt(descriptors, 0);
}

SUITE("workers", "slow", FAULT_CASE(60), FIXTURE(setup, scratch_leave))
