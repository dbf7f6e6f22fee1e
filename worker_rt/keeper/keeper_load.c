/*
 * worker_rt/keeper/keeper_load: the public calls that load, around what finds
 * and reads a snapshot on all ranks (keeper_gather).
 *
 * Failure modes. What one rank wants makes no sense: an error on all of them.
 * The folder cannot be taken over after the load: the same, since later saves
 * would fail.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdlib.h>

#include "worker_rt/abi.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/keeper/keeper_gather.h"
#include "worker_rt/snapshot/snapshot.h"

/* The states of the ranks are the keeper's own; the program says where the rest
 * goes. */
struct keeper_place {
    struct ddp_keeper *k;
    ddp_place_fn *place;
    void *ctx;
};

static void *place_one(void *ctx, const struct ddp_tensor *t)
{
    struct keeper_place *p = ctx;
    void *place;
    if (keeper_ranks_place(p->k, t, &place))
        return place;
    return p->place == NULL ? NULL : p->place(p->ctx, t);
}

/* The rank that lists the folder knows it; all launchers shall. Collective. */
static int tell_barren(struct ddp_keeper *k, struct ddp_err *err)
{
    int64_t launches = k->found_barren;
    if (k->folder == NULL)
        return 0;
    if (comm_allreduce(k->comm, &launches, 1, DDP_I64, DDP_MAX, err) != 0)
        return -1;
    rt_tell_barren(k->d, launches);
    return 0;
}

/* Pieces are asked for by `fn`; NULL: none are. */
static int load_all(struct ddp_keeper *k,
                    const struct snapshot_wanted *given,
                    ddp_want_fn *fn,
                    void *fn_ctx,
                    struct ddp_kept *info,
                    struct ddp_error *err)
{
    struct ddp_err why;
    struct ddp_kept full = {.size = 0};
    struct keeper_place ctx = {k, given->place, given->place_ctx};
    struct snapshot_wanted wanted = *given;
    wanted.place = place_one;
    wanted.place_ctx = &ctx;
    const struct gather_wanted pieces = {&wanted, fn, fn_ctx};
    int rc = snapshot_check_wanted(&wanted, &why);
    keeper_ranks_begin(k); /* nor those of the load before */
    rc = keeper_agree(k->comm, rc, &why);
    if (rc == 0)
        rc = keeper_gather(k, &pieces, &full, &why);
    if (info != NULL)
        abi_give(info, &full, sizeof(full), ABI_KEPT_MIN);
    bool fresh = rc != 0 && why.code == DDP_E_NOINPUT;
    struct ddp_err other;
    int own = keeper_ranks_end(k, rc == 0, &other);
    if (own == 0 && (rc == 0 || fresh))
        own = keeper_own(k, &other);
    if ((rc == 0 || fresh) && (keeper_agree(k->comm, own, &other) != 0 ||
                               tell_barren(k, &other) != 0)) {
        why = other;
        rc = -1;
    }
    return rc == 0 ? 0 : rt_fail(err, &why);
}

int ddp_keeper_load(struct ddp_keeper *k,
                    const struct ddp_tensor *tensors,
                    size_t ntensors,
                    struct ddp_kv *meta,
                    size_t nmeta,
                    struct ddp_kept *info,
                    struct ddp_error *err)
{
    const struct snapshot_wanted wanted = {
        .tensors = tensors, .ntensors = ntensors, .meta = meta, .nmeta = nmeta};
    return load_all(k, &wanted, NULL, NULL, info, err);
}

int ddp_keeper_load_into(struct ddp_keeper *k,
                         ddp_place_fn *place,
                         void *ctx,
                         struct ddp_kv *meta,
                         size_t nmeta,
                         struct ddp_kept *info,
                         struct ddp_error *err)
{
    const struct snapshot_wanted wanted = {
        .meta = meta, .nmeta = nmeta, .place = place, .place_ctx = ctx};
    return load_all(k, &wanted, NULL, NULL, info, err);
}

int ddp_keeper_load_pieces(struct ddp_keeper *k,
                           ddp_want_fn *fn,
                           void *ctx,
                           struct ddp_kv *meta,
                           size_t nmeta,
                           struct ddp_kept *info,
                           struct ddp_error *err)
{
    const struct snapshot_wanted wanted = {.meta = meta, .nmeta = nmeta};
    return load_all(k, &wanted, fn, ctx, info, err);
}
