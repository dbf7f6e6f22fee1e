/*
 * trainer/train: one step is
 *
 *     gather the batch ─► forward, backward ─► gradients and tail into one
 * array ─► all-reduce ─► optimizer, running statistics ─► save
 *
 * With --shard a rank's optimizer moves its part of the parameters, and an
 * all-gather comes behind. The gradients are all-reduced nevertheless, not
 * reduce-scattered: so they have the bits that they have without --shard.
 *
 * Legend:  B  samples of this rank in one step, the same on all ranks
 *          P  parameters in all
 *          S  running statistics in all
 *          W  ranks of the job
 *
 * The tail is four floats behind the P + S of the gradients: loss, correct,
 * seen, stop. They are summed by the same all-reduce, so all ranks learn in the
 * same step that one of them was asked to stop, and what the loss is, for no
 * message more.
 *
 * Failure modes. A peer dies: the all-reduce fails on all ranks, in this step.
 * The loss is not finite, or parameters differ: all ranks find that from the
 * same numbers, and only rank 0 prints it. A file that people look at
 * (--samples_taken) cannot be written: that is told once, and training goes on.
 */
#include "trainer/train.h"

#include <math.h>
#include <stdio.h>

#include "trainer/ops/fail.h"
#include "trainer/peers.h"

enum tail {
    TAIL_LOSS,
    TAIL_CORRECT,
    TAIL_SEEN,
    TAIL_STOP,   /* more than 0: some rank was asked to stop */
    TAIL_WRITES, /* ranks whose part of the last snapshot is not on the disk */
    TAIL_COUNT
};
_Static_assert(TAIL_COUNT <= MODEL_TAIL, "the model leaves room for the tail");

/* -- the same on all ranks ------------------------------------------------- */

uint64_t train_fingerprint(struct trainer *t)
{
    model_pull(&t->model);
    return model_hash(t->model.host, t->model.P + t->model.S);
}

int train_compare(struct trainer *t, struct ddp_error *err)
{
    int64_t mine = (int64_t)train_fingerprint(t);
    if (t->dev->check(err) != 0)
        return -1;
    int other = peers_compare(t, &mine, 1, err);
    if (other <= 0)
        return other;
    (void)fail_set(
        err, DDP_ERR_CONFLICT,
        "the parameters of rank %d differ from those of rank 0 after epoch "
        "%lld, step %lld",
        other, (long long)t->at.epoch + 1, (long long)t->at.step);
    return peers_fail_alike(t);
}

/* -- files that people look at --------------------------------------------- */

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

void train_close(struct trainer *t)
{
    taken_free(&t->taken);
}

/* -- a step ---------------------------------------------------------------- */

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
        return peers_lost(t, err);
    if (through_host)
        m->dev->put(m->grads, grads, n * sizeof(*grads));
    return 0;
}

/* With --shard: each rank has moved its part of the parameters, and gets those
 * of the others. The last part may reach into the running statistics, which are
 * the same on all ranks. */
static int gather_params(struct trainer *t, struct ddp_error *err)
{
    struct model *m = &t->model;
    bool through_host = t->nccl == NULL; /* on the CPU nothing is copied */
    float *params = through_host ? m->host : m->params;
    if (!t->o.shard || t->world == 1)
        return 0;
    if (through_host)
        model_pull(m);
    if (ddp_comm_all_gather(t->nccl != NULL ? t->nccl : t->comm,
                            params + (size_t)t->rank * m->part, params, m->part,
                            DDP_F32, err) != 0)
        return peers_lost(t, err);
    if (through_host)
        model_push(m);
    return 0;
}

/* A step is done; `tail` is the sum over all ranks. */
static void advance(struct trainer *t, const float tail[MODEL_TAIL])
{
    t->at.step++;
    t->at.position = ddp_sampler_position(t->sampler);
    t->at.loss += (double)tail[TAIL_LOSS];
    t->at.correct += (int64_t)tail[TAIL_CORRECT];
    t->at.seen += (int64_t)tail[TAIL_SEEN];
    t->stopped = tail[TAIL_STOP] > 0.0f;
    t->all_wrote = tail[TAIL_WRITES] <= 0.0f;
    ddp_beat(t->ddp, t->at.step);
    progress_add(&t->progress, (int64_t)tail[TAIL_SEEN]);
    draw(t);
}

/* One step on B samples of this rank, already in t->index. Every rank has as
 * many, so with a scale of 1 / (B * W) the sum over the ranks is the gradient
 * of the mean over all samples. */
static int take_step(struct trainer *t, size_t B, struct ddp_error *err)
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
    tail[TAIL_WRITES] = keep_writes(&t->keep) ? 1.0f : 0.0f;

    t->dev->put(behind, tail, sizeof(tail));
    /* The snapshot of the step before was copied meanwhile; the optimizer may
     * change its source from here on, and no rank gets more than one step ahead
     * of what is held. */
    ddp_keeper_settle(t->keep.resume.keeper);
    note_samples(t, B);
    if (sum_grads(t, err) != 0)
        return -1;
    t->dev->get(tail, behind, sizeof(tail));
    if (t->dev->check(err) != 0)
        return -1;
    if (!isfinite(tail[TAIL_LOSS])) {
        (void)fail_set(err, DDP_ERR_USAGE,
                       "the loss is not a finite number after step %lld: try a "
                       "smaller --lr than %g",
                       (long long)t->at.step, (double)t->o.lr);
        return peers_fail_alike(t);
    }
    optim_step(&t->optim, m->params, m->grads);
    model_update_stats(m);
    /* A kernel that was not launched leaves parameters of the step before: no
     * snapshot may call them those of this one. */
    if (t->dev->noted(err) != 0 || gather_params(t, err) != 0)
        return -1;
    advance(t, tail);
    return 0;
}

/* -- epochs ---------------------------------------------------------------- */

/* Whether there is a snapshot at the end of this epoch; the last one always
 * has one, so that training can go on from there some day. */
static bool saves_at_end(const struct trainer *t)
{
    int64_t done = t->at.epoch + 1;
    return t->o.save_every > 0 &&
           (done == t->o.total_epochs || done % t->o.save_every == 0);
}

/* After each step. Behind an epoch's last one, the save at its end will do. */
static int save_between(struct trainer *t, struct ddp_error *err)
{
    bool disk = t->o.save_steps > 0 && t->at.step % t->o.save_steps == 0;
    bool memory = t->o.memory_steps > 0 && t->at.step % t->o.memory_steps == 0;
    if (t->stopped)
        disk = keep_saves(&t->o);
    else if (ddp_sampler_left(t->sampler) == 0 && saves_at_end(t))
        disk = memory = false;
    keep_tell(&t->keep, t->all_wrote);
    if (!disk && !memory)
        return 0;
    return keep_save(&t->keep, &t->at, t->at.epoch, disk, err) == 0
               ? 0
               : peers_lost(t, err);
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
    struct train_place next = {.epoch = t->at.epoch + 1, .step = t->at.step};
    tell_epoch(t);
    if (train_compare(t, err) != 0)
        return -1;
    if (saves_at_end(t) &&
        keep_save(&t->keep, &next, t->at.epoch, true, err) != 0)
        return peers_lost(t, err);
    t->at = next;
    return 0;
}

int train(struct trainer *t, struct ddp_error *err)
{
    size_t max = (size_t)t->o.batch_size;
    if (t->o.samples_taken != NULL &&
        taken_open(&t->taken, t->o.samples_taken, t->rank, ddp_round(t->ddp),
                   max, err) != 0)
        return -1;
    while (t->at.epoch < t->o.total_epochs) {
        if (ddp_sampler_seek(t->sampler, t->at.epoch, t->at.position, err) != 0)
            return -1;
        progress_start(&t->progress);
        size_t B;
        while ((B = ddp_sampler_next(t->sampler, t->index, max)) > 0) {
            if (take_step(t, B, err) != 0 || save_between(t, err) != 0)
                return -1;
            if (t->stopped)
                return 0;
        }
        if (end_epoch(t, err) != 0)
            return -1;
    }
    return 0;
}
