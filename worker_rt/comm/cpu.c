/*
 * worker_rt/comm/cpu: all-reduce, broadcast, all-gather and barrier over TCP.
 *
 * Shape. Each rank has these neighbours: the two on the ring, and those of a
 * hypercube over the first P ranks, P being the largest power of two that fits;
 * a rank r >= P hangs on rank r - P. Much data goes round the ring (each byte
 * is sent twice, whatever the world), little goes over the hypercube (log2 W
 * messages).
 *
 * Order. Every sum is made in an order that depends on nothing but ranks: on
 * the ring one rank makes each element's sum and the others get it; on the
 * hypercube both ends of an edge add the lower rank's operand first. So all
 * ranks have the same bits, also of a NaN.
 *
 * Failure modes: those of comm/wire, which finds them. After one the buffer has
 * parts of sums, and the communicator is broken.
 */
#include "worker_rt/comm/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "worker_rt/comm/wire.h"

#define SMALL_MAX ((size_t)32 * 1024) /* below: hypercube, from it: ring */
#define LEAVE_US  (1 * MONO_S)

_Static_assert(SMALL_MAX <= WIRE_CHUNK, "the scratch has room for it");

struct comm_cpu {
    struct ddp_comm base;
    struct wire wire;
    struct wire_peer *prev; /* on the ring; NULL in a world of one */
    struct wire_peer *next;
    int core; /* P: ranks of the hypercube */
};

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

struct wire *comm_cpu_wire(struct ddp_comm *c)
{
    return &self(c)->wire;
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
                        wire_combine_fn *combine,
                        struct ddp_err *err)
{
    struct wire *w = &c->wire;
    int rank = c->base.rank;
    int twin = rank < c->core ? rank + c->core : rank - c->core;
    bool has_twin = twin < c->base.world;
    size_t len = n * elem;
    ddp_assert(len <= WIRE_CHUNK); /* the scratch */
    if (rank >= c->core) {
        if (wire_send(w, twin, 0, data, len, err) != 0)
            return -1;
        return wire_recv(w, twin, 1, data, len, err);
    }
    if (has_twin) {
        if (wire_recv(w, twin, 0, w->scratch, len, err) != 0)
            return -1;
        combine(data, data, w->scratch, n);
    }
    for (int bit = 1; bit < c->core; bit *= 2) {
        struct wire_peer *p = wire_peer(w, rank ^ bit);
        struct wire_xfer out = wire_message(w, p, 2, data, len);
        struct wire_xfer in = wire_message(w, p, 2, w->scratch, len);
        if (wire_exchange(w, &out, &in, err) != 0)
            return -1;
        if (p->rank < rank)
            combine(data, w->scratch, data, n);
        else
            combine(data, data, w->scratch, n);
    }
    return has_twin ? wire_send(w, twin, 1, data, len, err) : 0;
}

/*
 * From the root to all: over the twin's edge into the core if need be, then a
 * binomial tree whose numbers are ranks XOR the root, then out to the twins.
 */
static int cube_broadcast(
    struct comm_cpu *c, void *data, size_t len, int root, struct ddp_err *err)
{
    struct wire *w = &c->wire;
    int rank = c->base.rank;
    int twin = rank < c->core ? rank + c->core : rank - c->core;
    int head = root < c->core ? root : root - c->core; /* the tree's root */
    if (rank >= c->core)
        return rank == root ? wire_send(w, twin, 0, data, len, err)
                            : wire_recv(w, twin, 1, data, len, err);
    if (root >= c->core && rank == head &&
        wire_recv(w, root, 0, data, len, err) != 0)
        return -1;
    int number = rank ^ head;
    int bit = 1;
    while (bit < c->core && (number & bit) == 0)
        bit *= 2;
    /* The lowest set bit leads to the parent, those below it to children. */
    if (number != 0 && wire_recv(w, rank ^ bit, 2, data, len, err) != 0)
        return -1;
    for (bit /= 2; bit > 0; bit /= 2)
        if (wire_send(w, rank ^ bit, 2, data, len, err) != 0)
            return -1;
    if (twin < c->base.world && twin != root)
        return wire_send(w, twin, 1, data, len, err);
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

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct wire_xfer block(struct comm_cpu *c,
                              const struct blocks *b,
                              struct wire_peer *peer,
                              int step,
                              int number)
{
    size_t world = (size_t)c->base.world;
    size_t i = (size_t)(number + 2 * c->base.world) % world;
    ddp_assert(number > -2 * c->base.world);
    size_t start = i * b->base + least(i, b->rest);
    size_t n = b->base + (i < b->rest ? 1 : 0);
    return wire_message(&c->wire, peer, (uint32_t)step,
                        b->data + start * b->elem, n * b->elem);
}

/* After step s this rank has the sum of s + 2 ranks in block rank - s - 1. */
static int ring_reduce(struct comm_cpu *c,
                       const struct blocks *b,
                       wire_combine_fn *combine,
                       struct ddp_err *err)
{
    int rank = c->base.rank;
    for (int s = 0; s < c->base.world - 1; s++) {
        struct wire_xfer out = block(c, b, c->next, s, rank - s);
        struct wire_xfer in = block(c, b, c->prev, s, rank - s - 1);
        in.combine = combine;
        in.elem = b->elem;
        if (wire_exchange(&c->wire, &out, &in, err) != 0)
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
        struct wire_xfer out = block(c, b, c->next, s, first - s);
        struct wire_xfer in = block(c, b, c->prev, s, first - s - 1);
        if (wire_exchange(&c->wire, &out, &in, err) != 0)
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
    struct wire *w = &c->wire;
    int world = c->base.world;
    int place = (c->base.rank - root + world) % world;
    size_t chunks = (len + WIRE_CHUNK - 1) / WIRE_CHUNK;
    for (size_t i = 0; i <= chunks; i++) {
        struct wire_xfer out = {0}, in = {0};
        size_t last = i - (i > 0 ? 1 : 0);
        if (place > 0 && i < chunks)
            in = wire_message(w, c->prev, (uint32_t)i, data + i * WIRE_CHUNK,
                              least(WIRE_CHUNK, len - i * WIRE_CHUNK));
        if (place < world - 1 && i > 0)
            out = wire_message(w, c->next, (uint32_t)last,
                               data + last * WIRE_CHUNK,
                               least(WIRE_CHUNK, len - last * WIRE_CHUNK));
        if (wire_exchange(w, &out, &in, err) != 0)
            return -1;
    }
    return 0;
}

/* -- the collectives ------------------------------------------------------- */

static int begin(struct comm_cpu *c,
                 enum wire_kind kind,
                 int dtype,
                 int root,
                 struct ddp_err *err)
{
    if (wire_begin(&c->wire, kind, dtype, root, c->base.timeout_us, err) != 0)
        return -1;
    return wire_ask_proof(&c->wire, &c->base.proof, err);
}

static int end(struct comm_cpu *c, int rc, const struct ddp_err *err)
{
    if (rc != 0)
        wire_tell_proof(&c->wire, &c->base.proof, err);
    return wire_end(&c->wire, rc, err);
}

/* Combines nothing; no rank passes before the last has come. */
static int barrier(struct comm_cpu *c, enum wire_kind kind, struct ddp_err *err)
{
    int rc = begin(c, kind, 0, 0, err);
    if (rc == 0)
        rc = cube_combine(c, c->wire.scratch, 0, 1, merge_u8, err);
    return end(c, rc, err);
}

static int cpu_allreduce(struct ddp_comm *comm,
                         void *data,
                         size_t count,
                         enum ddp_dtype dtype,
                         struct ddp_err *err)
{
    struct comm_cpu *c = self(comm);
    size_t elem = dtype == DDP_F32 ? 4 : 8;
    wire_combine_fn *sum = dtype == DDP_F32   ? sum_f32
                           : dtype == DDP_F64 ? sum_f64
                                              : sum_i64;
    struct blocks b = split(data, count, elem, comm->world);
    int rc = begin(c, WIRE_ALLREDUCE, (int)dtype, 0, err);
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
    int rc = begin(c, WIRE_BROADCAST, 0, root, err);
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
    int rc = begin(c, WIRE_ALLGATHER, 0, 0, err);
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
    return barrier(self(comm), WIRE_BARRIER, err);
}

static void cpu_abort(struct ddp_comm *comm)
{
    wire_abort(&self(comm)->wire);
}

/* A rank that passes this barrier knows that no other needs its connections.
 * Whatever goes wrong here, the work is done. */
static void cpu_leave(struct ddp_comm *comm)
{
    struct ddp_err ignored;
    comm->timeout_us = LEAVE_US;
    (void)barrier(self(comm), WIRE_LEAVE, &ignored);
}

static void cpu_del(struct ddp_comm *comm)
{
    struct comm_cpu *c = self(comm);
    wire_close(&c->wire);
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

/* -- making one ------------------------------------------------------------ */

static void add_peers(struct comm_cpu *c)
{
    struct wire *w = &c->wire;
    int rank = c->base.rank;
    int world = c->base.world;
    c->core = 1;
    while (c->core <= world / 2)
        c->core *= 2;
    ddp_assert(c->core <= world && world < 2 * c->core);
    if (world == 1)
        return;
    c->prev = wire_add(w, (rank + world - 1) % world);
    c->next = wire_add(w, (rank + 1) % world);
    for (int bit = 1; rank < c->core && bit < c->core; bit *= 2)
        (void)wire_add(w, rank ^ bit);
    if (rank >= c->core)
        (void)wire_add(w, rank - c->core);
    else if (rank + c->core < world)
        (void)wire_add(w, rank + c->core);
}

struct ddp_comm *comm_cpu_new(const struct comm_place *place,
                              struct store_client *store,
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
    wire_init(&c->wire, place->rank, place->world);
    add_peers(c);
    if (wire_open(&c->wire, place, store, deadline_us, err) == 0)
        return &c->base;
    cpu_del(&c->base);
    return NULL;
}
