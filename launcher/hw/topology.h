/*
 * launcher/hw/topology: which CPUs a worker is bound to, from what sysfs says
 * about NUMA nodes, sockets, cores and caches. The modes are torchrun's (torch
 * 2.9, torch/numa/binding.py): only CPUs are bound, memory follows by first
 * touch. Reads files below a root, which is "/sys" but in tests; nothing else.
 */
#ifndef LAUNCHER_HW_TOPOLOGY_H
#define LAUNCHER_HW_TOPOLOGY_H

#include "launcher/hw/cpus.h"
#include "rendezvous/base/err.h"

enum topology_mode {
    TOPOLOGY_NONE,
    TOPOLOGY_NODE,         /* all CPUs of the NUMA node */
    TOPOLOGY_SOCKET,       /* of all nodes of its socket */
    TOPOLOGY_EXCLUSIVE,    /* cores of the node that nobody else has */
    TOPOLOGY_CORE_COMPLEX, /* those of the node that share a last-level cache */
};

#define TOPOLOGY_NODES_MAX 256

/*
 * The NUMA node of a PCI device ("0000:3b:00.0"), -1 where it is not said.
 * Machines with one node often say -1 themselves.
 */
int topology_pci_node(const char *sys, const char *pci);

/* NUMA nodes that have a CPU of `allowed`: their numbers in order, their
 * count. A machine without NUMA has node 0. */
int topology_nodes(const char *sys,
                   const struct cpus *allowed,
                   int nodes[TOPOLOGY_NODES_MAX]);

/*
 * What seat `at` of `n` is bound to: out of `allowed`, by the NUMA node of each
 * seat. A seat is a GPU's, or a worker's where there are none. Seats of one
 * node divide its cores among them under EXCLUSIVE (the first get one more
 * where it does not come out even) and take its caches in turn under
 * CORE_COMPLEX (those with the most CPUs first). Errors: DDP_E_CONFIG no CPU
 * of that node is allowed, or fewer cores than seats.
 */
int topology_bind(const char *sys,
                  enum topology_mode mode,
                  const struct cpus *allowed,
                  const int node_of[],
                  int n,
                  int at,
                  struct cpus *out,
                  struct ddp_err *err);

#endif
