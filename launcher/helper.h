/*
 * launcher/helper: processes of ours beside the agent, forked from it: the
 * embedded rendezvous server and the store of a round. They run this binary's
 * own code, die with the agent, and hold no descriptor but their listener.
 */
#ifndef HELPER_H
#define HELPER_H

#include <sys/types.h>

#include "rendezvous/base/err.h"

/* Called in the child with the listener; must not return. */
typedef void (*helper_main)(int listen_fd, const void *arg);

/*
 * Forks. The caller keeps its own `listen_fd`. Errors: DDP_E_NOMEM. Must be
 * called on the main thread (parent-death signal).
 */
int helper_start(pid_t *pid,
                 int listen_fd,
                 helper_main run,
                 const void *arg,
                 struct ddp_err *err);

/* SIGKILL and reap; *pid becomes 0. Nothing for 0. */
void helper_kill(pid_t *pid);

#endif
