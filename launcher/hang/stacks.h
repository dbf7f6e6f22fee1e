/*
 * launcher/hang/stacks: writes down what the threads of a worker that makes
 * no progress are doing.
 */
#ifndef LAUNCHER_HANG_STACKS_H
#define LAUNCHER_HANG_STACKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "launcher/hang/odd_rank.h"

/* The processes to look at, by rank. */
struct stacks_of {
    int n;
    int first;        /* whose stacks are taken first */
    int tool_s;       /* a debugger may take so long for each process, ... */
    int64_t until_us; /* ... and all until then (mono_now_us) */
    bool go_on; /* they may be well: one tool for each, the one that stops it
                   for the shortest time, and nothing is called in them */
    pid_t pids[RANK_LOOKS_MAX];
    struct rank_look
        looks[RANK_LOOKS_MAX]; /* what each does, as far as known */
};

/*
 * Writes to `fd`, for each process: its stacks, if gdb, eu-stack or (for
 * Python) py-spy is installed and may attach (ptrace(2)); and what /proc says
 * of each thread: its state, where it waits in the kernel, its system call.
 * Adds to `looks` where each stands. To be called in a process of its own
 * (helper_start). py-spy is looked for beside the interpreter that the worker's
 * command line names, and then in PATH.
 */
void stacks_write(int fd, struct stacks_of *of);

/* The next line of that file that people are shown (stack_line); NULL: there
 * is none. `line` and `room` are getline(3)'s: the caller frees `*line`. */
const char *stacks_next(FILE *f, char **line, size_t *room);

/* Prints the beginning of that file on stderr, for people: from the stacks of
 * this process on, if they are there. `path` names the file that has all of
 * them, "" if there is none. */
void stacks_print(int fd, int64_t rank, pid_t pid, const char *path);

#define STACKS_EXE_MAX 512

/* Whether the process runs a Python, and which file that is. */
bool stacks_find_python(pid_t pid, char exe[STACKS_EXE_MAX]);

#endif
