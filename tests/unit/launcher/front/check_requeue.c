/* links: tests/lib/scratch launcher/front/requeue */
/* links: rendezvous/base/{err,log,mono,utf8} */
/*
 * When a launcher has its Slurm job run again, with a stand-in for scontrol.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/front/requeue.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/log.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define TERM SIGNALS_BIT(SIGTERM)
#define USR1 SIGNALS_BIT(SIGUSR1)

/* It writes down what it is asked; $STATE is the job's, $REFUSES its status. As
 * Slurm, it ends all of the job, itself as well. */
static const char scontrol[] =
    "#!/bin/sh\n"
    "echo \"$*\" >>asked\n"
    "case $1 in\n"
    "show) [ -n \"$STATE\" ] || exit 1\n"
    "    echo \"JobId=17 JobState=$STATE Reason=None\" ;;\n"
    "requeue) kill -TERM 0; exit \"$REFUSES\" ;;\n"
    "esac\n";

static void read_file(const char *name, char *text, size_t cap)
{
    int fd = open(name, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, cap - 1) : 0;
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    if (fd >= 0)
        ck_assert_int_eq(close(fd), 0);
}

static const struct {
    const char *vars; /* of the launcher, beside SLURM_JOB_ID=17 */
    const char *state;
    const char *refuses;
    int status;
    uint64_t signals;
    const char *asked, *said; /* said: a part; "": nothing */
} cases[] = {
    {"SLURM_NODEID=0", "RUNNING", "0", 143, TERM,
     "show job -o 17\nrequeue 17\n", "Slurm job 17 is requeued: Slurm will"},
    {"SLURM_NODEID=0", "RUNNING", "0", 138, USR1 | TERM,
     "show job -o 17\nrequeue 17\n", "Slurm job 17 is requeued: Slurm will"},
    {"NONE=", "RUNNING", "0", 143, TERM, "show job -o 17\nrequeue 17\n",
     "Slurm job 17 is requeued: Slurm will"},
    {"SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=4", "RUNNING", "0", 143, TERM,
     "show job -o 17_4\nrequeue 17_4\n",
     "Slurm job 17_4 is requeued: Slurm will"},
    /* Slurm does not want it. */
    {"SLURM_NODEID=0", "COMPLETING", "0", 143, TERM, "show job -o 17\n",
     "Slurm job 17 is not requeued: it is not running any more"},
    {"SLURM_NODEID=0", "CANCELLED", "0", 143, TERM, "show job -o 17\n",
     "Slurm job 17 is not requeued: it is not running any more"},
    {"SLURM_NODEID=0", "RUNNING", "1", 143, TERM,
     "show job -o 17\nrequeue 17\n",
     "cannot requeue Slurm job 17: scontrol failed"},
    {"SLURM_NODEID=0", "", "0", 143, TERM, "show job -o 17\n",
     "cannot requeue Slurm job 17: scontrol failed (is it in PATH here"},
    /* It is for another launcher to ask: of another node or component. */
    {"SLURM_NODEID=1", "RUNNING", "0", 143, TERM, "", ""},
    {"SLURM_JOB_NODELIST=m1 SLURM_JOB_NODELIST_HET_GROUP_1=m1", "RUNNING", "0",
     143, TERM, "", ""},
    {"SLURM_JOB_NODELIST=n1 SLURM_JOB_NODELIST_HET_GROUP_1=m1", "RUNNING", "0",
     143, TERM, "show job -o 17\nrequeue 17\n", "Slurm job 17 is requeued"},
    /* The job was not taken away. */
    {"SLURM_NODEID=0", "RUNNING", "0", 0, TERM, "", ""},
    {"SLURM_NODEID=0", "RUNNING", "0", 7, TERM, "", ""},
    {"SLURM_NODEID=0", "RUNNING", "0", 143, 0, "", ""},
    {"SLURM_NODEID=0", "RUNNING", "0", 143, USR1, "", ""},
    {"SLURM_NODEID=0", "RUNNING", "0", 130, SIGNALS_BIT(SIGINT), "", ""},
    {"SLURM_NODEID=0", "RUNNING", "0", 129, SIGNALS_BIT(SIGHUP), "", ""},
    {"SLURM_NODEID=0", "RUNNING", "0", 128 + 127, TERM, "", ""},
};

/* In a process of its own, since it is the end of one. */
static void end_launcher(int i)
{
    char vars[64], *second, path[SCRATCH_MAX + 40];
    int fd = open("said", O_CREAT | O_WRONLY, 0666);
    (void)snprintf(path, sizeof(path), "%s:/usr/bin:/bin", scratch);
    (void)snprintf(vars, sizeof(vars), "%s", cases[i].vars);
    second = strchr(vars, ' ');
    if (second != NULL)
        *second++ = '\0';
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || clearenv() != 0 ||
        putenv(vars) != 0 || (second != NULL && putenv(second) != 0) ||
        setenv("PATH", path, 1) != 0 || setenv("SLURM_JOB_ID", "17", 1) != 0 ||
        setenv("STATE", cases[i].state, 1) != 0 ||
        setenv("REFUSES", cases[i].refuses, 1) != 0)
        abort();
    log_init("ddprun");
    requeue_at_end(cases[i].status, cases[i].signals);
    _exit(0);
}

TEST_EACH(test_requeue_asks_slurm, cases)
{
    char asked[200], said[400];
    int status;
    int fd = open("scontrol", O_CREAT | O_WRONLY, 0777);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, scontrol, sizeof(scontrol) - 1),
                     (ssize_t)sizeof(scontrol) - 1);
    ck_assert_int_eq(close(fd), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        end_launcher(_i);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    read_file("asked", asked, sizeof(asked));
    read_file("said", said, sizeof(said));
    ck_assert_str_eq(asked, cases[_i].asked);
    if (cases[_i].said[0] == '\0')
        ck_assert_str_eq(said, "");
    else
        ck_assert_msg(strstr(said, cases[_i].said) != NULL, "%s", said);
}

SUITE("requeue", "fast", FIXTURE(scratch_enter, scratch_leave))
