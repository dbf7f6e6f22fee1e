/* links: tests/lib/{fault,fault_each} */
/* links: launcher/standby/{standby,forks,policy,command,order,runner,learn} */
/* links: launcher/hw/cpus launcher/worker/{spawn,env,mailbox} */
/* links: launcher/cluster/task_vars */
/* links: launcher/proc/{pidfd,procfs,aborts,cgroup} */
/* links: rendezvous/base/{err,log,mono,utf8,utc,rng,siphash,buf,open_files} */
/* links: rendezvous/base/json rendezvous/proto/{msg,term} */
/* links: rendezvous/net/helper TLS */
/* libs: -luv -lcjson -ldl */
/*
 * A standby is made and takes a worker's place, while each system call of the
 * launcher fails in turn; and one that does what it should not. The importer is
 * this program once more, which speaks the runner's part.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/aborts.h"
#include "launcher/proc/pidfd.h"
#include "launcher/proc/memory.h"
#include "launcher/standby/order.h"
#include "launcher/standby/standby.h"
#include "launcher/worker/env.h"
#include "rendezvous/base/log.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 3
#define LIMIT     3000 /* ticks */
#define TICK_MS   10
#define IN_VAIN   20 /* ticks, in which none comes */
#define MARK      "a worker from a standby"

enum end {
    TAKEN,
    FRESH,     /* the worker is to be started as usual */
    NO_WORKER, /* one that was taken did not do its work */
    LEAKS,
    LATE,
    REFUSED = 71 /* libuv gave up, with a reason */
};

static struct conf conf;
static char python[] = "python", option[] = "-u", script[16] = "GOOD.py";
static char *command[] = {python, option, script, NULL};
static char itself[4096];

/* In place of launcher/worker/workers. */
pid_t workers_pid(const struct workers *workers, int local_rank)
{
    (void)workers, (void)local_rank;
    return getpid();
}

/* In place of launcher/proc/memory: a machine with this much. */
static int64_t machine_free = 1000;

int64_t memory_free(void)
{
    return machine_free;
}

int64_t memory_of(pid_t pid)
{
    return pid > 0 ? 100 : -1;
}

bool memory_fits(int64_t of_worker, int64_t free)
{
    return of_worker <= free;
}

bool memory_short(int64_t of_importer, int64_t free)
{
    return of_importer > free;
}

/* -- the importer ---------------------------------------------------------- */

static int take_fds(int chan, int fds[ORDER_FDS])
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(ORDER_FDS * sizeof(int))];
    } control;
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof(control.room)};
    if (recvmsg(chan, &msg, 0) != 1 || CMSG_FIRSTHDR(&msg) == NULL)
        return 0;
    size_t bytes = CMSG_FIRSTHDR(&msg)->cmsg_len - CMSG_LEN(0);
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), bytes);
    return (int)(bytes / sizeof(int));
}

/* The order has what the worker is to be: here its arguments end in `script`.
 */
static bool is_whole(int order)
{
    char text[8192];
    ssize_t n = pread(order, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    static const char head[] = "1\0"
                               "\0"
                               "3\0python\0-u\0";
    return n > (ssize_t)sizeof(head) &&
           memcmp(text, head, sizeof(head) - 1) == 0;
}

static int stand_by(int chan, const char *how)
{
    int fds[ORDER_FDS];
    pid_t agent = (pid_t)strtol(getenv("FAKE_AGENT"), NULL, 10);
    while (getppid() != agent)
        (void)usleep(200);
    if (strcmp(how, "DIES.py") == 0)
        return 0;
    (void)!write(chan, "r", 1);
    if (take_fds(chan, fds) != ORDER_FDS || !is_whole(fds[0]))
        return 1;
    (void)setsid();
    (void)dup2(fds[2], STDOUT_FILENO);
    if (strcmp(how, "REFUSE.py") == 0)
        return write(chan, "dOMP_X", 6) != 6;
    if (strcmp(how, "HANGS.py") == 0)
        for (;;)
            (void)pause();
    (void)!write(chan, "k", 1);
    (void)!write(STDOUT_FILENO, MARK, strlen(MARK));
    return 0;
}

/* What the runner of a worker writes that has imported nothing. */
#define LINES "('done',)\n"

static const char record[] =
    "\0\0('only', 'os,sys')\n" LINES "('worker',)\n" LINES;

/* It begins with the variables of local rank 0. */
static bool is_record(int fd)
{
    char text[16384];
    ssize_t n = pread(fd, text, sizeof(text), 0), len = sizeof(record) - 1;
    return n > len && memcmp(text + n - len, record, (size_t)len) == 0 &&
           memmem(text, (size_t)n, "\0LOCAL_RANK=0", 14) != NULL;
}

/* python -u -S -c START RUNNER probe CHANNEL RECORD AGENT APART KIND 2
 * python -u HOW */
static int be_importer(int argc, char **argv)
{
    const char *how = argv[argc - 1];
    if (argc != 16 || strcmp(argv[6], "probe") != 0 ||
        strcmp(argv[2], "-S") != 0 ||
        !is_record((int)strtol(argv[8], NULL, 10)))
        return 1;
    int chan = (int)strtol(argv[7], NULL, 10), fds[ORDER_FDS];
    (void)setenv("FAKE_AGENT", argv[9], 1);
    const char *says = strcmp(how, "SAYSNO.py") == 0    ? "it\ncannot"
                       : strcmp(how, "BABBLES.py") == 0 ? "ready x"
                                                        : "ready 2 0 1024";
    (void)!write(chan, says, strlen(says));
    while (take_fds(chan, fds) == 1) {
        pid_t middle = fork();
        if (middle == 0)
            _exit(fork() == 0 ? stand_by(fds[0], how) : 0);
        (void)waitpid(middle, NULL, 0);
        (void)close(fds[0]);
    }
    return 0;
}

/* -- the launcher ---------------------------------------------------------- */

struct job {
    uv_loop_t loop;
    uv_timer_t tick;
    struct standby *standby;
    int ticks;
};

static void on_tick(uv_timer_t *timer)
{
    struct job *j = timer->data;
    j->ticks++;
}

static void wait_for_standbys(struct job *j, int count, int ticks)
{
    j->ticks = 0;
    while (standby_ready(j->standby) >= 0 &&
           standby_ready(j->standby) < count &&
           j->ticks < (fault_struck() > 0 ? IN_VAIN : ticks))
        (void)uv_run(&j->loop, UV_RUN_ONCE);
}

/* The workers of both local ranks have imported what they will. */
static void write_records(void)
{
    char link[32], name[32] = "";
    for (int fd = 3; fd < 64; fd++) {
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, name, sizeof(name) - 1);
        name[n > 0 ? n : 0] = '\0';
        if (strncmp(name, "/memfd:ddprun-imports", 21) == 0 &&
            pwrite(fd, LINES, strlen(LINES), 1) < 0)
            abort();
    }
}

static void open_job(struct job *j, const struct spawn_origin *origin)
{
    static const struct msg_world world = {.round = 1, .world_size = 2};
    fault_hold(true);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    log_init("ddprun");
    aborts_explain();
    (void)pidfd_works();
    if (uv_loop_init(&j->loop) != 0)
        abort();
    (void)uv_timer_init(&j->loop, &j->tick);
    (void)uv_timer_start(&j->tick, on_tick, TICK_MS, TICK_MS);
    j->tick.data = j;
    (void)uv_run(&j->loop, UV_RUN_NOWAIT);
    fault_hold(false);
    j->standby = standby_new(&j->loop, &conf, origin, NULL);
    standby_round(j->standby, &world);
    fault_hold(true);
    write_records();
    fault_hold(false);
    standby_progress(j->standby, 0);
}

/* All that is a child of ours ends, the importer and standbys too. */
static bool close_job(struct job *j)
{
    pid_t pid;
    standby_stop(j->standby);
    j->ticks = 0;
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && j->ticks < LIMIT)
        (void)uv_run(&j->loop, pid == 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    (void)uv_run(&j->loop, UV_RUN_NOWAIT);
    return pid < 0;
}

/* The worker of this local rank, with its stdout in a pipe. */
static enum end
start_worker(struct job *j, const struct spawn_origin *origin, int local_rank)
{
    char text[sizeof(MARK) + 1] = "";
    int out[2], pidfd = -1;
    pid_t pid = 0;
    struct msg_world world = {.round = 2, .world_size = 2};
    static const struct mailbox none = MAILBOX_NONE;
    fault_hold(true);
    char **envp = worker_env_make(&conf, &world, local_rank, "", &none, -1);
    if (pipe(out) != 0 || envp == NULL)
        abort();
    fault_hold(false);
    struct spawn_request req = {.argv = command,
                                .envp = envp,
                                .origin = origin,
                                .out_fd = out[1],
                                .err_fd = out[1],
                                .keep_fd = -1,
                                .env_fd = -1,
                                .local_rank = local_rank,
                                .watched = true};
    bool taken = standby_take(j->standby, &req, &pid, &pidfd);
    fault_hold(true);
    (void)close(out[1]);
    free(envp);
    ssize_t n = taken ? read(out[0], text, sizeof(text) - 1) : 0;
    (void)close(out[0]);
    if (!taken)
        return FRESH;
    bool ended = waitpid(pid, NULL, 0) == pid;
    (void)close(pidfd);
    fault_hold(false);
    return ended && n == (ssize_t)strlen(MARK) && strcmp(text, MARK) == 0
               ? TAKEN
               : NO_WORKER;
}

static int run(void *ctx)
{
    static struct job j;
    int *descriptors = ctx;
    struct spawn_origin origin;
    spawn_remember(&origin);
    open_job(&j, &origin);
    wait_for_standbys(&j, 2, LIMIT);
    enum end end = start_worker(&j, &origin, 1);
    fault_hold(true);
    bool closed = close_job(&j);
    int now = fault_descriptors();
    fprintf(stderr, "descriptors: %d\n", now);
    if (!closed)
        return LATE;
    return (int)(*descriptors > 0 && now > *descriptors ? LEAKS : end);
}

static void judge(const struct fault_run *r, void *ctx)
{
    int *descriptors = ctx;
    if (fault_is_unexplained(r))
        return;
    int end = fault_ended(r);
    const char *at = strstr(r->err, "descriptors: ");
    if (!r->struck) {
        ck_assert_msg(end == TAKEN && at != NULL, "end %d: %s", end, r->err);
        *descriptors = (int)strtol(at + strlen("descriptors: "), NULL, 10);
    }
    ck_assert_msg(end == TAKEN || end == FRESH || end == REFUSED,
                  "%s: end %d: %s", r->plan, end, r->err);
}

/* -- an importer that does what it should not ------------------------------ */

static const struct {
    const char *how;
    int ready; /* standbys after a while; -1: there will be none */
    const char *said;
} misfits[] = {
    {"SAYSNO.py", -1, "afresh: it?cannot"},
    {"BABBLES.py", -1, "makes no sense"},
    {"DIES.py", 0, NULL},
    {"HANGS.py", 2, "does not answer"},
    {"REFUSE.py", 2, "standby: OMP_X differs from what the imports may"},
};

struct misfit_case {
    int ready;
    const char *said;
};

static int run_misfit(void *ctx)
{
    static struct job j;
    struct spawn_origin origin;
    const struct misfit_case *c = ctx;
    spawn_remember(&origin);
    open_job(&j, &origin);
    wait_for_standbys(&j, 2, c->ready != 0 ? LIMIT : IN_VAIN);
    int now = standby_ready(j.standby);
    enum end end = now == -1 ? FRESH : start_worker(&j, &origin, 1);
    bool closed = close_job(&j);
    return now == c->ready && closed ? (int)end : NO_WORKER;
}

static void judge_misfit(const struct fault_run *r, void *ctx)
{
    const struct misfit_case *c = ctx;
    ck_assert_msg(fault_ended(r) == FRESH, "%d: %s", fault_ended(r), r->err);
    ck_assert_msg(c->said == NULL || strstr(r->err, c->said) != NULL, "%s",
                  r->err);
}

TEST_EACH(test_standby_that_misbehaves_means_a_fresh_start, misfits)
{
    struct misfit_case c = {misfits[_i].ready, misfits[_i].said};
    (void)snprintf(script, sizeof(script), "%s", misfits[_i].how);
    fault_one("test", "", run_misfit, judge_misfit, &c);
}

/* All ends, and what is freed is used again in the next round. */
static int run_short(void *ctx)
{
    static struct job j;
    static const struct msg_world world = {.round = 2, .world_size = 2};
    struct spawn_origin origin;
    (void)ctx;
    spawn_remember(&origin);
    open_job(&j, &origin);
    wait_for_standbys(&j, 2, LIMIT);
    pid_t importer = standby_importer(j.standby);
    machine_free = 99;
    for (j.ticks = 0; standby_ready(j.standby) > 0 && j.ticks < LIMIT;)
        (void)uv_run(&j.loop, UV_RUN_ONCE);
    bool ended = waitpid(importer, NULL, 0) == importer;
    standby_importer_ended(j.standby);
    standby_progress(j.standby, 1); /* of the same round */
    bool none = standby_importer(j.standby) == 0;
    machine_free = 1000;
    (void)uv_run(&j.loop, UV_RUN_ONCE);
    standby_round(j.standby, &world);
    standby_progress(j.standby, 0);
    wait_for_standbys(&j, 2, LIMIT);
    enum end end = ended && none ? start_worker(&j, &origin, 1) : NO_WORKER;
    return close_job(&j) ? (int)end : LATE;
}

static void judge_short(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(fault_ended(r) == TAKEN, "%d: %s", fault_ended(r), r->err);
    ck_assert_msg(strstr(r->err, "imports ahead takes 0 MiB of memory") != NULL,
                  "%s", r->err);
}

TEST(test_standby_gives_its_memory_back_if_there_is_little)
{
    fault_one("test", "", run_short, judge_short, NULL);
}

/* Its importer would wait for a round that cannot come. */
static int run_last(void *ctx)
{
    static struct job j;
    static const struct msg_world last = {
        .round = 2, .world_size = 2, .restarts = 1};
    struct spawn_origin origin;
    (void)ctx;
    spawn_remember(&origin);
    open_job(&j, &origin);
    wait_for_standbys(&j, 2, LIMIT);
    enum end end = start_worker(&j, &origin, 1);
    standby_round(j.standby, &last);
    pid_t importer = standby_importer(j.standby);
    bool ended = waitpid(importer, NULL, 0) == importer &&
                 standby_ready(j.standby) == -1;
    return close_job(&j) && ended ? (int)end : LATE;
}

static void judge_last(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(fault_ended(r) == TAKEN, "%d: %s", fault_ended(r), r->err);
}

TEST(test_standby_ends_if_no_round_can_follow)
{
    fault_one("test", "", run_last, judge_last, NULL);
}

static void setup(void)
{
    conf.nproc = 2;
    conf.nnodes_max = 1;
    conf.max_restarts = 1;
    conf.argv = command;
    conf.exec_path = itself;
    (void)strcpy(conf.standby, "os,sys");
    (void)snprintf(script, sizeof(script), "GOOD.py");
}

TEST(test_standby_is_taken_or_the_start_is_fresh)
{
    int descriptors = 0;
    ck_assert_int_ge(fault_each("test", CALLS_MAX, run, judge, &descriptors),
                     30);
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[0], python) == 0)
        return be_importer(argc, argv);
    if (readlink("/proc/self/exe", itself, sizeof(itself) - 1) < 0)
        return 1;
    return SUITE_RUN("standby", "slow", FAULT_CASE(120), FIXTURE(setup, NULL));
}
