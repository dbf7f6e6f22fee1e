/*
 * launcher/proc/signals: names of signals, and sets of them: bit n-1 is signal
 * n.
 */
#ifndef LAUNCHER_PROC_SIGNALS_H
#define LAUNCHER_PROC_SIGNALS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define SIGNALS_BIT(signo) (UINT64_C(1) << ((signo)-1))

/* What torchrun handles when nothing is said. */
#define SIGNALS_USUAL                                                          \
    (SIGNALS_BIT(SIGTERM) | SIGNALS_BIT(SIGINT) | SIGNALS_BIT(SIGHUP) |        \
     SIGNALS_BIT(SIGQUIT))

/* "SIGTERM"; "SIG?" where the number has no name. Valid until the next call. */
const char *signals_name(int signo);

/*
 * Reads a list of names with commas, "SIGUSR1" or "usr1". What is none, or of a
 * signal that a launcher cannot take, is left out and written to `odd`, with
 * commas, cut where it is too long ("" where there is none). It cannot take
 * what cannot be caught (KILL, STOP), tells of a fault of its own (SEGV), or is
 * needed (CHLD, PIPE, and those of job control).
 */
uint64_t signals_read(const char *list, char *odd, size_t cap);

#endif
