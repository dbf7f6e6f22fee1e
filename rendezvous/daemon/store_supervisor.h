/*
 * daemon/store_supervisor: keeps the store of ddprdzvd --c10d running, one for
 * as long as the daemon runs. The store is a process of its own, so that no
 * client of it delays a beat. It dies with the daemon; if it ends by itself, an
 * empty one takes its place.
 */
#ifndef RENDEZVOUS_DAEMON_STORE_SUPERVISOR_H
#define RENDEZVOUS_DAEMON_STORE_SUPERVISOR_H

#include <sys/types.h>
#include <uv.h>

#include "rendezvous/base/err.h"

/* The caller's storage; the fields are store_supervisor.c's own. */
struct store_supervisor {
    unsigned magic;
    pid_t pid; /* 0: none runs */
    int take;  /* the channel's taking end, for the next one, too */
    uv_signal_t sigchld;
    uv_timer_t again;
};

/* Starts it; if it cannot be started now, that is tried again each second.
 * *give is the channel's giving end, for struct server_conf, which owns it.
 * Errors: DDP_E_NOMEM, after which the process must end. */
int store_supervisor_open(struct store_supervisor *s,
                          uv_loop_t *loop,
                          int *give,
                          struct ddp_err *err);

/* Ends it; the loop must run until its handles are closed. */
void store_supervisor_close(struct store_supervisor *s);

#endif
