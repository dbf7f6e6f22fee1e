/* links: launcher/cluster/{find,table,slurm,lists,clouds,hosts,hostlist} */
/* links: launcher/cluster/{task_vars,vars} */
/* links: rendezvous/base/{opts,opts_help,opts_complete,err} tests/lib/fault */
/* libs: -lcjson -ldl */
/*
 * Variables of schedulers, and what they say of the job, or why they cannot be
 * right. Each row is an environment ("NAME=value;NAME=value", the first of two
 * equal names counts) and all that is found in it.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/table_priv.h"
#include "tests/lib/fault.h"
#include "tests/lib/suite.h"

#define VARS_MAX 64

struct row {
    const char *vars;
    const char *host;   /* NULL: n2 */
    const char *wanted; /* of --cluster, NULL: auto */
    const char *found;  /* as found_text writes it, or a part of the error */
};

/* -- environments ---------------------------------------------------------- */

static char text[4096];
static char *vars[VARS_MAX + 1];

static bool no_files;

/* Files by their paths; all others cannot be opened. */
static char *read_fake(const char *path)
{
    static const char *const files[][2] = {
        {"/pbs/two", "n1\nn1\nn2\nn2\n"},
        {"/pbs/mixed", "n1.site\nn2.site\nn1.site\n"},
        {"/pbs/one", "n2\n"},
        {"/pbs/others", "a\nb\n"},
        {"/pbs/empty", "\n\n"},
        {"/pbs/bad", "n1\nn 2\nn/3\n"},
        {"/sge/two", "n1 4 all.q@n1 UNDEFINED\nn2 2 all.q@n2 UNDEFINED\n"},
        {"/sge/bad", "n1 4 q\nn2 many q\n"},
        {"/opt/ml/input/config/resourceconfig.json",
         "{\"current_host\": \"algo-2\", \"hosts\": [\"algo-1\", \"algo-2\"],"
         "\"network_interface_name\": \"eth0\"}"},
        {"/etc/hosts", "127.0.0.1 localhost\n10.1.0.7 "
                       "train-3.svc.ns.cluster.local train-3\n"},
    };
    for (size_t i = 0; !no_files && i < sizeof(files) / sizeof(files[0]); i++)
        if (strcmp(files[i][0], path) == 0)
            return strdup(files[i][1]);
    errno = ENOENT;
    return NULL;
}

static struct cluster_env make_env(const struct row *row)
{
    int n = 0;
    no_files = row->host != NULL && strcmp(row->host, "bare") == 0;
    ck_assert_uint_lt(strlen(row->vars), sizeof(text));
    memcpy(text, row->vars, strlen(row->vars) + 1);
    for (char *next = text; next != NULL && next[0] != '\0';) {
        ck_assert_int_lt(n, VARS_MAX);
        vars[n++] = strsep(&next, ";");
    }
    vars[n] = NULL;
    return (struct cluster_env){.vars = vars,
                                .host = row->host != NULL ? row->host : "n2",
                                .read_file = read_fake};
}

/* "slurm 3 nodes, node 1, n1:23017, 2 workers, slurm-17.0", without what is not
 * told. */
static void found_text(const struct cluster *f, char out[1024])
{
    size_t n = (size_t)snprintf(out, 1024, "%s",
                                f->name != NULL ? f->name : "nothing");
    if (f->nnodes_from != NULL)
        n += (size_t)snprintf(out + n, 1024 - n, " %d nodes,", f->nnodes);
    if (f->rank_from != NULL)
        n += (size_t)snprintf(out + n, 1024 - n, " node %d,", f->rank);
    if (f->head_from != NULL)
        n += (size_t)snprintf(out + n, 1024 - n, " %s:%d,", f->head, f->port);
    if (f->nproc_from != NULL)
        n += (size_t)snprintf(out + n, 1024 - n, " %d workers,", f->nproc);
    if (f->run_id_from != NULL)
        n += (size_t)snprintf(out + n, 1024 - n, " %s", f->run_id);
    if (f->script)
        n += (size_t)snprintf(out + n, 1024 - n, " script");
    if (f->launch_with != NULL)
        n += (size_t)snprintf(out + n, 1024 - n, " with %s", f->launch_with);
    for (int i = 0; i < f->components; i++)
        n += (size_t)snprintf(out + n, 1024 - n, " +%d", f->component_nodes[i]);
    if (f->interface_from != NULL)
        n += (size_t)snprintf(out + n, 1024 - n, " by %s", f->interface);
    while (n > 0 && out[n - 1] == ',')
        out[--n] = '\0';
}

#define STEP_OF(job, nodes, list, node)                                        \
    "SLURM_JOB_ID=" job ";SLURM_STEP_ID=0;SLURM_STEP_NUM_NODES=" nodes         \
    ";SLURM_STEP_NODELIST=" list ";SLURM_NODEID=" node
#define STEP STEP_OF("17", "3", "n[1-3]", "1")
#define SCRIPT                                                                 \
    "SLURM_JOB_ID=17;SLURM_JOB_NUM_NODES=3;SLURM_JOB_NODELIST=n[1-3];"         \
    "SLURM_NODEID=0;SLURM_PROCID=0;SLURM_LOCALID=0"
#define HET(first, second)                                                     \
    "SLURM_HET_SIZE=2;SLURM_JOB_NODELIST_HET_GROUP_0=" first                   \
    ";SLURM_JOB_NODELIST_HET_GROUP_1=" second ";" SCRIPT
#define OMPI(size, rank)                                                       \
    "OMPI_COMM_WORLD_SIZE=" size ";OMPI_COMM_WORLD_RANK=" rank
#define HYDRA(size, rank)                                                      \
    "PMI_SIZE=" size ";PMI_RANK=" rank ";MPI_LOCALRANKID=0;MPI_LOCALNRANKS=1"
#define SM "SM_HOSTS=[\"algo-1\",\"algo-2\"];SM_CURRENT_HOST=algo-2"
/* As its manual has them: each node has an id of its own, and all but the main
 * one the address of that. */
#define BATCH(index)                                                           \
    "AWS_BATCH_JOB_ID=4c-1#" index ";AWS_BATCH_JOB_NODE_INDEX=" index          \
    ";AWS_BATCH_JOB_NUM_NODES=4;AWS_BATCH_JOB_MAIN_NODE_INDEX=0"
#define BATCH_MAIN "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS="
#define LSF        "LSB_JOBID=88;LSB_MCPU_HOSTS=n1 4 n2 4"
#define TPU        "TPU_WORKER_HOSTNAMES=t0,t1,t2,t3;TPU_WORKER_ID=2"

/* clang-format off */
static const struct row rows[] = {
    /* -- nothing is there ---- */
    {"", NULL, NULL, "nothing"},
    {"RANK=1;WORLD_SIZE=2;MASTER_ADDR=n1;MASTER_PORT=29500", NULL, NULL, "nothing"},
    {"SLURM_NODEID=1", NULL, NULL, "nothing"},
    {"SLURM_JOB_ID=", NULL, NULL, "nothing"},
    {"SLURM_JOB_IDS=4", NULL, NULL, "nothing"},
    {"PMI_SIZE=2", NULL, NULL, "nothing"},
    {"OMPI_COMM_WORLD_SIZE=2", NULL, NULL, "nothing"},
    {"JOB_ID=4", NULL, NULL, "nothing"},
    {"PE_HOSTFILE=/sge/two", NULL, NULL, "nothing"},
    {"LSB_MCPU_HOSTS=n1 4 n2 4", NULL, NULL, "nothing"},
    {"TPU_WORKER_ID=0", NULL, NULL, "nothing"},
    {"TPU_WORKER_ID=0;TPU_WORKER_HOSTNAMES=", NULL, NULL, "nothing"},
    {"FLUX_JOB_ID=f1", NULL, NULL, "nothing"},
    {"SM_HOSTS=[\"a\"]", NULL, NULL, "nothing"},
    {"AWS_BATCH_JOB_ID=4c", NULL, NULL, "nothing"},
    {"PET_NNODES=2;PET_NODE_RANK=1", NULL, NULL, "nothing"},
    {"KUBERNETES_SERVICE_HOST=10.0.0.1", NULL, NULL, "nothing"},

    /* -- what --cluster says ---- */
    {STEP, NULL, "none", "nothing"},
    {STEP, NULL, "slurm", "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {STEP, NULL, "pbs", "--cluster=pbs: it did not start this launcher"},
    {STEP, NULL, "Slurm", "--cluster=Slurm: must be one of auto, none, mpi, slurm, flux, lsf, sagemaker, awsbatch, volcano, tpu, k8s, pbs, sge"},
    {"", NULL, "slurm", "since its variables are not set (SLURM_JOB_ID)"},
    {"", NULL, "mpi", "(OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK)"},
    {"", NULL, "flux", "(FLUX_JOB_ID FLUX_TASK_RANK)"},
    {"", NULL, "lsf", "(LSB_JOBID JSM_NAMESPACE_SIZE JSM_NAMESPACE_RANK)"},
    {"", NULL, "sagemaker", "(SM_CURRENT_HOST)"},
    {"", NULL, "awsbatch", "(AWS_BATCH_JOB_NODE_INDEX)"},
    {"", NULL, "volcano", "(VC_TASK_INDEX)"},
    {"", NULL, "k8s", "(JOB_COMPLETION_INDEX)"},
    {"", NULL, "tpu", "(TPU_WORKER_ID TPU_WORKER_HOSTNAMES)"},
    {"", NULL, "pbs", "(PBS_JOBID)"},
    {"", NULL, "sge", "(PE_HOSTFILE JOB_ID)"},
    {"", NULL, "none", "nothing"},
    {"", NULL, "auto", "nothing"},
    {"", NULL, "kubernetes", "must be one of"},
    {SM ";" STEP, NULL, "sagemaker", "sagemaker 2 nodes, node 1, algo-1:29500"},
    {SM ";" STEP, NULL, "slurm", "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},

    /* -- Slurm ---- */
    {STEP, NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {STEP ";SLURM_GPUS_ON_NODE=4", NULL, NULL, "slurm 3 nodes, node 1, n1:23017, 4 workers, slurm-17.0"},
    {STEP ";SLURM_GPUS_ON_NODE=0", NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {STEP ";SLURM_GPUS_ON_NODE=", NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {STEP ";SLURM_GPUS_ON_NODE=a100:4", NULL, NULL, "SLURM_GPUS_ON_NODE=a100:4: must be a whole number from 0 to 4096"},
    {STEP ";SLURM_RESTART_COUNT=0", NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {STEP ";SLURM_RESTART_COUNT=2", NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0.2"},
    {"SLURM_STEP_ID=5;" STEP, NULL, NULL, "slurm 3 nodes, node 1, n1:23322, slurm-17.5"},
    {STEP_OF("9001", "1", "n2", "0"), NULL, NULL, "slurm 1 nodes, node 0, n2:23001, slurm-9001.0"},
    {STEP_OF("9000", "1", "n2", "0"), NULL, NULL, "slurm 1 nodes, node 0, n2:23000, slurm-9000.0"},
    {STEP_OF("17", "2", "n[1,3]", "0"), NULL, NULL, "slurm 2 nodes, node 0, n1:23017, slurm-17.0"},
    {STEP_OF("17", "4", "gpu-[09-11],login", "3"), NULL, NULL, "slurm 4 nodes, node 3, gpu-09:23017, slurm-17.0"},
    {STEP_OF("17", "4", "r[1-2]n[1-2]", "3"), NULL, NULL, "slurm 4 nodes, node 3, r1n1:23017, slurm-17.0"},
    {"SLURM_JOB_NODELIST=n[1-9];SLURM_JOB_NUM_NODES=9;" STEP, NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {STEP_OF("17", "3", "n[1-3]", "2"), "elsewhere", NULL, "slurm 3 nodes, node 2, n1:23017, slurm-17.0"},
    {STEP_OF("17", "3", "n[1-3]", "3"), NULL, NULL, "SLURM_NODEID says that this is node 3, but SLURM_STEP_NUM_NODES that there are 3 nodes"},
    {STEP_OF("17", "1", "n1", "1"), NULL, NULL, "this is node 1, but SLURM_STEP_NUM_NODES that there is 1 node,"},
    {STEP_OF("17", "3", "n[1-3]", "-1"), NULL, NULL, "SLURM_NODEID=-1: must be a whole number from 0"},
    {STEP_OF("17", "3", "n[1-3]", "one"), NULL, NULL, "SLURM_NODEID=one: must be a whole number"},
    {STEP_OF("17", "3", "n[1-3]", "1.0"), NULL, NULL, "SLURM_NODEID=1.0: must be a whole number"},
    {STEP_OF("17", "0", "n[1-3]", "1"), NULL, NULL, "SLURM_STEP_NUM_NODES=0: must be a whole number from 1 to 100000"},
    {STEP_OF("17", "100001", "n[1-3]", "1"), NULL, NULL, "SLURM_STEP_NUM_NODES=100001: must be a whole number from 1 to 100000"},
    {STEP_OF("17", "3x", "n[1-3]", "1"), NULL, NULL, "SLURM_STEP_NUM_NODES=3x: must be a whole number"},
    {STEP_OF("17", "2", "n[1-3]", "1"), NULL, NULL, "SLURM_STEP_NUM_NODES=2, but SLURM_STEP_NODELIST=n[1-3] has 3 hosts"},
    {STEP_OF("17", "2", "n1", "1"), NULL, NULL, "SLURM_STEP_NUM_NODES=2, but SLURM_STEP_NODELIST=n1 has 1 host"},
    {STEP_OF("17", "3", "n[1-3", "1"), NULL, NULL, "SLURM_STEP_NODELIST: '[1-3': a ']' is missing"},
    {STEP_OF("17", "3", "n[3-1]", "1"), NULL, NULL, "SLURM_STEP_NODELIST: '3-1]': a range must be FIRST-LAST"},
    {STEP_OF("17", "3", "n[a-c]", "1"), NULL, NULL, "brackets must have numbers"},
    {STEP_OF("17", "3", "n1,,n3", "1"), NULL, NULL, "the name of a host is missing beside a comma"},
    {STEP_OF("17", "2", "n1,n1", "1"), NULL, NULL, "SLURM_STEP_NODELIST: the host n1 is there twice"},
    {STEP_OF("17", "2", "n[1-2,2]", "1"), NULL, NULL, "the host n2 is there twice"},
    {STEP_OF("17", "2", "n1 n2", "1"), NULL, NULL, "a name must have letters, digits"},
    {STEP_OF("17", "2", "n[1-100001]", "1"), NULL, NULL, "more than 100000 hosts"},
    {STEP_OF("17", "2", "", "1"), NULL, NULL, "Slurm job 17: SLURM_STEP_NODELIST is not set"},
    {STEP_OF("17", "", "n[1-3]", "1"), NULL, NULL, "Slurm job 17: SLURM_STEP_NUM_NODES is not set"},
    {STEP_OF("17", "3", "n[1-3]", ""), NULL, NULL, "slurm 3 nodes, n1:23017, slurm-17.0"},
    {SCRIPT, NULL, NULL, "slurm 3 nodes, n1:23017, slurm-17 script"},
    {"SLURM_JOB_NUM_NODES=1;SLURM_JOB_NODELIST=n2;" SCRIPT, NULL, NULL, "slurm 1 nodes, n2:23017, slurm-17"},
    {"SLURM_JOB_NUM_NODES=1;SLURM_JOB_NODELIST=n2;SLURM_GPUS_ON_NODE=8;" SCRIPT, NULL, NULL, "slurm 1 nodes, n2:23017, 8 workers, slurm-17"},
    {"SLURM_JOB_NUM_NODES=;" SCRIPT, NULL, NULL, "Slurm job 17: SLURM_JOB_NUM_NODES is not set"},
    {"SLURM_JOB_NODELIST=n1;" SCRIPT, NULL, NULL, "SLURM_JOB_NUM_NODES=3, but SLURM_JOB_NODELIST=n1 has 1 host"},
    {"SLURM_STEP_ID=4294967290;SLURM_STEP_NUM_NODES=1;SLURM_STEP_NODELIST=n1;" SCRIPT, NULL, NULL, "slurm 3 nodes, n1:23017, slurm-17 script"},
    {HET("n[1-3]", "m1"), NULL, NULL, "slurm 4 nodes, n1:23017, slurm-17.het script +3 +1"},
    {"SLURM_JOB_NUM_NODES=1;SLURM_JOB_NODELIST=n1;SLURM_RESTART_COUNT=2;" HET("n1", "m[1-2]"), NULL, NULL, "slurm 3 nodes, n1:23017, slurm-17.het.2 script +1 +2"},
    {HET("n[1-3]", ""), NULL, NULL, "Slurm job 17: SLURM_JOB_NODELIST_HET_GROUP_1 is not set, so the nodes are not known"},
    {HET("n[1-3]", "m["), NULL, NULL, "SLURM_JOB_NODELIST_HET_GROUP_1: '[': a ']' is missing"},
    {"SLURM_HET_SIZE=65;" SCRIPT, NULL, NULL, "SLURM_HET_SIZE=65: must be a whole number from 1 to 64"},
    {"SLURM_HET_SIZE=1;" SCRIPT, NULL, NULL, "slurm 3 nodes, n1:23017, slurm-17 script"},
    {"SLURM_HET_SIZE=x;" SCRIPT, NULL, NULL, "SLURM_HET_SIZE=x: must be a whole number"},
    {"SLURM_STEP_ID=4294967291;" SCRIPT, NULL, NULL, "slurm 3 nodes, n1:23017, slurm-17 script"},
    {"SLURM_STEP_ID=4294967289;SLURM_STEP_NUM_NODES=1;SLURM_STEP_NODELIST=n2;" SCRIPT, NULL, NULL, "slurm 1 nodes, node 0, n2:27886, slurm-17.4294967289"},
    {"SLURM_JOB_ID=17_4;SLURM_STEP_ID=0;SLURM_STEP_NUM_NODES=1;SLURM_STEP_NODELIST=n2;SLURM_NODEID=0", NULL, NULL, "slurm 1 nodes, node 0, n2:23017, slurm-17_4.0"},

    {"SLURM_JOB_ID=1/7 x;SLURM_STEP_ID=0;SLURM_STEP_NUM_NODES=1;SLURM_STEP_NODELIST=n2;SLURM_NODEID=0", NULL, NULL, "slurm 1 nodes, node 0, n2:23001, slurm-1_7_x.0"},

    /* -- mpirun ---- */
    {OMPI("2", "1"), NULL, NULL, "mpi 2 nodes, node 1"},
    {OMPI("1", "0"), NULL, NULL, "mpi 1 nodes, node 0"},
    {OMPI("2", "2"), NULL, NULL, "OMPI_COMM_WORLD_RANK says that this is node 2, but OMPI_COMM_WORLD_SIZE that there are 2"},
    {OMPI("0", "0"), NULL, NULL, "OMPI_COMM_WORLD_SIZE=0: must be a whole number from 1"},
    {OMPI("two", "0"), NULL, NULL, "OMPI_COMM_WORLD_SIZE=two"},
    {OMPI("2", "-1"), NULL, NULL, "OMPI_COMM_WORLD_RANK=-1"},
    {OMPI("2", "1") ";" STEP, NULL, NULL, "mpi 2 nodes, node 1"},
    {OMPI("2", "1") ";" SCRIPT, NULL, NULL, "mpi 2 nodes, node 1"},
    {OMPI("2", "1") ";PBS_JOBID=4.head;PBS_NODEFILE=/pbs/two", NULL, NULL, "mpi 2 nodes, node 1"},
    {OMPI("2", "1") ";" SM, NULL, NULL, "mpi 2 nodes, node 1"},
    {OMPI("2", "1") ";" STEP, NULL, "slurm", "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {HYDRA("4", "3"), NULL, NULL, "mpi 4 nodes, node 3"},
    {HYDRA("4", "4"), NULL, NULL, "PMI_RANK says that this is node 4"},
    {HYDRA("x", "0"), NULL, NULL, "PMI_SIZE=x"},
    {HYDRA("4", "3") ";" STEP, NULL, NULL, "mpi 4 nodes, node 3"},
    {"PMI_SIZE=3;PMI_RANK=1;PMI_FD=7;" STEP, NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {"PMI_SIZE=2;PMI_RANK=1", NULL, NULL, "mpi 2 nodes, node 1"},
    {"PMI_SIZE=1;PMI_RANK=0", NULL, NULL, "mpi 1 nodes, node 0"},
    {"PMI_SIZE=2;PMI_RANK=2", NULL, NULL, "PMI_RANK says that this is node 2, but PMI_SIZE that there are 2 nodes"},
    {"PMI_SIZE=many;PMI_RANK=1", NULL, NULL, "PMI_SIZE=many: must be a whole number"},
    {"PMI_SIZE=2;PMI_RANK=1;PBS_JOBID=4;PBS_NODEFILE=/pbs/two", NULL, NULL, "pbs 2 nodes, node 1, n1:23004, pbs-4"},
    {"PMI_SIZE=2;PMI_RANK=1;" SCRIPT, NULL, NULL, "slurm 3 nodes, n1:23017, slurm-17 script"},
    {"MV2_COMM_WORLD_SIZE=3;MV2_COMM_WORLD_RANK=2", NULL, NULL, "mpi 3 nodes, node 2"},
    {"MV2_COMM_WORLD_SIZE=3;MV2_COMM_WORLD_RANK=3", NULL, NULL, "MV2_COMM_WORLD_RANK says that this is node 3"},

    /* -- Flux ---- */
    {"FLUX_JOB_ID=fAB;FLUX_JOB_NNODES=2;FLUX_TASK_RANK=1", NULL, NULL, "flux 2 nodes, node 1, flux-fAB"},
    {"FLUX_JOB_ID=fAB;FLUX_TASK_RANK=1", NULL, NULL, "flux node 1, flux-fAB"},
    {"FLUX_JOB_ID=fAB;FLUX_JOB_NNODES=2;FLUX_TASK_RANK=2", NULL, NULL, "FLUX_TASK_RANK says that this is node 2"},
    {"FLUX_JOB_ID=fAB;FLUX_JOB_NNODES=none;FLUX_TASK_RANK=0", NULL, NULL, "FLUX_JOB_NNODES=none: must be"},
    {"FLUX_JOB_ID=fAB;FLUX_JOB_NNODES=2;FLUX_TASK_RANK=1;PMI_SIZE=2;PMI_RANK=1", NULL, NULL, "flux 2 nodes, node 1, flux-fAB"},
    {"FLUX_JOB_ID=f/A B;FLUX_JOB_NNODES=1;FLUX_TASK_RANK=0", NULL, NULL, "flux 1 nodes, node 0, flux-f_A_B"},

    /* -- SageMaker ---- */
    {SM, NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29500"},
    {SM ";TRAINING_JOB_NAME=t-1;SM_NUM_GPUS=8", NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29057, 8 workers, sagemaker-t-1"},
    {SM ";SM_NUM_GPUS=0", NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29500"},
    {SM ";SM_NUM_GPUS=-1", NULL, NULL, "SM_NUM_GPUS=-1"},
    {"SM_CURRENT_HOST=algo-1;" SM, NULL, NULL, "sagemaker 2 nodes, node 0, algo-1:29500"},
    {"SM_CURRENT_HOST=algo-3;" SM, NULL, NULL, "SM_HOSTS does not have this host, algo-3, among its 2 hosts"},
    {"SM_HOSTS=[\"algo-1\"];" SM, NULL, NULL, "SM_HOSTS does not have this host, algo-2, among its 1 host (the first is algo-1)"},
    {"SM_HOSTS=[];" SM, NULL, NULL, "SM_HOSTS: must name at least one host"},
    {"SM_HOSTS=algo-1,algo-2;" SM, NULL, NULL, "SM_HOSTS: must be a JSON list of host names"},
    {"SM_HOSTS={};" SM, NULL, NULL, "must be a JSON list"},
    {"SM_HOSTS=[1,2];" SM, NULL, NULL, "must be a JSON list"},
    {"SM_HOSTS=[\"algo-1\",2];" SM, NULL, NULL, "must be a JSON list"},
    {"SM_HOSTS=[\"algo-1\";" SM, NULL, NULL, "must be a JSON list"},
    {"SM_HOSTS=[\"algo-1\",\"algo-1\"];" SM, NULL, NULL, "the host algo-1 is there twice"},
    {"SM_HOSTS=[\"algo-1\",\"\"];" SM, NULL, NULL, "'' is not a host name"},
    {"SM_HOSTS=[\"algo 1\"];" SM, NULL, NULL, "'algo 1' is not a host name"},
    {SM ";SM_NETWORK_INTERFACE_NAME=eth1", NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29500, by eth1"},
    {SM ";SM_NETWORK_INTERFACE_NAME=", NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29500"},
    {SM ";SM_NETWORK_INTERFACE_NAME==eth1,eth2", NULL, NULL, "SM_NETWORK_INTERFACE_NAME==eth1,eth2: must be the name of a network interface, such as eth0"},
    {SM ";SM_NETWORK_INTERFACE_NAME=a123456789012345", NULL, NULL, "SM_NETWORK_INTERFACE_NAME=a123456789012345: must be the name"},
    {"SM_CURRENT_HOST=algo-2", NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29500, by eth0"},
    {"TRAINING_JOB_NAME=t-1", "bare", NULL, "nothing"},
    {"SM_CURRENT_HOST=algo-2", "bare", NULL, "and /opt/ml/input/config/resourceconfig.json cannot be read: No such file"},
    {"TRAINING_JOB_NAME=t-1", NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29057, sagemaker-t-1 by eth0"},

    /* -- AWS Batch ---- */
    {BATCH("0"), "ip-10-0-0-1", NULL, "awsbatch 4 nodes, node 0, ip-10-0-0-1:23004, awsbatch-4c-1"},
    {BATCH("3") ";" BATCH_MAIN "10.0.0.1", NULL, NULL, "awsbatch 4 nodes, node 3, 10.0.0.1:23004, awsbatch-4c-1"},
    {BATCH("3"), NULL, NULL, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set: must be the address of the main node"},
    {BATCH("3") ";" BATCH_MAIN "a b", NULL, NULL, BATCH_MAIN "a b: must be the address"},
    {BATCH("4"), NULL, NULL, "is not set: must be the address"},
    {BATCH("4") ";" BATCH_MAIN "10.0.0.1", NULL, NULL, "AWS_BATCH_JOB_NODE_INDEX says that this is node 4"},
    {"AWS_BATCH_JOB_NUM_NODES=many;" BATCH("0"), NULL, NULL, "AWS_BATCH_JOB_NUM_NODES=many"},
    {"AWS_BATCH_JOB_MAIN_NODE_INDEX=x;" BATCH("0"), NULL, NULL, "AWS_BATCH_JOB_MAIN_NODE_INDEX=x"},
    {"AWS_BATCH_JOB_MAIN_NODE_INDEX=2;" BATCH("2"), NULL, NULL, "awsbatch 4 nodes, node 2, n2:23004, awsbatch-4c-1"},
    {"AWS_BATCH_JOB_MAIN_NODE_INDEX=2;" BATCH("0") ";" BATCH_MAIN "10.0.0.3", NULL, NULL, "awsbatch 4 nodes, node 0, 10.0.0.3:23004, awsbatch-4c-1"},
    {"AWS_BATCH_JOB_ID=4c-1;" BATCH("0"), NULL, NULL, "awsbatch 4 nodes, node 0, n2:23004, awsbatch-4c-1"},

    /* -- Volcano ---- */
    {"VC_TASK_INDEX=1;VC_WORKER_HOSTS=w-0,w-1,w-2;VC_WORKER_NUM=3", NULL, NULL, "volcano 3 nodes, node 1, w-0:29500"},
    {"VC_TASK_INDEX=1;VC_MASTER_HOSTS=m-0.j;VC_WORKER_HOSTS=w-0.j,w-1.j", "w-1", NULL, "volcano 2 nodes, node 1, w-0.j:29500"},
    {"VC_TASK_INDEX=0;VC_MASTER_HOSTS=m-0.j;VC_WORKER_HOSTS=w-0.j,w-1.j", "m-0", NULL, "volcano 1 nodes, node 0, m-0.j:29500"},
    {"VC_TASK_INDEX=0;VC_MASTER_HOSTS=m-0.j;VC_WORKER_HOSTS=w-0.j,w-1.j", "w-1", NULL, "0 of its 2 lists VC_<TASK>_HOSTS have this host, w-1, at VC_TASK_INDEX=0"},
    {"VC_TASK_INDEX=0", NULL, NULL, "0 of its 0 lists"},
    {"VC_TASK_INDEX=3;VC_WORKER_HOSTS=w-0,w-1,w-2", NULL, NULL, "VC_TASK_INDEX says that this is node 3"},
    {"VC_TASK_INDEX=0;VC_WORKER_HOSTS=w-0,,w-2", NULL, NULL, "VC_WORKER_HOSTS: '' is not a host name"},
    {"VC_TASK_INDEX=0;VC_WORKER_HOSTS=w-0,w-0", NULL, NULL, "VC_WORKER_HOSTS: the host w-0 is there twice"},
    {"VC_TASK_INDEX=first;VC_WORKER_HOSTS=w-0", NULL, NULL, "VC_TASK_INDEX=first"},

    /* -- Kubernetes: the number of nodes must be said ---- */
    {"JOB_COMPLETION_INDEX=3", "train-3", NULL, "k8s node 3, train-0.svc.ns.cluster.local:29500"},
    {"JOB_COMPLETION_INDEX=2", "train-2", NULL, "k8s node 2, train-0:29500"},
    {"JOB_COMPLETION_INDEX=2", "a-2.sub.ns", NULL, "k8s node 2, a-0.sub.ns:29500"},
    {"JOB_COMPLETION_INDEX=12", "train-12", NULL, "k8s node 12, train-0:29500"},
    {"JOB_COMPLETION_INDEX=2", "train-12", NULL, "k8s node 2"},
    {"JOB_COMPLETION_INDEX=1", "worker", NULL, "k8s node 1"},
    {"JOB_COMPLETION_INDEX=-1", NULL, NULL, "JOB_COMPLETION_INDEX=-1"},
    {"JOB_COMPLETION_INDEX=all", NULL, NULL, "JOB_COMPLETION_INDEX=all"},

    /* -- TPU ---- */
    {TPU, NULL, NULL, "tpu 4 nodes, node 2, t0:29500"},
    {"TPU_WORKER_ID=4;" TPU, NULL, NULL, "TPU_WORKER_ID says that this is node 4, but TPU_WORKER_HOSTNAMES that there are 4"},
    {"TPU_WORKER_ID=-1;" TPU, NULL, NULL, "TPU_WORKER_ID=-1"},
    {"TPU_WORKER_HOSTNAMES=t0;TPU_WORKER_ID=0", NULL, NULL, "tpu 1 nodes, node 0, t0:29500"},
    {"TPU_WORKER_HOSTNAMES=t0, t1;TPU_WORKER_ID=0", NULL, NULL, "tpu 2 nodes, node 0, t0:29500"},
    {"TPU_WORKER_HOSTNAMES=10.0.0.1,10.0.0.2;TPU_WORKER_ID=1", NULL, NULL, "tpu 2 nodes, node 1, 10.0.0.1:29500"},
    {"TPU_WORKER_HOSTNAMES=t0,t0;TPU_WORKER_ID=0", NULL, NULL, "TPU_WORKER_HOSTNAMES: the host t0 is there twice"},
    {"TPU_WORKER_HOSTNAMES=t0,;TPU_WORKER_ID=0", NULL, NULL, "'' is not a host name"},

    /* -- PBS ---- */
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/two", NULL, NULL, "pbs 2 nodes, node 1, n1:23004, pbs-4.head"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/two", "n1.site.org", NULL, "pbs 2 nodes, node 0, n1:23004, pbs-4.head"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/two", "N1", NULL, "pbs 2 nodes, node 0, n1:23004, pbs-4.head"},
    /* the script; what pbsdsh starts; another host; a job of one host */
    {"PBS_TASKNUM=1;PBS_JOBID=4.head;PBS_NODEFILE=/pbs/two", "n1", NULL, "pbs 2 nodes, n1:23004, pbs-4.head script with ssh"},
    {"PBS_TASKNUM=2;PBS_JOBID=4.head;PBS_NODEFILE=/pbs/two", "n1", NULL, "pbs 2 nodes, node 0, n1:23004, pbs-4.head"},
    {"PBS_TASKNUM=1;PBS_JOBID=4.head;PBS_NODEFILE=/pbs/two", NULL, NULL, "pbs 2 nodes, node 1, n1:23004, pbs-4.head"},
    {"PBS_TASKNUM=1;PBS_JOBID=4.head;PBS_NODEFILE=/pbs/one", NULL, NULL, "pbs 1 nodes, node 0, n2:23004, pbs-4.head"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/mixed", NULL, NULL, "pbs 2 nodes, node 1, n1.site:23004, pbs-4.head"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/one", NULL, NULL, "pbs 1 nodes, node 0, n2:23004, pbs-4.head"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/one", "n2-ib", NULL, "pbs 1 nodes, node 0, n2:23004, pbs-4.head"},
    {"PBS_JOBID=4[7].head;PBS_NODEFILE=/pbs/one", NULL, NULL, "pbs 1 nodes, node 0, n2:23431, pbs-4[7].head"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/others", NULL, NULL, "PBS_NODEFILE does not have this host, n2, among its 2 hosts (the first is a)"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/empty", NULL, NULL, "PBS_NODEFILE: must name at least one host"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/bad", NULL, NULL, "PBS_NODEFILE: line 3: 'n/3' is not a host name"},
    {"PBS_JOBID=4.head;PBS_NODEFILE=/pbs/gone", NULL, NULL, "PBS job 4.head: cannot read the list of its hosts, PBS_NODEFILE=/pbs/gone: No such file or directory, perhaps because this is not the first of them: add --nnodes"},
    {"PBS_JOBID=4.head", NULL, NULL, "PBS job 4.head: PBS_NODEFILE is not set"},

    /* -- LSF ---- */
    {LSF, NULL, NULL, "lsf 2 nodes, node 1, n1:23088, lsf-88"},
    {LSF, "n1", NULL, "lsf 2 nodes, n1:23088, lsf-88 script with blaunch"},
    {"LSF_PM_TASKID=1;" LSF, "n1", NULL, "lsf 2 nodes, node 0, n1:23088, lsf-88"},
    {"CSM_ALLOCATION_ID=3;" LSF, "n1", NULL, "lsf 2 nodes, node 0, n1:23088, lsf-88"},
    {LSF, "n3", NULL, "LSB_MCPU_HOSTS does not have this host, n3"},
    {"LSB_JOBID=88", NULL, NULL, "LSF job 88: LSB_MCPU_HOSTS is not set, so the hosts of the job are not known"},
    {"LSB_MCPU_HOSTS=;" LSF, NULL, NULL, "LSF job 88: LSB_MCPU_HOSTS is not set"},
    {"LSB_MCPU_HOSTS=n1 4 n2;" LSF, NULL, NULL, "LSB_MCPU_HOSTS: a number of slots must stand behind the host n2"},
    {"LSB_MCPU_HOSTS=n1 n2;" LSF, NULL, NULL, "a number of slots must stand behind the host n1"},
    {"LSB_MCPU_HOSTS=n1 0 n2 1;" LSF, NULL, NULL, "a number of slots must stand behind the host n1"},
    {"LSB_MCPU_HOSTS=n2 4;" LSF, NULL, NULL, "lsf 1 nodes, node 0, n2:23088, lsf-88"},
    {LSF ";JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=1", "x", NULL, "lsf 2 nodes, node 1, n1:23088, lsf-88"},
    {"LSB_MCPU_HOSTS=batch 1 n1 42 n2 42;" LSF ";JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=0", "x", NULL, "lsf 2 nodes, node 0, n1:23088, lsf-88"},
    {"CSM_ALLOCATION_ID=4;LSB_MCPU_HOSTS=batch 1 n1 42 n2 42 n3 42;" LSF ";JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=0", "x", NULL, "lsf 2 nodes, node 0, n1:23088, lsf-88"},
    {LSF ";JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=2", NULL, NULL, "JSM_NAMESPACE_RANK says that this is node 2"},
    {"LSB_MCPU_HOSTS=n1;" LSF ";JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=1", NULL, NULL, "LSB_MCPU_HOSTS: a number of slots"},
    {"LSB_JOBID=88;JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=1", NULL, NULL, "lsf 2 nodes, node 1, lsf-88"},
    /* "0" is of no array */
    {"LSB_JOBINDEX=0;" LSF, NULL, NULL, "lsf 2 nodes, node 1, n1:23088, lsf-88"},
    {"LSB_JOBINDEX=1;" LSF, NULL, NULL, "lsf 2 nodes, node 1, n1:23149, lsf-88[1]"},
    {"LSB_JOBINDEX=2;LSF_PM_TASKID=1;" LSF, "n1", NULL, "lsf 2 nodes, node 0, n1:23210, lsf-88[2]"},
    {"LSB_JOBINDEX=2;LSB_JOBID=88;JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=1", NULL, NULL, "lsf 2 nodes, node 1, lsf-88[2]"},
    {"LSB_JOBINDEX=3;LSB_JOBID=88", NULL, NULL, "LSF job 88[3]: LSB_MCPU_HOSTS is not set"},

    /* -- Grid Engine ---- */
    {"JOB_ID=5;PE_HOSTFILE=/sge/two", NULL, NULL, "sge 2 nodes, node 1, n1:23005, sge-5"},
    {"JOB_ID=5;PE_HOSTFILE=/sge/two", "n1", NULL, "sge 2 nodes, n1:23005, sge-5 script with qrsh -inherit"},
    {"JOB_ID=5;PE_HOSTFILE=/sge/two", "n3", NULL, "PE_HOSTFILE does not have this host, n3"},
    {"JOB_ID=5;PE_HOSTFILE=/sge/bad", NULL, NULL, "PE_HOSTFILE: line 2: a number of slots must stand behind the host n2"},
    {"JOB_ID=5;PE_HOSTFILE=/sge/gone", NULL, NULL, "cannot read the list of its hosts, PE_HOSTFILE=/sge/gone"},

    {"JOB_ID=5;SGE_TASK_ID=undefined;PE=ddp;NHOSTS=1", NULL, NULL, "Grid Engine job 5: PE_HOSTFILE is not set, so the hosts of the job are not known, perhaps because this is not the first of them: add --nnodes and --rdzv_endpoint"},
    {"JOB_ID=5;SGE_TASK_ID=undefined;PE=ddp;PE_HOSTFILE=/sge/two", NULL, NULL, "sge 2 nodes, node 1, n1:23005, sge-5"},
    {"JOB_ID=5;SGE_TASK_ID=2;PE=ddp;PE_HOSTFILE=/sge/two", NULL, NULL, "sge 2 nodes, node 1, n1:23127, sge-5[2]"},
    {"JOB_ID=5;SGE_TASK_ID=2;PE=ddp", NULL, NULL, "Grid Engine job 5[2]: PE_HOSTFILE is not set"},
    {"JOB_ID=5;SGE_TASK_ID=undefined;NHOSTS=1", NULL, NULL, "nothing"},
    {"JOB_ID=5;SGE_TASK_ID=undefined;PE=ddp", NULL, "none", "nothing"},

    /* -- several sources ---- */
    {SM ";" STEP, NULL, NULL, "SLURM_STEP_NUM_NODES=3 (Slurm job 17) and SM_HOSTS=2 (SageMaker job) contradict each other: add --cluster=slurm or --cluster=sagemaker"},
    {SM ";" STEP_OF("17", "2", "n[1-2]", "0"), NULL, NULL, "SLURM_NODEID=0 (Slurm job 17) and SM_HOSTS=1 (SageMaker job) contradict each other"},
    {SM ";" STEP_OF("17", "2", "n[1-2]", "1"), NULL, NULL, "slurm 2 nodes, node 1, n1:23017, slurm-17.0"},
    {"JOB_COMPLETION_INDEX=1;" STEP, NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {"JOB_COMPLETION_INDEX=0;" STEP, NULL, NULL, "SLURM_NODEID=1 (Slurm job 17) and JOB_COMPLETION_INDEX=0"},
    {TPU ";JOB_COMPLETION_INDEX=2", "p-2", NULL, "tpu 4 nodes, node 2, t0:29500"},
    {TPU ";JOB_COMPLETION_INDEX=2", "p-2", "k8s", "k8s node 2, p-0:29500"},
    {TPU ";JOB_COMPLETION_INDEX=1", "p-1", NULL, "TPU_WORKER_ID=2 (TPU slice) and JOB_COMPLETION_INDEX=1 (Kubernetes Indexed Job)"},
    {STEP ";PBS_JOBID=4;PBS_NODEFILE=/pbs/one", NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {STEP ";JOB_ID=5;PE_HOSTFILE=/sge/gone", NULL, NULL, "slurm 3 nodes, node 1, n1:23017, slurm-17.0"},
    {SM ";" LSF, NULL, NULL, "sagemaker 2 nodes, node 1, algo-1:29500"},
    {SCRIPT ";PBS_JOBID=4;PBS_NODEFILE=/pbs/two", NULL, NULL, "SLURM_JOB_NUM_NODES=3 (Slurm job 17) and PBS_NODEFILE=2 (PBS job 4) contradict"},
    {"PBS_JOBID=4;PBS_NODEFILE=/pbs/two;JOB_ID=5;PE_HOSTFILE=/sge/two", NULL, NULL, "pbs 2 nodes, node 1, n1:23004, pbs-4"},
    {"PBS_JOBID=4;PBS_NODEFILE=/pbs/one;JOB_ID=5;PE_HOSTFILE=/sge/two", NULL, NULL, "PBS_NODEFILE=1 (PBS job 4) and PE_HOSTFILE=2 (Grid Engine job 5) contradict"},
    {"PBS_JOBID=4;PBS_NODEFILE=/pbs/two;JOB_ID=5;PE_HOSTFILE=/sge/bad", NULL, NULL, "PE_HOSTFILE: line 2"},
};
/* clang-format on */

TEST_EACH(test_cluster_finds_what_the_variables_say, rows)
{
    const struct row *row = &rows[_i];
    struct cluster f;
    struct ddp_err err = {.text = ""};
    char found[1024];
    struct cluster_env env = make_env(row);
    const char *wanted = row->wanted != NULL ? row->wanted : "auto";
    if (cluster_find(&env, wanted, &f, &err) == 0) {
        found_text(&f, found);
        ck_assert_msg(strcmp(found, row->found) == 0, "%s\n  %s\n  %s",
                      row->vars, found, row->found);
        return;
    }
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_msg(strstr(err.text, row->found) != NULL, "%s\n  %s\n  %s",
                  row->vars, err.text, row->found);
}

/* -- two launchers on one host --------------------------------------------- */

#define ONE ";SLURM_LOCALID=0;SLURM_STEP_TASKS_PER_NODE=1(x3)"

/* found: "" for a launcher that may start, else a part of the refusal. */
static const struct row launchers[] = {
    {"", NULL, NULL, ""},
    {STEP ONE, NULL, NULL, ""},
    {STEP ";SLURM_LOCALID=1", NULL, NULL, "SLURM_LOCALID=1: more than one"},
    {STEP ";SLURM_LOCALID=1", NULL, NULL, "srun --ntasks-per-node=1"},
    {STEP ";SLURM_LOCALID=1", NULL, "none", ""},
    {"SLURM_STEP_TASKS_PER_NODE=2(x3);" STEP ONE, NULL, NULL,
     "SLURM_STEP_TASKS_PER_NODE=2(x3): more than one"},
    {"SLURM_STEP_TASKS_PER_NODE=1(x2),2;" STEP ONE, NULL, NULL,
     "SLURM_STEP_TASKS_PER_NODE=1(x2),2"},
    {"SLURM_STEP_TASKS_PER_NODE=what;" STEP ONE, NULL, NULL, ""},
    {"SLURM_STEP_TASKS_PER_NODE=8;" SCRIPT, NULL, NULL, ""},
    {"SLURM_LOCALID=3;" SCRIPT, NULL, NULL, ""},
    {OMPI("4", "1") ";OMPI_COMM_WORLD_LOCAL_RANK=1", NULL, NULL,
     "OMPI_COMM_WORLD_LOCAL_RANK=1"},
    {OMPI("4", "0") ";OMPI_COMM_WORLD_LOCAL_RANK=0;"
                    "OMPI_COMM_WORLD_LOCAL_SIZE=2",
     NULL, NULL, "mpirun --map-by ppr:1:node (Slurm's --ntasks-per-node=1)"},
    {OMPI("4", "0") ";OMPI_COMM_WORLD_LOCAL_SIZE=1", NULL, NULL, ""},
    {HYDRA("2", "0"), NULL, NULL, ""},
    {"MPI_LOCALRANKID=1;" HYDRA("2", "1"), NULL, NULL, "MPI_LOCALRANKID=1"},
    {"MPI_LOCALNRANKS=2;" HYDRA("2", "0"), NULL, NULL, "MPI_LOCALNRANKS=2"},
    {"PMI_SIZE=4;PMI_RANK=1;PMI_LOCAL_RANK=1", NULL, NULL, "PMI_LOCAL_RANK=1"},
    {"PMI_SIZE=4;PMI_RANK=0;PMI_LOCAL_SIZE=2", NULL, NULL, "mpiexec -ppn 1"},
    {"PMI_SIZE=4;PMI_RANK=1;PMI_LOCAL_SIZE=1", NULL, NULL, ""},
    {"FLUX_JOB_ID=f;FLUX_TASK_RANK=1;FLUX_TASK_LOCAL_ID=1", NULL, NULL,
     "FLUX_TASK_LOCAL_ID=1"},
    {LSF ";JSM_NAMESPACE_SIZE=2;JSM_NAMESPACE_RANK=1;"
         "JSM_NAMESPACE_LOCAL_RANK=1",
     NULL, NULL, "JSM_NAMESPACE_LOCAL_RANK=1"},
    {OMPI("2", "1") ";OMPI_COMM_WORLD_LOCAL_SIZE=1;" STEP ";SLURM_LOCALID=1",
     NULL, NULL, ""},
    {"MV2_COMM_WORLD_SIZE=2;MV2_COMM_WORLD_RANK=0;MV2_COMM_WORLD_LOCAL_SIZE=2",
     NULL, NULL, "MV2_COMM_WORLD_LOCAL_SIZE=2"},
};

CASE("tasks", .tags = "fast")

TEST_EACH(test_cluster_refuses_a_second_launcher_on_a_host, launchers)
{
    const struct row *row = &launchers[_i];
    struct ddp_err err = {.text = ""};
    struct cluster_env env = make_env(row);
    int rc = cluster_check_tasks(
        &env, row->wanted != NULL ? row->wanted : "auto", &err);
    ck_assert_int_eq(rc, row->found[0] != '\0' ? -1 : 0);
    ck_assert_msg(strstr(err.text, row->found) != NULL, "%s", err.text);
    if (rc < 0) {
        ck_assert_int_eq(err.code, DDP_E_USAGE);
        ck_assert_ptr_nonnull(strstr(err.text, "--ntasks-per-node=1"));
    }
}

/* -- variables of the task ------------------------------------------------- */

TEST(test_cluster_knows_variables_of_the_task_from_those_of_the_job)
{
    static const char *const task[] = {
        "PMI_FD=9",
        "PMI_RANK=0",
        "PMI_SIZE=2",
        "PMIX_RANK=0",
        "PMIX_NAMESPACE=a",
        "OMPI_COMM_WORLD_RANK=0",
        "MPI_LOCALRANKID=0",
        "MPI_LOCALNRANKS=1",
        "MV2_COMM_WORLD_RANK=0",
        "JSM_NAMESPACE_RANK=",
        "SLURM_PROCID=1",
        "SLURM_LOCALID=0",
        "SLURM_NTASKS=2",
        "SLURM_NPROCS=2",
        "SLURM_STEP_NUM_TASKS=2",
        "SLURM_CPU_BIND=q",
        "SLURM_CPU_BIND_TYPE=mask_cpu:",
        "SLURM_GTIDS=0,1",
        "FLUX_TASK_RANK=0",
    };
    static const char *const rest[] = {
        "SLURM_JOB_ID=17",
        "SLURM_JOB_NODELIST=n1",
        "SLURM_NODELIST=n1",
        "SLURM_STEP_NODELIST=n1",
        "SLURM_NTASKS_PER_NODE=1",
        "SLURM_TASKS_PER_NODE=1(x3)",
        "SLURM_NODEID=1",
        "SLURM_GPUS_ON_NODE=4",
        "MV2_USE_CUDA=1",
        "PMIX_MCA_gds=hash",
        "OMPI_MCA_btl=tcp",
        "PBS_NODEFILE=/x",
        "LSB_MCPU_HOSTS=a 1",
        "PATH=/bin",
        "PMI",
        "RANK=1",
        "FLUX_JOB_ID=f",
        "SLURM_PROCIDS=1",
    };
    for (size_t i = 0; i < sizeof(task) / sizeof(task[0]); i++)
        ck_assert_msg(cluster_is_task_variable(task[i]), "%s", task[i]);
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        ck_assert_msg(!cluster_is_task_variable(rest[i]), "%s", rest[i]);
}

/* -- files ----------------------------------------------------------------- */

/* What is behind the id in memory is none of it. */
TEST(test_cluster_port_is_of_the_id_alone)
{
    static const char id[] = "88\0"
                             "7";
    struct cluster a = {.name = "lsf"}, b = {.name = "lsf"};
    cluster_name_run(&a, "88", "LSB_JOBID");
    cluster_name_run(&b, id, "LSB_JOBID");
    ck_assert_int_eq(a.port, b.port);
    ck_assert_str_eq(a.run_id, b.run_id);
}

CASE("files", .tags = "fast")

/* A list is a file on a disk, not too large; anything else is not waited for.
 */
TEST(test_cluster_reads_regular_files_only)
{
    char path[] = "/tmp/check_cluster.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "n1\nn2\n", 6), 6);
    char *got = cluster_read_file(path);
    ck_assert_ptr_nonnull(got);
    ck_assert_str_eq(got, "n1\nn2\n");
    free(got);
    ck_assert_int_eq(ftruncate(fd, CLUSTER_FILE_MAX + 1), 0);
    ck_assert_ptr_null(cluster_read_file(path));
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_ptr_null(cluster_read_file(path));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_ptr_null(cluster_read_file(path));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_ptr_null(cluster_read_file("/tmp"));
}

/* Half a list would be a smaller job. */
TEST(test_cluster_reads_all_of_a_file_or_nothing)
{
    char path[] = "/tmp/check_cluster.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "n1\nn2\n", 6), 6);
    fault_plan("test:read:1:EIO");
    char *got = cluster_read_file(path);
    int saved = errno;
    fault_end();
    ck_assert_ptr_null(got);
    ck_assert_int_eq(saved, EIO);
    ck_assert_int_eq(pwrite(fd, "", 1, 2), 1); /* n1 NUL n2 */
    ck_assert_ptr_null(cluster_read_file(path));
    ck_assert_int_eq(errno, EILSEQ);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(unlink(path), 0);
}

SUITE("cluster", "find", .tags = "fast")
