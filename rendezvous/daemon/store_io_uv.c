/* The way of libuv: of what a write leaves, libuv writes the rest; all is
 * flushed when the loop has polled (uv_check). */
#include "rendezvous/daemon/store_io.h"

#include <stdlib.h>
#include <unistd.h>

static char scratch[STORE_IO_READ_MAX]; /* filled and served at once */

static int prepare(struct store_io *io)
{
    int rc = uv_tcp_init(io->loop, &io->uv.listener);
    ddp_assert(rc == 0); /* without an address family it makes no socket */
    rc = uv_check_init(io->loop, &io->uv.after);
    ddp_assert(rc == 0); /* always succeeds: uv_check(3) */
    io->uv.listener.data = io->uv.after.data = io;
    io->uv.handles = 2;
    io->uv.paused = false;
    return 0;
}

static void on_own_closed(uv_handle_t *h)
{
    struct store_io *io = h->data;
    if (--io->uv.handles == 0)
        io->calls->gone(io->ctx);
}

static void uv_way_close(struct store_io *io)
{
    uv_close((uv_handle_t *)&io->uv.listener, on_own_closed);
    uv_close((uv_handle_t *)&io->uv.after, on_own_closed);
}

static void run(struct store_io *io)
{
    (void)uv_run(io->loop, UV_RUN_DEFAULT);
}

/* -- a stream -------------------------------------------------------------- */

static void init(struct store_stream *st)
{
    int rc = uv_tcp_init(st->io->loop, &st->uv.tcp);
    ddp_assert(rc == 0); /* as above */
    st->uv.tcp.data = st;
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
    struct store_stream *st = h->data;
    size_t len = 0;
    (void)hint;
    void *wanted = st->io->calls->wanted(st, &len);
    *b = wanted != NULL ? uv_buf_init(wanted, (unsigned)len)
                        : uv_buf_init(scratch, sizeof(scratch));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct store_stream *st = stream->data;
    if (n < 0)
        st->io->calls->ended(st);
    else if (n > 0)
        st->io->calls->bytes(st, (const uint8_t *)b->base, (size_t)n);
}

static int start(struct store_stream *st)
{
    (void)uv_tcp_nodelay(&st->uv.tcp, 1); /* slower without it, not wrong */
    return uv_read_start((uv_stream_t *)&st->uv.tcp, on_alloc, on_read);
}

static int adopt(struct store_stream *st, int fd)
{
    init(st);
    int rc = uv_tcp_open(&st->uv.tcp, fd);
    if (rc != 0)
        (void)close(fd); /* libuv did not take it */
    return rc == 0 ? start(st) : rc;
}

static size_t
try_write(struct store_stream *st, const uv_buf_t *bufs, unsigned count)
{
    int n = uv_try_write((uv_stream_t *)&st->uv.tcp, bufs, count);
    return n < 0 ? 0 : (size_t)n;
}

static void on_written(uv_write_t *req, int status)
{
    struct store_stream *st = req->handle->data;
    st->io->calls->written(st, status == 0);
}

static int64_t
write_out(struct store_stream *st, const uint8_t *data, size_t len)
{
    uv_stream_t *stream = (uv_stream_t *)&st->uv.tcp;
    uv_buf_t b = {.base = (char *)(uintptr_t)data, .len = len}; /* is read */
    int n = uv_try_write(stream, &b, 1);
    if (n < 0 && n != UV_EAGAIN)
        return -1;
    size_t done = n < 0 ? 0 : (size_t)n;
    b.base += done;
    b.len -= done;
    if (b.len > 0 && uv_write(&st->uv.req, stream, &b, 1, on_written) != 0)
        return -1;
    return (int64_t)done;
}

/* -- new connections ------------------------------------------------------- */

static void on_turned_away(uv_handle_t *h)
{
    free(h);
}

/* libuv listens again only when what waits was accepted, so it is accepted
 * even if only to be closed. */
static void turn_away(struct store_io *io)
{
    uv_tcp_t *tcp = calloc(1, sizeof(*tcp));
    io->uv.paused = tcp == NULL || uv_tcp_init(io->loop, tcp) != 0;
    if (io->uv.paused) {
        free(tcp);
        return;
    }
    (void)uv_accept((uv_stream_t *)&io->uv.listener, (uv_stream_t *)tcp);
    uv_close((uv_handle_t *)tcp, on_turned_away);
}

static void accept_next(struct store_io *io)
{
    struct store_stream *st = io->calls->room(io->ctx);
    if (st == NULL) {
        turn_away(io);
        return;
    }
    uv_stream_t *stream = (uv_stream_t *)&st->uv.tcp;
    io->uv.paused = false;
    init(st);
    if (uv_accept((uv_stream_t *)&io->uv.listener, stream) != 0 ||
        start(st) != 0)
        io->calls->ended(st);
    else
        io->calls->came(st);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct store_io *io = listener->data;
    if (status == 0)
        accept_next(io);
    else
        io->calls->refused(io->ctx, uv_strerror(status));
}

static void on_stream_closed(uv_handle_t *h)
{
    struct store_stream *st = h->data;
    struct store_io *io = st->io;
    bool more = io->uv.paused && !uv_is_closing((uv_handle_t *)&io->uv.after);
    io->calls->closed(st);
    if (more)
        accept_next(io);
}

static void shut(struct store_stream *st, bool reset)
{
    if (!reset || uv_tcp_close_reset(&st->uv.tcp, on_stream_closed) != 0)
        uv_close((uv_handle_t *)&st->uv.tcp, on_stream_closed);
}

/* -- the whole ------------------------------------------------------------- */

static void on_all_read(uv_check_t *h)
{
    struct store_io *io = h->data;
    io->calls->turn(io->ctx);
}

static int start_way(struct store_io *io, int listen_fd, struct ddp_err *err)
{
    int rc = uv_check_start(&io->uv.after, on_all_read);
    ddp_assert(rc == 0); /* always succeeds, too */
    if (listen_fd < 0)
        return 0;
    rc = uv_tcp_open(&io->uv.listener, listen_fd);
    if (rc != 0)
        (void)close(listen_fd); /* libuv did not take it */
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&io->uv.listener, STORE_IO_BACKLOG,
                       on_connection);
    if (rc == 0)
        return 0;
    return ddp_err_set(err, DDP_E_IO,
                       "the store cannot listen on descriptor %d: %s",
                       listen_fd, uv_strerror(rc));
}

static int peer(const struct store_stream *st, struct sockaddr_storage *sa)
{
    int len = (int)sizeof(*sa);
    return uv_tcp_getpeername(&st->uv.tcp, (struct sockaddr *)sa, &len);
}

static int name_of(const struct store_io *io, struct sockaddr_storage *sa)
{
    int len = (int)sizeof(*sa);
    return uv_tcp_getsockname(&io->uv.listener, (struct sockaddr *)sa, &len);
}

const struct store_io_way store_io_uv = {
    .name = "libuv",
    .prepare = prepare,
    .open = start_way,
    .run = run,
    .close = uv_way_close,
    .adopt = adopt,
    .try_write = try_write,
    .write = write_out,
    .shut = shut,
    .peer = peer,
    .name_of = name_of,
};
