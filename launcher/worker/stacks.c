/*
 * Happy path: attach once to see whether it is allowed, then run a debugger for
 * the worker that is blamed, write what /proc says of the threads of all, and
 * run the debugger for the others. Only the beginning is shown on the console.
 *
 * Failure modes, each of which leaves a sentence in the file:
 *   - No debugger may attach: why (Yama, another user); /proc is read all the
 *     same.
 *   - No debugger is installed.
 *   - A debugger hangs on the worker: SIGALRM ends it after TOOL_S.
 *   - The numbers in /proc are those of another pid namespace: nothing is
 *     touched.
 *
 * This process is killed if the round ends meanwhile, and the debugger with it
 * (PR_SET_PDEATHSIG): a worker is never left stopped by a debugger that lives.
 */
#include "launcher/worker/stacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/procfs.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/err.h"
#include "rendezvous/net/helper.h"

#define THREADS_MAX 256 /* of one process; more are counted only */
#define YAMA_FILE   "/proc/sys/kernel/yama/ptrace_scope"
#define TOOL_S      10
#define TOOL_BYTES  (4 * 1024 * 1024) /* more than any worker's stacks */

/* -- /proc ----------------------------------------------------------------- */

/* The file's first line, or "-" if it cannot be read. */
static void read_line(pid_t pid, const char *tid, const char *name, char *line)
{
    char path[64];
    ssize_t n = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%.12s/%s", (int)pid, tid,
                   name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, line, 255);
        (void)close(fd); /* only read */
    }
    (void)snprintf(line + (n > 0 ? n : 0), 2, "%s", n > 0 ? "" : "-");
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
    char scope = '\0';
    int yama = open(YAMA_FILE, O_RDONLY | O_CLOEXEC);
    if (yama >= 0 && read(yama, &scope, 1) != 1)
        scope = '\0';
    if (yama >= 0)
        (void)close(yama); /* only read */
    (void)dprintf(
        fd, "  no stacks: the kernel does not let a debugger attach: %s\n",
        strerror(sys_errno));
    if (scope > '0')
        (void)dprintf(fd, "  (kernel.yama.ptrace_scope is %c%s)\n", scope,
                      scope == '2' ? ": only root may attach"
                      : scope == '3'
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

enum tool {
    TOOL_PY_SPY,
    TOOL_NATIVE, /* gdb, or eu-stack if there is no gdb */
    TOOL_NATIVE_AND_PYTHON,
};

__attribute__((noreturn)) static void
exec_tool(int fd, pid_t pid, enum tool tool)
{
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
    (void)alarm(TOOL_S);                  /* outlives execve(2) ... */
    (void)setrlimit(RLIMIT_FSIZE, &most); /* ... as does this */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)unsetenv("DEBUGINFOD_URLS"); /* no downloads */
    if (tool == TOOL_PY_SPY) {
        (void)execlp("py-spy", "py-spy", "dump", "--pid", number, (char *)NULL);
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
static bool run_tool(int fd, pid_t pid, enum tool tool)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        exec_tool(fd, pid, tool);
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (child > 0 && WIFSIGNALED(status))
        (void)dprintf(fd, "  (the debugger was killed by signal %d (%s)%s)\n",
                      WTERMSIG(status), signals_name(WTERMSIG(status)),
                      WTERMSIG(status) == SIGALRM   ? ": it took too long"
                      : WTERMSIG(status) == SIGXFSZ ? ": it printed too much"
                                                    : "");
    return child > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
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

/* Returns false if no tool is installed. */
static bool write_stacks(int fd, int rank, pid_t pid)
{
    char exe[STACKS_EXE_MAX];
    bool python = stacks_find_python(pid, exe);
    int no = try_to_look(pid);
    (void)dprintf(fd, "rank %d (pid %d): stacks\n", rank, (int)pid);
    if (no != 0) {
        if (no != ESRCH) /* else /proc shows that it has ended */
            explain(fd, no);
        return true;
    }
    bool spied = python && run_tool(fd, pid, TOOL_PY_SPY);
    return run_tool(fd, pid,
                    python && !spied ? TOOL_NATIVE_AND_PYTHON : TOOL_NATIVE) ||
           spied;
}

/* The worker that is blamed comes first, with its stacks: only the beginning is
 * shown on the console. */
void stacks_write(int fd, const struct stacks_of *of)
{
    ddp_assert(of->n >= 0 && of->n <= STACKS_PIDS_MAX);
    if (!procfs_is_ours()) { /* its numbers would be strangers' */
        (void)dprintf(fd, "no stacks: /proc does not show the processes of "
                          "this pid namespace\n");
        return;
    }
    FILE *f = fdopen(fd, "w");
    /* The tools write to it too. */
    (void)fcntl(fd, F_SETFL, O_APPEND);
    bool tool = of->n > 0 && write_stacks(fd, of->ranks[0], of->pids[0]);
    if (!tool)
        (void)dprintf(fd, "no stacks: none of gdb, eu-stack and (for "
                          "Python) py-spy is installed\n");
    for (int i = 0; f != NULL && i < of->n; i++) {
        (void)fprintf(f, "rank %d (pid %d): threads, as /proc shows them\n",
                      of->ranks[i], (int)of->pids[i]);
        write_threads(f, of->pids[i]);
    }
    if (f != NULL)
        (void)fflush(f);
    for (int i = 1; tool && i < of->n; i++)
        (void)write_stacks(fd, of->ranks[i], of->pids[i]);
}
