/*
 * Plays one trial and prints what it measured, a name and a number per line;
 * the number is "late" for what did not happen within the limit.
 * usage: driver TRIAL WORKERS SETTLE_MS LIMIT_S FOLDER -- LAUNCHER...
 *        [-- LAUNCHER...]
 *
 *     life      start, stand idle, end by itself
 *     restart   one worker is killed, all start again
 *     node      all processes of the second launcher are killed that have its
 *               name, as `pkill -9 NAME` does; the first one's workers start
 *               again
 *     silent    all of it but workers is stopped instead, as a machine without
 *               power is: its connections stay, nothing comes
 *     host      as node, but of the first launcher, which serves the
 *               rendezvous; late as well if one of the others ends
 *     mute      as silent, of the first launcher
 *     grow      the last launcher comes later, all workers start again
 *     orphans   the launcher is killed, all else should go too
 *
 * WORKERS is their number in all. SETTLE_MS passes between the last worker's
 * start and what the trial does then. Everything is timed by this one process,
 * which sleeps while it waits, or by the workers themselves.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "event.h"
#include "stage.h"

#define LEFTOVER_NS (500 * STAGE_MS)
#define START_NS    (20 * STAGE_S) /* for the start of every trial */
#define MIN_ARGC    8

/* -- figures ------------------------------------------------------------- */

static void print_us(const char *name, int64_t from_ns, int64_t to_ns)
{
    printf("%s %lld\n", name, (long long)((to_ns - from_ns) / 1000));
}

static void print_late(const char *name)
{
    printf("%s late\n", name);
}

/* Proportional set size: a page that n processes share counts 1/n in each. */
static long pss_kb(pid_t pid)
{
    char path[64];
    char line[256];
    long kb = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0; /* it is gone already */
    while (fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "Pss: %ld kB", &kb) == 1)
            break;
    (void)fclose(f); /* read only */
    return kb;
}

static void print_pss(struct stage *s)
{
    static pid_t pids[STAGE_TREE];
    long kb = 0;
    int n = stage_tree(s, 0, pids);
    for (int i = 0; i < n; i++)
        kb += pss_kb(pids[i]);
    printf("pss_kb %ld\nprocesses %d\n", kb, n);
}

static int64_t us_of(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

/* Of all that were waited for, by us or by others below us: the workers too,
 * the same ones under each launcher. */
static void print_cpu(void)
{
    struct rusage r;
    (void)getrusage(RUSAGE_CHILDREN, &r); /* cannot fail */
    printf("cpu_us %lld\n", (long long)(us_of(r.ru_utime) + us_of(r.ru_stime)));
}

/* -- trials -------------------------------------------------------------- */

/* Until all workers run and have settled; returns when the last one started. */
static int64_t start_all(struct stage *s, int workers)
{
    int64_t last_ns;
    int64_t limit_ns = s->limit_ns; /* it is that of what comes then */
    if (limit_ns < START_NS)
        s->limit_ns = START_NS;
    if (!stage_wait_starts(s, workers, 0, -1, &last_ns))
        stage_die(s, "%d workers did not start within the limit", workers);
    s->limit_ns = limit_ns;
    stage_pause(s, s->settle_ns);
    return last_ns;
}

static void play_life(struct stage *s, int workers)
{
    const struct launcher *l = &s->launchers[0];
    int64_t last_ns = start_all(s, workers);
    print_us("first_us", l->exec_ns, stage_first_start(s));
    print_us("start_us", l->exec_ns, last_ns);
    print_pss(s);
    stage_open_gate(s);
    if (!stage_wait_launcher(s, 0))
        stage_die(s, "the launcher did not end within the limit");
    if (!WIFEXITED(l->status) || WEXITSTATUS(l->status) != 0)
        stage_die(s, "the launcher did not end with 0");
    print_us("exit_us", stage_last_end(s, workers), l->gone_ns);
    s->limit_ns = LEFTOVER_NS;
    if (!stage_wait_empty(s))
        stage_die(s, "processes were left behind after an orderly end");
    print_cpu();
}

static void play_restart(struct stage *s, int workers)
{
    static pid_t pids[STAGE_EVENTS];
    int64_t last_ns;
    (void)start_all(s, workers);
    int n = stage_workers(s, pids);
    int64_t kill_ns = event_now();
    if (kill(pids[n - 1], SIGKILL) != 0)
        stage_die(s, "the worker to be killed was gone");
    if (stage_wait_starts(s, workers, kill_ns, -1, &last_ns))
        print_us("again_us", kill_ns, last_ns);
    else
        print_late("again_us");
}

static void name_of(pid_t pid, char name[32])
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid); /* fits */
    FILE *f = fopen(path, "r");
    if (f == NULL || fgets(name, 32, f) == NULL)
        name[0] = '\0'; /* it is gone */
    if (f != NULL)
        (void)fclose(f); /* nothing was written */
}

/* The processes below `pids[0]` that are called as it is; returns how many. */
static int namesakes(pid_t pids[STAGE_TREE], int n)
{
    char first[32], name[32];
    int kept = 1;
    name_of(pids[0], first);
    for (int i = 1; i < n; i++) {
        name_of(pids[i], name);
        if (strcmp(name, first) == 0)
            pids[kept++] = pids[i];
    }
    return kept;
}

/* The launcher numbered `victim` is killed or stopped. */
static void lose_node(struct stage *s, int workers, int victim, int signo)
{
    static pid_t pids[STAGE_TREE];
    int64_t last_ns;
    int nodes = s->n_launchers;
    if (nodes < 2)
        stage_die(s, "this trial needs two launchers");
    (void)start_all(s, workers);
    int n = stage_tree(s, victim, pids);
    if (signo == SIGKILL)
        n = namesakes(pids, n);
    int64_t lost_ns = event_now();
    for (int i = 0; i < n; i++)
        (void)kill(pids[i], signo); /* ESRCH: its parent's death ended it */
    if (stage_wait_starts(s, workers / nodes * (nodes - 1), lost_ns, victim,
                          &last_ns))
        print_us("again_us", lost_ns, last_ns);
    else
        print_late("again_us");
}

static void play_node(struct stage *s, int workers)
{
    lose_node(s, workers, 1, SIGKILL);
}

static void play_silent(struct stage *s, int workers)
{
    lose_node(s, workers, 1, SIGSTOP);
}

static void play_host(struct stage *s, int workers)
{
    s->may_end = true;
    lose_node(s, workers, 0, SIGKILL);
}

static void play_mute(struct stage *s, int workers)
{
    s->may_end = true;
    lose_node(s, workers, 0, SIGSTOP);
}

static void play_grow(struct stage *s, int workers)
{
    int64_t last_ns;
    int before = s->n_launchers;
    (void)start_all(s, workers / (before + 1) * before);
    int64_t late_ns = event_now();
    stage_launch(s, s->late);
    if (stage_wait_starts(s, workers, late_ns, -1, &last_ns))
        print_us("grown_us", s->launchers[before].exec_ns, last_ns);
    else
        print_late("grown_us");
}

static void play_orphans(struct stage *s, int workers)
{
    (void)start_all(s, workers);
    int64_t kill_ns = event_now();
    if (kill(s->launchers[0].pid, SIGKILL) != 0)
        stage_die(s, "the launcher to be killed was gone");
    if (stage_wait_empty(s))
        print_us("gone_us", kill_ns, s->empty_ns);
    else
        print_late("gone_us");
}

static const struct trial {
    const char *name;
    void (*play)(struct stage *s, int workers);
    bool late; /* it starts the last launcher itself */
} trials[] = {
    {"life", play_life, false},       {"restart", play_restart, false},
    {"node", play_node, false},       {"silent", play_silent, false},
    {"host", play_host, false},       {"mute", play_mute, false},
    {"orphans", play_orphans, false}, {"grow", play_grow, true},
};

/* -- main ---------------------------------------------------------------- */

__attribute__((noreturn)) static void usage(void)
{
    (void)fputs("usage: driver TRIAL WORKERS SETTLE_MS LIMIT_S FOLDER "
                "-- LAUNCHER... [-- LAUNCHER...]\n",
                stderr);
    exit(2);
}

static long number(const char *text, long max)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 1 || n > max)
        usage();
    return n;
}

/* Each "--" ends one command and begins the next. late: the last one waits. */
static void launch_all(struct stage *s, int argc, char *argv[], bool late)
{
    int begin = 0;
    for (int i = 0; i <= argc; i++) {
        if (i < argc && strcmp(argv[i], "--") != 0)
            continue;
        if (i == begin)
            usage();
        argv[i] = NULL; /* argv[argc] is NULL already */
        if (late && i == argc)
            s->late = argv + begin;
        else
            stage_launch(s, argv + begin);
        begin = i + 1;
    }
}

int main(int argc, char *argv[])
{
    if (argc < MIN_ARGC || strcmp(argv[MIN_ARGC - 2], "--") != 0)
        usage();
    int workers = (int)number(argv[2], STAGE_TREE / 2);
    long settle_ms = number(argv[3], 3600 * 1000);
    long limit_s = number(argv[4], 3600);
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        struct stage s;
        if (strcmp(argv[1], trials[i].name) != 0)
            continue;
        stage_open(&s, argv[5], settle_ms * STAGE_MS, limit_s * STAGE_S);
        launch_all(&s, argc - MIN_ARGC + 1, argv + MIN_ARGC - 1,
                   trials[i].late);
        trials[i].play(&s, workers);
        stage_close(&s);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    usage();
}
