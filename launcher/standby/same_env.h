/*
 * launcher/standby/same_env: what of a worker's environment is its place (RANK
 * and the like) and may differ from that of the imports, and what may not.
 * Pure.
 */
#ifndef LAUNCHER_STANDBY_SAME_ENV_H
#define LAUNCHER_STANDBY_SAME_ENV_H

#include <stdbool.h>

/* The names of the variables of a place, with commas between. `gpu`: each
 * worker has a GPU of its own, which is a part of its place. */
const char *same_env_places(bool gpu);

/* Takes the variables of a place out of a block, in place. */
void same_env_strip(char **envp, const char *places);

/*
 * Compares a worker's environment with a stripped one. NULL: but for the
 * worker's place they are the same; else an entry ("NAME=value", of one of the
 * two) that the other has not. The entries may be in any order.
 */
const char *same_env_differs(char *const *stripped,
                             char *const *worker,
                             const char *places);

#endif
