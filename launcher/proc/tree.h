/*
 * launcher/proc/tree: the descendants of this process, however far down. Guard
 * and agent are child subreapers: a process that a worker left behind
 * (double-forked, in a session of its own) becomes a child of one of them, and
 * is found there.
 *
 * Nothing is signalled because of its number alone. A child of ours keeps its
 * number until we reap it, so waitid(2) proves it. Any other descendant is held
 * by a pidfd, and has to be a descendant after that still. Without pidfds
 * (Linux before 5.3), or without a /proc of this pid namespace, only children
 * are signalled: when they are dead, theirs are ours, and so on until none is
 * left. Without that /proc numbers near our own and near the newest one are
 * asked for, and all that there are only where it is said below.
 */
#ifndef LAUNCHER_PROC_TREE_H
#define LAUNCHER_PROC_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Kills every descendant of this process but those in keep[0..n_keep), those in
 * `session` (-1: none), and what is below them, with SIGKILL, and reaps those
 * that become our children, again and again until none is left or `until_us`
 * (mono) has passed; or, at once, until only those are left that we may not
 * signal (another user's). Returns how many were seen alive at the last look: 0
 * when all are gone. With `all` that is certain, also if /proc is not ours; it
 * may take seconds then. Does not touch children in `keep`. It takes the exit
 * status of every other child, so no other code may wait for one of these.
 */
int tree_kill(
    const pid_t *keep, int n_keep, pid_t session, bool all, int64_t until_us);

/*
 * Asks every descendant but those that tree_kill would spare to end: SIGTERM,
 * and SIGCONT, since a stopped one would not hear it. Reaps those that are our
 * children and dead. Whoever was asked is not asked again until a call with
 * `anew`, which begins a new list. Returns how many are left; 1 also if that
 * cannot be seen.
 */
int tree_ask(const pid_t *keep, int n_keep, pid_t session, bool anew);

enum {
    TREE_NOT_FOUND = -1, /* /proc is not ours, or no descriptor is free, or one
                            lives on that was not proven */
    TREE_FORBIDDEN = -2, /* only some are left that we may not signal */
};

/*
 * Kills, as the guard does for a frozen agent, every descendant of `root`, a
 * child of ours, that is not in root's own process group: workers and what came
 * of them, but no helper of the agent's. They remain zombies until `root` reaps
 * them. Again and again until none lives or `until_us` has passed; returns how
 * many were killed, or why some live on (above). Without pidfds `root` is
 * stopped meanwhile, and what its helpers started is spared.
 */
int tree_kill_groups(pid_t root, int64_t until_us);

/*
 * Fills in our children, at most `max`, and returns how many: before we start
 * any, those of the program that became this one by execve(2). pids[0..n) are
 * those that are known already. Without a /proc of ours one with a number far
 * from others' may be missing, if it is not found before `until_us` (mono).
 */
int tree_children(pid_t *pids, int n, int max, int64_t until_us);

#endif
