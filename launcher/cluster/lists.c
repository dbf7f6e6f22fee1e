/* Schedulers that give a job a list of its hosts: PBS, LSF, Grid Engine. The
 * columns of the table have read it, with the place of this host. */
#include <stdio.h>
#include <string.h>

#include "launcher/cluster/table_priv.h"

/* A mark for the columns: this host must be in the list. */
int cluster_own_place(const struct cluster_env *env,
                      const struct cluster_row *row,
                      struct cluster *f,
                      struct ddp_err *err)
{
    (void)env;
    (void)row;
    (void)err;
    ddp_assert(f->rank_from != NULL);
    return 0;
}

/* jsrun says size and rank; the list has the launch node first, if it has one
 * more than there are. */
int cluster_lsf(const struct cluster_env *env,
                const struct cluster_row *row,
                struct cluster *f,
                struct ddp_err *err)
{
    (void)row;
    struct hosts h = {.n = 0};
    const char *from;
    const char *text = cluster_var(env, "LSB_MCPU_HOSTS", &from);
    if (text == NULL)
        return 0;
    if (hosts_read(&h, HOSTS_PAIRS, text, err) < 0) {
        hosts_free(&h);
        return ddp_err_wrap(err, "LSB_MCPU_HOSTS");
    }
    int first = h.n == f->nnodes + 1 ? 1 : 0;
    (void)snprintf(f->head, sizeof(f->head), "%s", h.host[first].name);
    f->head_from = from;
    hosts_free(&h);
    return 0;
}
