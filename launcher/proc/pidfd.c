#include "launcher/proc/pidfd.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

/* The same numbers on every architecture that Linux 5.3 and later run on. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int pidfd_of(pid_t pid)
{
    ddp_assert(pid > 0);
    return (int)syscall(SYS_pidfd_open, pid, 0u);
}

bool pidfd_signal(int pidfd, int signo)
{
    ddp_assert(pidfd >= 0);
    return syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0u) == 0;
}

bool pidfd_works(void)
{
    static enum {
        UNKNOWN,
        WORKS,
        FAILS
    } known = UNKNOWN;
    if (known != UNKNOWN)
        return known == WORKS;
    int fd = pidfd_of(getpid());
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return false;
    known = fd >= 0 && pidfd_signal(fd, 0) ? WORKS : FAILS;
    if (fd >= 0)
        (void)close(fd); /* of ourselves */
    return known == WORKS;
}
