/*
 * The way of io_uring. One thread owns the ring, and the kernel does its work
 * there and only when it enters the ring (DEFER_TASKRUN): nothing is taken
 * from a request that is being served, and no other thread is needed.
 *
 * A turn: enter, to hand over what was written in the last one and to wait for
 * what comes; take every completion that is there; the server answers; and so
 * on. Each stream has one receive, which the kernel repeats into buffers that
 * all share, for as long as it is not cancelled. Where a buffer is filled,
 * large values come: such a stream is polled and read as libuv would, one after
 * the other through the same memory, which then stays in the cache, or to where
 * the value belongs; until what comes is small again.
 *
 * A write is tried within the enter that hands it over, and then it is over
 * either way: DONTWAIT makes the kernel give up where the socket is full,
 * WAITALL makes it tell how much it took if that is not all, and with
 * CQE_SKIP_SUCCESS nothing is told of a write that was whole. So when the
 * completions have been taken, what was written and not complained of is done
 * (`settle`). What a socket did not take is handed over once more, to be
 * written when it can be.
 *
 * libuv's loop still runs beside it, for whatever else the process does: its
 * descriptor is polled by the ring.
 */
#include "rendezvous/daemon/store_io.h"

#ifndef DDP_URING

static int prepare(struct store_io *io)
{
    (void)io;
    return -1;
}

const struct store_io_way store_io_uring = {
    .name = "io_uring",
    .prepare = prepare,
};

#else

#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/log.h"

#define SQES       512
#define CQES       4096
#define BUFS       64 /* a power of two */
#define BUF_GROUP  0
#define AGAIN_MS   100 /* until it is tried again to accept */

/* So that the few bytes that come do not share one line of the cache. */
#define BUF_SIZE   ((size_t)16 << 10)
#define BUF_STRIDE (BUF_SIZE + 320)

#define BULK_READS 8 /* of one stream, before the others get their turn */
#define SMALL_MAX  8 /* reads of less than a buffer that end it */

/* What a completion is of: the low bits of its user data; the rest is the
 * stream, where there is one. */
enum tag {
    TAG_NONE,
    TAG_ACCEPT,
    TAG_LOOP, /* libuv has something to do */
    TAG_READ,
    TAG_BULK,  /* a stream that is polled can be read */
    TAG_TRIED, /* a write that was not whole */
    TAG_WRITE,
};
#define TAG_MASK   UINT64_C(7)

struct store_uring {
    struct io_uring ring;
    struct store_io *io;
    struct io_uring_buf_ring *bufs;
    uint8_t *mem; /* BUFS of BUF_STRIDE */
    int listen_fd;
    unsigned streams;            /* that are not closed yet */
    struct store_stream *queued; /* written since the ring was entered */
    struct store_stream *tried;  /* and before that */
    struct store_stream *over;   /* to be closed when the turn is over */
    bool running;
    bool closing;
    bool accepting;
    bool accept_later;
    bool loop_polled;
    bool loop_due;
};

/* -- entries --------------------------------------------------------------- */

/* What the kernel may answer when it is entered, and it is done later. */
static bool passes(int rc)
{
    return rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY ||
           rc == -ETIME;
}

__attribute__((noreturn)) static void give_up(int rc)
{
    fatalx(ddp_code_exit(DDP_E_IO), "store: io_uring fails: %s", strerror(-rc));
}

static struct io_uring_sqe *entry(struct store_uring *r)
{
    struct io_uring_sqe *sqe;
    while ((sqe = io_uring_get_sqe(&r->ring)) == NULL) {
        int rc = io_uring_submit(&r->ring);
        if (!passes(rc))
            give_up(rc);
    }
    return sqe;
}

static void mark(struct io_uring_sqe *sqe, const void *st, enum tag tag)
{
    io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)st | (uint64_t)tag);
}

static void accept_more(struct store_uring *r)
{
    if (r->accepting || r->accept_later || r->closing || r->listen_fd < 0)
        return;
    struct io_uring_sqe *sqe = entry(r);
    io_uring_prep_multishot_accept(sqe, r->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    mark(sqe, NULL, TAG_ACCEPT);
    r->accepting = true;
}

static void poll_loop(struct store_uring *r)
{
    if (r->loop_polled)
        return;
    struct io_uring_sqe *sqe = entry(r);
    io_uring_prep_poll_add(sqe, uv_backend_fd(r->io->loop), POLLIN);
    mark(sqe, NULL, TAG_LOOP);
    r->loop_polled = true;
}

static void read_more(struct store_uring *r, struct store_stream *st)
{
    struct io_uring_sqe *sqe = entry(r);
    io_uring_prep_recv_multishot(sqe, st->ring.fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUF_GROUP;
    mark(sqe, st, TAG_READ);
    st->ring.pending++;
}

static void poll_more(struct store_uring *r, struct store_stream *st)
{
    struct io_uring_sqe *sqe = entry(r);
    io_uring_prep_poll_add(sqe, st->ring.fd, POLLIN);
    mark(sqe, st, TAG_BULK);
    st->ring.pending++;
}

/* Its receive is over; the next one is of the kind that is due. */
static void receive(struct store_uring *r, struct store_stream *st)
{
    if (st->ring.bulk)
        poll_more(r, st);
    else
        read_more(r, st);
}

/* `tag`: TAG_TRIED or TAG_WRITE, see the top. */
static void
write_more(struct store_uring *r, struct store_stream *st, enum tag tag)
{
    struct io_uring_sqe *sqe = entry(r);
    int flags = MSG_NOSIGNAL | MSG_WAITALL;
    if (tag == TAG_TRIED)
        flags |= MSG_DONTWAIT;
    io_uring_prep_send(sqe, st->ring.fd, st->ring.data, st->ring.len, flags);
    if (tag == TAG_TRIED)
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    mark(sqe, st, tag);
    st->ring.pending++;
}

/* -- a stream -------------------------------------------------------------- */

static void begin(struct store_stream *st, int fd)
{
    struct store_uring *r = st->io->ring;
    int on = 1;
    /* Slower without it, not wrong. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    st->ring.fd = fd;
    r->streams++;
    read_more(r, st);
}

static int adopt(struct store_stream *st, int fd)
{
    begin(st, fd);
    return 0;
}

static size_t
try_write(struct store_stream *st, const uv_buf_t *bufs, unsigned count)
{
    struct iovec iov[2];
    ddp_assert(count <= 2);
    for (unsigned i = 0; i < count; i++)
        iov[i] = (struct iovec){bufs[i].base, bufs[i].len};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t n = sendmsg(st->ring.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? 0 : (size_t)n;
}

static int64_t
write_out(struct store_stream *st, const uint8_t *data, size_t len)
{
    struct store_uring *r = st->io->ring;
    st->ring.data = data;
    st->ring.len = len;
    st->ring.res = (int)len;
    write_more(r, st, TAG_TRIED);
    st->ring.next = r->queued;
    r->queued = st;
    return 0;
}

/* To be closed once nothing of it is with the kernel any more. */
static void end_if_idle(struct store_stream *st)
{
    struct store_uring *r = st->io->ring;
    if (!st->ring.closing || st->ring.pending > 0)
        return;
    st->ring.next = r->over;
    r->over = st;
}

static void shut(struct store_stream *st, bool reset)
{
    ddp_assert(!st->ring.closing);
    st->ring.closing = true;
    st->ring.reset = reset;
    if (st->ring.pending > 0) {
        struct io_uring_sqe *sqe = entry(st->io->ring);
        io_uring_prep_cancel_fd(sqe, st->ring.fd, IORING_ASYNC_CANCEL_ALL);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        mark(sqe, NULL, TAG_NONE);
    }
    end_if_idle(st);
}

static void bury(struct store_uring *r)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    while (r->over != NULL) {
        struct store_stream *st = r->over;
        r->over = st->ring.next;
        r->streams--;
        r->accept_later = false; /* there is a descriptor now */
        if (st->ring.reset)      /* what cannot be reset is closed */
            (void)setsockopt(st->ring.fd, SOL_SOCKET, SO_LINGER, &now,
                             sizeof(now));
        (void)close(st->ring.fd); /* nobody to tell */
        r->io->calls->closed(st);
    }
}

/* -- completions ----------------------------------------------------------- */

static void on_accept(struct store_uring *r, int res, bool more)
{
    struct store_io *io = r->io;
    r->accepting = more;
    if (res < 0) {
        if (r->closing || res == -ECONNABORTED || passes(res))
            return;
        r->accept_later = true;
        io->calls->refused(io->ctx, strerror(-res));
        return;
    }
    struct store_stream *st = r->closing ? NULL : io->calls->room(io->ctx);
    if (st == NULL) {
        (void)close(res); /* nothing was said on it */
        return;
    }
    begin(st, res);
    io->calls->came(st);
}

static void give_back(struct store_uring *r, unsigned id)
{
    io_uring_buf_ring_add(r->bufs, r->mem + id * BUF_STRIDE, BUF_SIZE,
                          (unsigned short)id, io_uring_buf_ring_mask(BUFS), 0);
    io_uring_buf_ring_advance(r->bufs, 1);
}

/* Its receive ends, and `receive` does the rest. */
static void begin_bulk(struct store_uring *r, struct store_stream *st)
{
    st->ring.bulk = true;
    st->ring.small = 0;
    struct io_uring_sqe *sqe = entry(r);
    io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)st | TAG_READ, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    mark(sqe, NULL, TAG_NONE);
}

static void on_read(struct store_uring *r,
                    struct store_stream *st,
                    const struct io_uring_cqe *cqe)
{
    int res = cqe->res;
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    bool more = (cqe->flags & IORING_CQE_F_MORE) != 0;
    if (!more)
        st->ring.pending--;
    if (res > 0 && !st->ring.closing)
        r->io->calls->bytes(st, r->mem + id * BUF_STRIDE, (size_t)res);
    if ((cqe->flags & IORING_CQE_F_BUFFER) != 0)
        give_back(r, id);
    if (res == (int)BUF_SIZE && !st->ring.closing && !st->ring.bulk)
        begin_bulk(r, st);
    if (more)
        return;
    if (st->ring.closing)
        end_if_idle(st);
    else if (res > 0 || res == -ENOBUFS || res == -EINTR ||
             (res == -ECANCELED && st->ring.bulk))
        receive(r, st);
    else
        r->io->calls->ended(st);
}

/* -1: it has ended. Else how many bytes it was, of `room` there were. */
static ssize_t read_some(struct store_stream *st, size_t *room)
{
    const struct store_io_calls *calls = st->io->calls;
    static char scratch[STORE_IO_READ_MAX]; /* filled and served at once */
    void *to = calls->wanted(st, room);
    if (to == NULL) {
        to = scratch;
        *room = sizeof(scratch);
    }
    ssize_t n = recv(st->ring.fd, to, *room, MSG_DONTWAIT);
    if (n > 0)
        calls->bytes(st, to, (size_t)n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n > 0 ? n : -1;
}

static void on_bulk(struct store_uring *r, struct store_stream *st)
{
    size_t all = 0, room = 0;
    ssize_t n = 1;
    st->ring.pending--;
    for (int i = 0; i < BULK_READS && n > 0 && !st->ring.closing; i++) {
        n = read_some(st, &room);
        all += n > 0 ? (size_t)n : 0;
        if (n >= 0 && (size_t)n < room)
            break; /* that was all */
    }
    if (st->ring.closing) {
        end_if_idle(st);
        return;
    }
    if (n < 0) {
        r->io->calls->ended(st);
        return;
    }
    st->ring.small = all < BUF_SIZE ? st->ring.small + 1 : 0;
    st->ring.bulk = st->ring.small < SMALL_MAX;
    receive(r, st);
}

/* `res` bytes of what was to be written were, or an error. */
static void on_write(struct store_stream *st, int res)
{
    st->ring.pending--;
    if (st->ring.closing) {
        end_if_idle(st);
        return;
    }
    size_t done = res < 0 ? 0 : (size_t)res;
    st->ring.data += done;
    st->ring.len -= done;
    if (res < 0 && !passes(res))
        st->io->calls->written(st, false);
    else if (st->ring.len > 0)
        write_more(st->io->ring, st, TAG_WRITE);
    else
        st->io->calls->written(st, true);
}

static void take(struct store_uring *r, const struct io_uring_cqe *cqe)
{
    struct store_stream *st =
        (struct store_stream *)(uintptr_t)(cqe->user_data & ~TAG_MASK);
    switch ((enum tag)(cqe->user_data & TAG_MASK)) {
    case TAG_NONE: /* a cancel that found nothing */
        return;
    case TAG_ACCEPT:
        on_accept(r, cqe->res, (cqe->flags & IORING_CQE_F_MORE) != 0);
        return;
    case TAG_LOOP:
        r->loop_polled = false;
        r->loop_due = true;
        return;
    case TAG_READ:
        on_read(r, st, cqe);
        return;
    case TAG_BULK:
        on_bulk(r, st);
        return;
    case TAG_TRIED:
        st->ring.res = cqe->res;
        return;
    case TAG_WRITE:
        on_write(st, cqe->res);
        return;
    }
    DDP_WRONG("a completion of nothing");
}

/* Until there are none, those of entries that were handed over meanwhile
 * included. */
static void take_all(struct store_uring *r)
{
    struct io_uring_cqe *cqe;
    unsigned head;
    while (io_uring_cq_ready(&r->ring) > 0) {
        unsigned n = 0;
        io_uring_for_each_cqe(&r->ring, head, cqe)
        {
            take(r, cqe);
            n++;
        }
        io_uring_cq_advance(&r->ring, n);
    }
}

/* What was tried and not complained of has been written. */
static void settle(struct store_uring *r)
{
    if (io_uring_cq_has_overflow(&r->ring))
        return; /* a complaint may be there */
    struct store_stream *next, *st = r->tried;
    for (r->tried = NULL; st != NULL; st = next) {
        next = st->ring.next;
        on_write(st, st->ring.res);
    }
}

/* -- the loop -------------------------------------------------------------- */

/* How long to wait: as libuv would, if there is anything for it to do. */
static int patience_ms(const struct store_uring *r)
{
    int ms = uv_loop_alive(r->io->loop) ? uv_backend_timeout(r->io->loop) : -1;
    return r->accept_later && (ms < 0 || ms > AGAIN_MS) ? AGAIN_MS : ms;
}

static void enter(struct store_uring *r)
{
    int rc, ms = patience_ms(r);
    struct __kernel_timespec ts = {.tv_sec = ms / 1000,
                                   .tv_nsec = ms % 1000 * 1000000LL};
    struct io_uring_cqe *cqe;
    if (ms == 0)
        rc = io_uring_submit_and_get_events(&r->ring);
    else if (ms < 0)
        rc = io_uring_submit_and_wait(&r->ring, 1);
    else
        rc = io_uring_submit_and_wait_timeout(&r->ring, &cqe, 1, &ts, NULL);
    if (!passes(rc))
        give_up(rc);
    if (rc == -ETIME)
        r->accept_later = false;
    r->loop_due = ms >= 0;
    if (r->tried == NULL && io_uring_sq_ready(&r->ring) == 0) {
        r->tried = r->queued;
        r->queued = NULL;
    }
}

static void turn(struct store_uring *r)
{
    accept_more(r);
    poll_loop(r);
    enter(r);
    take_all(r);
    settle(r);
    r->io->calls->turn(r->io->ctx);
    if (r->loop_due)
        (void)uv_run(r->io->loop, UV_RUN_NOWAIT);
    bury(r);
}

static void tear_down(struct store_uring *r)
{
    io_uring_queue_exit(&r->ring);
    free(r->bufs);
    free(r->mem);
    free(r);
}

static void leave(struct store_uring *r)
{
    struct store_io *io = r->io;
    if (r->listen_fd >= 0)
        (void)close(r->listen_fd); /* nothing was said on it */
    tear_down(r);
    io->calls->gone(io->ctx);
}

static void run(struct store_io *io)
{
    struct store_uring *r = io->ring;
    uv_loop_t *loop = io->loop;
    int rc = io_uring_enable_rings(&r->ring); /* now it is this thread's */
    if (rc != 0)
        give_up(rc);
    (void)io_uring_register_ring_fd(&r->ring); /* slower without it */
    r->running = true;
    while (!r->closing || r->streams > 0 || r->accepting)
        turn(r);
    leave(r);
    (void)uv_run(loop, UV_RUN_DEFAULT);
}

/* -- the whole ------------------------------------------------------------- */

static int share_buffers(struct store_uring *r)
{
    struct io_uring_buf_reg reg = {.ring_entries = BUFS, .bgid = BUF_GROUP};
    void *bufs = NULL;
    r->mem = malloc(BUFS * BUF_STRIDE);
    if (r->mem == NULL ||
        posix_memalign(&bufs, (size_t)sysconf(_SC_PAGESIZE),
                       BUFS * sizeof(struct io_uring_buf)) != 0)
        return -1;
    r->bufs = bufs;
    reg.ring_addr = (uint64_t)(uintptr_t)bufs;
    if (io_uring_register_buf_ring(&r->ring, &reg, 0) != 0)
        return -1;
    io_uring_buf_ring_init(r->bufs);
    for (unsigned id = 0; id < BUFS; id++)
        give_back(r, id);
    return 0;
}

static int prepare(struct store_io *io)
{
    struct io_uring_params p = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL |
                 IORING_SETUP_CQSIZE,
        .cq_entries = CQES,
    };
    struct store_uring *r = calloc(1, sizeof(*r));
    if (r == NULL || io_uring_queue_init_params(SQES, &r->ring, &p) != 0) {
        free(r);
        return -1;
    }
    r->io = io;
    r->listen_fd = -1;
    if (share_buffers(r) != 0) {
        tear_down(r);
        return -1;
    }
    io->ring = r;
    return 0;
}

static int open_way(struct store_io *io, int listen_fd, struct ddp_err *err)
{
    io->ring->listen_fd = listen_fd;
    if (listen_fd < 0 || listen(listen_fd, STORE_IO_BACKLOG) == 0)
        return 0;
    return ddp_err_sys(err, DDP_E_IO,
                       "the store cannot listen on descriptor %d", listen_fd);
}

static void close_way(struct store_io *io)
{
    struct store_uring *r = io->ring;
    r->closing = true;
    if (!r->running) {
        leave(r);
        return;
    }
    if (!r->accepting)
        return;
    struct io_uring_sqe *sqe = entry(r);
    io_uring_prep_cancel_fd(sqe, r->listen_fd, IORING_ASYNC_CANCEL_ALL);
    mark(sqe, NULL, TAG_NONE);
}

static int peer(const struct store_stream *st, struct sockaddr_storage *sa)
{
    socklen_t len = sizeof(*sa);
    return getpeername(st->ring.fd, (struct sockaddr *)sa, &len);
}

static int name_of(const struct store_io *io, struct sockaddr_storage *sa)
{
    socklen_t len = sizeof(*sa);
    return getsockname(io->ring->listen_fd, (struct sockaddr *)sa, &len);
}

const struct store_io_way store_io_uring = {
    .name = "io_uring",
    .prepare = prepare,
    .open = open_way,
    .run = run,
    .close = close_way,
    .adopt = adopt,
    .try_write = try_write,
    .write = write_out,
    .shut = shut,
    .peer = peer,
    .name_of = name_of,
};

#endif
