#include "launcher/stacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 256 /* of one process; more are counted only */
#define TOOL_S      10

/* -- /proc ----------------------------------------------------------------- */

/* The file's first line, or "-" where it cannot be read. */
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

/* The letter behind the name, which is in parentheses and may hold any. */
static char state_of(const char *stat)
{
    const char *end = strrchr(stat, ')');
    return end != NULL && end[1] == ' ' && end[2] != '\0' ? end[2] : '?';
}

static void write_thread(FILE *f, pid_t pid, const char *tid)
{
    char comm[257], stat[257], wchan[257], call[257];
    read_line(pid, tid, "comm", comm);
    read_line(pid, tid, "stat", stat);
    read_line(pid, tid, "wchan", wchan);
    read_line(pid, tid, "syscall", call);
    (void)fprintf(f, "  thread %s (%.32s): state %c, waits in %.64s, ", tid,
                  comm, state_of(stat),
                  strcmp(wchan, "0") == 0 ? "no call" : wchan);
    (void)fprintf(f, "system call %.*s\n", (int)strcspn(call, " "), call);
}

static void write_threads(FILE *f, pid_t pid)
{
    char path[64];
    int n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        (void)fprintf(f, "  it is gone\n");
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
        (void)fprintf(f, "  and %d threads more\n", n - THREADS_MAX);
}

/* -- debuggers ------------------------------------------------------------- */

__attribute__((noreturn)) static void exec_tool(int fd, pid_t pid)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%d", (int)pid);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(TOOL_S); /* outlives execve(2) */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)unsetenv("DEBUGINFOD_URLS"); /* no downloads */
    (void)execlp("gdb", "gdb", "-nx", "-batch", "-p", number, "-ex",
                 "thread apply all backtrace 32", (char *)NULL);
    (void)execlp("eu-stack", "eu-stack", "-n", "32", "-p", number,
                 (char *)NULL);
    _exit(127);
}

/* Whether a tool is there. */
static bool run_tool(int fd, pid_t pid)
{
    int status = 0;
    pid_t tool = fork();
    if (tool == 0)
        exec_tool(fd, pid);
    while (tool > 0 && waitpid(tool, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (tool > 0 && WIFSIGNALED(status))
        (void)dprintf(fd, "  (the debugger was ended by signal %d)\n",
                      WTERMSIG(status));
    return tool > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

void stacks_main(int fd, const void *arg)
{
    const struct stacks_of *of = arg;
    FILE *f = fdopen(fd, "w");
    bool tool = true;
    for (int i = 0; f != NULL && i < of->n; i++) {
        (void)fprintf(f, "rank %d (pid %d)\n", of->ranks[i], (int)of->pids[i]);
        write_threads(f, of->pids[i]);
    }
    if (f != NULL)
        (void)fflush(f);
    for (int i = 0; tool && i < of->n; i++) {
        (void)dprintf(fd, "\nrank %d (pid %d)\n", of->ranks[i],
                      (int)of->pids[i]);
        tool = run_tool(fd, of->pids[i]);
    }
    if (!tool)
        (void)dprintf(fd, "no stacks: neither gdb nor eu-stack is installed\n");
    _exit(0);
}
