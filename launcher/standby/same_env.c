#include "launcher/standby/same_env.h"

#include <stddef.h>
#include <string.h>

/* What launcher/worker/env sets for one worker or one round. Not among them:
 * OMP_NUM_THREADS, which an import acts on. */
#define PLACES                                                                 \
    "RANK,WORLD_SIZE,LOCAL_RANK,DDP_LOCAL_RANK,LOCAL_WORLD_SIZE,GROUP_RANK,"   \
    "GROUP_WORLD_SIZE,ROLE_RANK,ROLE_WORLD_SIZE,MASTER_ADDR,MASTER_PORT,"      \
    "TORCHELASTIC_RESTART_COUNT,TORCHELASTIC_ERROR_FILE,DDP_INSTANCE,"         \
    "DDP_EPOCH,DDP_ROUND,DDP_PROGRESS_FILE,DDP_STOP_FILE,DDP_SNAPSHOT_MEMORY," \
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE,TORCH_FR_DUMP_TEMP_FILE,"                 \
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
/* CUDA reads them as it is initialised, which no import ahead may do: its
 * descriptors would be seen. */
#define GPU ",CUDA_VISIBLE_DEVICES,HIP_VISIBLE_DEVICES"

const char *same_env_places(bool gpu)
{
    return gpu ? PLACES GPU : PLACES;
}

static bool is_place(const char *entry, const char *places)
{
    size_t len = strcspn(entry, "=");
    const char *at = places;
    while (*at != '\0') {
        size_t n = strcspn(at, ",");
        if (n == len && strncmp(at, entry, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

void same_env_strip(char **envp, const char *places)
{
    size_t n = 0;
    for (size_t i = 0; envp[i] != NULL; i++)
        if (!is_place(envp[i], places))
            envp[n++] = envp[i];
    envp[n] = NULL;
}

static bool has(char *const *envp, const char *entry)
{
    for (; *envp != NULL; envp++)
        if (strcmp(*envp, entry) == 0)
            return true;
    return false;
}

/* The first entry of `a` that is no place and that `b` has not. */
static const char *missing(char *const *a, char *const *b, const char *places)
{
    for (; *a != NULL; a++)
        if (!is_place(*a, places) && !has(b, *a))
            return *a;
    return NULL;
}

const char *
same_env_differs(char *const *stripped, char *const *worker, const char *places)
{
    const char *entry = missing(worker, stripped, places);
    return entry != NULL ? entry : missing(stripped, worker, places);
}
