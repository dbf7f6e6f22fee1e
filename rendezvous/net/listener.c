/*
 * Happy path: on_poll accepts, and the owner gets each descriptor.
 *
 * Failure modes: an error of a single connection is skipped; any other error,
 * mostly EMFILE, pauses the listener (on_stuck). uv_poll is level-triggered:
 * what was not accepted in one turn is reported again in the next.
 */
#include "rendezvous/net/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTENER_MAGIC 0x6c73746eu
#define BACKLOG        4096
#define PAUSE_MS       100

struct listener {
    unsigned magic;
    uv_poll_t poll;
    uv_timer_t pause;
    int fd;
    const struct listener_handler *handler;
    void *ctx;
    bool closing;
    int open_handles;
};

static struct listener *listener_of(void *data)
{
    struct listener *l = data;
    ddp_assert(l->magic == LISTENER_MAGIC);
    return l;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static int begin(struct listener *l)
{
    return uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

static void on_paused(uv_timer_t *timer)
{
    (void)begin(listener_of(timer->data)); /* it worked before */
}

static void on_stuck(struct listener *l, int error)
{
    if (l->handler->on_stuck != NULL &&
        l->handler->on_stuck(l->ctx, strerror(error)))
        return; /* it goes on in the next turn */
    (void)uv_poll_stop(&l->poll);
    (void)uv_timer_start(&l->pause, on_paused, PAUSE_MS, 0);
}

/* Errors of one connection, not of the socket: it is gone again, or the network
 * or a firewall refuses it (accept(2)). */
static bool is_of_one_connection(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPERM ||
           error == EPROTO || error == ENETDOWN || error == ENETUNREACH ||
           error == EHOSTDOWN || error == EHOSTUNREACH || error == ENONET ||
           error == ENOPROTOOPT || error == EOPNOTSUPP;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *l = listener_of(poll->data);
    (void)status;
    (void)events;
    for (int i = 0; i < LISTENER_PER_TURN && !l->closing; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            l->handler->on_fd(l->ctx, fd);
            continue;
        }
        if (errno == EAGAIN)
            return; /* no more are there */
        if (!is_of_one_connection(errno)) {
            on_stuck(l, errno);
            return;
        }
    }
}

static void on_handle_closed(uv_handle_t *h)
{
    struct listener *l = listener_of(h->data);
    if (--l->open_handles > 0)
        return;
    (void)close(l->fd); /* nothing to lose */
    l->magic = 0;
    free(l);
}

int listener_open(struct listener **out,
                  uv_loop_t *loop,
                  int fd,
                  const struct listener_handler *handler,
                  void *ctx,
                  struct ddp_err *err)
{
    struct listener *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        (void)close(fd);
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for a listening socket");
    }
    *l = (struct listener){
        .magic = LISTENER_MAGIC, .fd = fd, .handler = handler, .ctx = ctx};
    l->poll.data = l->pause.data = l;
    int rc = listen(fd, BACKLOG) != 0 ? uv_translate_sys_error(errno)
                                      : uv_poll_init(loop, &l->poll, fd);
    if (rc != 0) {
        (void)close(fd);
        free(l);
        return ddp_err_set(err, DDP_E_IO, "cannot listen for connections: %s",
                           uv_strerror(rc));
    }
    (void)uv_timer_init(loop, &l->pause); /* cannot fail */
    l->open_handles = 2;
    rc = begin(l);
    if (rc != 0) {
        listener_close(l);
        return ddp_err_set(err, DDP_E_IO, "cannot listen for connections: %s",
                           uv_strerror(rc));
    }
    *out = l;
    return 0;
}

void listener_close(struct listener *l)
{
    if (l->closing)
        return;
    l->closing = true;
    uv_close((uv_handle_t *)&l->poll, on_handle_closed);
    uv_close((uv_handle_t *)&l->pause, on_handle_closed);
}
