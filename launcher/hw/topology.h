/*
 * launcher/hw/topology: the CPUs that a worker is bound to, by the NUMA nodes,
 * sockets, cores and caches that sysfs lists. The modes are torchrun's (torch
 * 2.9, torch/numa/binding.py): only CPUs are bound, and memory follows by first
 * touch. Reads files below `sys`, which is "/sys" except in tests.
 */
#ifndef LAUNCHER_HW_TOPOLOGY_H
#define LAUNCHER_HW_TOPOLOGY_H

#include "launcher/hw/cpus.h"
#include "rendezvous/base/err.h"

enum topology_mode {
    TOPOLOGY_NONE,
    TOPOLOGY_NODE,         /* all CPUs of the NUMA node */
    TOPOLOGY_SOCKET,       /* all CPUs of all nodes of its socket */
    TOPOLOGY_EXCLUSIVE,    /* cores of the node that no other seat has */
    TOPOLOGY_CORE_COMPLEX, /* CPUs of the node that share a last-level cache */
};

#define TOPOLOGY_NODES_MAX 256

/*
 * The NUMA node of a PCI device ("0000:3b:00.0"); -1 if sysfs does not say, as
 * on many machines with one node.
 */
int topology_pci_node(const char *sys, const char *pci);

/* The numbers of the NUMA nodes that have a CPU of `allowed`, in order. Returns
 * how many there are. A machine without NUMA has node 0. */
int topology_nodes(const char *sys,
                   const struct cpus *allowed,
                   int nodes[TOPOLOGY_NODES_MAX]);

/*
 * The NUMA node of each of `seats` seats. With GPUs, seat i has that of GPU
 * i % gpus, which is gpu_nodes[i % gpus]; where that is -1, the first node with
 * an allowed CPU. Without GPUs the seats are spread over the nodes in blocks.
 * False: no node has an allowed CPU.
 */
bool topology_seat_nodes(const char *sys,
                         const struct cpus *allowed,
                         const int gpu_nodes[],
                         int gpus,
                         int seats,
                         int nodes[]);

/*
 * Fills `out` with the CPUs of `allowed` that seat `at` of `n` is bound to.
 * node_of[] is the NUMA node of each seat. A seat belongs to a GPU, or to a
 * worker if there is no GPU. Under EXCLUSIVE the seats of a node divide its
 * cores (the first seats get one more if the division leaves a rest). Under
 * CORE_COMPLEX they take its caches in turn, those with the most CPUs first.
 * Errors: DDP_E_CONFIG no CPU of that node is allowed, or there are fewer cores
 * than seats.
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
