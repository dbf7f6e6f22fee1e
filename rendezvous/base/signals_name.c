#include "rendezvous/base/signals_name.h"

#include <signal.h>
#include <stddef.h>

#define NAME(signal) [signal] = #signal

static const char *const names[] = {
    NAME(SIGHUP),  NAME(SIGINT),    NAME(SIGQUIT), NAME(SIGILL),
    NAME(SIGTRAP), NAME(SIGABRT),   NAME(SIGBUS),  NAME(SIGFPE),
    NAME(SIGKILL), NAME(SIGUSR1),   NAME(SIGSEGV), NAME(SIGUSR2),
    NAME(SIGPIPE), NAME(SIGALRM),   NAME(SIGTERM), NAME(SIGSTKFLT),
    NAME(SIGCHLD), NAME(SIGCONT),   NAME(SIGSTOP), NAME(SIGTSTP),
    NAME(SIGTTIN), NAME(SIGTTOU),   NAME(SIGURG),  NAME(SIGXCPU),
    NAME(SIGXFSZ), NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH),
    NAME(SIGIO),   NAME(SIGPWR),    NAME(SIGSYS),
};

/* signal(7): the first real-time signal is the C library's to say, since it
 * keeps two or three for itself. */
static const char *const realtime[] = {
    "SIGRTMIN",    "SIGRTMIN+1",  "SIGRTMIN+2",  "SIGRTMIN+3",  "SIGRTMIN+4",
    "SIGRTMIN+5",  "SIGRTMIN+6",  "SIGRTMIN+7",  "SIGRTMIN+8",  "SIGRTMIN+9",
    "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14",
    "SIGRTMIN+15", "SIGRTMIN+16", "SIGRTMIN+17", "SIGRTMIN+18", "SIGRTMIN+19",
    "SIGRTMIN+20", "SIGRTMIN+21", "SIGRTMIN+22", "SIGRTMIN+23", "SIGRTMIN+24",
    "SIGRTMIN+25", "SIGRTMIN+26", "SIGRTMIN+27", "SIGRTMIN+28", "SIGRTMIN+29",
    "SIGRTMIN+30",
};

#define LEN(array) ((int)(sizeof(array) / sizeof((array)[0])))

_Static_assert(sizeof(names) / sizeof(names[0]) == 32, "signals 1 to 31");

const char *signals_name(int signo)
{
    int real = signo - SIGRTMIN;
    if (real >= 0 && real < LEN(realtime) && signo <= SIGRTMAX)
        return realtime[real];
    if (signo > 0 && signo < LEN(names) && names[signo] != NULL)
        return names[signo];
    return "SIG?";
}
