/*
 * worker_rt/comm/cpu: the collectives over TCP.
 *
 * Shape. Each rank has these neighbours: the two on the ring, and those of a
 * hypercube over the first P ranks, P being the largest power of two that fits;
 * a rank r >= P hangs on rank r - P. Much data goes round the ring (each byte
 * is sent twice, whatever the world), little goes over the hypercube (log2 W
 * messages). Reduce-scatter goes round the ring always.
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
#include "worker_rt/comm/head.h"
#include "worker_rt/comm/reduce.h"
#include "worker_rt/comm/wire.h"
#include "worker_rt/own_part.h"

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
                        reduce_fn *combine,
                        struct ddp_err *err)
{
    struct wire *w = &c->wire;
    int rank = c->base.rank;
    bool outside = rank >= c->core;
    struct wire_peer *twin =
        wire_peer(w, outside ? rank - c->core : rank + c->core);
    size_t len = n * elem;
    ddp_assert(len <= WIRE_CHUNK); /* the scratch */
    struct wire_xfer none = {0};
    if (outside) {
        struct wire_xfer out = wire_message(w, twin, 0, data, len);
        struct wire_xfer in = wire_message(w, twin, 1, data, len);
        return wire_exchange(w, &out, &none, err) == 0
                   ? wire_exchange(w, &none, &in, err)
                   : -1;
    }
    if (twin != NULL) {
        struct wire_xfer in = wire_message(w, twin, 0, w->scratch, len);
        if (wire_exchange(w, &none, &in, err) != 0)
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
    if (twin == NULL)
        return 0;
    struct wire_xfer out = wire_message(w, twin, 1, data, len);
    return wire_exchange(w, &out, &none, err);
}

/* -- much data: the ring --------------------------------------------------- */

static void go_round(struct comm_cpu *c)
{
    c->wire.head.step = HEAD_RING;
}

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

/* Block `number`, as numbers of ranks go round, and how many elements it has.
 */
static uint8_t *
find_block(const struct blocks *b, int number, int world, size_t *n)
{
    size_t i = (size_t)(number + 2 * world) % (size_t)world;
    ddp_assert(number > -2 * world);
    *n = b->base + (i < b->rest ? 1 : 0);
    return b->data + (i * b->base + wire_least(i, b->rest)) * b->elem;
}

static struct wire_xfer block(struct comm_cpu *c,
                              const struct blocks *b,
                              struct wire_peer *peer,
                              int step,
                              int number)
{
    size_t n;
    uint8_t *data = find_block(b, number, c->base.world, &n);
    return wire_message(&c->wire, peer, (uint32_t)step, data, n * b->elem);
}

/* After step s this rank has the sum of s + 2 ranks in block rank - s - 1. */
static int ring_reduce(struct comm_cpu *c,
                       const struct blocks *b,
                       reduce_fn *combine,
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

/*
 * A chain from the root along the ring: a chunk goes on while the next one
 * comes in. The last rank tells the root that it has begun, so that a message
 * goes along each edge of the ring: ranks that differ about the root find out.
 */
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
    for (size_t i = 0; world > 1 && i <= chunks; i++) {
        struct wire_xfer out = {0}, in = {0};
        size_t last = i - (i > 0 ? 1 : 0);
        if (place > 0 && i < chunks)
            in = wire_message(w, c->prev, (uint32_t)i, data + i * WIRE_CHUNK,
                              wire_least(WIRE_CHUNK, len - i * WIRE_CHUNK));
        if (place < world - 1 && i > 0)
            out = wire_message(w, c->next, (uint32_t)last,
                               data + last * WIRE_CHUNK,
                               wire_least(WIRE_CHUNK, len - last * WIRE_CHUNK));
        if (place == 0 && i == chunks)
            in = wire_message(w, c->prev, 0, NULL, 0);
        if (place == world - 1 && i == 0)
            out = wire_message(w, c->next, 0, NULL, 0);
        if (wire_exchange(w, &out, &in, err) != 0)
            return -1;
    }
    return 0;
}

/* -- the collectives ------------------------------------------------------- */

static int
begin(struct comm_cpu *c, const struct comm_call *call, struct ddp_err *err)
{
    if (wire_begin(&c->wire, call, c->base.timeout_us, err) != 0)
        return -1;
    return wire_ask_proof(&c->wire, &c->base.proof, err);
}

static int end(struct comm_cpu *c, int rc, const struct ddp_err *err)
{
    if (rc != 0)
        wire_tell_proof(&c->wire, &c->base.proof, err);
    return wire_end(&c->wire, rc, err);
}

/* No rank passes before the last has come. */
static int barrier(struct comm_cpu *c, enum wire_kind kind, struct ddp_err *err)
{
    const struct comm_call call = {.kind = kind};
    int rc = begin(c, &call, err);
    if (rc == 0)
        rc = cube_combine(c, NULL, 0, 1, reduce_merge, err);
    return end(c, rc, err);
}

static void average(const struct comm_call *call, void *data, size_t n, int w)
{
    if (call->op == DDP_AVG)
        reduce_divide(call->dtype, data, n, w);
}

static int
allreduce(struct comm_cpu *c, const struct comm_call *call, struct ddp_err *err)
{
    int world = c->base.world;
    reduce_fn *combine = reduce_find(call->dtype, call->op);
    struct blocks b = split(call->out, call->count, call->elem, world);
    size_t len = comm_call_len(call);
    if (len > 0 && call->in != call->out)
        memmove(call->out, call->in, len);
    if (len < SMALL_MAX) {
        int rc =
            cube_combine(c, call->out, call->count, call->elem, combine, err);
        if (rc == 0)
            average(call, call->out, call->count, world);
        return rc;
    }
    go_round(c);
    if (ring_reduce(c, &b, combine, err) != 0)
        return -1;
    size_t n;
    uint8_t *own = find_block(&b, c->base.rank + 1, world, &n);
    average(call, own, n, world);
    return ring_gather(c, &b, c->base.rank + 1, err);
}

static int
broadcast(struct comm_cpu *c, const struct comm_call *call, struct ddp_err *err)
{
    size_t len = comm_call_len(call);
    if (len > 0 && len < SMALL_MAX && c->base.rank != call->root)
        memset(call->out, 0, len); /* a bitwise or is a copy then */
    if (len < SMALL_MAX)
        return cube_combine(c, call->out, len, 1, reduce_merge, err);
    go_round(c);
    return ring_broadcast(c, call->out, len, call->root, err);
}

static int
allgather(struct comm_cpu *c, const struct comm_call *call, struct ddp_err *err)
{
    size_t len = comm_call_len(call), world = (size_t)c->base.world;
    size_t total = len * world, before = (size_t)c->base.rank * len;
    uint8_t *all = call->out, *place = all + before;
    if (len > 0)
        memmove(place, call->in, len);
    if (total >= SMALL_MAX) {
        struct blocks b = split(all, world, len, c->base.world);
        go_round(c);
        return ring_gather(c, &b, c->base.rank, err);
    }
    /* All others' places zero: then a bitwise or is a gather. */
    if (len > 0) {
        memset(all, 0, before);
        memset(place + len, 0, total - len - before);
    }
    return cube_combine(c, all, total, 1, reduce_merge, err);
}

/* -- a part for each rank -------------------------------------------------- */

static uint8_t *part_of(const struct comm_call *call, const void *all, int rank)
{
    return (uint8_t *)comm_unconst(all) + (size_t)rank * comm_call_len(call);
}

static void copy(void *to, const void *from, size_t len)
{
    if (len > 0) /* else they may be NULL */
        memcpy(to, from, len);
}

/* The parts go round, each rank adds its own: the sum of part r begins at rank
 * r + 1 and ends at rank r. `room` is for two parts: one comes in while the one
 * before goes out. */
static int pass_sums(struct comm_cpu *c,
                     const struct comm_call *call,
                     uint8_t *room,
                     struct ddp_err *err)
{
    int world = c->base.world, rank = c->base.rank;
    size_t len = comm_call_len(call);
    uint8_t *mine = room, *next = room + len;
    copy(mine, part_of(call, call->in, (rank + world - 1) % world), len);
    for (int s = 1; s < world; s++) {
        int number = (rank + 2 * world - 1 - s) % world;
        struct wire_xfer out =
            wire_message(&c->wire, c->next, (uint32_t)s, mine, len);
        struct wire_xfer in =
            wire_message(&c->wire, c->prev, (uint32_t)s, next, len);
        copy(next, part_of(call, call->in, number), len);
        in.combine = reduce_find(call->dtype, call->op);
        in.elem = call->elem;
        if (wire_exchange(&c->wire, &out, &in, err) != 0)
            return -1;
        uint8_t *sent = mine;
        mine = next;
        next = sent;
    }
    average(call, mine, call->count, world);
    copy(call->out, mine, len);
    return 0;
}

static int reduce_scatter(struct comm_cpu *c,
                          const struct comm_call *call,
                          struct ddp_err *err)
{
    size_t len = comm_call_len(call);
    uint8_t *room = malloc(2 * len + 1);
    if (room == NULL)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for %zu bytes on the way", 2 * len);
    int rc = pass_sums(c, call, room, err);
    free(room);
    return rc;
}

typedef int
move_fn(struct comm_cpu *c, const struct comm_call *call, struct ddp_err *err);

static move_fn *const moves[WIRE_KINDS] = {
    [WIRE_ALLREDUCE] = allreduce,
    [WIRE_BROADCAST] = broadcast,
    [WIRE_ALLGATHER] = allgather,
    [WIRE_REDUCE_SCATTER] = reduce_scatter,
};

static int cpu_call(struct ddp_comm *comm,
                    const struct comm_call *call,
                    struct ddp_err *err)
{
    struct comm_cpu *c = self(comm);
    int64_t since_us = mono_now_us();
    ddp_assert(moves[call->kind] != NULL);
    int rc = begin(c, call, err);
    if (rc == 0)
        rc = moves[call->kind](c, call, err);
    own_part_wait(own_part_here(), mono_now_us() - since_us);
    return end(c, rc, err);
}

static int cpu_barrier(struct ddp_comm *comm, struct ddp_err *err)
{
    int64_t since_us = mono_now_us();
    int rc = barrier(self(comm), WIRE_BARRIER, err);
    own_part_wait(own_part_here(), mono_now_us() - since_us);
    return rc;
}

/* Nothing goes on after a call returned: only whether it is whole. */
static int cpu_wait(struct ddp_comm *comm, struct ddp_err *err)
{
    struct comm_cpu *c = self(comm);
    int rc = wire_attend(&c->wire, comm->timeout_us, err);
    if (rc == 0)
        rc = wire_ask_proof(&c->wire, &comm->proof, err);
    return end(c, rc, err);
}

/* -- the end --------------------------------------------------------------- */

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
    .call = cpu_call,
    .barrier = cpu_barrier,
    .wait = cpu_wait,
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
