/* links: rendezvous/store/{process,server,requests,replies,store,table,wait} */
/* links: rendezvous/net/{fd_pass,allow,addr} */
/* links: rendezvous/base/{log_limit,open_files,err,log,mono,buf,utf8} */
/* links: rendezvous/base/siphash rendezvous/proto/c10d */
#include "tests/lib/rt_world.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/store/process.h"
#include "tests/lib/suite.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* on every machine; older headers have no name */
#endif

/* gcc's, in a build that measures coverage: _exit leaves out what was run. */
extern void __gcov_dump(void) __attribute__((weak));

/* A child that ends with its parent; 0 in the child. */
static pid_t start(void)
{
    pid_t parent = getpid();
    (void)fflush(NULL); /* nothing is printed twice */
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    return 0;
}

pid_t rt_store_start(uint16_t *port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sin, len), 0);
    ck_assert_int_eq(listen(fd, SOMAXCONN), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
    *port = ntohs(sin.sin_port);
    pid_t pid = start();
    if (pid == 0)
        store_process_main(&(struct helper_fds){.listener = fd, .chan = -1},
                           NULL);
    (void)close(fd); /* the child has it */
    return pid;
}

void rt_kill(pid_t pid)
{
    (void)kill(pid, SIGKILL); /* may be dead already */
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void set(const char *name, long long value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", value); /* fits */
    ck_assert_int_eq(setenv(name, text, 1), 0);
}

void rt_place(int rank, int world, uint16_t port, int64_t round)
{
    set("RANK", rank);
    set("WORLD_SIZE", world);
    set("LOCAL_RANK", rank);
    set("LOCAL_WORLD_SIZE", world);
    set("GROUP_RANK", 0);
    set("MASTER_PORT", port);
    set("DDP_ROUND", round);
    ck_assert_int_eq(setenv("MASTER_ADDR", "127.0.0.1", 1), 0);
    ck_assert_int_eq(
        setenv("DDP_INSTANCE", "0123456789abcdef0123456789abcdef", 1), 0);
}

pid_t rt_rank_start(int rank,
                    int world,
                    uint16_t port,
                    int64_t round,
                    rt_rank_fn *fn,
                    void *arg)
{
    pid_t pid = start();
    if (pid > 0)
        return pid;
    rt_place(rank, world, port, round);
    int status = fn(rank, arg);
    if (__gcov_dump != NULL)
        __gcov_dump();
    _exit(status);
}

/* valgrind 3.19 has no pidfd_open. */
static bool ends_by_looking(pid_t pid, int64_t timeout_ms)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    for (int64_t ms = 0; ms < timeout_ms; ms += 5) {
        siginfo_t info = {.si_pid = 0};
        int how = WEXITED | WNOHANG | WNOWAIT;
        ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, how), 0);
        if (info.si_pid == pid)
            return true;
        (void)nanosleep(&nap, NULL);
    }
    return false;
}

static bool ends_within(pid_t pid, int64_t timeout_ms)
{
    struct pollfd p = {.events = POLLIN};
    p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (p.fd < 0 && errno == ENOSYS)
        return ends_by_looking(pid, timeout_ms);
    ck_assert_int_ge(p.fd, 0);
    int ended = poll(&p, 1, (int)timeout_ms);
    (void)close(p.fd); /* only watched */
    return ended > 0;
}

/* /proc/PID/schedstat: ns on a CPU, ns in a queue for one, and how often. */
int64_t rt_cpu_wait_us(pid_t pid)
{
    char path[64];
    long long waited_ns = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%*d %lld", &waited_ns) != 1)
        waited_ns = 0;
    (void)fclose(f); /* read only */
    return waited_ns / 1000;
}

int rt_wait(pid_t pid, int64_t timeout_ms)
{
    int status;
    if (!ends_within(pid, timeout_ms * suite_slow())) {
        rt_kill(pid);
        return -1;
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t rt_world_start(int world, rt_rank_fn *fn, void *arg, pid_t *pids)
{
    uint16_t port;
    pid_t store = rt_store_start(&port);
    for (int i = 0; i < world; i++)
        pids[i] = rt_rank_start(i, world, port, 1, fn, arg);
    return store;
}

void rt_world_run(int world, rt_rank_fn *fn, void *arg, int64_t timeout_ms)
{
    pid_t pids[RT_RANKS_MAX];
    int bad = 0;
    ck_assert_int_le(world, RT_RANKS_MAX);
    pid_t store = rt_world_start(world, fn, arg, pids);
    for (int i = 0; i < world; i++) {
        int status = rt_wait(pids[i], timeout_ms);
        if (status != 0)
            fprintf(stderr, "rank %d of %d: status %d\n", i, world, status);
        bad += status != 0;
    }
    rt_kill(store);
    ck_assert_int_eq(bad, 0);
}

void rt_wrong(const char *file, int line, const char *what, const char *why)
{
    fprintf(stderr, "%s:%d: rank %s: %s does not hold. %s\n", file, line,
            getenv("RANK"), what, why);
    _exit(1);
}
