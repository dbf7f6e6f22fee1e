/*
 * launcher/proc/oom: whether the kernel killed a process because memory ran
 * out. The kernel does not tell, but it counts: for the cgroup of this process
 * if that has a memory controller, and for the machine.
 */
#ifndef LAUNCHER_PROC_OOM_H
#define LAUNCHER_PROC_OOM_H

#include <stdbool.h>
#include <stdint.h>

struct oom {
    struct oom_count {
        char path[600]; /* of the file that counts, "" none */
        int64_t count;  /* when last looked; -1: not known */
    } cgroup, machine;
};

enum oom_kill {
    OOM_NOT,
    OOM_LIKELY, /* of some process of this machine */
    OOM_KILLED, /* of one in the cgroup of this process */
};

void oom_init(struct oom *o);

/* What was counted since the last call, or since oom_init. */
enum oom_kill oom_happened(struct oom *o);

/*
 * The file that counts for the process whose /proc/PID/cgroup reads `cgroups`,
 * below `root` ("/sys/fs/cgroup"): the nearest that exists. False: none does.
 */
bool oom_find(const char *cgroups, const char *root, char *path, int size);

/* The number behind the word oom_kill at the beginning of a line, -1: none. */
int64_t oom_read(const char *text);

#endif
