/*
 * worker_rt/snapshot/keeper_stripes: the ranks of a node that share the copy
 * and the sums of a snapshot, each from its own tensors, which are the same:
 * over as many links of GPUs, and with as many cores, as there are ranks. A
 * part is some whole tensors, since a tensor has one checksum.
 *
 * Happy path of a save, all of it collective: the node's first rank, which has
 * the memory, picks a slot; all are told which one (offer), copy their parts,
 * and their sealers sum them up. The next call that saves, settles or waits
 * joins them: each rank puts its checksums into the slot, where the header will
 * be, and says so; the first one makes the header of them, and puts the label.
 *
 * All ranks write the snapshot's file as well (shared_file), once the label is
 * there: the first rank tells the number of that session together with the
 * slot, and ends it with what became of the file. In a load the first rank
 * fetches files into that memory with the others' help, and they read them
 * there.
 *
 * The law of labels (worker_rt/proof) holds for each part: a rank says that its
 * part is there when all that its own state rests on has completed.
 *
 * Failure modes. A part is missing, since a copy or a collective failed: no
 * label, and the first rank's next save says which rank it was. A rank dies:
 * the join fails on all ranks, and there is no label. The first rank has no
 * memory, or has given it up: it saves and loads alone, as without stripes. A
 * rank fails to write its part: no file, and all of the node say why.
 */
#include "worker_rt/snapshot/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"

/* What a rank says of its part. */
enum part_state {
    PART_MISSING,
    PART_THERE, /* or there is none of it */
    PART_DIFFERS
};

static int leader_of(const struct ddp_keeper *k)
{
    return k->d->rank - k->d->node_rank;
}

static bool leads(const struct ddp_keeper *k)
{
    return k->d->node_rank == 0;
}

int keeper_stripes_prepare(struct ddp_keeper *k, bool on, struct ddp_err *err)
{
    struct keeper_stripes *s = &k->stripes;
    s->on = on;
    if (!on)
        return 0;
    if (leader_of(k) < 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "stripes: the ranks of a node are not side by side");
    s->offers = calloc((size_t)k->comm->world, sizeof(*s->offers));
    s->states = calloc((size_t)k->comm->world, sizeof(*s->states));
    if (s->offers == NULL || s->states == NULL)
        return snapshot_no_memory(err);
    if (leads(k) || k->d->memory_fd < 0)
        return 0;
    fork_watch(&s->fork, &s->theirs.fd, 1, 0);
    return mem_slots_open(&s->theirs, k->d->memory_fd, err);
}

static struct mem_slots *node_memory(struct ddp_keeper *k)
{
    return leads(k) ? &k->memory : &k->stripes.theirs;
}

int keeper_stripes_open(struct ddp_keeper *k, struct ddp_err *err)
{
    struct keeper_stripes *s = &k->stripes;
    const struct mem_slots *m = node_memory(k);
    bool has = leads(k) && m->count > 0;
    const struct stripes_offer mine = {.slot = has ? 1 : 0};
    if (!s->on)
        return 0;
    if (has)
        shared_file_clear(m);
    if (comm_allgather(k->comm, &mine, sizeof(mine), s->offers, err) != 0)
        return ddp_err_wrap(err, "the memory of the nodes");
    if (s->offers[leader_of(k)].slot != 1 || m->count == 0)
        return 0;
    shared_file_open(&s->written, m, SHARED_FILE_WRITES, k->d->node_rank,
                     k->d->local_world, leader_of(k));
    shared_file_open(&s->read, m, SHARED_FILE_READS, k->d->node_rank,
                     k->d->local_world, leader_of(k));
    return 0;
}

bool keeper_stripes_mine(const struct ddp_keeper *k,
                         const struct image *m,
                         size_t t)
{
    uint64_t parts = (uint64_t)k->stripes.parts;
    if (parts == 1)
        return true;
    uint64_t middle = image_at(m, t) - image_at(m, 0) + image_size(m, t) / 2;
    uint64_t part = m->data_len == 0 ? 0 : middle * parts / m->data_len;
    return (part < parts ? part : parts - 1) == (uint64_t)k->d->node_rank;
}

/* The part of this rank, by what the first one said. */
static void
take_part(struct ddp_keeper *k, const struct stripes_offer *o, uint64_t len)
{
    struct keeper_stripes *s = &k->stripes;
    s->due = true;
    s->summed = s->differs = false;
    s->slot = -1;
    s->parts = 1;
    s->session = 0;
    if (o->slot < 1 || o->slot > MEM_SLOTS_SHARED)
        return;
    s->parts = k->d->local_world;
    s->differs = (uint64_t)o->len != len ||
                 (!leads(k) && len > mem_slots_room(&s->theirs));
    if (s->differs)
        return;
    s->slot = (int)o->slot - 1;
    s->session = s->written.board == NULL ? 0 : (uint64_t)o->session;
}

int keeper_stripes_offer(struct ddp_keeper *k,
                         int64_t step,
                         int slot,
                         uint64_t len,
                         bool disk,
                         struct ddp_err *err)
{
    struct ddp_comm *comm = k->comm;
    struct shared_file *f = &k->stripes.written;
    bool all_write = disk && leads(k) && slot >= 0 && f->board != NULL;
    const struct stripes_offer mine = {
        .slot = leads(k) ? slot + 1 : 0,
        .len = (int64_t)len,
        .step = step,
        .session = all_write ? (int64_t)++f->session : 0};
    if (comm_allgather(comm, &mine, sizeof(mine), k->stripes.offers, err) != 0)
        return ddp_err_wrap(err, "the parts of a snapshot");
    for (int r = 1; r < comm->world; r++)
        if (keeper_same_step(k->stripes.offers[0].step, r,
                             k->stripes.offers[r].step, err) != 0)
            return -1;
    take_part(k, &k->stripes.offers[leader_of(k)], len);
    return 0;
}

/* -- the join -------------------------------------------------------------- */

/* Checksums on their way stand one behind the other from the image's first
 * byte: the header, which comes there, has them all and more. */
static char *digits_of(struct ddp_keeper *k, size_t t)
{
    return (char *)mem_slots_image(node_memory(k), k->stripes.slot) +
           t * SNAPSHOT_DIGITS;
}

static void put_sums(struct ddp_keeper *k, const struct image *m)
{
    for (size_t t = 0; t < m->ntensors; t++)
        if (keeper_stripes_mine(k, m, t))
            memcpy(digits_of(k, t), image_digits(m, t), SNAPSHOT_DIGITS);
}

static void take_sums(struct ddp_keeper *k, struct image *m)
{
    for (size_t t = 0; t < m->ntensors; t++)
        if (!keeper_stripes_mine(k, m, t))
            memcpy(image_digits(m, t), digits_of(k, t), SNAPSHOT_DIGITS);
}

static int check_parts(const struct ddp_keeper *k, struct ddp_err *err)
{
    const int64_t *states = k->stripes.states;
    int first = leader_of(k);
    for (int r = first; r < first + k->stripes.parts; r++) {
        if (states[r] == PART_THERE)
            continue;
        if (states[r] == PART_DIFFERS)
            return ddp_err_set(err, DDP_E_CONFLICT,
                               "stripes: the tensors of rank %d are not "
                               "those of rank %d",
                               r, first);
        return ddp_err_set(err, DDP_E_PEER,
                           "stripes: rank %d did not copy its part", r);
    }
    return 0;
}

int keeper_stripes_join(struct ddp_keeper *k, struct ddp_err *err)
{
    struct keeper_stripes *s = &k->stripes;
    struct ddp_comm *comm = k->comm;
    bool takes_part = s->parts > 1 && s->slot >= 0;
    int64_t mine = s->differs                 ? PART_DIFFERS
                   : takes_part && !s->summed ? PART_MISSING
                                              : PART_THERE;
    s->due = false;
    if (takes_part && s->summed)
        put_sums(k, &k->slot[s->slot].image);
    if (comm_allgather(comm, &mine, sizeof(mine), s->states, err) != 0)
        return ddp_err_wrap(err, "the parts of a snapshot");
    if (!takes_part || !leads(k))
        return 0;
    if (check_parts(k, err) != 0)
        return -1;
    take_sums(k, &k->slot[s->slot].image);
    return 0;
}

/* -- the disk -------------------------------------------------------------- */

struct stripes_write {
    struct ddp_keeper *k;
    int slot;
};

static int fill(void *ctx, int fd, const char *temp, struct ddp_err *err)
{
    const struct stripes_write *w = ctx;
    struct ddp_keeper *k = w->k;
    return shared_file_lead(&k->stripes.written, &k->memory, w->slot,
                            image_len(&k->slot[w->slot].image), fd, temp,
                            &k->quit, err);
}

int keeper_stripes_put(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    struct stripes_write w = {k, i};
    const struct keeper_slot *slot = &k->slot[i];
    ddp_assert(slot->session > 0 && k->stripes.written.board != NULL);
    if (!leads(k))
        return shared_file_help(&k->stripes.written, &k->stripes.theirs,
                                slot->session, k->dir.fd, &k->quit, err);
    int rc = snapshot_dir_put_by(&k->dir, slot->step, k->keep, fill, &w, err);
    shared_file_end(&k->stripes.written, slot->session, rc, err);
    return rc;
}

void keeper_stripes_drop(struct ddp_keeper *k,
                         uint64_t session,
                         const struct ddp_err *why)
{
    ddp_assert(leads(k));
    if (session > 0)
        shared_file_end(&k->stripes.written, session, -1, why);
}

void keeper_stripes_begin_load(struct ddp_keeper *k)
{
    struct shared_file *f = &k->stripes.read;
    struct ddp_err ignored; /* what the leader finds, it offers to all */
    if (f->board == NULL)
        return;
    f->session++;
    if (!leads(k))
        (void)shared_file_help(f, &k->stripes.theirs, f->session, k->dir.fd,
                               NULL, &ignored);
}

void keeper_stripes_end_load(struct ddp_keeper *k)
{
    struct shared_file *f = &k->stripes.read;
    if (f->board != NULL && leads(k))
        shared_file_end(f, f->session, 0, NULL);
}

/* Without a label, and nobody's; -1: there is none. */
static int free_slot(struct ddp_keeper *k)
{
    struct slot_label label;
    int i = 0, parts = k->stripes.due ? k->stripes.slot : -1;
    (void)pthread_mutex_lock(&k->lock);
    while (i < k->memory.count &&
           (i == k->sealing || i == k->writing || i == parts ||
            mem_slots_read(&k->memory, i, &label)))
        i++;
    (void)pthread_mutex_unlock(&k->lock);
    return i < k->memory.count ? i : -1;
}

void keeper_stripes_fetch(struct ddp_keeper *k,
                          struct keeper_candidate *c,
                          struct keeper_opened *o)
{
    struct shared_file *f = &k->stripes.read;
    struct ddp_err why;
    uint64_t len = o->from.size;
    if (f->board == NULL || !leads(k) || o->fd < 0 || len == 0 ||
        len > mem_slots_room(&k->memory))
        return;
    int i = free_slot(k);
    if (i < 0 || mem_slots_reserve(&k->memory, i, len, &why) != 0 ||
        shared_file_lead(f, &k->memory, i, len, o->fd, c->file.name, NULL,
                         &why) != 0)
        return;
    c->held = i;
    c->label.len = len;
    o->from.read = keeper_read_slot;
    o->from.ctx = mem_slots_image(&k->memory, i);
}

void keeper_stripes_label(struct ddp_keeper *k,
                          const struct keeper_candidate *c,
                          const struct snapshot_fence *f)
{
    if (c->held < 0)
        return;
    struct slot_label label = {
        .len = c->label.len, .round = f->round, .step = c->file.step};
    memcpy(label.instance, f->instance, sizeof(f->instance));
    mem_slots_label(&k->memory, c->held, &label);
}

void keeper_stripes_leave(struct ddp_keeper *k)
{
    shared_file_close(&k->stripes.written);
    shared_file_close(&k->stripes.read);
}

void keeper_stripes_close(struct ddp_keeper *k)
{
    free(k->stripes.offers);
    free(k->stripes.states);
    fork_forget(&k->stripes.fork);
    if (!k->device.lost) /* else the driver may still write there */
        mem_slots_close(&k->stripes.theirs);
}
