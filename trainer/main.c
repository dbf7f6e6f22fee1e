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
 * Where it is saved and how it goes on from there: trainer/keep and resume.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data.h"
#include "trainer/device.h"
#include "trainer/fail.h"
#include "trainer/keep.h"
#include "trainer/model.h"
#include "trainer/optim.h"
#include "trainer/options.h"
#include "trainer/plot.h"
#include "trainer/progress.h"
#include "trainer/taken.h"
#include "worker_rt/ddp.h"

#ifndef DDPRUN_VERSION
#define DDPRUN_VERSION "of unknown version"
#endif

struct trainer {
    struct options o;
    struct ddp *ddp;
    struct ddp_comm *comm;
    struct ddp_comm *nccl; /* for gradients on GPUs; NULL: comm does it */
    const struct device *dev;
    int rank;
    int world;
    struct data data;
    struct model model;
    struct optim optim;
    struct ddp_sampler *sampler;
    struct keep keep;        /* its snapshots */
    uint32_t *index;         /* (batch_size) samples of the batch */
    struct data_batch batch; /* room for batch_size samples */
    struct place at;
    struct progress progress;
    struct plot plot;
    struct taken taken; /* samples, where somebody wants to know */
    bool stopped;       /* left at the end of a step because it was asked to */
    bool common;        /* the error is every rank's: one of them tells it */
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

/* For an error that every rank finds at the same time, from the same numbers:
 * rank 0 tells it, the others only leave. */
static int everyone(struct trainer *t)
{
    t->common = true;
    return -1;
}

static void tell(struct trainer *t, const struct ddp_error *err)
{
    progress_clear(&t->progress);
    if (!t->common || t->rank == 0)
        fprintf(stderr, "ddptrain: rank %d: %s\n", t->rank, err->text);
}

/* -- collectives ----------------------------------------------------------- */

/* A collective that failed: at which step. The text names the rank that is to
 * blame. */
static int lost(struct trainer *t, struct ddp_error *err)
{
    struct ddp_error why = *err;
    return fail_set(err, why.code, "step %lld: %.400s", (long long)t->at.step,
                    why.text);
}

/* From rank 0 to all. */
static int
broadcast(struct trainer *t, void *data, size_t len, struct ddp_error *err)
{
    if (ddp_comm_broadcast(t->comm, data, len, 0, err) != 0)
        return lost(t, err);
    return 0;
}

/* Whether all ranks have the same n integers: 0, or which one of (W,n) is the
 * first that is not rank 0's; -1 on error. */
static int
compare(struct trainer *t, const int64_t *mine, int n, struct ddp_error *err)
{
    size_t len = (size_t)n * sizeof(*mine);
    int64_t *all = calloc((size_t)t->world, len); /* (W,n) */
    if (all == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %d ranks", t->world);
    int i = 0;
    if (ddp_comm_allgather(t->comm, mine, len, all, err) != 0)
        i = lost(t, err);
    while (i >= 0 && i < t->world * n && all[i] == all[i % n])
        i++;
    free(all);
    return i == t->world * n ? 0 : i;
}

/* -- setting up ------------------------------------------------------------ */

/* Without a GPU `auto` is the CPU, and `cuda` an error that says why. */
static int choose_device(struct trainer *t, struct ddp_error *err)
{
    t->dev = NULL;
    if (t->o.on != OPTIONS_CPU)
        t->dev = device_cuda(ddp_local_rank(t->ddp), err);
    if (t->dev != NULL)
        return 0;
    t->dev = device_cpu();
    if (t->o.on != OPTIONS_GPU && t->o.sums != OPTIONS_GPU)
        return 0;
    struct ddp_error why = *err;
    return fail_set(err, why.code, "%s: %.400s",
                    t->o.on == OPTIONS_GPU ? "--device=cuda" : "--comm=nccl",
                    why.text);
}

/* How many ranks have a GPU that another rank has too; -1 on error. */
static int64_t count_shared(struct trainer *t, struct ddp_error *err)
{
    size_t len = sizeof(t->dev->id);
    int64_t shared = 0;
    uint8_t *all = calloc((size_t)t->world, len); /* (W,16) */
    if (all == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %d ranks", t->world);
    int rc = ddp_comm_allgather(t->comm, t->dev->id, len, all, err);
    for (int r = 0; rc == 0 && r < t->world; r++)
        if (r != t->rank && memcmp(all + (size_t)r * len, t->dev->id, len) == 0)
            shared = 1;
    free(all);
    if (rc == 0)
        rc = ddp_comm_allreduce(t->comm, &shared, 1, DDP_I64, err);
    return rc == 0 ? shared : lost(t, err);
}

/* NCCL for gradients that lie on GPUs, unless the options say otherwise: it
 * wants one for each rank. */
static int open_nccl(struct trainer *t, struct ddp_error *err)
{
    struct ddp_comm_opts opts = {.kind = DDP_COMM_NCCL,
                                 .stream = t->dev->stream};
    if (!t->dev->gpu || t->world == 1 || t->o.sums == OPTIONS_CPU)
        return 0;
    int64_t shared = t->o.sums == OPTIONS_AUTO ? count_shared(t, err) : 0;
    if (shared != 0)
        return shared > 0 ? 0 : -1;
    t->nccl = ddp_comm_new(t->ddp, &opts, err);
    return t->nccl != NULL ? 0 : -1;
}

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
    if (choose_device(t, err) != 0 || load_data(t, err) != 0)
        return -1;
    if (!t->dev->gpu && t->o.spec->conv && !ops_use_library())
        progress_line(&t->progress,
                      "libdnnl is not found, so this will be slow: install "
                      "libdnnl2 (oneDNN)");
    const struct dataset *s = &t->data.train;
    if (model_init(&t->model, t->dev, t->o.spec, s->F, s->C > 0 ? s->C : s->T,
                   (size_t)t->o.hidden, (size_t)t->o.batch_size, err) != 0 ||
        optim_init(&t->optim, t->dev, t->o.spec->optim, t->o.rate, t->model.P,
                   err) != 0 ||
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
    t->keep.progress = &t->progress;
    t->keep.resume = (struct resume){
        .ddp = t->ddp,
        .o = &t->o,
        .model = &t->model,
        .optim = &t->optim,
        .samples = (int64_t)s->N,
    };
    t->sampler = ddp_sampler_new(&conf, err);
    return t->sampler != NULL ? 0 : -1;
}

/* Ranks that were started with different options or data would wait for each
 * other in different collectives, or quietly train nonsense. */
static int compare_ranks(struct trainer *t, struct ddp_error *err)
{
    const struct dataset *s = &t->data.train;
    const float numbers[] = {s->mean, s->deviation, (float)s->C};
    const struct {
        const char *name;
        int64_t value;
    } same[] = {
        {"TOTAL_EPOCHS", t->o.total_epochs},
        {"SAVE_EVERY", t->o.save_every},
        {"--save_steps", t->o.save_steps},
        {"--memory_steps", t->o.memory_steps},
        {"--seed", t->o.seed},
        {"--device (cpu or cuda)", t->dev->gpu},
        {"--comm", (int64_t)t->o.sums},
        {"--batch_size", t->o.batch_size},
        {"--hidden", t->o.hidden},
        {"--train_samples", (int64_t)s->N},
        {"--lr", (int64_t)model_hash(&t->o.rate, 1)},
        {"--model", t->o.spec - model_at(0)},
        {"training set", (int64_t)(model_hash(numbers, 3) ^ s->F)},
        {"test set", (int64_t)t->data.test.N},
    };
    enum {
        VALUES = sizeof(same) / sizeof(same[0])
    };
    int64_t mine[VALUES];
    for (int i = 0; i < VALUES; i++)
        mine[i] = same[i].value;
    int other = compare(t, mine, VALUES, err);
    if (other <= 0)
        return other;
    (void)fail_set(err, DDP_ERR_CONFLICT,
                   "rank %d has another %s than rank 0: start all nodes with "
                   "the same line and the same data",
                   other / VALUES, same[other % VALUES].name);
    return everyone(t);
}

/* -- where to go on from --------------------------------------------------- */

/* Errors that come over the communicator are of one rank; what is wrong with a
 * snapshot all of them find. */
static int not_resumed(struct trainer *t, const struct ddp_error *err)
{
    bool broken = err->code == DDP_ERR_PEER || err->code == DDP_ERR_ABORTED ||
                  err->code == DDP_ERR_TIMEOUT;
    return broken ? -1 : everyone(t);
}

/* All ranks go on from the newest snapshot that one of them has. None is a
 * fresh start from rank 0's parameters, anything else that goes wrong is an
 * error: training must not silently begin anew. */
static int start(struct trainer *t, struct ddp_error *err)
{
    if (keep_open(&t->keep, t->comm, err) != 0)
        return not_resumed(t, err);
    if (keep_load(&t->keep, &t->at, err) == 0) {
        t->optim.step = t->at.step;
        return 0;
    }
    if (err->code != DDP_ERR_NOINPUT)
        return not_resumed(t, err);
    if (broadcast(t, t->model.host, (t->model.P + t->model.S) * sizeof(float),
                  err) != 0)
        return -1;
    model_push(&t->model);
    return t->dev->check(err);
}

/* -- training -------------------------------------------------------------- */

static uint64_t fingerprint(struct trainer *t)
{
    model_pull(&t->model);
    return model_hash(t->model.host, t->model.P + t->model.S);
}

/* All ranks must hold the same parameters, to the bit. */
static int compare_params(struct trainer *t, struct ddp_error *err)
{
    int64_t mine = (int64_t)fingerprint(t);
    if (t->dev->check(err) != 0)
        return -1;
    int other = compare(t, &mine, 1, err);
    if (other <= 0)
        return other;
    (void)fail_set(err, DDP_ERR_CONFLICT,
                   "parameters of rank %d are not those of rank 0 after epoch "
                   "%lld, step %lld",
                   other, (long long)t->at.epoch + 1, (long long)t->at.step);
    return everyone(t);
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

/* Adds up gradients, the statistics behind them and the tail over all ranks.
 * Without NCCL those of a GPU go through the program's memory. */
static int sum_grads(struct trainer *t, struct ddp_error *err)
{
    struct model *m = &t->model;
    size_t n = m->P + m->S + MODEL_TAIL;
    bool through_host = m->dev->gpu && t->nccl == NULL;
    float *grads = through_host ? m->host : m->grads;
    if (t->world == 1)
        return 0;
    if (through_host)
        m->dev->get(grads, m->grads, n * sizeof(*grads));
    if (ddp_comm_allreduce(t->nccl != NULL ? t->nccl : t->comm, grads, n,
                           DDP_F32, err) != 0)
        return lost(t, err);
    if (through_host)
        m->dev->put(m->grads, grads, n * sizeof(*grads));
    return 0;
}

/* What cannot be noted is told once and ends nothing. */
static void note_samples(struct trainer *t, size_t B)
{
    struct ddp_error err;
    if (taken_add(&t->taken, t->at.epoch + 1, t->at.step + 1, t->index, B,
                  &err) == 0)
        return;
    progress_clear(&t->progress);
    fprintf(stderr, "ddptrain: rank %d: %s\n", t->rank, err.text);
    taken_free(&t->taken);
}

/* One step on B samples of this rank, already in t->index. Every rank has as
 * many, so the mean over all B*W is the sum of the ranks' parts. */
static int train_step(struct trainer *t, size_t B, struct ddp_error *err)
{
    struct model *m = &t->model;
    float tail[MODEL_TAIL] = {0}, *behind = m->grads + m->P + m->S;
    float scale = 1.0f / ((float)B * (float)t->world);

    data_gather(&t->data.train, t->index, B, &t->batch);
    struct ops_score s =
        model_backward(m, t->batch.x, t->batch.labels, t->batch.y, scale, B);
    tail[TAIL_LOSS] = (float)s.loss;
    tail[TAIL_CORRECT] = (float)s.correct;
    tail[TAIL_SEEN] = (float)B;
    tail[TAIL_STOP] = ddp_should_stop(t->ddp) != DDP_STOP_NO ? 1.0f : 0.0f;

    t->dev->put(behind, tail, sizeof(tail));
    keep_settle(&t->keep);
    note_samples(t, B);
    if (sum_grads(t, err) != 0)
        return -1;
    t->dev->get(tail, behind, sizeof(tail));
    if (t->dev->check(err) != 0)
        return -1;
    if (!isfinite(tail[TAIL_LOSS])) {
        (void)fail_set(err, DDP_ERR_USAGE,
                       "the loss is no number any more after step %lld: try a "
                       "smaller --lr than %g",
                       (long long)t->at.step, (double)t->o.rate);
        return everyone(t);
    }
    optim_step(&t->optim, m->params, m->grads);
    model_follow(m);

    t->at.step++;
    t->at.position = ddp_sampler_position(t->sampler);
    t->at.loss += (double)tail[TAIL_LOSS];
    t->at.correct += (int64_t)tail[TAIL_CORRECT];
    t->at.seen += (int64_t)tail[TAIL_SEEN];
    t->stopped = tail[TAIL_STOP] > 0.0f;
    plot_add(&t->plot, t->at.step, (double)tail[TAIL_LOSS],
             (int64_t)tail[TAIL_CORRECT], (int64_t)tail[TAIL_SEEN]);
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
    bool disk = t->o.save_steps > 0 && t->at.step % t->o.save_steps == 0;
    bool memory = t->o.memory_steps > 0 && t->at.step % t->o.memory_steps == 0;
    if (t->stopped)
        disk = keep_saves(&t->o);
    else if (ddp_sampler_left(t->sampler) == 0 && saves_at_end(t))
        disk = memory = false;
    if (disk || memory)
        keep_save(&t->keep, &t->at, t->at.epoch, disk);
    keep_tell(&t->keep);
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

/* A picture that cannot be drawn is told once and ends nothing. */
static void draw_plot(struct trainer *t, bool now)
{
    struct ddp_error err;
    if (plot_draw(&t->plot, now, &err) == 0)
        return;
    progress_clear(&t->progress);
    fprintf(stderr, "ddptrain: %s\n", err.text);
    plot_free(&t->plot);
}

static void open_plot(struct trainer *t)
{
    struct ddp_error err;
    if (t->o.plot == NULL || t->rank != 0 ||
        plot_open(&t->plot, t->o.plot, t->model.classify, t->at.step,
                  ddp_round(t->ddp), &err) == 0)
        return;
    fprintf(stderr, "ddptrain: %s\n", err.text);
}

static int open_taken(struct trainer *t, struct ddp_error *err)
{
    if (t->o.samples_taken == NULL)
        return 0;
    return taken_open(&t->taken, t->o.samples_taken, t->rank, ddp_round(t->ddp),
                      (size_t)t->o.batch_size, err);
}

static int end_epoch(struct trainer *t, struct ddp_error *err)
{
    struct place next = {.epoch = t->at.epoch + 1, .step = t->at.step};
    tell_epoch(t);
    draw_plot(t, false);
    if (compare_params(t, err) != 0)
        return -1;
    if (saves_at_end(t))
        keep_save(&t->keep, &next, t->at.epoch, true);
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
        return lost(t, err);
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
    keep_finish(&t->keep);
    draw_plot(t, true);
    if (t->world > 1)
        progress_line(&t->progress, "parameters identical on all %d ranks",
                      t->world);
    progress_line(&t->progress, "fingerprint %016llx of %zu parameters",
                  (unsigned long long)fingerprint(t), t->model.P);
    if (t->keep.unsaved)
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
    if (t->dev->gpu)
        progress_line(&t->progress, "on %s%s", t->dev->name,
                      t->nccl != NULL ? ", gradients added up by NCCL"
                      : t->world > 1  ? ", gradients added up over TCP"
                                      : "");
}

/* As this rank was asked; another one may have been asked earlier. */
static const char *why_stopped(const struct trainer *t)
{
    switch (ddp_should_stop(t->ddp)) {
    case DDP_STOP_SCALE_UP:
        return " (scale-up)";
    case DDP_STOP_SCALE_DOWN:
        return " (scale-down)";
    case DDP_STOP_NO:
    case DDP_STOP_SIGNAL:
        return "";
    }
    return "";
}

static bool stop_is_saved(const struct trainer *t)
{
    return keep_saves(&t->o) && !t->keep.unsaved;
}

static int run(struct trainer *t, struct ddp_error *err)
{
    if (set_up(t, err) != 0)
        return -1;
    t->comm = ddp_comm_new(t->ddp, NULL, err);
    if (t->comm == NULL)
        return -1;
    /* From here on all waiting is in collectives, which end when a peer does;
     * until here SIGTERM may simply kill. */
    if (ddp_stop_on_signal(t->ddp, SIGTERM, err) != 0)
        return -1;
    if (compare_ranks(t, err) != 0 || open_nccl(t, err) != 0)
        return -1;
    tell_start(t);
    if (start(t, err) != 0)
        return -1;
    if (t->at.epoch >= t->o.total_epochs)
        progress_line(&t->progress,
                      "nothing left to train: %lld epochs are done",
                      (long long)t->at.epoch);
    open_plot(t);
    if (open_taken(t, err) != 0)
        return -1;
    if (train(t, err) != 0)
        return -1;
    if (!t->stopped)
        return finish(t, err);
    keep_finish(&t->keep);
    draw_plot(t, true);
    progress_line(&t->progress, "asked to stop%s: %s step %lld", why_stopped(t),
                  stop_is_saved(t) ? "saved at" : "leaving after",
                  (long long)t->at.step);
    return 0;
}

static void tear_down(struct trainer *t, bool failed)
{
    /* Peers learn of it now, not by waiting; but an error that all ranks find
     * must not cut off those that have not found it yet. */
    if (failed && !t->common && t->comm != NULL)
        ddp_comm_abort(t->comm);
    if (failed && !t->common && t->nccl != NULL)
        ddp_comm_abort(t->nccl);
    plot_free(&t->plot);
    taken_free(&t->taken);
    keep_close(&t->keep);
    ddp_comm_free(t->nccl);
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
    static struct trainer t = {.taken.fd = -1};
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
