/*
 * trainer/peers: who tells of an error, and comparisons over all ranks.
 *
 * Legend:  W  ranks of the job
 */
#include "trainer/peers.h"

#include <stdlib.h>

#include "trainer/ops/fail.h"

int peers_lost(struct trainer *t, struct ddp_error *err)
{
    struct ddp_error why = *err;
    return fail_set(err, why.code, "step %lld: %.400s", (long long)t->at.step,
                    why.text);
}

int peers_fail_alike(struct trainer *t)
{
    t->common = true;
    return -1;
}

int peers_compare(struct trainer *t,
                  const int64_t *mine,
                  int n,
                  struct ddp_error *err)
{
    size_t len = (size_t)n * sizeof(*mine);
    int64_t *all = calloc((size_t)t->world, len); /* (W,n) */
    if (all == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for the ranks");
    int i = 0; /* in (W,n) */
    if (ddp_comm_allgather(t->comm, mine, len, all, err) != 0)
        i = peers_lost(t, err);
    while (i >= 0 && i < t->world * n && all[i] == all[i % n])
        i++;
    free(all);
    return i == t->world * n ? 0 : i;
}
