/*
 * Happy path: the message fits into the channel at once (try_one).
 *
 * Failure modes: a full channel makes connections wait in a ring until on_room;
 * a taker that is gone, or any other error, closes the connection, which its
 * peer sees.
 */
#include "rendezvous/net/fd_pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GIVER_MAGIC 0x67697665u
#define TAG         'h' /* an empty message would look like the end */

struct parcel {
    int fd;
    struct buf rest;
};

struct giver {
    unsigned magic;
    int chan;
    uv_poll_t poll; /* active while something waits */
    struct parcel waiting[FD_PASS_WAITING_MAX]; /* a ring */
    unsigned first;
    unsigned n;
};

static struct giver *giver_of(void *data)
{
    struct giver *g = data;
    ddp_assert(g->magic == GIVER_MAGIC);
    ddp_assert(g->first < FD_PASS_WAITING_MAX && g->n <= FD_PASS_WAITING_MAX);
    return g;
}

int fd_pass_pair(int *give, int *take, struct ddp_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) != 0)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot make a socket pair to pass connections on");
    *give = pair[0];
    *take = pair[1];
    return 0;
}

int fd_pass_give(int chan, int fd, const uint8_t *data, size_t len)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    union {
        const uint8_t *in;
        void *out;
    } rest = {.in = data}; /* sendmsg does not write to it */
    char tag = TAG;
    struct iovec iov[2] = {
        {.iov_base = &tag, .iov_len = 1},
        {.iov_base = rest.out, .iov_len = len},
    };
    struct msghdr m = {.msg_iov = iov,
                       .msg_iovlen = 2,
                       .msg_control = control.room,
                       .msg_controllen = sizeof(control.room)};
    memset(&control, 0, sizeof(control));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    return sendmsg(chan, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static void parcel_free(struct parcel *p)
{
    (void)close(p->fd); /* given, or given up */
    buf_free(&p->rest);
}

/* True: it was given or is given up, and is free now. */
static bool try_one(struct giver *g, struct parcel *p)
{
    const uint8_t *data = buf_head(&p->rest);
    if (fd_pass_give(g->chan, p->fd, data, buf_len(&p->rest)) != 0 &&
        (errno == EAGAIN || errno == EINTR))
        return false;
    parcel_free(p);
    return true;
}

static void on_room(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct giver *g = giver_of(poll->data);
    while (g->n > 0 && try_one(g, &g->waiting[g->first])) {
        g->first = (g->first + 1) % FD_PASS_WAITING_MAX;
        g->n--;
    }
    if (g->n == 0)
        (void)uv_poll_stop(&g->poll);
}

int giver_open(struct giver **out,
               uv_loop_t *loop,
               int chan,
               struct ddp_err *err)
{
    struct giver *g = calloc(1, sizeof(*g));
    if (g == NULL || uv_poll_init(loop, &g->poll, chan) != 0) {
        free(g);
        (void)close(chan); /* nothing was sent on it */
        return ddp_err_set(err, DDP_E_NOMEM,
                           "cannot pass connections to another process");
    }
    g->magic = GIVER_MAGIC;
    g->chan = chan;
    g->poll.data = g;
    *out = g;
    return 0;
}

int giver_give(struct giver *g, int fd, struct buf *rest)
{
    ddp_assert(g->magic == GIVER_MAGIC);
    struct parcel p = {.fd = fd, .rest = *rest};
    *rest = (struct buf){.max = rest->max};
    if (buf_len(&p.rest) > FD_PASS_BYTES_MAX || g->n == FD_PASS_WAITING_MAX) {
        parcel_free(&p);
        return -1;
    }
    if (g->n == 0 && try_one(g, &p))
        return 0;
    g->waiting[(g->first + g->n++) % FD_PASS_WAITING_MAX] = p;
    if (!uv_is_active((uv_handle_t *)&g->poll))
        (void)uv_poll_start(&g->poll, UV_WRITABLE, on_room);
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct giver *g = giver_of(h->data);
    ddp_assert(g->n == 0);
    (void)close(g->chan); /* libuv is done with it */
    g->magic = 0;
    free(g);
}

void giver_close(struct giver *g)
{
    ddp_assert(g->magic == GIVER_MAGIC);
    for (; g->n > 0; g->n--, g->first = (g->first + 1) % FD_PASS_WAITING_MAX)
        parcel_free(&g->waiting[g->first]);
    uv_close((uv_handle_t *)&g->poll, on_closed);
}

/* -- taking ---------------------------------------------------------------- */

static int fd_of(struct msghdr *m)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    int fd = -1;
    if (c != NULL && c->cmsg_level == SOL_SOCKET &&
        c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    return fd;
}

int fd_pass_take(int chan,
                 int *fd,
                 uint8_t data[FD_PASS_BYTES_MAX],
                 size_t *len)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char tag = 0;
    struct iovec iov[2] = {
        {.iov_base = &tag, .iov_len = 1},
        {.iov_base = data, .iov_len = FD_PASS_BYTES_MAX},
    };
    struct msghdr m = {.msg_iov = iov,
                       .msg_iovlen = 2,
                       .msg_control = control.room,
                       .msg_controllen = sizeof(control.room)};
    ssize_t n;
    do
        n = recvmsg(chan, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 && errno == EAGAIN ? 0 : -1;
    ddp_assert(tag == TAG);
    *len = (size_t)n - 1;
    *fd = fd_of(&m);
    return 1;
}
