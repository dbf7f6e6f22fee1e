/*
 * worker_rt/comm_cpu: all-reduce, broadcast, all-gather and barrier over TCP.
 *
 * Shape. Each rank has one connection, used both ways, to each neighbour: the
 * two on the ring, and those of a hypercube over the first P ranks, P being the
 * largest power of two that fits; a rank r >= P hangs on rank r - P. Much data
 * goes round the ring (each byte is sent twice, whatever the world), little
 * goes over the hypercube (log2 W messages).
 *
 * Order. Every sum is made in an order that depends on nothing but ranks: on
 * the ring one rank makes each element's sum and the others get it; on the
 * hypercube both ends of an edge add the lower rank's operand first. So all
 * ranks have the same bits, also of a NaN.
 *
 * Failure. A rank whose peer is gone, that is aborted or too late, shuts down
 * all its connections. Whoever waits, waits for somebody who waits or failed,
 * so the failure reaches everyone, one wake-up per hop. Beyond that each
 * blocked rank watches all its neighbours. An end of file on a connection that
 * it does not need at this moment may also be a peer who has finished the very
 * last collective and left early; so the work goes on then, and fails when
 * nothing has moved for GONE_US. A cut line says nothing at all: see sock.h.
 *
 * Every message has a head that names the collective and its size, so that
 * ranks which disagree find out instead of adding up garbage.
 */
#include "worker_rt/comm_cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "worker_rt/rt.h"
#include "worker_rt/sock.h"

#define SMALL_MAX   ((size_t)32 * 1024)  /* below: hypercube, from it: ring */
#define CHUNK       ((size_t)256 * 1024) /* at most moved by one system call */
#define PEERS_MAX   35                   /* 2 on the ring, 31 + 1 others */
#define GONE_US     (50 * MONO_MS)
#define LOOK_US     (1 * MONO_S) /* how often a blocked rank asks: silent? */
#define LEAVE_US    (1 * MONO_S)
#define PENDING_MAX 16 /* connections whose hello has not come yet */
#define HELLO_US    (2 * MONO_S)

enum kind {
    ALLREDUCE = 1,
    BROADCAST,
    ALLGATHER,
    BARRIER,
    LEAVE
};

static const char *const kind_names[] = {
    "nothing", "all-reduce", "broadcast", "all-gather", "barrier", "leave"};

/* Before the data of each message; little-endian as all our machines are. */
struct head {
    uint32_t seq; /* of the collective */
    uint16_t kind;
    uint16_t dtype;
    uint32_t step;
    uint32_t root;
    uint64_t len; /* of the data behind it */
};
_Static_assert(sizeof(struct head) == 24, "no padding on the wire");

struct peer {
    int rank;
    int fd;    /* -1: not connected */
    bool gone; /* it closed its end */
};

struct comm_cpu {
    struct ddp_comm base;
    struct peer peers[PEERS_MAX];
    size_t npeers;
    struct peer *prev; /* on the ring; NULL in a world of one */
    struct peer *next;
    int core;     /* P: ranks of the hypercube */
    int abort_fd; /* an eventfd: wakes a blocked call */
    atomic_bool aborted;
    bool broken;
    struct ddp_err why; /* what broke it */
    uint32_t seq;
    struct head head;    /* of the current collective, as far as it is fixed */
    int64_t deadline_us; /* of the current collective */
    int64_t moved_us;    /* with a peer gone: when data last moved */
    size_t ngone;
    uint8_t *scratch; /* CHUNK bytes: data that comes in to be added */
};

/* dst = a + b for n elements; dst may be one of them. */
typedef void combine_fn(void *dst, const void *a, const void *b, size_t n);

static void sum_f32(void *dst, const void *a, const void *b, size_t n)
{
    float *to = dst;
    const float *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] + y[i];
}

static void sum_f64(void *dst, const void *a, const void *b, size_t n)
{
    double *to = dst;
    const double *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] + y[i];
}

/* Unsigned, which wraps around. */
static void sum_i64(void *dst, const void *a, const void *b, size_t n)
{
    uint64_t *to = dst;
    const uint64_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] + y[i];
}

/* For what only one rank has, and the others have zeros. */
static void merge_u8(void *dst, const void *a, const void *b, size_t n)
{
    uint8_t *to = dst;
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(x[i] | y[i]);
}

static struct comm_cpu *self(struct ddp_comm *c)
{
    return (struct comm_cpu *)c; /* its first member */
}

static struct peer *peer_of(struct comm_cpu *c, int rank)
{
    for (size_t i = 0; i < c->npeers; i++)
        if (c->peers[i].rank == rank)
            return &c->peers[i];
    return NULL;
}

/* -- one exchange ---------------------------------------------------------- */

/*
 * One message, out or in. What comes in replaces `data`, or is added to it
 * where `combine` is set.
 */
struct xfer {
    struct peer *peer; /* NULL: nothing to do */
    struct head head;  /* what is sent, or must come */
    struct head got;
    uint8_t *data;
    size_t len;
    size_t done; /* of head and data */
    combine_fn *combine;
    size_t elem;  /* bytes of an element, with `combine` */
    size_t added; /* bytes of `data` that were combined */
};

static struct xfer message(struct comm_cpu *c,
                           struct peer *peer,
                           uint32_t step,
                           void *data,
                           size_t len)
{
    struct xfer x = {.peer = peer, .head = c->head, .data = data, .len = len};
    x.head.step = step;
    x.head.len = len;
    return x;
}

static bool finished(const struct xfer *x)
{
    return x->peer == NULL || x->done == sizeof(struct head) + x->len;
}

static int
broke_off(const struct comm_cpu *c, const struct peer *p, struct ddp_err *err)
{
    const char *name = kind_names[c->head.kind];
    if (errno == 0)
        return ddp_err_set(err, DDP_E_PEER,
                           "rank %d died or broke off (seen by rank %d in %s)",
                           p->rank, c->base.rank, name);
    return ddp_err_sys(err, DDP_E_PEER,
                       "rank %d died or broke off (seen by rank %d in %s)",
                       p->rank, c->base.rank, name);
}

static bool is_pause(int error)
{
    return error == EAGAIN || error == EINTR;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Fills `iov` with what is left of the head and a piece of the data. */
static size_t pieces(struct iovec iov[2],
                     struct head *head,
                     size_t done,
                     uint8_t *data,
                     size_t room)
{
    size_t n = 0;
    if (done < sizeof(*head))
        iov[n++] = (struct iovec){(uint8_t *)head + done, sizeof(*head) - done};
    if (room > 0)
        iov[n++] = (struct iovec){data, room};
    return n;
}

static size_t data_done(const struct xfer *x)
{
    return x->done < sizeof(x->head) ? 0 : x->done - sizeof(x->head);
}

/* Sends once; `*moved` if anything went. */
static int
send_some(struct comm_cpu *c, struct xfer *x, bool *moved, struct ddp_err *err)
{
    struct iovec iov[2];
    size_t at = data_done(x);
    struct msghdr msg = {.msg_iov = iov};
    msg.msg_iovlen =
        pieces(iov, &x->head, x->done, x->data + at, least(x->len - at, CHUNK));
    ssize_t n = sendmsg(x->peer->fd, &msg, MSG_NOSIGNAL);
    if (n < 0 && !is_pause(errno))
        return broke_off(c, x->peer, err);
    if (n > 0) {
        x->done += (size_t)n;
        *moved = true;
    }
    return 0;
}

static int
check_head(const struct comm_cpu *c, const struct xfer *x, struct ddp_err *err)
{
    const struct head *got = &x->got;
    if (memcmp(got, &x->head, sizeof(*got)) == 0)
        return 0;
    if (got->kind == LEAVE)
        return ddp_err_set(err, DDP_E_PEER,
                           "rank %d left the communicator (seen by rank %d in "
                           "%s)",
                           x->peer->rank, c->base.rank,
                           kind_names[c->head.kind]);
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "rank %d and rank %d are in different collectives: "
                       "%s number %u with %llu bytes, %s number %u with %llu",
                       c->base.rank, x->peer->rank, kind_names[c->head.kind],
                       x->head.seq, (unsigned long long)x->head.len,
                       got->kind <= LEAVE ? kind_names[got->kind] : "unknown",
                       got->seq, (unsigned long long)got->len);
}

/* Adds the whole elements that the scratch has; the rest moves to its front. */
static void combine_some(struct comm_cpu *c, struct xfer *x)
{
    size_t have = data_done(x) - x->added;
    size_t n = have / x->elem;
    size_t used = n * x->elem;
    x->combine(x->data + x->added, c->scratch, x->data + x->added, n);
    memmove(c->scratch, c->scratch + used, have - used);
    x->added += used;
}

static int
recv_some(struct comm_cpu *c, struct xfer *x, bool *moved, struct ddp_err *err)
{
    size_t at = data_done(x);
    uint8_t *to = x->data + at;
    size_t room = least(x->len - at, CHUNK);
    if (x->combine != NULL) {
        size_t kept = at - x->added; /* part of an element */
        to = c->scratch + kept;
        room = least(room, CHUNK - kept);
    }
    struct iovec iov[2];
    struct msghdr msg = {.msg_iov = iov};
    msg.msg_iovlen = pieces(iov, &x->got, x->done, to, room);
    ssize_t n = recvmsg(x->peer->fd, &msg, 0);
    if (n == 0)
        errno = 0;
    if (n == 0 || (n < 0 && !is_pause(errno)))
        return broke_off(c, x->peer, err);
    if (n < 0)
        return 0;
    bool head_came =
        x->done < sizeof(x->head) && x->done + (size_t)n >= sizeof(x->head);
    x->done += (size_t)n;
    *moved = true;
    if (head_came && check_head(c, x, err) != 0)
        return -1;
    if (x->combine != NULL)
        combine_some(c, x);
    return 0;
}

static void mark_gone(struct comm_cpu *c, struct peer *p)
{
    if (p->gone)
        return;
    p->gone = true;
    c->ngone++;
    c->moved_us = mono_now_us();
}

/* What a wait may end by, beside the data that it is for. */
static int check_time(const struct comm_cpu *c, struct ddp_err *err)
{
    int64_t now_us = mono_now_us();
    if (now_us >= c->deadline_us)
        return ddp_err_set(err, DDP_E_TIMEOUT, "%s was not done in time",
                           kind_names[c->head.kind]);
    for (size_t i = 0; i < c->npeers; i++) {
        const struct peer *p = &c->peers[i];
        errno = 0;
        if (p->gone && now_us - c->moved_us >= GONE_US)
            return broke_off(c, p, err);
        errno = ETIMEDOUT;
        if (!p->gone && sock_is_silent(p->fd))
            return broke_off(c, p, err);
    }
    return 0;
}

static int next_look_ms(const struct comm_cpu *c)
{
    int64_t now_us = mono_now_us();
    int64_t then_us = mono_min(c->deadline_us, now_us + LOOK_US);
    if (c->ngone > 0)
        then_us = mono_min(then_us, c->moved_us + GONE_US);
    return (int)mono_ms_until(now_us, then_us);
}

/* What to ask poll about a peer: a reader sees an end by reading. */
static short
interest(const struct peer *p, const struct xfer *out, const struct xfer *in)
{
    bool reads = p == in->peer && !finished(in);
    bool writes = p == out->peer && !finished(out);
    return (short)((reads     ? POLLIN
                    : p->gone ? 0
                              : POLLRDHUP) |
                   (writes ? POLLOUT : 0));
}

/* Blocks until something may go on. */
static int wait_io(struct comm_cpu *c,
                   const struct xfer *out,
                   const struct xfer *in,
                   struct ddp_err *err)
{
    struct pollfd pfd[1 + PEERS_MAX];
    pfd[0] = (struct pollfd){.fd = c->abort_fd, .events = POLLIN};
    for (size_t i = 0; i < c->npeers; i++) {
        short events = interest(&c->peers[i], out, in);
        pfd[1 + i] = (struct pollfd){.fd = events == 0 ? -1 : c->peers[i].fd,
                                     .events = events};
    }
    int n = poll(pfd, 1 + c->npeers, next_look_ms(c));
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return ddp_err_sys(err, DDP_E_NOMEM, "poll");
    if (n <= 0 || mono_now_us() >= c->deadline_us)
        return check_time(c, err);
    for (size_t i = 0; i < c->npeers; i++) {
        int ended = POLLRDHUP | POLLHUP | POLLERR;
        if ((pfd[1 + i].revents & ended) != 0 &&
            (pfd[1 + i].events & POLLIN) == 0)
            mark_gone(c, &c->peers[i]);
    }
    return 0;
}

static int check_abort(struct comm_cpu *c, struct ddp_err *err)
{
    if (!atomic_load(&c->aborted))
        return 0;
    return ddp_err_set(err, DDP_E_ABORTED, "%s was called off",
                       kind_names[c->head.kind]);
}

/* Both directions at once, until both are done. */
static int exchange(struct comm_cpu *c,
                    struct xfer *out,
                    struct xfer *in,
                    struct ddp_err *err)
{
    while (!finished(out) || !finished(in)) {
        bool moved = false;
        if (check_abort(c, err) != 0)
            return -1;
        if (!finished(out) && send_some(c, out, &moved, err) != 0)
            return -1;
        if (!finished(in) && recv_some(c, in, &moved, err) != 0)
            return -1;
        if (moved && c->ngone > 0)
            c->moved_us = mono_now_us();
        if (!moved && wait_io(c, out, in, err) != 0)
            return -1;
    }
    return 0;
}

static int send_to(struct comm_cpu *c,
                   int rank,
                   uint32_t step,
                   void *data,
                   size_t len,
                   struct ddp_err *err)
{
    struct xfer out = message(c, peer_of(c, rank), step, data, len);
    struct xfer none = {0};
    return exchange(c, &out, &none, err);
}

static int recv_from(struct comm_cpu *c,
                     int rank,
                     uint32_t step,
                     void *data,
                     size_t len,
                     struct ddp_err *err)
{
    struct xfer in = message(c, peer_of(c, rank), step, data, len);
    struct xfer none = {0};
    return exchange(c, &none, &in, err);
}

/* -- beginning and end of a collective ------------------------------------- */

static int begin(struct comm_cpu *c,
                 enum kind kind,
                 int dtype,
                 int root,
                 struct ddp_err *err)
{
    if (c->broken) {
        if (err != NULL)
            *err = c->why;
        return -1;
    }
    c->head = (struct head){.seq = ++c->seq,
                            .kind = (uint16_t)kind,
                            .dtype = (uint16_t)dtype,
                            .root = (uint32_t)root};
    c->deadline_us = c->base.timeout_us == MONO_NEVER
                         ? MONO_NEVER
                         : mono_after(mono_now_us(), c->base.timeout_us);
    if (check_abort(c, err) != 0)
        return -1;
    /* Who left during the last collective cannot take part in this one. */
    errno = 0;
    for (size_t i = 0; i < c->npeers && c->ngone > 0; i++)
        if (c->peers[i].gone)
            return broke_off(c, &c->peers[i], err);
    return 0;
}

/* Passes `rc` on; a failure breaks the communicator, here and for the peers. */
static int end(struct comm_cpu *c, int rc, const struct ddp_err *err)
{
    if (rc == 0 || c->broken)
        return rc;
    c->broken = true;
    c->why = *err;
    for (size_t i = 0; i < c->npeers; i++)
        (void)shutdown(c->peers[i].fd, SHUT_RDWR); /* may be gone already */
    return rc;
}

/* -- little data: the hypercube -------------------------------------------- */

/*
 * Combines `n` elements of all ranks, the result to all. The ranks beyond the
 * core give theirs to rank - P first and get the result from it last.
 */
static int cube_combine(struct comm_cpu *c,
                        void *data,
                        size_t n,
                        size_t elem,
                        combine_fn *combine,
                        struct ddp_err *err)
{
    int rank = c->base.rank;
    int twin = rank < c->core ? rank + c->core : rank - c->core;
    bool has_twin = twin < c->base.world;
    size_t len = n * elem;
    if (rank >= c->core) {
        if (send_to(c, twin, 0, data, len, err) != 0)
            return -1;
        return recv_from(c, twin, 1, data, len, err);
    }
    if (has_twin) {
        if (recv_from(c, twin, 0, c->scratch, len, err) != 0)
            return -1;
        combine(data, data, c->scratch, n);
    }
    for (int bit = 1; bit < c->core; bit *= 2) {
        struct peer *p = peer_of(c, rank ^ bit);
        struct xfer out = message(c, p, 2, data, len);
        struct xfer in = message(c, p, 2, c->scratch, len);
        if (exchange(c, &out, &in, err) != 0)
            return -1;
        if (p->rank < rank)
            combine(data, c->scratch, data, n);
        else
            combine(data, data, c->scratch, n);
    }
    return has_twin ? send_to(c, twin, 1, data, len, err) : 0;
}

/*
 * From the root to all: over the twin's edge into the core if need be, then a
 * binomial tree whose numbers are ranks XOR the root, then out to the twins.
 */
static int cube_broadcast(
    struct comm_cpu *c, void *data, size_t len, int root, struct ddp_err *err)
{
    int rank = c->base.rank;
    int twin = rank < c->core ? rank + c->core : rank - c->core;
    int head = root < c->core ? root : root - c->core; /* the tree's root */
    if (rank >= c->core)
        return rank == root ? send_to(c, twin, 0, data, len, err)
                            : recv_from(c, twin, 1, data, len, err);
    if (root >= c->core && rank == head &&
        recv_from(c, root, 0, data, len, err) != 0)
        return -1;
    int number = rank ^ head;
    int bit = 1;
    while (bit < c->core && (number & bit) == 0)
        bit *= 2;
    /* The lowest set bit leads to the parent, those below it to children. */
    if (number != 0 && recv_from(c, rank ^ bit, 2, data, len, err) != 0)
        return -1;
    for (bit /= 2; bit > 0; bit /= 2)
        if (send_to(c, rank ^ bit, 2, data, len, err) != 0)
            return -1;
    if (twin < c->base.world && twin != root)
        return send_to(c, twin, 1, data, len, err);
    return 0;
}

/* -- much data: the ring --------------------------------------------------- */

/* The world's blocks of an array: the first `rest` are one element longer. */
struct blocks {
    uint8_t *data;
    size_t elem;
    size_t base;
    size_t rest;
};

static struct blocks split(void *data, size_t n, size_t elem, int world)
{
    size_t parts = (size_t)world;
    return (struct blocks){data, elem, n / parts, n % parts};
}

static struct xfer block(struct comm_cpu *c,
                         const struct blocks *b,
                         struct peer *peer,
                         int step,
                         int number)
{
    size_t world = (size_t)c->base.world;
    size_t i = (size_t)(number + 2 * c->base.world) % world;
    size_t start = i * b->base + least(i, b->rest);
    size_t n = b->base + (i < b->rest ? 1 : 0);
    return message(c, peer, (uint32_t)step, b->data + start * b->elem,
                   n * b->elem);
}

/* After step s this rank has the sum of s + 2 ranks in block rank - s - 1. */
static int ring_reduce(struct comm_cpu *c,
                       const struct blocks *b,
                       combine_fn *combine,
                       struct ddp_err *err)
{
    int rank = c->base.rank;
    for (int s = 0; s < c->base.world - 1; s++) {
        struct xfer out = block(c, b, c->next, s, rank - s);
        struct xfer in = block(c, b, c->prev, s, rank - s - 1);
        in.combine = combine;
        in.elem = b->elem;
        if (exchange(c, &out, &in, err) != 0)
            return -1;
    }
    return 0;
}

/* Block `first` is this rank's own; the others go round. */
static int ring_gather(struct comm_cpu *c,
                       const struct blocks *b,
                       int first,
                       struct ddp_err *err)
{
    for (int s = 0; s < c->base.world - 1; s++) {
        struct xfer out = block(c, b, c->next, s, first - s);
        struct xfer in = block(c, b, c->prev, s, first - s - 1);
        if (exchange(c, &out, &in, err) != 0)
            return -1;
    }
    return 0;
}

/* A chain from the root along the ring: a chunk goes on while the next one
 * comes in. */
static int ring_broadcast(struct comm_cpu *c,
                          uint8_t *data,
                          size_t len,
                          int root,
                          struct ddp_err *err)
{
    int world = c->base.world;
    int place = (c->base.rank - root + world) % world;
    size_t chunks = (len + CHUNK - 1) / CHUNK;
    for (size_t i = 0; i <= chunks; i++) {
        struct xfer out = {0}, in = {0};
        size_t last = i - (i > 0 ? 1 : 0);
        if (place > 0 && i < chunks)
            in = message(c, c->prev, (uint32_t)i, data + i * CHUNK,
                         least(CHUNK, len - i * CHUNK));
        if (place < world - 1 && i > 0)
            out = message(c, c->next, (uint32_t)last, data + last * CHUNK,
                          least(CHUNK, len - last * CHUNK));
        if (exchange(c, &out, &in, err) != 0)
            return -1;
    }
    return 0;
}

/* -- the collectives ------------------------------------------------------- */

static int cpu_allreduce(struct ddp_comm *comm,
                         void *data,
                         size_t count,
                         enum ddp_dtype dtype,
                         struct ddp_err *err)
{
    struct comm_cpu *c = self(comm);
    size_t elem = dtype == DDP_F32 ? 4 : 8;
    combine_fn *sum = dtype == DDP_F32   ? sum_f32
                      : dtype == DDP_F64 ? sum_f64
                                         : sum_i64;
    struct blocks b = split(data, count, elem, comm->world);
    int rc = begin(c, ALLREDUCE, (int)dtype, 0, err);
    if (rc == 0 && count * elem < SMALL_MAX) {
        rc = cube_combine(c, data, count, elem, sum, err);
    } else if (rc == 0) {
        rc = ring_reduce(c, &b, sum, err);
        if (rc == 0)
            rc = ring_gather(c, &b, comm->rank + 1, err);
    }
    return end(c, rc, err);
}

static int cpu_broadcast(struct ddp_comm *comm,
                         void *data,
                         size_t len,
                         int root,
                         struct ddp_err *err)
{
    struct comm_cpu *c = self(comm);
    int rc = begin(c, BROADCAST, 0, root, err);
    if (rc == 0 && len < SMALL_MAX)
        rc = cube_broadcast(c, data, len, root, err);
    else if (rc == 0)
        rc = ring_broadcast(c, data, len, root, err);
    return end(c, rc, err);
}

static int cpu_allgather(struct ddp_comm *comm,
                         const void *mine,
                         size_t len,
                         void *all,
                         struct ddp_err *err)
{
    struct comm_cpu *c = self(comm);
    size_t total = len * (size_t)comm->world;
    uint8_t *place = (uint8_t *)all + (size_t)comm->rank * len;
    int rc = begin(c, ALLGATHER, 0, 0, err);
    if (rc == 0 && len > 0)
        memmove(place, mine, len);
    if (rc == 0 && total < SMALL_MAX) {
        /* All others' places zero: then a bitwise or is a gather. */
        if (len > 0) {
            memset(all, 0, (size_t)comm->rank * len);
            memset(place + len, 0,
                   total - len - (size_t)(place - (uint8_t *)all));
        }
        rc = cube_combine(c, all, total, 1, merge_u8, err);
    } else if (rc == 0) {
        struct blocks b = split(all, (size_t)comm->world, len, comm->world);
        rc = ring_gather(c, &b, comm->rank, err);
    }
    return end(c, rc, err);
}

static int cpu_barrier(struct ddp_comm *comm, struct ddp_err *err)
{
    struct comm_cpu *c = self(comm);
    int rc = begin(c, BARRIER, 0, 0, err);
    if (rc == 0)
        rc = cube_combine(c, c->scratch, 0, 1, merge_u8, err);
    return end(c, rc, err);
}

static void cpu_abort(struct ddp_comm *comm)
{
    struct comm_cpu *c = self(comm);
    atomic_store(&c->aborted, true);
    /* Stays readable: nobody reads it. It cannot fail below 2^64 - 1. */
    (void)eventfd_write(c->abort_fd, 1);
}

/* A barrier of its own kind: who passes it knows that nobody needs its
 * connections any more. Whatever goes wrong here, the work is done. */
static void cpu_leave(struct ddp_comm *comm)
{
    struct comm_cpu *c = self(comm);
    struct ddp_err ignored;
    if (c->broken)
        return;
    comm->timeout_us = LEAVE_US;
    int rc = begin(c, LEAVE, 0, 0, &ignored);
    if (rc == 0)
        rc = cube_combine(c, c->scratch, 0, 1, merge_u8, &ignored);
    (void)end(c, rc, &ignored); /* no error: the work is done */
}

static void cpu_del(struct ddp_comm *comm)
{
    struct comm_cpu *c = self(comm);
    for (size_t i = 0; i < c->npeers; i++)
        if (c->peers[i].fd >= 0)
            (void)close(c->peers[i].fd); /* nothing is under way */
    if (c->abort_fd >= 0)
        (void)close(c->abort_fd); /* an eventfd has nothing to lose */
    free(c->scratch);
    free(c);
}

static const struct comm_ops cpu_ops = {
    .allreduce = cpu_allreduce,
    .broadcast = cpu_broadcast,
    .allgather = cpu_allgather,
    .barrier = cpu_barrier,
    .abort = cpu_abort,
    .leave = cpu_leave,
    .del = cpu_del,
};

/* -- meeting: the first words on a connection ------------------------------ */

/*
 * The higher rank connects to the lower one and says a hello; the lower one
 * answers with its own, which says whether it takes the connection. A stranger
 * is dropped and the meeting goes on.
 */
struct hello {
    uint8_t magic[8];
    char instance[RNG_ID_LEN];
    int64_t round;
    uint32_t comm;
    uint32_t world;
    uint32_t from;
    uint32_t to;
    uint32_t answer; /* enum answer; 0 in the connector's hello */
    uint32_t zero;
};
_Static_assert(sizeof(struct hello) == 72, "no padding on the wire");

static const uint8_t magic[8] = {0xdd, 'd', 'd', 'p', 'c', 'p', 'u', 1};

enum answer {
    TAKEN = 1,
    OTHER_INSTANCE,
    OTHER_ROUND,
    OTHER_COMM,
    OTHER_WORLD,
    NO_SUCH_PLACE,
};

static const char *answer_text(uint32_t answer)
{
    switch ((enum answer)answer) {
    case OTHER_INSTANCE:
        return "it belongs to another run";
    case OTHER_ROUND:
        return "it is in another round";
    case OTHER_COMM:
        return "it makes another communicator";
    case OTHER_WORLD:
        return "its world has another size";
    case NO_SUCH_PLACE:
        return "it expects no such rank, or has it already";
    case TAKEN:
        break;
    }
    return "it gives no reason that is known here";
}

struct pending {
    int fd; /* -1: free */
    struct hello hello;
    size_t have;
    int64_t until_us;
};

/* What belongs to a peer while it is being met. */
struct calling {
    bool connected; /* and our hello sent; now its answer is due */
    struct hello answer;
    size_t have;
};

struct meet {
    struct comm_cpu *c;
    const struct comm_place *place;
    int listener;
    struct pending pending[PENDING_MAX];
    struct calling calling[PEERS_MAX];
    bool met[PEERS_MAX];
    size_t missing;
    int64_t deadline_us;
};

static struct hello
our_hello(const struct meet *m, uint32_t to, uint32_t answer)
{
    struct hello h = {.round = m->place->round,
                      .comm = m->place->id,
                      .world = (uint32_t)m->place->world,
                      .from = (uint32_t)m->place->rank,
                      .to = to,
                      .answer = answer};
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(h.instance, m->place->instance, sizeof(h.instance));
    return h;
}

/* On a fresh connection 72 bytes always fit into the kernel's buffer. */
static bool say(int fd, const struct hello *h)
{
    return send(fd, h, sizeof(*h), MSG_NOSIGNAL) == (ssize_t)sizeof(*h);
}

/* Reads on. 1: the hello is whole, 0: not yet, -1: the other end is gone (with
 * errno, 0 for an end of file). */
static int hear(int fd, struct hello *h, size_t *have)
{
    ssize_t n = recv(fd, (uint8_t *)h + *have, sizeof(*h) - *have, 0);
    if (n == 0)
        errno = 0;
    if (n == 0 || (n < 0 && !is_pause(errno)))
        return -1;
    if (n > 0)
        *have += (size_t)n;
    return *have == sizeof(*h);
}

/* Whether the other end belongs to this meeting. */
static enum answer same_place(const struct meet *m, const struct hello *h)
{
    if (memcmp(h->instance, m->place->instance, sizeof(h->instance)) != 0)
        return OTHER_INSTANCE;
    if (h->round != m->place->round)
        return OTHER_ROUND;
    if (h->comm != m->place->id)
        return OTHER_COMM;
    if (h->world != (uint32_t)m->place->world)
        return OTHER_WORLD;
    return h->to == (uint32_t)m->place->rank ? TAKEN : NO_SUCH_PLACE;
}

/* The index of the awaited peer that `h` comes from, or PEERS_MAX. */
static size_t awaited(const struct meet *m, const struct hello *h)
{
    for (size_t i = 0; i < m->c->npeers; i++)
        if ((uint32_t)m->c->peers[i].rank == h->from && !m->met[i] &&
            m->c->peers[i].rank > m->place->rank)
            return i;
    return PEERS_MAX;
}

static void set_met(struct meet *m, size_t i, int fd)
{
    m->c->peers[i].fd = fd;
    m->met[i] = true;
    m->missing--;
}

/* A connection that came in, and whose hello is whole. */
static void receive(struct meet *m, struct pending *p)
{
    int fd = p->fd;
    size_t i = awaited(m, &p->hello);
    p->fd = -1;
    enum answer answer = same_place(m, &p->hello);
    if (answer == TAKEN && i == PEERS_MAX)
        answer = NO_SUCH_PLACE;
    struct hello reply = our_hello(m, p->hello.from, answer);
    if (say(fd, &reply) && answer == TAKEN)
        set_met(m, i, fd);
    else
        (void)close(fd); /* refused, or gone already */
}

/* As far as it has come: a stranger is not waited for. */
static bool is_ours(const struct pending *p)
{
    return memcmp(p->hello.magic, magic, least(p->have, sizeof(magic))) == 0;
}

static void on_pending(struct meet *m, struct pending *p)
{
    int heard = hear(p->fd, &p->hello, &p->have);
    if (heard < 0 || !is_ours(p)) {
        (void)close(p->fd); /* it gave up, or is a stranger */
        p->fd = -1;
    } else if (heard > 0) {
        receive(m, p);
    }
}

static struct pending *free_slot(struct meet *m)
{
    for (size_t i = 0; i < PENDING_MAX; i++)
        if (m->pending[i].fd < 0)
            return &m->pending[i];
    return NULL;
}

static int on_listener(struct meet *m, struct ddp_err *err)
{
    int fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return ddp_err_sys(err, DDP_E_NOMEM, "accept");
    if (fd < 0)
        return 0; /* it gave up before we came to it */
    sock_tune(fd);
    struct pending *p = free_slot(m);
    ddp_assert(p != NULL); /* else the listener is not polled */
    *p = (struct pending){.fd = fd,
                          .until_us = mono_after(mono_now_us(), HELLO_US)};
    return 0;
}

static int lost_peer(const struct peer *p, struct ddp_err *err)
{
    if (errno == 0)
        return ddp_err_set(err, DDP_E_PEER,
                           "rank %d died or gave up while the ranks met",
                           p->rank);
    return ddp_err_sys(err, DDP_E_PEER,
                       "rank %d died or gave up while the ranks met", p->rank);
}

static int on_answer(struct meet *m, size_t i, struct ddp_err *err)
{
    struct peer *p = &m->c->peers[i];
    const struct hello *h = &m->calling[i].answer;
    bool known = memcmp(h->magic, magic, sizeof(magic)) == 0;
    if (known && h->answer == TAKEN && same_place(m, h) == TAKEN &&
        h->from == (uint32_t)p->rank) {
        set_met(m, i, p->fd);
        return 0;
    }
    return ddp_err_set(
        err, DDP_E_PROTO, "rank %d refused the connection of rank %d: %s",
        p->rank, m->place->rank,
        known ? answer_text(h->answer) : "it speaks another protocol");
}

/* A connection that we make: established, or its answer came. */
static int on_calling(struct meet *m, size_t i, struct ddp_err *err)
{
    struct peer *p = &m->c->peers[i];
    struct calling *call = &m->calling[i];
    if (!call->connected) {
        struct hello h = our_hello(m, (uint32_t)p->rank, 0);
        errno = sock_error(p->fd);
        if (errno != 0 || !say(p->fd, &h))
            return lost_peer(p, err);
        call->connected = true;
        return 0;
    }
    int heard = hear(p->fd, &call->answer, &call->have);
    if (heard < 0)
        return lost_peer(p, err);
    return heard > 0 ? on_answer(m, i, err) : 0;
}

/* -- meeting: the loop ----------------------------------------------------- */

static int too_late(const struct meet *m, struct ddp_err *err)
{
    char ranks[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < m->c->npeers && used < sizeof(ranks) - 16; i++)
        if (!m->met[i])
            used +=
                (size_t)snprintf(ranks + used, sizeof(ranks) - used, "%s%d",
                                 used == 0 ? "" : ", ", m->c->peers[i].rank);
    return ddp_err_set(err, DDP_E_TIMEOUT, "rank %d waited for rank %s in vain",
                       m->place->rank, ranks);
}

/* What comes from one peer. A met one has nothing to say yet but that it is
 * gone; we wait for a lower one that we called. */
static struct pollfd ask(const struct meet *m, size_t i)
{
    const struct peer *p = &m->c->peers[i];
    short events = m->met[i]                 ? POLLRDHUP
                   : m->calling[i].connected ? POLLIN
                                             : POLLOUT;
    return (struct pollfd){.fd = p->fd, .events = events};
}

static int
meet_peers(struct meet *m, const struct pollfd *pfd, struct ddp_err *err)
{
    for (size_t i = 0; i < m->c->npeers; i++) {
        errno = 0;
        if (pfd[i].revents == 0)
            continue;
        if (m->met[i])
            return lost_peer(&m->c->peers[i], err);
        if (on_calling(m, i, err) != 0)
            return -1;
    }
    return 0;
}

static void meet_pending(struct meet *m, const struct pollfd *pfd)
{
    int64_t now_us = mono_now_us();
    for (size_t i = 0; i < PENDING_MAX; i++) {
        struct pending *p = &m->pending[i];
        if (p->fd >= 0 && p->fd == pfd[i].fd && pfd[i].revents != 0)
            on_pending(m, p);
        if (p->fd >= 0 && now_us >= p->until_us) {
            (void)close(p->fd); /* it says nothing */
            p->fd = -1;
        }
    }
}

static int meet_step(struct meet *m, struct ddp_err *err)
{
    struct pollfd pfd[PEERS_MAX + PENDING_MAX + 1];
    struct pollfd *pending = pfd + m->c->npeers;
    int64_t wake_us = m->deadline_us;
    for (size_t i = 0; i < m->c->npeers; i++)
        pfd[i] = ask(m, i);
    for (size_t i = 0; i < PENDING_MAX; i++) {
        pending[i] = (struct pollfd){.fd = m->pending[i].fd, .events = POLLIN};
        if (m->pending[i].fd >= 0)
            wake_us = mono_min(wake_us, m->pending[i].until_us);
    }
    pending[PENDING_MAX] = (struct pollfd){
        .fd = free_slot(m) == NULL ? -1 : m->listener, .events = POLLIN};
    int n = poll(pfd, m->c->npeers + PENDING_MAX + 1, rt_poll_ms(wake_us));
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return ddp_err_sys(err, DDP_E_NOMEM, "poll");
    if (n <= 0)
        return 0;
    meet_pending(m, pending);
    if (meet_peers(m, pfd, err) != 0)
        return -1;
    return pending[PENDING_MAX].revents == 0 ? 0 : on_listener(m, err);
}

/* -- meeting: addresses ---------------------------------------------------- */

#define ADDR_MAX (NI_MAXHOST + NI_MAXSERV + 2) /* "address port" */

static void
store_key(char *key, size_t len, const struct comm_place *place, int rank)
{
    (void)snprintf(key, /* four short fields: fits */
                   len, "ddp/%s/%lld/comm%u/%d", place->instance,
                   (long long)place->round, place->id, rank);
}

/* Listens where the store sees us, and writes "address port" into `text`. */
static int listen_near(struct meet *m,
                       struct store *store,
                       char *text,
                       struct ddp_err *err)
{
    struct sockaddr_storage addr;
    struct sockaddr *sa = (struct sockaddr *)&addr;
    socklen_t len;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (store_local_addr(store, &addr, &len, m->deadline_us, err) != 0)
        return -1;
    if (addr.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&addr)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&addr)->sin_port = 0;
    m->listener =
        socket(addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (m->listener < 0 || bind(m->listener, sa, len) != 0 ||
        listen(m->listener, SOMAXCONN) != 0 ||
        getsockname(m->listener, sa, &len) != 0)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot listen for the other ranks");
    int rc = getnameinfo(sa, len, host, sizeof(host), port, sizeof(port),
                         NI_NUMERICHOST | NI_NUMERICSERV);
    if (rc != 0)
        return ddp_err_set(err, DDP_E_CONFIG, "own address: %s",
                           gai_strerror(rc));
    (void)snprintf(text, ADDR_MAX, "%s %s", host, port); /* fits */
    return 0;
}

static int bad_addr(int rank, const char *text, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_PROTO,
                       "the address of rank %d in the store is '%.80s'", rank,
                       text);
}

/* Begins to connect to a peer whose "address port" is `text`. */
static int call(struct meet *m, size_t i, char *text, struct ddp_err *err)
{
    struct peer *p = &m->c->peers[i];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *to = NULL;
    char *port = strchr(text, ' ');
    if (port == NULL)
        return bad_addr(p->rank, text, err);
    *port++ = '\0';
    if (getaddrinfo(text, port, &hints, &to) != 0)
        return bad_addr(p->rank, text, err);
    p->fd =
        socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = -1;
    if (p->fd < 0) {
        (void)ddp_err_sys(err, DDP_E_NOMEM, "socket");
    } else {
        sock_tune(p->fd);
        rc = connect(p->fd, to->ai_addr, to->ai_addrlen);
        if (rc != 0 && errno == EINPROGRESS)
            rc = 0;
        if (rc != 0)
            (void)lost_peer(p, err);
    }
    freeaddrinfo(to);
    return rc;
}

static int call_lower(struct meet *m, struct store *store, struct ddp_err *err)
{
    char key[128], text[ADDR_MAX];
    for (size_t i = 0; i < m->c->npeers; i++) {
        size_t len;
        int rank = m->c->peers[i].rank;
        if (rank > m->place->rank)
            continue;
        store_key(key, sizeof(key), m->place, rank);
        if (store_get(store, key, text, sizeof(text) - 1, &len, m->deadline_us,
                      err) != 0)
            return ddp_err_wrap(err, "waiting for rank %d", rank);
        text[len] = '\0';
        if (call(m, i, text, err) != 0)
            return -1;
    }
    return 0;
}

static int meet_all(struct meet *m, struct store *store, struct ddp_err *err)
{
    char key[128], text[ADDR_MAX];
    if (listen_near(m, store, text, err) != 0)
        return -1;
    store_key(key, sizeof(key), m->place, m->place->rank);
    if (store_set(store, key, text, strlen(text), m->deadline_us, err) != 0 ||
        call_lower(m, store, err) != 0)
        return -1;
    while (m->missing > 0) {
        if (mono_now_us() >= m->deadline_us)
            return too_late(m, err);
        if (meet_step(m, err) != 0)
            return -1;
    }
    return 0;
}

/* -- making one ------------------------------------------------------------ */

static struct peer *add_peer(struct comm_cpu *c, int rank)
{
    struct peer *p = peer_of(c, rank);
    if (p != NULL)
        return p;
    ddp_assert(c->npeers < PEERS_MAX);
    p = &c->peers[c->npeers++];
    *p = (struct peer){.rank = rank, .fd = -1};
    return p;
}

static void add_peers(struct comm_cpu *c)
{
    int rank = c->base.rank;
    int world = c->base.world;
    c->core = 1;
    while (c->core <= world / 2)
        c->core *= 2;
    if (world == 1)
        return;
    c->prev = add_peer(c, (rank + world - 1) % world);
    c->next = add_peer(c, (rank + 1) % world);
    for (int bit = 1; rank < c->core && bit < c->core; bit *= 2)
        (void)add_peer(c, rank ^ bit);
    if (rank >= c->core)
        (void)add_peer(c, rank - c->core);
    else if (rank + c->core < world)
        (void)add_peer(c, rank + c->core);
}

static int meet(struct comm_cpu *c,
                const struct comm_place *place,
                struct store *store,
                int64_t deadline_us,
                struct ddp_err *err)
{
    struct meet *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory to meet the ranks");
    *m = (struct meet){.c = c,
                       .place = place,
                       .listener = -1,
                       .missing = c->npeers,
                       .deadline_us = deadline_us};
    for (size_t i = 0; i < PENDING_MAX; i++)
        m->pending[i].fd = -1;
    int rc = meet_all(m, store, err);
    for (size_t i = 0; i < PENDING_MAX; i++)
        if (m->pending[i].fd >= 0)
            (void)close(m->pending[i].fd); /* strangers */
    if (m->listener >= 0)
        (void)close(m->listener); /* all are here, or it failed */
    free(m);
    return rc;
}

struct ddp_comm *comm_cpu_new(const struct comm_place *place,
                              struct store *store,
                              int64_t deadline_us,
                              struct ddp_err *err)
{
    struct comm_cpu *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        (void)ddp_err_set(err, DDP_E_NOMEM, "no memory for a communicator");
        return NULL;
    }
    c->base = (struct ddp_comm){.ops = &cpu_ops,
                                .rank = place->rank,
                                .world = place->world,
                                .timeout_us = MONO_NEVER};
    add_peers(c);
    c->scratch = malloc(CHUNK);
    c->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = 0;
    if (c->scratch == NULL || c->abort_fd < 0)
        rc = ddp_err_sys(err, DDP_E_NOMEM, "a communicator");
    else if (c->npeers > 0)
        rc = meet(c, place, store, deadline_us, err);
    if (rc == 0)
        return &c->base;
    cpu_del(&c->base);
    return NULL;
}
