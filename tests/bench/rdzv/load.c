/*
 * Many agents on one rendezvous: speaks the real protocol over real sockets,
 * with as many agents in a process as descriptors allow, each process from a
 * 127.0.0.x of its own (28,000 ports each). Plays one trial and prints
 * "name value" lines for run.
 *
 *     load storm PORT PID AGENTS PROCS        join, one is lost, all go on
 *     load idle PORT PID AGENTS PROCS SECONDS [MS]   beats, at the shortest
 *                                             heartbeat_timeout or at this one
 *     load move PORT PID AGENTS PROCS PORT PID    join, the
 * server is killed, all go to the next one
 *
 * With DDPRUN_TOKEN_FILE in its environment, agents have that token and speak
 * TLS. PID is the server's, whose CPU time and memory are read; 0: nobody's.
 * The generator is cheap on purpose, since it is part of what is measured: a
 * kind is told by the first bytes of a message, and whether the worlds fit
 * together is looked at after the clock has stopped. The place of the server
 * that was killed is not tried again before the next one, as each agent would
 * on a host of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "tests/bench/rdzv/generator.h"

#define STORM_MS 5000
/* With a token, on few CPUs, the handshakes of both sides take longer than a
 * lease of 5 s: agents would be lost. */
#define MOVE_TOKEN_MS 30000
#define IDLE_MS       300
#define LIMIT_MS      120000

static struct scores *shared;
static int n_agents, n_procs, limit_ms;
static int pipes[PROCS_MAX];

static void start_generators(const struct workload *what)
{
    for (int i = 0; i < n_procs; i++) {
        int pair[2];
        int first = (int)((int64_t)n_agents * i / n_procs);
        int behind = (int)((int64_t)n_agents * (i + 1) / n_procs);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
            die("socketpair: %s", strerror(errno));
        pid_t pid = fork();
        if (pid < 0)
            die("fork: %s", strerror(errno));
        if (pid == 0)
            generate(what, i, pair[1], first, behind - first);
        (void)close(pair[1]);
        pipes[i] = pair[0];
    }
}

static void wait_for_all(void)
{
    for (int i = 0; i < n_procs; i++) {
        struct pollfd p = {.fd = pipes[i], .events = POLLIN};
        char byte;
        if (poll(&p, 1, limit_ms) != 1)
            die("not within %d s", limit_ms / 1000);
        if (read(pipes[i], &byte, 1) != 1)
            die("a generator ended");
    }
}

/* Returns how long it took from the first one's start to the last one's end. */
static int64_t play(enum phase phase, bool wait)
{
    char byte = (char)phase;
    int64_t first_us = INT64_MAX;
    int64_t last_us = 0;
    for (int i = 0; i < n_procs; i++)
        if (write(pipes[i], &byte, 1) != 1)
            die("a generator ended");
    if (!wait)
        return 0;
    wait_for_all();
    for (int i = 0; i < n_procs; i++) {
        first_us = mono_min(first_us, shared->first_us[i]);
        if (shared->last_us[i] > last_us)
            last_us = shared->last_us[i];
    }
    return last_us - first_us;
}

/* The number behind `key` in /proc/PID/FILE, or the first one where key is "";
 * -1: there is none. */
static long long proc_number(int pid, const char *file, const char *key)
{
    char path[64];
    char line[256];
    long long v = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *f = pid > 0 ? fopen(path, "r") : NULL;
    if (f == NULL)
        return -1;
    while (v < 0 && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            v = strtoll(line + strlen(key), NULL, 10);
    (void)fclose(f);
    return v;
}

/* Of all threads, those that have ended left out; -1: there is none. */
static long long cpu_ns_of(int pid)
{
    char path[64];
    long long sum = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *tasks = pid > 0 ? opendir(path) : NULL;
    struct dirent *task;
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        long long ns = proc_number(atoi(task->d_name), "schedstat", "");
        if (ns >= 0)
            sum = sum < 0 ? ns : sum + ns;
    }
    if (tasks != NULL)
        (void)closedir(tasks);
    return sum;
}

static void print_cpu(int pid, const char *name, long long *since_ns)
{
    long long ns = cpu_ns_of(pid);
    if (ns >= 0)
        printf("%s_cpu_us %lld\n", name, (ns - *since_ns) / 1000);
    *since_ns = ns;
}

static void print_memory(int pid)
{
    long long pss = proc_number(pid, "smaps_rollup", "Pss:");
    long long rss = proc_number(pid, "status", "VmRSS:");
    if (pss >= 0)
        printf("pss_kb %lld\nrss_kb %lld\n", pss, rss);
}

static int by_value(const void *va, const void *vb)
{
    const int64_t *a = va;
    const int64_t *b = vb;
    return *a < *b ? -1 : *a > *b;
}

static void print_told(void)
{
    int n = 0;
    for (int i = 0; i < n_agents; i++)
        if (shared->told_us[i] > 0)
            shared->told_us[n++] = shared->told_us[i] - shared->lost_at_us;
    if (n != n_agents - 1)
        die("%d were told of the loss", n);
    qsort(shared->told_us, (size_t)n, sizeof(shared->told_us[0]), by_value);
    printf("told_p50_us %lld\n", (long long)shared->told_us[n / 2]);
    printf("told_p99_us %lld\n", (long long)shared->told_us[n * 99 / 100]);
    printf("told_max_us %lld\n", (long long)shared->told_us[n - 1]);
}

static void storm(int pid)
{
    long long cpu_ns = cpu_ns_of(pid);
    printf("join_us %lld\n", (long long)play(PHASE_JOIN, true));
    print_cpu(pid, "join", &cpu_ns);
    print_memory(pid);
    (void)play(PHASE_LOSE, true);
    print_cpu(pid, "told", &cpu_ns);
    print_told();
    printf("again_us %lld\n", (long long)play(PHASE_READY, true));
    print_cpu(pid, "again", &cpu_ns);
}

/* The times from the kill to each agent's lease at the next server. */
static void print_moved(void)
{
    int64_t *us = shared->leased_us;
    for (int i = 0; i < n_agents; i++)
        us[i] -= shared->lost_at_us;
    qsort(us, (size_t)n_agents, sizeof(us[0]), by_value);
    printf("moved_p50_us %lld\n", (long long)us[n_agents / 2]);
    printf("moved_us %lld\n", (long long)us[n_agents - 1]);
}

static void move(int pid, int next_pid)
{
    (void)play(PHASE_JOIN, true);
    (void)play(PHASE_ARM, true);
    long long cpu_ns = cpu_ns_of(next_pid);
    (void)play(PHASE_MOVE, false);
    shared->lost_at_us = mono_now_us();
    if (kill(pid, SIGKILL) != 0)
        die("the server was gone before it was killed");
    wait_for_all();
    print_cpu(next_pid, "moved", &cpu_ns);
    print_moved();
}

static void idle(int pid)
{
    (void)play(PHASE_JOIN, true);
    long long cpu_ns = cpu_ns_of(pid);
    (void)play(PHASE_IDLE, true);
    print_cpu(pid, "idle", &cpu_ns);
    printf("beats %lld\n", atomic_load(&shared->beats));
    printf("false_losses %lld\n", atomic_load(&shared->false_losses));
    printf("fenced %lld\n", atomic_load(&shared->fenced));
    printf("slowest_us %lld\n", atomic_load(&shared->slowest_us));
    printf("late_us %lld\n", atomic_load(&shared->late_us));
}

static int number(const char *text, int max)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (*end != '\0' || v < 0 || v > max)
        die("'%s' is no number from 0 to %d", text, max);
    return (int)v;
}

__attribute__((noreturn)) static void usage(void)
{
    die("usage: load storm PORT PID AGENTS PROCS | load idle PORT PID AGENTS "
        "PROCS SECONDS [MS] | load move PORT PID AGENTS PROCS PORT PID");
}

static void raise_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char *argv[])
{
    bool is_idle = argc > 1 && strcmp(argv[1], "idle") == 0;
    bool is_move = argc > 1 && strcmp(argv[1], "move") == 0;
    bool has_timeout = is_idle && argc == 8;
    if (argc != (is_move ? 8 : is_idle ? 7 : 6) && !has_timeout)
        usage();
    raise_limit();
    int pid = number(argv[3], INT_MAX);
    int next_pid = is_move ? number(argv[7], INT_MAX) : 0;
    n_agents = number(argv[4], AGENTS_MAX);
    n_procs = number(argv[5], PROCS_MAX);
    struct workload what = {
        .speak = {.agents = n_agents,
                  .heartbeat_ms = has_timeout ? number(argv[7], 60000)
                                  : is_idle   ? IDLE_MS
                                              : STORM_MS},
        .port = number(argv[2], 65535),
        .next_port = is_move ? number(argv[6], 65535) : 0,
        .seconds = is_idle ? number(argv[6], 36000) : 0,
    };
    limit_ms = LIMIT_MS + what.seconds * 1000;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("out of memory");
    what.shared = shared;
    const char *token_file = getenv("DDPRUN_TOKEN_FILE");
    struct ddp_err err;
    if (token_file != NULL && tls_key_read(&what.token, token_file, &err) != 0)
        die("%s", err.text);
    if (what.token != NULL && is_move)
        what.speak.heartbeat_ms = MOVE_TOKEN_MS;
    (void)signal(SIGPIPE, SIG_IGN);
    start_generators(&what);
    wait_for_all();
    if (is_idle)
        idle(pid);
    else if (is_move)
        move(pid, next_pid);
    else
        storm(pid);
    (void)play(PHASE_QUIT, false);
    while (wait(NULL) > 0)
        ;
    return 0;
}
