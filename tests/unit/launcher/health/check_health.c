/* links: launcher/health/{health,gpu_health,said} */
/* links: launcher/hw/{gpus,kfd,nvml,topology,cpus} launcher/proc/signals */
/* links: tests/lib/hurt NET PROTO BASE */
/* libs: -luv -lcjson -ldl */
/*
 * The health check of a node: what its process says and how it ends is what is
 * told; and if a system call fails, the node is unfit and the reason is told.
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

#include "launcher/health/health.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/suite.h"

static uv_loop_t loop;
static struct conf conf;
static struct health *health;
static int told; /* so often */
static bool fit;
static char reason[2000];
static const pid_t nobody[1]; /* of the dead workers */

static void on_checked(void *ctx, bool is_fit, const char *why)
{
    (void)ctx;
    told++;
    fit = is_fit;
    (void)snprintf(reason, sizeof(reason), "%s", why);
}

static const struct health_handler handler = {.on_checked = on_checked};

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    memset(&conf, 0, sizeof(conf));
    conf.health_timeout_us = 5 * MONO_S;
    health = health_new(&loop, &conf, &handler, NULL);
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    uv_close(handle, NULL);
}

static void teardown(void)
{
    health_stop(health);
    uv_walk(&loop, close_handle, NULL);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* As launcher/loop does when it is told of a child's end. */
static void reap(void)
{
    siginfo_t info = {.si_pid = 0};
    pid_t helper = health_helper(health);
    if (helper > 0 &&
        waitid(P_PID, (id_t)helper, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == helper)
        health_helper_ended(health);
}

/* Until it is told, or 30 s. */
static void check_with(const char *command)
{
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    (void)snprintf(conf.health_check, sizeof(conf.health_check), "%s", command);
    told = 0;
    health_start(health, nobody, 0);
    while (told == 0 && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        reap();
        (void)usleep(1000);
    }
}

/* -- how it ends ----------------------------------------------------------- */

static const struct {
    const char *command;
    bool fit;
    const char *why;
} ends[] = {
    {"true", true, ""},
    {"echo all is well", true, "all is well"},
    {"exit 3", false, "the health check ended with exit code 3"},
    {"echo a; echo the disk is full >&2; exit 3", false,
     "the disk is full (the health check ended with exit code 3)"},
    {"kill -9 $$", false, "the health check was killed by SIGKILL"},
    {"head -c 3000000 /dev/zero | tr '\\0' '\\n'; echo hot; exit 3", false,
     "hot [the end of 2929 KiB] (the health check ended with exit code 3)"},
    /* What it leaves behind is not waited for. */
    {"echo a; setsid sleep 8 & exit 0", true, "a"},
};

TEST_EACH(test_health_tells_how_the_check_ended, ends)
{
    int64_t until_us = mono_now_us() + 8 * MONO_S;
    check_with(ends[_i].command);
    ck_assert_int_eq(told, 1);
    ck_assert(mono_now_us() < until_us);
    ck_assert_int_eq(fit, ends[_i].fit);
    ck_assert_str_eq(reason, ends[_i].why);
    ck_assert_int_eq(health_helper(health), 0);
}

/* Of the memory file that this process has for what the check prints. */
static blkcnt_t blocks_of_the_output(void)
{
    char link[64], name[64];
    struct stat st;
    for (int fd = 3; fd < 64; fd++) {
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, name, sizeof(name) - 1);
        name[n > 0 ? n : 0] = '\0';
        if (strstr(name, "ddprun-health") != NULL && fstat(fd, &st) == 0)
            return st.st_blocks;
    }
    return 0;
}

CASE("faults", .tags = FAULT_TAG, .limit_s = 60, FIXTURE(setup, teardown))

/* And all that it started is killed. */
TEST(test_health_check_has_a_time_limit)
{
    conf.health_timeout_us = MONO_S;
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    check_with("sleep 60 & echo $!; wait");
    ck_assert_int_eq(told, 1);
    ck_assert(!fit);
    pid_t left = (pid_t)atoi(reason);
    ck_assert_int_gt(left, 0);
    ck_assert_ptr_nonnull(strstr(reason, "(the health check took longer than "
                                         "1 s (--health_check))"));
    int status = 0;
    ck_assert_int_eq(waitpid(left, &status, 0), left);
    ck_assert(WIFSIGNALED(status));
}

CASE("net")

/* The memory that all of the processes have together does not grow. */
TEST(test_health_check_that_prints_for_ever_takes_no_memory)
{
    int64_t began_us = mono_now_us();
    conf.health_timeout_us = 2 * MONO_S;
    (void)snprintf(conf.health_check, sizeof(conf.health_check), "yes hot");
    told = 0;
    health_start(health, nobody, 0);
    blkcnt_t blocks = 0;
    while (told == 0 && mono_now_us() < began_us + 30 * MONO_S) {
        blkcnt_t now = blocks_of_the_output();
        blocks = now > blocks ? now : blocks;
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        reap();
        (void)usleep(1000);
    }
    ck_assert_int_eq(told, 1);
    ck_assert_int_gt(blocks, 0);
    ck_assert_int_le(blocks, 128); /* of 512 bytes: a page, be it of 64 KiB */
    ck_assert_msg(strncmp(reason, "hot [the end of ", 16) == 0 &&
                      strstr(reason, "took longer than 2 s") != NULL,
                  "%s", reason);
}

TEST(test_health_stop_tells_nothing)
{
    told = 0;
    (void)snprintf(conf.health_check, sizeof(conf.health_check), "sleep 60");
    health_start(health, nobody, 0);
    ck_assert_int_gt(health_helper(health), 0);
    health_stop(health);
    ck_assert_int_eq(health_helper(health), 0);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(told, 0);
}

/* -- a call fails ---------------------------------------------------------- */

/* A check that finds something wrong: the node is never fit. */
static int run(void *ctx)
{
    (void)ctx;
    int before = fault_descriptors();
    check_with("echo it is hot; exit 3");
    if (told != 1)
        return HURT_LATE;
    if (fit)
        return hurt_wrong("the node is fit");
    if (fault_descriptors() != before)
        return HURT_LEAK;
    if (strcmp(reason, "it is hot (the health check ended with exit code 3)") ==
        0)
        return HURT_DONE;
    return hurt_told(reason);
}

CASE("faults")

TEST(test_health_is_unfit_and_says_why_whatever_call_fails)
{
    hurt_each("test", 2, run, NULL, "memfd_create fork");
}

TEST(test_health_is_unfit_and_says_why_whatever_call_of_it_fails)
{
    hurt_each("helper1", 2, run, NULL, "fcntl dup2 pipe2 signalfd fork");
}

SUITE("health", "net", .limit_s = 60, FIXTURE(setup, teardown))
