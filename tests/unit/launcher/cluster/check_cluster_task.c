/* links: launcher/cluster/{whole_step,cpu_bind} CLUSTER launcher/hw/cpus */
/* links: launcher/proc/procfs */
/* links: rendezvous/base/{opts,opts_help,opts_complete,err,mono,log,utf8} */
/* libs: -lcjson */
/*
 * A task of a scheduler: signals that are sent to all of it, and its CPUs.
 */
#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/cluster/cpu_bind.h"
#include "launcher/cluster/whole_step.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

/* -- signals --------------------------------------------------------------- */

/* Who sends SIGUSR1 to the agent, and what the guard says of its own. */
enum sender {
    SCHEDULER,
    STRANGER,
    NOBODY,
    OTHER_THAN_THE_GUARDS
};

/*
 * The scheduler is this process, its child the guard, and its child the agent,
 * which answers by its status. `comes`: it asks before the guard tells.
 */
static int ask(enum sender sender, bool comes)
{
    int ready[2], go[2], status = -1;
    char c = 0;
    pid_t agent = 0, scheduler = getpid();
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(go), 0);
    pid_t guard = fork();
    if (guard == 0) {
        sigset_t set;
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGUSR1);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        agent = fork();
        if (agent > 0) {
            if (write(ready[1], &agent, sizeof(agent)) < 0 ||
                waitpid(agent, &status, 0) != agent)
                _exit(99);
            _exit(WEXITSTATUS(status));
        }
        struct whole_step w = {.signo = 0};
        if (read(go[0], &c, 1) != 1)
            _exit(98);
        if (comes && !whole_step_comes(&w, SIGUSR1))
            _exit(2);
        pid_t told = sender == OTHER_THAN_THE_GUARDS ? 1 : scheduler;
        _exit(whole_step_got(&w, SIGUSR1, told) ? 1 : 0);
    }
    ck_assert_int_eq(read(ready[0], &agent, sizeof(agent)), sizeof(agent));
    if (sender == SCHEDULER || sender == OTHER_THAN_THE_GUARDS)
        ck_assert_int_eq(kill(agent, SIGUSR1), 0);
    pid_t stranger = sender == STRANGER ? fork() : -1;
    if (stranger == 0)
        _exit(kill(agent, SIGUSR1));
    if (stranger > 0)
        ck_assert_int_eq(waitpid(stranger, &status, 0), stranger);
    ck_assert_int_eq(write(go[1], &c, 1), 1);
    ck_assert_int_eq(waitpid(guard, &status, 0), guard);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(test_whole_step_is_what_the_agent_got_from_the_same_ancestor)
{
    ck_assert_int_eq(ask(SCHEDULER, false), 1);
    ck_assert_int_eq(ask(STRANGER, false), 0);
    ck_assert_int_eq(ask(OTHER_THAN_THE_GUARDS, false), 0);
}

/* What was sent to the guard alone is known after the wait. */
TEST(test_whole_step_does_not_wait_long_for_what_does_not_come)
{
    int64_t start_us = mono_now_us();
    ck_assert_int_eq(ask(NOBODY, false), 0);
    ck_assert_int_ge(mono_now_us() - start_us, WHOLE_STEP_MS * MONO_MS);
}

/* Taken before the guard told of it, it still counts once it does. */
TEST(test_whole_step_remembers_what_it_took_early)
{
    ck_assert_int_eq(ask(SCHEDULER, true), 1);
    ck_assert_int_eq(ask(STRANGER, true), 2);
    ck_assert_int_eq(ask(NOBODY, true), 2);
}

/* -- CPUs ------------------------------------------------------------------ */

static struct cpus all;

/* The CPUs of this machine that a test may use, and this process on the first
 * of them. */
static void bind_to_one(void)
{
    struct cpus one = {{0}};
    cpus_allowed(&all);
    cpus_add(&one, cpus_next(&all, 0));
    ck_assert_int_eq(
        sched_setaffinity(0, sizeof(one.bits), (cpu_set_t *)(void *)one.bits),
        0);
}

/* In a step that has `cpus` here, behind which a variable may stand. */
static struct cpu_bind widen(const char *cpus, const char *more, bool keep)
{
    static char counts[96], extra[64], none[] = "A=";
    static char job[] = "SLURM_JOB_ID=1", step[] = "SLURM_STEP_ID=0";
    (void)snprintf(counts, sizeof(counts), "SLURM_CPUS_ON_NODE=%s", cpus);
    (void)snprintf(extra, sizeof(extra), "%s", more);
    char *task = strchr(counts, ';');
    if (task != NULL)
        *task++ = '\0';
    char *vars[] = {counts, extra, job, step, task != NULL ? task : none, NULL};
    struct cluster_env env = {.vars = vars, .host = "n2"};
    return cpu_bind_widen(&env, keep);
}

#define BOUND "SLURM_CPU_BIND=quiet,mask_cpu:0x1"

TEST(test_cpu_bind_widens_to_what_the_step_has)
{
    bind_to_one();
    struct cpu_bind b = widen("4096", BOUND, false);
    int n = cpus_count(&all);
    ck_assert_int_eq(b.state, n > 1 ? CPU_BIND_WIDENED : CPU_BIND_FINE);
    ck_assert_int_eq(b.cpus, n);
    ck_assert_int_eq(cpus_count(&b.before), 1);
}

static const struct {
    const char *cpus, *more;
    bool keep;
    enum cpu_bind_state state;
} kept[] = {
    {"4096", BOUND, true, CPU_BIND_NARROW},
    {"1", BOUND, false, CPU_BIND_FEW},
    {"what", BOUND, false, CPU_BIND_FINE},
    {"", BOUND, false, CPU_BIND_FINE},
    {"0", BOUND, false, CPU_BIND_FINE},
    {"4097", BOUND, false, CPU_BIND_FINE},
    {"4096", "SLURM_CPU_BIND=", false, CPU_BIND_FINE},
    {"4096", "A=b", false, CPU_BIND_FINE},
    {"4096;SLURM_LOCALID=1", BOUND, false, CPU_BIND_FINE},
    {"4096;SLURM_STEP_TASKS_PER_NODE=2", BOUND, false, CPU_BIND_FINE},
};

TEST_EACH(test_cpu_bind_keeps_what_is_not_the_steps_or_was_asked_for, kept)
{
    struct cpus now;
    bind_to_one();
    struct cpu_bind b = widen(kept[_i].cpus, kept[_i].more, kept[_i].keep);
    ck_assert_int_eq(b.state, kept[_i].state);
    cpus_allowed(&now);
    ck_assert_int_eq(cpus_count(&now), 1);
    ck_assert_int_eq(b.cpus, 1);
}

/* More CPUs than the step has: another job's may be among them. */
TEST(test_cpu_bind_takes_no_more_than_the_step_has)
{
    struct cpus now;
    bind_to_one();
    int n = cpus_count(&all), may = n == 2 ? 2 : 1;
    ck_assert_int_eq(widen("2", BOUND, false).state, n > 2    ? CPU_BIND_NARROW
                                                     : n == 2 ? CPU_BIND_WIDENED
                                                              : CPU_BIND_FINE);
    cpus_allowed(&now);
    ck_assert_int_eq(cpus_count(&now), may);
}

SUITE("cluster_task", "task")
