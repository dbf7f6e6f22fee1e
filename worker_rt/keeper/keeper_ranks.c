/*
 * worker_rt/keeper/keeper_ranks: state that each rank has for itself, such as
 * that of its random generator. It travels in the snapshot of all as one more
 * tensor, a row for each rank: 8 bytes (little-endian) with its length and one
 * more, or 0 for a rank that has none, then the bytes.
 *
 * Happy path: a save gathers the rows of all ranks, and has them in one more
 * tensor; a load brings them back to every rank, of whatever world they are.
 *
 * Failure modes. A rank dies while the rows are gathered: the save fails, on
 * all ranks. The ranks have rows of different lengths: CONFLICT on all of
 * them, from the communicator. A snapshot
 * has none, or a tensor of that name that is something else: no rank has a
 * state of its own.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"

#define PREFIX  sizeof(uint64_t)
#define ALL_MAX ((uint64_t)1 << 30) /* bytes of all rows */

static void put_number(uint8_t *at, uint64_t n)
{
    for (size_t i = 0; i < PREFIX; i++)
        at[i] = (uint8_t)(n >> (8 * i));
}

static uint64_t get_number(const uint8_t *at)
{
    uint64_t n = 0;
    for (size_t i = 0; i < PREFIX; i++)
        n |= (uint64_t)at[i] << (8 * i);
    return n;
}

int keeper_ranks_open(struct ddp_keeper *k, size_t max, struct ddp_err *err)
{
    struct keeper_ranks *r = &k->ranks;
    size_t world = (size_t)k->comm->world;
    if (max == 0)
        return 0;
    if (max > ALL_MAX / world - PREFIX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "rank_state_max is %zu, must be at most %llu in a "
                           "world of size %zu",
                           max, (unsigned long long)(ALL_MAX / world - PREFIX),
                           world);
    r->mine = calloc(1, PREFIX + max);
    r->all = calloc(world, PREFIX + max);
    if (r->mine == NULL || r->all == NULL)
        return snapshot_no_memory(err);
    r->max = max;
    return 0;
}

static void forget_loaded(struct keeper_ranks *r)
{
    free(r->loaded);
    r->loaded = NULL;
    r->loaded_world = r->loaded_row = 0;
    r->failed = false;
}

void keeper_ranks_free(struct ddp_keeper *k)
{
    forget_loaded(&k->ranks);
    free(k->ranks.mine);
    free(k->ranks.all);
    k->ranks = (struct keeper_ranks){0};
}

int ddp_keeper_set_rank_state(struct ddp_keeper *k,
                              const void *data,
                              size_t len,
                              struct ddp_error *err)
{
    struct keeper_ranks *r = &k->ranks;
    struct ddp_err why;
    if (r->max == 0 || len > r->max || (data == NULL && len > 0)) {
        (void)ddp_err_set(&why, DDP_E_USAGE,
                          "the state of this rank has %zu bytes at %p, but the "
                          "keeper was made with rank_state_max = %zu",
                          len, data, r->max);
        return rt_fail(err, &why);
    }
    put_number(r->mine, len + 1);
    if (len > 0)
        memcpy(r->mine + PREFIX, data, len);
    memset(r->mine + PREFIX + len, 0, r->max - len);
    return 0;
}

/* -- save ------------------------------------------------------------------ */

int keeper_ranks_gather(struct ddp_keeper *k,
                        struct ddp_tensor *rows,
                        struct ddp_err *err)
{
    const struct ddp_comm *comm = k->comm;
    struct keeper_ranks *r = &k->ranks;
    ddp_assert(r->max > 0);
    if (comm_allgather(k->comm, r->mine, PREFIX + r->max, r->all, err) != 0)
        return ddp_err_wrap(err, "the states of the ranks");
    *rows =
        (struct ddp_tensor){.name = SNAPSHOT_RANKS,
                            .dtype = DDP_U8,
                            .dims = 2,
                            .shape = {(uint64_t)comm->world, PREFIX + r->max},
                            .data = r->all};
    return 0;
}

/* -- load ------------------------------------------------------------------ */

void keeper_ranks_begin(struct ddp_keeper *k)
{
    forget_loaded(&k->ranks);
}

bool keeper_ranks_place(struct ddp_keeper *k,
                        const struct ddp_tensor *t,
                        void **place)
{
    struct keeper_ranks *r = &k->ranks;
    if (strcmp(t->name, SNAPSHOT_RANKS) != 0)
        return false;
    uint64_t len = ddp_tensor_len(t);
    forget_loaded(r); /* of one that proved damaged */
    *place = NULL;
    if (r->max == 0)
        return true; /* no program's tensor, though nobody wants them */
    if (t->dtype != DDP_U8 || t->dims != 2 || t->shape[1] < PREFIX ||
        len == 0 || len > ALL_MAX)
        return true;
    r->loaded = malloc((size_t)len);
    r->failed = r->loaded == NULL;
    if (!r->failed) {
        r->loaded_world = t->shape[0];
        r->loaded_row = t->shape[1];
    }
    *place = r->loaded;
    return true;
}

int keeper_ranks_end(struct ddp_keeper *k, bool loaded, struct ddp_err *err)
{
    bool failed = k->ranks.failed;
    if (!loaded || failed)
        forget_loaded(&k->ranks);
    return loaded && failed ? snapshot_no_memory(err) : 0;
}

const void *
ddp_keeper_rank_state(const struct ddp_keeper *k, int rank, size_t *len)
{
    const struct keeper_ranks *r = &k->ranks;
    *len = 0;
    if (r->loaded == NULL || rank < 0 || (uint64_t)rank >= r->loaded_world)
        return NULL;
    const uint8_t *row = r->loaded + (uint64_t)rank * r->loaded_row;
    uint64_t n = get_number(row);
    if (n == 0 || n - 1 > r->loaded_row - PREFIX)
        return NULL;
    *len = (size_t)(n - 1);
    return row + PREFIX;
}
