/*
 * launcher/cluster/cpu_bind: the CPUs of a task of Slurm. srun binds a task to
 * one core if nothing else is said, and all workers of the node would share it.
 */
#ifndef LAUNCHER_CLUSTER_CPU_BIND_H
#define LAUNCHER_CLUSTER_CPU_BIND_H

#include <stdbool.h>

#include "launcher/cluster/cluster.h"
#include "launcher/hw/cpus.h"

enum cpu_bind_state {
    CPU_BIND_FINE,    /* not bound to one core */
    CPU_BIND_WIDENED, /* this process has all CPUs of the step here now */
    CPU_BIND_NARROW,  /* bound to one core, and the step has more */
    CPU_BIND_FEW,     /* the step has no more than one core here */
};

struct cpu_bind {
    enum cpu_bind_state state;
    struct cpus before; /* what this process was started on */
    int cpus;           /* that it may use now */
};

/*
 * Looks at the CPUs of this process, and unless `keep` widens a binding to one
 * core: to all CPUs that the kernel allows, if these are not more than the step
 * has on this node.
 */
struct cpu_bind cpu_bind_widen(const struct cluster_env *env, bool keep);

#endif
