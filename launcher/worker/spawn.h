/*
 * launcher/worker/spawn: starts one worker. It forks and takes a pidfd itself:
 * uv_spawn has no parent-death signal, no pidfd and no way to choose what the
 * child inherits. Without pidfds (pidfd_works) the worker has none.
 *
 * A worker has a session of its own, or is in the agent's with others, each in
 * a process group of its own (shares_session). It gets SIGKILL if the agent's
 * main thread dies. Its signals have their default actions (those that were
 * ignored when the launcher started stay ignored: nohup) and none is blocked.
 * It has the user's limit of open files, and a higher oom_score than the agent.
 */
#ifndef LAUNCHER_WORKER_SPAWN_H
#define LAUNCHER_WORKER_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launcher/hw/cpus.h"
#include "rendezvous/base/err.h"

/* What the launcher was started with, before it changes it for itself. */
struct spawn_origin {
    struct rlimit files; /* of open files; a maximum of 0: not known */
    uint64_t ignored;    /* bit n-1: signal n was ignored */
    char oom_adj[16];    /* the workers': ours and some more (proc(5)) */
    bool terminal;       /* stdin is one ... */
    bool reads_keys;     /* ... in whose foreground it was */
};

/* To be called before the launcher makes its own session and changes signals or
 * limits. */
void spawn_remember(struct spawn_origin *origin);

struct spawn_request {
    const char *path; /* to execve; with a slash */
    char *const *argv;
    char *const *envp;
    const struct spawn_origin *origin;
    const struct cpus *cpus; /* to be bound to; NULL: as we are */
    int report_fd; /* a child that cannot exec writes struct spawn_trouble */
    int out_fd;    /* what becomes its stdout and stderr; -1: ours */
    int err_fd;
    int keep_fd; /* one of ours that it gets, under its number; -1: none */
    /* A pipe from which the child has to read more variables before it executes
     * the program: "NAME=VALUE" NUL ... NUL, at least one; -1: none. If the
     * pipe ends before, so does the child. */
    int env_fd;
    int local_rank;
    bool shares_session;
    bool may_read; /* our stdin, if it is a terminal; else it gets /dev/null */
    bool watched;  /* the agent's children may attach to it, for its stacks */
};

/* What a child writes if it cannot execute the program. */
struct spawn_trouble {
    int local_rank;
    int sys_errno;
};

/* Bytes that may come from env_fd. */
#define SPAWN_ENV_MAX 4096

/*
 * Forks the worker. *pid and *pidfd are the caller's (the pidfd is
 * close-on-exec, to be closed after the worker was reaped; -1: there are no
 * pidfds here). Must be called on the main thread: the parent-death signal
 * follows the thread. Errors: DDP_E_NOMEM when processes or descriptors ran
 * out.
 */
int spawn_worker(const struct spawn_request *req,
                 pid_t *pid,
                 int *pidfd,
                 struct ddp_err *err);

/* Empties the pipe behind report_fd: what it says is of workers of before. */
void spawn_forget(int report_fd);

/*
 * Of a worker that ended with 126 or 127: reads from the pipe behind report_fd
 * why it could not execute `path`, and whether no other try will. If the pipe
 * does not say so the program itself has ended with that, and nothing changes.
 */
void spawn_explain(int report_fd,
                   int local_rank,
                   const char *path,
                   bool *permanent,
                   char *text,
                   size_t size);

#endif
