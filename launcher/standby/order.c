/*
 * The order itself is a file, so that no length of an environment is too much
 * for a socket's buffer and the launcher never waits to be read. It is written
 * through stdio, whose errors are one condition at the end.
 */
#include "launcher/standby/order.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* A stream on a new file in memory, which has *fd as well. */
static FILE *open_file(int *fd, unsigned flags)
{
    *fd = memfd_create("ddprun-standby", flags);
    int copy = *fd >= 0 ? dup(*fd) : -1;
    FILE *f = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (f == NULL && copy >= 0)
        (void)close(copy); /* nothing was written */
    return f;
}

static int finish_file(FILE *f, int fd)
{
    bool bad = f == NULL || ferror(f) != 0;
    if (f != NULL && fclose(f) != 0)
        bad = true;
    if (!bad)
        return fd;
    if (fd >= 0)
        (void)close(fd); /* not whole */
    return -1;
}

int order_file(const void *data, size_t len, unsigned flags)
{
    int fd;
    FILE *f = open_file(&fd, flags);
    if (f != NULL)
        (void)fwrite(data, 1, len, f); /* finish_file tells */
    return finish_file(f, fd);
}

static void put_all(FILE *f, char *const *words)
{
    for (; *words != NULL; words++)
        (void)fwrite(*words, 1, strlen(*words) + 1, f);
}

int order_write(const struct spawn_request *req)
{
    char cpus[CPUS_MAX * 5 / 2] = ""; /* "0,2,4094" */
    int fd, argc = 0;
    FILE *f = open_file(&fd, MFD_CLOEXEC);
    if (req->cpus != NULL)
        (void)cpus_format(req->cpus, cpus, sizeof(cpus)); /* fits */
    while (req->argv[argc] != NULL)
        argc++;
    if (f != NULL) {
        (void)fprintf(f, "%d%c%s%c%d%c", req->watched, '\0', cpus, '\0', argc,
                      '\0');
        put_all(f, req->argv);
        put_all(f, req->envp);
    }
    return finish_file(f, fd);
}

int order_pair(int pair[2])
{
    int on = 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    if (setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0)
        return 0;
    (void)close(pair[0]);
    (void)close(pair[1]);
    return -1;
}

int order_send(int chan, char byte, const int *fds, int n)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(ORDER_FDS * sizeof(int))];
    } control = {.room = {0}};
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room};
    ddp_assert(n >= 1 && n <= ORDER_FDS);
    msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(head), fds, (size_t)n * sizeof(int));
    ssize_t sent;
    while ((sent = sendmsg(chan, &msg, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 &&
           errno == EINTR)
        ;
    return sent == 1 ? 0 : -1;
}

ssize_t order_receive(int chan, char *text, size_t cap, pid_t *sender)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec iov = {.iov_base = text, .iov_len = cap};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof(control.room)};
    ssize_t n;
    *sender = 0;
    while ((n = recvmsg(chan, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 &&
           errno == EINTR)
        ;
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET &&
        head->cmsg_type == SCM_CREDENTIALS) {
        struct ucred who;
        memcpy(&who, CMSG_DATA(head), sizeof(who));
        *sender = who.pid;
    }
    return n;
}
