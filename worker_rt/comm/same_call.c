#include "worker_rt/comm/same_call.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/wire.h"

_Static_assert(sizeof(struct same_call) == 32, "no gaps");

bool same_call_wanted(void)
{
    const char *text = getenv("DDP_CHECK");
    return text != NULL && strcmp(text, "1") == 0;
}

static const char *name_of(int64_t kind)
{
    return kind == WIRE_ALLREDUCE   ? "all-reduce"
           : kind == WIRE_BROADCAST ? "broadcast"
           : kind == WIRE_ALLGATHER ? "all-gather"
                                    : "another collective";
}

static int differ(int rank,
                  const struct same_call *zero,
                  const struct same_call *r,
                  struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "rank 0 and rank %d are in different collectives: "
                       "%s of length %lld, dtype %lld, root %lld, and %s of "
                       "length %lld, dtype %lld, root %lld",
                       rank, name_of(zero->kind), (long long)zero->len,
                       (long long)zero->dtype, (long long)zero->root,
                       name_of(r->kind), (long long)r->len, (long long)r->dtype,
                       (long long)r->root);
}

/* All ranks find the same one, from the same numbers. */
int same_call_check(struct ddp_comm *control,
                    const struct same_call *mine,
                    struct ddp_err *err)
{
    struct same_call *all = calloc((size_t)control->world, sizeof(*all));
    if (all == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the ranks");
    int rc = control->ops->allgather(control, mine, sizeof(*mine), all, err);
    for (int r = 1; rc == 0 && r < control->world; r++)
        if (memcmp(&all[r], &all[0], sizeof(all[0])) != 0)
            rc = differ(r, &all[0], &all[r], err);
    free(all);
    return rc;
}
