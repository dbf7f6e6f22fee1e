/*
 * launcher/preflight/look: the data of this node, for a preflight.
 */
#ifndef LAUNCHER_PREFLIGHT_LOOK_H
#define LAUNCHER_PREFLIGHT_LOOK_H

#include <stdbool.h>

#include "launcher/preflight/facts.h"

/*
 * Fills all facts but FACT_PORT and the address of PREFLIGHT_MASTER, which is
 * given (numeric), and whose interface and MTU it looks up. What PREFLIGHT_NCCL
 * has is "" if NCCL_SOCKET_IFNAME is not set, or gives the same address. If it
 * fits no interface FACT_PROBLEM says so. Loads NVML and NCCL if there are any.
 */
void preflight_look(struct preflight_node *n);

/* Whether NCCL uses this interface. `list` has prefixes; "=" before it means
 * whole names, "^" all but these (NCCL User Guide, NCCL_SOCKET_IFNAME). */
bool preflight_ifname_matches(const char *list, const char *iface);

#endif
