/* links: launcher/hang/rank_look launcher/proc/procfs */
/* links: rendezvous/base/{err,log,mono,utf8,buf,open_files} */
/*
 * What /proc shows of workers, here of children of the test that are stopped,
 * sleep, compute and wait, and what their stacks add to that.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/hang/rank_look.h"
#include "tests/lib/suite.h"

static const struct {
    struct rank_sample before, after;
    bool spins;
    enum rank_doing doing;
} samples[] = {
    {{'S', 5, true}, {'S', 5, true}, false, RANK_SLEEPS},
    {{'S', 5, false}, {'S', 5, true}, false, RANK_WAITS},
    {{'S', 5, false}, {'S', 5, false}, false, RANK_WAITS},
    {{'S', 5, false}, {'S', 15, false}, false, RANK_COMPUTES},
    {{'S', 5, false}, {'S', 15, false}, true, RANK_WAITS},
    {{'R', 5, false}, {'R', 5, false}, false, RANK_COMPUTES},
    {{'R', 5, false}, {'R', 5, false}, true, RANK_WAITS},
    {{'R', 5, false}, {'S', 5, false}, false, RANK_WAITS},
    {{'D', 5, false}, {'D', 5, false}, false, RANK_IN_KERNEL},
    {{'S', 5, false}, {'D', 5, false}, false, RANK_WAITS},
    {{'T', 5, false}, {'T', 5, false}, true, RANK_STOPPED},
    {{'S', 5, false}, {'t', 5, false}, false, RANK_STOPPED},
    {{'S', 5, false}, {'Z', 5, false}, false, RANK_DEFUNCT},
    {{'S', 5, false}, {'?', 0, false}, false, RANK_UNSEEN},
    {{'?', 0, false}, {'?', 0, false}, false, RANK_UNSEEN},
};

TEST_EACH(test_rank_look_judges_two_samples, samples)
{
    ck_assert_int_eq(rank_look_judge(&samples[_i].before, &samples[_i].after,
                                     samples[_i].spins),
                     samples[_i].doing);
}

static const struct {
    enum rank_doing doing;
    struct stack_place place;
    enum rank_doing then;
} places[] = {
    {RANK_WAITS, {.where = "f"}, RANK_ELSEWHERE},
    {RANK_WAITS, {.where = "f", .collective = true}, RANK_IN_COLLECTIVE},
    {RANK_WAITS, {.where = "f", .device = true}, RANK_WAITS},
    {RANK_SLEEPS, {.where = "f"}, RANK_SLEEPS},
    {RANK_SLEEPS, {.where = "f", .collective = true}, RANK_IN_COLLECTIVE},
    {RANK_COMPUTES, {.where = "f"}, RANK_COMPUTES},
    {RANK_COMPUTES, {.where = "f", .collective = true}, RANK_IN_COLLECTIVE},
    {RANK_COMPUTES, {.where = "f", .device = true}, RANK_WAITS},
    {RANK_STOPPED, {.where = "f", .collective = true}, RANK_STOPPED},
    {RANK_WAITS, {.where = ""}, RANK_WAITS},
};

TEST_EACH(test_rank_look_takes_what_a_stack_adds, places)
{
    struct rank_look look = {.doing = places[_i].doing};
    rank_look_place(&look, &places[_i].place);
    ck_assert_int_eq(look.doing, places[_i].then);
    ck_assert_str_eq(look.where, places[_i].place.where);
}

/* -- real processes -------------------------------------------------------- */

static void be_stopped(void)
{
    (void)raise(SIGSTOP);
}

static void sleep_long(void)
{
    const struct timespec t = {.tv_sec = 1000};
    (void)nanosleep(&t, NULL);
}

static void compute(void)
{
    for (volatile int n = 0;; n = n + 1)
        ;
}

static void wait_for_ever(void)
{
    (void)pause();
}

/* -- whether they work ----------------------------------------------------- */

/* Of two workers; the second sleeps in all of them. */
static const struct {
    struct rank_work before, after;
    enum pauses_look look;
} works[] = {
    {{.state = 'S'}, {.state = 'S'}, PAUSES_STILL},
    {{.state = 'D'}, {.state = 'D'}, PAUSES_STILL},
    {{.state = 'S'}, {.state = 'S', .cpu_ticks = 25}, PAUSES_WORKS},
    {{.state = 'S'}, {.state = 'S', .cpu_ticks = 15}, PAUSES_STILL},
    {{.state = 'R'},
     {.state = 'R', .cpu_ticks = 99, .spins = true},
     PAUSES_SPINS},
    {{.state = 'R'},
     {.state = 'R', .cpu_ticks = 99, .spins = true, .faults = 500},
     PAUSES_WORKS},
    {{.state = 'S'},
     {.state = 'S', .bytes = 1 << 20, .spins = true},
     PAUSES_WORKS},
    {{.state = 'S'}, {.state = 'S', .bytes = 1000}, PAUSES_STILL},
    {{.state = 'S'}, {.state = 'S', .children_ticks = 40}, PAUSES_WORKS},
    {{.state = 'R'}, {.state = 'R'}, PAUSES_WORKS}, /* it got no CPU */
    {{.state = 'S', .child_runs = true},
     {.state = 'S', .child_runs = true},
     PAUSES_WORKS},
    {{.state = 'S'}, {.state = 'S', .child_runs = true}, PAUSES_STILL},
    {{.state = 'S'}, {.state = 'T'}, PAUSES_ODD},
    {{.state = 'S'}, {.state = 'Z'}, PAUSES_ODD},
    {{.state = 'S'}, {.state = 't'}, PAUSES_TRACED},
    {{.state = 'S'}, {.state = '?'}, PAUSES_WORKS},
};

TEST_EACH(test_rank_look_judges_whether_they_work, works)
{
    struct rank_work before[2] = {works[_i].before, {.state = 'S'}};
    struct rank_work after[2] = {works[_i].after, {.state = 'S'}};
    ck_assert_int_eq(rank_look_judge_work(before, after, 2), works[_i].look);
}

/* One that is alone, or all: somebody means it. */
TEST(test_rank_look_if_all_are_stopped_they_are_held)
{
    const struct rank_work stopped[2] = {{.state = 'T'}, {.state = 'T'}};
    ck_assert_int_eq(rank_look_judge_work(stopped, stopped, 1), PAUSES_HELD);
    ck_assert_int_eq(rank_look_judge_work(stopped, stopped, 2), PAUSES_HELD);
}

static pid_t start(void (*what)(void))
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            what();
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    return pid;
}

CASE("processes", .limit_s = 60)

/* A child may not be where it will stand yet. */
TEST(test_rank_look_sees_what_processes_do)
{
    void (*const does[])(void) = {be_stopped, sleep_long, compute,
                                  wait_for_ever};
    const enum rank_doing wanted[] = {RANK_STOPPED, RANK_SLEEPS, RANK_COMPUTES,
                                      RANK_WAITS, RANK_UNSEEN};
    struct rank_look looks[5];
    pid_t pids[5];
    int alike = 0;
    for (int i = 0; i < 4; i++)
        pids[i] = start(does[i]);
    pids[4] = start(wait_for_ever); /* has ended, and is reaped */
    ck_assert_int_eq(kill(pids[4], SIGKILL), 0);
    ck_assert_int_eq(waitpid(pids[4], NULL, 0), pids[4]);
    for (int tries = 0; tries < 40 && alike < 5; tries++) {
        rank_look_all(pids, looks, 5);
        alike = 0;
        for (int i = 0; i < 5; i++)
            alike += looks[i].doing == wanted[i];
    }
    for (int i = 0; i < 5; i++)
        ck_assert_msg(looks[i].doing == wanted[i], "process %d: %d", i,
                      (int)looks[i].doing);
    for (int i = 0; i < 4; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
}

static pid_t child;

/* Itself it only waits. */
static void have_a_child_compute(void)
{
    if (child == 0) {
        pid_t parent = getpid();
        (void)setpgid(0, 0);
        child = fork();
        while (child == 0 && getppid() == parent)
            ;
        if (child == 0)
            _exit(0);
    }
    wait_for_ever();
}

static void write_much(void)
{
    static const char bytes[1 << 16];
    FILE *f = fopen("/dev/null", "we");
    for (int i = 0; f != NULL && i < 16; i++)
        (void)!write(fileno(f), bytes, sizeof(bytes));
    if (f != NULL)
        (void)fclose(f);
    (void)usleep(100 * 1000);
}

TEST_LOOP(test_rank_look_sees_whether_processes_work, 0, 6)
{
    static const struct {
        void (*first)(void), (*second)(void);
        enum pauses_look look;
    } cases[] = {
        {wait_for_ever, sleep_long, PAUSES_STILL},
        {wait_for_ever, compute, PAUSES_WORKS},
        {wait_for_ever, have_a_child_compute, PAUSES_WORKS},
        {write_much, wait_for_ever, PAUSES_WORKS},
        {be_stopped, wait_for_ever, PAUSES_ODD},
        {be_stopped, be_stopped, PAUSES_HELD},
    };
    pid_t pids[2] = {start(cases[_i].first), start(cases[_i].second)};
    enum pauses_look look = PAUSES_TRACED;
    for (int tries = 0; tries < 15 && look != cases[_i].look; tries++)
        look = rank_look_work(pids, 2);
    ck_assert_int_eq(look, cases[_i].look);
    for (int i = 0; i < 2; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
}

SUITE("rank_look", "samples", .tags = "fast")
