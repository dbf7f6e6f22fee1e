/*
 * launcher/proc/signals: sets of signals, as a user names them: bit n-1 is
 * signal n.
 */
#ifndef LAUNCHER_PROC_SIGNALS_H
#define LAUNCHER_PROC_SIGNALS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/signals_name.h"

#define SIGNALS_BIT(signo) (UINT64_C(1) << ((signo)-1))

/* What torchrun handles when nothing is said. */
#define SIGNALS_USUAL                                                          \
    (SIGNALS_BIT(SIGTERM) | SIGNALS_BIT(SIGINT) | SIGNALS_BIT(SIGHUP) |        \
     SIGNALS_BIT(SIGQUIT))

/* What a launcher ignores, unless it is to take it: a write to what nobody
 * reads fails, and so does one beyond `ulimit -f`. Its workers do not. */
#define SIGNALS_IGNORED (SIGNALS_BIT(SIGPIPE) | SIGNALS_BIT(SIGXFSZ))

/*
 * Reads a list of names with commas, "SIGUSR1" or "usr1". A word that is no
 * name, or names a signal that a launcher cannot take, is left out of the set
 * and written to `odd`, with commas; words that do not fit are left out there,
 * too. A launcher cannot take a signal that cannot be caught (SIGKILL,
 * SIGSTOP), tells of a fault of its own (SIGSEGV), or is needed (SIGCHLD,
 * SIGPIPE, and those of job control).
 */
uint64_t signals_read(const char *list, char *odd, size_t cap);

#endif
