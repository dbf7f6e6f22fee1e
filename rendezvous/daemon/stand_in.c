/*
 * Happy path: the daemon cannot bind its port, connects to the holder's socket,
 * and waits; the holder gives its nodes their last leases, ends, and with it
 * its end of the connection; the daemon binds.
 *
 * Failure modes: nobody listens there: the port is another program's. Another
 * user does, who may have made the name up: the wait is bounded.
 */
#include "rendezvous/daemon/stand_in.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

/* An abstract name: it begins with a NUL, and goes with its socket. */
static socklen_t name_of(int port, struct sockaddr_un *un)
{
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
                     "ddprun-stand-in-%d", port);
    ddp_assert(n > 0 && (size_t)n < sizeof(un->sun_path) - 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int stand_in_listen(int port)
{
    struct sockaddr_un un;
    socklen_t len = name_of(port, &un);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&un, len) != 0 ||
                    listen(fd, 4) != 0)) {
        (void)close(fd); /* it was not in use */
        fd = -1;
    }
    return fd;
}

bool stand_in_is_asked(int fd)
{
    struct ucred peer = {.pid = 0};
    socklen_t len = sizeof(peer);
    int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    if (c < 0)
        return false;
    bool may = getsockopt(c, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
               (peer.uid == geteuid() || peer.uid == 0);
    if (!may)
        (void)close(c); /* else its end says that we are gone */
    return may;
}

bool stand_in_ask(int port, int wait_ms)
{
    struct sockaddr_un un;
    socklen_t len = name_of(port, &un);
    struct pollfd p = {.events = POLLIN};
    p.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p.fd < 0)
        return false;
    bool asked = connect(p.fd, (const struct sockaddr *)&un, len) == 0;
    bool gone = asked && poll(&p, 1, wait_ms) > 0;
    (void)close(p.fd); /* nothing was sent */
    return gone;
}
