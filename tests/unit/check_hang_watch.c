/* links: launcher/worker/hang_watch launcher/worker/stacks */
/* links: launcher/worker/flight */
/* links: launcher/worker/hang launcher/worker/pipe_probe */
/* links: launcher/worker/stack_line */
/* links: launcher/conf/output launcher/conf/options launcher/conf/words */
/* links: launcher/proc/procfs launcher/proc/signals */
/* links: tests/lib/hurt tests/lib/scratch OPTS NET PROTO BASE */
/* libs: -luv -lcjson -ldl */
/*
 * A worker that makes no progress is found and told once, with its stacks; it
 * is told as well if they cannot be taken, and why. Workers that move, or are
 * stopped, are not told. The workers are the test's own: what a look at them
 * shows, and a process that sleeps.
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

#include "launcher/worker/hang_watch.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static uv_loop_t loop;
static struct conf conf;
static const struct msg_world world = {.world_size = 1};
static struct hang_watch *watch;
static pid_t sleeper;
static bool moves;
static bool has_folder;
static int told;
static char text[500];
static char path[4096]; /* PATH, as it was */

bool workers_look(const struct workers *workers,
                  int local_rank,
                  struct hang_sample *out)
{
    static int64_t n;
    (void)workers;
    (void)local_rank;
    *out = (struct hang_sample){.step = -1, .output = moves ? ++n : n};
    return true;
}

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers;
    (void)local_rank;
    return sleeper;
}

void workers_path(const struct workers *workers,
                  int local_rank,
                  const char *name,
                  char to[WORKERS_PATH_MAX])
{
    (void)workers;
    (void)local_rank;
    to[0] = '\0';
    if (has_folder)
        (void)snprintf(to, WORKERS_PATH_MAX, "%s/%s", scratch, name);
}

static void
on_hang(void *ctx, const struct hang_verdict *v, int64_t pid, const char *why)
{
    (void)ctx;
    ck_assert_int_eq(v->local_rank, 0);
    ck_assert_int_eq(pid, sleeper);
    told++;
    (void)snprintf(text, sizeof(text), "%s", why);
    hang_watch_stop(watch); /* as launcher/loop does with the order to kill */
}

static const struct hang_watch_handler handler = {.on_hang = on_hang};

static void setup(void)
{
    scratch_enter();
    /* No debugger: what /proc shows is enough, and takes no seconds. */
    (void)snprintf(path, sizeof(path), "%s", getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", scratch, 1), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    memset(&conf, 0, sizeof(conf));
    conf.nproc = conf.nnodes_max = 1;
    conf.output.redirects[0] = CONF_STDOUT | CONF_STDERR;
    conf.hang.idle_us = 20 * MONO_MS;
    conf.hang.beat_us = MONO_NEVER;
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    told = 0;
    moves = false;
    has_folder = true;
}

static void teardown(void)
{
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    scratch_leave();
}

static bool start(void)
{
    pid_t parent = getpid();
    sleeper = fork();
    if (sleeper == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            (void)pause();
        _exit(0);
    }
    hang_watch_start(watch, &world);
    return sleeper > 0;
}

static void stop(void)
{
    hang_watch_stop(watch);
    /* Once more, if one of the two failed on purpose. */
    while (kill(sleeper, SIGKILL) != 0 && fault_struck() > 0)
        ;
    while (waitpid(sleeper, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* As launcher/loop does when it is told of a child's end. */
static void reap(void)
{
    siginfo_t info = {.si_pid = 0};
    pid_t helper = hang_watch_helper(watch);
    if (helper > 0 &&
        waitid(P_PID, (id_t)helper, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == helper)
        hang_watch_helper_ended(watch);
}

static void run_for(int ms)
{
    int64_t until_us = mono_now_us() + ms * MONO_MS;
    while (told == 0 && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        reap();
        (void)usleep(1000);
    }
}

static void read_file(const char *name, char *to, size_t size)
{
    FILE *f = fopen(name, "re");
    to[f != NULL ? fread(to, 1, size - 1, f) : 0] = '\0';
    if (f != NULL)
        (void)fclose(f);
}

/* The state of the sleeper, which on a busy machine may not sleep yet. */
static bool has_state(const char *stacks)
{
    return strstr(stacks, "state S") != NULL ||
           strstr(stacks, "state R") != NULL;
}

START_TEST(test_hang_watch_tells_who_stands_and_where)
{
    char stacks[4000], want[64];
    ck_assert(start());
    run_for(30000);
    ck_assert_int_eq(told, 1);
    ck_assert_msg(strstr(text, "(--hang_timeout=0.02); its stacks are in ") !=
                      NULL,
                  "%s", text);
    read_file("stacks.txt", stacks, sizeof(stacks));
    (void)snprintf(want, sizeof(want), "rank 0 (pid %d): stacks\n",
                   (int)sleeper);
    ck_assert_msg(strstr(stacks, want) != NULL, "%s", stacks);
    ck_assert_msg(has_state(stacks), "%s", stacks);
    stop();
}
END_TEST

START_TEST(test_hang_watch_spares_who_moves_or_is_stopped)
{
    moves = true;
    ck_assert(start());
    run_for(400);
    ck_assert_int_eq(told, 0);
    moves = false;
    hang_watch_pause(watch, true);
    run_for(400);
    ck_assert_int_eq(told, 0);
    hang_watch_pause(watch, false);
    run_for(30000);
    ck_assert_int_eq(told, 1);
    stop();
}
END_TEST

/* Its stacks are being taken when its round ends. */
START_TEST(test_hang_watch_tells_nothing_of_a_round_that_is_over)
{
    ck_assert(start());
    while (hang_watch_helper(watch) == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    hang_watch_stop(watch);
    run_for(300);
    ck_assert_int_eq(told, 0);
    ck_assert_int_eq(hang_watch_helper(watch), 0);
    stop();
}
END_TEST

/* -- a call fails ---------------------------------------------------------- */

/* What fault_each takes of this process. */
static void read_stderr(char *to, size_t size)
{
    ssize_t n = pread(STDERR_FILENO, to, size - 1, 0);
    to[n > 0 ? n : 0] = '\0';
}

/* It is told in any case. The text says where stacks are only if some are. */
static int run(void *ctx)
{
    char stacks[4000];
    (void)ctx;
    int before = fault_descriptors();
    (void)unlink("stacks.txt");
    if (!start())
        return HURT_TEST;
    run_for(30000);
    stop();
    int after = fault_descriptors();
    fault_end();
    if (told != 1)
        return HURT_LATE;
    if (after != before)
        return HURT_LEAK;
    if (has_folder && strstr(text, "its stacks are in") == NULL)
        return HURT_TOLD;
    if (has_folder)
        read_file("stacks.txt", stacks, sizeof(stacks));
    else
        read_stderr(stacks, sizeof(stacks));
    return has_state(stacks) ? HURT_DONE : HURT_TOLD;
}

START_TEST(test_hang_watch_tells_whatever_call_fails)
{
    hurt_each("test", 2, run, NULL, "open fork dup fdopen");
}
END_TEST

START_TEST(test_hang_watch_without_a_folder_tells_whatever_call_fails)
{
    has_folder = false;
    hurt_each("test", 1, run, NULL, "memfd_create");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hang_watch");
    TCase *tc = tcase_create("net");
    TCase *faults = fault_case(suite, "net faults", 60);
    tcase_add_checked_fixture(faults, setup, teardown);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_hang_watch_tells_who_stands_and_where);
    tcase_add_test(tc, test_hang_watch_spares_who_moves_or_is_stopped);
    tcase_add_test(tc, test_hang_watch_tells_nothing_of_a_round_that_is_over);
    tcase_add_test(faults, test_hang_watch_tells_whatever_call_fails);
    tcase_add_test(faults,
                   test_hang_watch_without_a_folder_tells_whatever_call_fails);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
