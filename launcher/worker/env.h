/*
 * launcher/worker/env: a worker's environment (torchrun's variables, and our
 * own: ddprun(1), ENVIRONMENT) and its arguments with the places filled in.
 */
#ifndef LAUNCHER_WORKER_ENV_H
#define LAUNCHER_WORKER_ENV_H

#include "launcher/conf/conf.h"
#include "launcher/worker/mailbox.h"
#include "rendezvous/proto/msg.h"

/* Where PyTorch's flight recorder is asked, and where it writes (hang/flight):
 * how both paths begin, beside the worker's error file, and the variables. */
#define FLIGHT_NAME         "nccl_trace_rank_"
#define FLIGHT_PIPE_VAR     "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
#define FLIGHT_DUMP_VAR     "TORCH_FR_DUMP_TEMP_FILE"
#define FLIGHT_DUMP_OLD_VAR "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"

/*
 * The environment of the worker with this local rank: the launcher's, with the
 * variables of a worker of this round added or replaced. `error_file` may be
 * "". `pmi_fd` is the worker's end of its PMI socket, -1: it is not made yet,
 * or there is none. One block, which the caller frees with free(); NULL: out of
 * memory.
 */
char **worker_env_make(const struct conf *conf,
                       const struct msg_world *world,
                       int local_rank,
                       const char *error_file,
                       const struct mailbox *mailbox,
                       int pmi_fd);

/* Takes the variable out of such a block. */
void worker_env_drop(char **envp, const char *name);

/* What can stand in an argument, as ${local_rank} and so on. */
enum worker_place {
    WORKER_LOCAL_RANK,
    WORKER_RANK,
    WORKER_WORLD_SIZE,
    WORKER_GROUP_RANK,
    WORKER_MASTER_ADDR,
    WORKER_MASTER_PORT,
    WORKER_PLACES
};

/* What is put in. worker_places_fill lets `text` point into the struct itself
 * and into the world; a caller may let it point anywhere. */
struct worker_places {
    const char *text[WORKER_PLACES];
    char number[WORKER_PLACES][24];
};

/* Fills in those of one worker; borrows `world` for as long as `p` is used. */
void worker_places_fill(struct worker_places *p,
                        const struct msg_world *world,
                        int local_rank);

/*
 * The arguments with ${rank}, ${local_rank}, ${world_size}, ${group_rank},
 * ${master_addr}, ${master_port} and $local_rank replaced and $$ made $, as
 * Python's string.Template does; other $words stay. One block, which the caller
 * frees with free(); NULL: out of memory.
 */
char **worker_args_make(char *const *argv, const struct worker_places *places);

#endif
