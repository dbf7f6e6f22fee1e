#include "launcher/proc/pidfd.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* on every machine; older headers have no name */
#endif

/* Linux sets close-on-exec on every pidfd. */
int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* A kernel without it says ENOSYS; EPERM and EINVAL come from sandboxes. Any
 * other error is one of this moment, such as EMFILE. */
static bool try_self(void)
{
    int fd = pidfd_of(getpid());
    if (fd < 0)
        return errno != ENOSYS && errno != EPERM && errno != EINVAL;
    (void)close(fd); /* was only tried */
    return true;
}

bool pidfd_works(void)
{
    static enum {
        UNKNOWN,
        WORKS,
        MISSING
    } answer = UNKNOWN;
    if (answer == UNKNOWN)
        answer = try_self() ? WORKS : MISSING;
    return answer == WORKS;
}
