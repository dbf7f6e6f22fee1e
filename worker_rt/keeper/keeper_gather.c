/*
 * worker_rt/keeper/keeper_gather: the newest save that is whole, for ranks that
 * may want other pieces than those that were saved.
 *
 * Happy path: all ranks learn which images there are. Each rank opens the
 * images of the best save, as far as they are at hand, and asks the program
 * what is wanted. If all ranks find their pieces at hand, they read them, and
 * no table travels: so after the death of a worker, when all ranks come back to
 * their nodes. Else the headers of all images go to all ranks, and a rank that
 * can open an image sends its bytes to the ranks that cannot.
 *
 * Failure modes. An image proves damaged: its copy is struck, on all ranks, and
 * the same save is tried again with what is left of it. The images that are
 * left do not have all that is wanted: the save before is tried. All are tried:
 * CORRUPT. There is none, or only some that ranks died in: NOINPUT. The program
 * wants what the save does not have, a rank lacks memory, dies, or has a save
 * of a newer libddp: an error on all ranks.
 */
#include "worker_rt/keeper/keeper_gather.h"

#include <stdio.h>

#include "worker_rt/comm/comm.h"

/* Whether each rank has all that it wants at hand, and whole tensors are the
 * same everywhere. What is wrong with it is found again when all headers are
 * there, and then counts. */
static int ask_near(struct keeper_plan *p, bool *all, struct ddp_err *err)
{
    struct ddp_err why;
    bool has =
        keeper_plan_ask(p, &why) == 0 && keeper_plan_make(p, true, &why) == 0;
    bool whole = has && p->wanted->fn == NULL;
    int64_t digest = whole ? (int64_t)(keeper_plan_digest(p) >> 1) : 0;
    int64_t words[3] = {has, digest, -digest};
    int rc = comm_allreduce(p->all->k->comm, words, 3, DDP_I64, DDP_MIN, err);
    *all = words[0] == 1 && words[1] == -words[2];
    return rc;
}

static int ask_far(struct keeper_plan *p, bool *again, struct ddp_err *err)
{
    if (keeper_headers_exchange(p, err) != 0 ||
        keeper_images_tell(p->all, again, err) != 0)
        return -1;
    if (*again)
        return 0;
    int rc = keeper_plan_ask(p, err);
    if (rc == 0)
        rc = keeper_plan_make(p, false, err);
    return keeper_agree(p->all->k->comm, rc, err);
}

/* Once with what is left of the save; `*again`: some of it was damaged. */
static int try_once(struct keeper_plan *p, bool *again, struct ddp_err *err)
{
    struct ddp_comm *comm = p->all->k->comm;
    bool near;
    if (keeper_agree(comm, keeper_headers_look(p, err), err) != 0 ||
        keeper_images_tell(p->all, again, err) != 0)
        return -1;
    if (*again)
        return 0;
    if (ask_near(p, &near, err) != 0 || (!near && ask_far(p, again, err) != 0))
        return -1;
    if (*again)
        return 0;
    if (keeper_agree(comm, keeper_fetch(p, near, err), err) != 0)
        return -1;
    return keeper_images_tell(p->all, again, err);
}

/* In memory, all of it; so far as is known without reading it. */
static bool is_in_memory(const struct keeper_plan *p)
{
    for (size_t i = 0; i < p->nimages; i++) {
        size_t copy = keeper_plan_far(p, &p->images[i]);
        if (copy != SIZE_MAX && !p->all->list[copy].offer.memory)
            return false;
    }
    return true;
}

/* The first copy that is not damaged. */
static const struct image_copy *first_copy(const struct keeper_plan *p)
{
    const struct image_copy *c = &p->all->list[p->first];
    size_t i = 0;
    while (i + 1 < p->n && c[i].struck)
        i++;
    return &c[i];
}

/* What was loaded: in memory it must not be the first to go; in the folder it
 * makes older ones needless. */
static void note_base(const struct keeper_plan *p)
{
    struct ddp_keeper *k = p->all->k;
    const struct image_copy *c = &p->all->list[p->first];
    struct slot_label label = {
        .round = c->offer.round, .step = c->offer.step, .save = c->offer.save};
    struct snapshot_file file = {.round = label.round, .step = label.step};
    bool any = false;
    for (size_t i = 0; i < p->n; i++)
        any |= c[i].offer.memory && !c[i].struck;
    memcpy(label.instance, p->fence.instance, sizeof(p->fence.instance));
    memcpy(file.who, p->fence.instance, SNAPSHOT_DIR_WHO);
    if (any)
        k->pieces.base = keeper_commit_label(k, &label);
    if (!is_in_memory(p))
        k->pieces.loaded = file;
}

static void tell_about(const struct keeper_plan *p, struct ddp_kept *info)
{
    const struct image_copy *c = &p->all->list[p->first];
    const struct snapshot_wanted *w = p->wanted->whole;
    info->step = c->offer.step;
    info->round = rt_fence_round(c->offer.round);
    info->rank = first_copy(p)->holder;
    info->memory = is_in_memory(p);
    memcpy(info->instance, p->fence.instance, sizeof(info->instance));
    info->foreign = strcmp(info->instance, p->all->k->d->instance) != 0;
    for (size_t i = 0; i < w->nmeta; i++)
        memcpy(w->meta[i].value, p->meta[i].value, sizeof(p->meta[i].value));
}

/* The save whose first copy that is. 0: loaded. 1: it is not whole, and `err`
 * says why, on all ranks. -1: an error. */
static int load_save(struct keeper_images *all,
                     const struct gather_wanted *wanted,
                     size_t first,
                     struct ddp_kept *info,
                     struct ddp_err *err)
{
    struct keeper_plan p;
    bool again = true;
    keeper_ranks_begin(all->k); /* not the states of one that was refused */
    int rc = keeper_plan_init(&p, all, wanted, first, err);
    rc = keeper_agree(all->k->comm, rc, err);
    while (rc == 0 && again)
        rc = try_once(&p, &again, err);
    if (rc == 0) {
        tell_about(&p, info);
        note_base(&p);
    } else {
        (void)ddp_err_wrap(err, "step %lld",
                           (long long)all->list[first].offer.step);
    }
    keeper_plan_free(&p);
    bool is_none =
        rc != 0 && (err->code == DDP_E_CORRUPT || err->code == DDP_E_NOINPUT);
    return is_none ? 1 : rc;
}

static bool same_round(const struct image_copy *a, const struct image_copy *b)
{
    return memcmp(a->offer.who, b->offer.who, sizeof(a->offer.who)) == 0 &&
           a->offer.round == b->offer.round;
}

/* Whether a save that is not whole never was, as far as can be told: nothing of
 * it is damaged, and it is the only one of its round. A later one leaves the
 * save before where it is. Files of the only one that somebody removed look the
 * same: so the program is told what is missing (ddp_kept). */
static bool is_unfinished(const struct keeper_images *all, size_t i)
{
    size_t n = keeper_images_of_save(all, i);
    const struct image_copy *c = &all->list[i];
    for (size_t j = 0; j < n; j++)
        if (c[j].struck)
            return false;
    return (i == 0 || !same_round(&c[-1], c)) &&
           (i + n == all->n || !same_round(&c[n], c));
}

/* The best save that is whole. 0. -1: an error, NOINPUT: no round came to the
 * end of its first save. 1: none is whole. In either case `why` says what is
 * wrong with the first. */
static int load_best(struct keeper_images *all,
                     const struct gather_wanted *wanted,
                     struct ddp_kept *info,
                     struct ddp_err *why,
                     struct ddp_err *err)
{
    int rc = 1, refused = 0;
    bool unfinished = true;
    for (size_t i = 0; i < all->n; i += keeper_images_of_save(all, i)) {
        rc = load_save(all, wanted, i, info, err);
        if (rc != 1)
            break;
        if (refused++ == 0)
            *why = *err;
        unfinished &= err->code == DDP_E_NOINPUT && is_unfinished(all, i);
    }
    if (rc != 1 || !unfinished)
        return rc;
    return ddp_err_set(err, DDP_E_NOINPUT,
                       "there is no snapshot, only one that was not finished: "
                       "%.300s",
                       why->text);
}

int keeper_gather(struct ddp_keeper *k,
                  const struct gather_wanted *wanted,
                  struct ddp_kept *info,
                  struct ddp_err *err)
{
    struct keeper_images all;
    struct ddp_err why = {.text = ""};
    /* A load before, which wanted less, may have found a save whole that is
     * not. */
    k->pieces.base = (struct commit_label){.there = 0};
    k->pieces.loaded.step = -1;
    int rc = keeper_images_find(&all, k, err);
    if (rc == 0 && all.n == 0)
        rc = ddp_err_set(err, DDP_E_NOINPUT, "there is no snapshot%s%.200s",
                         k->folder == NULL ? "" : " in ",
                         k->folder == NULL ? "" : k->folder);
    if (rc == 0)
        rc = load_best(&all, wanted, info, &why, err);
    /* The damage tells more than what came of it. */
    const char *text = all.why[0] != '\0' ? all.why : why.text;
    (void)snprintf(info->why, sizeof(info->why), "%s", text);
    if (rc == 1)
        (void)ddp_err_set(err, DDP_E_CORRUPT,
                          "no whole snapshot is left: %.400s", text);
    keeper_images_free(&all);
    return rc == 0 ? 0 : -1;
}
