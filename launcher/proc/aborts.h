/*
 * launcher/proc/aborts: libuv calls abort(3) if the kernel has no memory or no
 * descriptor for its loop. That is no bug, so the process ends with a reason
 * and the status of DDP_E_NOMEM instead of a signal.
 */
#ifndef LAUNCHER_PROC_ABORTS_H
#define LAUNCHER_PROC_ABORTS_H

/* Takes SIGABRT. An abort while errno tells of no shortage, that of ddp_assert,
 * and a signal that somebody sends do what they did before. A process of ours
 * that is forked later has to give the signal back (helper_start does). */
void aborts_explain(void);

#endif
