/*
 * launcher/proc/pidfd: descriptors of processes, if the kernel has them
 * (Linux 5.3) and lets us use them: sandboxes answer EPERM.
 */
#ifndef LAUNCHER_PROC_PIDFD_H
#define LAUNCHER_PROC_PIDFD_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether pidfd_of() can work. The first call tries it with our own process;
 * the answer stays the same from then on. */
bool pidfd_works(void);

/* A descriptor of the process, close-on-exec: readable when it has ended. The
 * caller closes it. -1: errno says why (ESRCH: no such process). */
int pidfd_of(pid_t pid);

#endif
