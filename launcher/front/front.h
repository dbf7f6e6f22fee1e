/*
 * launcher/front/front: the front end of a job: one process, on one machine,
 * that starts a launcher on each host and is none itself. In the script of a
 * Slurm job it executes srun; for a list of hosts it executes ssh, or what
 * --launch_with says, for each:
 *
 *     ddprun ---- srun ~~~~~~~ proxy -- ddprun (host 1)
 *                      `~~~~~~ proxy -- ddprun (host 2)
 *
 *     ddprun -+-- ssh a ~~~~~~ proxy -- ddprun (host a)
 *             `-- ssh b ~~~~~~ proxy -- ddprun (host b)
 *
 * It passes signals on, shows the output of all, and ends with the status that
 * the launchers have. If the front end dies, in whatever way, the proxies
 * notice and end their launchers.
 */
#ifndef LAUNCHER_FRONT_FRONT_H
#define LAUNCHER_FRONT_FRONT_H

#include "launcher/conf/conf.h"

/*
 * Runs the job, and returns the exit status: that of the launchers; that of
 * DDP_E_UNREACHABLE if too few hosts could be reached; 128 + N if signal N
 * ended it before any launcher had a status; that of DDP_E_PEER if all were
 * lost; what srun ended with if it started none; that of DDP_E_NOMEM if there
 * are too few descriptors for all hosts. c->front.kind is not NONE, and `o` is
 * as it was parsed of argv[0..argc).
 */
int front_run(const struct conf *c,
              const struct opts *o,
              int argc,
              char *const argv[]);

/* --dry_run: prints what would be executed. Returns the exit status. */
int front_dry_run(const struct conf *c,
                  const struct opts *o,
                  int argc,
                  char *const argv[]);

#endif
