/*
 * launcher/preflight/look: what a node knows of itself, for a preflight.
 */
#ifndef LAUNCHER_PREFLIGHT_LOOK_H
#define LAUNCHER_PREFLIGHT_LOOK_H

#include <stdbool.h>

#include "launcher/preflight/data.h"

/*
 * Fills all but rank, port and place[PREFLIGHT_MASTER].addr, which is given
 * (numeric): its interface and MTU are looked up. place[PREFLIGHT_NCCL] is
 * empty where NCCL_SOCKET_IFNAME is not set, or leads to the same address;
 * where it leads nowhere, `problem` says so. Loads NVML and NCCL where they
 * are.
 */
void preflight_look(struct preflight_node *n);

/* Whether NCCL would take this interface: a list of prefixes, "=" before it for
 * whole names, "^" for all but these (NCCL User Guide, NCCL_SOCKET_IFNAME). */
bool preflight_ifname_matches(const char *list, const char *iface);

#endif
