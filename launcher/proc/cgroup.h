/*
 * launcher/proc/cgroup: a cgroup (version 2) of this launch's own, where one
 * can be made: the workers and all that comes of them live in it, whatever they
 * do to get away, and one write ends them. Where none can be made (no cgroup2
 * mount, none below ours that we may write to, Linux before 5.14) everything
 * works without.
 *
 * A janitor, a process of its own that nobody knows, waits for the end of guard
 * and agent: should both be killed at once, it ends what they leave behind.
 */
#ifndef LAUNCHER_PROC_CGROUP_H
#define LAUNCHER_PROC_CGROUP_H

#include <stdbool.h>

/*
 * Makes it, below the one that this process is in, and starts the janitor;
 * empty ones there of launches that are no more are removed.
 * Before guard_split, in whose two processes it is then known. Returns whether
 * there is one.
 */
bool cgroup_make(void);

/* The folder's descriptor, for CLONE_INTO_CGROUP; -1: there is none. */
int cgroup_fd(void);

/*
 * SIGKILL to all that is in it, at the very end: Linux 6.14 and later kill
 * whatever is put into a group by CLONE_INTO_CGROUP after that.
 */
void cgroup_kill(void);

/* The guard's last act but one: kills, and removes it. */
void cgroup_remove(void);

#endif
