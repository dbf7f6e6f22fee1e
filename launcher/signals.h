/*
 * launcher/signals: names of signals, and sets of them: bit n-1 is signal n.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define SIGNALS_BIT(signo) (UINT64_C(1) << ((signo)-1))

/* What torchrun handles when nothing is said. */
#define SIGNALS_USUAL                                                          \
    (SIGNALS_BIT(SIGTERM) | SIGNALS_BIT(SIGINT) | SIGNALS_BIT(SIGHUP) |        \
     SIGNALS_BIT(SIGQUIT))

/*
 * The signal with this name, "SIGUSR1" or "usr1"; 0 where there is none, or
 * where a launcher cannot take it: it cannot be caught (KILL, STOP), tells of
 * a fault of its own (SEGV), or is needed (CHLD, PIPE, and those of job
 * control).
 */
int signals_find(const char *name);

/* "SIGTERM"; "SIG?" where the number has no name. Valid until the next call. */
const char *signals_name(int signo);

/*
 * Reads a list with commas. What is no name is left out and written to `odd`,
 * with commas, cut where it is too long ("" where there is none).
 */
uint64_t signals_read(const char *list, char *odd, size_t cap);

#endif
