/*
 * Slurm says that it bound the task (SLURM_CPU_BIND) and how many CPUs the step
 * has on this node (SLURM_CPUS_ON_NODE). If the launcher is the only task
 * there, all of these are its own. Among several, each a job of its own, it is
 * not.
 *
 * The kernel tells which they are: a mask of all CPUs is cut to the cpuset of
 * the step or job. Where there is no cpuset that is the whole machine, on which
 * other jobs may run: then the mask is put back, and this is only told.
 */
#include "launcher/cluster/cpu_bind.h"

#include <sched.h>
#include <string.h>

#include "launcher/cluster/table_priv.h"

#define CORE_CPUS 2 /* threads of one core */

/* CPUs of the step on this node; 0: not bound by Slurm, not the only task, or
 * not known. */
static int step_cpus(const struct cluster_env *env)
{
    const char *from;
    struct ddp_err err; /* what is wrong is not known */
    int n = 0;
    if (cluster_var(env, "SLURM_JOB_ID", &from) == NULL ||
        cluster_is_slurm_script(env) ||
        cluster_var(env, "SLURM_CPU_BIND", &from) == NULL ||
        cluster_check_tasks(env, "slurm", &err) < 0 ||
        cluster_number(env, "SLURM_CPUS_ON_NODE", 1, CPUS_MAX, &n, &from,
                       &err) < 0)
        return 0;
    return n;
}

static void bind_to(const struct cpus *set)
{
    /* An error leaves the mask, which is then found narrow. */
    (void)sched_setaffinity(0, sizeof(set->bits),
                            (const cpu_set_t *)(const void *)set->bits);
}

struct cpu_bind cpu_bind_widen(const struct cluster_env *env, bool keep)
{
    struct cpu_bind b = {.state = CPU_BIND_FINE};
    struct cpus all, now;
    cpus_allowed(&b.before);
    b.cpus = cpus_count(&b.before);
    int of_step = step_cpus(env);
    if (b.cpus > CORE_CPUS || of_step == 0)
        return b;
    b.state = of_step > b.cpus ? CPU_BIND_NARROW : CPU_BIND_FEW;
    if (keep || b.state == CPU_BIND_FEW)
        return b;
    memset(&all, 0xff, sizeof(all));
    bind_to(&all);
    cpus_allowed(&now);
    int n = cpus_count(&now);
    if (n > of_step) {
        bind_to(&b.before);
    } else {
        b.state = n > b.cpus ? CPU_BIND_WIDENED : CPU_BIND_FINE;
        b.cpus = n;
    }
    return b;
}
