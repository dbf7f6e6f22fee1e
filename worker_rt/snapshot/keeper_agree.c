/*
 * worker_rt/snapshot/keeper_agree: all ranks fail if one does.
 *
 * Failure modes: a rank dies, and the collective fails on all of them; a rank
 * says that it failed, and nothing that makes sense of why.
 */
#include "worker_rt/snapshot/keeper.h"

#include <stdlib.h>
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

/* Two collectives at most: the codes of all ranks, and the words of the first
 * that failed. If all is well, the second is not needed. */
int keeper_agree(struct ddp_comm *comm, int rc, struct ddp_err *err)
{
    int64_t code = rc == 0 ? 0 : err->code;
    ddp_assert((rc == 0) == (code == DDP_E_OK));
    int64_t *all = calloc((size_t)comm->world, sizeof(*all));
    if (all == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the ranks");
    struct ddp_err own;
    int first = 0;
    if (comm_allgather(comm, &code, sizeof(code), all, &own) != 0)
        first = -1;
    while (first >= 0 && first < comm->world && all[first] == 0)
        first++;
    free(all);
    if (first == comm->world)
        return 0;
    if (first >= 0 && first != comm->rank)
        memset(err, 0, sizeof(*err));
    if (first < 0 ||
        comm_broadcast(comm, err, sizeof(*err), first, &own) != 0) {
        *err = own;
        return -1;
    }
    if (first != comm->rank) {
        tidy(err);
        (void)ddp_err_wrap(err, "rank %d", first);
    }
    return -1;
}
