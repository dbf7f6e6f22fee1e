/* links: launcher/hang/{show_stacks,stacks,stack_line,stack_place,rank_look} */
/* links: launcher/conf/program launcher/proc/{procfs,signals} */
/* links: rendezvous/net/helper TLS PROTO BASE */
/* links: tests/lib/scratch */
/* libs: -luv -lcjson -ldl */
/*
 * What a node sends of a worker whose stacks an operator wants: in whole lines,
 * no more than fits, and why there is nothing. The worker is the test's own,
 * and the debugger a script.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/hang/show_stacks.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static uv_loop_t loop;
static struct show_stacks *shower;
static const struct msg_world world = {.round = 3, .base_rank = 8};
static pid_t worker;
static char path[4096];      /* PATH, as it was */
static char got[256 * 1024]; /* of all parts */
static int64_t number;       /* of the last part */
static int parts;
static bool last;

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers;
    return local_rank == 1 ? worker : 0;
}

static void on_part(void *ctx, const struct msg *part)
{
    const struct msg_answered *f = &part->answered;
    size_t len = strlen(f->text);
    ck_assert_ptr_eq(ctx, &world);
    ck_assert_int_eq(part->kind, MSG_KIND_answered);
    ck_assert(len == 0 || f->text[len - 1] == '\n');
    ck_assert(!last);
    ck_assert_uint_lt(strlen(got) + len, sizeof(got));
    memcpy(got + strlen(got), f->text, len + 1);
    number = f->number;
    last = !f->more;
    parts++;
}

/* The first debugger that is looked for. */
static void install(const char *script)
{
    FILE *f = fopen("gdb", "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(script, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod("gdb", 0700), 0);
    ck_assert_int_eq(setenv("PATH", scratch, 1), 0);
}

static void setup(void)
{
    scratch_enter();
    (void)snprintf(path, sizeof(path), "%s", getenv("PATH"));
    worker = fork();
    if (worker == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    shower =
        show_stacks_new(&loop, NULL, 2, on_part, (void *)(uintptr_t)&world);
}

static void teardown(void)
{
    ck_assert_int_eq(kill(worker, SIGKILL), 0);
    ck_assert_int_eq(waitpid(worker, NULL, 0), worker);
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    scratch_leave();
}

static void order(int64_t no, int64_t round, int local_rank)
{
    const struct msg_look look = {
        .number = no, .round = round, .local_rank = local_rank};
    got[0] = '\0';
    parts = 0;
    last = false;
    show_stacks_begin(shower, &look, &world);
}

/* As the loop does it when the process has ended. */
static void wait_for_helper(void)
{
    siginfo_t info;
    pid_t pid = show_stacks_helper(shower);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    show_stacks_helper_ended(shower);
    ck_assert_int_eq(show_stacks_helper(shower), 0);
}

TEST(test_show_stacks_of_a_worker)
{
    char heading[64];
    install(
        "#!/bin/sh\necho '[New LWP 7]'\necho '#0  0x00 in f (x=1) at a.c:3'\n");
    order(77, 3, 1);
    wait_for_helper();
    ck_assert(last && number == 77 && parts == 1);
    (void)snprintf(heading, sizeof(heading), "rank 9 (pid %d): stacks\n",
                   (int)worker);
    ck_assert_msg(strncmp(got, heading, strlen(heading)) == 0, "%s", got);
    ck_assert_ptr_nonnull(strstr(got, "\n#0  f at a.c:3\n"));
    ck_assert_ptr_null(strstr(got, "New LWP"));
    ck_assert_ptr_nonnull(strstr(got, "threads, as /proc shows them\n"));
    order(78, 3, 1);
    wait_for_helper();
    ck_assert(last && number == 78);
}

/* A line that is longer than a part is cut; the rest of what is too much is
 * left out. */
TEST(test_show_stacks_no_more_than_fits)
{
    install("#!/bin/sh\n"
            "i=0; while [ $i -lt 2000 ]; do i=$((i + 1));\n"
            "echo \"#$i  f_$i at a_long_name_of_a_file_of_some_library.c:3\"\n"
            "[ $i != 9 ] || printf '%05000d\\n' 0; done\n");
    order(1, 3, 1);
    wait_for_helper();
    ck_assert(last && parts > 16);
    ck_assert_uint_le(strlen(got), 70 * 1024);
    ck_assert_ptr_nonnull(strstr(got, "\n#10  f_10 at"));
    ck_assert_ptr_nonnull(strstr(got, "the rest is left out)\n"));
}

/* No such worker, one of another round, a rank that the node has not, two
 * orders at once. */
TEST(test_show_stacks_says_why_there_are_none)
{
    install("#!/bin/sh\nexec 2>&1\necho '#0  f at a.c:3'\n");
    order(1, 3, 0);
    ck_assert(last && strstr(got, "does not run any more") != NULL);
    order(2, 2, 1);
    ck_assert(last && strstr(got, "does not run any more") != NULL);
    order(3, 3, 2);
    ck_assert(last && strstr(got, "does not run any more") != NULL);
    order(4, 3, 1);
    ck_assert_int_eq(parts, 0);
    order(5, 3, 1);
    ck_assert(last && number == 5 && strstr(got, "ask again") != NULL);
    got[0] = '\0';
    last = false;
    wait_for_helper();
    ck_assert(last && number == 4 && strstr(got, "#0  f") != NULL);
}

/* Its time, which is more than that of the debugger, is over. */
static void hurry(uv_handle_t *handle, void *arg)
{
    uv_timer_t *limit = (uv_timer_t *)handle;
    int *timers = arg;
    ck_assert_int_eq(handle->type, UV_TIMER);
    ck_assert_uint_gt(uv_timer_get_due_in(limit), 40 * 1000);
    ck_assert_uint_le(uv_timer_get_due_in(limit), 60 * 1000);
    uv_timer_set_repeat(limit, 1);
    ck_assert_int_eq(uv_timer_again(limit), 0);
    uv_timer_set_repeat(limit, 0);
    ++*timers;
}

/* The process that takes the stacks does not come to an end; this one is
 * stopped once it has begun. What it wrote is sent, and the next order taken.
 */
TEST(test_show_stacks_sends_what_there_is_in_time)
{
    int timers = 0;
    install("#!/bin/sh\necho '#0  f at a.c:3'\n: >begun\n"
            "while :; do :; done\n");
    order(1, 3, 1);
    while (access("begun", F_OK) != 0)
        (void)usleep(1000);
    ck_assert_int_eq(kill(show_stacks_helper(shower), SIGSTOP), 0);
    uv_walk(&loop, hurry, &timers);
    ck_assert_int_eq(timers, 1);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(show_stacks_helper(shower), 0);
    ck_assert(last && number == 1);
    ck_assert_msg(strstr(got, "\n#0  f at a.c:3\n... (the rest is missing") !=
                      NULL,
                  "%s", got);
    install("#!/bin/sh\necho '#0  g at a.c:3'\n");
    order(2, 3, 1);
    wait_for_helper();
    ck_assert(last && strstr(got, "#0  g at") != NULL);
    ck_assert(strstr(got, "missing") == NULL && !uv_loop_alive(&loop));
}

/* The workers are stopped meanwhile: the debugger is gone before. */
TEST(test_show_stacks_ends_with_the_round)
{
    install("#!/bin/sh\nwhile :; do :; done\n");
    order(1, 3, 1);
    ck_assert_int_gt(show_stacks_helper(shower), 0);
    show_stacks_stop(shower);
    ck_assert_int_eq(show_stacks_helper(shower), 0);
    ck_assert(last && strstr(got, "are being stopped") != NULL);
    got[0] = '\0';
    parts = 0;
    show_stacks_stop(shower);
    ck_assert_int_eq(parts, 0);
}

SUITE("show_stacks", "fast", .limit_s = 30, FIXTURE(setup, teardown))
