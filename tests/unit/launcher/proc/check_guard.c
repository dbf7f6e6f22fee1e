/* links: tests/lib/{fault,fault_each} */
/* links: launcher/proc/{guard,janitor,tree,procfs,pidfd,cgroup} */
/* links: launcher/proc/farewell_page */
/* links: rendezvous/base/{signals_name,open_files,err,log,mono,rng,utf8,buf} */
/* links: TLS */
/* libs: -ldl */
/*
 * Guard and agent, with each system call of either failing in turn. The agent
 * is this test's.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/farewell_page.h"
#include "launcher/proc/guard.h"
#include "launcher/proc/janitor.h"
#include "launcher/proc/pidfd.h"
#include "launcher/proc/procfs.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/suite.h"

#define CALLS_MAX 8
#define STATUS    7 /* the agent's */
#define NO_START  71
#define LEASE_US  (1 * MONO_MS)
#define PATIENCE  20000 /* ms that a worker may outlive its lease */

/* A worker in a session of its own, and a daemon that another one has left. */
static void start_workers(pid_t pids[2])
{
    int ready[2];
    if (pipe(ready) != 0)
        abort();
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)setsid();
            if (i == 0 && fork() != 0)
                _exit(0); /* what it has started lives */
            pid_t own = getpid();
            (void)!write(ready[1], &own, sizeof(own));
            for (;;)
                (void)pause();
        }
        if (i == 0) /* else it may be there yet when processes are counted */
            (void)waitpid(pid, NULL, 0);
    }
    for (int i = 0; i < 2; i++)
        if (read(ready[0], &pids[i], sizeof(*pids)) != (ssize_t)sizeof(*pids))
            abort();
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static bool has(const struct fault_run *r, const char *text)
{
    return strstr(r->err, text) != NULL;
}

/* "bye" is said to these ports of this host; 0: to nobody. */
static void leave_word(const int *ports, int n)
{
    struct farewell_page page = {.len = 3, .bytes = "bye", .n_places = n};
    for (int i = 0; i < n; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)ports[i]),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        if (ports[i] > 0)
            memcpy(&page.places[i], &at, sizeof(at));
    }
    farewell_page_write(&page);
}

/* Its own status, or it said that it cannot begin. */
static void judge(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_msg(!r->late, "%s: it hangs: %s", r->plan, r->err);
    ck_assert_msg(r->left == 0 || has(r, "may outlive the launch: prctl"),
                  "%s: %d processes are left: %s", r->plan, r->left, r->err);
    ck_assert_msg(WIFEXITED(r->status), "%s: status %#x: %s", r->plan,
                  (unsigned)r->status, r->err);
    if (WEXITSTATUS(r->status) == STATUS)
        return;
    ck_assert_msg(r->struck && WEXITSTATUS(r->status) == NO_START,
                  "%s: status %d: %s", r->plan, WEXITSTATUS(r->status), r->err);
    ck_assert_msg(has(r, "cannot share memory with the agent: ") ||
                      has(r, "cannot make a socket for the agent: ") ||
                      has(r, "cannot make a signalfd for the user's signals") ||
                      has(r, "cannot start the agent"),
                  "%s: %s", r->plan, r->err);
}

/* -- an agent that ends ---------------------------------------------------- */

static int run_ending(void *ctx)
{
    static const int nobody = 1; /* a port */
    pid_t pids[2];
    (void)ctx;
    log_init("ddprun");
    (void)pidfd_works();
    int guard_fd = guard_split(SIGNALS_BIT(SIGTERM), NULL);
    fault_hold(true);
    start_workers(pids);
    fault_hold(false);
    janitor_folder(JANITOR_TEMPORARY, "/nowhere");
    leave_word(&nobody, 1);
    guard_lease(guard_fd, mono_now_us() + 60 * MONO_S);
    guard_wait();
    guard_lease(guard_fd, mono_now_us() + 30 * MONO_S);
    _exit(STATUS);
}

TEST_LOOP(test_guard_ends_what_the_agent_left, 0, 4)
{
    static const char *const roles[] = {"guard", "janitor", "split", "agent"};
    static const int least[] = {30, 10, 1, 3};
    ck_assert_int_ge(fault_each(roles[_i], CALLS_MAX, run_ending, judge, NULL),
                     least[_i]);
}

/* -- both are killed at once ----------------------------------------------- */

#define FOLDER_MAX 64

/* A file, a folder below it, and a link to what is not the launch's. */
static void fill(const char *folder)
{
    char path[FOLDER_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/below", folder);
    int rc = mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/below/file", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)snprintf(path, sizeof(path), "%s/link", folder);
    if (rc != 0 || fd < 0 || symlink("/usr", path) != 0)
        abort();
    (void)close(fd);
}

static int run_both_killed(void *ctx)
{
    char *folder = ctx;
    pid_t guard = getpid(), pids[2];
    fault_hold(true);
    (void)snprintf(folder, FOLDER_MAX, "/tmp/check_guard_XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    fault_hold(false);
    log_init("ddprun");
    (void)pidfd_works();
    (void)guard_split(0, NULL);
    fault_hold(true);
    start_workers(pids);
    fill(folder);
    janitor_folder(JANITOR_MPI, folder);
    (void)kill(guard, SIGSTOP); /* it does nothing more */
    (void)kill(guard, SIGKILL);
    (void)kill(getpid(), SIGKILL);
    return STATUS;
}

static void judge_both_killed(const struct fault_run *r, void *ctx)
{
    const char *folder = ctx;
    if (WIFEXITED(r->status)) {
        judge(r, ctx); /* it could not begin */
        (void)rmdir(folder);
        return;
    }
    ck_assert_msg(!r->late && WTERMSIG(r->status) == SIGKILL,
                  "%s: status %#x: %s", r->plan, (unsigned)r->status, r->err);
    if (has(r, "may outlive the launch: prctl"))
        return;
    ck_assert_msg(r->left == 0, "%s: %d processes are left", r->plan, r->left);
    ck_assert_msg(access(folder, F_OK) != 0, "%s: %s stays", r->plan, folder);
}

/* Whatever call of the janitor's fails. */
TEST(test_janitor_ends_what_guard_and_agent_left)
{
    char *folder = mmap(NULL, FOLDER_MAX, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(folder != MAP_FAILED);
    ck_assert_int_ge(fault_each("janitor", CALLS_MAX, run_both_killed,
                                judge_both_killed, folder),
                     10);
}

/* -- farewells ------------------------------------------------------------- */

/* A server of this test's; *port: where. */
static int listen_here(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Reads up to the end of the next connection; what it got. NULL: there was none
 * in so many ms. */
static const char *server_got(int listener, int ms)
{
    static char text[64];
    struct pollfd p = {.fd = listener, .events = POLLIN};
    size_t len = 0;
    ssize_t n;
    if (poll(&p, 1, ms) != 1)
        return NULL;
    int fd = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    while ((n = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0)
        len += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(close(fd), 0); /* which is the answer */
    text[len] = '\0';
    return text;
}

static int wait_for(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

#define PLACES 3

/* A launch whose agent ends, or is killed together with its guard. */
static pid_t launch(const int *ports, bool killed)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid != 0)
        return pid;
    pid_t guard = getpid(), pids[2];
    (void)guard_split(0, NULL);
    start_workers(pids);
    leave_word(ports, PLACES);
    if (killed) {
        (void)kill(guard, SIGKILL);
        (void)kill(getpid(), SIGKILL);
    }
    _exit(STATUS);
}

/* If the first place is none or does not answer the others are told as well. It
 * is the guard who says it; the janitor if both others were killed. */
TEST_LOOP(test_farewell_is_said_where_it_is_heard, 0, 4)
{
    int ports[PLACES], fds[PLACES];
    bool killed = _i % 2 == 1, first = _i < 2;
    for (int i = 0; i < PLACES; i++)
        fds[i] = listen_here(&ports[i]);
    if (!first)
        ports[0] = 0;
    pid_t pid = launch(ports, killed);
    if (first)
        ck_assert_str_eq(server_got(fds[0], PATIENCE), "bye");
    for (int i = 1; i < PLACES; i++) {
        const char *got = server_got(fds[i], first ? 500 : PATIENCE);
        ck_assert(first ? got == NULL : got != NULL && strcmp(got, "bye") == 0);
    }
    int status = wait_for(pid);
    ck_assert(killed ? WIFSIGNALED(status) : WEXITSTATUS(status) == STATUS);
    for (int i = 0; i < PLACES; i++)
        ck_assert_int_eq(close(fds[i]), 0);
}

/* The first place takes the connection and does not answer. */
TEST(test_farewell_that_is_not_answered_is_said_elsewhere)
{
    int ports[PLACES] = {0}, fds[2];
    for (int i = 0; i < 2; i++)
        fds[i] = listen_here(&ports[i]);
    pid_t pid = launch(ports, false);
    ck_assert_str_eq(server_got(fds[1], PATIENCE), "bye");
    ck_assert_int_eq(WEXITSTATUS(wait_for(pid)), STATUS);
    ck_assert_str_eq(server_got(fds[0], PATIENCE), "bye");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(close(fds[i]), 0);
}

/* -- the end --------------------------------------------------------------- */

static int told_fd;

static void tell_end(int status, uint64_t signals)
{
    (void)dprintf(told_fd, "status %d signals %llx", status,
                  (unsigned long long)signals);
}

static void ends_with(int fd, const char *want)
{
    char all[64] = "";
    size_t got = 0;
    ssize_t n;
    while ((n = read(fd, all + got, sizeof(all) - 1 - got)) > 0)
        got += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_str_eq(all, want);
}

/* The guard's last act comes when the agent is dead, and it hears of the
 * signals that came. */
TEST(test_guard_calls_back_at_the_end)
{
    int told[2], status;
    char want[64];
    ck_assert_int_eq(pipe(told), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct guard_msg msg;
        (void)close(told[0]);
        told_fd = told[1];
        pid_t guard = getpid();
        int guard_fd = guard_split(SIGNALS_BIT(SIGTERM), tell_end);
        (void)kill(guard, SIGTERM);
        (void)kill(guard, SIGUSR1);
        for (int i = 0; i < 2; i++)
            (void)recv(guard_fd, &msg, sizeof(msg), 0);
        _exit(STATUS);
    }
    ck_assert_int_eq(close(told[1]), 0);
    (void)snprintf(
        want, sizeof(want), "status %d signals %llx", STATUS,
        (unsigned long long)(SIGNALS_BIT(SIGTERM) | SIGNALS_BIT(SIGUSR1)));
    ends_with(told[0], want);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
}

/* -- an agent that is frozen ----------------------------------------------- */

struct told {
    pid_t agent;
    pid_t workers[2];
};

/* Not before it sleeps: its lease may be over sooner. */
static void wake(pid_t agent)
{
    struct procfs_process p;
    for (int i = 0; i < PATIENCE && procfs_read(agent, &p) && p.state != 'T' &&
                    p.state != 'Z';
         i++)
        (void)usleep(1000);
    (void)kill(agent, SIGCONT);
}

/* Beside the launch, from before it: wakes the agent when its workers are dead,
 * and says if they are not in time. */
static void watch_beside(int fd)
{
    struct told t;
    struct pollfd p[2];
    if (read(fd, &t, sizeof(t)) != (ssize_t)sizeof(t))
        _exit(0); /* it was never started */
    for (int i = 0; i < 2; i++)
        p[i] = (struct pollfd){.fd = pidfd_of(t.workers[i]), .events = POLLIN};
    for (int i = 0; i < 2; i++)
        if (p[i].fd >= 0 && poll(&p[i], 1, PATIENCE) != 1) {
            (void)!write(STDERR_FILENO, "a worker lives\n", 15);
            (void)kill(t.agent, SIGKILL);
        }
    wake(t.agent);
    _exit(0);
}

static int run_frozen(void *ctx)
{
    int told[2];
    struct told t;
    (void)ctx;
    fault_hold(true);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, told) != 0)
        abort();
    if (fork() == 0) {
        (void)close(told[1]);
        watch_beside(told[0]);
    }
    (void)close(told[0]);
    fault_hold(false);
    log_init("ddprun");
    (void)pidfd_works();
    int guard_fd = guard_split(0, NULL);
    fault_hold(true);
    t.agent = getpid();
    start_workers(t.workers);
    (void)!write(told[1], &t, sizeof(t));
    fault_hold(false);
    guard_lease(guard_fd, mono_now_us() + LEASE_US);
    (void)raise(SIGSTOP);
    guard_lease(guard_fd, MONO_NEVER);
    _exit(STATUS);
}

/* Its workers are dead soon after the lease, or it was killed, and they with
 * it, which is said. */
static void judge_frozen(const struct fault_run *r, void *ctx)
{
    ck_assert_msg(!has(r, "a worker lives"), "%s: a worker lives", r->plan);
    if (WIFEXITED(r->status) && WEXITSTATUS(r->status) == 128 + SIGKILL)
        ck_assert_msg(r->struck &&
                          has(r, "killing the agent, and them with it"),
                      "%s: %s", r->plan, r->err);
    else
        judge(r, ctx);
    bool mute = strstr(r->plan, ":write:") != NULL; /* its own line is lost */
    if (WIFEXITED(r->status) && WEXITSTATUS(r->status) == STATUS && !mute)
        ck_assert_msg(has(r, "is frozen and its lease is over: killed 2"),
                      "%s: %s", r->plan, r->err);
}

TEST(test_guard_kills_the_workers_of_a_frozen_agent)
{
    ck_assert_int_ge(
        fault_each("guard", CALLS_MAX, run_frozen, judge_frozen, NULL), 30);
}

/* -- what may not be killed ------------------------------------------------ */

#define AT_ONCE_US (2500 * MONO_MS) /* other tries go on for 5 s */

/* As soon as the agent is dead the workers are children of the guard's, which
 * it may kill here. */
static void judge_forbidden(const struct fault_run *r, void *ctx)
{
    (void)ctx;
    ck_assert_int_eq(fault_ended(r), 128 + SIGKILL);
    ck_assert_msg(!has(r, "a worker lives"), "a worker lives: %s", r->err);
    ck_assert_msg(has(r, "a process of its workers is another user's, and "
                         "ddprun may not kill it (EPERM): killing the agent\n"),
                  "%s", r->err);
}

/* The workers of a frozen agent are another user's: all that is signalled after
 * a first look at whether pidfds work. */
TEST(test_guard_says_at_once_that_it_may_not_kill_workers)
{
    int64_t began_us = mono_now_us();
    fault_one("guard", "guard:pidfd_send_signal:2+:EPERM", run_frozen,
              judge_forbidden, NULL);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(AT_ONCE_US));
}

struct heard_at {
    int listener, port;
};

static int run_connected(void *ctx)
{
    const struct heard_at *at = ctx;
    pid_t pids[2];
    log_init("ddprun");
    (void)pidfd_works();
    (void)guard_split(0, NULL);
    fault_hold(true);
    leave_word(&at->port, 1);
    start_workers(pids);
    (void)kill(getppid(), SIGKILL); /* the janitor, which could kill them */
    _exit(STATUS);
}

static void judge_farewell(const struct fault_run *r, void *ctx)
{
    const struct heard_at *at = ctx;
    ck_assert_int_eq(fault_ended(r), STATUS);
    ck_assert_str_eq(server_got(at->listener, PATIENCE), "bye");
}

static void judge_left(const struct fault_run *r, void *ctx)
{
    const struct heard_at *at = ctx;
    ck_assert_msg(!r->late && r->left == 2 && WIFEXITED(r->status),
                  "late %d, left %d, status %#x: %s", r->late, r->left,
                  (unsigned)r->status, r->err);
    ck_assert_int_eq(WEXITSTATUS(r->status), STATUS);
    ck_assert_msg(has(r, "cannot kill 2 processes of this run; ps shows why"),
                  "%s", r->err);
    ck_assert_ptr_null(server_got(at->listener, 0));
}

/* The server hears that all is dead only if it is. */
TEST(test_farewell_is_not_said_if_something_lives)
{
    struct heard_at at;
    at.listener = listen_here(&at.port);
    fault_one("guard", "", run_connected, judge_farewell, &at);
    int64_t began_us = mono_now_us();
    fault_one("guard", "guard:kill:1+:EPERM", run_connected, judge_left, &at);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(AT_ONCE_US));
    ck_assert_int_eq(close(at.listener), 0);
}

SUITE("guard", "slow", FAULT_CASE(60))
