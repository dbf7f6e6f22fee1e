/*
 * How long snapshots of a GPU's memory keep a training step waiting, and how
 * fast they get to memory and to the disk: steps of so many ms on the GPU,
 * which should be longer than the checksums of the state take, a snapshot at
 * each of them. The stall is what a step with a snapshot takes more than one
 * without, as the host sees it and its stream. usage: bench_snapshot FOLDER MB
 * STEPS STEP_MS
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/snapshot/common.h"
#include "tests/gpu/card.h"
#include "tests/gpu/state.h"
#include "tests/lib/snapshot_memory.h"
#include "worker_rt/ddp.h"

#define STEPS_MAX  1000
#define ROUNDS_MAX 100000

struct bench {
    void *stream;
    void *work;
    size_t work_len;
    int rounds; /* of memset over the work: one step */
    struct ddp_keeper *k;
    struct state state;
};

/* One step on the GPU; when it has ended. */
static void step(struct bench *b)
{
    for (int i = 0; i < b->rounds; i++)
        card_ok(card.MemsetD8Async((uintptr_t)b->work, (uint8_t)i, b->work_len,
                                   b->stream));
}

static void steps(struct bench *b, double *ms, int n, bool save)
{
    for (int i = 0; i < n; i++) {
        double start = now_ms();
        step(b);
        if (save)
            check(ddp_keeper_save(b->k, i + 1, b->state.tensors, STATE_TENSORS,
                                  NULL, 0, false, &err));
        card_ok(card.StreamSynchronize(b->stream));
        ms[i] = now_ms() - start;
    }
}

static void set_step(struct bench *b, double wanted_ms)
{
    double ms[3];
    b->rounds = 100;
    steps(b, ms, 3, false);
    double rounds = wanted_ms / (part_of(ms, 3, 0.5) / b->rounds) + 1;
    b->rounds = rounds < ROUNDS_MAX ? (int)rounds : ROUNDS_MAX;
}

/* A save on its own: MB/s until it is sealed, or on the disk. */
static double rate(struct bench *b, int64_t at, double mb, bool disk)
{
    double start = now_ms();
    check(ddp_keeper_save(b->k, at, b->state.tensors, STATE_TENSORS, NULL, 0,
                          disk, &err));
    if (disk)
        check(ddp_keeper_wait(b->k, &err));
    else
        ddp_keeper_settle(b->k);
    return mb * 1e3 / (now_ms() - start);
}

static void measure(struct bench *b, double mb, int n)
{
    static double with[STEPS_MAX], without[STEPS_MAX];
    char name[48];
    (void)snprintf(name, sizeof(name), "row|snapshot of %.4g GB: ", mb / 1e3);
    steps(b, without, n, false);
    steps(b, with, 3, true); /* memory and locked pages are made */
    ddp_keeper_settle(b->k);
    steps(b, with, n, true);
    double plain = part_of(without, n, 0.5);
    printf("%sa step of %.0f ms waits (ms)|%.2f|\n", name, plain,
           part_of(with, n, 0.5) - plain);
    printf("%sone step in ten waits (ms)|%.2f|\n", name,
           part_of(with, n, 0.9) - plain);
    ddp_keeper_settle(b->k);
    printf("%sto memory (MB/s)|%.0f|\n", name, rate(b, n + 1, mb, false));
    printf("%sto the disk (MB/s)|%.0f|\n", name, rate(b, n + 2, mb, true));
}

int main(int argc, char *argv[])
{
    static struct bench b;
    int mb = argc == 5 ? atoi(argv[2]) : 0, n = argc == 5 ? atoi(argv[3]) : 0;
    if (mb < 1 || n < 1 || n > STEPS_MAX) {
        fputs("usage: bench_snapshot FOLDER MB STEPS STEP_MS\n", stderr);
        return 2;
    }
    card_open();
    uint64_t len = (uint64_t)mb * 1000000;
    b.work_len = len / 8;
    b.stream = card_stream();
    b.work = card_alloc(b.work_len, 1);
    state_make(&b.state, len);
    if (snapshot_memory_give(3 * (len + (UINT64_C(1) << 22))) != 0)
        return 1;
    struct ddp *d = ddp_init(&err);
    check(d == NULL ? -1 : 0);
    struct ddp_comm *comm = ddp_comm_new(d, NULL, &err);
    check(comm == NULL ? -1 : 0);
    struct ddp_keeper_conf conf = {
        .folder = argv[1], .gpu = true, .stream = b.stream};
    b.k = ddp_keeper_new(d, comm, &conf, &err);
    check(b.k == NULL ? -1 : 0);
    set_step(&b, atof(argv[4]));
    measure(&b, mb, n);
    if (ddp_keeper_no_memory(b.k)[0] != '\0') {
        fprintf(stderr, "no memory: %s\n", ddp_keeper_no_memory(b.k));
        return 1;
    }
    ddp_keeper_free(b.k);
    ddp_comm_free(comm);
    ddp_free(d);
    return 0;
}
