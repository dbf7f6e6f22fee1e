/*
 * launcher/cluster/hostlist: Slurm's lists of nodes,
 * "n[1-3,7,09-11],gpu-[1-2]". Pure: no I/O and no allocation. They are read
 * here because scontrol, which expands them as well, is often not in the
 * container that a job runs in.
 */
#ifndef LAUNCHER_CLUSTER_HOSTLIST_H
#define LAUNCHER_CLUSTER_HOSTLIST_H

#include <stdbool.h>

#include "rendezvous/base/err.h"

#define HOSTLIST_HOSTS_MAX    100000  /* as CONF_NNODES_MAX */
#define HOSTLIST_NAME_MAX     255     /* bytes of one name */
#define HOSTLIST_TEXT_MAX     1000000 /* bytes of a list */
#define HOSTLIST_BRACKETS_MAX 4       /* in one name */
#define HOSTLIST_DIGITS_MAX   9       /* of a number in brackets */

/* One name, borrowed for the call. False ends the walk. */
typedef bool (*hostlist_fn)(void *ctx, const char *name);

/*
 * Calls `fn` for each host, in Slurm's order: the last brackets of a name count
 * fastest. Returns how many there are, 1 or more; a walk that `fn` ended
 * returns how many it saw. The list is checked as it is walked, so that `fn`
 * has perhaps seen names when an error is found.
 *
 * Errors: DDP_E_USAGE, with the part of the list that is wrong and what was
 * wanted.
 */
int hostlist_walk(const char *text,
                  hostlist_fn fn,
                  void *ctx,
                  struct ddp_err *err);

/* Whether it can be the name of a host: letters, digits, '.', '-', '_', and
 * neither empty nor longer than HOSTLIST_NAME_MAX. */
bool hostlist_is_name(const char *name);

#endif
