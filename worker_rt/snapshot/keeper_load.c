/*
 * worker_rt/snapshot/keeper_load: how all ranks go on from one snapshot.
 *
 * Each rank that holds snapshots (its node's memory, its folder's files) looks
 * for its newest whole one. All offer each other what they have, and all see
 * which one is the newest. The rank that has this snapshot reads it for the
 * ranks that lack it (keeper_share). Every rank checks the sums. So no shared
 * file system is needed, and all end with the same bytes.
 *
 * Happy path: begin, make_offer, gather_offers, choose, keeper_share, once
 * each.
 *
 * Failure modes. A rank has one of a newer libddp: an error on all of them,
 * since an older one may not be taken for it. What is sent is damaged, or not
 * of the step that was offered: the reader strikes it off its list, and all
 * begin again, at most REFUSED_MAX times, since what was offered had been
 * looked at. A rank dies: the collective fails on all of them. No rank has a
 * snapshot: NOINPUT, a fresh start.
 */
#include "worker_rt/snapshot/keeper.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/abi.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/snapshot/snapshot.h"

#define REFUSED_MAX 16 /* attempts with what proved damaged */

/* What an offer says besides that there is something, 1, or nothing more. */
enum {
    OFFER_NEWER = 2, /* one of a newer libddp */
    OFFER_NO_MEMORY  /* one that cannot be looked at for want of memory */
};

/* -- what this rank has ---------------------------------------------------- */

struct keeper_load {
    struct ddp_keeper *k;
    struct keeper_candidate *list;
    size_t n;
    size_t at; /* the first that has not been struck off */
    int refused;
    char why[512];               /* what was wrong with the first refused */
    struct keeper_offer *offers; /* (world) */
    int64_t *states;             /* (world): keeper_share */
};

static void strike_off(struct keeper_load *l, const struct ddp_err *why)
{
    ddp_assert(l->at < l->n);
    const struct keeper_candidate *c = &l->list[l->at++];
    if (l->refused++ > 0)
        return;
    if (c->slot >= 0)
        (void)snprintf(l->why, sizeof(l->why), "step %lld in memory: %.400s",
                       (long long)c->label.step, why->text);
    else
        (void)snprintf(l->why, sizeof(l->why), "%.200s/%s: %.200s",
                       l->k->folder, c->file.name, why->text);
}

/* As its name or label says. */
static struct keeper_offer describe(const struct keeper_candidate *c)
{
    bool memory = c->slot >= 0;
    struct keeper_offer o = {
        .has = 1,
        .memory = memory,
        .round = memory ? c->label.round : c->file.round,
        .step = memory ? c->label.step : c->file.step,
    };
    memcpy(o.who, memory ? c->label.instance : c->file.who, SNAPSHOT_DIR_WHO);
    return o;
}

/* The first candidate that is whole, as an offer. */
static struct keeper_offer make_offer(struct keeper_load *l)
{
    static const struct snapshot_wanted nothing;
    struct snapshot_fence fence;
    struct ddp_err why;
    for (; l->at < l->n; strike_off(l, &why)) {
        struct keeper_candidate *c = &l->list[l->at];
        struct keeper_opened o;
        if (keeper_open(l->k, c, &o, &why) != 0)
            continue;
        keeper_stripes_fetch(l->k, c, &o);
        int rc = snapshot_read(&o.from, &nothing, &fence, &why);
        keeper_close(&o);
        struct keeper_offer offer = describe(c);
        if (rc != 0 && why.code == DDP_E_CONFIG) {
            offer.has = OFFER_NEWER;
            return offer;
        }
        if (rc != 0 && why.code == DDP_E_NOMEM) { /* it may be whole */
            offer.has = OFFER_NO_MEMORY;
            return offer;
        }
        if (rc != 0 || keeper_check_offer(&offer, &fence, &why) != 0)
            continue;
        offer.own = strcmp(fence.instance, l->k->d->instance) == 0;
        offer.len = (int64_t)o.from.size;
        memcpy(offer.sum, fence.sum, sizeof(offer.sum));
        keeper_stripes_label(l->k, c, &fence);
        return offer;
    }
    return (struct keeper_offer){0};
}

/* The rank with the newest; -1: no rank has any. What this instance wrote comes
 * first; else what the first rank that has something goes by, since snapshots
 * of different runs cannot be compared. */
static int choose(const struct keeper_load *l)
{
    int world = l->k->comm->world, best = -1;
    bool own = false;
    const char *who = NULL;
    for (int r = 0; r < world; r++) {
        own = own || (l->offers[r].has && l->offers[r].own);
        if (l->offers[r].has && who == NULL)
            who = l->offers[r].who;
    }
    for (int r = 0; r < world; r++) {
        const struct keeper_offer *o = &l->offers[r],
                                  *b = &l->offers[best < 0 ? 0 : best];
        bool fits =
            own ? o->own
                : who != NULL && memcmp(o->who, who, SNAPSHOT_DIR_WHO) == 0;
        if (!o->has || !fits)
            continue;
        char rule[SNAPSHOT_DIR_WHO + 1] = "";
        memcpy(rule, o->who, SNAPSHOT_DIR_WHO);
        int newer = best < 0 ? 1
                             : snapshot_dir_newer(rule, b->round, b->step,
                                                  o->round, o->step);
        if (newer > 0 || (newer == 0 && o->memory > b->memory))
            best = r;
    }
    ddp_assert(best < 0 || l->offers[best].has == 1);
    return best;
}

/* -- load ------------------------------------------------------------------ */

/* No rank has a whole one: a fresh start, unless one has a damaged one. */
static int nothing_found(struct keeper_load *l, struct ddp_err *err)
{
    int rc = 0;
    if (l->refused > 0)
        rc = ddp_err_set(err, DDP_E_CORRUPT,
                         "no undamaged snapshot is left, %d refused: %.400s",
                         l->refused, l->why);
    if (keeper_agree(l->k->comm, rc, err) != 0)
        return -1;
    return ddp_err_set(err, DDP_E_NOINPUT, "there is no snapshot%s%.200s",
                       l->k->folder == NULL ? "" : " in ",
                       l->k->folder == NULL ? "" : l->k->folder);
}

/* The reasons of the first rank that refused something, told to all. */
static int share_why(struct keeper_load *l, char why[512], struct ddp_err *err)
{
    struct ddp_err said;
    int rc = 0;
    if (l->refused > 0)
        rc = ddp_err_set(&said, DDP_E_CORRUPT, "%.500s", l->why);
    why[0] = '\0';
    if (keeper_agree(l->k->comm, rc, &said) == 0)
        return 0;
    if (said.code != DDP_E_CORRUPT) {
        *err = said;
        return -1;
    }
    memcpy(why, said.text, sizeof(said.text));
    return 0;
}

/* A peer's words: it goes into messages, too. */
static bool makes_sense(const struct keeper_offer *o)
{
    size_t digits = 0;
    while (digits < sizeof(o->who) && o->who[digits] != '\0' &&
           strchr("0123456789abcdef", o->who[digits]) != NULL)
        digits++;
    return o->has == 1 && o->step >= 0 && o->round >= 0 && o->len >= 0 &&
           digits == sizeof(o->who);
}

/* The offers of all ranks; one that makes no sense counts as none. */
static int gather_offers(struct keeper_load *l, struct ddp_err *err)
{
    struct ddp_comm *comm = l->k->comm;
    keeper_stripes_begin_load(l->k);
    struct keeper_offer mine = make_offer(l);
    keeper_stripes_end_load(l->k);
    if (comm_allgather(comm, &mine, sizeof(mine), l->offers, err) != 0)
        return -1;
    for (int r = 0; r < comm->world; r++) {
        struct keeper_offer *o = &l->offers[r];
        if (o->has == OFFER_NO_MEMORY)
            return ddp_err_set(err, DDP_E_NOMEM,
                               "rank %d has no memory to look at that of step "
                               "%lld",
                               r, (long long)o->step);
        if (o->has == OFFER_NEWER)
            return ddp_err_set(err, DDP_E_CONFIG,
                               "rank %d has one of step %lld that a newer "
                               "libddp wrote: use that version",
                               r, (long long)o->step);
        if (!makes_sense(o))
            *o = (struct keeper_offer){0};
    }
    return 0;
}

/* No snapshot is good enough for all: the rank that reads a snapshot and the
 * rank that gets it do not agree about the sums, and only one of the two is
 * right. */
static int give_up(const struct keeper_share *share, struct ddp_err *err)
{
    if (!share->found_whole)
        return ddp_err_set(err, DDP_E_PROTO,
                           "the snapshots that rank %d reads for the "
                           "others are never those that it offered",
                           share->reader);
    return ddp_err_set(err, DDP_E_PROTO,
                       "rank %d finds damaged what rank %d finds whole and "
                       "sends: check memory and network of their machines",
                       share->refuser, share->reader);
}

static int load(struct keeper_load *l,
                const struct snapshot_wanted *wanted,
                struct ddp_kept *info,
                struct ddp_err *err)
{
    struct keeper_share share = {.k = l->k, .states = l->states};
    const struct snapshot_fence *fence = &share.fence;
    int reader = 0, rc = 1;
    for (int i = 0; rc == 1; i++) {
        if (i == REFUSED_MAX)
            return give_up(&share, err);
        if (gather_offers(l, err) != 0)
            return -1;
        reader = choose(l);
        if (reader < 0)
            return nothing_found(l, err);
        share.reader = reader;
        share.offer = &l->offers[reader];
        /* A peer may say that we offered something when we have nothing. */
        bool mine = reader == l->k->comm->rank && l->at < l->n;
        share.mine = mine ? &l->list[l->at] : NULL;
        keeper_ranks_begin(l->k); /* not the states of one that was refused */
        rc = keeper_share(&share, wanted, err);
        /* What only another rank refuses is offered again. */
        if (rc > 0 && mine && !share.found_whole)
            strike_off(l, &share.refused);
    }
    if (rc != 0)
        return ddp_err_wrap(err, "snapshot of step %lld",
                            (long long)l->offers[reader].step);
    info->step = l->offers[reader].step;
    info->memory = l->offers[reader].memory == 1;
    info->rank = reader;
    info->round = rt_fence_round(fence->round);
    memcpy(info->instance, fence->instance, sizeof(info->instance));
    info->foreign = strcmp(fence->instance, l->k->d->instance) != 0;
    return share_why(l, info->why, err);
}

/* What this rank has, and room for the offers of all. */
static int begin(struct keeper_load *l, struct ddp_err *err)
{
    l->offers = calloc((size_t)l->k->comm->world, sizeof(*l->offers));
    l->states = calloc((size_t)l->k->comm->world, sizeof(*l->states));
    if (l->offers == NULL || l->states == NULL)
        return snapshot_no_memory(err);
    return keeper_find(l->k, &l->list, &l->n, err);
}

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

static int load_all(struct ddp_keeper *k,
                    const struct snapshot_wanted *given,
                    struct ddp_kept *info,
                    struct ddp_error *err)
{
    struct ddp_err why;
    struct ddp_kept full = {.size = 0};
    struct keeper_load l = {.k = k};
    struct keeper_place ctx = {k, given->place, given->place_ctx};
    struct snapshot_wanted wanted = *given;
    wanted.place = place_one;
    wanted.place_ctx = &ctx;
    int rc = snapshot_check_wanted(&wanted, &why);
    keeper_ranks_begin(k); /* nor those of the load before */
    if (rc == 0)
        rc = begin(&l, &why);
    rc = keeper_agree(k->comm, rc, &why);
    if (rc == 0)
        rc = load(&l, &wanted, &full, &why);
    if (info != NULL)
        abi_give(info, &full, sizeof(full), ABI_KEPT_MIN);
    bool fresh = rc != 0 && why.code == DDP_E_NOINPUT;
    free(l.list);
    free(l.offers);
    free(l.states);
    struct ddp_err other;
    int own = keeper_ranks_end(k, rc == 0, &other);
    if (own == 0 && (rc == 0 || fresh))
        own = keeper_own(k, &other);
    if ((rc == 0 || fresh) && keeper_agree(k->comm, own, &other) != 0) {
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
    return load_all(k, &wanted, info, err);
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
    return load_all(k, &wanted, info, err);
}
