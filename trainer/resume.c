/*
 * trainer/resume: pieces of tensors by name and pairs of text, which are all
 * that a snapshot knows. Parameters are whole on each rank; with --shard a rank
 * has pieces of the optimizer's states, without it they are whole too. So a
 * snapshot is the same in both forms, and each goes on from the other's.
 *
 * Legend:  P  parameters that this rank's optimizer moves
 *          S  running statistics in all
 *
 * Failure modes of a load. There is no snapshot: NOINPUT, and the caller starts
 * afresh. Its tensors have other names or shapes, or its pairs name another
 * model, optimizer, seed or number of samples: to go on would train something
 * else without a sign (CONFLICT). Its pairs make no sense: another program
 * wrote it (CORRUPT). Another world or batch size is none: the position counts
 * samples of all ranks.
 */
#include "trainer/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/cut.h"
#include "trainer/ops/fail.h"

#define REMEDY "move the folder away or give another --snapshot_path"

/* The keys of a snapshot; the integers among them first. */
enum key {
    KEY_EPOCH,
    KEY_POSITION,
    KEY_STEP,
    KEY_CORRECT,
    KEY_SEEN,
    KEY_WORLD,
    KEY_BATCH_SIZE,
    KEY_SEED,
    KEY_SAMPLES,
    KEY_LOSS, /* a double in hexadecimal, so that no bit is lost */
    KEY_MODEL,
    KEY_OPTIMIZER,
    KEY_COUNT
};
#define INTEGERS    KEY_LOSS
#define INTEGER_MAX INT64_C(1000000000000000) /* none ever gets there */

static const char *const key_names[KEY_COUNT] = {
    [KEY_EPOCH] = "epoch",
    [KEY_POSITION] = "position",
    [KEY_STEP] = "step",
    [KEY_CORRECT] = "correct",
    [KEY_SEEN] = "seen",
    [KEY_WORLD] = "world",
    [KEY_BATCH_SIZE] = "batch_size",
    [KEY_SEED] = "seed",
    [KEY_SAMPLES] = "samples",
    [KEY_LOSS] = "loss_sum",
    [KEY_MODEL] = "model",
    [KEY_OPTIMIZER] = "optimizer",
};

#define NAMES_MAX  (MODEL_TENSORS_MAX * (1 + OPTIM_STATES))
#define PIECES_MAX (NAMES_MAX + OPTIM_STATES * 2 * CUT_MAX(MODEL_DIMS_MAX))

/* This rank's pieces of a snapshot: of "fc1.weight" as PyTorch calls it, and of
 * "exp_avg.fc1.weight" of the optimizer. A part of the parameters begins within
 * one tensor and ends within another one. */
struct windows {
    struct ddp_piece piece[PIECES_MAX];
    bool asked[PIECES_MAX]; /* a load found this one */
    size_t count;
    char name[NAMES_MAX][2 * MODEL_NAME_SIZE];
    size_t names;
};

/* `from` (n): what stands for parameters and statistics from `first` on. */
static void add_windows(struct windows *w,
                        const struct model *m,
                        const char *prefix,
                        float *from,
                        size_t first,
                        size_t n)
{
    for (size_t i = 0; i < m->tensors; i++) {
        const struct tensor *t = &m->tensor[i];
        if (t->state && prefix[0] != '\0')
            continue; /* the optimizer has none of it */
        char *name = w->name[w->names++];
        (void)snprintf(name, sizeof(w->name[0]), "%s%s%s", prefix,
                       prefix[0] != '\0' ? "." : "", t->name);
        struct ddp_tensor whole = {
            .name = name, .dtype = DDP_F32, .dims = (int)t->dims};
        for (size_t k = 0; k < t->dims; k++)
            whole.shape[k] = t->shape[k];
        size_t end = t->offset + ddp_tensor_len(&whole) / sizeof(*from);
        size_t begin = t->offset > first ? t->offset : first;
        end = end < first + n ? end : first + n;
        if (begin >= end)
            continue;
        whole.data = from + (begin - first);
        w->count += cut_pieces(&whole, begin - t->offset, end - t->offset,
                               &w->piece[w->count]);
    }
}

/* On all of the model's parameters and statistics, and the optimizer's states
 * (P). */
static void open_windows(struct windows *w,
                         const struct resume *r,
                         float *params,
                         float *const state[OPTIM_STATES])
{
    const struct model *m = r->model;
    const struct optim *o = r->optim;
    *w = (struct windows){.count = 0};
    add_windows(w, m, "", params, 0, m->P + m->S);
    for (size_t i = 0; optim_state_name(o->kind, i) != NULL; i++)
        add_windows(w, m, optim_state_name(o->kind, i), state[i], o->first,
                    o->P);
}

/* -- save ------------------------------------------------------------------ */

/* The values under which `next` is saved, and those that must be the same when
 * it is loaded. */
static void fill_keys(struct ddp_kv kv[KEY_COUNT],
                      const struct resume *r,
                      const struct train_place *next)
{
    const int64_t integers[INTEGERS] = {
        [KEY_EPOCH] = next->epoch,
        [KEY_POSITION] = next->position,
        [KEY_STEP] = next->step,
        [KEY_CORRECT] = next->correct,
        [KEY_SEEN] = next->seen,
        [KEY_WORLD] = ddp_world(r->ddp),
        [KEY_BATCH_SIZE] = r->o->batch_size,
        [KEY_SEED] = r->o->seed,
        [KEY_SAMPLES] = r->samples,
    };
    for (int i = 0; i < KEY_COUNT; i++)
        kv[i].key = key_names[i];
    for (int i = 0; i < INTEGERS; i++)
        ddp_kv_set_i64(&kv[i], key_names[i], integers[i]);
    (void)snprintf(kv[KEY_LOSS].value, DDP_KV_MAX, "%a", next->loss);
    (void)snprintf(kv[KEY_MODEL].value, DDP_KV_MAX, "%s", r->o->spec->name);
    (void)snprintf(kv[KEY_OPTIMIZER].value, DDP_KV_MAX, "%s",
                   optim_name(r->optim->kind));
}

int resume_save(const struct resume *r,
                const struct train_place *next,
                bool to_disk,
                struct ddp_error *err)
{
    struct ddp_kv kv[KEY_COUNT];
    struct windows w;
    fill_keys(kv, r, next);
    open_windows(&w, r, r->model->params, r->optim->state);
    return ddp_keeper_save_pieces(r->keeper, next->step, w.piece, w.count, kv,
                                  KEY_COUNT, to_disk, err);
}

/* -- load ------------------------------------------------------------------ */

/* Refuses what this run would not continue but ruin: the position in an epoch
 * means other samples with another seed or number of them. */
static int refuse_other_run(const struct resume *r,
                            const struct ddp_kv kv[KEY_COUNT],
                            struct ddp_error *err)
{
    static const struct {
        enum key key;
        const char *what;
    } same[] = {
        {KEY_MODEL, "model"},
        {KEY_OPTIMIZER, "optimizer"},
        {KEY_SEED, "seed"},
        {KEY_SAMPLES, "a number of samples of"},
    };
    struct ddp_kv ours[KEY_COUNT];
    fill_keys(ours, r, &(struct train_place){0});
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        const char *theirs = kv[same[i].key].value;
        const char *here = ours[same[i].key].value;
        if (strcmp(theirs, here) != 0)
            return fail_set(err, DDP_ERR_CONFLICT,
                            "%.200s was written with %s %.40s, not %.40s; "
                            "%s",
                            r->o->snapshot_path, same[i].what, theirs, here,
                            REMEDY);
    }
    return 0;
}

static int read_keys(const struct resume *r,
                     const struct ddp_kv kv[KEY_COUNT],
                     struct train_place *at,
                     struct resume_found *found,
                     struct ddp_error *err)
{
    char *end;
    int64_t integers[INTEGERS];
    double loss = strtod(kv[KEY_LOSS].value, &end);
    bool bad = end == kv[KEY_LOSS].value || *end != '\0' || !isfinite(loss);
    for (int i = 0; i < INTEGERS; i++)
        bad = bad || ddp_kv_get_i64(&kv[i], &integers[i], err) != 0 ||
              integers[i] < 0 || integers[i] > INTEGER_MAX;
    if (bad)
        return fail_set(err, DDP_ERR_CORRUPT,
                        "%.200s has an undamaged snapshot, but ddptrain did "
                        "not write it; %s",
                        r->o->snapshot_path, REMEDY);
    if (refuse_other_run(r, kv, err) != 0)
        return -1;
    *at = (struct train_place){
        .epoch = integers[KEY_EPOCH],
        .position = integers[KEY_POSITION],
        .step = integers[KEY_STEP],
        .loss = loss,
        .correct = integers[KEY_CORRECT],
        .seen = integers[KEY_SEEN],
    };
    found->world = integers[KEY_WORLD];
    found->batch_size = integers[KEY_BATCH_SIZE];
    return 0;
}

/* The i-th of this rank's pieces of a tensor that is in the snapshot; one of
 * another shape has none. */
static bool want_piece(void *ctx,
                       const struct ddp_tensor *whole,
                       size_t i,
                       struct ddp_piece *want)
{
    struct windows *w = ctx;
    size_t len = (size_t)whole->dims * sizeof(whole->shape[0]);
    for (size_t n = 0; n < w->count; n++) {
        const struct ddp_piece *p = &w->piece[n];
        if (strcmp(p->local.name, whole->name) != 0 ||
            whole->dtype != DDP_F32 || p->local.dims != whole->dims ||
            memcmp(p->whole, whole->shape, len) != 0 || i-- > 0)
            continue;
        *want = *p;
        return w->asked[n] = true;
    }
    return false;
}

/* What was loaded has all that this rank wants; else another model wrote it. */
static int check_asked(const struct resume *r,
                       const struct windows *w,
                       struct ddp_error *err)
{
    for (size_t n = 0; n < w->count; n++)
        if (!w->asked[n])
            return fail_set(err, DDP_ERR_CONFLICT,
                            "%.200s has no snapshot with tensor '%.80s' of the "
                            "shape that it has here; if it is of another "
                            "--model or --hidden, %s",
                            r->o->snapshot_path, w->piece[n].local.name,
                            REMEDY);
    return 0;
}

static int load(const struct resume *r,
                float *const state[OPTIM_STATES],
                struct train_place *at,
                struct resume_found *found,
                struct ddp_error *err)
{
    struct ddp_kv kv[KEY_COUNT] = {{0}};
    struct windows w;
    for (int i = 0; i < KEY_COUNT; i++)
        kv[i].key = key_names[i];
    open_windows(&w, r, r->model->host, state);
    if (ddp_keeper_load_pieces(r->keeper, want_piece, &w, kv, KEY_COUNT,
                               &found->kept, err) == 0)
        return check_asked(r, &w, err) == 0 ? read_keys(r, kv, at, found, err)
                                            : -1;
    if (err->code == DDP_ERR_CORRUPT) {
        size_t n = strlen(err->text);
        (void)snprintf(err->text + n, sizeof(err->text) - n,
                       "; to start afresh, %s", REMEDY);
    }
    return -1;
}

/* A snapshot comes into the program's memory; from there to the device. */
int resume_load(const struct resume *r,
                struct train_place *at,
                struct resume_found *found,
                struct ddp_error *err)
{
    const struct device *dev = r->optim->dev;
    size_t P = r->optim->P;
    if (!dev->gpu)
        return load(r, r->optim->state, at, found, err);
    float *room = calloc(OPTIM_STATES * P, sizeof(*room));
    if (room == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for a snapshot");
    float *const state[OPTIM_STATES] = {room, room + P};
    _Static_assert(OPTIM_STATES == 2, "as many as stand here");
    int rc = load(r, state, at, found, err);
    if (rc == 0)
        model_push(r->model);
    for (size_t i = 0; rc == 0 && i < OPTIM_STATES; i++)
        if (r->optim->state[i] != NULL)
            dev->put(r->optim->state[i], state[i], P * sizeof(*room));
    if (rc == 0)
        rc = dev->check(err); /* and `room` is read */
    free(room);
    return rc;
}
