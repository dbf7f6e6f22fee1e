/*
 * worker_rt/snapshot/keeper_agree: all ranks fail if one does.
 *
 * Failure modes: a rank dies, and the collective fails on all of them; a rank
 * says that it failed, and nothing that makes sense of why.
 */
#include "worker_rt/snapshot/keeper.h"

#include <string.h>

#include "worker_rt/comm/comm.h"

/* A peer's words: a code that there is, and a line that ends. */
static void tidy(struct ddp_err *err)
{
    unsigned code = (unsigned)err->code;
    err->text[sizeof(err->text) - 1] = '\0';
    if (code == DDP_E_OK || code >= DDP_E_COUNT)
        (void)ddp_err_set(err, DDP_E_PROTO, "it failed and does not say why");
    for (char *c = err->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

/* What is in memory behind the words is sent to nobody. */
static void clear_rest(struct ddp_err *err)
{
    size_t n = strnlen(err->text, sizeof(err->text));
    memset(err->text + n, 0, sizeof(err->text) - n);
}

/* The lowest rank that failed; the world's size: none did. Nothing is
 * allocated: a rank that has no memory must be able to say so. */
static int find_failed(struct ddp_comm *comm, bool failed, struct ddp_err *err)
{
    int64_t first = failed ? comm->rank : comm->world;
    const struct comm_call call = {.kind = WIRE_ALLREDUCE,
                                   .in = &first,
                                   .out = &first,
                                   .count = 1,
                                   .dtype = DDP_I64,
                                   .elem = sizeof(first),
                                   .op = DDP_MIN};
    if (comm->ops->call(comm, &call, err) != 0)
        return -1;
    if (first >= 0 && first <= comm->world && (!failed || first <= comm->rank))
        return (int)first;
    return ddp_err_set(err, DDP_E_PROTO,
                       "the ranks do not say which of them failed");
}

int keeper_same_step(int64_t zero, int rank, int64_t step, struct ddp_err *err)
{
    if (step == zero)
        return 0;
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "rank 0 saves step %lld, but rank %d saves step %lld: "
                       "all ranks have to save the same steps",
                       (long long)zero, rank, (long long)step);
}

/* Two collectives at most: the first that failed, and its words. If all is
 * well, the second is not needed. */
int keeper_agree(struct ddp_comm *comm, int rc, struct ddp_err *err)
{
    struct ddp_err own;
    ddp_assert(rc == 0 || err->code != DDP_E_OK);
    int first = find_failed(comm, rc != 0, &own);
    if (first == comm->world)
        return 0;
    if (rc == 0)
        memset(err, 0, sizeof(*err)); /* of another rank */
    else
        clear_rest(err);
    if (first < 0 ||
        comm_broadcast(comm, err, sizeof(*err), first, &own) != 0) {
        if (rc == 0 || err->code != DDP_E_NOMEM)
            *err = own;
        return -1;
    }
    if (first != comm->rank || rc == 0) {
        tidy(err);
        (void)ddp_err_wrap(err, "rank %d", first);
    }
    return -1;
}
