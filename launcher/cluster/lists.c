/*
 * Schedulers that give a job a list of its hosts: PBS, LSF, Grid Engine. The
 * columns of the table have read it, with the place of this host. The script of
 * such a job runs on the first of them.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/cluster/table_priv.h"

/*
 * Whether this is the job's script, and not what a command of the scheduler
 * started in the job, which inherits the variables of the script. PBS numbers
 * tasks, and the script is the first; blaunch numbers its own. Where LSF keeps
 * the first host for itself (CSM), that one is none of the job's. Grid Engine
 * tells the list to the script only.
 */
static bool is_script(const struct cluster_env *env,
                      const struct cluster_row *row)
{
    const char *from;
    const char *task = cluster_var(env, "PBS_TASKNUM", &from);
    if (strcmp(row->name, "pbs") == 0)
        return task != NULL && strcmp(task, "1") == 0;
    return strcmp(row->name, "lsf") != 0 ||
           (cluster_var(env, "LSF_PM_TASKID", &from) == NULL &&
            cluster_var(env, "CSM_ALLOCATION_ID", &from) == NULL);
}

/* A mark for the columns: this host must be in the list. The script of a job
 * starts the launchers, and is none of them. */
int cluster_own_place(const struct cluster_env *env,
                      const struct cluster_row *row,
                      struct cluster *f,
                      struct ddp_err *err)
{
    (void)err;
    ddp_assert(f->rank_from != NULL);
    if (f->rank > 0 || f->nnodes == 1 || row->launch_with == NULL ||
        !is_script(env, row))
        return 0;
    f->script = true;
    f->launch_with = row->launch_with;
    f->rank_from = NULL;
    return 0;
}

/* jsrun says size and rank; the list has the launch node first under CSM, and
 * where it has one more than there are. */
int cluster_lsf(const struct cluster_env *env,
                const struct cluster_row *row,
                struct cluster *f,
                struct ddp_err *err)
{
    (void)row;
    struct hosts h = {.n = 0};
    const char *from, *csm;
    const char *text = cluster_var(env, "LSB_MCPU_HOSTS", &from);
    if (text == NULL)
        return 0;
    if (hosts_read(&h, HOSTS_PAIRS, text, err) < 0) {
        hosts_free(&h);
        return ddp_err_wrap(err, "LSB_MCPU_HOSTS");
    }
    bool apart = cluster_var(env, "CSM_ALLOCATION_ID", &csm) != NULL;
    int first = h.n == f->nnodes + 1 || (apart && h.n > 1) ? 1 : 0;
    (void)snprintf(f->head, sizeof(f->head), "%s", h.host[first].name);
    f->head_from = from;
    hosts_free(&h);
    return 0;
}
