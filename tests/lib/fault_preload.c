/*
 * What makes tests/lib/fault.c a library to preload, for whole launchers:
 *
 *     LD_PRELOAD=build/tests/lib/libfault.so DDPRUN_FAULT=agent:pipe2:1:EMFILE
 * \ DDPRUN_FAULT_LOG=/tmp/log build/ddprun ...
 *
 * DDPRUN_FAULT is a plan, or "count"; the launcher is "guard"
 * (tests/lib/fault.h). It concerns ddprun only, and the workers do not find it
 * in their environment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fault.h"

__attribute__((constructor)) static void begin(void)
{
    static char plan[FAULT_PLAN_MAX], log[256];
    const char *wanted = getenv("DDPRUN_FAULT");
    const char *path = getenv("DDPRUN_FAULT_LOG");
    if (wanted == NULL || strlen(wanted) >= sizeof(plan) ||
        strcmp(program_invocation_short_name, "ddprun") != 0)
        return;
    memcpy(plan, wanted, strlen(wanted) + 1);
    if (path != NULL && strlen(path) < sizeof(log))
        memcpy(log, path, strlen(path) + 1);
    (void)unsetenv("LD_PRELOAD");
    (void)unsetenv("DDPRUN_FAULT");
    (void)unsetenv("DDPRUN_FAULT_LOG");
    fault_plan_as("guard", plan, log);
}
