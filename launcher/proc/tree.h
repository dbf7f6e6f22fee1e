/*
 * launcher/proc/tree: the descendants of this process, however far down. Guard
 * and agent are child subreapers: a process that a worker left behind
 * (double-forked, in a session of its own) becomes a child of one of them, and
 * is found there. Only descendants are ever signalled.
 */
#ifndef LAUNCHER_PROC_TREE_H
#define LAUNCHER_PROC_TREE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Kills every descendant of this process but those in keep[0..n_keep) (and
 * what is below them) with SIGKILL and reaps those that become our children,
 * again and again until none is left or `until_us` (mono) has passed. Returns
 * how many were seen alive at the last look: 0 when all are gone. Does not
 * touch children in `keep`. It takes the exit status of every other child, so
 * no other code may wait for one of these.
 */
int tree_kill(const pid_t *keep, int n_keep, int64_t until_us);

/*
 * Sends `signo` (0: none) once to every descendant but those in keep and what
 * is below them, and reaps those that are our children and dead. Returns how
 * many are left; 1 also if that cannot be seen (out of descriptors).
 */
int tree_signal(const pid_t *keep, int n_keep, int signo);

/*
 * Kills, as the guard does for a frozen agent, every descendant of `root` that
 * is not in root's own session: workers and what came of them, but no helper
 * of the agent's. They remain zombies until `root` reaps them. Again and again
 * until none lives or `until_us` has passed; returns how many were killed.
 */
int tree_kill_sessions(pid_t root, int64_t until_us);

#endif
