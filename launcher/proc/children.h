/*
 * launcher/proc/children: which of this process's children have ended, in the
 * order in which they did. What comes is a hint; wait(2) has the truth.
 */
#ifndef LAUNCHER_PROC_CHILDREN_H
#define LAUNCHER_PROC_CHILDREN_H

#include <sys/types.h>

/* Takes SIGCHLD. Returns a descriptor that is readable after a child has ended,
 * and stays ours; -1: errno says why. To be called once. */
int children_watch(void);

/*
 * The next child that has ended; 0: no more for now. May also name a child that
 * lives, one that was reaped, or a stranger (who sent SIGCHLD). Ends that come
 * while one is pending are not told; a caller looks for those with waitid(2)
 * after the last hint. So the first of several is always right.
 */
pid_t children_next(void);

#endif
