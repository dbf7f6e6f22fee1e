/* links: launcher/hang/{hang_watch,stacks,flight,hang_evidence,odd_rank} */
/* links: launcher/hang/{rank_look,rank_meet,stack_place,stack_line} */
/* links: rendezvous/client/store rendezvous/base/dial */
/* links: launcher/hang/consoles launcher/worker/{hang,pipe_probe} */
/* links: launcher/conf/{output,options,words,program} */
/* links: launcher/proc/{procfs,signals} tests/lib/scratch OPTS NET */
/* links: PROTO BASE */
/* libs: -luv -lcjson */
/*
 * A node whose workers stand still asks the others at once, and gives them the
 * time that their beats need; with auto only too long a pause ends them. What
 * is too long (launcher/hang/pauses) says this test: any pause.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/hang/hang_watch.h"
#include "launcher/hang/pauses.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static uv_loop_t loop;
static struct conf conf;
static struct hang_watch *watch;
static pid_t worker;
static char path[4096];
static int asked, told, hung;
static enum pauses_verdict verdict; /* of any pause */

/* -- in place of launcher/hang/pauses -------------------------------------- */

void pauses_init(struct pauses *p)
{
    memset(p, 0, sizeof(*p));
}

void pauses_begin(struct pauses *p, int64_t now_us)
{
    p->since_us = now_us;
}

bool pauses_moved(struct pauses *p, bool beat, int64_t now_us)
{
    (void)p, (void)beat, (void)now_us;
    return false;
}

bool pauses_is_due(const struct pauses *p, int64_t now_us)
{
    (void)now_us;
    return !p->told;
}

enum pauses_verdict
pauses_judge(struct pauses *p, enum pauses_look look, int64_t now_us)
{
    (void)p, (void)now_us;
    return look == PAUSES_STILL ? verdict : PAUSES_FINE;
}

void pauses_excuse(struct pauses *p)
{
    p->excused = true;
}

bool pauses_compares(const struct pauses *p)
{
    (void)p;
    return verdict == PAUSES_TOO_LONG;
}

void pauses_tell(struct pauses *p)
{
    p->told = true;
}

int64_t pauses_silent_us(const struct pauses *p, int64_t now_us)
{
    return now_us - p->since_us;
}

int64_t pauses_longest_us(const struct pauses *p)
{
    (void)p;
    return 0;
}

/* -- in place of launcher/worker/workers ----------------------------------- */

bool workers_look(const struct workers *workers,
                  int local_rank,
                  struct hang_sample *out)
{
    (void)workers, (void)local_rank;
    *out = (struct hang_sample){.step = -1};
    return true;
}

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers, (void)local_rank;
    return worker;
}

void workers_path(const struct workers *workers,
                  int local_rank,
                  const char *name,
                  char to[WORKERS_PATH_MAX])
{
    (void)workers, (void)local_rank, (void)name;
    to[0] = '\0';
}

/* -- the test -------------------------------------------------------------- */

static void on_asks(void *ctx)
{
    struct msg_beat beat;
    (void)ctx;
    hang_watch_fill(watch, &beat);
    asked += beat.asks == 1;
}

static void on_stands(void *ctx, const char *text)
{
    (void)ctx, (void)text;
    told++;
}

static void
on_hang(void *ctx, const struct hang_verdict *v, int64_t pid, const char *text)
{
    (void)ctx, (void)v, (void)pid, (void)text;
    told++;
    hung++;
}

static const struct hang_watch_handler handler = {
    .on_asks = on_asks, .on_stands = on_stands, .on_hang = on_hang};

/* Until that is not 0. */
static void run_until_us(int64_t until_us, const int *what)
{
    while (*what == 0 && mono_now_us() < until_us) {
        siginfo_t info = {.si_pid = 0};
        pid_t helper = hang_watch_helper(watch);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        if (helper > 0 &&
            waitid(P_PID, (id_t)helper, &info, WEXITED | WNOHANG | WNOWAIT) ==
                0 &&
            info.si_pid == helper)
            hang_watch_helper_ended(watch);
        (void)usleep(5000);
    }
}

static void setup(void)
{
    static const struct msg_world world = {.world_size = 2, .group_world = 2};
    worker = fork();
    if (worker == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    ck_assert_int_gt(worker, 0);
    scratch_enter();
    (void)snprintf(path, sizeof(path), "%s", getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", scratch, 1), 0); /* no debugger */
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    conf.nproc = 1;
    conf.nnodes_max = 2;
    conf.output.redirects[0] = CONF_STDOUT | CONF_STDERR;
    conf.hang.how = CONF_HANG_TELL;
    conf.hang.idle_us = conf.hang.beat_us = MONO_NEVER;
    conf.heartbeat_timeout_us = 60 * MONO_S;
    verdict = PAUSES_TOO_LONG;
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    hang_watch_start(watch, &world);
}

static void teardown(void)
{
    hang_watch_stop(watch);
    ck_assert_int_eq(kill(worker, SIGKILL), 0);
    ck_assert_int_eq(waitpid(worker, NULL, 0), worker);
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    scratch_leave();
}

/* One that sees the workers in a collective. */
static void install_gdb(void)
{
    FILE *f = fopen("gdb", "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs("#!/bin/sh\n"
                           "echo 'Thread 1 (process 7):'\n"
                           "echo '#0  0x1 in ddp_comm_barrier ()'\n",
                           f),
                     0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod("gdb", 0700), 0);
}

/* A beat comes every 6 s: another node knows it, and answers, within 16 s. */
TEST(test_hang_watch_asks_at_once_and_waits_for_two_beats)
{
    run_until_us(mono_now_us() + 30 * MONO_S, &asked);
    ck_assert_int_eq(asked, 1);
    int64_t since_us = mono_now_us();
    run_until_us(since_us + 60 * MONO_S, &told);
    ck_assert_int_eq(told, 1);
    ck_assert_int_ge(mono_now_us() - since_us, 15 * MONO_S);
}

/* Workers that are only suspected: the other nodes are asked with auto, too,
 * and then nothing is ended. */
TEST_LOOP(test_hang_watch_ends_no_workers_that_are_suspected, 0, 2)
{
    conf.hang.how = CONF_HANG_AUTO;
    verdict = _i == 0 ? PAUSES_SUSPECT : PAUSES_TOO_LONG;
    install_gdb();
    run_until_us(mono_now_us() + 30 * MONO_S, &asked);
    ck_assert_int_eq(asked, 1);
    ck_assert_int_eq(told, 0);
    hang_watch_asked(watch, 1); /* as the lease says */
    run_until_us(mono_now_us() + 60 * MONO_S, &told);
    ck_assert_int_eq(told, 1);
    ck_assert_int_eq(hung, _i);
}

SUITE("hang_ask", "net", .limit_s = 120, FIXTURE(setup, teardown))
