/*
 * Happy path: one clone3 makes the child in the launch's cgroup, with a pidfd
 * and without our handlers of signals. The child sets itself up with
 * async-signal-safe calls only, and calls execve. It asks for the parent-death
 * signal first, and then whether the parent still lives: the other way round
 * the parent could die in between, unnoticed.
 *
 * Failure modes:
 * - No process or no pidfd can be had: an error with errno, and no child is
 *   left.
 * - The agent dies between fork and prctl: the child sees another parent, and
 *   exits as if the signal had come.
 * - clone3 is refused, as by old container runtimes, or does not know a flag
 *   (Linux before 5.7): fork and pidfd_open. The child then takes the handlers
 *   of all signals away one by one, and moves itself into the cgroup, which
 *   takes milliseconds.
 * - Binding to CPUs, limits, the oom score: a refusal is ignored, since the
 *   worker can run without.
 * - execve fails, or its streams cannot be put in place, or its variables
 *   cannot be read: errno goes through report_fd (a write of less than
 *   PIPE_BUF, so that those of several children do not mix), and the exit code
 *   is the shell's, 126 or 127.
 */
#include "launcher/worker/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/cgroup.h"
#include "launcher/proc/pidfd.h"
#include "launcher/proc/signals.h"

_Static_assert(sizeof(struct spawn_trouble) <= PIPE_BUF,
               "what children write to one pipe does not mix");
_Static_assert(NSIG - 1 == 64, "a bit of spawn_origin.ignored for each");

/* Of <linux/sched.h>, which older headers do not have: struct clone_args as of
 * Linux 5.7, and flags. */
struct clone3_args {
    uint64_t flags;
    uint64_t pidfd;
    uint64_t child_tid;
    uint64_t parent_tid;
    uint64_t exit_signal;
    uint64_t stack;
    uint64_t stack_size;
    uint64_t tls;
    uint64_t set_tid;
    uint64_t set_tid_size;
    uint64_t cgroup;
};
_Static_assert(sizeof(struct clone3_args) == 88, "CLONE_ARGS_SIZE_VER2");
#define FLAG_PIDFD         UINT64_C(0x1000)
#define FLAG_CLEAR_SIGHAND UINT64_C(0x100000000) /* Linux 5.5 */
#define FLAG_INTO_CGROUP   UINT64_C(0x200000000) /* Linux 5.7 */
#ifndef SYS_clone3
#define SYS_clone3 435 /* on every machine */
#endif

#define OOM_FILE "/proc/self/oom_score_adj"
#define OOM_MORE 200
#define OOM_MAX  1000

#define FDSIZE      "\nFDSize:"
#define FDS_UNKNOWN 65536 /* if there is no /proc */

/* As the kernel has it on 64-bit machines. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

/* sigaction(2), also of the two signals of glibc's own: a launcher that has
 * made a thread handles them, and a worker is to be as one that is started
 * before. */
static bool change_action(int signo,
                          const struct kernel_action *now,
                          struct kernel_action *was)
{
    return syscall(SYS_rt_sigaction, signo, now, was, sizeof(now->mask)) == 0;
}

/* If memory runs out, the kernel shall kill a worker, not the agent that
 * reports it. A launcher that was given a higher score keeps it for its
 * workers. */
static void remember_oom_score(struct spawn_origin *origin)
{
    char text[16] = "";
    int fd = open(OOM_FILE, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
        text[0] = '\0'; /* then ours is taken for 0, the default */
    if (fd >= 0)
        (void)close(fd); /* read only */
    long adj = strtol(text, NULL, 10) + OOM_MORE;
    (void)snprintf(origin->oom_adj, /* fits */
                   sizeof(origin->oom_adj), "%d",
                   adj < OOM_MAX ? (int)adj : OOM_MAX);
}

void spawn_remember(struct spawn_origin *origin)
{
    *origin = (struct spawn_origin){.ignored = 0};
    if (getrlimit(RLIMIT_NOFILE, &origin->files) != 0)
        origin->files = (struct rlimit){.rlim_cur = 0}; /* not known */
    for (int signo = 1; signo <= 64; signo++) {
        struct kernel_action was;
        if (change_action(signo, NULL, &was) && was.handler == SIG_IGN)
            origin->ignored |= SIGNALS_BIT(signo);
    }
    origin->terminal = isatty(STDIN_FILENO) == 1;
    origin->reads_keys =
        origin->terminal && tcgetpgrp(STDIN_FILENO) == getpgrp();
    remember_oom_score(origin);
}

/* -- in the child: only what is async-signal-safe -------------------------- */

/* `ours` are those that may be other than the worker's: bit n-1 is signal n. */
static void reset_signals(const struct spawn_origin *origin, uint64_t ours)
{
    for (int signo = 1; signo <= 64; signo++) {
        uint64_t bit = SIGNALS_BIT(signo);
        bool ignore = (origin->ignored & bit) != 0;
        struct kernel_action now = {.handler = ignore ? SIG_IGN : SIG_DFL};
        if ((ours & bit) != 0)
            (void)change_action(signo, &now, NULL); /* not of KILL and STOP */
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * One worker may read the terminal, if the launcher was started in its
 * foreground. The kernel lets any session read a terminal that is not its own:
 * a worker of a launcher in the background would take the shell's keys.
 */
static void detach_terminal(const struct spawn_request *req)
{
    if ((req->may_read && req->origin->reads_keys) || !req->origin->terminal)
        return;
    int fd = open("/dev/null", O_RDONLY);
    if (fd >= 0) {
        (void)dup2(fd, STDIN_FILENO);
        (void)close(fd);
    }
}

static void raise_oom_score(const struct spawn_origin *origin)
{
    int fd = open(OOM_FILE, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = write(fd, origin->oom_adj, strlen(origin->oom_adj));
    (void)n; /* a refusal changes nothing that matters */
    (void)close(fd);
}

/* If they went offline since, the worker runs on those that it may use. */
static void bind_cpus(const struct cpus *cpus)
{
    _Static_assert(sizeof(cpus->bits) % sizeof(long) == 0,
                   "a mask of sched_setaffinity(2)");
    const cpu_set_t *mask = (const cpu_set_t *)(const void *)cpus->bits;
    (void)sched_setaffinity(0, sizeof(cpus->bits), mask);
}

/* Where its lines belong; without, they would come into another one's. */
static bool put(int fd, int stream)
{
    while (fd >= 0 && dup2(fd, stream) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* All descriptors are below this number: the size of their table, which fork
 * makes fit ("FDSize", proc(5)). */
static int descriptors_end(void)
{
    char text[1024];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        (void)close(fd); /* read only */
    text[n < 0 ? 0 : n] = '\0';
    const char *at = strstr(text, FDSIZE);
    return at == NULL ? FDS_UNKNOWN
                      : (int)strtol(at + strlen(FDSIZE), NULL, 10);
}

/* The launcher's descriptors, which execve would close: a child that waits must
 * not keep them open. */
static void close_launchers(const struct spawn_request *req)
{
    int end = descriptors_end();
    for (int fd = 3; fd < end; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags > 0 && fd != req->report_fd && fd != req->keep_fd &&
            fd != req->env_fd && fd != req->out_fd && fd != req->err_fd)
            (void)close(fd); /* the launcher has it */
    }
}

/* False: errno. If it ends before all has come, so does this process. */
static bool read_env(int fd, char *text, size_t size)
{
    size_t len = 0;
    while (len < 2 || text[len - 1] != '\0' || text[len - 2] != '\0') {
        ssize_t n = len < size ? read(fd, text + len, size - len) : 0;
        if (n == 0)
            _exit(128 + SIGKILL); /* its round is over */
        if (n < 0 && errno != EINTR)
            return false;
        len += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return a[len] == '=' && strncmp(a, b, len + 1) == 0;
}

/* The environment with what comes from env_fd, which replaces what has its
 * names. NULL: errno. */
static char *const *wait_for_env(const struct spawn_request *req)
{
    static char text[SPAWN_ENV_MAX];
    size_t n = 0, more = 0;
    if (!read_env(req->env_fd, text, sizeof(text)))
        return NULL;
    for (const char *at = text; *at != '\0'; at += strlen(at) + 1)
        more++;
    while (req->envp[n] != NULL)
        n++;
    char **env = mmap(NULL, (n + more + 1) * sizeof(*env),
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0); /* malloc is not for a fresh child */
    if (env == MAP_FAILED)
        return NULL;
    memcpy(env, req->envp, n * sizeof(*env));
    for (char *at = text; *at != '\0'; at += strlen(at) + 1) {
        size_t i = 0;
        while (i < n && !same_name(env[i], at))
            i++;
        env[i] = at;
        n += i == n;
    }
    return env; /* NULL behind its end, as it was mapped */
}

__attribute__((noreturn)) static void
become(const struct spawn_request *req, pid_t agent, uint64_t signals)
{
    /* A fresh child leads no group: neither can fail. */
    if (req->shares_session)
        (void)setpgid(0, 0);
    else
        (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent)
        _exit(128 + SIGKILL); /* it died before we could ask to be told */
    /* Yama lets ancestors only attach; this lets the debuggers of stacks.c. */
    if (req->watched)
        (void)prctl(PR_SET_PTRACER, agent, 0, 0, 0);
    if (req->origin->files.rlim_max > 0)
        (void)setrlimit(RLIMIT_NOFILE, &req->origin->files);
    if (req->cpus != NULL)
        bind_cpus(req->cpus);
    detach_terminal(req);
    raise_oom_score(req->origin);
    reset_signals(req->origin, signals);
    char *const *envp = req->envp;
    if (req->env_fd >= 0) {
        close_launchers(req);
        envp = wait_for_env(req);
    }
    if (envp != NULL && put(req->out_fd, STDOUT_FILENO) &&
        put(req->err_fd, STDERR_FILENO) &&
        (req->keep_fd < 0 || fcntl(req->keep_fd, F_SETFD, 0) == 0))
        (void)execve(req->path, req->argv, envp);
    struct spawn_trouble t = {.local_rank = req->local_rank,
                              .sys_errno = errno};
    ssize_t n = write(req->report_fd, &t, sizeof(t));
    (void)n; /* the exit code tells it too */
    _exit(t.sys_errno == ENOENT ? 127 : 126);
}

static void move_into_cgroup(void)
{
    int fd = openat(cgroup_fd(), "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = write(fd, "0", 1); /* the writer (cgroups(7)) */
    (void)n; /* without, what it leaves behind is killed one by one */
    (void)close(fd);
}

/* In the launch's cgroup from its first moment, if there is one: moving the
 * child there later costs milliseconds. -1: not known here, or refused. */
static pid_t clone_worker(int *pidfd)
{
    bool grouped = cgroup_fd() >= 0;
    struct clone3_args args = {
        .flags = FLAG_CLEAR_SIGHAND | (pidfd_works() ? FLAG_PIDFD : 0) |
                 (grouped ? FLAG_INTO_CGROUP : 0),
        .pidfd = (uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = grouped ? (uint32_t)cgroup_fd() : 0,
    };
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static pid_t
fork_worker(const struct spawn_request *req, pid_t agent, int *pidfd)
{
    pid_t pid = clone_worker(pidfd);
    /* Of the signals we ignore some, and may not ignore some that we found
     * ignored. */
    if (pid == 0)
        become(req, agent, SIGNALS_IGNORED | req->origin->ignored);
    if (pid > 0)
        return pid;
    *pidfd = -1;
    pid = fork();
    if (pid != 0)
        return pid;
    if (cgroup_fd() >= 0)
        move_into_cgroup();
    become(req, agent, UINT64_MAX);
}

/* -- in the agent ---------------------------------------------------------- */

int spawn_worker(const struct spawn_request *req,
                 pid_t *pid,
                 int *pidfd,
                 struct ddp_err *err)
{
    pid_t agent = getpid();
    ddp_assert(syscall(SYS_gettid) == agent && req->report_fd >= 0);
    ddp_assert(req->out_fd != STDIN_FILENO && req->err_fd != STDIN_FILENO);
    *pidfd = -1;
    *pid = fork_worker(req, agent, pidfd);
    if (*pid < 0)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot start the worker with local rank %d",
                           req->local_rank);
    if (*pidfd >= 0 || !pidfd_works())
        return 0;
    /* Until we reap it the pid is its own, so that this is no race. */
    *pidfd = pidfd_of(*pid);
    if (*pidfd >= 0)
        return 0;
    ddp_err_sys(err, DDP_E_NOMEM,
                "cannot watch the worker with local rank %d: pidfd_open",
                req->local_rank);
    (void)kill(*pid, SIGKILL);
    (void)waitpid(*pid, NULL, 0);
    return -1;
}

/* -- why it could not ------------------------------------------------------ */

static bool find_trouble(int report_fd, int local_rank, int *why)
{
    struct spawn_trouble t;
    bool found = false;
    while (read(report_fd, &t, sizeof(t)) == (ssize_t)sizeof(t))
        if (t.local_rank == local_rank) {
            *why = t.sys_errno;
            found = true;
        }
    return found;
}

/* Whether another try may execute the program. */
static bool is_transient(int why)
{
    return why == ENOMEM || why == EAGAIN || why == ENFILE || why == EMFILE ||
           why == ETXTBSY || why == EINTR || why == EIO;
}

/* What strerror does not tell about a file that exists. */
static const char *hint_of(const char *path, int why)
{
    if (why == ENOENT && access(path, F_OK) == 0)
        return "; the file exists, but the interpreter that its first line "
               "(#!) or its ELF header names does not";
    if (why == ENOEXEC)
        return "; it is neither a program for this machine nor a script with "
               "#! (for Python: --run_path)";
    return "";
}

void spawn_forget(int report_fd)
{
    int why;
    (void)find_trouble(report_fd, -1, &why);
}

void spawn_explain(int report_fd,
                   int local_rank,
                   const char *path,
                   bool *permanent,
                   char *text,
                   size_t size)
{
    int why;
    if (!find_trouble(report_fd, local_rank, &why))
        return;
    *permanent = !is_transient(why);
    (void)snprintf(text, size, /* a cut text is still a text */
                   "cannot execute %.200s: %.80s%s", path, strerror(why),
                   hint_of(path, why));
}
