#include "launcher/mpi/channel.h"

#include <errno.h>
#include <sys/socket.h>

int channel_send(int fd, struct buf *out)
{
    while (buf_len(out) > 0) {
        ssize_t n =
            send(fd, buf_head(out), buf_len(out), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : errno;
        buf_take(out, (size_t)n);
    }
    return 0;
}

int channel_read(int fd, struct buf *in, size_t room)
{
    uint8_t *at = buf_reserve(in, room);
    ssize_t n;
    if (at == NULL)
        return ENOMEM;
    do
        n = recv(fd, at, room, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? errno : EPIPE;
    buf_commit(in, (size_t)n);
    return 0;
}
