/*
 * launcher/proc/pidfd: descriptors of processes. A number may belong to another
 * process by the time that it is used; a descriptor never does. The calls are
 * made by number, since older C libraries have no functions for them.
 */
#ifndef LAUNCHER_PROC_PIDFD_H
#define LAUNCHER_PROC_PIDFD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A descriptor of the process (close-on-exec, the caller's). -1 with errno:
 * ESRCH, there is no such process; EMFILE, ENFILE: no descriptor is free;
 * anything else: there are none here (Linux before 5.3, a sandbox).
 */
int pidfd_of(pid_t pid);

/* Sends a signal (0: none) to that process. False with errno: ESRCH, it was
 * reaped. */
bool pidfd_signal(int pidfd, int signo);

/* Whether both calls work here. Found out once; false, and to be asked again,
 * if no descriptor is free. */
bool pidfd_works(void);

#endif
