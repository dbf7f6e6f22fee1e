/*
 * launcher/worker/stacks: writes down what the threads of a worker that makes
 * no progress are doing.
 */
#ifndef LAUNCHER_WORKER_STACKS_H
#define LAUNCHER_WORKER_STACKS_H

#include <stdbool.h>
#include <sys/types.h>

#define STACKS_PIDS_MAX 64

/* The processes to look at. The first one is looked at first, in full. */
struct stacks_of {
    int n;
    pid_t pids[STACKS_PIDS_MAX];
    int ranks[STACKS_PIDS_MAX]; /* global ranks, for the headings */
};

/*
 * Writes to `fd`, for each process: its stacks, if gdb, eu-stack or (for
 * Python) py-spy is installed and may attach (ptrace(2)); and what /proc says
 * of each thread: its state, where it waits in the kernel, its system call. A
 * tool may take 10 s for each process. To be called in a process of its own
 * (helper_start).
 */
void stacks_write(int fd, const struct stacks_of *of);

#define STACKS_EXE_MAX 512

/* Whether the process runs a Python, and which file that is. */
bool stacks_find_python(pid_t pid, char exe[STACKS_EXE_MAX]);

#endif
