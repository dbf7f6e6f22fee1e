/*
 * A binding is taken for a default one if Slurm says that it bound the task
 * (SLURM_CPU_BIND), nobody asked for CPUs for a task (SLURM_CPUS_PER_TASK), and
 * the CPUs are one core: one, or two threads.
 *
 * The kernel tells what else is allowed: a mask of all CPUs is cut to the
 * cpuset of the job. Where there is no cpuset that is the whole machine, on
 * which other jobs may run: then the mask is put back, and this is only told.
 */
#include "launcher/cluster/cpu_bind.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/cluster/table_priv.h"

#define CORE_CPUS 2 /* threads of one core */

static bool is_default(const struct cluster_env *env)
{
    const char *from;
    return cluster_var(env, "SLURM_JOB_ID", &from) != NULL &&
           !cluster_is_slurm_script(env) &&
           cluster_var(env, "SLURM_CPU_BIND", &from) != NULL &&
           cluster_var(env, "SLURM_CPUS_PER_TASK", &from) == NULL;
}

struct search {
    const char *name;
    int seen;
    bool found;
};

static bool find_name(void *ctx, const char *name)
{
    struct search *s = ctx;
    s->found = strcasecmp(name, s->name) == 0;
    s->seen += !s->found;
    return !s->found;
}

/* This node's place among those of the job, -1: not known. */
static int place_in_job(const struct cluster_env *env)
{
    struct ddp_err err;
    const char *from;
    const char *list = cluster_var(env, "SLURM_JOB_NODELIST", &from);
    struct search s = {.name = cluster_var(env, "SLURMD_NODENAME", &from)};
    if (list == NULL || s.name == NULL ||
        hostlist_walk(list, find_name, &s, &err) < 0 || !s.found)
        return -1;
    return s.seen;
}

/* The number at `place` of "4(x2),2"; 0: there is none. */
static int count_at(const char *counts, int place)
{
    const char *p = counts;
    while (*p != '\0' && place >= 0) {
        char *end;
        long n = strtol(p, &end, 10), times = 1;
        if (end == p || n < 1 || n > CPUS_MAX)
            return 0;
        if (strncmp(end, "(x", 2) == 0)
            times = strtol(end + 2, NULL, 10);
        if (times < 1 || place < times)
            return times < 1 ? 0 : (int)n;
        place -= (int)times;
        p = end + strcspn(end, ",");
        p += *p == ',';
    }
    return 0;
}

/* CPUs of the job on this node; 0: not known. */
static int job_cpus(const struct cluster_env *env)
{
    const char *from;
    const char *counts = cluster_var(env, "SLURM_JOB_CPUS_PER_NODE", &from);
    return counts == NULL ? 0 : count_at(counts, place_in_job(env));
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
    if (b.cpus > CORE_CPUS || !is_default(env))
        return b;
    int of_job = job_cpus(env);
    b.state = of_job > b.cpus ? CPU_BIND_NARROW : CPU_BIND_FEW;
    if (keep || b.state == CPU_BIND_FEW)
        return b;
    memset(&all, 0xff, sizeof(all));
    bind_to(&all);
    cpus_allowed(&now);
    int n = cpus_count(&now);
    if (n > b.cpus && n <= of_job) {
        b.state = CPU_BIND_WIDENED;
        b.cpus = n;
    } else {
        bind_to(&b.before);
    }
    return b;
}
