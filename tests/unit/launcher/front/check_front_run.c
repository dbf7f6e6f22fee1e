/* links: tests/lib/{job,conf_line,words} */
/* libs: -lcjson -ldl */
/*
 * A front end with proxies and launchers, all on this machine (tests/lib/job).
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/job.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define WITH "--launch_with=./stand-in "

/* -- the job's status ------------------------------------------------------ */

static const struct {
    const char *line;
    int status;
} ends[] = {
    {"--hosts=a,b,c exit 0", 0},
    {"--hosts=a,b,c exit 7", 7},
    {"--hosts=a exit 255", 255},    /* ssh's own status for a lost connection */
    {"--hosts=a,b,c exit0 143", 0}, /* the others left */
};

TEST_EACH(test_front_ends_with_the_status_of_the_launchers, ends)
{
    char line[200];
    (void)snprintf(line, sizeof(line), WITH "%s", ends[_i].line);
    job_start("", line);
    ck_assert_int_eq(job_end(), ends[_i].status);
    ck_assert_msg(job_count("ddprun: ") == 1, "%s",
                  job_shown); /* that it starts */
    ck_assert_ptr_null(strchr(job_shown, '\001'));
}

/* -- output ---------------------------------------------------------------- */

TEST(test_front_shows_all_lines_once_and_whole)
{
    job_start("", WITH "--hosts=chatty1,b,c lines 500");
    ck_assert_int_eq(job_end(), 0);
    job_has_lines(3, 500);
    ck_assert_int_eq(job_count("chatty1: a banner\n"), 1);
    ck_assert_ptr_null(strchr(job_shown, '\001'));
}

/* -- what a host gets ------------------------------------------------------ */

TEST(test_front_passes_on_folder_and_variables)
{
    char want[200];
    job_start("A=1 B=2", WITH "--hosts=a,b --export=A where");
    ck_assert_int_eq(job_end(), 0);
    for (int rank = 0; rank < 2; rank++) {
        (void)snprintf(want, sizeof(want),
                       "rank %d folder %s A 1 B none stdin 0\n", rank, scratch);
        ck_assert_msg(job_count(want) == 1, "%s", job_shown);
    }
}

/* -- signals --------------------------------------------------------------- */

static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

TEST_EACH(test_front_passes_signals_on, passed)
{
    char want[32];
    job_start("", WITH "--hosts=a,b,c hold");
    for (int rank = 0; rank < 3; rank++) {
        (void)snprintf(want, sizeof(want), "rank %d holds", rank);
        job_comes(want);
    }
    ck_assert_int_eq(kill(job_pid, SIGUSR1), 0);
    for (int rank = 0; rank < 3; rank++) {
        (void)snprintf(want, sizeof(want), "rank %d got %d\n", rank, SIGUSR1);
        job_comes(want);
    }
    ck_assert_int_eq(kill(job_pid, passed[_i]), 0);
    ck_assert_int_eq(job_end(), 128 + passed[_i]);
    (void)snprintf(want, sizeof(want), " got %d\n", passed[_i]);
    ck_assert_msg(job_count(want) == 3, "%s", job_shown);
    ck_assert_int_eq(job_count(" got "), 6);
}

/* A host that has not answered is not waited for. */
TEST(test_front_ends_soon_while_a_host_is_silent)
{
    int64_t began_us = mono_now_us();
    job_start("", WITH "--hosts=a,slow hold");
    job_comes("rank 0 holds");
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    ck_assert_int_lt(mono_now_us() - began_us, 10 * MONO_S * suite_slow());
}

/* -- hosts that cannot be reached ------------------------------------------ */

static const struct {
    const char *line;
    int status;
    const char *want;
} lost[] = {
    {"--hosts=a,none1,c hold", 69,
     "cannot start on none1: stand-in ended with status 255"},
    {"--hosts=a,none1,c hold", 69,
     "at most 2 hosts can be reached, and the job needs 3: ending it"},
    {"--hosts=a,none1,c hold", 69, "none1: no such host\n"},
    {"--hosts=a,slow --launch_timeout=1 hold", 69,
     "cannot start on slow: no answer within 1 s"},
    {"--hosts=none1,none2 --nnodes=1 hold", 69,
     "no host can be reached, and the job needs 1: ending it"},
    /* fewer will do */
    {"--hosts=a,none1,c --nnodes=2:3 exit 3", 3,
     "cannot start on none1: stand-in ended with status 255"},
};

TEST_EACH(test_front_names_a_host_that_cannot_be_reached, lost)
{
    char line[200];
    (void)snprintf(line, sizeof(line), WITH "%s", lost[_i].line);
    job_start("", line);
    ck_assert_int_eq(job_end(), lost[_i].status);
    ck_assert_msg(job_count(lost[_i].want) == 1, "%s", job_shown);
}

CASE("hosts", .limit_s = 60, FIXTURE_ONCE(job_setup, scratch_leave))

/* What was started for a host that is given up is reaped, while the others go
 * on. */
TEST(test_front_reaps_what_it_gave_up)
{
    char text[16] = "";
    int64_t until_us = mono_now_us() + JOB_LIMIT_US * suite_slow();
    job_start("", WITH "--hosts=a,slow --nnodes=1:2 --launch_timeout=1 hold");
    job_comes("cannot start on slow: no answer within 1 s");
    FILE *f = fopen("slow.pid", "re");
    ck_assert(f != NULL && fgets(text, sizeof(text), f) != NULL);
    ck_assert_int_eq(fclose(f), 0);
    pid_t pid = (pid_t)atoi(text);
    ck_assert_int_gt(pid, 1);
    while (kill(pid, 0) == 0) {
        ck_assert_msg(mono_now_us() < until_us, "%d is left", (int)pid);
        (void)usleep(10 * 1000);
    }
    job_comes("rank 0 holds");
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    ck_assert_int_eq(job_count("cannot start on"), 1);
}

/* Its hello waits behind what the console does not take. */
TEST(test_front_gives_up_no_host_that_it_does_not_read)
{
    job_start("", WITH "--hosts=a,flood --launch_timeout=1 exit 0");
    (void)usleep(2500 * 1000);
    ck_assert_int_eq(job_end(), 0);
    ck_assert_int_eq(job_count("no answer"), 0);
    ck_assert_int_eq(job_count("flood: a line that nobody wants"), 20000);
}

/* Before any launcher has a status. */
TEST(test_front_ends_with_the_signal_if_no_host_has_answered)
{
    job_start("", WITH "--hosts=slow1,slow2 hold");
    job_comes("starting on 2 hosts");
    ck_assert_int_eq(kill(job_pid, SIGINT), 0);
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    ck_assert_int_eq(job_end(), 128 + SIGINT);
}

/* Some have not answered, some wait for their turn. */
TEST(test_front_waits_for_no_host_that_the_job_did_without)
{
    char hosts[600] = "", line[1000];
    for (int i = 1, n = 0; i <= 40; i++)
        n += snprintf(hosts + n, sizeof(hosts) - (size_t)n, ",slow%d", i);
    (void)snprintf(line, sizeof(line), WITH "--nnodes=1:41 --hosts=a%s exit 0",
                   hosts);
    int64_t began_us = mono_now_us();
    job_start("", line);
    ck_assert_int_eq(job_end(), 0);
    ck_assert_int_lt(mono_now_us() - began_us, 10 * MONO_S * suite_slow());
    ck_assert_int_eq(
        job_count("giving up slow1, which has not answered: the job succeeded "
                  "without it"),
        1);
    ck_assert_int_eq(job_count("slow40"), 0); /* it was never started */
    ck_assert_int_eq(job_count("cannot start on"), 0);
}

/* A launcher that stays is one that joins a run which has ended. */
TEST(test_front_ends_launchers_that_stay_after_a_success)
{
    job_start("", WITH "--hosts=a,b,c --shutdown_timeout=0 part 0");
    ck_assert_int_eq(job_end(), 0);
    ck_assert_int_eq(job_count(" got 15\n"), 2);
    ck_assert_int_eq(job_count("succeeded, and 2 launchers do not end"), 1);
}

/* The soft limit is raised; where the hard one is too low, nothing is started.
 */
TEST(test_front_has_descriptors_for_all_hosts_or_says_so)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 16;
    ck_assert(limit.rlim_max > 100);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    job_start("", WITH "--hosts=a,b,c,d,e exit 0");
    ck_assert_int_eq(job_end(), 0);
    limit.rlim_max = 40;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    job_start("", WITH "--hosts=a,b,c,d,e exit 0");
    ck_assert_int_eq(job_end(), 71);
    ck_assert_str_eq(job_shown,
                     "ddprun: cannot start on 5 hosts: that needs 47 open "
                     "files, and the limit is 40 (ulimit -Hn)\n");
}

CASE("front")

TEST(test_front_without_the_command_says_so)
{
    job_start("", "--launch_with=./nothing --hosts=a exit 0");
    ck_assert_int_eq(job_end(), 69);
    ck_assert_int_eq(job_count("a: ddprun: cannot execute ./nothing"), 1);
    ck_assert_int_eq(job_count("ended with status 127 (is ddprun there"), 1);
}

TEST(test_front_names_a_host_without_the_folder)
{
    ck_assert_int_eq(mkdir("folder", 0755), 0);
    ck_assert_int_eq(chdir("folder"), 0);
    job_start("", "--launch_with=../stand-in --hosts=gone1 exit 0");
    ck_assert_int_eq(chdir(".."), 0);
    ck_assert_int_eq(job_end(), 69);
    ck_assert_msg(job_count("/folder on ") == 1, "%s", job_shown);
    ck_assert_msg(job_count("cannot start on gone1: stand-in ended with status "
                            "66") == 1,
                  "%s", job_shown);
}

/* -- launchers that fail alone --------------------------------------------- */

static const struct {
    const char *line;
    int status;
    const char *want;
} few[] = {
    {"--hosts=a,b,c part 66", 66,
     "1 launcher ended without success, so at most 2 are left, and the job "
     "needs 3: ending it"},
    {"--hosts=a,cut1,c hold", 77,
     "1 launcher ended without success, so at most 2 are left"},
    {"--hosts=a,b,none1 --nnodes=2:3 part 127", 127, "so at most 1 is left"},
    {"--hosts=a,b,c part 143", 143, "so at most 2 are left"},
};

/* The others would wait for a node that nobody starts. Only if one left in
 * order may their workers still save, and have the long grace. */
TEST_EACH(test_front_ends_a_job_of_which_too_few_launchers_are_left, few)
{
    char line[200];
    bool ordered = few[_i].status == 143;
    (void)snprintf(line, sizeof(line),
                   WITH "--failure_grace=0.5 --shutdown_timeout=%s %s",
                   ordered ? "2" : "600", few[_i].line);
    int64_t began_us = mono_now_us();
    job_start("", line);
    ck_assert_int_eq(job_end(), few[_i].status);
    if (ordered)
        ck_assert_int_ge(mono_now_us() - began_us, 7 * MONO_S);
    ck_assert_msg(job_count(few[_i].want) == 1, "%s", job_shown);
}

/* Fewer will do. */
TEST(test_front_leaves_a_job_alone_that_can_go_on)
{
    job_start("",
              WITH "--hosts=a,b,c --nnodes=2:3 --shutdown_timeout=1 part 66");
    job_comes("rank 0 holds");
    job_comes("rank 2 holds");
    (void)sleep(8);
    ck_assert_int_eq(kill(job_pid, SIGTERM), 0);
    ck_assert_int_eq(job_end(), 128 + SIGTERM);
    ck_assert_msg(job_count("left") == 0, "%s", job_shown);
}

/* -- srun ------------------------------------------------------------------ */

#define SCRIPT                                                                 \
    "SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST=n[1-2] "

/* In place of srun: its first options are given, the rest is executed. */
static void make_srun(const char *body)
{
    FILE *f = fopen("bin/srun", "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    ck_assert_int_eq(fchmod(fileno(f), 0755), 0);
    ck_assert_int_eq(fclose(f), 0);
}

TEST(test_front_of_a_script_ends_as_srun_does_if_nothing_was_started)
{
    make_srun("echo 'srun: error: no' >&2; exit 3");
    job_start(SCRIPT, "exit 0");
    ck_assert_int_eq(job_end(), 3);
    ck_assert_int_eq(job_count("srun: error: no\n"), 1);
    ck_assert_int_eq(job_count("ddprun: Slurm job 17: starting on its 2 nodes"),
                     1);
    (void)unlink("bin/srun");
}

/* The status is the launchers' own, whatever srun makes of a lost node. */
TEST(test_front_of_a_script_ends_as_its_launchers_do)
{
    make_srun("while [ \"${1#--}\" != \"$1\" ]; do shift; done\n"
              "\"$@\"; exit 9");
    job_start(SCRIPT, "exit 5");
    ck_assert_int_eq(job_end(), 5);
    job_start(SCRIPT, "exit 0");
    ck_assert_int_eq(job_end(), 0);
    (void)unlink("bin/srun");
}

/* srun gives the limits of its caller to all tasks: they must be the user's. */
TEST(test_front_leaves_the_limits_of_its_children_alone)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 123;
    ck_assert(limit.rlim_max > limit.rlim_cur);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    make_srun("echo limit $(ulimit -n); exit 3");
    job_start(SCRIPT, "exit 0");
    ck_assert_int_eq(job_end(), 3);
    ck_assert_msg(job_count("limit 123\n") == 1, "%s", job_shown);
    (void)unlink("bin/srun");
}

/* -- a dead front end ------------------------------------------------------ */

/* Until the launchers whose "holds PID" was shown are gone. */
static void are_gone(void)
{
    int64_t until_us = mono_now_us() + JOB_LIMIT_US * suite_slow();
    for (const char *p = job_shown; (p = strstr(p, " holds ")) != NULL; p++) {
        pid_t pid = (pid_t)atoi(p + 7);
        ck_assert_int_gt(pid, 1);
        while (kill(pid, 0) == 0) {
            ck_assert_msg(mono_now_us() < until_us, "%d is left", (int)pid);
            (void)waitpid(-1, NULL, WNOHANG); /* it may come to us */
            (void)usleep(10 * 1000);
        }
    }
}

static int count_noted(const char *line)
{
    char text[100];
    int n = 0;
    FILE *f = fopen("signals", "r");
    while (f != NULL && fgets(text, sizeof(text), f) != NULL)
        n += strstr(text, line) != NULL;
    if (f != NULL)
        (void)fclose(f);
    return n;
}

/* All launchers get SIGTERM, and nothing is left. */
TEST(test_front_that_is_killed_leaves_nothing)
{
    job_start("", WITH "--hosts=a,b hold");
    job_comes("rank 0 holds");
    job_comes("rank 1 holds");
    (void)unlink("signals");
    ck_assert_int_eq(kill(job_pid, SIGKILL), 0);
    ck_assert_int_eq(job_end(), 128 + SIGKILL);
    are_gone();
    ck_assert_int_eq(count_noted(" got 15\n"), 2);
}

/* A launcher that does not end is killed when its grace is over. */
TEST(test_front_that_is_killed_leaves_no_deaf_launcher)
{
    job_start("", WITH "--hosts=a --shutdown_timeout=0 deaf");
    job_comes("rank 0 holds");
    (void)unlink("signals");
    int64_t began_us = mono_now_us();
    ck_assert_int_eq(kill(job_pid, SIGKILL), 0);
    ck_assert_int_eq(job_end(), 128 + SIGKILL);
    are_gone();
    ck_assert_int_eq(count_noted(" got 15\n"), 1);
    ck_assert_int_ge(mono_now_us() - began_us, 4 * MONO_S);
    ck_assert_int_lt(mono_now_us() - began_us, 10 * MONO_S * suite_slow());
}

int main(int argc, char *argv[])
{
    int status = job_role(argc, argv);
    if (status >= 0)
        return status;
    return SUITE_RUN("front_run", "front", .limit_s = 60,
                     FIXTURE_ONCE(job_setup, scratch_leave));
}
