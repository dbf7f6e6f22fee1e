/*
 * What a task has of its scheduler and its MPI about its own place. Workers
 * must not inherit it: accelerate reads PMI_SIZE before WORLD_SIZE, and an MPI
 * program would talk to a descriptor that is not its own. Settings that people
 * make (MV2_USE_CUDA, PMIX_MCA_...) and what tells of the job (SLURM_JOB_ID,
 * lists of nodes) stay.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/cluster/cluster.h"

/* A name that ends with '*' is the beginning of several. */
static const char *const task_vars[] = {
    "PMI_*",
    "PMIX_*",
    "OMPI_COMM_WORLD_*",
    "MV2_COMM_WORLD_*",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "JSM_NAMESPACE_*",
    "FLUX_TASK_*",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASK_PID",
    "SLURM_GTIDS",
    "SLURM_CPU_BIND*",
    "SLURM_MPI_TYPE",
    "SLURM_PMIX_*",
};

/* Settings that look like them. */
static const char *const settings[] = {"PMIX_MCA_*"};

static bool is_named(const char *entry, const char *name)
{
    size_t len = strcspn(name, "*");
    return strncmp(entry, name, len) == 0 &&
           (name[len] == '*' || entry[len] == '=');
}

bool cluster_is_task_variable(const char *entry)
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (is_named(entry, settings[i]))
            return false;
    for (size_t i = 0; i < sizeof(task_vars) / sizeof(task_vars[0]); i++)
        if (is_named(entry, task_vars[i]))
            return true;
    return false;
}

/* The number is somebody's word, so it has to be a socket's. */
void cluster_keep_task_socket(void)
{
    struct stat st;
    const char *text = getenv("PMI_FD");
    long fd = text == NULL ? -1 : strtol(text, NULL, 10);
    if (fd > STDERR_FILENO && fd <= INT_MAX && fstat((int)fd, &st) == 0 &&
        S_ISSOCK(st.st_mode))
        (void)fcntl((int)fd, F_SETFD, FD_CLOEXEC); /* it is open */
}
