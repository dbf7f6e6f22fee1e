#include "worker_rt/keeper/commit.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct commit_words) == 11 * sizeof(int64_t), "no gaps");
_Static_assert(sizeof(struct commit_label) == 6 * sizeof(int64_t), "no gaps");

static const struct commit_save none = {.slot = -1, .number = -1, .step = -1};

static void check_save(const struct commit *c, const struct commit_save *s)
{
    ddp_assert(s->slot >= -1 && s->slot < MEM_SLOTS_SHARED);
    ddp_assert(s->number >= -1 && s->number <= c->save);
    ddp_assert(s->number >= 0 || s->slot < 0);
}

static void check(const struct commit *c)
{
    check_save(c, &c->last);
    check_save(c, &c->whole);
    check_save(c, &c->mirrored);
    check_save(c, &c->sent);
    check_save(c, &c->trusted);
    ddp_assert(c->sent.number < 0 || c->sent.number > c->mirrored.number);
    ddp_assert(c->save >= 0 && c->for_disk >= -1 && c->on_disk >= -1);
}

void commit_init(struct commit *c)
{
    *c = (struct commit){.for_disk = -1, .on_disk = -1};
    commit_forget(c);
}

struct commit_words commit_say(const struct commit *c,
                               int64_t step,
                               bool disk,
                               int sealed,
                               int64_t written)
{
    check(c);
    return (struct commit_words){
        .step = step,
        .minus_step = -step,
        .disk = disk,
        .minus_disk = -(int64_t)disk,
        .sealed = c->last.slot >= 0 && c->last.slot == sealed,
        .written = c->for_disk >= 0 && c->for_disk_save == written,
        .minus_save = -c->save,
    };
}

/* What no rank has alone is on two nodes as soon as it is whole, also where
 * there are no mirrors. */
static void hear_of_mirrors(struct commit *c, const struct commit_words *all)
{
    c->alone = all->minus_alone != 0;
    if (all->mirror == COMMIT_MIRROR_DONE && c->sent.number >= 0)
        c->mirrored = c->sent;
    if (all->mirror != COMMIT_MIRROR_BUSY)
        c->sent = none;
    if (!c->alone && all->sealed == 1 && c->sent.number < 0)
        c->mirrored = c->whole;
    else if (all->mirror == COMMIT_MIRROR_OFF)
        c->mirrored = none;
}

/* What the words tell of earlier saves holds whatever becomes of this one. The
 * number of a save is the same on all ranks, also if a save before came to an
 * end on some of them only. */
enum commit_verdict commit_hear(struct commit *c,
                                const struct commit_words *all)
{
    if (all->sealed == 1)
        c->whole = c->last;
    if (all->sealed == 1 && c->last.number == c->compared)
        c->trusted = c->last;
    if (all->written == 1) {
        c->on_disk = c->for_disk;
        c->on_disk_save = c->for_disk_save;
    }
    hear_of_mirrors(c, all);
    check(c);
    if (all->ready != 1)
        return COMMIT_NOT_READY;
    if (all->step != -all->minus_step)
        return COMMIT_STEPS_DIFFER;
    if (all->disk != -all->minus_disk)
        return COMMIT_DISKS_DIFFER;
    c->save = 1 - all->minus_save;
    return COMMIT_GOES_ON;
}

/* What a worker before left is not sent: it was, or its like will be soon. Nor
 * is any save sent twice, so that its number is that of one transfer. */
bool commit_send(struct commit *c)
{
    check(c);
    if (!c->alone || c->sent.number >= 0 || c->whole.number <= c->tried)
        return false;
    c->sent = c->whole;
    c->tried = c->whole.number;
    return true;
}

bool commit_make_room(struct commit *c, bool disk)
{
    bool full = c->mirrored.number >= 0 && c->sent.number >= 0 &&
                c->whole.number != c->mirrored.number &&
                c->whole.number != c->sent.number;
    if (full && disk)
        c->mirrored = none;
    return !full || disk;
}

/* < 0: `a` was saved before `b`. What another instance left is the oldest. */
static int by_age(const struct commit_label *a, const struct commit_label *b)
{
    if (a->there != b->there)
        return a->there < b->there ? -1 : 1;
    if (a->own != b->own)
        return a->own < b->own ? -1 : 1;
    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    if (a->save != b->save)
        return a->save < b->save ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

static bool is_needed(const struct commit *c, int slot)
{
    return slot == c->whole.slot || slot == c->mirrored.slot ||
           slot == c->sent.slot || slot == c->trusted.slot;
}

void commit_agreed(struct commit *c)
{
    c->compared = c->save;
}

void commit_give_up_trusted(struct commit *c)
{
    c->trusted.slot = -1;
}

/* The oldest: if the save before is not whole, it may be of use all the same,
 * since other ranks may have copies of what is missing. */
int commit_pick(const struct commit *c,
                const struct commit_label labels[MEM_SLOTS_SHARED],
                int writing)
{
    int best = -1;
    int n = c->trusted.slot >= 0 ? MEM_SLOTS_SHARED : SNAPSHOT_SLOTS_NEEDED;
    check(c);
    for (int i = 0; i < n; i++)
        if (!is_needed(c, i) && i != writing &&
            (best < 0 || by_age(&labels[i], &labels[best]) < 0))
            best = i;
    return best;
}

void commit_take_over(struct commit *c, int slot, int64_t step)
{
    ddp_assert(c->last.number < 0 && c->whole.number < 0);
    c->whole = (struct commit_save){.slot = slot, .number = 0, .step = step};
    c->mirrored = c->whole; /* it may be all there is where a node was lost */
    check(c);
}

void commit_began(struct commit *c, int slot, int64_t step, bool disk)
{
    ddp_assert(slot < 0 || !is_needed(c, slot));
    c->last =
        (struct commit_save){.slot = slot, .number = c->save, .step = step};
    if (disk) {
        c->for_disk = step;
        c->for_disk_save = c->save;
    }
    check(c);
}

void commit_forget(struct commit *c)
{
    commit_distrust(c);
    c->trusted = none;
}

void commit_distrust(struct commit *c)
{
    c->last = c->whole = c->mirrored = c->sent = none;
}

int commit_find(const struct commit_label labels[MEM_SLOTS_SHARED],
                const struct commit_label *wanted)
{
    int i = 0;
    while (
        i < MEM_SLOTS_SHARED &&
        (!labels[i].there || memcmp(&labels[i], wanted, sizeof(*wanted)) != 0))
        i++;
    return i < MEM_SLOTS_SHARED ? i : -1;
}

struct commit_label
commit_common(const struct commit_label (*labels)[MEM_SLOTS_SHARED], int world)
{
    struct commit_label best = {0};
    for (int i = 0; i < MEM_SLOTS_SHARED; i++) {
        const struct commit_label *l = &labels[0][i];
        int r = 0;
        while (r < world && commit_find(labels[r], l) >= 0)
            r++;
        if (r == world && by_age(&best, l) < 0)
            best = *l;
    }
    return best;
}
