/*
 * launcher/preflight/preflight: ddprun --preflight, the cluster checked with
 * the line that will train on it.
 *
 * It is a run of its own: the launchers meet as always, under the run's id and
 * a suffix, and start one worker each, the probe, which is ddprun itself under
 * the name PREFLIGHT_NAME. The probes exchange their data through the round's
 * store, and each tries to reach others (launcher/preflight/reach). Rank 0
 * prints the report (launcher/preflight/report).
 *
 *     step             rank 0                    the others
 *     node       <-    waits for all,            reach the store, and tell what
 *                      GATHER_US                 they are; or sit out
 *     start      ->    the nodes that came
 *     links      <-    tries its links           try their links
 *     verdict    ->    judges, prints; a problem
 *                      ends it with PREFLIGHT's
 *                      status
 *
 * A probe that does not reach the store cannot report anything, not even its
 * name. It could only fail, and that would end the round for the others. So it
 * waits. When rank 0 has printed its report it fails with the status of
 * UNREACHABLE, for which there is one restart. In this second round the probe
 * that does not reach the store fails at once, and every launcher prints its
 * message.
 */
#ifndef LAUNCHER_PREFLIGHT_PREFLIGHT_H
#define LAUNCHER_PREFLIGHT_PREFLIGHT_H

#include "launcher/conf/conf.h"

/*
 * Puts what the probe must know, and no worker's environment has, into our own
 * environment, which workers inherit. Call it with conf->preflight, before any
 * process is started. Errors: NOMEM.
 */
int preflight_prepare(const struct conf *conf, struct ddp_err *err);

/* The probe: runs by its environment, and returns its exit status. */
int preflight_main(void);

#endif
