/*
 * Happy path: attach once to see whether it is allowed, then run a debugger for
 * the worker that is blamed, write what /proc says of the threads of all, and
 * run the debugger for the others. Only the beginning is shown on the console.
 *
 * Failure modes, each of which leaves a sentence in the file:
 *   - No debugger may attach: why (Yama, another user); /proc is read all the
 *     same.
 *   - No debugger is installed.
 *   - A debugger hangs on the worker: SIGALRM ends it when its time is over.
 *   - The worker waits in the kernel (state D): no debugger could attach.
 *   - The numbers in /proc are those of another pid namespace: nothing is
 *     touched.
 *
 * This process is killed if the round ends meanwhile, and the debugger with it
 * (PR_SET_PDEATHSIG): a worker is never left stopped by a debugger that lives.
 */
#include "launcher/hang/stacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/conf/program.h"
#include "launcher/proc/procfs.h"
#include "launcher/hang/rank_look.h"
#include "launcher/hang/stack_line.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/net/helper.h"

#define THREADS_MAX 256 /* of one process; more are counted only */
#define YAMA_FILE   "/proc/sys/kernel/yama/ptrace_scope"
#define TOOL_BYTES  (4 * 1024 * 1024) /* more than any worker's stacks */

#define LINES_ON_TERM   24
#define COLUMNS_ON_TERM 200 /* of a line; longer ones are cut */

/* -- /proc ----------------------------------------------------------------- */

/* The file's first line, or "-" if it cannot be read. */
static void read_line(pid_t pid, const char *tid, const char *name, char *line)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%.12s/%s", (int)pid, tid,
                   name);
    if (!procfs_read_file(path, line, 256))
        memcpy(line, "-", 2);
    line[strcspn(line, "\n")] = '\0';
}

/* The letter after the name, which is in parentheses and may hold more. */
static char state_of(const char *stat)
{
    const char *end = strrchr(stat, ')');
    return end != NULL && end[1] == ' ' && end[2] != '\0' ? end[2] : '?';
}

/* wchan is 0 as well if the kernel does not show it; then syscall is empty. */
static void write_thread(FILE *f, pid_t pid, const char *tid)
{
    char comm[257], stat[257], wchan[257], call[257];
    read_line(pid, tid, "comm", comm);
    read_line(pid, tid, "stat", stat);
    read_line(pid, tid, "wchan", wchan);
    read_line(pid, tid, "syscall", call);
    (void)fprintf(f, "  thread %s (%.32s): state %c, ", tid, comm,
                  state_of(stat));
    bool waits = strcmp(wchan, "0") != 0;
    if (strcmp(call, "-") == 0 && !waits)
        (void)fprintf(f, "where it waits cannot be read\n");
    else
        (void)fprintf(f, "%s%.64s, system call %.*s\n",
                      waits ? "waits in " : "does not wait", waits ? wchan : "",
                      (int)strcspn(call, " "), call);
}

static void write_threads(FILE *f, pid_t pid)
{
    char path[64];
    int n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        (void)fprintf(f, "  the process has ended\n");
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        if (n++ < THREADS_MAX)
            write_thread(f, pid, e->d_name);
    }
    (void)closedir(dir); /* only read */
    if (n > THREADS_MAX)
        (void)fprintf(f, "  and %d more thread%s\n", n - THREADS_MAX,
                      n - THREADS_MAX == 1 ? "" : "s");
}

/* -- whether a debugger may attach ---------------------------------------- */

/* 0, or the errno that a debugger would get: a child of ours attaches, and
 * detaches by ending. The process does not notice (ptrace(2)). */
static int try_to_look(pid_t pid)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0 ? 0 : errno & 0x7f);
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* On most machines it is Yama that forbids it, kernel.org's
 * Documentation/admin-guide/LSM/Yama.rst. */
static void explain(int fd, int sys_errno)
{
    char scope[2];
    (void)procfs_read_file(YAMA_FILE, scope, sizeof(scope));
    (void)dprintf(
        fd, "  no stacks: the kernel does not let a debugger attach: %s\n",
        strerror(sys_errno));
    if (scope[0] > '0')
        (void)dprintf(fd, "  (kernel.yama.ptrace_scope is %s%s)\n", scope,
                      scope[0] == '2' ? ": only root may attach"
                      : scope[0] == '3'
                          ? ": no process may attach until the next boot"
                          : "");
}

/* -- debuggers ------------------------------------------------------------- */

/*
 * What a person wants to see of a Python worker is its Python lines. py-spy
 * reads them from outside. Else gdb has the interpreter write them, by the
 * function that faulthandler calls on a crash: it takes no lock and allocates
 * nothing, so that it can be called wherever the process stands. It writes to
 * a descriptor that the worker opens for that: of our file, at its end.
 *
 * gdb 13 and earlier cannot write the registers of a CPU with AMX ("Couldn't
 * write extended state status"), and notices it in the middle of a call, which
 * ends the worker. So a bit of one of these registers is turned over and back
 * before: an error there ends the expression, and nothing has been touched
 * (stack_line says what that means).
 */
#if defined(__x86_64__)
#define CAN_WRITE "($mxcsr = (int)$mxcsr ^ 2), ($mxcsr = (int)$mxcsr ^ 2), "
#else
#define CAN_WRITE ""
#endif

#define PYTHON_LINES "Python lines" /* headings of a worker */
#define STACKS       "stacks"

/* py-spy shows native frames as well on these. */
#if defined(__x86_64__)
#define PY_SPY_NATIVE "--native"
#else
#define PY_SPY_NATIVE NULL
#endif

#define PY_SPY      "py-spy"
#define PY_SPY_FROM "pip install 'ddprun[debug]'"

enum tool {
    TOOL_PY_SPY,
    TOOL_NATIVE, /* gdb, or eu-stack if there is no gdb */
    TOOL_NATIVE_AND_PYTHON,
};

/* Beside the interpreter as it was called, which in a virtual environment is a
 * link to another folder's; else that of PATH. */
static bool find_py_spy(pid_t pid, char path[STACKS_EXE_MAX])
{
    struct ddp_err err;
    (void)procfs_read_text(pid, "cmdline", path,
                           STACKS_EXE_MAX + 1 - sizeof(PY_SPY));
    char *slash =
        strrchr(path, '/'); /* of the first word: it ends with a NUL */
    if (path[0] == '/' && slash != NULL) {
        memcpy(slash + 1, PY_SPY, sizeof(PY_SPY));
        if (access(path, X_OK) == 0)
            return true;
    }
    return program_find(PY_SPY, path, STACKS_EXE_MAX, &err) == 0;
}

struct tool_run {
    enum tool tool;
    int fd; /* of the stacks */
    pid_t pid;
    bool stopped; /* by a signal */
    bool go_on;
    int limit_s;
    char py_spy[STACKS_EXE_MAX]; /* "": none */
};

__attribute__((noreturn)) static void exec_tool(const struct tool_run *run)
{
    const int fd = run->fd;
    const pid_t pid = run->pid;
    const enum tool tool = run->tool;
    char number[16], call[256];
    bool python = tool == TOOL_NATIVE_AND_PYTHON;
    off_t before = lseek(fd, 0, SEEK_END);
    const rlim_t end = TOOL_BYTES + (before > 0 ? (rlim_t)before : 0);
    const struct rlimit most = {.rlim_cur = end, .rlim_max = end};
    (void)snprintf(number, sizeof(number), "%d", (int)pid);
    (void)snprintf(call, sizeof(call),
                   "call " CAN_WRITE
                   "($fd = (int)open(\"/proc/%d/fd/%d\", %d)), "
                   "(void)_Py_DumpTracebackThreads($fd, (void *)0, (void *)0)",
                   (int)getppid(), fd, O_WRONLY | O_APPEND | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    helper_take_signals();
    (void)alarm((unsigned)run->limit_s);  /* outlives execve(2) ... */
    (void)setrlimit(RLIMIT_FSIZE, &most); /* ... as does this */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)unsetenv("DEBUGINFOD_URLS"); /* no downloads */
    if (tool == TOOL_PY_SPY) {
        /* A stopped process stands still by itself, and py-spy cannot stop it
         * again. */
        (void)execl(run->py_spy, PY_SPY, "dump", "--pid", number,
                    run->stopped ? "--nonblocking"
                    : run->go_on ? PY_SPY_NATIVE
                                 : NULL,
                    (char *)NULL);
        _exit(127);
    }
    (void)execlp(
        "gdb", "gdb", "-nx", "-q", "-batch", "-iex", "set auto-load no", "-iex",
        "set print frame-info location", "-iex", "set width 0",
        /* In an interpreter that is not up the call breaks, not the worker. */
        "-iex", "set unwindonsignal on", "-p", number, "-ex",
        python ? call : "echo",
        /* The main thread first. */
        "-ex", "thread apply all -ascending backtrace 32", (char *)NULL);
    (void)execlp("eu-stack", "eu-stack", "-n", "32", "-p", number,
                 (char *)NULL);
    _exit(127);
}

/* Returns false if the tool is not installed. */
static bool run_tool(const struct tool_run *run)
{
    const int fd = run->fd;
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        exec_tool(run);
    if (child < 0) {
        (void)dprintf(fd, "  no stacks: cannot start a debugger: %s\n",
                      strerror(errno));
        return true; /* it may well be */
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (WIFSIGNALED(status))
        (void)dprintf(fd, "  (the debugger was killed by signal %d (%s)%s)\n",
                      WTERMSIG(status), signals_name(WTERMSIG(status)),
                      WTERMSIG(status) == SIGALRM   ? ": it took too long"
                      : WTERMSIG(status) == SIGXFSZ ? ": it printed too much"
                                                    : "");
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

bool stacks_find_python(pid_t pid, char exe[STACKS_EXE_MAX])
{
    char path[64];
    exe[0] = '\0';
    if (!procfs_is_ours()) /* its numbers would be strangers' */
        return false;
    (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, exe, STACKS_EXE_MAX - 1);
    exe[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(exe, '/');
    return slash != NULL && strncmp(slash + 1, "python", 6) == 0;
}

static void
write_heading(int fd, const struct rank_look *look, pid_t pid, const char *what)
{
    (void)dprintf(fd, "rank %lld (pid %d): %s\n", (long long)look->rank,
                  (int)pid, what);
}

static bool is_heading(const char *line, int64_t rank, pid_t pid)
{
    char own[64];
    int len = snprintf(own, sizeof(own), "rank %lld (pid %d): ", /* fits */
                       (long long)rank, (int)pid);
    return strncmp(line, own, (size_t)len) == 0 &&
           (strcmp(line + len, PYTHON_LINES) == 0 ||
            strcmp(line + len, STACKS) == 0);
}

struct taking {
    int fd;
    struct stacks_of *of;
    struct stack_place places[RANK_LOOKS_MAX];
};

/* Runs a tool, and reads where the worker stands from what it wrote. The file's
 * own offset moves, which changes nothing: it is only appended to. Returns
 * false if the tool is not installed. */
static bool take_place(struct taking *t, int i, const struct tool_run *run)
{
    char *line = NULL;
    size_t room = 0;
    off_t from = lseek(t->fd, 0, SEEK_END);
    bool found = run_tool(run);
    int copy = dup(t->fd);
    FILE *f = copy >= 0 ? fdopen(copy, "r") : NULL;
    if (f == NULL && copy >= 0)
        (void)close(copy); /* only to be read */
    if (f == NULL)
        return found; /* where the worker stands is not known, then */
    if (fseeko(f, from, SEEK_SET) == 0)
        while (getline(&line, &room, f) > 0) {
            line[strcspn(line, "\n")] = '\0';
            stack_place_take(&t->places[i], line);
        }
    free(line);
    (void)fclose(f); /* only read */
    rank_look_place(&t->of->looks[i], &t->places[i]);
    return found;
}

/* A limit of 0: the time is over. */
static struct tool_run run_of(const struct taking *t, int i)
{
    const struct stacks_of *of = t->of;
    int64_t left_s = (of->until_us - mono_now_us()) / MONO_S;
    return (struct tool_run){
        .fd = t->fd,
        .pid = of->pids[i],
        .stopped = of->looks[i].doing == RANK_STOPPED,
        .go_on = of->go_on,
        .limit_s = left_s <= 0 ? 0 : (int)mono_min(left_s, of->tool_s)};
}

/* py-spy takes moments. Why there are no lines is told with the stacks. */
static void write_python(struct taking *t, int i)
{
    char exe[STACKS_EXE_MAX];
    struct tool_run run = run_of(t, i);
    run.tool = TOOL_PY_SPY;
    if (t->of->looks[i].doing == RANK_IN_KERNEL || run.limit_s == 0 ||
        !stacks_find_python(run.pid, exe) || try_to_look(run.pid) != 0 ||
        !find_py_spy(run.pid, run.py_spy))
        return;
    write_heading(t->fd, &t->of->looks[i], run.pid, PYTHON_LINES);
    (void)take_place(t, i, &run);
}

/*
 * The interpreter of a stopped worker is not called: gdb would have to let it
 * run. Nor is that of one that may be well: it is not to end by our looking at
 * it. Returns false if there is no tool.
 */
static bool write_stacks(struct taking *t, int i)
{
    char exe[STACKS_EXE_MAX];
    struct tool_run run = run_of(t, i);
    const struct rank_look *look = &t->of->looks[i];
    if (run.go_on && t->places[i].where[0] != '\0')
        return true; /* py-spy has shown them */
    write_heading(t->fd, look, run.pid, STACKS);
    if (look->doing == RANK_IN_KERNEL || run.limit_s == 0) {
        (void)dprintf(t->fd, "  no stacks: %s\n",
                      run.limit_s == 0
                          ? "those before took all the time"
                          : "the process waits in the kernel (state D), and a "
                            "debugger would wait for it");
        return true;
    }
    int no = try_to_look(run.pid);
    if (no != 0) {
        if (no != ESRCH) /* else /proc shows that it has ended */
            explain(t->fd, no);
        return true;
    }
    bool python = stacks_find_python(run.pid, exe);
    bool spied = python && find_py_spy(run.pid, run.py_spy);
    if (python && !spied)
        (void)dprintf(t->fd,
                      "  (py-spy, which reads Python lines from outside, "
                      "is not installed: " PY_SPY_FROM ")\n");
    run.tool =
        python && !run.stopped && !run.go_on && t->places[i].where[0] == '\0'
            ? TOOL_NATIVE_AND_PYTHON
            : TOOL_NATIVE;
    return take_place(t, i, &run) || spied;
}

static void write_all_threads(int fd, const struct stacks_of *of)
{
    int copy = dup(fd);
    FILE *f = copy >= 0 ? fdopen(copy, "a") : NULL;
    if (f == NULL && copy >= 0)
        (void)close(copy); /* nothing was written */
    for (int i = 0; f != NULL && i < of->n; i++) {
        (void)fprintf(f, "rank %lld (pid %d): threads, as /proc shows them\n",
                      (long long)of->looks[i].rank, (int)of->pids[i]);
        write_threads(f, of->pids[i]);
    }
    if (f != NULL)
        (void)fclose(f); /* what does not fit is lost */
}

/* What is told first comes first: only the beginning is shown on the console.
 * The quick tools go before those that may take all the time. */
void stacks_write(int fd, struct stacks_of *of)
{
    struct taking t = {.fd = fd, .of = of};
    ddp_assert(of->n >= 1 && of->n <= RANK_LOOKS_MAX && of->first < of->n);
    if (!procfs_is_ours()) { /* its numbers would be strangers' */
        (void)dprintf(fd, "no stacks: /proc does not show the processes of "
                          "this pid namespace\n");
        return;
    }
    (void)fcntl(fd, F_SETFL, O_APPEND); /* the tools write to it, too */
    for (int i = 0; i < of->n; i++)
        stack_place_init(&t.places[i], of->pids[i]);
    write_python(&t, of->first);
    for (int i = 0; i < of->n; i++)
        if (i != of->first)
            write_python(&t, i);
    bool tool = write_stacks(&t, of->first);
    if (!tool)
        (void)dprintf(fd, "no stacks: none of gdb, eu-stack and (for "
                          "Python) py-spy is installed\n");
    write_all_threads(fd, of);
    for (int i = 0; tool && i < of->n; i++)
        if (i != of->first)
            (void)write_stacks(&t, i);
}

/* -- for people ------------------------------------------------------------ */

const char *stacks_next(FILE *f, char **line, size_t *room)
{
    const char *text = NULL;
    while (text == NULL && getline(line, room, f) > 0) {
        (*line)[strcspn(*line, "\n")] = '\0';
        text = stack_line_for_people(*line);
    }
    return text;
}

/* To the stacks of this process; else to the beginning. */
static void seek_stacks(FILE *f, int64_t rank, pid_t pid)
{
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    off_t at = 0;
    rewind(f);
    while (!found && getline(&line, &room, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        found = is_heading(line, rank, pid);
        at = found ? at : ftello(f);
    }
    free(line);
    if (!found || fseeko(f, at, SEEK_SET) != 0)
        rewind(f);
}

void stacks_print(int fd, int64_t rank, pid_t pid, const char *path)
{
    char *line = NULL;
    const char *text;
    size_t room = 0;
    int n = 0, copy = dup(fd);
    FILE *f = copy >= 0 ? fdopen(copy, "r") : NULL;
    if (f == NULL) {
        log_warn("cannot show the stacks");
        if (copy >= 0)
            (void)close(copy); /* only to be read */
        return;
    }
    seek_stacks(f, rank, pid);
    while (n++ < LINES_ON_TERM && (text = stacks_next(f, &line, &room)) != NULL)
        log_info("  | %.*s%s", COLUMNS_ON_TERM, text,
                 strlen(text) > COLUMNS_ON_TERM ? "..." : "");
    free(line);
    if (n > LINES_ON_TERM && path[0] != '\0')
        log_info("  | ... (the rest is in %s)", path);
    (void)fclose(f); /* only read */
}
