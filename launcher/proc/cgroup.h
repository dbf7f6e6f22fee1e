/*
 * launcher/proc/cgroup: a cgroup (version 2) of this launch's own, if one can
 * be made. The workers and all their descendants live there, also processes
 * that left the session and the parents that they had. One write kills them
 * all. If no cgroup can be made (no cgroup2 mount, no right to write below our
 * own group, Linux before 5.14) everything works without.
 */
#ifndef LAUNCHER_PROC_CGROUP_H
#define LAUNCHER_PROC_CGROUP_H

#include <stdbool.h>

/*
 * Makes it, below the one that this process is in. Before guard_split, in whose
 * processes it is then known. Returns whether there is one.
 */
bool cgroup_make(void);

/* Removes those beside it that are of launches that are no more and in which,
 * and below which, nothing lives. It takes the longer the more groups there
 * are, so no start waits for it. */
void cgroup_sweep(void);

/* The folder's descriptor, for CLONE_INTO_CGROUP; -1: there is none. */
int cgroup_fd(void);

/*
 * SIGKILL to all that is in it, at the very end: Linux 6.14 and later kill
 * whatever is put into a group by CLONE_INTO_CGROUP after that.
 */
void cgroup_kill(void);

/* At the very end: kills, and removes it and the groups below it. */
void cgroup_remove(void);

#endif
