/* links: rendezvous/core/slow tests/lib/{fault,fault_each,scratch} */
/* links: launcher/worker/{workers,spawn,env,mailbox,errfile} */
/* links: launcher/cluster/task_vars */
/* links: launcher/output/{output,relay,relay_intake,stream,console,logfile} */
/* links: launcher/output/lines launcher/conf/{output,options,words} */
/* links: launcher/proc/{children,pidfd,procfs,aborts,cgroup,tmpfolder} */
/* links: rendezvous/base/{opts,buf,err,utc,log,mono,utf8,siphash,rng} */
/* links: rendezvous/base/{open_files,json} rendezvous/proto/{msg,term} */
/* links: rendezvous/net/helper TLS */
/* libs: -luv -lcjson -ldl */
/*
 * Two rounds of two real workers on a loop, with each system call of the
 * launcher failing in turn. In the first round one fails, in the second none.
 * And what is known of an end that is told twice.
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
#include "launcher/proc/oom.h"
#include "launcher/worker/death_watch.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/log.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 6
#define LIMIT_MS  (30000 * SUITE_PATIENCE)

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

/* -- in place of launcher/proc/oom ----------------------------------------- */

static int oom_kills;

void oom_init(struct oom *o)
{
    *o = (struct oom){.machine.path = "/proc/vmstat"};
}

enum oom_kill oom_happened(struct oom *o)
{
    bool more = oom_kills > o->cgroup.count;
    o->cgroup.count = oom_kills;
    return more ? OOM_KILLED : OOM_NOT;
}

/* -- in place of launcher/worker/death_watch ------------------------------- */

static death_watch_handler on_death;
static void *death_ctx;

struct death_watch *
death_watch_new(uv_loop_t *loop, death_watch_handler told, void *ctx)
{
    static char any;
    (void)loop;
    on_death = told;
    death_ctx = ctx;
    return (struct death_watch *)(void *)&any;
}

void death_watch_look(struct death_watch *d, pid_t pid, struct stop_page *page)
{
    (void)d, (void)pid, (void)page;
}

void death_watch_drop(struct death_watch *d, const struct stop_page *page)
{
    (void)d, (void)page;
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
    int by_oom;
    bool late;
};

static struct conf conf;

static void on_exit_of(void *ctx, const struct agent_worker *w)
{
    struct job *j = ctx;
    j->ended++;
    j->failed += w->code != 0 || w->signal != 0;
    j->by_oom += w->oom;
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

static void on_failed(void *ctx, const struct agent_worker *w)
{
    struct job *j = ctx;
    j->by_oom += w->oom;
}

static const struct workers_handler handler = {
    .on_exit = on_exit_of,
    .on_failed = on_failed,
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

static bool start_round(struct job *j, int round, int *started)
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
    j->ended = j->failed = j->by_oom = *started = 0;
    bool whole = workers_start(j->workers, &world, started, &err) == 0;
    if (!whole) {
        fprintf(stderr, "%s\n", err.text);
        workers_kill(j->workers, SIGKILL, INT64_MIN);
    }
    return whole;
}

/* False: it was not started, or not as a whole; what was is dead then. */
static bool run_round(struct job *j, int round)
{
    int started;
    bool whole = start_round(j, round, &started);
    while (j->ended < started && !j->late)
        (void)uv_run(&j->loop, UV_RUN_ONCE);
    return whole;
}

static void open_job(struct job *j)
{
    static struct spawn_origin origin;
    open_loop(j);
    spawn_remember(&origin);
    j->output = output_new(&conf);
    j->workers = workers_new(&j->loop, &conf, &origin, j->output, &handler, j);
}

static int run(void *ctx)
{
    static struct job j;
    static const struct output_hurry patient = {.fd = -1};
    int *descriptors = ctx; /* of a run without a fault, and of a round */
    open_job(&j);
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

/* The kernel counts it once, and the agent hears of it twice: the first time
 * it may be about something else. A later end, and the next worker in its
 * place, have nothing of it. */
TEST(test_workers_killed_for_memory_stay_so)
{
    static struct job j;
    static char forever[] = "exec sleep 100";
    struct msg_beat beat = {0};
    int started;
    conf.argv[2] = forever;
    open_job(&j);
    ck_assert(start_round(&j, 1, &started));
    workers_tell_steps(j.workers, &beat);
    pid_t killed = workers_pid(j.workers, 0);
    oom_kills = 1;
    on_death(death_ctx, killed, SIGKILL);
    ck_assert_int_eq(j.by_oom, 1);
    ck_assert_int_eq(kill(killed, SIGKILL), 0);
    while (j.ended < 1 && !j.late)
        (void)uv_run(&j.loop, UV_RUN_ONCE);
    ck_assert_int_eq(j.by_oom, 2);
    workers_kill(j.workers, SIGKILL, INT64_MIN);
    while (j.ended < 2 && !j.late)
        (void)uv_run(&j.loop, UV_RUN_ONCE);
    ck_assert_int_eq(j.by_oom, 2);
    ck_assert(start_round(&j, 2, &started));
    workers_kill(j.workers, SIGKILL, INT64_MIN);
    while (j.ended < 2 && !j.late)
        (void)uv_run(&j.loop, UV_RUN_ONCE);
    ck_assert_int_eq(j.by_oom, 0);
}

SUITE("workers", "slow", FAULT_CASE(60), FIXTURE(setup, scratch_leave))
