/*
 * launcher/cluster/cluster: what the scheduler that started this launcher says
 * of the job: how many nodes there are, which one this is, where they can meet,
 * how many workers a node gets, and the name of the run.
 *
 * All that is told comes from one source, a row of the table in table.c. It
 * reads the variables that it is given, and files only through `read_file`, so
 * that tests and the fuzzer need neither a scheduler nor its files.
 */
#ifndef LAUNCHER_CLUSTER_CLUSTER_H
#define LAUNCHER_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/base/err.h"

#define CLUSTER_FILE_MAX       (4 * 1024 * 1024) /* bytes of a file that is read */
#define CLUSTER_COMPONENTS_MAX 64                /* of a heterogeneous job */

/* Ports for jobs: below what Linux gives to clients (32768). */
#define CLUSTER_PORT_FIRST 23000
#define CLUSTER_PORT_COUNT 9000

/* What is looked at; all of it borrowed. */
struct cluster_env {
    char *const *vars; /* "NAME=value", ends with NULL */
    const char *host;  /* the name of this host */
    /* The text of a file, which the caller frees; NULL: it cannot be read, and
     * errno says why. */
    char *(*read_file)(const char *path);
};

/* What was found. Each `..._from` names the variable, and is NULL if that value
 * is not told. */
struct cluster {
    const char *name; /* "slurm", as --cluster takes it; NULL: none was found */
    char job[200];    /* for people: "Slurm job 17" */
    int nnodes;
    const char *nnodes_from;
    int rank; /* of this node, below nnodes if both are told */
    const char *rank_from;
    char head[256]; /* the host where the nodes can meet */
    int port;       /* of it: made from the job's id, the same on all nodes */
    const char *head_from;
    int nproc; /* workers of this node */
    const char *nproc_from;
    char run_id[129];
    const char *run_id_from;
    char interface[16]; /* of this node, by which the others reach it */
    const char *interface_from;
    /* This is the job's script: it runs on one node, and no launcher was
     * started on the others. */
    bool script;
    /* Of a script: the command that starts a program on a host of the job, as
     * --launch_with takes it, "blaunch"; NULL: Slurm's, which needs no list. */
    const char *launch_with;
    int components; /* of a Slurm job with several; else 0 */
    int component_nodes[CLUSTER_COMPONENTS_MAX];
    bool script_of_one;   /* the script of a Slurm job of one node */
    const char *one_each; /* how a launcher is started on each node */
};

/*
 * `wanted` is what --cluster says: "auto", "none" or the name of a row. If
 * nothing is found, f->name is NULL, and that is no error with auto and none.
 *
 * Errors, all DDP_E_USAGE: `wanted` is no such name, or is not there; a
 * variable or file that says something impossible (the message names it, what
 * it says and what was wanted); two sources that contradict each other.
 * DDP_E_NOMEM.
 */
int cluster_find(const struct cluster_env *env,
                 const char *wanted,
                 struct cluster *f,
                 struct ddp_err *err);

/*
 * The hosts of a job whose script this is, as cluster_find found it with
 * launch_with: "a,b,c", which the caller frees. NULL: DDP_E_NOMEM, or the list
 * has changed since.
 */
char *cluster_hosts(const struct cluster_env *env,
                    const char *wanted,
                    struct ddp_err *err);

/*
 * Refuses the second of two launchers that a scheduler started on one host for
 * one run, and the first as well if the scheduler tells it: DDP_E_USAGE, with
 * the variable and how one is started on each host. Reads nothing else, so
 * that it can be asked if the command line has all that cluster_find tells.
 */
int cluster_check_tasks(const struct cluster_env *env,
                        const char *wanted,
                        struct ddp_err *err);

/* Whether a row of that name (or any, with auto) has all of its marks. */
bool cluster_is_here(const struct cluster_env *env, const char *wanted);

/* DDP_E_USAGE if `wanted` is not auto, none or the name of a row. */
int cluster_check_name(const char *wanted, struct ddp_err *err);

/* Whether a variable, "NAME=value", tells a task of a scheduler its own place:
 * true for this launcher, and wrong for its workers. */
bool cluster_is_task_variable(const char *entry);

/* The socket that PMI_FD names is the launcher's own: no program that is
 * executed has it. */
void cluster_keep_task_socket(void);

/* "auto, none, slurm, ...": what --cluster takes. */
void cluster_names(char *text, size_t cap);

/* The text of a file of at most CLUSTER_FILE_MAX bytes, for cluster_env; NULL
 * and errno if it cannot be read, is larger (EFBIG), has a NUL (EILSEQ), or is
 * no regular file (EINVAL). */
char *cluster_read_file(const char *path);

#endif
