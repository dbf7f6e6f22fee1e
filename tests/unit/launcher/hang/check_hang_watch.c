/* links: launcher/hang/{hang_watch,stacks,flight,hang_evidence,odd_rank} */
/* links: launcher/hang/{rank_look,rank_meet,stack_place,stack_line,pauses} */
/* links: rendezvous/client/store rendezvous/base/dial */
/* links: launcher/hang/consoles launcher/worker/{hang,pipe_probe} */
/* links: launcher/conf/{output,options,words,program} */
/* links: launcher/proc/{procfs,signals} tests/lib/{hurt,scratch} OPTS NET */
/* links: PROTO BASE */
/* libs: -luv -lcjson -ldl */
/*
 * A worker that makes no progress is found and told once, with its stacks; it
 * is told as well if they cannot be taken, and why. Workers that move, or are
 * stopped, are not told. The workers are the test's own: what a look at them
 * shows, and a process that sleeps.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/hang/hang_watch.h"
#include "launcher/hang/odd_rank.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static uv_loop_t loop;
static struct conf conf;
static struct msg_world world;
static struct hang_watch *watch;
static pid_t sleeper;
static pid_t stopped; /* the worker with local rank 1, if there are two */
static pid_t busy;    /* the last worker, if there are many */
static bool moves;
static bool has_folder;
static const char *beneath = ""; /* the scratch: ends with a slash */
static int told;
static int told_rank;
static char text[500];
static char path[4096]; /* PATH, as it was */

bool workers_look(const struct workers *workers,
                  int local_rank,
                  struct hang_sample *out)
{
    static int64_t n;
    *out = (struct hang_sample){.step = -1, .output = moves ? ++n : n};
    return workers_pid(workers, local_rank) > 0;
}

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers;
    if (busy > 0)
        return local_rank == conf.nproc - 1 ? busy : sleeper;
    return local_rank == 0 ? sleeper : stopped;
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
        (void)snprintf(to, WORKERS_PATH_MAX, "%s/%s%s", scratch, beneath, name);
}

static void
on_hang(void *ctx, const struct hang_verdict *v, int64_t pid, const char *why)
{
    (void)ctx;
    ck_assert_int_eq(pid, v->local_rank == 0 ? sleeper : stopped);
    told_rank = v->local_rank;
    told++;
    (void)snprintf(text, sizeof(text), "%s", why);
    hang_watch_stop(watch); /* as launcher/loop does with the order to kill */
}

static void on_stands(void *ctx, const char *why)
{
    (void)ctx;
    told++;
    (void)snprintf(text, sizeof(text), "%s", why);
}

static const struct hang_watch_handler handler = {.on_hang = on_hang,
                                                  .on_stands = on_stands};

static void setup(void)
{
    scratch_enter();
    /* No debugger: what /proc shows is enough, and takes no seconds. */
    (void)snprintf(path, sizeof(path), "%s", getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", scratch, 1), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    memset(&conf, 0, sizeof(conf));
    world = (struct msg_world){.world_size = 1};
    conf.nproc = conf.nnodes_max = 1;
    conf.output.redirects[0] = CONF_STDOUT | CONF_STDERR;
    conf.hang.how = CONF_HANG_FIXED;
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

static pid_t start_sleeper(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            (void)pause();
        _exit(0);
    }
    return pid;
}

static bool start(void)
{
    sleeper = start_sleeper();
    hang_watch_start(watch, &world);
    return sleeper > 0;
}

static void end_sleeper(pid_t pid)
{
    /* Once more, if one of the two failed on purpose. */
    while (kill(pid, SIGKILL) != 0 && fault_struck() > 0)
        ;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void stop(void)
{
    hang_watch_stop(watch);
    end_sleeper(sleeper);
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

TEST(test_hang_watch_tells_who_stands_and_where)
{
    char stacks[4000], want[64];
    ck_assert(start());
    run_for(30000);
    ck_assert_int_eq(told, 1);
    ck_assert_int_eq(told_rank, 0);
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

/* Both are silent for as long; the one that is stopped is the cause. */
TEST(test_hang_watch_tells_of_the_one_that_is_waited_for)
{
    conf.nproc = 2;
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    stopped = start_sleeper();
    ck_assert_int_gt(stopped, 0);
    ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
    ck_assert(start());
    run_for(30000);
    ck_assert_int_eq(told, 1);
    ck_assert_int_eq(told_rank, 1);
    ck_assert_msg(strncmp(text, "it is stopped (state T", 22) == 0, "%s", text);
    end_sleeper(stopped);
    stop();
}

TEST(test_hang_watch_spares_who_moves_or_is_stopped)
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

/* What fault_each takes of this process. */
static void read_stderr(char *to, size_t size)
{
    ssize_t n = pread(STDERR_FILENO, to, size - 1, 0);
    to[n > 0 ? n : 0] = '\0';
}

/* A pipe that nobody reads stands for a file system that does not answer:
 * opening it to write waits. The launcher does not, and shows what it has. */
TEST(test_hang_watch_waits_for_no_file_system)
{
    static char seen[8192];
    ck_assert_int_eq(mkfifo("stacks.txt", 0600), 0);
    int err = open("err", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(dup2(err, STDERR_FILENO), 0);
    ck_assert(start());
    run_for(30000);
    read_stderr(seen, sizeof(seen));
    ck_assert_int_eq(told, 1);
    ck_assert_msg(strstr(text, "stacks are in") == NULL, "%s", text);
    ck_assert_msg(strstr(seen, "cannot write the stacks to ") != NULL &&
                      has_state(seen),
                  "%s", seen);
    stop();
}

/* Of a path that is too long to be told the end is, marked as such. */
TEST(test_hang_watch_tells_no_beginning_of_a_path)
{
    char folder[202];
    memset(folder, 'f', 200);
    memcpy(folder + 200, "/", 2);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    beneath = folder;
    ck_assert(start());
    run_for(30000);
    ck_assert_msg(strstr(text, "; its stacks are in ...ffff") != NULL &&
                      strstr(text, "f/stacks.txt") != NULL,
                  "%s", text);
    stop();
}

static pid_t start_busy(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            ;
        _exit(0);
    }
    return pid;
}

/* Of more workers than stacks are taken of, the last one computes, and the
 * others wait for it: they do not stand still. */
TEST(test_hang_watch_sees_each_worker_that_works)
{
    conf.nproc = RANK_LOOKS_MAX + 2;
    conf.hang.how = CONF_HANG_TELL;
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    world.group_world = 2;
    busy = start_busy();
    ck_assert_int_gt(busy, 0);
    ck_assert(start());
    hang_watch_asked(watch, 1);
    ck_assert_int_gt(hang_watch_helper(watch), 0);
    while (hang_watch_helper(watch) > 0)
        run_for(100);
    ck_assert_msg(told == 0, "%s", text);
    end_sleeper(busy);
    busy = 0;
    stop();
}

static int listen_as_store(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, len), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    world.master_port = ntohs(at.sin_port);
    (void)snprintf(world.master_addr, sizeof(world.master_addr), "127.0.0.1");
    return fd;
}

/* Whether this node says in the store that its workers work; it gets no
 * answer there. */
static bool says_works(int store)
{
    char said[4096];
    size_t n = 0;
    struct pollfd p = {.fd = store, .events = POLLIN};
    while (hang_watch_helper(watch) > 0 && poll(&p, 1, 0) == 0)
        run_for(50);
    if (poll(&p, 1, 0) == 0)
        return false;
    int fd = accept(store, NULL, NULL);
    for (ssize_t more = 1; more > 0 && n < sizeof(said) - 1;) {
        more = read(fd, said + n, sizeof(said) - 1 - n);
        n += more > 0 ? (size_t)more : 0;
        if (memmem(said, n, "works\n", 6) != NULL)
            break;
    }
    ck_assert_int_eq(close(fd), 0);
    return memmem(said, n, "works\n", 6) != NULL;
}

/* Another node asks while the workers of this one are paused, while one works
 * and the other has ended, and while that one does nothing. */
TEST_LOOP(test_hang_watch_answers_when_there_is_no_evidence, 0, 3)
{
    bool paused = _i == 0, works = _i <= 1;
    conf.nproc = 2;
    conf.hang.how = CONF_HANG_AUTO;
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    world.group_world = 2;
    int store = listen_as_store();
    stopped = paused ? start_sleeper() : 0;
    sleeper = works && !paused ? start_busy() : start_sleeper();
    hang_watch_start(watch, &world);
    hang_watch_pause(watch, paused);
    hang_watch_asked(watch, 1);
    ck_assert_int_gt(hang_watch_helper(watch), 0);
    ck_assert_int_eq(says_works(store), works);
    while (hang_watch_helper(watch) > 0)
        run_for(50);
    ck_assert_msg(told == 0, "%s", text);
    if (paused)
        end_sleeper(stopped);
    stop();
}

/* A worker ends well while the others are looked at, and perhaps they wait for
 * the end of the round: that is no stand, and who has ended is no cause. */
TEST_LOOP(test_hang_watch_tells_nothing_once_a_worker_has_ended, 0, 3)
{
    static const enum conf_hang hows[] = {CONF_HANG_AUTO, CONF_HANG_TELL,
                                          CONF_HANG_FIXED};
    conf.hang.how = hows[_i];
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    world.group_world = 2;
    ck_assert(start());
    hang_watch_asked(watch, 1);
    while (hang_watch_helper(watch) == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    pid_t ended = sleeper;
    sleeper = 0;
    while (hang_watch_helper(watch) > 0 && told == 0)
        run_for(100);
    ck_assert_msg(told == 0, "%s", text);
    sleeper = ended;
    stop();
}

/* The workers go on while the evidence is taken, and no look has seen it yet.
 */
TEST_LOOP(test_hang_watch_looks_again_before_it_tells, 0, 2)
{
    siginfo_t info;
    conf.hang.how = _i == 0 ? CONF_HANG_AUTO : CONF_HANG_TELL;
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    world.group_world = 2;
    ck_assert(start());
    hang_watch_asked(watch, 1);
    pid_t helper = hang_watch_helper(watch);
    ck_assert_int_gt(helper, 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)helper, &info, WEXITED | WNOWAIT), 0);
    moves = true;
    hang_watch_helper_ended(watch);
    ck_assert_msg(told == 0, "%s", text);
    stop();
}

/* Its stacks are being taken when its round ends. */
TEST(test_hang_watch_tells_nothing_of_a_round_that_is_over)
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

/* A process that takes itself for a Python. */
static pid_t start_python(void)
{
    static char python[PATH_MAX];
    (void)snprintf(python, sizeof(python), "%s/python3", scratch);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/cp", "cp", "/bin/sleep", python, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execl(python, "python3", "100", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void install_gdb(void)
{
    FILE *f = fopen("gdb", "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fprintf(f, "#!/bin/sh\necho \"$*\" >>%s/args\n", scratch),
                     0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod("gdb", 0700), 0);
}

/* Where nothing ends, with tell, or with auto for another node's question, gdb
 * calls no function of the interpreter, as it does else. */
TEST_LOOP(test_hang_watch_calls_nothing_in_workers_that_may_be_well, 0, 3)
{
    static const enum conf_hang hows[] = {CONF_HANG_FIXED, CONF_HANG_AUTO,
                                          CONF_HANG_TELL};
    char args[4000];
    conf.hang.how = hows[_i];
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    world.group_world = 2;
    install_gdb();
    sleeper = start_python();
    ck_assert_int_gt(sleeper, 0);
    hang_watch_start(watch, &world);
    hang_watch_asked(watch, 1);
    run_for(30000);
    ck_assert_int_eq(told, 1);
    read_file("args", args, sizeof(args));
    ck_assert_ptr_nonnull(strstr(args, "thread apply all"));
    ck_assert_int_eq(strstr(args, "_Py_Dump") != NULL, _i == 0);
    stop();
}

/* -- a call fails ---------------------------------------------------------- */

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
    bool saved = strstr(text, "its stacks are in") != NULL;
    if (has_folder && !saved)
        return HURT_TOLD;
    if (saved)
        read_file("stacks.txt", stacks, sizeof(stacks));
    else
        read_stderr(stacks, sizeof(stacks));
    return has_state(stacks) ? HURT_DONE : HURT_TOLD;
}

CASE("net faults", FAULT_CASE(60), FIXTURE(setup, teardown))

/* Its workers may well work: that another node's stand still blames none. */
TEST_LOOP(test_hang_watch_that_is_asked_and_cannot_look_blames_nobody, 0, 2)
{
    conf.hang.how = _i == 0 ? CONF_HANG_AUTO : CONF_HANG_TELL;
    watch = hang_watch_new(&loop, &conf, NULL, &handler, NULL);
    world.group_world = 2;
    ck_assert(start());
    fault_plan("test:fork:1:EAGAIN");
    hang_watch_asked(watch, 1);
    ck_assert_int_eq(fault_struck(), 1);
    fault_end();
    ck_assert_int_eq(hang_watch_helper(watch), 0);
    ck_assert_int_eq(told, 0);
    stop();
}

TEST(test_hang_watch_tells_whatever_call_fails)
{
    hurt_each("test", 2, run, NULL, "memfd_create fork dup fdopen");
}

TEST(test_hang_watch_without_a_folder_tells_whatever_call_fails)
{
    has_folder = false;
    hurt_each("test", 1, run, NULL, "memfd_create");
}

SUITE("hang_watch", "net", .limit_s = 60, FIXTURE(setup, teardown))
