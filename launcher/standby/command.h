/*
 * launcher/standby/command: reads a worker's command line as Python does: its
 * own options, then a script or -m and a module. Pure.
 */
#ifndef LAUNCHER_STANDBY_COMMAND_H
#define LAUNCHER_STANDBY_COMMAND_H

#include <stdbool.h>

#define STANDBY_WHY_MAX 200

struct standby_command {
    int options; /* argv[0..options): the interpreter and its options */
    int program; /* argv[program] is the script or the module */
    bool module;
};

/* False: no standby can run this; `why` completes "..., since". */
bool standby_command_read(char *const argv[],
                          struct standby_command *out,
                          char why[STANDBY_WHY_MAX]);

#endif
