/*
 * ddptrain: data-parallel training on libddp, small enough to be read in one
 * go and copied.
 *
 * Legend:  B  samples of this rank in one step
 *          F  features of a sample
 *          P  parameters in all
 *          W  ranks of the job ("world")
 *
 * Each rank holds the whole model and takes its own share of the samples. One
 * step: gradients of the own B samples, one all-reduce that adds them up over
 * the W ranks, the same step of the optimizer on every rank. So parameters
 * start equal (rank 0 hands them out) and stay equal; after each epoch their
 * fingerprints are compared.
 *
 * Whatever happens, all ranks must take the same turns: what one of them
 * learns alone (a snapshot that it found, a signal) is agreed on over the
 * communicator before anybody acts on it. A rank that fails leaves with the
 * error's number as its status; the others then fail in their next collective,
 * within 100 ms, and leave too. The launcher starts all of them again, and
 * they go on from the last snapshot.
 *
 * A snapshot holds everything that the next step depends on, so a run that was
 * killed and resumed ends with the same parameters, bit by bit, as one that
 * was not.
 */
#include <libgen.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/data.h"
#include "trainer/fail.h"
#include "trainer/model.h"
#include "trainer/optim.h"
#include "trainer/options.h"
#include "trainer/progress.h"
#include "worker_rt/ddp.h"

#ifndef DDPRUN_VERSION
#define DDPRUN_VERSION "of unknown version"
#endif

/* Where training stands: with the tensors, all that a snapshot holds. The same
 * on all ranks after each step. Only 64-bit members: it is broadcast as is. */
struct place {
    int64_t epoch;    /* from 0; being trained, or next */
    int64_t position; /* samples of this epoch that all ranks have taken */
    int64_t step;     /* steps since the beginning of training */
    double loss;      /* summed over the epoch's samples so far */
    int64_t correct;  /* of them */
    int64_t seen;     /* how many they are */
};

struct trainer {
    struct options o;
    struct ddp *ddp;
    struct ddp_comm *comm;
    int rank;
    int world;
    struct data data;
    struct model model;
    struct optim optim;
    struct ddp_sampler *sampler;
    uint32_t *index;         /* (batch_size) samples of the batch */
    struct data_batch batch; /* room for batch_size samples */
    struct place at;
    struct progress progress;
    bool unsaved; /* the last attempt to save failed */
    bool stopped; /* left at the end of a step because it was asked to */
    bool common;  /* the error is every rank's: one of them tells it */
};

/* What the sums over all ranks need besides gradients rides along behind
 * them. */
enum tail {
    TAIL_LOSS,
    TAIL_CORRECT,
    TAIL_SEEN,
    TAIL_STOP, /* more than 0: some rank was asked to stop */
    TAIL_COUNT
};
_Static_assert(TAIL_COUNT <= MODEL_TAIL, "the model leaves room for the tail");

/* -- errors ---------------------------------------------------------------- */

/* Puts what was being done before the text of a collective's error. */
static int lost(struct trainer *t, const char *what, struct ddp_error *err)
{
    char why[sizeof(err->text)];
    memcpy(why, err->text, sizeof(why));
    why[sizeof(why) - 64] = '\0'; /* leaves room for the rest */
    return fail_set(err, err->code, "%s failed at step %lld: %s", what,
                    (long long)t->at.step, why);
}

/* For an error that every rank finds at the same time, from the same numbers:
 * rank 0 tells it, the others only leave. */
static int everyone(struct trainer *t)
{
    t->common = true;
    return -1;
}

static bool is_peers_fault(int code)
{
    return code == DDP_ERR_PEER || code == DDP_ERR_ABORTED ||
           code == DDP_ERR_LOST || code == DDP_ERR_TIMEOUT;
}

static void tell(struct trainer *t, const struct ddp_error *err)
{
    progress_clear(&t->progress);
    if (t->common && t->rank != 0)
        return;
    fprintf(stderr, "ddptrain: rank %d: %s%s\n", t->rank, err->text,
            is_peers_fault(err->code)
                ? "; leaving so that the launcher can restart us"
                : "");
}

/* -- setting up ------------------------------------------------------------ */

static int load_data(struct trainer *t, struct ddp_error *err)
{
    uint64_t seed = (uint64_t)t->o.seed;
    int rc = -1;
    switch (t->o.spec->data) {
    case MODEL_IMAGES:
        rc = data_load_idx(&t->data, t->o.data, err);
        break;
    case MODEL_LINEAR_DATA:
        rc = data_make_linear(&t->data, seed, err);
        break;
    case MODEL_REGRESSION_DATA:
        rc = data_make_regression(&t->data, seed, err);
        break;
    }
    size_t wanted = (size_t)t->o.train_samples;
    if (rc == 0 && wanted > 0 && wanted < t->data.train.N)
        t->data.train.N = wanted;
    return rc;
}

static int make_batch(struct trainer *t, struct ddp_error *err)
{
    const struct dataset *s = &t->data.train;
    size_t B = (size_t)t->o.batch_size;
    t->index = calloc(B, sizeof(*t->index));
    t->batch.x = calloc(B * s->F, sizeof(*t->batch.x));
    t->batch.labels = calloc(B, sizeof(*t->batch.labels));
    t->batch.y = calloc(B * (s->T + 1), sizeof(*t->batch.y)); /* T may be 0 */
    if (t->index == NULL || t->batch.x == NULL || t->batch.labels == NULL ||
        t->batch.y == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for a batch");
    return 0;
}

/* All that needs no peer. Rank 0's first parameters are the ones that count,
 * but a seed is a seed: all ranks have the same. */
static int set_up(struct trainer *t, struct ddp_error *err)
{
    if (load_data(t, err) != 0)
        return -1;
    const struct dataset *s = &t->data.train;
    if (model_init(&t->model, t->o.spec, s->F, s->C > 0 ? s->C : s->T,
                   (size_t)t->o.hidden, (size_t)t->o.batch_size, err) != 0 ||
        optim_init(&t->optim, t->o.spec->optim, t->o.rate, t->model.P, err) !=
            0 ||
        make_batch(t, err) != 0)
        return -1;
    model_randomize(&t->model, (uint64_t)t->o.seed);
    struct ddp_sampler_conf conf = {
        .samples = s->N,
        .rank = t->rank,
        .world = t->world,
        .seed = (uint64_t)t->o.seed,
        .shuffle = true,
    };
    t->sampler = ddp_sampler_new(&conf, err);
    return t->sampler != NULL ? 0 : -1;
}

/* Ranks that were started with different options or data would wait for each
 * other in different collectives, or quietly train nonsense. */
static int compare_ranks(struct trainer *t, struct ddp_error *err)
{
    enum {
        VALUES = 11
    };
    static const char *const names[VALUES] = {
        "TOTAL_EPOCHS", "SAVE_EVERY",   "--save_steps",    "--seed",
        "--batch_size", "--hidden",     "--train_samples", "--lr",
        "--model",      "training set", "test set",
    };
    const struct dataset *s = &t->data.train;
    const float numbers[] = {s->mean, s->deviation, (float)s->C};
    int64_t mine[VALUES] = {
        t->o.total_epochs,       t->o.save_every,
        t->o.save_steps,         t->o.seed,
        t->o.batch_size,         t->o.hidden,
        (int64_t)s->N,           (int64_t)model_hash(&t->o.rate, 1),
        t->o.spec - model_at(0), (int64_t)(model_hash(numbers, 3) ^ s->F),
        (int64_t)t->data.test.N,
    };
    int64_t *all = calloc((size_t)t->world, sizeof(mine)); /* (W,VALUES) */
    if (all == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %d ranks", t->world);
    int rc = ddp_comm_allgather(t->comm, mine, sizeof(mine), all, err);
    if (rc != 0)
        rc = lost(t, "all-gather", err);
    for (int i = 0; rc == 0 && i < t->world * VALUES; i++) {
        if (all[i] == all[i % VALUES])
            continue;
        (void)fail_set(err, DDP_ERR_CONFLICT,
                       "rank %d has another %s than rank 0: start all nodes "
                       "with the same line and the same data",
                       i / VALUES, names[i % VALUES]);
        rc = everyone(t);
    }
    free(all);
    return rc;
}

/* -- snapshots ------------------------------------------------------------- */

static bool saves(const struct trainer *t)
{
    return t->o.save_every > 0 || t->o.save_steps > 0;
}

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

/* Windows into parameters and optimizer state, by name: "fc1.weight" as
 * PyTorch calls it, and "exp_avg.fc1.weight". */
struct windows {
    struct ddp_tensor tensor[MODEL_TENSORS_MAX * (1 + OPTIM_STATES)];
    char name[MODEL_TENSORS_MAX * (1 + OPTIM_STATES)][2 * MODEL_NAME_SIZE];
    size_t count;
};

static void add_windows(struct windows *w,
                        const struct model *m,
                        const char *prefix,
                        float *from)
{
    for (size_t i = 0; i < m->tensors; i++) {
        const struct tensor *t = &m->tensor[i];
        size_t n = w->count++;
        (void)snprintf(w->name[n], sizeof(w->name[n]), "%s%s%s", prefix,
                       prefix[0] != '\0' ? "." : "", t->name);
        w->tensor[n] = (struct ddp_tensor){
            .name = w->name[n],
            .dtype = DDP_F32,
            .dims = (int)t->dims,
            .shape = {t->shape[0], t->shape[1]},
            .data = from + t->offset,
        };
    }
}

static void open_windows(struct windows *w, struct trainer *t)
{
    enum optim_kind kind = t->optim.kind;
    w->count = 0;
    add_windows(w, &t->model, "", t->model.params);
    for (size_t i = 0; optim_state_name(kind, i) != NULL; i++)
        add_windows(w, &t->model, optim_state_name(kind, i), t->optim.state[i]);
}

/*
 * Rank 0 saves `next`, the place to go on from. The others need not wait: they
 * meet it again in the next collective. A full disk is told and does not end
 * the training, since there may be room again at the next attempt.
 */
static void save(struct trainer *t, struct place next)
{
    struct ddp_kv kv[KEY_COUNT];
    struct windows w;
    struct ddp_error err;
    if (t->rank != 0)
        return;
    const int64_t integers[INTEGERS] = {
        [KEY_EPOCH] = next.epoch,
        [KEY_POSITION] = next.position,
        [KEY_STEP] = next.step,
        [KEY_CORRECT] = next.correct,
        [KEY_SEEN] = next.seen,
        [KEY_WORLD] = t->world,
        [KEY_BATCH_SIZE] = t->o.batch_size,
        [KEY_SEED] = t->o.seed,
        [KEY_SAMPLES] = (int64_t)t->data.train.N,
    };
    for (int i = 0; i < KEY_COUNT; i++)
        kv[i].key = key_names[i];
    for (int i = 0; i < INTEGERS; i++)
        ddp_kv_set_i64(&kv[i], key_names[i], integers[i]);
    (void)snprintf(kv[KEY_LOSS].value, DDP_KV_MAX, "%a", next.loss);
    (void)snprintf(kv[KEY_MODEL].value, DDP_KV_MAX, "%s", t->o.spec->name);
    (void)snprintf(kv[KEY_OPTIMIZER].value, DDP_KV_MAX, "%s",
                   optim_name(t->optim.kind));
    open_windows(&w, t);
    t->unsaved = ddp_snapshot_save(t->ddp, t->o.snapshot_path, w.tensor,
                                   w.count, kv, KEY_COUNT, &err) != 0;
    if (t->unsaved) {
        progress_clear(&t->progress);
        fprintf(stderr, "ddptrain: snapshot not saved, training goes on: %s\n",
                err.text);
        return;
    }
    /* t->at, not next: the epoch that a person has just seen. */
    progress_line(&t->progress, "snapshot saved: epoch %lld, step %lld → %s",
                  (long long)t->at.epoch + 1, (long long)t->at.step,
                  t->o.snapshot_path);
}

/* Refuses what this run would not continue but ruin: the position in an epoch
 * means other samples with another seed or number of them. */
static int refuse_other_run(struct trainer *t,
                            const struct ddp_kv kv[KEY_COUNT],
                            struct ddp_error *err)
{
    struct ddp_kv seed = {0}, samples = {0};
    ddp_kv_set_i64(&seed, "", t->o.seed);
    ddp_kv_set_i64(&samples, "", (int64_t)t->data.train.N);
    const struct {
        enum key key;
        const char *what;
        const char *ours;
    } same[] = {
        {KEY_MODEL, "model", t->o.spec->name},
        {KEY_OPTIMIZER, "optimizer", optim_name(t->optim.kind)},
        {KEY_SEED, "seed", seed.value},
        {KEY_SAMPLES, "a number of samples of", samples.value},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (strcmp(kv[same[i].key].value, same[i].ours) != 0)
            return fail_set(err, DDP_ERR_CONFLICT,
                            "%.200s was written with %s %.40s, not %.40s; move "
                            "it away or name another --snapshot_path",
                            t->o.snapshot_path, same[i].what,
                            kv[same[i].key].value, same[i].ours);
    return 0;
}

/* Reads the values back into t->at. */
static int read_keys(struct trainer *t,
                     const struct ddp_kv kv[KEY_COUNT],
                     int64_t integers[INTEGERS],
                     struct ddp_error *err)
{
    char *end;
    double loss = strtod(kv[KEY_LOSS].value, &end);
    bool bad = end == kv[KEY_LOSS].value || *end != '\0' || !isfinite(loss);
    for (int i = 0; i < INTEGERS; i++)
        bad = bad || ddp_kv_get_i64(&kv[i], &integers[i], err) != 0 ||
              integers[i] < 0 || integers[i] > INTEGER_MAX;
    if (bad)
        return fail_set(err, DDP_ERR_CORRUPT,
                        "%.200s is whole, but no snapshot of ddptrain; move it "
                        "away or name another --snapshot_path",
                        t->o.snapshot_path);
    if (refuse_other_run(t, kv, err) != 0)
        return -1;
    t->at = (struct place){
        .epoch = integers[KEY_EPOCH],
        .position = integers[KEY_POSITION],
        .step = integers[KEY_STEP],
        .loss = loss,
        .correct = integers[KEY_CORRECT],
        .seen = integers[KEY_SEEN],
    };
    return 0;
}

/* The epoch in which a snapshot was taken, from 1, as save() told it. */
static long long epoch_of(const struct place *p)
{
    return (long long)p->epoch + (p->position > 0);
}

static void tell_resumed(struct trainer *t,
                         const struct ddp_snapshot_info *info,
                         const int64_t integers[INTEGERS])
{
    struct progress *p = &t->progress;
    const char *path = t->o.snapshot_path;
    if (info->from_prev)
        progress_line(p, "%s is %s%s; taking %s.prev instead", path,
                      info->why[0] != '\0' ? "refused: " : "missing", info->why,
                      path);
    progress_line(p,
                  "resuming from epoch %lld, step %lld (%s%s, written in "
                  "round %lld%s)",
                  epoch_of(&t->at), (long long)t->at.step, path,
                  info->from_prev ? ".prev" : "", (long long)info->round,
                  info->foreign ? " of another run" : "");
    if (integers[KEY_WORLD] != t->world ||
        integers[KEY_BATCH_SIZE] != t->o.batch_size)
        progress_line(p,
                      "it was written by %lld ranks with batches of %lld: no "
                      "sample is lost, but the result will not be the same to "
                      "the bit",
                      (long long)integers[KEY_WORLD],
                      (long long)integers[KEY_BATCH_SIZE]);
}

/* What rank 0 found, for the others: 0 and `found`, or the error's code. */
struct finding {
    int64_t code;
    int64_t found;
    struct place at;
};

/* Rank 0 looks for a snapshot. No file is a fresh start, anything else that
 * goes wrong is an error: training must not silently begin anew. */
static int look(struct trainer *t, bool *found, struct ddp_error *err)
{
    struct ddp_kv kv[KEY_COUNT] = {{0}};
    int64_t integers[INTEGERS];
    struct ddp_snapshot_info info = {0};
    struct windows w;
    *found = false;
    for (int i = 0; i < KEY_COUNT; i++)
        kv[i].key = key_names[i];
    open_windows(&w, t);
    if (ddp_snapshot_load(t->ddp, t->o.snapshot_path, w.tensor, w.count, kv,
                          KEY_COUNT, &info, err) != 0) {
        if (err->code == DDP_ERR_NOINPUT)
            return 0;
        size_t n = strlen(err->text);
        (void)snprintf(err->text + n, sizeof(err->text) - n, "; %s",
                       err->code == DDP_ERR_USAGE
                           ? "was it of another --model or --hidden? Move it "
                             "away or name another --snapshot_path"
                           : "to start afresh, move it away or name another "
                             "--snapshot_path");
        return -1;
    }
    if (read_keys(t, kv, integers, err) != 0)
        return -1;
    *found = true;
    tell_resumed(t, &info, integers);
    return 0;
}

/* Whether a snapshot can be written at all is better known before the first
 * epoch than after it. */
static int check_folder(const struct trainer *t, struct ddp_error *err)
{
    char *copy = strdup(t->o.snapshot_path); /* dirname() cuts it */
    int rc = 0;
    if (copy == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for a path");
    const char *folder = dirname(copy);
    if (saves(t) && access(folder, W_OK | X_OK) != 0)
        rc = fail_sys(err, DDP_ERR_IO,
                      "cannot write snapshots to the folder %.200s", folder);
    free(copy);
    return rc;
}

static int
broadcast(struct trainer *t, void *data, size_t len, struct ddp_error *err)
{
    if (ddp_comm_broadcast(t->comm, data, len, 0, err) != 0)
        return lost(t, "broadcast", err);
    return 0;
}

/* Rank 0 loads, all ranks go on from what it has: snapshot or fresh start. */
static int start_from_rank_0(struct trainer *t, struct ddp_error *err)
{
    struct finding f = {0};
    size_t len = t->model.P * sizeof(float);
    bool found = false;
    if (t->rank == 0) {
        if (check_folder(t, err) != 0 || look(t, &found, err) != 0)
            f.code = err->code;
        f.found = found;
        f.at = t->at;
    }
    int rank_0_code = (int)f.code;
    struct ddp_error lost_err = {0};
    if (broadcast(t, &f, sizeof(f), &lost_err) != 0) {
        if (rank_0_code == 0)
            *err = lost_err; /* rank 0's own error is the better story */
        return -1;
    }
    if (f.code != 0) {
        if (t->rank != 0)
            (void)fail_set(err, (int)f.code, "rank 0 failed");
        return everyone(t);
    }
    t->at = f.at;
    t->optim.step = f.at.step;
    if (broadcast(t, t->model.params, len, err) != 0)
        return -1;
    for (size_t i = 0; f.found && i < OPTIM_STATES; i++)
        if (t->optim.state[i] != NULL &&
            broadcast(t, t->optim.state[i], len, err) != 0)
            return -1;
    return 0;
}

/* -- training -------------------------------------------------------------- */

/* All ranks must hold the same parameters, to the bit. */
static int compare_params(struct trainer *t, struct ddp_error *err)
{
    uint64_t mine = model_hash(t->model.params, t->model.P);
    uint64_t *all = calloc((size_t)t->world, sizeof(*all)); /* (W) */
    if (all == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %d ranks", t->world);
    int rc = ddp_comm_allgather(t->comm, &mine, sizeof(mine), all, err);
    if (rc != 0)
        rc = lost(t, "all-gather", err);
    for (int r = 1; rc == 0 && r < t->world; r++) {
        if (all[r] == all[0])
            continue;
        (void)fail_set(err, DDP_ERR_CONFLICT,
                       "parameters of rank %d are not those of rank 0 after "
                       "epoch %lld, step %lld: %016llx, not %016llx",
                       r, (long long)t->at.epoch + 1, (long long)t->at.step,
                       (unsigned long long)all[r], (unsigned long long)all[0]);
        rc = everyone(t);
    }
    free(all);
    return rc;
}

static void draw(struct trainer *t)
{
    int64_t rest = (int64_t)ddp_sampler_left(t->sampler) * t->world;
    struct progress_state s = {
        .epoch = t->at.epoch + 1,
        .epochs = t->o.total_epochs,
        .done = t->at.position,
        .total = t->at.position + rest,
        .loss = t->at.loss / (double)t->at.seen,
    };
    progress_draw(&t->progress, &s);
}

/* One step on B samples of this rank, already in t->index. Every rank has as
 * many, so the mean over all B*W is the sum of the ranks' parts. */
static int train_step(struct trainer *t, size_t B, struct ddp_error *err)
{
    struct model *m = &t->model;
    float *tail = m->grads + m->P;
    float scale = 1.0f / ((float)B * (float)t->world);

    data_gather(&t->data.train, t->index, B, &t->batch);
    struct ops_score s =
        model_backward(m, t->batch.x, t->batch.labels, t->batch.y, scale, B);
    tail[TAIL_LOSS] = (float)s.loss;
    tail[TAIL_CORRECT] = (float)s.correct;
    tail[TAIL_SEEN] = (float)B;
    tail[TAIL_STOP] = ddp_should_stop(t->ddp) != DDP_STOP_NO ? 1.0f : 0.0f;

    if (ddp_comm_allreduce(t->comm, m->grads, m->P + MODEL_TAIL, DDP_F32,
                           err) != 0)
        return lost(t, "all-reduce", err);
    if (!isfinite(tail[TAIL_LOSS])) {
        (void)fail_set(err, DDP_ERR_USAGE,
                       "the loss is no number any more after step %lld: try a "
                       "smaller --lr than %g",
                       (long long)t->at.step, (double)t->o.rate);
        return everyone(t);
    }
    optim_step(&t->optim, m->params, m->grads);

    t->at.step++;
    t->at.position = ddp_sampler_position(t->sampler);
    t->at.loss += (double)tail[TAIL_LOSS];
    t->at.correct += (int64_t)tail[TAIL_CORRECT];
    t->at.seen += (int64_t)tail[TAIL_SEEN];
    t->stopped = tail[TAIL_STOP] > 0.0f;
    ddp_beat(t->ddp, t->at.step);
    progress_add(&t->progress, (int64_t)tail[TAIL_SEEN]);
    draw(t);
    return 0;
}

/* Whether there is a snapshot at the end of this epoch; the last one always
 * has one, so that training can go on from there some day. */
static bool saves_at_end(const struct trainer *t)
{
    int64_t done = t->at.epoch + 1;
    return t->o.save_every > 0 &&
           (done == t->o.total_epochs || done % t->o.save_every == 0);
}

/* After each step. Behind an epoch's last one, the save at its end will do. */
static void save_between(struct trainer *t)
{
    bool due = t->o.save_steps > 0 && t->at.step % t->o.save_steps == 0;
    if (t->stopped)
        due = saves(t);
    else if (ddp_sampler_left(t->sampler) == 0 && saves_at_end(t))
        due = false;
    if (due)
        save(t, t->at);
}

static void tell_epoch(struct trainer *t)
{
    struct progress *p = &t->progress;
    long long epoch = t->at.epoch + 1, epochs = t->o.total_epochs;
    double seen = (double)t->at.seen, loss = t->at.loss / seen;
    double accuracy = 100.0 * (double)t->at.correct / seen;
    if (t->model.classify)
        progress_line(p,
                      "epoch %lld/%lld  loss %.4f  train acc %.1f %%  %.0f "
                      "samples/s",
                      epoch, epochs, loss, accuracy, progress_rate(p));
    else
        progress_line(p, "epoch %lld/%lld  loss %.4f  %.0f samples/s", epoch,
                      epochs, loss, progress_rate(p));
}

static int end_epoch(struct trainer *t, struct ddp_error *err)
{
    struct place next = {.epoch = t->at.epoch + 1, .step = t->at.step};
    tell_epoch(t);
    if (compare_params(t, err) != 0)
        return -1;
    if (saves_at_end(t))
        save(t, next);
    t->at = next;
    return 0;
}

/* Ends early with t->stopped where some rank was asked to stop. */
static int train(struct trainer *t, struct ddp_error *err)
{
    size_t max = (size_t)t->o.batch_size;
    while (t->at.epoch < t->o.total_epochs) {
        if (ddp_sampler_seek(t->sampler, t->at.epoch, t->at.position, err) != 0)
            return -1;
        progress_start(&t->progress);
        size_t B;
        while ((B = ddp_sampler_next(t->sampler, t->index, max)) > 0) {
            if (train_step(t, B, err) != 0)
                return -1;
            save_between(t);
            if (t->stopped)
                return 0;
        }
        if (end_epoch(t, err) != 0)
            return -1;
    }
    return 0;
}

/* -- the end --------------------------------------------------------------- */

/* Each rank scores every W-th sample of the test set. */
static int evaluate(struct trainer *t, struct ddp_error *err)
{
    const struct dataset *s = &t->data.test;
    size_t W = (size_t)t->world, max = (size_t)t->o.batch_size;
    double sum[2] = {0.0, 0.0}; /* loss, correct: exact as a double */
    for (size_t i = (size_t)t->rank; i < s->N;) {
        size_t B = 0;
        for (; B < max && i < s->N; i += W)
            t->index[B++] = (uint32_t)i;
        data_gather(s, t->index, B, &t->batch);
        struct ops_score score = model_forward(&t->model, t->batch.x,
                                               t->batch.labels, t->batch.y, B);
        sum[0] += score.loss;
        sum[1] += (double)score.correct;
    }
    if (ddp_comm_allreduce(t->comm, sum, 2, DDP_F64, err) != 0)
        return lost(t, "all-reduce of the test", err);
    double n = (double)s->N;
    if (s->N > 0 && t->model.classify)
        progress_line(&t->progress, "test accuracy %.2f %%  test loss %.4f",
                      100.0 * sum[1] / n, sum[0] / n);
    else if (s->N > 0)
        progress_line(&t->progress, "test loss %.4f", sum[0] / n);
    return 0;
}

static int finish(struct trainer *t, struct ddp_error *err)
{
    if (compare_params(t, err) != 0 || evaluate(t, err) != 0)
        return -1;
    if (t->world > 1)
        progress_line(&t->progress, "parameters identical on all %d ranks",
                      t->world);
    progress_line(&t->progress, "fingerprint %016llx of %zu parameters",
                  (unsigned long long)model_hash(t->model.params, t->model.P),
                  t->model.P);
    if (t->unsaved)
        return fail_set(err, DDP_ERR_IO,
                        "training is done, but the last snapshot could not be "
                        "saved to %.200s",
                        t->o.snapshot_path);
    return 0;
}

static void tell_start(struct trainer *t)
{
    progress_line(&t->progress,
                  "training %s: %zu parameters, %zu samples, %d rank%s x batch "
                  "%lld, %s, learning rate %g, seed %lld",
                  t->o.spec->name, t->model.P, t->data.train.N, t->world,
                  t->world == 1 ? "" : "s", (long long)t->o.batch_size,
                  optim_name(t->optim.kind), (double)t->o.rate,
                  (long long)t->o.seed);
}

static int run(struct trainer *t, struct ddp_error *err)
{
    if (set_up(t, err) != 0)
        return -1;
    t->comm = ddp_comm_new(t->ddp, NULL, err);
    if (t->comm == NULL)
        return lost(t, "meeting the other ranks", err);
    /* From here on all waiting is in collectives, which end when a peer does;
     * until here SIGTERM may simply kill. */
    if (ddp_stop_on_signal(t->ddp, SIGTERM, err) != 0)
        return -1;
    tell_start(t);
    if (compare_ranks(t, err) != 0 || start_from_rank_0(t, err) != 0)
        return -1;
    if (t->at.epoch >= t->o.total_epochs)
        progress_line(&t->progress,
                      "nothing left to train: %lld epochs are done",
                      (long long)t->at.epoch);
    if (train(t, err) != 0)
        return -1;
    if (!t->stopped)
        return finish(t, err);
    progress_line(&t->progress, "asked to stop: leaving after step %lld",
                  (long long)t->at.step);
    return 0;
}

static void tear_down(struct trainer *t, bool failed)
{
    /* Peers learn of it now, not by waiting; but an error that all ranks find
     * must not cut off those that have not found it yet. */
    if (failed && !t->common && t->comm != NULL)
        ddp_comm_abort(t->comm);
    ddp_comm_free(t->comm);
    ddp_sampler_free(t->sampler);
    free(t->index);
    free(t->batch.x);
    free(t->batch.labels);
    free(t->batch.y);
    optim_free(&t->optim);
    model_free(&t->model);
    data_free(&t->data);
    ddp_free(t->ddp);
}

int main(int argc, char *argv[])
{
    static struct trainer t; /* zero */
    struct ddp_error err = {0};
    if (options_parse(&t.o, argc, argv, &err) != 0) {
        fprintf(stderr, "ddptrain: %s\n", err.text);
        options_usage(stderr);
        return DDP_ERR_USAGE;
    }
    if (t.o.help) {
        options_help(stdout);
        return 0;
    }
    if (t.o.version) {
        puts("ddptrain " DDPRUN_VERSION);
        return 0;
    }
    t.ddp = ddp_init(&err);
    if (t.ddp == NULL) {
        fprintf(stderr, "ddptrain: %s\n", err.text);
        return err.code;
    }
    t.rank = ddp_rank(t.ddp);
    t.world = ddp_world(t.ddp);
    progress_init(&t.progress, t.rank == 0);

    int rc = run(&t, &err);
    if (rc != 0)
        tell(&t, &err);
    bool stopped = t.stopped;
    tear_down(&t, rc != 0);
    if (rc == 0 && stopped) {
        /* The work is not done, so this must not look like success. */
        (void)signal(SIGTERM, SIG_DFL);
        (void)raise(SIGTERM);
        return 128 + SIGTERM; /* it is blocked */
    }
    return rc == 0 ? 0 : err.code;
}
