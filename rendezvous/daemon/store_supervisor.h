/*
 * daemon/store_supervisor: the store of ddprdzvd --c10d, one for as long as the
 * daemon runs, in a process of its own: nothing that is done to it delays a
 * beat. It dies with the daemon; when it ends by itself, an empty one takes its
 * place.
 */
#ifndef RENDEZVOUS_DAEMON_STORE_SUPERVISOR_H
#define RENDEZVOUS_DAEMON_STORE_SUPERVISOR_H

#include <sys/types.h>
#include <uv.h>

#include "rendezvous/base/err.h"

/* The caller's storage; the fields are the room's own. */
struct store_supervisor {
    pid_t pid;
    int take; /* kept, so that the next one goes on where one ended */
    uv_signal_t sigchld;
    uv_timer_t again;
};

/* Starts it; where it cannot be started now it is tried again each second.
 * *give is the channel's giving end, for struct server_conf, which owns it.
 * Errors: DDP_E_NOMEM, after which the process is to end. */
int store_supervisor_open(struct store_supervisor *c,
                          uv_loop_t *loop,
                          int *give,
                          struct ddp_err *err);

/* Ends it; the loop must run until its handles are closed. */
void store_supervisor_close(struct store_supervisor *c);

#endif
