/*
 * trainer/setup: device, data, model, optimizer, batch, sampler, in this order:
 * each needs the ones before it.
 *
 * Legend:  B  samples of this rank in one step
 *          F  features of a sample
 *          T  targets of a sample
 *          W  ranks of the job
 *
 * Failure modes: all that setup_own finds wrong is this rank's own (a folder
 * that is missing on one node); the other ranks wait for it in ddp_comm_new
 * until the launcher ends them. What differs between ranks, setup_compare finds
 * on all of them at once, from the same numbers.
 */
#include "trainer/setup.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/ops/fail.h"
#include "trainer/peers.h"

/* If there is no GPU, `auto` is the CPU, and `cuda` is an error that says why
 * there is none. */
static int choose_device(struct trainer *t, struct ddp_error *err)
{
    t->dev = NULL;
    if (t->o.device != OPTIONS_DEVICE_CPU)
        t->dev = device_cuda(ddp_local_rank(t->ddp), err);
    if (t->dev != NULL)
        return 0;
    t->dev = device_cpu();
    if (t->o.device != OPTIONS_DEVICE_CUDA && t->o.comm != OPTIONS_COMM_NCCL)
        return 0;
    struct ddp_error why = *err;
    return fail_set(err, why.code, "%s: %.400s",
                    t->o.device == OPTIONS_DEVICE_CUDA ? "--device=cuda"
                                                       : "--comm=nccl",
                    why.text);
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

/* With --shard the optimizer has this rank's part of the parameters; the last
 * parts may be shorter or empty. */
static int make_optim(struct trainer *t, struct ddp_error *err)
{
    const struct model *m = &t->model;
    struct optim *o = &t->optim;
    size_t first = t->o.shard ? (size_t)t->rank * m->part : 0;
    if (optim_init(o, t->dev, t->o.spec->optim, t->o.lr, m->part, err) != 0)
        return -1;
    o->first = first < m->P ? first : m->P;
    o->P = o->P < m->P - o->first ? o->P : m->P - o->first;
    return 0;
}

/* The model and its optimizer. The seed gives all ranks the same first
 * parameters; on a fresh start rank 0 hands its own out nevertheless (main), so
 * that nothing depends on that. */
static int make_model(struct trainer *t, struct ddp_error *err)
{
    const struct model_spec *spec = t->o.spec;
    const struct dataset *s = &t->data.train;
    size_t outputs = s->C > 0 ? s->C : s->T;
    /* oneDNN only for convolutions: the other models keep the bits that they
     * have without it. */
    if (!t->dev->gpu && spec->conv && !ops_use_library())
        progress_line(
            &t->progress,
            "libdnnl was not found, so training will be slow: install "
            "libdnnl2 (oneDNN)");
    if (t->dev->gpu && !device_cuda_use_library(true))
        progress_line(&t->progress,
                      "libcublas was not found, so training will be slower: "
                      "install cuBLAS, or put its folder into "
                      "LD_LIBRARY_PATH");
    if (model_init(&t->model, t->dev, spec, s->F, outputs, (size_t)t->o.hidden,
                   (size_t)t->o.batch_size, t->o.shard ? (size_t)t->world : 1,
                   err) != 0 ||
        make_optim(t, err) != 0)
        return -1;
    model_randomize(&t->model, (uint64_t)t->o.seed);
    return 0;
}

/* Which samples are this rank's, in each epoch. */
static int make_sampler(struct trainer *t, struct ddp_error *err)
{
    struct ddp_sampler_conf conf = {
        .samples = t->data.train.N,
        .rank = t->rank,
        .world = t->world,
        .seed = (uint64_t)t->o.seed,
        .shuffle = true,
    };
    t->sampler = ddp_sampler_new(&conf, err);
    return t->sampler != NULL ? 0 : -1;
}

int setup_own(struct trainer *t, struct ddp_error *err)
{
    if (choose_device(t, err) != 0 || load_data(t, err) != 0 ||
        make_model(t, err) != 0 || make_batch(t, err) != 0 ||
        make_sampler(t, err) != 0)
        return -1;
    t->keep.progress = &t->progress;
    t->keep.resume = (struct resume){
        .ddp = t->ddp,
        .o = &t->o,
        .model = &t->model,
        .optim = &t->optim,
        .samples = (int64_t)t->data.train.N,
    };
    return 0;
}

/* Floats and pointers are compared as integers that stand for them: bits as a
 * hash, the model as its row, the pixels of all images as mean and deviation.
 */
int setup_compare(struct trainer *t, struct ddp_error *err)
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
        {"--comm", t->o.comm},
        {"--shard", t->o.shard},
        {"--batch_size", t->o.batch_size},
        {"--hidden", t->o.hidden},
        {"--train_samples", (int64_t)s->N},
        {"--lr", (int64_t)model_hash(&t->o.lr, 1)},
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
    int other = peers_compare(t, mine, VALUES, err); /* in (W,VALUES) */
    if (other <= 0)
        return other;
    (void)fail_set(err, DDP_ERR_CONFLICT,
                   "rank %d has another %s than rank 0: start all nodes with "
                   "the same command line and the same data",
                   other / VALUES, same[other % VALUES].name);
    return peers_fail_alike(t);
}

/* How many ranks have a GPU that another rank has too; -1 on error. The sum
 * over all ranks makes all of them decide alike. */
static int64_t count_shared(struct trainer *t, struct ddp_error *err)
{
    size_t len = sizeof(t->dev->id);
    int64_t shared = 0;
    uint8_t *all = calloc((size_t)t->world, len); /* (W,16) */
    if (all == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for the ranks");
    int rc = ddp_comm_allgather(t->comm, t->dev->id, len, all, err);
    for (int r = 0; rc == 0 && r < t->world; r++)
        if (r != t->rank && memcmp(all + (size_t)r * len, t->dev->id, len) == 0)
            shared = 1;
    free(all);
    if (rc == 0)
        rc = ddp_comm_allreduce(t->comm, &shared, 1, DDP_I64, err);
    return rc == 0 ? shared : peers_lost(t, err);
}

int setup_nccl(struct trainer *t, struct ddp_error *err)
{
    struct ddp_comm_opts opts = {.kind = DDP_COMM_NCCL,
                                 .stream = t->dev->stream};
    if (!t->dev->gpu || t->world == 1 || t->o.comm == OPTIONS_COMM_TCP)
        return 0;
    int64_t shared = t->o.comm == OPTIONS_COMM_AUTO ? count_shared(t, err) : 0;
    if (shared != 0)
        return shared > 0 ? 0 : -1;
    t->nccl = ddp_comm_new(t->ddp, &opts, err);
    return t->nccl != NULL ? 0 : -1;
}

void setup_free(struct trainer *t)
{
    ddp_sampler_free(t->sampler);
    free(t->index);
    free(t->batch.x);
    free(t->batch.labels);
    free(t->batch.y);
    optim_free(&t->optim);
    model_free(&t->model);
    data_free(&t->data);
}
