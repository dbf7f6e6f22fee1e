/*
 * A program on libddp: all ranks fit y = a x + b to the same line, each on its
 * own samples, and go on where they were when one of them is killed. Each rank
 * updates its part of the parameters and has the optimizer's state of that part
 * alone, so the state of the job is in pieces.
 *
 *     cc fit.c $(pkg-config --cflags --libs ddp) -o fit
 *     ddprun --standalone --nproc_per_node=4 --max_restarts=3 ./fit
 */
#include <ddp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS    2 /* a and b */
#define WORLD_MAX 1024
#define SAMPLES   1000
#define STEPS     2000

static struct ddp *d;
static struct ddp_comm *comm;
static struct ddp_keeper *keeper;
static struct ddp_sampler *sampler;
static struct ddp_error err;

/* What is saved: parameters and pairs that are the same on all ranks, this
 * rank's piece of the momentum, and what the rank has for itself. */
static float w[WORLD_MAX]; /* the first PARAMS are used, the rest fills up */
static float momentum[PARAMS];
static struct ddp_piece state[] = {
    {.local = {"w", DDP_F32, 1, {PARAMS}, w}, .whole = {PARAMS}},
    {.local = {"momentum", DDP_F32, 1, {0}, momentum}, .whole = {PARAMS}},
};
static struct ddp_kv place[] = {{.key = "epoch"}, {.key = "position"}};
static uint32_t rng;

static void check(int ok)
{
    if (ok)
        return;
    fprintf(stderr, "fit: %s\n", err.text);
    exit(err.code); /* ddprun knows what it means */
}

/* With `part` parameters on each rank, the last ranks may have none. */
static void cut_momentum(int rank, size_t part)
{
    size_t first = (size_t)rank * part;
    state[1].offset[0] = first < PARAMS ? first : PARAMS;
    state[1].local.shape[0] = first < PARAMS ? part : 0;
}

/* Of each tensor in a snapshot a rank wants the piece that it saves, whatever
 * ranks had saved the tensor. */
static bool
want(void *ctx, const struct ddp_tensor *whole, size_t i, struct ddp_piece *p)
{
    (void)ctx;
    *p = state[strcmp(whole->name, "momentum") == 0];
    return i == 0; /* one piece of each */
}

/* The newest snapshot that any rank holds; its step, 0 if there is none. */
static int64_t resume(void)
{
    int64_t epoch, position;
    size_t len;
    struct ddp_kept kept = {.size = sizeof(kept)};
    if (ddp_keeper_load_pieces(keeper, want, NULL, place, 2, &kept, &err) !=
        0) {
        check(err.code == DDP_ERR_NOINPUT); /* a fresh start */
        if (kept.why[0] != '\0' && ddp_rank(d) == 0)
            (void)fprintf(stderr, "no snapshot is whole: %s\n", kept.why);
        return 0;
    }
    check(ddp_kv_get_i64(&place[0], &epoch, &err) == 0);
    check(ddp_kv_get_i64(&place[1], &position, &err) == 0);
    check(ddp_sampler_seek(sampler, epoch, position, &err) == 0);
    const void *saved = ddp_keeper_rank_state(keeper, ddp_rank(d), &len);
    if (saved != NULL && len == sizeof(rng)) /* else the world has grown */
        memcpy(&rng, saved, len);
    return kept.step;
}

/* The gradient of one sample of this rank's. */
static void compute(float *grad)
{
    uint32_t i;
    while (ddp_sampler_next(sampler, &i, 1) == 0)
        check(ddp_sampler_seek(sampler, ddp_sampler_epoch(sampler) + 1, 0,
                               &err) == 0);
    rng = rng * 1664525u + 1013904223u;
    float noise = (float)(rng >> 16) / 65536 - 0.5f;
    float x = (float)i / SAMPLES, y = 3 * x + 1 + noise / 100;
    float diff = w[0] * x + w[1] - y;
    grad[0] = diff * x;
    grad[1] = diff;
}

/* Each rank gets the average of its part, updates that, and gives it to all. */
static void update(const float *grad, size_t part)
{
    float mine[PARAMS], *first = w + (size_t)ddp_rank(d) * part;
    check(ddp_comm_reduce_scatter(comm, grad, mine, part, DDP_F32, DDP_AVG,
                                  &err) == 0);
    for (size_t i = 0; i < part; i++) {
        momentum[i] = 0.9f * momentum[i] + mine[i];
        first[i] -= 0.04f * momentum[i];
    }
    check(ddp_comm_all_gather(comm, first, w, part, DDP_F32, &err) == 0);
}

/* To memory at each step, to the disk at some; copied while the program goes
 * on. A full disk is no reason to end. */
static void save(int64_t step, bool disk)
{
    ddp_kv_set_i64(&place[0], "epoch", ddp_sampler_epoch(sampler));
    ddp_kv_set_i64(&place[1], "position", ddp_sampler_position(sampler));
    check(ddp_keeper_set_rank_state(keeper, &rng, sizeof(rng), &err) == 0);
    if (ddp_keeper_save_pieces(keeper, step, state, 2, place, 2, disk, &err) !=
        0)
        fprintf(stderr, "fit: going on: %s\n", err.text);
}

/* Rank 0 shows all what it has. */
static void compare(int rank)
{
    float theirs[PARAMS];
    memcpy(theirs, w, sizeof(theirs));
    check(ddp_comm_broadcast(comm, theirs, sizeof(theirs), 0, &err) == 0);
    if (memcmp(theirs, w, sizeof(theirs)) != 0)
        fprintf(stderr, "fit: rank %d has other parameters\n", rank);
}

int main(void)
{
    float grad[WORLD_MAX] = {0};
    uint8_t stop = 0;
    check((d = ddp_init(&err)) != NULL);
    check((comm = ddp_comm_new(d, NULL, &err)) != NULL);
    int rank = ddp_rank(d), world = ddp_world(d);
    const struct ddp_keeper_conf keep = {.size = sizeof(keep),
                                         .folder = "fit.snapshots",
                                         .later = true,
                                         .rank_state_max = sizeof(rng)};
    check((keeper = ddp_keeper_new(d, comm, &keep, &err)) != NULL);
    const struct ddp_sampler_conf deal = {
        .samples = SAMPLES, .rank = rank, .world = world, .shuffle = true};
    check((sampler = ddp_sampler_new(&deal, &err)) != NULL);
    size_t part = world < PARAMS ? PARAMS : 1; /* times the world: enough */
    cut_momentum(rank, part);
    rng = (uint32_t)rank;
    for (int64_t step = resume() + 1; step <= STEPS && stop == 0; step++) {
        compute(grad);
        ddp_keeper_settle(keeper); /* from here on the state may change */
        update(grad, part);
        ddp_beat(d, step);
        stop = ddp_should_stop(d) != DDP_STOP_NO; /* of any rank, all do */
        check(ddp_comm_all_reduce(comm, &stop, &stop, 1, DDP_U8, DDP_MAX,
                                  &err) == 0);
        save(step, stop || step % 500 == 0);
    }
    check(ddp_keeper_wait(keeper, &err) == 0);
    compare(rank);
    if (rank == 0 && stop == 0)
        printf("y = %.1f x + %.1f\n", (double)w[0], (double)w[1]);
    ddp_sampler_free(sampler);
    ddp_keeper_free(keeper);
    ddp_comm_free(comm);
    ddp_free(d);
    return 0;
}
