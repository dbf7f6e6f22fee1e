/*
 * net/helper: child processes that run code of this binary: the rendezvous
 * server of a launcher, the store of a round, the store of ddprdzvd --c10d.
 * Helpers die with their parent, and have no descriptors but the given ones.
 * They have no key of the token unless they need it: the store and the
 * relay read what workers and unknown peers write.
 */
#ifndef RENDEZVOUS_NET_HELPER_H
#define RENDEZVOUS_NET_HELPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "rendezvous/base/err.h"

/* What a helper keeps. */
struct helper_fds {
    int listener; /* or any other descriptor; -1: none */
    int chan;     /* the end of a channel (net/fd_pass); -1: none */
    int also;     /* another listener; 0: none */
    bool token;   /* it keeps the token's key; else the key is wiped */
};

/* Called in the child, with its own copies. Must not return. */
typedef void (*helper_main)(const struct helper_fds *fds, const void *arg);

/*
 * Forks. Must be called on the main thread (parent-death signal). The caller
 * keeps its own descriptors. Errors: DDP_E_NOMEM. A helper that cannot have its
 * descriptors ends at once, with the exit status of DDP_E_NOMEM.
 */
int helper_start(pid_t *pid,
                 const struct helper_fds *fds,
                 helper_main run,
                 const void *arg,
                 struct ddp_err *err);

/*
 * In a helper that is about to execute another program: undoes what the
 * launcher blocks or ignores for itself. (timeout(1) sends SIGTERM, and
 * alarm(2) has to end a debugger.)
 */
void helper_take_signals(void);

/* Reaps a helper that has ended; *pid becomes 0. Returns the status as wait(2)
 * does, that of exit code 255 if it cannot be had. */
int helper_reap(pid_t *pid);

/* Sends SIGKILL and reaps; *pid becomes 0. Does nothing if *pid is 0. A helper
 * that must not be signalled is not waited for. */
void helper_kill(pid_t *pid);

/* The same, for one that the kernel may hold (state D): it is never waited for.
 * What does not end at once is left to a caller that reaps all its children
 * (workers_reap_orphans). */
void helper_abandon(pid_t *pid);

/* Waits for a child until then (mono_now_us), and abandons it. */
void helper_wait(pid_t *pid, int64_t until_us);

#endif
