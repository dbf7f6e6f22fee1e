/*
 * launcher/worker_env: what a worker is given: its environment (TORCHRUN.md 2)
 * and its arguments with the places filled in.
 */
#ifndef WORKER_ENV_H
#define WORKER_ENV_H

#include "launcher/conf.h"
#include "launcher/notice.h"
#include "rendezvous/proto/msg.h"

/*
 * The environment of the worker with this local rank: ours, with what a worker
 * of this round finds put in or replaced. `error_file` may be "". Owned by the
 * caller, freed by free() as one block; NULL when out of memory.
 */
char **worker_env_make(const struct conf *conf,
                       const struct msg_world *world,
                       int local_rank,
                       const char *error_file,
                       const struct notice *notice);

/*
 * The arguments with ${local_rank} and $local_rank replaced and $$ made $, as
 * Python's string.Template does; other $words stay. Owned by the caller, freed
 * by free() as one block; NULL when out of memory.
 */
char **worker_args_make(char *const *argv, int local_rank);

#endif
