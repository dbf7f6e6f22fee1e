/* links: launcher/hang/{flight,stacks,stack_line,rank_look,stack_place} */
/* links: launcher/conf/program */
/* links: launcher/proc/{procfs,signals} tests/lib/{hurt,scratch} NET PROTO */
/* links: BASE */
/* libs: -luv -lcjson -ldl -Wl,--wrap=procfs_is_ours */
/*
 * Only a worker that reads its pipe is asked, and the reader starts only if one
 * is. What it says is one line that is safe to print. (That the reader is
 * right: python/tests/test_flight.py.)
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/procfs.h"
#include "launcher/hang/flight.h"
#include "launcher/worker/env.h"
#include "launcher/hang/stacks.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static const struct flight_of of = {.n = 2,
                                    .base_rank = 4,
                                    .world_size = 8,
                                    .round = 3,
                                    .master_addr = "node1",
                                    .master_port = 29500};
static char path[4096]; /* PATH, as it was */

/* -- in place of launcher/worker/workers ----------------------------------- */

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers;
    return local_rank == 0 ? getpid() : 0;
}

void workers_path(const struct workers *workers,
                  int local_rank,
                  const char *name,
                  char to[WORKERS_PATH_MAX])
{
    (void)workers;
    (void)snprintf(to, WORKERS_PATH_MAX, "%s/%d.%s", scratch, local_rank, name);
}

/* -- around launcher/proc/procfs ------------------------------------------- */

static bool foreign; /* /proc is that of another pid namespace */

bool __real_procfs_is_ours(void);
bool __wrap_procfs_is_ours(void);

bool __wrap_procfs_is_ours(void)
{
    return !foreign && __real_procfs_is_ours();
}

/* -- the tests ------------------------------------------------------------- */

/* In place of Python: what it was given. */
static void write_python(void)
{
    FILE *f = fopen("python3", "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_gt(fprintf(f, "#!/bin/sh\nshift 3\necho \"$@\"\n"), 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod("python3", 0755), 0);
}

static void setup(void)
{
    scratch_enter();
    (void)snprintf(path, sizeof(path), "%s", getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", scratch, 1), 0);
    (void)unsetenv(FLIGHT_PIPE_VAR);
    (void)unsetenv(FLIGHT_DUMP_VAR);
    (void)unsetenv(FLIGHT_DUMP_OLD_VAR);
    write_python();
}

static void teardown(void)
{
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    scratch_leave();
}

/* As PyTorch does. Returns the end that is read. */
static int make_pipe(const char *name)
{
    (void)unlink(name);
    if (mkfifo(name, 0666) != 0)
        return -1;
    return open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Asks, waits, and fills in what the reader wrote. False: there was none. */
static bool ask(char text[FLIGHT_TEXT_MAX + 1])
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    if (fd < 0)
        perror("memfd_create");
    flight_wait(flight_ask(fd, &of), mono_now_us());
    flight_text(fd, text);
    if (fd >= 0)
        (void)close(fd);
    return text[0] != '\0';
}

TEST(test_flight_a_worker_that_reads_its_pipe_is_asked)
{
    char text[FLIGHT_TEXT_MAX + 1], want[128], wish[8];
    int fd = make_pipe("0.nccl_trace_rank_4.pipe");
    ck_assert_int_eq(close(open("0.nccl_trace_rank_4", O_CREAT, 0600)), 0);
    ck_assert(ask(text));
    (void)snprintf(want, sizeof(want),
                   "node1 29500 ddprun/flight/3 8 4 2 8 5 "
                   "4=%s/0.nccl_trace_rank_4",
                   scratch);
    ck_assert_str_eq(strstr(text, "node1"), want);
    ck_assert_int_eq(read(fd, wish, sizeof(wish)), 1);
    ck_assert_int_eq(access("0.nccl_trace_rank_4", F_OK), -1);
    (void)close(fd);
}

TEST(test_flight_what_the_user_has_set_counts)
{
    char text[FLIGHT_TEXT_MAX + 1];
    ck_assert_int_eq(setenv(FLIGHT_PIPE_VAR, "mine_", 1), 0);
    ck_assert_int_eq(setenv(FLIGHT_DUMP_OLD_VAR, "/old_", 1), 0);
    int fd = make_pipe("mine_4.pipe");
    ck_assert(ask(text));
    ck_assert_ptr_nonnull(strstr(text, " 4=/old_4"));
    ck_assert_int_eq(setenv(FLIGHT_DUMP_VAR, "/new_", 1), 0);
    ck_assert(ask(text));
    ck_assert_ptr_nonnull(strstr(text, " 4=/new_4"));
    (void)close(fd);
}

/* No pipe; one that is not read; a file in its place, which stays as it is. */
TEST(test_flight_others_are_not_asked)
{
    char text[FLIGHT_TEXT_MAX + 1];
    struct stat st;
    ck_assert(!ask(text));
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(close(make_pipe("0.nccl_trace_rank_4.pipe")), 0);
    ck_assert(!ask(text));
    ck_assert_int_eq(unlink("0.nccl_trace_rank_4.pipe"), 0);
    ck_assert_int_eq(close(open("0.nccl_trace_rank_4.pipe", O_CREAT, 0600)), 0);
    ck_assert(!ask(text));
    ck_assert_int_eq(stat("0.nccl_trace_rank_4.pipe", &st), 0);
    ck_assert_int_eq(st.st_size, 0);
}

/* A Python is found by its file; a number in a foreign /proc is a stranger's.
 */
TEST(test_flight_no_file_of_a_stranger_is_run)
{
    char exe[STACKS_EXE_MAX];
    ck_assert_int_eq(system("/bin/cp /bin/sleep python-here"), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)execl("python-here", "sleep", "60", NULL);
        _exit(127);
    }
    for (int i = 0; i < 2000 && !stacks_find_python(child, exe); i++)
        (void)usleep(10000);
    ck_assert_ptr_nonnull(strstr(exe, "/python-here"));
    foreign = true;
    ck_assert(!stacks_find_python(child, exe));
    ck_assert_str_eq(exe, "");
    foreign = false;
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

TEST(test_flight_the_sentence_is_one_safe_line)
{
    static const char given[] = "rank 1 \033[2J\xff waits\nmore";
    char text[FLIGHT_TEXT_MAX + 1], many[FLIGHT_TEXT_MAX + 50];
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_eq(write(fd, given, sizeof(given) - 1), sizeof(given) - 1);
    flight_text(fd, text);
    ck_assert_str_eq(text, "rank 1 ?[2J? waits");
    memset(many, 'x', sizeof(many));
    ck_assert_int_eq(pwrite(fd, many, sizeof(many), 0), sizeof(many));
    flight_text(fd, text);
    ck_assert_uint_eq(strlen(text), FLIGHT_TEXT_MAX);
    flight_text(-1, text);
    ck_assert_str_eq(text, "");
    (void)close(fd);
}

/* The line behind the sentence lists who is away; anything else lists none. */
TEST_LOOP(test_flight_who_is_away_is_known, 0, 6)
{
    static const struct {
        const char *text, *away; /* a letter for each rank from 0 on */
    } cases[] = {
        {"rank 2 did not come\naway 2 5-7\n", "--a--aaa-"},
        {"all ranks came\naway\n", "---------"},
        {"all ranks came\n", "---------"},
        {"away 1\n", "---------"},
        {"x\naway 3-x 4\n", "---------"},
        {"", "---------"},
    };
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, cases[_i].text, strlen(cases[_i].text)),
                     (ssize_t)strlen(cases[_i].text));
    for (int rank = 0; cases[_i].away[rank] != '\0'; rank++)
        ck_assert_int_eq(flight_is_away(fd, rank), cases[_i].away[rank] == 'a');
    ck_assert(!flight_is_away(-1, 2));
    (void)close(fd);
}

/* -- a call fails ---------------------------------------------------------- */

/* Without the sentence the hang is told all the same. That there is no pipe is
 * no failure: it needs no line. */
static int run(void *ctx)
{
    char text[FLIGHT_TEXT_MAX + 1];
    (void)ctx;
    int before = fault_descriptors();
    int fd = make_pipe("0.nccl_trace_rank_4.pipe");
    if (fd < 0)
        return HURT_TEST;
    bool asked = ask(text);
    (void)close(fd);
    if (fault_descriptors() != before)
        return HURT_LEAK;
    return asked ? HURT_DONE : hurt_told(strerror(ENOENT));
}

CASE("net faults", FAULT_CASE(60), FIXTURE(setup, teardown))

TEST(test_flight_leaves_nothing_whatever_call_fails)
{
    hurt_each("test", 2, run, NULL, "fork");
    hurt_each("child", 2, run, NULL, "open write");
}

SUITE("flight", "net", FIXTURE(setup, teardown))
