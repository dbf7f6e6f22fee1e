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
 * The law of labels (worker_rt/proof) holds for each part: a rank says that its
 * part is there when all that its own state rests on has completed.
 *
 * Failure modes. A part is missing, since a copy or a collective failed: no
 * label, and the first rank's next save says which rank it was. A rank dies:
 * the join fails on all ranks, and there is no label. The first rank has no
 * memory, or has given it up: it saves alone, as without stripes.
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

int keeper_stripes_open(struct ddp_keeper *k, bool on, struct ddp_err *err)
{
    struct keeper_stripes *s = &k->stripes;
    int rc = 0;
    s->parts = 1;
    s->on = on;
    if (!on)
        return 0;
    if (leader_of(k) < 0)
        rc = ddp_err_set(err, DDP_E_USAGE,
                         "stripes: the ranks of a node are not side by side");
    else if (!leads(k) && k->d->memory_fd >= 0)
        rc = mem_slots_open(&s->theirs, k->d->memory_fd, err);
    s->offers = calloc((size_t)k->comm->world, sizeof(*s->offers));
    s->states = calloc((size_t)k->comm->world, sizeof(*s->states));
    if (rc == 0 && (s->offers == NULL || s->states == NULL))
        rc = snapshot_no_memory(err);
    return keeper_agree(k->comm, rc, err);
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
    if (o->slot < 1 || o->slot > MEM_SLOTS_SHARED)
        return;
    s->parts = k->d->local_world;
    s->differs = (uint64_t)o->len != len ||
                 (!leads(k) && len > mem_slots_room(&s->theirs));
    if (!s->differs)
        s->slot = (int)o->slot - 1;
}

int keeper_stripes_offer(struct ddp_keeper *k,
                         int slot,
                         uint64_t len,
                         struct ddp_err *err)
{
    struct ddp_comm *comm = k->comm;
    const struct stripes_offer mine = {leads(k) ? slot + 1 : 0, (int64_t)len};
    if (comm_allgather(comm, &mine, sizeof(mine), k->stripes.offers, err) != 0)
        return ddp_err_wrap(err, "the parts of a snapshot");
    take_part(k, &k->stripes.offers[leader_of(k)], len);
    return 0;
}

/* -- the join -------------------------------------------------------------- */

/* Checksums on their way stand one behind the other from the image's first
 * byte: the header, which comes there, has them all and more. */
static char *digits_of(const struct ddp_keeper *k, size_t t)
{
    const struct mem_slots *slots = leads(k) ? &k->memory : &k->stripes.theirs;
    return (char *)mem_slots_image(slots, k->stripes.slot) +
           t * SNAPSHOT_DIGITS;
}

static void put_sums(const struct ddp_keeper *k, const struct image *m)
{
    for (size_t t = 0; t < m->ntensors; t++)
        if (keeper_stripes_mine(k, m, t))
            memcpy(digits_of(k, t), image_digits(m, t), SNAPSHOT_DIGITS);
}

static void take_sums(const struct ddp_keeper *k, struct image *m)
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

void keeper_stripes_close(struct ddp_keeper *k)
{
    free(k->stripes.offers);
    free(k->stripes.states);
    if (!k->device.lost) /* else the driver may still write there */
        mem_slots_close(&k->stripes.theirs);
}
