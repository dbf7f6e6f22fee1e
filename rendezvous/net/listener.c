#include "rendezvous/net/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTENER_MAGIC 0x646f6f72u
#define BACKLOG        4096
#define REST_MS        100

struct listener {
    unsigned magic;
    uv_poll_t poll;
    uv_timer_t rest;
    int fd;
    const struct listener_handler *handler;
    void *ctx;
    bool closing;
    int open_handles;
};

static struct listener *listener_of(void *data)
{
    struct listener *d = data;
    ddp_assert(d->magic == LISTENER_MAGIC);
    return d;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static int begin(struct listener *d)
{
    return uv_poll_start(&d->poll, UV_READABLE, on_poll);
}

static void on_rested(uv_timer_t *timer)
{
    (void)begin(listener_of(timer->data)); /* it did before */
}

static void on_stuck(struct listener *d, int error)
{
    if (d->handler->on_stuck != NULL &&
        d->handler->on_stuck(d->ctx, strerror(error)))
        return; /* it goes on in the next turn */
    (void)uv_poll_stop(&d->poll);
    (void)uv_timer_start(&d->rest, on_rested, REST_MS, 0);
}

/* What concerns the one alone that would have come: it is gone again, or the
 * network or a firewall keeps it out (accept(2)). */
static bool is_its_own(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPERM ||
           error == EPROTO || error == ENETDOWN || error == ENETUNREACH ||
           error == EHOSTDOWN || error == EHOSTUNREACH || error == ENONET ||
           error == ENOPROTOOPT || error == EOPNOTSUPP;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *d = listener_of(poll->data);
    (void)status;
    (void)events;
    for (int i = 0; i < LISTENER_PER_TURN && !d->closing; i++) {
        int fd = accept4(d->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            d->handler->on_fd(d->ctx, fd);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (!is_its_own(errno)) {
            on_stuck(d, errno);
            return;
        }
    }
}

static void on_handle_closed(uv_handle_t *h)
{
    struct listener *d = listener_of(h->data);
    if (--d->open_handles > 0)
        return;
    (void)close(d->fd); /* nothing to lose */
    d->magic = 0;
    free(d);
}

int listener_open(struct listener **out,
                  uv_loop_t *loop,
                  int fd,
                  const struct listener_handler *handler,
                  void *ctx,
                  struct ddp_err *err)
{
    struct listener *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        (void)close(fd);
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a listener");
    }
    *d = (struct listener){
        .magic = LISTENER_MAGIC, .fd = fd, .handler = handler, .ctx = ctx};
    d->poll.data = d->rest.data = d;
    int rc = listen(fd, BACKLOG) != 0 ? uv_translate_sys_error(errno)
                                      : uv_poll_init(loop, &d->poll, fd);
    if (rc != 0) {
        (void)close(fd);
        free(d);
        return ddp_err_set(err, DDP_E_IO, "cannot listen: %s", uv_strerror(rc));
    }
    (void)uv_timer_init(loop, &d->rest); /* cannot fail */
    d->open_handles = 2;
    rc = begin(d);
    if (rc != 0) {
        listener_close(d);
        return ddp_err_set(err, DDP_E_IO, "cannot listen: %s", uv_strerror(rc));
    }
    *out = d;
    return 0;
}

void listener_close(struct listener *d)
{
    if (d->closing)
        return;
    d->closing = true;
    uv_close((uv_handle_t *)&d->poll, on_handle_closed);
    uv_close((uv_handle_t *)&d->rest, on_handle_closed);
}
