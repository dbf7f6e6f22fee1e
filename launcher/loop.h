/*
 * launcher/loop: the shell around the agent's core. Turns what libuv, the
 * kernel and the guard tell into events, and the core's actions into calls.
 */
#ifndef LAUNCHER_LOOP_H
#define LAUNCHER_LOOP_H

#include "launcher/conf/conf.h"
#include "launcher/worker/spawn.h"

/*
 * Runs the launch until it has ended; returns the exit status. Borrows `conf`
 * and `origin`. `guard_fd` is the agent's end of the socketpair. Called once
 * in the agent process.
 */
int loop_run(const struct conf *conf,
             const struct spawn_origin *origin,
             int guard_fd);

#endif
