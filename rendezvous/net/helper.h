/*
 * net/helper: processes of ours beside the one that serves or launches,
 * forked from it: the rendezvous server of a launcher, the store of a round,
 * the store of ddprdzvd --c10d. They run this binary's own code, die with
 * their parent, and hold no descriptor but the two that they are given. Of the
 * token they know nothing unless they are to: a store and a relay read what
 * strangers and workers write.
 */
#ifndef RENDEZVOUS_NET_HELPER_H
#define RENDEZVOUS_NET_HELPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "rendezvous/base/err.h"

/* What a helper is given, each -1 where there is none. */
struct helper_fds {
    int listener; /* or another one that it is to have */
    int chan;     /* net/fd_pass */
    bool token;   /* it keeps the token's key; else that is wiped */
};

/* Called in the child with its own copies; must not return. */
typedef void (*helper_main)(const struct helper_fds *fds, const void *arg);

/*
 * Forks. A helper that cannot have its descriptors ends at once, with the
 * status of DDP_E_NOMEM. The caller keeps its own descriptors. Errors:
 * DDP_E_NOMEM. Must be called on the main thread (parent-death signal).
 */
int helper_start(pid_t *pid,
                 const struct helper_fds *fds,
                 helper_main run,
                 const void *arg,
                 struct ddp_err *err);

/*
 * In a helper that is about to execute a program of somebody else's: nothing is
 * blocked or ignored any more that the launcher blocks or ignores for itself
 * (a check's timeout(1) sends SIGTERM, alarm(2) is to end a debugger).
 */
void helper_take_signals(void);

/* SIGKILL and reap; *pid becomes 0. Nothing for 0. */
void helper_kill(pid_t *pid);

#endif
