/*
 * worker_rt/keeper/keeper_pieces: saving. Each rank has pieces of the state; a
 * state that is the same on all ranks is the case in which all have the same.
 *
 * Happy path: the save before is settled; one all-reduce tells each rank what
 * all know (commit); the image goes into a slot that commit picks, and on its
 * way as any other one (keeper_put). If the pieces of any rank are not those of
 * the save before, all ranks tell each other theirs first, and each node agrees
 * about who stores which of them.
 *
 * Failure modes. A rank cannot begin: all of them fail with its error, before
 * any slot has been touched. Ranks disagree about the step, or about a tensor:
 * an error on all of them. A rank has no memory for its part, or fails to seal
 * it: no step counts any more until it does again; what was whole stays. A rank
 * dies: see commit.h. All slots are needed, since a transfer to another node is
 * slow: the save is skipped. Ranks have different bits where they ought to be
 * the same: see keeper_compare.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"
#include "worker_rt/snapshot/snapshot.h"

/* One save on its way. */
struct pieces_save {
    struct ddp_keeper *k;
    const struct keeper_order *order;
    const struct ddp_piece *pieces;
    size_t n;
    bool disk; /* it goes to the disk, and this rank has a folder for it */
    struct piece_key *keys; /* (n), owned */
    bool changed;
};

/* -- labels ---------------------------------------------------------------- */

static void read_labels(const struct ddp_keeper *k,
                        struct commit_label labels[MEM_SLOTS_SHARED])
{
    struct slot_label label;
    memset(labels, 0, MEM_SLOTS_SHARED * sizeof(*labels));
    for (int i = 0; k->memory.count > 0 && i < MEM_SLOTS_SHARED; i++)
        if (mem_slots_read(&k->memory, i, &label))
            labels[i] = keeper_commit_label(k, &label);
}

/* -- before the words ------------------------------------------------------ */

/* All that this rank can find wrong by itself. The folder is taken over before
 * any rank writes there. */
static int begin(struct pieces_save *s, struct ddp_err *err)
{
    struct ddp_keeper *k = s->k;
    const struct keeper_pieces *p = &k->pieces;
    if (s->order->step < 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the step is %lld, must not be negative",
                           (long long)s->order->step);
    if (piece_plan_check(s->pieces, s->n, err) != 0)
        return -1;
    s->keys = calloc(s->n + 1, sizeof(*s->keys));
    if (s->keys == NULL)
        return snapshot_no_memory(err);
    for (size_t i = 0; i < s->n; i++)
        s->keys[i] = piece_key_of(&s->pieces[i]);
    /* Whether these are the pieces of the save before, whatever their data. */
    s->changed = !p->agreed || p->n != s->n ||
                 memcmp(p->keys, s->keys, s->n * sizeof(*s->keys)) != 0;
    if (s->changed && piece_plan_check_twice(s->pieces, s->n, err) != 0)
        return -1;
    if (keeper_start_threads(k, err) != 0)
        return -1;
    return s->disk ? keeper_own(k, err) : 0;
}

/* What is known to be whole there: the folder's writer removes what is older.
 */
static void order_prune(struct ddp_keeper *k, const struct snapshot_file *whole)
{
    if (k->disk != KEEPER_OWNS)
        return;
    (void)pthread_mutex_lock(&k->lock);
    k->prune = *whole;
    (void)pthread_cond_broadcast(&k->changed);
    (void)pthread_mutex_unlock(&k->lock);
}

/* All ranks have written that step. */
static void note_on_disk(struct ddp_keeper *k, int64_t step)
{
    struct snapshot_file whole = {.round = k->d->fence, .step = step};
    memcpy(whole.who, k->d->instance, SNAPSHOT_DIR_WHO);
    order_prune(k, &whole);
}

/* What this rank says. Nothing is being sealed or, with `to_disk`, written. */
static struct commit_words say(const struct pieces_save *s, int rc)
{
    struct ddp_keeper *k = s->k;
    struct commit *c = &k->pieces.commit;
    if (c->save < k->d->saves)
        c->save = k->d->saves; /* another keeper has saved meanwhile */
    (void)pthread_mutex_lock(&k->lock);
    int sealed = k->memory.count > 0 ? k->newest : -1;
    int64_t written = k->saved_as;
    (void)pthread_mutex_unlock(&k->lock);
    struct commit_words w =
        commit_say(c, s->order->step, s->order->to_disk, sealed, written);
    w.ready = rc == 0;
    w.minus_changed = rc == 0 && s->changed ? -1 : 0;
    keeper_mirrors_say(k, &w);
    return w;
}

/* All ranks come here, whatever `rc` is; the same result on all of them. */
static int agree(struct pieces_save *s, int rc, struct ddp_err *err)
{
    struct ddp_keeper *k = s->k;
    struct commit *c = &k->pieces.commit;
    struct commit_words w = say(s, rc);
    struct ddp_err lost;
    if (comm_allreduce(k->comm, &w, COMMIT_WORDS, DDP_I64, DDP_MIN, &lost) !=
        0) {
        if (rc == 0 || err->code != DDP_E_NOMEM)
            *err = lost;
        return -1;
    }
    int64_t before = c->on_disk;
    enum commit_verdict verdict = commit_hear(c, &w);
    s->changed = w.minus_changed != 0;
    keeper_mirrors_heard(k, &w, verdict == COMMIT_GOES_ON);
    if (c->on_disk != before)
        note_on_disk(k, c->on_disk);
    switch (verdict) {
    case COMMIT_GOES_ON:
        k->d->saves = c->save;
        return 0;
    case COMMIT_NOT_READY:
        return keeper_agree(k->comm, rc, err);
    case COMMIT_STEPS_DIFFER:
        return ddp_err_set(err, DDP_E_CONFLICT,
                           "the ranks save different steps, from %lld to "
                           "%lld: all ranks have to save the same steps",
                           (long long)w.step, (long long)-w.minus_step);
    case COMMIT_DISKS_DIFFER:
        return ddp_err_set(err, DDP_E_CONFLICT,
                           "some ranks save step %lld to the disk, others do "
                           "not: all ranks have to",
                           (long long)s->order->step);
    }
    DDP_WRONG("a verdict");
}

/* -- who stores what ------------------------------------------------------- */

/* What all ranks said. */
struct pieces_table {
    struct pieces_head *heads;                       /* (world), owned */
    struct commit_label (*labels)[MEM_SLOTS_SHARED]; /* the same */
    struct piece_key *keys; /* (world, most), owned; packed: rank behind .. */
    size_t n;               /* .. rank, so many */
    size_t most;            /* the most pieces of any rank */
};

/* The other ranks' numbers are data. */
static int measure(struct pieces_table *t, int world, struct ddp_err *err)
{
    for (int r = 0; r < world; r++) {
        int64_t n = t->heads[r].n;
        if (n < 0 || n > (int64_t)SAFETENSORS_TENSORS_MAX)
            return ddp_err_set(err, DDP_E_USAGE,
                               "rank %d has %lld pieces, at most %zu are "
                               "possible",
                               r, (long long)n, SAFETENSORS_TENSORS_MAX);
        t->n += (size_t)n;
        t->most = (size_t)n > t->most ? (size_t)n : t->most;
    }
    return 0;
}

/* From as many places for each rank to one behind the other. */
static void pack(struct pieces_table *t, int world)
{
    size_t at = 0;
    for (int r = 0; r < world; r++) {
        size_t n = (size_t)t->heads[r].n;
        memmove(&t->keys[at], &t->keys[(size_t)r * t->most],
                n * sizeof(*t->keys));
        at += n;
    }
}

/* Collective, whatever happens on one rank. */
static int gather_keys(const struct pieces_save *s,
                       struct pieces_table *t,
                       struct ddp_err *err)
{
    struct ddp_comm *comm = s->k->comm;
    struct piece_key *mine = calloc(t->most + 1, sizeof(*mine));
    t->keys = calloc((size_t)comm->world * t->most + 1, sizeof(*t->keys));
    bool none = mine == NULL || t->keys == NULL;
    int rc = keeper_agree(comm, none ? snapshot_no_memory(err) : 0, err);
    if (rc == 0) {
        if (s->n > 0)
            memcpy(mine, s->keys, s->n * sizeof(*mine));
        rc = comm_allgather(comm, mine, t->most * sizeof(*mine), t->keys, err);
    }
    free(mine);
    if (rc == 0)
        pack(t, comm->world);
    return rc;
}

/* The first save: what of an earlier worker's must stay. Collective. */
static int take_over(struct ddp_keeper *k,
                     struct commit_label (*all)[MEM_SLOTS_SHARED],
                     struct ddp_err *err)
{
    struct keeper_pieces *p = &k->pieces;
    struct commit_label mine[MEM_SLOTS_SHARED], whole = p->base;
    read_labels(k, mine);
    if (comm_allgather(k->comm, mine, sizeof(mine), all, err) != 0)
        return -1;
    if (!whole.there)
        whole =
            commit_common((const struct commit_label(*)[MEM_SLOTS_SHARED])all,
                          k->comm->world);
    p->base = whole;
    if (whole.there)
        commit_take_over(&p->commit, commit_find(mine, &whole), whole.step);
    if (p->loaded.step >= 0) /* rounds that end in their first saves leave it */
        order_prune(k, &p->loaded);
    p->begun = true;
    return 0;
}

static int
gather(const struct pieces_save *s, struct pieces_table *t, struct ddp_err *err)
{
    struct ddp_keeper *k = s->k;
    const struct pieces_head mine = {
        .n = (int64_t)s->n, .node = k->d->group_rank, .folder = k->folder_rank};
    size_t world = (size_t)k->comm->world;
    t->heads = calloc(world, sizeof(*t->heads));
    t->labels = calloc(world, sizeof(*t->labels));
    int rc =
        t->heads == NULL || t->labels == NULL ? snapshot_no_memory(err) : 0;
    if (keeper_agree(k->comm, rc, err) != 0)
        return -1;
    if (!k->pieces.begun && take_over(k, t->labels, err) != 0)
        return -1;
    if (comm_allgather(k->comm, &mine, sizeof(mine), t->heads, err) != 0 ||
        measure(t, k->comm->world, err) != 0)
        return -1;
    return t->most == 0 ? 0 : gather_keys(s, t, err);
}

static int check_tensors(const struct pieces_save *s,
                         const struct pieces_table *t,
                         uint64_t *names,
                         struct ddp_err *err)
{
    size_t bad, i = 0;
    int rank = 0; /* whose the bad one is */
    if (pieces_survey(t->keys, t->n, &bad, names, err) != 0)
        return -1;
    if (bad == t->n)
        return 0;
    for (size_t end = (size_t)t->heads[0].n; end <= bad;)
        end += (size_t)t->heads[++rank].n;
    while (i < s->n && s->keys[i].name != t->keys[bad].name)
        i++;
    return ddp_err_set(err, DDP_E_USAGE,
                       "rank %d has another dtype or whole shape of tensor "
                       "'%.80s' than another rank",
                       rank, i < s->n ? s->pieces[i].local.name : "?");
}

/* Which of its pieces this rank stores: (s->n), the caller frees it. NULL:
 * NOMEM. */
static bool *choose(const struct pieces_save *s,
                    const struct pieces_table *t,
                    struct ddp_err *err)
{
    const struct ddp_comm *comm = s->k->comm;
    int64_t node = t->heads[comm->rank].node;
    struct piece_key *keys = calloc(t->n + 1, sizeof(*keys));
    size_t *counts = calloc((size_t)comm->world, sizeof(*counts));
    bool *stores = calloc(t->n + 1, sizeof(*stores));
    size_t at = 0, n = 0, mine = 0;
    int ranks = 0, rc = 0;
    if (keys == NULL || counts == NULL || stores == NULL)
        rc = snapshot_no_memory(err);
    for (int r = 0; rc == 0 && r < comm->world; r++) {
        size_t count = (size_t)t->heads[r].n;
        if (r == comm->rank)
            mine = n;
        if (t->heads[r].node == node) {
            memcpy(&keys[n], &t->keys[at], count * sizeof(*keys));
            counts[ranks++] = count;
            n += count;
        }
        at += count;
    }
    if (rc == 0)
        rc = pieces_choose(keys, counts, ranks, stores, err);
    if (rc == 0)
        memmove(stores, &stores[mine], s->n * sizeof(*stores));
    free(keys);
    free(counts);
    if (rc == 0)
        return stores;
    free(stores);
    return NULL;
}

/* Whether what this rank stores comes into its folder from a lower node: the
 * state that nodes have in common is written there once. `*in_folder`; NOMEM.
 */
static int look_for_others(const struct pieces_save *s,
                           const struct pieces_table *t,
                           const bool *stores,
                           bool *in_folder,
                           struct ddp_err *err)
{
    const struct ddp_comm *comm = s->k->comm;
    const struct pieces_head *mine = &t->heads[comm->rank];
    struct piece_key *theirs = calloc(t->n + 1, sizeof(*theirs));
    size_t at = 0, n = 0;
    bool any = false;
    if (theirs == NULL)
        return snapshot_no_memory(err);
    for (int r = 0; r < comm->world; r++) {
        const struct pieces_head *h = &t->heads[r];
        if (h->node < mine->node && h->folder == mine->folder) {
            memcpy(&theirs[n], &t->keys[at], (size_t)h->n * sizeof(*theirs));
            n += (size_t)h->n;
            any = true;
        }
        at += (size_t)h->n;
    }
    *in_folder = any && pieces_within(s->keys, stores, s->n, theirs, n);
    free(theirs);
    return 0;
}

/* The pieces of this save become the known ones. */
static int plan(struct pieces_save *s,
                const struct pieces_table *t,
                uint64_t names,
                struct ddp_err *err)
{
    struct keeper_pieces *p = &s->k->pieces;
    bool *stores = choose(s, t, err);
    if (stores == NULL)
        return -1;
    piece_plan_free(&p->plan);
    int rc = look_for_others(s, t, stores, &p->in_folder, err);
    if (rc == 0)
        rc = piece_plan_make(&p->plan, s->pieces, s->n, stores,
                             s->k->comm->rank, s->k->comm->world, names, err);
    if (rc == 0)
        rc = keeper_mirrors_plan(s->k, t->keys, t->heads, stores, err);
    if (rc == 0)
        rc = keeper_compare_plan(s->k, s->pieces, t->keys, t->heads, err);
    free(stores);
    free(p->keys);
    p->keys = s->keys;
    p->n = s->n;
    s->keys = NULL;
    p->agreed = rc == 0;
    return rc;
}

/* Collective. After an error on one rank only that one has nothing to store.
 */
static int exchange(struct pieces_save *s, struct ddp_err *err)
{
    struct keeper_pieces *p = &s->k->pieces;
    struct pieces_table t = {.n = 0};
    uint64_t names = 0;
    p->agreed = false;
    int rc = gather(s, &t, err);
    if (rc == 0)
        rc = check_tensors(s, &t, &names, err);
    if (rc == 0)
        rc = plan(s, &t, names, err);
    free(t.heads);
    free(t.labels);
    free(t.keys);
    return rc;
}

/* -- after the words ------------------------------------------------------- */

static int pick(struct ddp_keeper *k)
{
    struct commit_label labels[MEM_SLOTS_SHARED];
    read_labels(k, labels);
    (void)pthread_mutex_lock(&k->lock);
    int i = commit_pick(&k->pieces.commit, labels, k->writing);
    (void)pthread_mutex_unlock(&k->lock);
    return i;
}

/* Whether there may be images of that length in all slots that may be used. */
static bool allows_all_slots(const struct ddp_keeper *k, uint64_t len)
{
    bool mirrors = k->pieces.commit.alone && !k->mirrors.ended;
    int n = mirrors ? mirror_slot(k->mirrors.senders) : SNAPSHOT_SLOTS_OWN;
    return (uint64_t)n * mem_slots_need(len) <= mem_slots_allowed(&k->memory);
}

/* Memory for one image more, so that the trusted one stays, is taken only where
 * there is plenty: the trusted one is this worker's, and as long as the next.
 */
static int free_slot(struct ddp_keeper *k)
{
    struct commit *c = &k->pieces.commit;
    if (c->trusted.slot < 0)
        return pick(k);
    uint64_t len = image_len(&k->slot[c->trusted.slot].image);
    int i = pick(k);
    if (allows_all_slots(k, len) &&
        (i < 0 || mem_slots_fits(&k->memory, i, len)))
        return i;
    commit_give_up_trusted(c);
    return pick(k);
}

static int put_image(struct pieces_save *s, int slot, struct ddp_err *err)
{
    struct ddp_keeper *k = s->k;
    const struct piece_plan *plan = &k->pieces.plan;
    const struct image_about about = {.step = s->order->step,
                                      .save = k->pieces.commit.save,
                                      .pairs = plan->pairs,
                                      .npairs = plan->npairs};
    struct image m = {.ntensors = 0};
    struct ddp_tensor *tensors = calloc(plan->n + 1, sizeof(*tensors));
    int rc = tensors == NULL ? snapshot_no_memory(err) : 0;
    if (rc == 0) {
        piece_plan_fill(plan, s->pieces, tensors);
        rc = image_init(&m, k->d, &about, tensors, plan->n, s->order->meta,
                        s->order->nmeta, err);
    }
    if (rc == 0)
        rc = keeper_put(k, &m, s->order->step, tensors, slot, s->disk, err);
    image_free(&m);
    free(tensors);
    return rc;
}

/* Of this step others write all that this rank has. */
static void note_written(struct ddp_keeper *k, int64_t step)
{
    (void)pthread_mutex_lock(&k->lock);
    if (k->saved < 0)
        rt_tell_barren(k->d, 0);
    k->saved = step;
    k->saved_as = k->pieces.commit.save;
    (void)pthread_mutex_unlock(&k->lock);
}

/* What is saved now is what the next save asks about, whether it came into a
 * slot or not. `rc` is how this rank came here. */
static int store(struct pieces_save *s, int rc, struct ddp_err *err)
{
    struct ddp_keeper *k = s->k;
    struct commit *c = &k->pieces.commit;
    int slot = -1;
    k->handed = -1;
    bool room = commit_make_room(c, s->order->to_disk);
    if (room && k->memory.count > 0)
        room = (slot = free_slot(k)) >= 0;
    ddp_assert(room || !s->order->to_disk);
    if (rc == 0 && s->disk && k->pieces.in_folder) {
        s->disk = false;
        note_written(k, s->order->step);
    }
    if (rc == 0 && !room)
        k->mirrors.skipped++;
    else if (rc == 0 && (s->disk || k->memory.count > 0))
        rc = put_image(s, slot, err);
    if (k->memory.count == 0)
        commit_forget(c);
    commit_began(c, k->memory.count > 0 ? k->handed : -1, s->order->step,
                 s->order->to_disk);
    return rc;
}

/* After the words. What the ranks do not agree about is stored by none. */
static int compare_and_store(struct pieces_save *s, struct ddp_err *err)
{
    const struct keeper_order *o = s->order;
    struct ddp_err why;
    int rc = s->changed ? exchange(s, err) : 0;
    if (keeper_compare_due(s->k, s->changed, o->to_disk) &&
        keeper_compare(s->k, s->pieces, o->step, rc == 0, &why) != 0) {
        *err = why;
        return -1;
    }
    return store(s, rc, err);
}

int keeper_pieces_save(struct ddp_keeper *k,
                       int rc,
                       const struct keeper_order *o,
                       const struct ddp_piece *pieces,
                       size_t n,
                       struct ddp_err *err)
{
    struct pieces_save s = {.k = k,
                            .order = o,
                            .pieces = pieces,
                            .n = n,
                            .disk = o->to_disk && k->disk >= KEEPER_ADDS};
    keeper_settle(k, o->to_disk);
    if (rc == 0)
        rc = begin(&s, err);
    rc = agree(&s, rc, err);
    if (rc == 0)
        rc = compare_and_store(&s, err);
    free(s.keys);
    return rc;
}

void keeper_pieces_free(struct ddp_keeper *k)
{
    free(k->pieces.keys);
    piece_plan_free(&k->pieces.plan);
    keeper_compare_free(k);
    k->pieces.keys = NULL;
    k->pieces.n = 0;
}
