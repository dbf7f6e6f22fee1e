/* links: tests/lib/{fault,fault_each,scratch} */
/* links: launcher/hang/{hang_watch,stacks,flight,hang_evidence,odd_rank} */
/* links: launcher/hang/{rank_look,rank_meet,stack_place,stack_line,pauses} */
/* links: launcher/hang/consoles launcher/worker/{hang,pipe_probe} */
/* links: rendezvous/client/store */
/* links: rendezvous/base/{dial,rng,opts,signals_name,err,log,mono} */
/* links: rendezvous/base/{utf8,open_files,buf} rendezvous/proto/c10d */
/* links: launcher/conf/{program,output,options,words} */
/* links: launcher/proc/{procfs,aborts} rendezvous/net/helper TLS */
/* libs: -luv -ldl */
/*
 * A worker that hangs is told of, with its stacks or the reason why there are
 * none, while each system call of the process that takes the stacks fails in
 * turn (those of the launcher: check_hang_watch). The worker is this test's; no
 * debugger is installed.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/aborts.h"
#include "launcher/hang/hang_watch.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 1
#define LIMIT_MS  (30000 * SUITE_PATIENCE)

enum end {
    TOLD,
    WRONG_TEXT,
    UNTOLD,
    LEAKS,
    REFUSED = 71 /* libuv gave up, with a reason */
};

static struct conf conf;
static const struct msg_world world = {.base_rank = 5, .world_size = 6};
static pid_t worker;

/* -- in place of launcher/worker/workers ----------------------------------- */

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers, (void)local_rank;
    return worker;
}

bool workers_look(const struct workers *workers,
                  int local_rank,
                  struct hang_sample *out)
{
    (void)workers, (void)local_rank;
    *out = (struct hang_sample){.step = -1};
    return true;
}

void workers_path(const struct workers *workers,
                  int local_rank,
                  const char *name,
                  char path[WORKERS_PATH_MAX])
{
    (void)workers, (void)local_rank;
    (void)snprintf(path, WORKERS_PATH_MAX, "%s/%s", scratch, name);
}

/* -- the test -------------------------------------------------------------- */

struct job {
    uv_loop_t loop;
    uv_timer_t limit;
    uv_timer_t often;
    struct hang_watch *watch;
    char text[512];
    bool late;
};

static void
on_hang(void *ctx, const struct hang_verdict *v, int64_t pid, const char *text)
{
    struct job *j = ctx;
    if (v->local_rank == 0 && pid == worker)
        (void)snprintf(j->text, sizeof(j->text), "%s", text);
}

static const struct hang_watch_handler handler = {.on_hang = on_hang};

static void on_limit(uv_timer_t *timer)
{
    struct job *j = timer->data;
    j->late = true;
}

/* In place of SIGCHLD. */
static void on_often(uv_timer_t *timer)
{
    const struct job *j = timer->data;
    siginfo_t info = {.si_pid = 0};
    pid_t helper = hang_watch_helper(j->watch);
    fault_hold(true);
    int rc = helper > 0 ? waitid(P_PID, (id_t)helper, &info,
                                 WEXITED | WNOHANG | WNOWAIT)
                        : -1;
    fault_hold(false);
    if (rc == 0 && info.si_pid == helper)
        hang_watch_helper_ended(j->watch);
}

static void begin(struct job *j)
{
    fault_hold(true);
    log_init("ddprun");
    aborts_explain();
    pid_t parent = getpid();
    worker = fork();
    if (worker == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            (void)pause();
        _exit(0);
    }
    if (worker < 0 || setenv("PATH", "/nowhere", 1) != 0 ||
        uv_loop_init(&j->loop) != 0)
        abort();
    (void)uv_timer_init(&j->loop, &j->limit);
    (void)uv_timer_init(&j->loop, &j->often);
    j->limit.data = j->often.data = j;
    (void)uv_timer_start(&j->limit, on_limit, LIMIT_MS, 0);
    (void)uv_timer_start(&j->often, on_often, 2, 2);
    fault_hold(false);
}

/* Of 60 ms at least; on a busy machine more than a second may have gone by. */
static bool is_told(const char *text)
{
    double seconds = 0;
    const char *since = strstr(text, "; no progress for ");
    return since != NULL &&
           sscanf(since, "; no progress for %lf s", &seconds) == 1 &&
           seconds >= 0.06;
}

static int run(void *ctx)
{
    static struct job j;
    (void)ctx;
    begin(&j);
    int descriptors = fault_descriptors();
    j.watch = hang_watch_new(&j.loop, &conf, NULL, &handler, &j);
    hang_watch_start(j.watch, &world);
    while (j.text[0] == '\0' && !j.late)
        (void)uv_run(&j.loop, UV_RUN_ONCE);
    hang_watch_stop(j.watch);
    fault_hold(true);
    (void)kill(worker, SIGKILL);
    (void)waitpid(worker, NULL, 0);
    if (fault_descriptors() != descriptors)
        return LEAKS;
    if (j.text[0] == '\0')
        return UNTOLD;
    return is_told(j.text) ? TOLD : WRONG_TEXT;
}

static void judge(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    int end = fault_ended(r);
    ck_assert_msg(end == TOLD || (r->struck && end == REFUSED),
                  "%s: end %d: %s", r->plan, end, r->err);
    if (!r->struck)
        ck_assert_msg(strstr(r->err, "rank 5 (pid ") != NULL &&
                          strstr(r->err, "no stacks: none of gdb") != NULL,
                      "%s", r->err);
}

static void setup(void)
{
    scratch_enter();
    conf.nproc = 1;
    conf.hang = (struct hang_limits){
        .how = CONF_HANG_FIXED, .idle_us = 60 * MONO_MS, .beat_us = MONO_NEVER};
}

TEST_LOOP(test_stacks_are_told_whatever_call_of_theirs_fails, 0, 2)
{
    static const char *const roles[] = {"child", "helper1"};
    static const int least[] = {1, 10};
    ck_assert_int_ge(fault_each(roles[_i], CALLS_MAX, run, judge, NULL),
                     least[_i]);
}

static void judge_unstarted(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert(r->struck);
    ck_assert_int_eq(fault_ended(r), TOLD);
    ck_assert_msg(strstr(r->err, "no stacks: cannot start a debugger: ") !=
                          NULL &&
                      strstr(r->err, "installed") == NULL,
                  "%s", r->err);
}

/* The first process asks PyTorch's flight recorder, the second one finds out
 * whether a debugger may attach. */
TEST(test_stacks_without_a_process_for_a_debugger_say_so)
{
    fault_one("helper1", "helper1:fork:3:EAGAIN", run, judge_unstarted, NULL);
}

SUITE("stacks", "net", FAULT_CASE(60), FIXTURE(setup, scratch_leave))
