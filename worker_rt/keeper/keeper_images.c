/*
 * worker_rt/keeper/keeper_images: which images there are, and where.
 *
 * Happy path of find: each rank lists what lies in its part of the node's
 * memory and, if it is the folder's lister, the files there, by labels and
 * names alone; all are told; all sort what they are told in the same way.
 *
 * A rank can open what lies in its node's memory, whichever rank of the node
 * offers it, and files of the folder that it sees. Nobody saves before all have
 * loaded, so nothing changes meanwhile.
 *
 * Failure modes. An offer that makes no sense is dropped, on all ranks. A copy
 * proves damaged: it is struck, on all ranks, and another copy of the same
 * image may be taken. A rank strikes what is struck already: PROTO, or the load
 * would never end.
 */
#include "worker_rt/keeper/keeper_gather.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/comm/comm.h"

/* -- what this rank has ---------------------------------------------------- */

static struct image_offer offer_slot(const struct slot_label *l)
{
    struct image_offer o = {.memory = 1,
                            .round = l->round,
                            .step = l->step,
                            .save = l->save,
                            .rank = l->rank,
                            .world = l->world,
                            .len = (int64_t)l->len};
    memcpy(o.who, l->instance, sizeof(o.who));
    return o;
}

/* One that cannot be read is offered, too: whoever looks at it says why. NOMEM.
 */
static int offer_file(const struct ddp_keeper *k,
                      const struct snapshot_file *f,
                      struct image_offer *o,
                      struct ddp_err *err)
{
    struct snapshot_opened file;
    struct snapshot_header h;
    *o = (struct image_offer){.round = f->round,
                              .step = f->step,
                              .rank = f->rank,
                              .world = f->world,
                              .before = f->before};
    memcpy(o->who, f->who, sizeof(o->who));
    int rc = snapshot_open(&file, k->dir.fd, f->name, err);
    if (rc == 0) { /* what its name does not say */
        o->len = (int64_t)file.from.size;
        rc = snapshot_header_read(&h, &file.from, err);
        snapshot_close(&file);
    }
    if (rc == 0) {
        o->save = h.fence.save;
        snapshot_header_free(&h);
    }
    return rc != 0 && err->code == DDP_E_NOMEM ? -1 : 0;
}

static int make_offers(struct ddp_keeper *k,
                       struct image_offer **offers,
                       size_t *n,
                       struct ddp_err *err)
{
    struct keeper_candidate *list;
    *offers = NULL;
    if (keeper_find(k, &list, n, err) != 0)
        return -1;
    *offers = calloc(*n + 1, sizeof(**offers));
    int rc = *offers == NULL ? snapshot_no_memory(err) : 0;
    for (size_t i = 0; rc == 0 && i < *n; i++)
        if (list[i].slot >= 0)
            (*offers)[i] = offer_slot(&list[i].label);
        else
            rc = offer_file(k, &list[i].file, &(*offers)[i], err);
    free(list);
    return rc;
}

/* -- what all have --------------------------------------------------------- */

/* A peer's words: they go into names and messages, too. */
static bool makes_sense(const struct image_offer *o)
{
    size_t digits = 0;
    while (digits < sizeof(o->who) && o->who[digits] != '\0' &&
           strchr("0123456789abcdef", o->who[digits]) != NULL)
        digits++;
    return digits == sizeof(o->who) && (o->memory == 0 || o->memory == 1) &&
           (o->before == 0 || o->before == 1) && o->round >= 0 &&
           o->step >= 0 && o->save >= 0 && o->len >= 0 && o->world >= 0 &&
           o->world <= INT32_MAX && o->rank >= 0 &&
           (o->rank < o->world || (o->rank == 0 && o->world == 0));
}

/* Snapshots of different runs cannot be compared: this instance's come first,
 * then those of the run that comes first in what the ranks offer. */
static void classify(struct keeper_images *all)
{
    int classes = 1;
    for (size_t i = 0; i < all->n; i++) {
        struct image_copy *c = &all->list[i];
        const char *who = c->offer.who;
        size_t len = sizeof(c->offer.who);
        c->class = memcmp(who, all->k->d->instance, len) == 0 ? 0 : -1;
        for (size_t j = i; c->class < 0 && j > 0; j--)
            if (memcmp(who, all->list[j - 1].offer.who, len) == 0)
                c->class = all->list[j - 1].class;
        if (c->class < 0)
            c->class = classes++;
    }
}

static int by_number(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* By the save, the best first. */
static int by_save(const struct image_copy *a, const struct image_copy *b)
{
    char who[SNAPSHOT_DIR_WHO + 1] = "";
    memcpy(who, a->offer.who, SNAPSHOT_DIR_WHO);
    int order = by_number(a->class, b->class);
    if (order == 0)
        order = snapshot_dir_newer(who, a->offer.round, a->offer.step,
                                   b->offer.round, b->offer.step);
    return order != 0 ? order : by_number(b->offer.save, a->offer.save);
}

static int by_worth(const void *a, const void *b)
{
    const struct image_copy *x = a, *y = b;
    int order = by_save(x, y);
    if (order == 0)
        order = by_number(x->offer.world, y->offer.world);
    if (order == 0)
        order = by_number(x->offer.rank, y->offer.rank);
    if (order == 0)
        order = by_number(y->offer.memory, x->offer.memory);
    return order != 0 ? order : by_number(x->holder, y->holder);
}

/* The words of all ranks as a sorted list. */
static int make_list(struct keeper_images *all,
                     const struct keeper_words *w,
                     struct ddp_err *err)
{
    all->list =
        calloc(w->total / sizeof(struct image_offer) + 1, sizeof(*all->list));
    if (all->list == NULL)
        return snapshot_no_memory(err);
    uint64_t begin = 0;
    for (int r = 0; r < all->k->comm->world; begin += w->lens[r++])
        for (uint64_t at = 0; at + sizeof(struct image_offer) <= w->lens[r];
             at += sizeof(struct image_offer)) {
            struct image_copy *c = &all->list[all->n];
            *c = (struct image_copy){.holder = r};
            memcpy(&c->offer, w->all + begin + at, sizeof(c->offer));
            all->n += makes_sense(&c->offer);
        }
    classify(all);
    qsort(all->list, all->n, sizeof(*all->list), by_worth);
    return 0;
}

int keeper_images_find(struct keeper_images *all,
                       struct ddp_keeper *k,
                       struct ddp_err *err)
{
    struct image_offer *mine = NULL;
    struct keeper_words w;
    size_t n = 0;
    *all = (struct keeper_images){.k = k};
    all->regions = calloc((size_t)k->d->local_world, sizeof(*all->regions));
    int rc = all->regions == NULL ? snapshot_no_memory(err)
                                  : make_offers(k, &mine, &n, err);
    rc = keeper_collect(k->comm, rc, mine, n * sizeof(*mine), &w, err);
    if (rc == 0)
        rc = keeper_agree(k->comm, make_list(all, &w, err), err);
    free(mine);
    keeper_words_free(&w);
    return rc;
}

void keeper_images_free(struct keeper_images *all)
{
    for (int i = 0; all->regions != NULL && i < all->k->d->local_world; i++)
        if (all->regions[i].count > 0)
            mem_slots_close(&all->regions[i]);
    free(all->regions);
    free(all->list);
    free(all->strikes);
    *all = (struct keeper_images){.n = 0};
}

size_t keeper_images_of_save(const struct keeper_images *all, size_t i)
{
    size_t n = 1;
    ddp_assert(i < all->n);
    while (i + n < all->n && by_save(&all->list[i], &all->list[i + n]) == 0)
        n++;
    return n;
}

bool keeper_images_same(const struct image_copy *a, const struct image_copy *b)
{
    return by_save(a, b) == 0 && a->offer.rank == b->offer.rank &&
           a->offer.world == b->offer.world;
}

/* -- open ------------------------------------------------------------------ */

/* The memory of a rank of this node; NULL: there is none. */
static const struct mem_slots *region_of(struct keeper_images *all, int rank)
{
    const struct ddp *d = all->k->d;
    int part = rank - (d->rank - d->node_rank);
    struct ddp_err why;
    if (part < 0 || part >= d->local_world)
        return NULL;
    if (part == d->node_rank && all->k->memory.count > 0)
        return &all->k->memory;
    struct mem_slots *m = &all->regions[part];
    if (m->count == 0 &&
        (d->memory_fd < 0 ||
         mem_slots_open(m, d->memory_fd, part, d->local_world, &why) != 0))
        return NULL;
    return m;
}

static int open_slot(struct keeper_images *all,
                     const struct image_copy *c,
                     struct snapshot_opened *o)
{
    const struct mem_slots *m = region_of(all, c->holder);
    for (int i = 0; m != NULL && i < m->count; i++) {
        struct slot_label label;
        if (!mem_slots_read(m, i, &label))
            continue;
        struct image_offer has = offer_slot(&label);
        if (memcmp(&has, &c->offer, sizeof(has)) != 0)
            continue;
        snapshot_open_memory(o, mem_slots_image(m, i), label.len);
        return 0;
    }
    return 1;
}

static struct snapshot_file file_of(const struct image_offer *o)
{
    struct snapshot_file f = {.round = o->round,
                              .step = o->step,
                              .rank = (int)o->rank,
                              .world = (int)o->world,
                              .before = o->before == 1};
    memcpy(f.who, o->who, SNAPSHOT_DIR_WHO);
    snapshot_dir_file_name(&f);
    return f;
}

static int open_file(struct keeper_images *all,
                     const struct image_copy *c,
                     struct snapshot_opened *o,
                     struct ddp_err *err)
{
    const struct ddp_keeper *k = all->k;
    const struct snapshot_file f = file_of(&c->offer);
    if (k->dir.fd < 0)
        return 1;
    if (snapshot_open(o, k->dir.fd, f.name, err) == 0)
        return 0;
    return c->holder == k->comm->rank ? -1 : 1;
}

int keeper_images_open(struct keeper_images *all,
                       size_t copy,
                       struct snapshot_opened *o,
                       struct ddp_err *err)
{
    ddp_assert(copy < all->n);
    const struct image_copy *c = &all->list[copy];
    o->fd = -1;
    return c->offer.memory ? open_slot(all, c, o) : open_file(all, c, o, err);
}

/* "3/8"; a whole state has no such pair. */
static bool says_rank(const struct image_offer *o,
                      const struct snapshot_header *h)
{
    char text[32];
    const char *said = safetensors_value(&h->parsed, PIECE_RANK_KEY);
    (void)snprintf(text, sizeof(text), "%d/%d", (int)o->rank,
                   (int)o->world); /* fits */
    return o->world == 0 ? said == NULL
                         : said != NULL && strcmp(said, text) == 0;
}

int keeper_images_check(const struct image_offer *o,
                        const struct snapshot_header *h,
                        struct ddp_err *err)
{
    const struct snapshot_fence *f = &h->fence;
    int64_t step = f->step < 0 ? o->step : f->step;
    if (o->step == step && o->round == f->round && o->save == f->save &&
        says_rank(o, h) && memcmp(o->who, f->instance, SNAPSHOT_DIR_WHO) == 0)
        return 0;
    return ddp_err_set(
        err, DDP_E_CORRUPT,
        "it is offered as save %lld of step %lld, round %lld of %.8s, but it "
        "is save %lld of step %lld, round %lld of %.8s%s",
        (long long)o->save, (long long)o->step, (long long)o->round, o->who,
        (long long)f->save, (long long)step, (long long)f->round, f->instance,
        says_rank(o, h) ? "" : ", of another rank");
}

/* -- damage ---------------------------------------------------------------- */

int keeper_images_strike(struct keeper_images *all,
                         size_t copy,
                         const struct ddp_err *why,
                         struct ddp_err *err)
{
    ddp_assert(copy < all->n);
    if (snapshot_grow(&all->strikes, all->nstrikes, &all->strikes_cap,
                      sizeof(*all->strikes), err) != 0)
        return -1;
    struct image_strike *s = &all->strikes[all->nstrikes++];
    *s = (struct image_strike){.copy = (int64_t)copy};
    (void)snprintf(s->why, sizeof(s->why), "%.240s", why->text);
    return 0;
}

static void note_why(struct keeper_images *all, struct image_strike *s)
{
    const struct image_copy *c = &all->list[s->copy];
    rt_make_line(s->why, sizeof(s->why));
    if (all->why[0] != '\0')
        return;
    if (c->offer.memory)
        (void)snprintf(all->why, sizeof(all->why), /* fits */
                       "step %lld in memory of rank %d: %s",
                       (long long)c->offer.step, c->holder, s->why);
    else
        (void)snprintf(all->why, sizeof(all->why), "%.140s/%s of rank %d: %s",
                       all->k->folder == NULL ? "" : all->k->folder,
                       file_of(&c->offer).name, c->holder, s->why);
}

/* Each of them strikes something, or the load would go on for ever. */
static int strike_all(struct keeper_images *all,
                      const uint8_t *words,
                      uint64_t bytes,
                      struct ddp_err *err)
{
    size_t before = all->struck;
    for (uint64_t at = 0; at + sizeof(struct image_strike) <= bytes;
         at += sizeof(struct image_strike)) {
        struct image_strike s;
        memcpy(&s, words + at, sizeof(s));
        if (s.copy < 0 || (uint64_t)s.copy >= all->n ||
            all->list[s.copy].struck)
            continue;
        all->list[s.copy].struck = true;
        all->struck++;
        note_why(all, &s);
    }
    if (all->struck > before)
        return 0;
    return ddp_err_set(err, DDP_E_PROTO,
                       "the ranks find damaged what they know to be damaged");
}

int keeper_images_tell(struct keeper_images *all,
                       bool *more,
                       struct ddp_err *err)
{
    struct keeper_words w;
    int rc = keeper_collect(all->k->comm, 0, all->strikes,
                            all->nstrikes * sizeof(*all->strikes), &w, err);
    *more = rc == 0 && w.total > 0;
    if (*more)
        rc = strike_all(all, w.all, w.total, err);
    all->nstrikes = 0;
    keeper_words_free(&w);
    return rc;
}
