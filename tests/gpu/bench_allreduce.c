/*
 * An all-reduce of two ranks on one GPU: by libddp, whose communicator does not
 * block and watches the peers, and by a plain one of NCCL that blocks. Each is
 * waited for before the next one. usage: ddprun ... bench_allreduce TIMES
 * BYTES...
 */
#include <nccl.h>

#include "tests/gpu/two.h"

#define TIMES_MAX 1000
#define WARM      5

static struct {
    __typeof__(ncclGetUniqueId) *GetUniqueId;
    __typeof__(ncclCommInitRankConfig) *CommInitRankConfig;
    __typeof__(ncclAllReduce) *AllReduce;
    __typeof__(ncclCommDestroy) *CommDestroy;
} nccl;

static void nccl_ok(ncclResult_t rc)
{
    if (rc == ncclSuccess)
        return;
    fprintf(stderr, "NCCL failed with error %d\n", (int)rc);
    exit(1);
}

/* The library that libddp has loaded. */
static void load(void)
{
    const char *path = getenv("DDP_NCCL_LIBRARY");
    void *lib = dlopen(path == NULL || *path == '\0' ? "libnccl.so.2" : path,
                       RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL)
        exit(1);
    card_find(lib, "ncclGetUniqueId", &nccl.GetUniqueId);
    card_find(lib, "ncclCommInitRankConfig", &nccl.CommInitRankConfig);
    card_find(lib, "ncclAllReduce", &nccl.AllReduce);
    card_find(lib, "ncclCommDestroy", &nccl.CommDestroy);
}

struct bench {
    struct ddp *d;
    struct ddp_comm *ours;
    struct ddp_comm *enqueues; /* of libddp, with async */
    ncclComm_t blocking;
    void *stream;
    void *data;
    int times;
};

static ncclComm_t join_blocking(struct bench *b)
{
    ncclUniqueId id;
    ncclComm_t c = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    if (ddp_rank(b->d) == 0)
        nccl_ok(nccl.GetUniqueId(&id));
    check(ddp_comm_broadcast(b->ours, &id, sizeof(id), 0, &err));
    nccl_ok(nccl.CommInitRankConfig(&c, ddp_world(b->d), id, ddp_rank(b->d),
                                    &config));
    return c;
}

typedef void reduce_fn(struct bench *b, size_t n);

static void reduce_ours(struct bench *b, size_t n)
{
    check(ddp_comm_allreduce(b->ours, b->data, n, DDP_F32, &err));
}

static void reduce_async(struct bench *b, size_t n)
{
    check(ddp_comm_allreduce(b->enqueues, b->data, n, DDP_F32, &err));
    check(ddp_comm_wait(b->enqueues, &err));
}

static void reduce_blocking(struct bench *b, size_t n)
{
    nccl_ok(nccl.AllReduce(b->data, b->data, n, ncclFloat32, ncclSum,
                           b->blocking, b->stream));
    card_ok(card.StreamSynchronize(b->stream));
}

/* The median, in microseconds. */
static double measure(struct bench *b, reduce_fn *reduce, size_t len)
{
    static double us[TIMES_MAX];
    for (int i = -WARM; i < b->times; i++) {
        double start = now_ms();
        reduce(b, len / 4);
        us[i < 0 ? 0 : i] = (now_ms() - start) * 1e3;
    }
    check(ddp_comm_barrier(b->ours, &err));
    return part_of(us, b->times, 0.5);
}

static void compare(struct bench *b, size_t len)
{
    double ours = measure(b, reduce_ours, len);
    double waits = measure(b, reduce_async, len);
    double theirs = measure(b, reduce_blocking, len);
    if (ddp_rank(b->d) != 0)
        return;
    printf("row|all-reduce of %zu bytes, 2 ranks (us)|%.1f|%.1f, blocking\n",
           len, ours, theirs);
    printf("row|all-reduce of %zu bytes, enqueued, then waited for (us)|%.1f|"
           "%.1f, blocking\n",
           len, waits, theirs);
}

int main(int argc, char *argv[])
{
    struct bench b = {.times = argc > 2 ? atoi(argv[1]) : 0};
    size_t most = 0;
    for (int i = 2; i < argc; i++)
        most = strtoull(argv[i], NULL, 10) > most ? strtoull(argv[i], NULL, 10)
                                                  : most;
    if (b.times < 1 || b.times > TIMES_MAX || most < 4) {
        fputs("usage: bench_allreduce TIMES BYTES...\n", stderr);
        return 2;
    }
    b.d = two_start();
    b.stream = card_stream();
    b.data = card_alloc(most, 0);
    b.ours = two_join(b.d, b.stream, false);
    b.enqueues = two_join(b.d, b.stream, true);
    load();
    b.blocking = join_blocking(&b);
    for (int i = 2; i < argc; i++)
        compare(&b, (size_t)strtoull(argv[i], NULL, 10));
    (void)nccl.CommDestroy(b.blocking); /* all is done */
    ddp_comm_free(b.enqueues);
    ddp_comm_free(b.ours);
    ddp_free(b.d);
    return 0;
}
