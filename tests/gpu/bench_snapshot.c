/*
 * How long snapshots of a GPU's memory keep a training step waiting, and how
 * fast they get to the disk: a state as large as that of GPT-2 with 124 million
 * parameters (with Adam's averages 1.5 GB), steps of so many ms on the GPU
 * (400, longer than checksums of the state take), a snapshot at each of them.
 * The stall is what a step with a snapshot takes more than one without, as the
 * host sees it and its stream. usage: bench_snapshot [FOLDER [STEPS [STEP_MS
 * [MB]]]]
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/snapshot/common.h"
#include "tests/lib/snapshot_memory.h"
#include "worker_rt/ddp.h"

#define TENSORS   148 /* of GPT-2, three times: more, smaller ones */
#define STATE_MB  1493
#define WORK_LEN  ((size_t)1 << 28)
#define STEPS_MAX 1000

static void cuda(cudaError_t rc)
{
    if (rc == cudaSuccess)
        return;
    fprintf(stderr, "bench_snapshot: CUDA: %s\n", cudaGetErrorString(rc));
    exit(1);
}

struct bench {
    cudaStream_t stream;
    void *work;
    int rounds; /* of memset over the work: one step */
    struct ddp_keeper *k;
    struct ddp_tensor tensors[TENSORS];
    char names[TENSORS][16];
};

static void make_state(struct bench *b, uint64_t len)
{
    uint64_t each = len / TENSORS / 4;
    for (int i = 0; i < TENSORS; i++) {
        void *p = NULL;
        cuda(cudaMalloc(&p, each * 4));
        cuda(cudaMemset(p, i + 1, each * 4));
        (void)snprintf(b->names[i], sizeof(b->names[i]), "t%03d", i);
        b->tensors[i] = (struct ddp_tensor){.name = b->names[i],
                                            .dtype = DDP_F32,
                                            .dims = 1,
                                            .shape = {each},
                                            .data = p};
    }
}

/* One step on the GPU; when it has ended. */
static void step(struct bench *b)
{
    for (int i = 0; i < b->rounds; i++)
        cuda(cudaMemsetAsync(b->work, i, WORK_LEN, b->stream));
}

static double steps_ms(struct bench *b, double *ms, int n, bool save)
{
    double saves = 0;
    for (int i = 0; i < n; i++) {
        double start = now_ms();
        step(b);
        double before = now_ms();
        if (save)
            check(ddp_keeper_save(b->k, i + 1, b->tensors, TENSORS, NULL, 0,
                                  false, &err));
        saves += now_ms() - before;
        cuda(cudaStreamSynchronize(b->stream));
        ms[i] = now_ms() - start;
    }
    return saves / n;
}

static void set_step(struct bench *b, double wanted_ms)
{
    double ms[3];
    b->rounds = 100;
    (void)steps_ms(b, ms, 3, false);
    double one = part_of(ms, 3, 0.5) / b->rounds;
    b->rounds = (int)(wanted_ms / one) + 1;
}

int main(int argc, char *argv[])
{
    static struct bench b;
    static double with[STEPS_MAX], without[STEPS_MAX];
    const char *folder = argc > 1 ? argv[1] : "bench_snapshot.d";
    int n = argc > 2 ? atoi(argv[2]) : 20, count = 0;
    double wanted_ms = argc > 3 ? atof(argv[3]) : 400;
    uint64_t len = (uint64_t)(argc > 4 ? atoi(argv[4]) : STATE_MB) * 1000000;
    if (n < 1 || n > STEPS_MAX)
        return 2;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1) {
        puts("bench_snapshot: skipped: no GPU");
        return 0;
    }
    cuda(cudaSetDevice(0));
    cuda(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    cuda(cudaMalloc(&b.work, WORK_LEN));
    make_state(&b, len);
    if (snapshot_memory_give(3 * (len + (UINT64_C(1) << 22))) != 0)
        return 1;
    struct ddp *d = ddp_init(&err);
    check(d == NULL ? -1 : 0);
    struct ddp_comm *comm = ddp_comm_new(d, NULL, &err);
    check(comm == NULL ? -1 : 0);
    struct ddp_keeper_conf conf = {
        .folder = folder, .gpu = true, .stream = b.stream};
    b.k = ddp_keeper_new(d, comm, &conf, &err);
    check(b.k == NULL ? -1 : 0);
    set_step(&b, wanted_ms);
    (void)steps_ms(&b, without, n, false);
    (void)steps_ms(&b, with, 3, true); /* memory and locked pages are made */
    double call = steps_ms(&b, with, n, true);
    check(ddp_keeper_wait(b.k, &err));
    double plain = part_of(without, n, 0.5);
    printf("state_MB=%.0f step_ms=%.1f\n", (double)len / 1e6, plain);
    printf("save call: mean_ms=%.2f\n", call);
    printf("stall: median_ms=%.2f p90_ms=%.2f\n", part_of(with, n, 0.5) - plain,
           part_of(with, n, 0.9) - plain);
    double start = now_ms();
    check(
        ddp_keeper_save(b.k, n + 10, b.tensors, TENSORS, NULL, 0, true, &err));
    check(ddp_keeper_wait(b.k, &err));
    printf("to the disk: disk_MBps=%.0f\n",
           (double)len / 1e3 / (now_ms() - start));
    ddp_keeper_free(b.k);
    ddp_comm_free(comm);
    ddp_free(d);
    return 0;
}
