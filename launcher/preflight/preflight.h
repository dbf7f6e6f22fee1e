/*
 * launcher/preflight/preflight: ddprun --preflight, the cluster checked with
 * the line that will train on it.
 *
 * It is a run of its own kind: the launchers meet as ever, under the run's id
 * and a suffix, and start one worker each, which is ddprun itself under the
 * name PREFLIGHT_NAME: the probe. The probes tell each other what they know
 * through the round's store, then each pair of nodes measures both directions
 * (launcher/preflight/pairing), and rank 0 prints what was found
 * (preflight_report).
 *
 *     probe            rank 0                       the others
 *     facts      ->    waits for all, GATHER_US     reach the store, or say why
 *     start      <-    those that came
 *     rounds           pairs measure: the lower place first, then the other
 *     results    ->    judges
 *     again      <-    slow links, measured once more, one by one
 *     verdict    <-    prints; ends with PREFLIGHT's status if not all is well
 *
 * Who does not reach the store can tell nobody, not even its name, but by
 * failing, which would end the round for the others. So it waits; when rank 0
 * is done it fails with another status, for which there is one restart, and in
 * that second round such a node fails at once: every launcher prints its word.
 */
#ifndef LAUNCHER_PREFLIGHT_PREFLIGHT_H
#define LAUNCHER_PREFLIGHT_PREFLIGHT_H

#include "launcher/conf/conf.h"

/*
 * What the probe must know and no worker's environment tells: put into our own
 * environment, which workers inherit. To be called before anything is started,
 * with conf->preflight. Errors: NOMEM.
 */
int preflight_prepare(const struct conf *conf, struct ddp_err *err);

/* The probe: runs by its environment, and returns its exit status. */
int preflight_main(void);

#endif
