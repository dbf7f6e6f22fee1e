/*
 * http/overview: the document that /status, the page and ddpctl show: JSON that
 * is bounded however large the rendezvous is. A run of many nodes has groups of
 * them, with counts (http/groups), and only the nodes that are not well; of
 * many runs only the first have all.
 *
 * It is made in steps, so that the server answers beats in between: each looks
 * at OVERVIEW_PLACES nodes or writes one run, of OVERVIEW_NODES_MAX nodes at
 * most. What it shows is therefore of several moments, some milliseconds apart:
 *
 * - which runs it has, and which of them in groups, is as it was at the first
 *   step; a run that has gone since is left out;
 * - a run, its rounds, and all nodes that are listed by name are of one moment,
 *   that of the step that writes the run;
 * - the counts of groups, and the progress of a run in groups, are older: each
 *   node counts as it was when this looked at it. A node that changed its place
 *   meanwhile may be counted twice or not at all.
 */
#ifndef RENDEZVOUS_HTTP_OVERVIEW_H
#define RENDEZVOUS_HTTP_OVERVIEW_H

#include "rendezvous/http/groups.h"
#include "rendezvous/http/status.h"

#define OVERVIEW_NODES_MAX  256 /* of a run that is not in groups */
#define OVERVIEW_LISTED_MAX 512 /* nodes of all runs */
#define OVERVIEW_RUNS_FULL  16
#define OVERVIEW_RUNS_MAX   64
#define OVERVIEW_PLACES     500 /* looked at in a step */

struct overview;

/* Owned by the caller; takes its memory for groups only while it makes a
 * document. Dies out of memory. */
struct overview *overview_new(void);
void overview_del(struct overview *o);

/*
 * Takes the next step, and appends to `out`, the same buffer for all steps of a
 * document. 1: there is more to do; 0: it is whole, one line without its end;
 * -1: it does not fit or there is no memory. The step after 0 and -1 is the
 * first one of the next document. `only`: runs with this id, NULL: all; the
 * same for all steps of a document, and borrowed as long. Runs that have not
 * ended come first. A run that is not shown in full has "brief": true.
 */
int overview_step(struct overview *o,
                  struct buf *out,
                  const struct rdzv *r,
                  const struct status_daemon *d,
                  const struct status_when *when,
                  const char *only);

#endif
