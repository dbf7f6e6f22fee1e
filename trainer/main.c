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
 * fingerprints are compared. With --shard each rank takes the optimizer's step
 * for a part of the parameters only, and has the state of that part alone; then
 * the ranks hand each other what they moved.
 *
 * All ranks must take the same branches, or they wait for each other in
 * different collectives. If one rank learns something alone (it found a
 * snapshot, or got a signal), all agree over the communicator before any rank
 * acts. A rank that fails exits with the error's number; the others fail in
 * their next collective, within 100 ms, and exit too. The launcher starts all
 * of them again, and they resume from the newest snapshot.
 *
 * trainer/setup has what a rank needs before its first step, train the steps,
 * peers what ranks agree on, keep and resume how it saves and resumes.
 */
#include <signal.h>
#include <stdio.h>

#include "trainer/ops/fail.h"
#include "trainer/peers.h"
#include "trainer/setup.h"
#include "trainer/train.h"
#include "trainer/trainer.h"

#ifndef DDPRUN_VERSION
#define DDPRUN_VERSION "of unknown version"
#endif

static void tell(struct trainer *t, const struct ddp_error *err)
{
    progress_clear(&t->progress);
    if (!t->common || t->rank == 0)
        fprintf(stderr, "ddptrain: rank %d: %s\n", t->rank, err->text);
}

/* -- where to go on from --------------------------------------------------- */

/* A collective that broke is an error of this rank. What is wrong with a
 * snapshot, all ranks find alike. */
static int not_resumed(struct trainer *t, const struct ddp_error *err)
{
    bool broken = err->code == DDP_ERR_PEER || err->code == DDP_ERR_ABORTED ||
                  err->code == DDP_ERR_TIMEOUT;
    return broken ? -1 : peers_fail_alike(t);
}

/* All ranks go on from the newest snapshot that one of them has. If there is
 * none, it is a fresh start from rank 0's parameters. Anything else that goes
 * wrong is an error: training must not silently begin anew. */
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
    if (ddp_comm_broadcast(t->comm, t->model.host,
                           (t->model.P + t->model.S) * sizeof(float), 0,
                           err) != 0)
        return peers_lost(t, err);
    model_push(&t->model);
    return t->dev->check(err);
}

/* -- the end --------------------------------------------------------------- */

/* Each rank scores every W-th sample of the test set, in batches of at most
 * batch_size; then the sums of all ranks are added up. */
static int evaluate(struct trainer *t, struct ddp_error *err)
{
    const struct dataset *s = &t->data.test;
    size_t W = (size_t)t->world, max = (size_t)t->o.batch_size;
    double sum[2] = {0.0,
                     0.0}; /* loss; correct, which a double counts exactly */
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
    /* What the kernels of a GPU that failed left is no score. */
    if (t->dev->check(err) != 0)
        return -1;
    if (ddp_comm_allreduce(t->comm, sum, 2, DDP_F64, err) != 0)
        return peers_lost(t, err);
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
    if (train_compare(t, err) != 0 || evaluate(t, err) != 0)
        return -1;
    keep_finish(&t->keep, t->comm);
    if (t->world > 1) /* messages: ok, 2 or more */
        progress_line(&t->progress, "parameters identical on all %d ranks",
                      t->world);
    progress_line(&t->progress, "fingerprint %016llx of %zu parameters",
                  (unsigned long long)train_fingerprint(t), t->model.P);
    if (!t->keep.unsaved)
        return 0;
    (void)fail_set(err, DDP_ERR_IO,
                   "training is done, but the last snapshot was not saved to "
                   "%.200s",
                   t->o.snapshot_path);
    return peers_fail_alike(t);
}

static void tell_start(struct trainer *t)
{
    progress_line(&t->progress,
                  "training %s: %zu parameters, %zu sample%s, %d rank%s x "
                  "batch %lld, %s%s, learning rate %g, seed %lld",
                  t->o.spec->name, t->model.P, t->data.train.N,
                  t->data.train.N == 1 ? "" : "s", t->world,
                  t->world == 1 ? "" : "s", (long long)t->o.batch_size,
                  optim_name(t->optim.kind),
                  t->o.shard ? " with a part of its state on each rank" : "",
                  (double)t->o.lr, (long long)t->o.seed);
    if (t->dev->gpu)
        progress_line(&t->progress, "on %s%s", t->dev->name,
                      t->nccl != NULL ? ", gradients added up by NCCL"
                      : t->world > 1  ? ", gradients added up over TCP"
                                      : "");
}

/* Why this rank was asked to stop; the reason of another may differ. */
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

static int run(struct trainer *t, struct ddp_error *err)
{
    if (setup_own(t, err) != 0)
        return -1;
    t->comm = ddp_comm_new(t->ddp, NULL, err);
    if (t->comm == NULL)
        return -1;
    /* From here on this rank waits only in collectives, which end when a peer
     * does. Until here SIGTERM may simply kill. */
    if (ddp_stop_on_signal(t->ddp, SIGTERM, err) != 0)
        return -1;
    if (setup_compare(t, err) != 0 || setup_nccl(t, err) != 0)
        return -1;
    tell_start(t);
    if (start(t, err) != 0)
        return -1;
    if (t->at.epoch >= t->o.total_epochs)
        progress_line(&t->progress, "nothing left to train: %lld epoch%s done",
                      (long long)t->at.epoch,
                      t->at.epoch == 1 ? " is" : "s are");
    if (train(t, err) != 0)
        return -1;
    if (!t->stopped)
        return finish(t, err);
    keep_finish(&t->keep, t->comm);
    bool saved = keep_saves(&t->o) && !t->keep.unsaved;
    progress_line(&t->progress, "asked to stop%s: %s step %lld", why_stopped(t),
                  saved ? "saved at" : "leaving after", (long long)t->at.step);
    return 0;
}

static void tear_down(struct trainer *t, bool failed)
{
    /* Peers learn of a failure at once, instead of by waiting. But an error
     * that all ranks find must not cut off those that have not found it yet. */
    if (failed && !t->common && t->comm != NULL)
        ddp_comm_abort(t->comm);
    if (failed && !t->common && t->nccl != NULL)
        ddp_comm_abort(t->nccl);
    train_close(t);
    keep_close(&t->keep);
    ddp_comm_free(t->nccl);
    ddp_comm_free(t->comm);
    setup_free(t);
    ddp_free(t->ddp);
}

/* --help and --version. */
static int answer(const struct options *o)
{
    if (o->help)
        options_help(stdout);
    else
        puts("ddptrain " DDPRUN_VERSION);
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return 0;
    perror("ddptrain: cannot write to standard output");
    return DDP_ERR_IO;
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
    if (t.o.help || t.o.version)
        return answer(&t.o);
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
