/*
 * The table of environments: a row for each scheduler, with the variables that
 * it gives to what it starts. A row is found if all of its marks are set. What
 * needs more than a variable for each value has a function of its own (refine).
 *
 * A bare RANK, WORLD_SIZE or MASTER_ADDR is no source: people export them by
 * hand, and in some clouds WORLD_SIZE is the number of nodes.
 */
#include "launcher/cluster/table_priv.h"

/* clang-format off */
const struct cluster_row cluster_rows[] = {
    {.name = "mpi", .title = "Open MPI", .rank = CLUSTER_TASK,
     .marks = "OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK",
     .nnodes = "OMPI_COMM_WORLD_SIZE", .node = "OMPI_COMM_WORLD_RANK",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .one_each = "mpirun --map-by ppr:1:node (Slurm's --ntasks-per-node=1)"},
    {.name = "mpi", .title = "MPICH", .rank = CLUSTER_TASK,
     .marks = "PMI_SIZE PMI_RANK MPI_LOCALRANKID",
     .nnodes = "PMI_SIZE", .node = "PMI_RANK",
     .local_rank = "MPI_LOCALRANKID", .local_size = "MPI_LOCALNRANKS",
     .one_each = "mpiexec -ppn 1 (Slurm's --ntasks-per-node=1)"},
    {.name = "mpi", .title = "MVAPICH", .rank = CLUSTER_TASK,
     .marks = "MV2_COMM_WORLD_SIZE MV2_COMM_WORLD_RANK",
     .nnodes = "MV2_COMM_WORLD_SIZE", .node = "MV2_COMM_WORLD_RANK",
     .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
     .local_size = "MV2_COMM_WORLD_LOCAL_SIZE",
     .one_each = "mpiexec -ppn 1 (Slurm's --ntasks-per-node=1)"},
    {.name = "slurm", .title = "Slurm job", .rank = CLUSTER_NODE,
     .marks = "SLURM_JOB_ID", .id = "SLURM_JOB_ID",
     .nproc = "SLURM_GPUS_ON_NODE",
     .local_rank = "SLURM_LOCALID", .task_counts = "SLURM_STEP_TASKS_PER_NODE",
     .one_each = "srun --ntasks-per-node=1", .refine = cluster_slurm},
    {.name = "flux", .title = "Flux job", .rank = CLUSTER_NODE,
     .marks = "FLUX_JOB_ID FLUX_TASK_RANK", .id = "FLUX_JOB_ID",
     .nnodes = "FLUX_JOB_NNODES", .node = "FLUX_TASK_RANK",
     .local_rank = "FLUX_TASK_LOCAL_ID",
     .one_each = "flux run --tasks-per-node=1 (Slurm's --ntasks-per-node=1)"},
    {.name = "lsf", .title = "LSF job", .rank = CLUSTER_NODE,
     .marks = "LSB_JOBID JSM_NAMESPACE_SIZE JSM_NAMESPACE_RANK",
     .id = "LSB_JOBID", .nnodes = "JSM_NAMESPACE_SIZE",
     .node = "JSM_NAMESPACE_RANK",
     .local_rank = "JSM_NAMESPACE_LOCAL_RANK",
     .local_size = "JSM_NAMESPACE_LOCAL_SIZE",
     .one_each = "jsrun --rs_per_host=1 (Slurm's --ntasks-per-node=1)",
     .refine = cluster_lsf},
    {.name = "sagemaker", .title = "SageMaker job", .rank = CLUSTER_NODE,
     .marks = "SM_CURRENT_HOST", .id = "TRAINING_JOB_NAME",
     .nproc = "SM_NUM_GPUS", .refine = cluster_sagemaker},
    {.name = "sagemaker", .title = "SageMaker job", .rank = CLUSTER_NODE,
     .marks = "TRAINING_JOB_NAME", .file = SAGEMAKER_FILE, .id = "TRAINING_JOB_NAME",
     .nproc = "SM_NUM_GPUS", .refine = cluster_sagemaker},
    {.name = "awsbatch", .title = "AWS Batch job", .rank = CLUSTER_NODE,
     .marks = "AWS_BATCH_JOB_NODE_INDEX", .id = "AWS_BATCH_JOB_ID",
     .nnodes = "AWS_BATCH_JOB_NUM_NODES", .node = "AWS_BATCH_JOB_NODE_INDEX",
     .refine = cluster_aws_batch},
    {.name = "volcano", .title = "Volcano job", .rank = CLUSTER_NODE,
     .marks = "VC_TASK_INDEX", .refine = cluster_volcano},
    {.name = "tpu", .title = "TPU slice", .rank = CLUSTER_NODE,
     .marks = "TPU_WORKER_ID TPU_WORKER_HOSTNAMES", .node = "TPU_WORKER_ID",
     .hosts = "TPU_WORKER_HOSTNAMES", .form = HOSTS_COMMAS},
    {.name = "k8s", .title = "Kubernetes Indexed Job", .rank = CLUSTER_NODE,
     .marks = "JOB_COMPLETION_INDEX", .node = "JOB_COMPLETION_INDEX",
     .refine = cluster_indexed_job},
    {.name = "pbs", .title = "PBS job", .rank = CLUSTER_JOB,
     .marks = "PBS_JOBID", .id = "PBS_JOBID", .hosts = "PBS_NODEFILE",
     .form = HOSTS_LINES, .is_file = true, .refine = cluster_own_place},
    {.name = "lsf", .title = "LSF job", .rank = CLUSTER_JOB,
     .marks = "LSB_JOBID", .id = "LSB_JOBID",
     .hosts = "LSB_MCPU_HOSTS", .form = HOSTS_PAIRS,
     .refine = cluster_own_place},
    {.name = "sge", .title = "Grid Engine job", .rank = CLUSTER_JOB,
     .marks = "PE_HOSTFILE JOB_ID", .id = "JOB_ID", .hosts = "PE_HOSTFILE",
     .form = HOSTS_SLOTS, .is_file = true, .refine = cluster_own_place},
    /* on the other hosts of such a job, where qrsh -inherit tells no list */
    {.name = "sge", .title = "Grid Engine job", .rank = CLUSTER_JOB,
     .marks = "SGE_TASK_ID JOB_ID PE", .id = "JOB_ID", .hosts = "PE_HOSTFILE",
     .form = HOSTS_SLOTS, .is_file = true, .refine = cluster_own_place},
};
/* clang-format on */
const int cluster_rows_len = sizeof(cluster_rows) / sizeof(cluster_rows[0]);
