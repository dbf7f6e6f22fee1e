#include "launcher/worker/pipe_probe.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

int64_t pipe_probe(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    struct stat st;
    int n = 0;
    if (poll(&p, 1, 0) != 0 || fstat(fd, &st) != 0)
        return -1;
    /* FIONREAD of a terminal or a socket is what comes from its other side. */
    if (ioctl(fd, S_ISFIFO(st.st_mode) ? FIONREAD : TIOCOUTQ, &n) != 0)
        return 0;
    return n;
}
