/*
 * Slurm. A task of a step knows the nodes of its step, and its own number among
 * them. The job's script, and a shell of salloc, run on one node (or outside of
 * all), whatever the job has: f->script. A shell that salloc starts on the
 * first node is a step of one node as well, with a number of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cluster/table_priv.h"

#define SPECIAL_STEPS 4294967290u /* and above: interactive, batch, extern */

bool cluster_is_slurm_script(const struct cluster_env *env)
{
    const char *from;
    const char *step = cluster_var(env, "SLURM_STEP_ID", &from);
    return step == NULL || strtoul(step, NULL, 10) >= SPECIAL_STEPS;
}

/* job.step, and the number of the job's life if it was requeued. */
static void
name_step(const struct cluster_env *env, const char *step, struct cluster *f)
{
    const char *from;
    const char *job = cluster_var(env, "SLURM_JOB_ID", &from);
    const char *life = cluster_var(env, "SLURM_RESTART_COUNT", &from);
    bool again = life != NULL && strcmp(life, "0") != 0;
    char id[120];
    (void)snprintf(id, sizeof(id), "%.40s.%.40s%s%.20s", job, step, /* fits */
                   again ? "." : "", again ? life : "");
    cluster_name_run(f, id, "SLURM_JOB_ID");
}

/* Adds the nodes of component number i. */
static int add_component(const struct cluster_env *env,
                         struct cluster *f,
                         int i,
                         struct ddp_err *err)
{
    struct cluster component = {.nnodes = 0};
    char name[64];
    const char *from;
    (void)snprintf(name, sizeof(name), "SLURM_JOB_NODELIST_HET_GROUP_%d", i);
    const char *text = cluster_var(env, name, &from);
    if (text == NULL)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s: %s is not set, so the nodes are not known",
                           f->job, name);
    if (cluster_take_hosts(&component, HOSTS_SLURM, text, name, NULL, err) < 0)
        return -1;
    f->component_nodes[i] = component.nnodes;
    f->nnodes += component.nnodes;
    return 0;
}

/* A heterogeneous job: its script is told of the first component as of any job,
 * and of all of them under other names. */
static int take_components(const struct cluster_env *env,
                           struct cluster *f,
                           struct ddp_err *err)
{
    int n = 0;
    const char *from;
    if (cluster_number(env, "SLURM_HET_SIZE", 1, CLUSTER_COMPONENTS_MAX, &n,
                       &from, err) < 0)
        return -1;
    if (n <= 1)
        return 0;
    f->script = true;
    f->script_of_one = false;
    f->components = n;
    f->nnodes = 0;
    for (int i = 0; i < n; i++)
        if (add_component(env, f, i, err) < 0)
            return -1;
    name_step(env, "het", f); /* each component is a step of its own */
    return 0;
}

int cluster_slurm(const struct cluster_env *env,
                  const struct cluster_row *row,
                  struct cluster *f,
                  struct ddp_err *err)
{
    (void)row;
    int listed, n = 0;
    const char *from;
    bool script = cluster_is_slurm_script(env);
    const char *nodes = script ? "SLURM_JOB_NUM_NODES" : "SLURM_STEP_NUM_NODES";
    const char *list = script ? "SLURM_JOB_NODELIST" : "SLURM_STEP_NODELIST";
    const char *text = cluster_var(env, list, &from);
    if (text != NULL &&
        cluster_take_hosts(f, HOSTS_SLURM, text, list, NULL, err) < 0)
        return -1;
    listed = f->nnodes;
    if (cluster_number(env, nodes, 1, HOSTLIST_HOSTS_MAX, &n, &from, err) < 0)
        return -1;
    if (text == NULL || from == NULL)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s: %s is not set, so the nodes are not known",
                           f->job, text == NULL ? list : nodes);
    if (n != listed)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s=%d, but %s=%.120s has %d host%s", nodes, n, list,
                           text, listed, listed == 1 ? "" : "s");
    f->nnodes_from = nodes;
    f->script = script && n > 1;
    f->script_of_one = script && n == 1;
    if (script)
        return take_components(env, f, err);
    name_step(env, cluster_var(env, "SLURM_STEP_ID", &from), f);
    return cluster_number(env, "SLURM_NODEID", 0, HOSTLIST_HOSTS_MAX - 1,
                          &f->rank, &f->rank_from, err) < 0
               ? -1
               : 0;
}
