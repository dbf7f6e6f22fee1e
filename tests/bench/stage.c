#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "event.h"

#define LOOK_NS  (500 * 1000LL) /* between looks at the workers' reports */
#define CLOSE_NS (5 * STAGE_S)

/* -- the end ------------------------------------------------------------- */

static void add_child_pids(const char *path, pid_t *pids, int *n)
{
    FILE *f = fopen(path, "re");
    int pid;
    if (f == NULL)
        return; /* it is gone already */
    while (*n < STAGE_TREE && fscanf(f, "%d", &pid) == 1)
        pids[(*n)++] = pid;
    (void)fclose(f); /* read only */
}

/* proc(5): the children are listed for each thread. */
static void add_children(pid_t pid, pid_t *pids, int *n)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid); /* fits */
    DIR *d = opendir(path);
    if (d == NULL)
        return;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/children",
                       (int)pid, e->d_name);
        add_child_pids(path, pids, n);
    }
    (void)closedir(d);
}

static int descendants(pid_t root, pid_t pids[STAGE_TREE])
{
    int n = 0;
    add_children(root, pids, &n);
    for (int i = 0; i < n; i++)
        add_children(pids[i], pids, &n);
    return n;
}

static void note_death(struct stage *s, pid_t pid, int status)
{
    for (int i = 0; i < s->n_launchers; i++) {
        struct launcher *l = &s->launchers[i];
        if (l->pid != pid || l->gone_ns != 0)
            continue;
        l->gone_ns = event_now();
        l->status = status;
    }
}

static void reap(struct stage *s)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        note_death(s, pid, status);
    if (pid < 0 && errno == ECHILD && s->empty_ns == 0)
        s->empty_ns = event_now();
}

void stage_close(struct stage *s)
{
    static pid_t pids[STAGE_TREE];
    int64_t until_ns = event_now() + CLOSE_NS;
    reap(s);
    while (s->empty_ns == 0 && event_now() < until_ns) {
        int n = descendants(getpid(), pids);
        for (int i = 0; i < n; i++)
            (void)kill(pids[i], SIGKILL); /* ESRCH: gone by itself */
        struct timespec pause = {.tv_nsec = LOOK_NS};
        (void)nanosleep(&pause, NULL);
        reap(s);
    }
}

void stage_die(struct stage *s, const char *fmt, ...)
{
    va_list ap;
    (void)fputs("driver: ", stderr);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    stage_close(s);
    exit(1);
}

/* -- the start ----------------------------------------------------------- */

/* What stage_pause waits for: a child's end, or being told to end. */
static void awaited_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGCHLD);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
}

static int open_in(struct stage *s, const char *name, int flags)
{
    char path[512];
    int n = snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    int fd = -1;
    if (n < (int)sizeof(path))
        fd = open(path, flags | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        stage_die(s, "cannot open %s in %s: %s", name, s->dir, strerror(errno));
    return fd;
}

void stage_open(struct stage *s,
                const char *dir,
                int64_t settle_ns,
                int64_t limit_ns)
{
    sigset_t set;
    *s = (struct stage){
        .dir = dir,
        .settle_ns = settle_ns,
        .limit_ns = limit_ns,
    };
    awaited_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    s->launchers =
        mmap(NULL, sizeof(struct launcher) * STAGE_LAUNCHERS,
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->launchers == MAP_FAILED)
        stage_die(s, "no memory");
    s->events_fd = open_in(s, "events", O_RDONLY);
    s->gate_fd = open_in(s, "gate", O_RDWR);
    if (flock(s->gate_fd, LOCK_EX) != 0)
        stage_die(s, "cannot lock the gate: %s", strerror(errno));
}

__attribute__((noreturn)) static void
become(struct launcher *l, int output_fd, char **argv)
{
    sigset_t set;
    (void)setpgid(0, 0); /* launchers that kill their group spare the driver */
    awaited_signals(&set);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    int null_fd = open("/dev/null", O_RDONLY);
    if (dup2(null_fd, 0) < 0 || dup2(output_fd, 1) < 0 ||
        dup2(output_fd, 2) < 0)
        _exit(126);
    l->exec_ns = event_now();
    (void)execvp(argv[0], argv);
    _exit(127);
}

void stage_launch(struct stage *s, char **argv)
{
    if (s->n_launchers == STAGE_LAUNCHERS)
        stage_die(s, "more than %d launchers", STAGE_LAUNCHERS);
    int output_fd = open_in(s, "output", O_WRONLY | O_APPEND);
    struct launcher *l = &s->launchers[s->n_launchers++];
    pid_t pid = fork();
    if (pid < 0)
        stage_die(s, "cannot fork: %s", strerror(errno));
    if (pid == 0)
        become(l, output_fd, argv);
    l->pid = pid;
    (void)close(output_fd);
}

/* -- waiting ------------------------------------------------------------- */

/* Returns early when a child has ended. */
static void doze(struct stage *s, int64_t ns)
{
    sigset_t set;
    struct timespec t = {.tv_sec = ns / STAGE_S, .tv_nsec = ns % STAGE_S};
    awaited_signals(&set);
    int signo = sigtimedwait(&set, NULL, &t);
    if (signo == SIGTERM || signo == SIGINT)
        stage_die(s, "told to end");
    reap(s);
}

void stage_pause(struct stage *s, int64_t ns)
{
    int64_t until_ns = event_now() + ns;
    for (int64_t now = until_ns - ns; now < until_ns; now = event_now())
        doze(s, until_ns - now);
}

bool stage_wait_launcher(struct stage *s, int launcher)
{
    int64_t until_ns = event_now() + s->limit_ns;
    while (s->launchers[launcher].gone_ns == 0) {
        int64_t now = event_now();
        if (now >= until_ns)
            return false;
        doze(s, until_ns - now);
    }
    return true;
}

bool stage_wait_empty(struct stage *s)
{
    int64_t until_ns = event_now() + s->limit_ns;
    reap(s);
    while (s->empty_ns == 0) {
        int64_t now = event_now();
        if (now >= until_ns)
            return false;
        doze(s, until_ns - now);
    }
    return true;
}

/* -- the workers' reports ------------------------------------------------ */

static int read_events(struct stage *s, struct event events[STAGE_EVENTS])
{
    ssize_t n =
        pread(s->events_fd, events, sizeof(struct event) * STAGE_EVENTS, 0);
    if (n < 0)
        stage_die(s, "cannot read the events: %s", strerror(errno));
    if (n == (ssize_t)sizeof(struct event) * STAGE_EVENTS)
        stage_die(s, "too many events: do the workers start over and over?");
    return (int)(n / (ssize_t)sizeof(struct event));
}

/* How many events of that kind are later than `since_ns`, and the latest. */
static int count_events(struct stage *s,
                        enum event_kind kind,
                        int64_t since_ns,
                        int64_t *last_ns)
{
    static struct event events[STAGE_EVENTS];
    int n = read_events(s, events);
    int found = 0;
    *last_ns = 0;
    for (int i = 0; i < n; i++) {
        if (events[i].kind != (int32_t)kind || events[i].ns <= since_ns)
            continue;
        found++;
        if (events[i].ns > *last_ns)
            *last_ns = events[i].ns;
    }
    return found;
}

/* One that ended, but for the victim; NULL. */
static const struct launcher *find_ended(const struct stage *s, int victim)
{
    for (int i = 0; i < s->n_launchers; i++)
        if (i != victim && s->launchers[i].gone_ns != 0)
            return &s->launchers[i];
    return NULL;
}

bool stage_wait_starts(
    struct stage *s, int n, int64_t since_ns, int victim, int64_t *last_ns)
{
    int64_t until_ns = event_now() + s->limit_ns;
    while (count_events(s, EVENT_START, since_ns, last_ns) < n) {
        const struct launcher *l = find_ended(s, victim);
        if (l != NULL && s->may_end)
            return false;
        if (l != NULL)
            stage_die(s, "launcher %d ended too early, with %s %d",
                      (int)(l - s->launchers),
                      WIFEXITED(l->status) ? "status" : "signal",
                      WIFEXITED(l->status) ? WEXITSTATUS(l->status)
                                           : WTERMSIG(l->status));
        if (event_now() >= until_ns)
            return false;
        doze(s, LOOK_NS);
    }
    return true;
}

int64_t stage_first_start(struct stage *s)
{
    static struct event events[STAGE_EVENTS];
    int n = read_events(s, events);
    int64_t first_ns = 0;
    for (int i = 0; i < n; i++)
        if (events[i].kind == EVENT_START &&
            (first_ns == 0 || events[i].ns < first_ns))
            first_ns = events[i].ns;
    return first_ns;
}

int64_t stage_last_end(struct stage *s, int n)
{
    int64_t last_ns;
    int found = count_events(s, EVENT_END, 0, &last_ns);
    if (found != n)
        stage_die(s, "%d workers ended in order, not %d", found, n);
    return last_ns;
}

void stage_open_gate(struct stage *s)
{
    if (flock(s->gate_fd, LOCK_UN) != 0)
        stage_die(s, "cannot open the gate: %s", strerror(errno));
}

int stage_workers(struct stage *s, pid_t pids[STAGE_EVENTS])
{
    static struct event events[STAGE_EVENTS];
    int n = read_events(s, events);
    int found = 0;
    for (int i = 0; i < n; i++)
        if (events[i].kind == EVENT_START)
            pids[found++] = events[i].pid;
    return found;
}

static bool is_among(pid_t pid, const pid_t *pids, int n)
{
    for (int i = 0; i < n; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

int stage_tree(struct stage *s, int launcher, pid_t pids[STAGE_TREE])
{
    static pid_t workers[STAGE_EVENTS];
    static pid_t below[STAGE_TREE];
    int n_workers = stage_workers(s, workers);
    int n_below = descendants(s->launchers[launcher].pid, below);
    int n = 0;
    pids[n++] = s->launchers[launcher].pid;
    for (int i = 0; i < n_below && n < STAGE_TREE; i++)
        if (!is_among(below[i], workers, n_workers))
            pids[n++] = below[i];
    return n;
}
