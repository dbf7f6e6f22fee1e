#include "launcher/front/again.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

#define STREAMS 3
#define WAIT_S  5 /* for the other half to do its part */

bool again_read_line(const char *line, char mark[ORDERS_MARK_LEN + 1])
{
    size_t len = strlen(AGAIN_WORD);
    if (strncmp(line, AGAIN_WORD, len) != 0 ||
        strlen(line + len) != ORDERS_MARK_LEN ||
        strspn(line + len, "0123456789abcdef") != ORDERS_MARK_LEN)
        return false;
    memcpy(mark, line + len, ORDERS_MARK_LEN + 1);
    return true;
}

/* A zero byte in front: it is no file, and is gone with its process. */
static socklen_t name_of(struct sockaddr_un *addr, const char *mark)
{
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1,
                     "ddprun-front-%.32s", mark); /* fits */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static void limit_waits(int fd)
{
    struct timeval most = {.tv_sec = WAIT_S};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
}

int again_listen(const char *mark)
{
    struct sockaddr_un addr;
    socklen_t len = name_of(&addr, mark);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (const struct sockaddr *)&addr, len) == 0 &&
        listen(fd, 4) == 0)
        return fd;
    (void)close(fd); /* errno is that of bind or listen, or close's own */
    return -1;
}

/* -- the proxy's half ------------------------------------------------------ */

static bool is_own_user(int fd)
{
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t len = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           who.uid == geteuid();
}

/* How many descriptors came; they are to be closed. */
static int receive(int fd, int streams[STREAMS])
{
    char byte, room[CMSG_SPACE(STREAMS * sizeof(int))];
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = room,
                       .msg_controllen = sizeof(room)};
    if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != 1)
        return 0;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c == NULL || c->cmsg_level != SOL_SOCKET ||
        c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(sizeof(int)))
        return 0;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    n = n < STREAMS ? n : STREAMS;
    memcpy(streams, CMSG_DATA(c), n * sizeof(int));
    return (int)n;
}

static bool replace(int fd)
{
    int streams[STREAMS];
    int n = receive(fd, streams);
    bool all = n == STREAMS;
    for (int i = 0; i < n; i++) {
        all = all && dup2(streams[i], i) == i;
        (void)close(streams[i]); /* has its place */
    }
    return all;
}

int again_take(int socket)
{
    int fd = accept4(socket, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -1;
    limit_waits(fd);
    if (is_own_user(fd) && replace(fd))
        return fd;
    (void)close(fd); /* it came in vain */
    return -1;
}

/* -- the other half -------------------------------------------------------- */

static bool send_streams(int fd)
{
    static const int streams[STREAMS] = {STDIN_FILENO, STDOUT_FILENO,
                                         STDERR_FILENO};
    char byte = 0, room[CMSG_SPACE(sizeof(streams))] = {0};
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = room,
                       .msg_controllen = sizeof(room)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(streams));
    memcpy(CMSG_DATA(c), streams, sizeof(streams));
    return sendmsg(fd, &m, MSG_NOSIGNAL) == 1;
}

int again_hand_over(const char *mark)
{
    struct sockaddr_un addr;
    socklen_t len = name_of(&addr, mark);
    char byte;
    ssize_t n = -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return ddp_code_exit(DDP_E_NOMEM);
    limit_waits(fd);
    bool handed = connect(fd, (const struct sockaddr *)&addr, len) == 0 &&
                  is_own_user(fd) && send_streams(fd);
    while (handed && n < 0) { /* until the proxy's end */
        n = read(fd, &byte, 1);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            break;
    }
    (void)close(fd); /* nothing to lose */
    return handed ? 0 : ddp_code_exit(DDP_E_PEER);
}
