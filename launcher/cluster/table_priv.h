/* launcher/cluster/table_priv: the rows of the table, and what reads them. */
#ifndef LAUNCHER_CLUSTER_TABLE_PRIV_H
#define LAUNCHER_CLUSTER_TABLE_PRIV_H

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/hosts.h"

/* Where SageMaker has the hosts of a job. */
#define SAGEMAKER_FILE "/opt/ml/input/config/resourceconfig.json"

/* What a source says of this process. A row with a lower one wins, and sources
 * of one rank must not contradict each other. */
enum cluster_rank {
    CLUSTER_TASK, /* started it as a task within a job: mpirun */
    CLUSTER_NODE, /* started it, one on each node */
    CLUSTER_JOB,  /* a job with a list of hosts that it runs in */
    CLUSTER_PMI, /* has a size and a rank, which a scheduler may have set too */
};

struct cluster_row {
    const char *name;  /* for --cluster */
    const char *title; /* for people, before the id */
    enum cluster_rank rank;
    /* Variables; NULL: there is none. `marks` are several, with blanks between:
     * the row holds if all of them are set. */
    const char *marks;
    const char *file; /* that must be there as well; NULL: none */
    const char *id;
    const char *index; /* of an element, if all of an array have one `id` */
    const char *nnodes;
    const char *node;
    const char *hosts;
    enum hosts_form form;
    bool is_file;      /* `hosts` is the path of the list */
    const char *nproc; /* workers of this node */
    const char *local_rank;
    const char *local_size;
    const char *task_counts; /* of each node, as "2(x3),1" */
    const char *one_each;    /* how one launcher is started on each node */
    const char *launch_with; /* starts a program on a host of the list */
    /* Fills in what the columns do not say, after them; NULL: nothing. */
    int (*refine)(const struct cluster_env *env,
                  const struct cluster_row *row,
                  struct cluster *f,
                  struct ddp_err *err);
};

extern const struct cluster_row cluster_rows[];
extern const int cluster_rows_len;

/* The value of a variable whose name has `len` bytes; NULL: it is not set. */
const char *
cluster_var_of(const struct cluster_env *env, const char *name, size_t len);

/* The value of a variable, and in *from its name; NULL: it is not set, or is
 * empty, which job files use for "not set". */
const char *
cluster_var(const struct cluster_env *env, const char *name, const char **from);

/* A whole number from a variable. 1, or 0 with *n unchanged and *from NULL if
 * it is not set or `name` is NULL; -1 DDP_E_USAGE. */
int cluster_number(const struct cluster_env *env,
                   const char *name,
                   int min,
                   int max,
                   int *n,
                   const char **from,
                   struct ddp_err *err);

/* Names the run by the id of its job, and makes the port from it. What a name
 * must not have becomes '_': names of runs have only printable characters, and
 * no '/'. */
void cluster_name_run(struct cluster *f, const char *id, const char *from);

/* Reads the list of hosts that `from` has, and fills in nnodes, head and, if
 * `own` is not NULL, the rank of the host of that name. It must be in the list,
 * but for one in which hosts may repeat and do not differ. */
int cluster_take_hosts(struct cluster *f,
                       enum hosts_form form,
                       const char *text,
                       const char *from,
                       const char *own,
                       struct ddp_err *err);

/* Whether the variables are those of Slurm's job script, or of a shell that
 * salloc started, and not those of a step. */
bool cluster_is_slurm_script(const struct cluster_env *env);

/* The refine functions of single schedulers. */
#define REFINE(name)                                                           \
    int cluster_##name(const struct cluster_env *env,                          \
                       const struct cluster_row *row, struct cluster *f,       \
                       struct ddp_err *err)
REFINE(slurm);     /* slurm.c */
REFINE(sagemaker); /* clouds.c */
REFINE(aws_batch);
REFINE(volcano);
REFINE(indexed_job);
REFINE(own_place); /* lists.c: PBS, LSF, SGE */
REFINE(lsf);
#undef REFINE

#endif
