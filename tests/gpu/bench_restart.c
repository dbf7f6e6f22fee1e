/*
 * From a worker's death to the next step: two ranks on one GPU take steps,
 * an all-reduce and a snapshot each; rank 1 kills itself at one of them, and
 * the next round tells when its first step is done. In between are the
 * launcher, two new processes, the driver, NCCL's start, and the state out of
 * the launcher's memory onto the GPU. usage: ddprun ... bench_restart FILE MB,
 * with a FILE that is not there
 */
#include <inttypes.h>
#include <signal.h>

#include "tests/gpu/state.h"
#include "tests/gpu/two.h"

#define KILL_AT 20

/* Where a loaded tensor is on its way to the GPU. */
struct loading {
    void *at[STATE_TENSORS];
    size_t n;
};

/* It is asked again for all tensors if another snapshot is tried. */
static void *note_place(void *ctx, const struct ddp_tensor *t)
{
    struct loading *l = ctx;
    if (l->n == STATE_TENSORS)
        l->n = 0;
    if (l->at[l->n] == NULL)
        l->at[l->n] = malloc((size_t)ddp_tensor_len(t));
    if (l->at[l->n] == NULL) {
        fputs("no memory for a tensor\n", stderr);
        exit(1);
    }
    return l->at[l->n++];
}

static void drop(struct loading *l)
{
    for (size_t i = 0; i < STATE_TENSORS; i++)
        free(l->at[i]);
}

/* All tensors are alike, so their order does not matter here. */
static int64_t resume(struct ddp_keeper *k, struct state *s, void *stream)
{
    struct loading l = {.n = 0};
    struct ddp_kept kept = {.size = sizeof(kept)};
    if (ddp_keeper_load_into(k, note_place, &l, NULL, 0, &kept, &err) != 0) {
        check(err.code == DDP_ERR_NOINPUT ? 0 : -1);
        drop(&l); /* it was asked for a save that is not whole */
        return 0;
    }
    for (size_t i = 0; i < l.n; i++)
        card_ok(card.MemcpyHtoDAsync_v2((uintptr_t)s->tensors[i].data, l.at[i],
                                        s->each, stream));
    card_ok(card.StreamSynchronize(stream));
    drop(&l);
    return kept.step;
}

static void die_at(const char *path)
{
    FILE *f = fopen(path, "we");
    if (f == NULL || fprintf(f, "%.3f\n", now_ms()) < 0 || fclose(f) != 0)
        exit(1);
    (void)raise(SIGKILL);
}

static void tell(const char *path, int mb, int64_t from)
{
    double died_ms = 0;
    FILE *f = fopen(path, "re");
    if (f == NULL || fscanf(f, "%lf", &died_ms) != 1) {
        fprintf(stderr, "%s does not say when rank 1 died\n", path);
        exit(1);
    }
    (void)fclose(f); /* only read */
    printf("row|a worker is killed: the next step is done after (ms), state "
           "of %.4g GB|%.0f|\n",
           mb / 1e3, now_ms() - died_ms);
    if (from < KILL_AT - 1) {
        fprintf(stderr, "resumed from step %" PRId64 "\n", from);
        exit(1);
    }
}

int main(int argc, char *argv[])
{
    static struct state state;
    int mb = argc == 3 ? atoi(argv[2]) : 0;
    if (mb < 1) {
        fputs("usage: bench_restart FILE MB\n", stderr);
        return 2;
    }
    struct ddp *d = two_start();
    void *stream = card_stream();
    state_make(&state, (uint64_t)mb * 1000000);
    void *grad = card_alloc(4096, 0);
    struct ddp_comm *c = two_join(d, stream, true);
    struct ddp_keeper_conf conf = {
        .size = sizeof(conf), .gpu = true, .stream = stream};
    struct ddp_keeper *k = ddp_keeper_new(d, c, &conf, &err);
    check(k == NULL ? -1 : 0);
    int64_t from = resume(k, &state, stream);
    for (int64_t step = from + 1; step <= KILL_AT + 1; step++) {
        if (ddp_comm_allreduce(c, grad, 1024, DDP_F32, &err) != 0 ||
            ddp_comm_wait(c, &err) != 0)
            return err.code;
        if (from > 0 && ddp_rank(d) == 0)
            tell(argv[1], mb, from);
        ddp_beat(d, step);
        if (from > 0)
            break;
        check(ddp_keeper_save(k, step, state.tensors, STATE_TENSORS, NULL, 0,
                              false, &err));
        ddp_keeper_settle(k);
        if (step == KILL_AT && ddp_rank(d) == 1)
            die_at(argv[1]);
    }
    ddp_keeper_free(k);
    ddp_comm_free(c);
    ddp_free(d);
    return 0;
}
