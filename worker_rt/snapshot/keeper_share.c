/*
 * worker_rt/snapshot/keeper_share: how one snapshot, which one rank offers,
 * gets to all ranks.
 *
 * Happy path. Each rank looks into its node's memory: if it holds an image with
 * the offered label and the offered header checksum, the bytes are the same
 * (the header has the checksums of all tensors), and the rank reads them there.
 * The ranks tell each other who lacks it. If none does, the reader reads its
 * own, and no data is sent. If all do, the reader broadcasts it. Else the
 * ranks that lack it meet the reader on a communicator of their own: nothing
 * passes through the other nodes. At the end all tell how it went.
 *
 * Failure modes. An image in memory is damaged: the rank lacks it. What the
 * reader sends is damaged, or not what was offered: those that receive it say
 * so, and all ranks take the next offer. The reader's disk fails in the middle:
 * it goes on with zeros, which fit no checksum. A rank has no memory, or wants
 * other tensors than there are: all fail with its error. A rank dies: the
 * collective that all take part in fails on every rank.
 */
#include "worker_rt/snapshot/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/meet.h"

#define MEET_MS (60 * 1000) /* all of them have just met in a collective */

/* What a rank tells of itself. */
enum share_state {
    SHARE_HAS,
    SHARE_LACKS, /* or was given something damaged */
    SHARE_FAILED
};

int keeper_check_offer(const struct keeper_offer *o,
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

/* -- from the memory of this node ------------------------------------------ */

/* The slot with the same bytes; -1: none. The label says which snapshot it is,
 * the checksum of its header that all its tensors are the same. */
static int find_slot(const struct mem_slots *m, const struct keeper_offer *o)
{
    for (int i = 0; i < m->count; i++) {
        struct slot_label label;
        const uint8_t *image = mem_slots_image(m, i);
        if (mem_slots_read(m, i, &label) && label.step == o->step &&
            label.round == o->round && label.len == (uint64_t)o->len &&
            label.len > SNAPSHOT_DIGITS_AT + SNAPSHOT_DIGITS &&
            memcmp(label.instance, o->who, SNAPSHOT_DIR_WHO) == 0 &&
            memcmp(image + SNAPSHOT_DIGITS_AT, o->sum, SNAPSHOT_DIGITS) == 0)
            return i;
    }
    return -1;
}

static int read_slot_of(const struct mem_slots *m,
                        struct keeper_share *s,
                        const struct snapshot_wanted *wanted,
                        struct ddp_err *err)
{
    int slot = find_slot(m, s->offer);
    if (slot < 0)
        return 1;
    struct snapshot_source from = {keeper_read_slot, mem_slots_image(m, slot),
                                   (uint64_t)s->offer->len};
    int rc = snapshot_read(&from, wanted, &s->fence, err);
    if (rc == 0)
        rc = keeper_check_offer(s->offer, &s->fence, err);
    return rc == 0 || err->code != DDP_E_CORRUPT ? rc : 1;
}

/* 0: loaded, 1: not there, -1: an error. The node's first rank has that memory
 * open; the others open it for this. No rank saves before all have loaded. */
static int read_local(struct keeper_share *s,
                      const struct snapshot_wanted *wanted,
                      struct ddp_err *err)
{
    struct ddp_keeper *k = s->k;
    struct mem_slots theirs;
    struct ddp_err why;
    if (k->memory.count > 0)
        return read_slot_of(&k->memory, s, wanted, err);
    if (!k->peeks || mem_slots_open(&theirs, k->d->memory_fd, &why) != 0)
        return 1;
    int rc = read_slot_of(&theirs, s, wanted, err);
    mem_slots_close(&theirs);
    return rc;
}

/* -- one rank reads, others receive ---------------------------------------- */

struct shared_read {
    struct ddp_comm *comm;
    int root;                           /* the reader's rank in it */
    const struct snapshot_source *from; /* the reader's; NULL: no more */
    struct ddp_err failed;              /* why it stopped */
    bool is_lost;                       /* nothing can be received any more */
};

/* A source's `read` on all of them. A reader that fails goes on with zeros,
 * which fit no checksum, so that all find the snapshot damaged. */
static int read_piece(
    void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    struct shared_read *a = ctx;
    bool reads = a->comm->rank == a->root;
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
    if (comm_broadcast(a->comm, data, len, a->root, err) == 0)
        return 0;
    a->is_lost = true;
    return -1;
}

/* 0: loaded. 1: it was damaged. -1: an error. */
static int read_shared(struct keeper_share *s,
                       struct ddp_comm *comm,
                       int root,
                       const struct snapshot_wanted *wanted,
                       struct ddp_err *err)
{
    struct keeper_opened o = {.fd = -1};
    struct shared_read a = {.comm = comm, .root = root};
    ddp_assert(root >= 0 && root < comm->world);
    bool reads = comm->rank == root;
    /* A peer may say that we offered something when we have nothing. */
    if (reads && s->mine != NULL &&
        keeper_open(s->k, s->mine, &o, &a.failed) == 0)
        a.from = &o.from;
    struct snapshot_source shared = {read_piece, &a, (uint64_t)s->offer->len};
    int rc = snapshot_read(&shared, wanted, &s->fence, err);
    if (rc == 0)
        rc = keeper_check_offer(s->offer, &s->fence, err);
    keeper_close(&o);
    if (rc == 0 || a.is_lost || err->code != DDP_E_CORRUPT)
        return rc;
    if (reads && s->mine != NULL && a.from == NULL)
        *err = a.failed;
    return 1;
}

/* No rank needs to be sent anything. */
static int read_own(struct keeper_share *s,
                    const struct snapshot_wanted *wanted,
                    struct ddp_err *err)
{
    struct keeper_opened o;
    if (s->mine == NULL) /* see read_shared */
        (void)ddp_err_set(err, DDP_E_CORRUPT, "this rank has none");
    if (s->mine == NULL || keeper_open(s->k, s->mine, &o, err) != 0)
        return 1;
    int rc = snapshot_read(&o.from, wanted, &s->fence, err);
    if (rc == 0)
        rc = keeper_check_offer(s->offer, &s->fence, err);
    keeper_close(&o);
    if (rc == 0)
        return 0;
    return err->code == DDP_E_CORRUPT || err->code == DDP_E_IO ? 1 : -1;
}

/* -- a few ranks ----------------------------------------------------------- */

/* The reader and those that lack it, by their order in the world. */
static int read_among(struct keeper_share *s,
                      uint32_t id,
                      const struct snapshot_wanted *wanted,
                      struct ddp_err *err)
{
    struct ddp *d = s->k->d;
    const struct ddp_comm *all = s->k->comm;
    struct comm_place place = {.instance = d->instance,
                               .round = d->round,
                               .id = id,
                               .spans_nodes = d->world > d->local_world};
    int root = 0;
    for (int r = 0; r < all->world; r++) {
        if (r == all->rank)
            place.rank = place.world;
        if (r == s->reader)
            root = place.world;
        place.world += r == s->reader || s->states[r] == SHARE_LACKS;
    }
    struct ddp_comm *few =
        comm_cpu_new(&place, &d->store, rt_deadline(MEET_MS), err);
    int rc = -1;
    if (few != NULL) {
        few->timeout_us = all->timeout_us;
        rc = read_shared(s, few, root, wanted, err);
        few->ops->leave(few);
        few->ops->del(few);
    } else if (err->code == DDP_E_NOMEM) {
        comm_meet_give_up(&place, &d->store, err);
    }
    return rc >= 0 ? rc : ddp_err_wrap(err, "among the ranks that lack it");
}

/* -- all ranks ------------------------------------------------------------- */

/* Tells all ranks how it went here. -1: one failed, and `err` says why. `*lack`
 * becomes how many lack it. Collective. */
static int
tell_state(struct keeper_share *s, int rc, int *lack, struct ddp_err *err)
{
    struct ddp_comm *comm = s->k->comm;
    struct ddp_err lost;
    int64_t mine = rc < 0 ? SHARE_FAILED : rc > 0 ? SHARE_LACKS : SHARE_HAS;
    if (comm_allgather(comm, &mine, sizeof(mine), s->states, &lost) != 0) {
        bool own =
            rc < 0 && (err->code == DDP_E_NOMEM || err->code == DDP_E_USAGE);
        if (!own) /* it names the rank that is to blame */
            *err = lost;
        return -1;
    }
    *lack = 0;
    for (int r = 0; r < comm->world; r++) {
        if (s->states[r] == SHARE_HAS)
            continue;
        (*lack)++;
        if (s->states[r] == SHARE_LACKS)
            continue;
        if (keeper_agree(comm, rc < 0 ? -1 : 0, err) != 0)
            return -1;
        return ddp_err_set(err, DDP_E_PROTO,
                           "rank %d failed to load it, and does not say why",
                           r);
    }
    return 0;
}

int keeper_share(struct keeper_share *s,
                 const struct snapshot_wanted *wanted,
                 struct ddp_err *err)
{
    struct ddp *d = s->k->d;
    struct ddp_comm *comm = s->k->comm;
    bool reads = comm->rank == s->reader;
    int lack, rc = reads ? 0 : read_local(s, wanted, err);
    if (tell_state(s, rc, &lack, err) != 0)
        return -1;
    lack -= s->states[s->reader] == SHARE_HAS ? 0 : 1; /* it offered it */
    s->states[s->reader] = SHARE_HAS;
    bool takes_part = reads || s->states[comm->rank] == SHARE_LACKS;
    bool all = lack == comm->world - 1;
    /* Ranks count their communicators alike, those that they are not in, too.
     */
    uint32_t id = lack > 0 && !all ? d->comms++ : 0;
    if (!takes_part)
        rc = 0;
    else if (lack == 0)
        rc = read_own(s, wanted, err);
    else
        rc = all ? read_shared(s, comm, s->reader, wanted, err)
                 : read_among(s, id, wanted, err);
    if (rc > 0)
        s->refused = *err;
    if (tell_state(s, rc, &lack, err) != 0)
        return -1;
    s->refuser = 0;
    while (s->refuser < comm->world && s->states[s->refuser] == SHARE_HAS)
        s->refuser++;
    s->found_whole = s->states[s->reader] == SHARE_HAS;
    return lack > 0 ? 1 : 0;
}
