/*
 * worker_rt/keeper/keeper_compare: a wrong bit is named. What several ranks
 * have alike is compared every so many saves, and before each one for the disk.
 *
 * Happy path: each rank sums up its pieces that others have, too, and all ranks
 * add up a few numbers, once (compare). All are 0, and the save is one that is
 * trusted as soon as it is whole: commit keeps it until a newer one is.
 *
 * What a program lets differ, such as statistics of a batch, differs from the
 * start. So pieces that differ in the first two comparisons are left out. Two,
 * since a program may save its state before its first step.
 *
 * Failure modes. Pieces differ: the ranks tell each other the sums of these
 * alone, and all of them judge alike. What is in memory and was saved after the
 * trusted save is dropped, on all ranks, before any of them fails, so that no
 * next round finds it. A rank that is odd fails with CORRUPT, the others with
 * PEER, and after it, so that the launcher knows which one was first. If nobody
 * can tell which rank is right, all fail with PEER. A rank lacks memory for the
 * plan of its pieces: the save is not compared.
 *
 * Tensors in a GPU's memory come to the host for that, a part at a time, behind
 * the program's work. A rank whose GPU fails has no sums: the save is not
 * compared, and its own copy says what is wrong. This has never run on a card.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"
#include "worker_rt/snapshot/snapshot.h"

#define FRESH       2             /* comparisons in which pieces may differ */
#define PATIENCE_US (10 * MONO_S) /* for the end of an odd rank */
#define PART        ((size_t)4 << 20) /* bytes that come from a GPU at once */

/* One comparison. */
struct comparison {
    struct ddp_keeper *k;
    const struct ddp_piece *pieces;
    int64_t step;
    uint64_t *sums;                        /* of the pieces, owned */
    uint64_t numbers[COMPARE_BUCKETS + 1]; /* .. and how many ranks cannot */
    struct compare_finding *found;         /* owned */
    size_t nfound;
};

/* -- the plan -------------------------------------------------------------- */

static bool may_differ(const struct keeper_compare *c, const char *name)
{
    for (const char *const *p = c->may_differ; p != NULL && *p != NULL; p++)
        if (strncmp(name, *p, strlen(*p)) == 0)
            return true;
    return false;
}

static int weigh(struct keeper_compare *c,
                 const struct ddp_piece *pieces,
                 const struct piece_key *keys,
                 size_t all,
                 size_t first,
                 struct ddp_err *err)
{
    uint64_t *weights = calloc(c->n + 1, sizeof(*weights));
    c->pieces = calloc(c->n + 1, sizeof(*c->pieces));
    int rc = weights == NULL || c->pieces == NULL
                 ? snapshot_no_memory(err)
                 : compare_weigh(keys, all, first, c->n, weights, err);
    for (size_t i = 0; rc == 0 && i < c->n; i++)
        c->pieces[i] = (struct compare_piece){
            .part = {keys[first + i].part[0], keys[first + i].part[1]},
            .weight = may_differ(c, pieces[i].local.name) ? 0 : weights[i],
            .fresh = FRESH};
    free(weights);
    return rc;
}

int keeper_compare_plan(struct ddp_keeper *k,
                        const struct ddp_piece *pieces,
                        const struct piece_key *keys,
                        const struct pieces_head *heads,
                        struct ddp_err *err)
{
    struct keeper_compare *c = &k->compare, before = *c;
    size_t all = 0, first = 0;
    for (int r = 0; r < k->comm->world; r++) {
        if (r == k->comm->rank)
            first = all;
        all += (size_t)heads[r].n;
    }
    c->n = (size_t)heads[k->comm->rank].n;
    int rc = weigh(c, pieces, keys, all, first, err);
    if (rc == 0)
        compare_carry_over(c->pieces, c->n, before.pieces, before.n);
    else
        keeper_compare_free(k);
    free(before.pieces);
    return rc;
}

void keeper_compare_free(struct ddp_keeper *k)
{
    free(k->compare.pieces);
    k->compare.pieces = NULL;
    k->compare.n = 0;
}

bool keeper_compare_due(struct ddp_keeper *k, bool changed, bool disk)
{
    struct keeper_compare *c = &k->compare;
    if (changed)
        c->fresh = FRESH;
    if (c->every == 0 || k->comm->world == 1)
        return false;
    return disk || c->fresh > 0 || k->pieces.commit.save % c->every == 0;
}

/* -- sums ------------------------------------------------------------------ */

static bool is_compared(const struct compare_piece *p)
{
    return p->weight != 0 && !p->left_out;
}

/* From a GPU to the host, and there into sums. */
struct fetched {
    uint8_t *part; /* PART bytes, owned; NULL: tensors are host memory */
    XXH3_state_t *state;
};

/* All that the tensors rest on has ended by now: what comes is what they are.
 */
static bool will_come(void *ctx)
{
    (void)ctx;
    return true;
}

/* Memory of either kind. */
static int sum_parts(struct ddp_keeper *k,
                     const struct fetched *f,
                     const struct ddp_tensor *t,
                     uint64_t seed,
                     uint64_t *sum,
                     struct ddp_err *err)
{
    uint64_t len = ddp_tensor_len(t);
    (void)XXH3_64bits_reset_withSeed(f->state, seed);
    for (uint64_t at = 0; at < len; at += PART) {
        size_t n = len - at < PART ? (size_t)(len - at) : PART;
        struct device_copy_part part = {
            .to = f->part, .from = (uint8_t *)t->data + at, .len = n};
        struct ddp_err why;
        bool wait;
        int rc = device_copy_begin(&k->device, &part, 1, &wait, err);
        if (device_copy_wait(&k->device, will_come, NULL,
                             rc == 0 ? err : &why) != 0)
            rc = -1;
        if (rc != 0)
            return -1;
        (void)XXH3_64bits_update(f->state, f->part, n);
    }
    *sum = XXH3_64bits_digest(f->state);
    return 0;
}

static int
sum_all(struct comparison *s, const struct fetched *f, struct ddp_err *err)
{
    const struct keeper_compare *c = &s->k->compare;
    for (size_t i = 0; i < c->n; i++) {
        const struct compare_piece *p = &c->pieces[i];
        const struct ddp_tensor *t = &s->pieces[i].local;
        if (!is_compared(p))
            continue;
        if (f->part == NULL)
            s->sums[i] = XXH3_64bits_withSeed(
                t->data, (size_t)ddp_tensor_len(t), p->part[0]);
        else if (sum_parts(s->k, f, t, p->part[0], &s->sums[i], err) != 0)
            return -1;
        s->numbers[compare_bucket(p->part)] += p->weight * s->sums[i];
    }
    return 0;
}

/* -1: there are no sums. */
static int sum_up(struct comparison *s)
{
    struct ddp_keeper *k = s->k;
    struct fetched f = {.part = NULL};
    struct ddp_err why;
    int rc = 0;
    if (k->device.gpu != NULL) {
        f.part = malloc(PART);
        f.state = XXH3_createState();
        rc = f.part == NULL || f.state == NULL
                 ? -1
                 : proof_settle(&k->d->proof, &why);
    }
    if (rc == 0)
        rc = sum_all(s, &f, &why);
    if (f.state != NULL)
        (void)XXH3_freeState(f.state); /* cannot fail */
    if (!k->device.lost) /* else the driver may still write there */
        free(f.part);
    return rc;
}

/* -- what differs ---------------------------------------------------------- */

/* This rank's rows of what may differ, and how many. NULL: no memory. */
static struct compare_row *list_rows(const struct comparison *s, size_t *n)
{
    const struct keeper_compare *c = &s->k->compare;
    struct compare_row *rows = calloc(c->n + 1, sizeof(*rows));
    *n = 0;
    for (size_t i = 0; rows != NULL && i < c->n; i++) {
        const struct compare_piece *p = &c->pieces[i];
        if (is_compared(p) && s->numbers[compare_bucket(p->part)] != 0)
            rows[(*n)++] = (struct compare_row){
                {p->part[0], p->part[1]}, s->sums[i], p->fresh > 0};
    }
    return rows;
}

/* `s->found`, the same on all ranks. Collective. */
static int judge(struct comparison *s, struct ddp_err *err)
{
    struct ddp_comm *comm = s->k->comm;
    struct keeper_words w;
    size_t n;
    struct compare_row *rows = list_rows(s, &n);
    size_t *counts = calloc((size_t)comm->world, sizeof(*counts));
    int rc = rows == NULL || counts == NULL ? snapshot_no_memory(err) : 0;
    rc = keeper_collect(comm, rc, rows, n * sizeof(*rows), &w, err);
    if (rc == 0) {
        for (int r = 0; rc == 0 && r < comm->world; r++) {
            counts[r] = (size_t)(w.lens[r] / sizeof(*rows));
            if (w.lens[r] % sizeof(*rows) != 0) /* they are data */
                rc = ddp_err_set(err, DDP_E_PROTO,
                                 "rank %d does not say how its state differs",
                                 r);
        }
        if (rc == 0)
            rc = compare_judge((const struct compare_row *)(const void *)w.all,
                               counts, comm->world, &s->found, &s->nfound, err);
        rc = keeper_agree(comm, rc, err);
    }
    free(rows);
    free(counts);
    keeper_words_free(&w);
    return rc;
}

/* Where in its tensor a piece is, for people; "" if it is all of it. */
static void say_part(const struct ddp_piece *p, char text[PIECE_TEXT_MAX])
{
    char whole[PIECE_TEXT_MAX];
    text[0] = '\0';
    if (piece_is_whole(p))
        return;
    piece_write(whole, p, 0);
    const char *at = strchr(whole, '@');
    if (at != NULL)
        (void)snprintf(text, PIECE_TEXT_MAX, " (the part at %.80s)", at + 1);
}

/* Of each piece that may differ its first holder tells, once. */
static void leave_out(struct comparison *s)
{
    struct keeper_compare *c = &s->k->compare;
    const struct compare_finding *first = NULL;
    size_t which = 0, more = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct compare_finding *f =
            compare_find(s->found, s->nfound, c->pieces[i].part);
        if (f == NULL || f->kind != COMPARE_LEFT_OUT)
            continue;
        c->pieces[i].left_out = true;
        if (f->rank != s->k->comm->rank)
            continue;
        if (first == NULL) {
            first = f;
            which = i;
        } else {
            more++;
        }
    }
    if (first == NULL || c->unequal[0] != '\0')
        return;
    char others[32] = "";
    if (more > 0)
        (void)snprintf(others, sizeof(others), " and %zu more", more);
    (void)snprintf(c->unequal, sizeof(c->unequal), /* a cut text is a text */
                   "tensor '%.80s'%s: ranks %d and %d, for example, have "
                   "different bits from the start; wrong bits are not found "
                   "there",
                   s->pieces[which].local.name, others, first->rank,
                   first->other);
}

/* -- what does not count any more ------------------------------------------ */

/* Of which nothing is sealed, written or sent any more. Whether the trusted
 * save is still in one of this rank's own slots. */
static bool drop_others(struct ddp_keeper *k)
{
    const struct commit_save *trusted = &k->pieces.commit.trusted;
    bool kept = false;
    for (int i = 0; i < k->memory.count; i++) {
        struct slot_label label;
        if (!mem_slots_read(&k->memory, i, &label))
            continue;
        if (trusted->number > 0 && label.save == trusted->number &&
            label.round == k->d->fence &&
            strcmp(label.instance, k->d->instance) == 0)
            kept |= i < MEM_SLOTS_SHARED;
        else
            mem_slots_drop(&k->memory, i);
    }
    commit_distrust(&k->pieces.commit);
    return kept;
}

/* Collective: no rank goes on before all have dropped what is wrong. `*step`:
 * where the job will go on; -1: nothing is left. */
static int distrust(struct ddp_keeper *k, int64_t *step, struct ddp_err *err)
{
    const struct commit *c = &k->pieces.commit;
    int64_t words[2];
    keeper_settle(k, true);
    keeper_mirrors_end(k);
    words[0] = drop_others(k);
    (void)pthread_mutex_lock(&k->lock);
    k->newest = -1;
    words[1] = c->for_disk >= 0 && k->saved_as == c->for_disk_save;
    (void)pthread_mutex_unlock(&k->lock);
    if (comm_allreduce(k->comm, words, 2, DDP_I64, DDP_MIN, err) != 0)
        return -1;
    *step = words[1] == 1 ? c->for_disk : c->on_disk;
    if (words[0] == 1 && c->trusted.step > *step)
        *step = c->trusted.step;
    return 0;
}

/* -- telling --------------------------------------------------------------- */

static void say_what_follows(int64_t step, char text[128])
{
    if (step >= 0)
        (void)snprintf(text, 128,
                       "the job goes on from step %lld, the last one that was "
                       "compared",
                       (long long)step);
    else
        (void)snprintf(
            text, 128,
            "no step that was compared is left: the job begins anew");
}

/* On the rank that tells. */
static int tell(const struct comparison *s, int64_t step, struct ddp_err *err)
{
    const struct compare_finding *f = compare_worst(s->found, s->nfound);
    const struct keeper_compare *c = &s->k->compare;
    char part[PIECE_TEXT_MAX], next[128];
    size_t i = 0;
    while (i + 1 < c->n &&
           memcmp(c->pieces[i].part, f->part, sizeof(f->part)) != 0)
        i++;
    say_part(&s->pieces[i], part);
    say_what_follows(step, next);
    if (f->kind == COMPARE_ODD)
        return ddp_err_set(
            err, DDP_E_CORRUPT,
            "after step %lld rank %d on node %d has wrong bits in tensor "
            "'%.80s'%s: of %d that have it %d agree, and this one does not; %s",
            (long long)s->step, f->rank, s->k->d->group_rank,
            s->pieces[i].local.name, part, f->holders, f->alike, next);
    return ddp_err_set(
        err, DDP_E_CORRUPT,
        "after step %lld tensor '%.80s'%s has wrong bits on some ranks: %d and "
        "%d differ, and nobody can tell which is right, since no more than "
        "half of those %d that have it agree; %s",
        (long long)s->step, s->pieces[i].local.name, part, f->rank, f->other,
        f->holders, next);
}

static bool is_odd(const struct comparison *s)
{
    for (size_t i = 0; i < s->nfound; i++)
        if (s->found[i].kind == COMPARE_ODD &&
            s->found[i].rank == s->k->comm->rank)
            return true;
    return false;
}

/* The launcher takes the first rank that ends for the cause. */
static void wait_for_end_of_odd(struct ddp_comm *comm)
{
    struct ddp_err expected;
    int64_t timeout_us = comm->timeout_us;
    comm->timeout_us = PATIENCE_US;
    (void)comm->ops->barrier(comm, &expected); /* they do not come */
    comm->timeout_us = timeout_us;
}

/* All ranks fail. Collective. */
static int fail(const struct comparison *s, struct ddp_err *err)
{
    struct ddp_comm *comm = s->k->comm;
    const struct compare_finding *worst = compare_worst(s->found, s->nfound);
    bool some_odd = worst->kind == COMPARE_ODD, odd = is_odd(s);
    int64_t step;
    if (distrust(s->k, &step, err) != 0)
        return -1;
    int rc = worst->rank == comm->rank ? tell(s, step, err) : 0;
    (void)keeper_agree(comm, rc, err);
    /* A rank that leaves at once would cut off others that have not heard. */
    struct ddp_err other;
    (void)comm->ops->barrier(comm, &other);
    if (some_odd && !odd && err->code == DDP_E_CORRUPT)
        wait_for_end_of_odd(comm);
    if (err->code == DDP_E_CORRUPT && !odd)
        err->code = DDP_E_PEER;
    return -1;
}

/* -- all of it ------------------------------------------------------------- */

static void note_compared(struct ddp_keeper *k)
{
    struct keeper_compare *c = &k->compare;
    for (size_t i = 0; i < c->n; i++)
        if (c->pieces[i].fresh > 0)
            c->pieces[i].fresh--;
    if (c->fresh > 0)
        c->fresh--;
    commit_agreed(&k->pieces.commit);
}

static int compare(struct comparison *s, struct ddp_err *err)
{
    if (s->numbers[COMPARE_BUCKETS] == 0 && sum_up(s) != 0)
        s->numbers[COMPARE_BUCKETS] = 1;
    if (comm_allreduce(s->k->comm, s->numbers, COMPARE_BUCKETS + 1, DDP_U64,
                       DDP_SUM, err) != 0)
        return -1;
    if (s->numbers[COMPARE_BUCKETS] != 0)
        return 0; /* of a rank there are no sums */
    size_t i = 0;
    while (i < COMPARE_BUCKETS && s->numbers[i] == 0)
        i++;
    if (i < COMPARE_BUCKETS && judge(s, err) != 0)
        return -1;
    leave_out(s);
    if (compare_worst(s->found, s->nfound) != NULL)
        return fail(s, err);
    note_compared(s->k);
    return 0;
}

int keeper_compare(struct ddp_keeper *k,
                   const struct ddp_piece *pieces,
                   int64_t step,
                   bool able,
                   struct ddp_err *err)
{
    struct comparison s = {.k = k, .pieces = pieces, .step = step};
    s.sums = calloc(k->compare.n + 1, sizeof(*s.sums));
    s.numbers[COMPARE_BUCKETS] = !able || s.sums == NULL;
    int rc = compare(&s, err);
    free(s.sums);
    free(s.found);
    return rc;
}

const char *ddp_keeper_unequal(const struct ddp_keeper *k)
{
    return k->compare.unequal;
}
