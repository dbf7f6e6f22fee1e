/*
 * worker_rt/snapshot/keeper_load: how all ranks go on from one snapshot.
 *
 * Each rank that holds snapshots (its node's memory, its folder's files) looks
 * for its newest whole one. All offer each other what they have, and all see
 * which one is the newest. The rank that has it reads it and broadcasts it,
 * piece by piece. Every rank, the reader too, takes the pieces into its own
 * tensors and checks the sums. So no shared file system is needed, and all end
 * with the same bytes.
 *
 * Happy path: list_all, make_offer, gather_offers, choose, read_shared, once
 * each.
 *
 * Failure modes. A rank has one of a newer libddp: an error on all of them,
 * since an older one may not be taken for it. What is sent is damaged, or not
 * of the step that was offered: all ranks find that, the reader strikes it off
 * its list, and they begin again, at most REFUSED_MAX times, since what was
 * offered had been looked at. The reader's disk fails in the middle: it goes on
 * with zeros, which fit no checksum, so that all ranks take the same turn. A
 * rank dies: the collective fails on all of them. No rank has a snapshot:
 * NOINPUT, a fresh start.
 */
#include "worker_rt/snapshot/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker_rt/abi.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/snapshot/snapshot.h"

#define REFUSED_MAX 16 /* attempts with what proved damaged */

/* -- what this rank has ---------------------------------------------------- */

struct candidate {
    int slot; /* -1: a file */
    struct slot_label label;
    struct snapshot_file file;
};

/* What travels; 64-bit members only. */
struct offer {
    int64_t has;    /* 0: nothing (more); 2: one of a newer libddp */
    int64_t memory; /* 1: it lies in memory */
    int64_t own;    /* 1: written by this instance */
    int64_t round;
    int64_t step;
    int64_t len;
    char who[SNAPSHOT_DIR_WHO]; /* the writer */
};
_Static_assert(sizeof(struct offer) == 56, "no gaps");

struct keeper_load {
    struct ddp_keeper *k;
    struct candidate *list;
    size_t n;
    size_t at; /* the first that has not been struck off */
    int refused;
    char why[512];        /* what was wrong with the first refused */
    struct offer *offers; /* (world) */
};

/* Memory that this instance filled, the newest first. What another one left
 * there counts only if there is nothing else. */
static size_t list_memory(struct keeper_load *l, bool own)
{
    const struct ddp_keeper *k = l->k;
    size_t first = l->n;
    for (int i = 0; i < k->memory.count; i++) {
        struct candidate c = {.slot = i};
        if (!mem_slots_read(&k->memory, i, &c.label) ||
            (strcmp(c.label.instance, k->d->instance) == 0) != own)
            continue;
        size_t at = l->n++;
        for (; at > first; at--) {
            const struct slot_label *before = &l->list[at - 1].label;
            if (snapshot_dir_newer(k->d->instance, before->round, before->step,
                                   c.label.round, c.label.step) <= 0)
                break;
            l->list[at] = l->list[at - 1];
        }
        l->list[at] = c;
    }
    return l->n - first;
}

/* Memory and files of one instance in one order: each file goes before the
 * first that is older. */
static void
merge(struct keeper_load *l, const struct snapshot_file *files, size_t n)
{
    const char *mine = l->k->d->instance;
    for (size_t i = 0; i < n; i++) {
        size_t at = l->n;
        if (strncmp(files[i].who, mine, SNAPSHOT_DIR_WHO) == 0)
            while (at > 0 && l->list[at - 1].slot >= 0 &&
                   snapshot_dir_newer(mine, l->list[at - 1].label.round,
                                      l->list[at - 1].label.step,
                                      files[i].round, files[i].step) > 0)
                at--;
        memmove(&l->list[at + 1], &l->list[at], (l->n - at) * sizeof(*l->list));
        l->list[at] = (struct candidate){.slot = -1, .file = files[i]};
        l->n++;
    }
}

static int list_all(struct keeper_load *l, struct ddp_err *err)
{
    struct ddp_keeper *k = l->k;
    struct snapshot_file *files = NULL;
    size_t n = 0;
    if (k->disk != KEEPER_NO_DISK &&
        snapshot_dir_list(&k->dir, &files, &n, err) != 0)
        return ddp_err_wrap(err, "folder '%.200s'", k->folder);
    l->list = calloc(n + 2 * MEM_SLOTS_MAX + 1, sizeof(*l->list));
    l->offers = calloc((size_t)k->comm->world, sizeof(*l->offers));
    int rc = 0;
    if (l->list == NULL || l->offers == NULL) {
        rc = snapshot_no_memory(err);
    } else {
        (void)list_memory(l, true);
        merge(l, files, n);
        (void)list_memory(l, false);
        /* A slot counts twice at most: if another process wrote it meanwhile.
         */
        ddp_assert(l->n <= n + 2 * (size_t)k->memory.count);
    }
    free(files);
    return rc;
}

/* -- reading --------------------------------------------------------------- */

static int read_slot(
    void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    const uint8_t *image = ctx;
    (void)err;
    memcpy(data, image + at, len); /* within `size`: snapshot_read asks so */
    return 0;
}

/* A candidate, opened. */
struct opened {
    int fd; /* -1: it lies in memory */
    struct snapshot_source from;
};

static int open_candidate(struct keeper_load *l,
                          const struct candidate *c,
                          struct opened *o,
                          struct ddp_err *err)
{
    struct ddp_keeper *k = l->k;
    struct stat st;
    ddp_assert(c->slot < k->memory.count);
    o->fd = -1;
    if (c->slot >= 0) {
        o->from = (struct snapshot_source){
            read_slot, mem_slots_image(&k->memory, c->slot), c->label.len};
        return 0;
    }
    o->fd = snapshot_open(k->dir.fd, c->file.name, &st, err);
    if (o->fd < 0)
        return -1;
    o->from = (struct snapshot_source){snapshot_read_fd, &o->fd,
                                       (uint64_t)st.st_size};
    return 0;
}

static void close_candidate(struct opened *o)
{
    if (o->fd >= 0)
        (void)close(o->fd); /* only read */
}

static void strike_off(struct keeper_load *l, const struct ddp_err *why)
{
    ddp_assert(l->at < l->n);
    const struct candidate *c = &l->list[l->at++];
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
static struct offer describe(const struct candidate *c)
{
    bool memory = c->slot >= 0;
    struct offer o = {
        .has = 1,
        .memory = memory,
        .round = memory ? c->label.round : c->file.round,
        .step = memory ? c->label.step : c->file.step,
    };
    memcpy(o.who, memory ? c->label.instance : c->file.who, SNAPSHOT_DIR_WHO);
    return o;
}

/* Whether it is what its name or label, or the rank that has it, says. */
static int check_offer(const struct offer *o,
                       const struct snapshot_fence *f,
                       struct ddp_err *err)
{
    int64_t step = f->step < 0 ? o->step : f->step;
    if (o->step == step && o->round == f->round &&
        memcmp(o->who, f->instance, SNAPSHOT_DIR_WHO) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CORRUPT,
                       "its name says step %lld of round %lld of %.8s, but it "
                       "is step %lld of round %lld of %.8s",
                       (long long)o->step, (long long)o->round, o->who,
                       (long long)step, (long long)f->round, f->instance);
}

/* The first candidate that is whole, as an offer. */
static struct offer make_offer(struct keeper_load *l)
{
    static const struct snapshot_wanted nothing;
    struct snapshot_fence fence;
    struct ddp_err why;
    for (; l->at < l->n; strike_off(l, &why)) {
        const struct candidate *c = &l->list[l->at];
        struct opened o;
        if (open_candidate(l, c, &o, &why) != 0)
            continue;
        int rc = snapshot_read(&o.from, &nothing, &fence, &why);
        close_candidate(&o);
        struct offer offer = describe(c);
        if (rc != 0 && why.code == DDP_E_CONFIG) {
            offer.has = 2;
            return offer;
        }
        if (rc != 0 || check_offer(&offer, &fence, &why) != 0)
            continue;
        offer.own = strcmp(fence.instance, l->k->d->instance) == 0;
        offer.len = (int64_t)o.from.size;
        return offer;
    }
    return (struct offer){0};
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
        const struct offer *o = &l->offers[r],
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

/* -- one rank reads, all receive ------------------------------------------- */

struct shared_read {
    struct ddp_comm *comm;
    int reader;
    const struct snapshot_source *from; /* the reader's; NULL: no more */
    struct ddp_err failed;              /* why it stopped */
    struct ddp_err lost; /* why nothing can be received any more */
    bool is_lost;
};

/* A source's `read` on all ranks. A reader that fails goes on with zeros, which
 * fit no checksum, so that all ranks find the snapshot damaged. */
static int read_piece(
    void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    struct shared_read *a = ctx;
    bool reads = a->comm->rank == a->reader;
    /* The size is what the offer said, in the words of its peers. */
    if (reads && a->from != NULL &&
        (at > a->from->size || len > a->from->size - at)) {
        (void)ddp_err_set(&a->failed, DDP_E_CORRUPT, "the offer is too long");
        a->from = NULL;
    }
    if (reads && a->from != NULL &&
        a->from->read(a->from->ctx, data, len, at, &a->failed) != 0)
        a->from = NULL;
    if (reads && a->from == NULL)
        memset(data, 0, len);
    if (a->comm->ops->broadcast(a->comm, data, len, a->reader, err) == 0)
        return 0;
    a->lost = *err;
    a->is_lost = true;
    return -1;
}

/* 0: loaded. 1: it was damaged, and all ranks found so. -1: an error. */
static int read_shared(struct keeper_load *l,
                       int reader,
                       const struct snapshot_wanted *wanted,
                       struct snapshot_fence *fence,
                       struct ddp_err *err)
{
    struct opened o = {.fd = -1};
    struct shared_read a = {.comm = l->k->comm, .reader = reader};
    bool reads = a.comm->rank == reader;
    ddp_assert(reader >= 0 && reader < a.comm->world);
    /* A peer may say that we offered something when we have nothing. */
    bool has = reads && l->at < l->n;
    if (has && open_candidate(l, &l->list[l->at], &o, &a.failed) == 0)
        a.from = &o.from;
    struct snapshot_source shared = {read_piece, &a,
                                     (uint64_t)l->offers[reader].len};
    int rc = snapshot_read(&shared, wanted, fence, err);
    if (rc == 0)
        rc = check_offer(&l->offers[reader], fence, err);
    bool stopped = reads && a.from == NULL;
    close_candidate(&o);
    if (rc == 0 || a.is_lost)
        return rc;
    if (err->code != DDP_E_CORRUPT)
        return -1;
    if (has)
        strike_off(l, stopped ? &a.failed : err);
    return 1;
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

/* The offers of all ranks; one that makes no sense counts as none. */
static int gather_offers(struct keeper_load *l, struct ddp_err *err)
{
    struct ddp_comm *comm = l->k->comm;
    struct offer mine = make_offer(l);
    if (comm->ops->allgather(comm, &mine, sizeof(mine), l->offers, err) != 0)
        return -1;
    for (int r = 0; r < comm->world; r++) {
        struct offer *o = &l->offers[r];
        if (o->has == 2)
            return ddp_err_set(err, DDP_E_CONFIG,
                               "rank %d has one of step %lld that a newer "
                               "libddp wrote: use that version",
                               r, (long long)o->step);
        if (o->has != 1 || o->step < 0 || o->round < 0 || o->len < 0)
            *o = (struct offer){0};
    }
    return 0;
}

static int load(struct keeper_load *l,
                const struct snapshot_wanted *wanted,
                struct ddp_kept *info,
                struct ddp_err *err)
{
    struct snapshot_fence fence;
    int reader = 0, rc = 1;
    for (int i = 0; rc == 1; i++) {
        if (i == REFUSED_MAX)
            return ddp_err_set(err, DDP_E_PROTO,
                               "the snapshots that rank %d reads for the "
                               "others are never those that it offered",
                               reader);
        if (gather_offers(l, err) != 0)
            return -1;
        reader = choose(l);
        if (reader < 0)
            return nothing_found(l, err);
        rc = read_shared(l, reader, wanted, &fence, err);
    }
    if (rc != 0)
        return ddp_err_wrap(err, "snapshot of step %lld",
                            (long long)l->offers[reader].step);
    info->step = l->offers[reader].step;
    info->memory = l->offers[reader].memory == 1;
    info->rank = reader;
    info->round = rt_fence_round(fence.round);
    memcpy(info->instance, fence.instance, sizeof(info->instance));
    info->foreign = strcmp(fence.instance, l->k->d->instance) != 0;
    return share_why(l, info->why, err);
}

int ddp_keeper_load(struct ddp_keeper *k,
                    const struct ddp_tensor *tensors,
                    size_t ntensors,
                    struct ddp_kv *meta,
                    size_t nmeta,
                    struct ddp_kept *info,
                    struct ddp_error *err)
{
    struct ddp_err why;
    struct ddp_kept full = {.size = 0};
    const struct snapshot_wanted wanted = {tensors, meta, ntensors, nmeta};
    struct keeper_load l = {.k = k};
    int rc = snapshot_check_tensors(tensors, ntensors, &why);
    if (rc == 0)
        rc = list_all(&l, &why);
    rc = keeper_agree(k->comm, rc, &why);
    if (rc == 0)
        rc = load(&l, &wanted, &full, &why);
    if (info != NULL)
        abi_give(info, &full, sizeof(full), ABI_KEPT_MIN);
    bool fresh = rc != 0 && why.code == DDP_E_NOINPUT;
    free(l.list);
    free(l.offers);
    struct ddp_err other;
    if ((rc == 0 || fresh) &&
        keeper_agree(k->comm, keeper_own(k, &other), &other) != 0) {
        why = other;
        rc = -1;
    }
    return rc == 0 ? 0 : rt_fail(err, &why);
}
