/*
 * Happy path: `scontrol show job` says RUNNING, as it does in the grace of a
 * preemption and after a notice; `scontrol requeue` puts the job back into the
 * queue, and Slurm kills what is left of it.
 *
 * Failure modes:
 * - Somebody cancelled the job, or its time is over: Slurm has another word for
 *   its state, and would refuse. It is said.
 * - Slurm refuses (sbatch --no-requeue), has no answer, or there is no scontrol
 *   here (a container): what it or the shell says is on stderr. It is
 *   killed after PATIENCE_US.
 * - Several launchers: that of the first node asks. Its workers have ended, and
 *   all ranks saved at the same step; Slurm gives the others KillWait.
 */
#include "launcher/front/requeue.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/cluster/cluster.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define PATIENCE_US (20 * MONO_S)
#define LOOK_US     10000
#define NOT_RUNNING 9 /* of the script below */

static const char script[] = "jobs=$(scontrol show job -o \"$1\") || exit 1\n"
                             "case $jobs in *'JobState=RUNNING '*) exec "
                             "scontrol requeue \"$1\" ;; esac\n"
                             "exit 9\n";

/* Each component of a heterogeneous job can be a step of its own, with a first
 * node: only that of component 0 is the job's. */
static bool is_later_component(void)
{
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    for (int i = 1; i < CLUSTER_COMPONENTS_MAX && nodes != NULL; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "SLURM_JOB_NODELIST_HET_GROUP_%d",
                       i);
        const char *others = getenv(name);
        if (others != NULL && strcmp(others, nodes) == 0)
            return true;
    }
    return false;
}

static bool is_first_node(void)
{
    const char *node = getenv("SLURM_NODEID");
    return (node == NULL || strcmp(node, "0") == 0) && !is_later_component();
}

/* Whether it ended because the scheduler wanted that, and no person. */
static bool is_taken_away(int status, uint64_t signals)
{
    int signo = status - 128;
    return signo > 0 && signo <= 64 && (signals & SIGNALS_BIT(signo)) != 0 &&
           (signo == SIGTERM || (SIGNALS_BIT(signo) & SIGNALS_USUAL) == 0);
}

__attribute__((noreturn)) static void run_script(const char *job)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)setpgid(0, 0); /* killed with what it starts */
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGTERM, SIG_IGN); /* Slurm's, for the job that it ends */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execl("/bin/sh", "sh", "-c", script, "ddprun", job, (char *)NULL);
    _exit(127);
}

/* Its status as wait(2) has it; -1: it did not end in time. */
static int wait_for(pid_t pid)
{
    int status;
    int64_t until_us = mono_now_us() + PATIENCE_US;
    while (mono_now_us() < until_us) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return status;
        if (ended < 0 && errno != EINTR)
            return -1;
        (void)usleep(LOOK_US);
    }
    (void)kill(-pid, SIGKILL);
    (void)waitpid(pid, &status, WNOHANG); /* else init reaps it */
    return -1;
}

/* The task of an array has a number of its own, but the last task has that of
 * the array: to requeue that means all of them. */
static bool find_job(char job[100])
{
    const char *id = getenv("SLURM_JOB_ID");
    const char *array = getenv("SLURM_ARRAY_JOB_ID");
    const char *task = getenv("SLURM_ARRAY_TASK_ID");
    if (array != NULL && task != NULL)
        (void)snprintf(job, 100, "%.48s_%.48s", array, task);
    else
        (void)snprintf(job, 100, "%.99s", id != NULL ? id : "");
    return job[0] != '\0';
}

void requeue_at_end(int status, uint64_t signals)
{
    char job[100];
    if (!find_job(job) || !is_first_node() || !is_taken_away(status, signals))
        return;
    pid_t pid = fork();
    if (pid == 0)
        run_script(job);
    if (pid < 0) {
        log_warn("cannot requeue Slurm job %s: fork", job);
        return;
    }
    int how = wait_for(pid);
    if (how == 0)
        log_info("Slurm job %s is requeued: Slurm will run it again", job);
    else if (how == -1)
        log_warnx("cannot requeue Slurm job %s: scontrol did not end within "
                  "%d s",
                  job, (int)(PATIENCE_US / MONO_S));
    else if (WIFEXITED(how) && WEXITSTATUS(how) == NOT_RUNNING)
        log_warnx("Slurm job %s is not requeued: it is not running any more "
                  "(it was cancelled, or its time is over; sbatch "
                  "--signal=B:USR1@120 gives notice of that)",
                  job);
    else
        log_warnx("cannot requeue Slurm job %s: scontrol failed (is it in PATH "
                  "here, and was the job submitted with --requeue?)",
                  job);
}
