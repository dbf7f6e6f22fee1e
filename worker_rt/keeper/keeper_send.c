/*
 * worker_rt/keeper/keeper_send: one rank reads parts of an image for some
 * others, on a communicator of their own, so that nothing passes through the
 * other nodes.
 *
 * Happy path: the ranks that need the same of an image meet the rank that has
 * the image. The first of them asks for it, and the answer comes part by part
 * (ranges), to all of them. They leave.
 *
 * Failure modes. The image is damaged, or the reader's disk fails: the reader
 * says so in the place of the next part. A part comes damaged: the rank hears
 * the rest, so that no rank waits for another one, and then says so. What is
 * asked for makes no sense: PROTO. A rank does not come, or dies: the others
 * fail.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/meet.h"

#define MEET_MS (60 * 1000) /* all of them have just met in a collective */

struct ddp_comm *keeper_meet_few(struct ddp_keeper *k,
                                 uint32_t id,
                                 int rank,
                                 int world,
                                 int turn,
                                 struct ddp_err *err)
{
    struct ddp *d = k->d;
    const struct comm_place place = comm_place_of(d, id, rank, world);
    ddp_assert(turn > 0 && rank >= 0 && rank < world);
    struct ddp_comm *few = comm_cpu_new(
        &place, &d->store, rt_deadline((int64_t)turn * MEET_MS), err);
    if (few != NULL)
        few->timeout_us = k->comm->timeout_us;
    else if (err->code == DDP_E_NOMEM)
        comm_meet_give_up(&place, &d->store, err);
    return few;
}

void keeper_miss_few(struct ddp_keeper *k,
                     uint32_t id,
                     int rank,
                     int world,
                     const struct ddp_err *why)
{
    const struct comm_place place = comm_place_of(k->d, id, rank, world);
    comm_meet_give_up(&place, &k->d->store, why);
}

void keeper_leave_few(struct ddp_comm *few)
{
    if (few == NULL)
        return;
    few->ops->leave(few);
    few->ops->del(few);
}

/* -- what is asked for ----------------------------------------------------- */

int keeper_ask(struct keeper_talk *t,
               const struct ranges_ask *ask,
               const struct image_range *ranges,
               struct ddp_err *err)
{
    struct ranges_ask head = *ask;
    size_t len = (size_t)ask->n * sizeof(*ranges);
    struct image_range *said = malloc(len);
    if (said == NULL)
        return snapshot_no_memory(err);
    memcpy(said, ranges, len);
    int rc = comm_broadcast(t->few, &head, sizeof(head), t->asker, err);
    bool same = rc == 0 && memcmp(&head, ask, sizeof(head)) == 0;
    if (same)
        rc = comm_broadcast(t->few, said, len, t->asker, err);
    if (rc == 0 && (!same || memcmp(said, ranges, len) != 0))
        rc = ddp_err_set(err, DDP_E_PROTO,
                         "the ranks do not agree about what they need");
    free(said);
    return rc == 0 ? ranges_count(ranges, (size_t)ask->n, &t->left, err) : -1;
}

int keeper_hear(struct keeper_talk *t,
                struct ranges_ask *ask,
                struct image_range **ranges,
                struct ddp_err *err)
{
    *ranges = NULL;
    if (comm_broadcast(t->few, ask, sizeof(*ask), t->asker, err) != 0)
        return -1;
    if (ask->n <= 0 || ask->n > (int64_t)SAFETENSORS_TENSORS_MAX)
        return ddp_err_set(err, DDP_E_PROTO,
                           "another rank asks for %lld ranges",
                           (long long)ask->n);
    size_t len = (size_t)ask->n * sizeof(**ranges);
    *ranges = malloc(len);
    if (*ranges == NULL)
        return snapshot_no_memory(err);
    if (comm_broadcast(t->few, *ranges, len, t->asker, err) != 0)
        return -1;
    return ranges_count(*ranges, (size_t)ask->n, &t->left, err);
}

/* -- the answer ------------------------------------------------------------ */

int keeper_talk_open(struct keeper_talk *t, struct ddp_err *err)
{
    t->part = calloc(1, sizeof(*t->part) + RANGES_PART);
    return t->part != NULL ? 0 : snapshot_no_memory(err);
}

void keeper_talk_close(struct keeper_talk *t)
{
    free(t->part);
    t->part = NULL;
}

/* Bytes of data in the next part. */
static size_t next_part(const struct keeper_talk *t)
{
    return t->left < RANGES_PART ? (size_t)t->left : RANGES_PART;
}

static int pass_part(struct keeper_talk *t, struct ddp_err *err)
{
    size_t n = next_part(t);
    if (comm_broadcast(t->few, t->part, sizeof(*t->part) + n, t->root, err) !=
        0) {
        t->is_lost = true;
        return -1;
    }
    t->left -= n;
    return 0;
}

int keeper_put_range(struct keeper_talk *t,
                     const uint8_t *data,
                     uint64_t len,
                     struct ddp_err *err)
{
    while (len > 0) {
        size_t room = next_part(t) - t->have;
        size_t n = len < room ? (size_t)len : room;
        ddp_assert(n > 0); /* no more than was asked for */
        memcpy(t->part->data + t->have, data, n);
        t->have += n;
        data += n;
        len -= n;
        if (t->have < next_part(t))
            continue;
        ranges_seal(t->part, t->have, NULL);
        t->have = 0;
        if (pass_part(t, err) != 0)
            return -1;
    }
    return 0;
}

int keeper_put_damage(struct keeper_talk *t,
                      const struct ddp_err *why,
                      struct ddp_err *err)
{
    size_t n = next_part(t);
    ddp_assert(n > 0);
    memset(t->part->data, 0, n);
    ranges_seal(t->part, n, why);
    return pass_part(t, err);
}

/* All others hear all of it. */
static int hear_out(struct keeper_talk *t, struct ddp_err *err)
{
    struct ddp_err lost;
    while (t->left > 0 && t->part->whole == 1)
        if (pass_part(t, &lost) != 0) {
            *err = lost;
            break;
        }
    return -1;
}

int keeper_get_range(struct keeper_talk *t,
                     uint8_t *to,
                     uint64_t len,
                     struct ddp_err *err)
{
    while (len > 0) {
        if (t->at == t->have) {
            t->at = 0;
            t->have = next_part(t);
            ddp_assert(t->have > 0); /* no more than was asked for */
            if (pass_part(t, err) != 0)
                return -1;
            if (ranges_open(t->part, t->have, err) != 0)
                return hear_out(t, err);
        }
        size_t there = t->have - t->at;
        size_t n = len < there ? (size_t)len : there;
        memcpy(to, t->part->data + t->at, n);
        t->at += n;
        to += n;
        len -= n;
    }
    return 0;
}
