/* links: worker_rt/{own_part,env,proof,fork,abi,death_sign,gpu,beat} */
/* links: tests/lib/{scratch,rt_world} */
/* links: worker_rt/comm/{comm,nccl,nccl_lib,nccl_wait,head,reduce} */
/* links: worker_rt/keeper/{keeper,keeper_load,keeper_threads,keeper_put} */
/* links: worker_rt/keeper/{keeper_pieces,commit,keeper_compare,compare} */
/* links: worker_rt/keeper/{keeper_mirrors,keeper_find,keeper_ranks} */
/* links: worker_rt/keeper/{keeper_send,keeper_gather,keeper_images} */
/* links: worker_rt/keeper/{keeper_plan,keeper_fetch,keeper_headers} */
/* links: worker_rt/keeper/{keeper_agree,keeper_places} */
/* links: worker_rt/snapshot/{mirror_pairs,mirror,pieces,piece_plan} */
/* links: worker_rt/snapshot/{ranges,device_copy,mem_slots,snapshot_dir} */
/* links: worker_rt/snapshot/{atomic_file,image,snapshot,load,safetensors} */
/* links: rendezvous/base/{signals_name,dial,rng,json,utf8,buf} */
/* links: rendezvous/client/store */
/* libs: -luv -lcjson -lxxhash -pthread */
/* libs: -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * The law of labels: what is resumed is the state of some step of a run in
 * which nothing failed, to the bit, and at most one saved step is lost.
 *
 * One rank is real: its program, keeper, communicators, over a driver and an
 * NCCL that are not (tests/lib/fake_cuda, fake_nccl). All of the other rank is
 * what it adds to each sum, until it dies, and a control that notices that
 * sooner or later. Everything is enqueued, as a program does that wants speed:
 *
 *     gradients, their sum, the optimizer, a copy of the state, the next step
 *
 * A schedule is one seed: where the program waits, settles and saves, how fast
 * the device is, and what fails between which two calls: the other rank, the
 * GPU (which is told late and by another call), NCCL itself, this worker, its
 * node (then only the disk is left). Half of the programs do not care about
 * errors and go on; some have little room on the GPU for the copy, or none.
 *
 * SCHEDULES=n plays that many, SEED=n that one only.
 */
#include <check.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/fake_nccl.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/scratch.h"
#include "tests/lib/snapshot_memory.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/meet.h"
#include "worker_rt/comm/nccl.h"
#include "worker_rt/comm/wire.h"
#include "worker_rt/rt.h"
#include "worker_rt/keeper/keeper.h"

#define SCHEDULES 1000
#define STEPS     8
#define A         48 /* floats of the state, and of the first sum */
#define B         16 /* of the second, by another communicator */
#define SLOT      ((size_t)16384)
#define MEMORY    (SNAPSHOT_SLOTS * SLOT)

/* What ranks tell each other before their pieces: three numbers, of which this
 * one is the node's. */
#define HEAD_LEN  (3 * sizeof(int64_t))
#define HEAD_NODE 1

/* -- the run in which nothing fails ---------------------------------------- */

static float true_state[STEPS + 1][A];
static float true_sum[STEPS + 1][A]; /* of the first communicator */

static float sample(int rank, int step, int i)
{
    return (float)((rank * 31 + step * 7 + i * 3) % 17) / 8.0f - 1.0f;
}

static void grad_of(float *g, const float *w, int rank, int step)
{
    for (int i = 0; i < A; i++)
        g[i] = sample(rank, step, i) + 0.25f * w[i];
}

/* Of the sum of the first ones. */
static void more_of(float *m, const float *sum, int rank, int step)
{
    for (int i = 0; i < B; i++)
        m[i] = sum[i] * 0.5f + sample(rank, step, i + 5);
}

static void optimize(float *w, const float *sum, const float *more)
{
    for (int i = 0; i < A; i++)
        w[i] -= 0.125f * sum[i] + 0.0625f * more[i % B];
}

static void find_truth(bool two)
{
    memset(true_state, 0, sizeof(true_state));
    for (int s = 1; s <= STEPS; s++) {
        float other[A], more[B] = {0}, others[B];
        float *sum = true_sum[s];
        grad_of(sum, true_state[s - 1], 0, s);
        grad_of(other, true_state[s - 1], 1, s);
        for (int i = 0; i < A; i++)
            sum[i] = 0.0f + sum[i] + other[i];
        if (two) {
            more_of(more, sum, 0, s);
            more_of(others, sum, 1, s);
            for (int i = 0; i < B; i++)
                more[i] = 0.0f + more[i] + others[i];
        }
        memcpy(true_state[s], true_state[s - 1], sizeof(true_state[s]));
        optimize(true_state[s], sum, more);
    }
}

/* -- the other rank -------------------------------------------------------- */

static struct other {
    /* Sums to which it still adds; -1: all. Read by the program, too. */
    atomic_int gives;
    int unnoticed; /* looks of the control that do not see its death */
} other;

static bool other_adds(int rank, long long number, void *part, size_t len)
{
    int step = (int)number + 1;
    if (other.gives == 0 || step > STEPS)
        return false;
    other.gives -= other.gives > 0;
    if (len == sizeof(float) * A)
        grad_of(part, true_state[step - 1], rank, step);
    else
        more_of(part, true_sum[step], rank, step);
    return true;
}

/* -- a control without connections ----------------------------------------- */

struct control {
    struct ddp_comm base;
    struct wire wire;
};

static int died(struct wire *w, struct ddp_err *err)
{
    w->blame = (struct wire_blame){.why = WIRE_DIED, .rank = 1};
    return ddp_err_set(err, DDP_E_PEER, "rank 1 died");
}

/* Nobody waits for this one's addresses. */
void comm_meet_give_up(const struct comm_place *place,
                       struct store_client *store,
                       const struct ddp_err *why)
{
    (void)place;
    (void)store;
    (void)why;
}

int wire_watch(struct wire *w, struct ddp_err *err)
{
    if (atomic_load(&w->aborted)) {
        w->blame = (struct wire_blame){.why = WIRE_ABORTED, .rank = 0};
        return ddp_err_set(err, DDP_E_ABORTED, "aborted");
    }
    if (w->deadline_us > 0 && mono_now_us() > w->deadline_us) {
        w->blame = (struct wire_blame){.why = WIRE_LATE, .rank = 0};
        return ddp_err_set(err, DDP_E_TIMEOUT, "late");
    }
    return other.gives == 0 && other.unnoticed-- <= 0 ? died(w, err) : 0;
}

int wire_begin(struct wire *w,
               const struct comm_call *call,
               int64_t timeout_us,
               struct ddp_err *err)
{
    int rc = wire_attend(w, timeout_us, err);
    w->head.kind = (uint16_t)call->kind;
    return rc;
}

int wire_attend(struct wire *w, int64_t timeout_us, struct ddp_err *err)
{
    if (w->broken && err != NULL)
        *err = w->why;
    if (w->broken)
        return -1;
    w->head.kind = WIRE_WAIT;
    w->blame = (struct wire_blame){.why = WIRE_FAILED, .rank = 0};
    w->deadline_us = timeout_us == MONO_NEVER ? 0 : mono_now_us() + timeout_us;
    return 0;
}

int wire_end(struct wire *w, int rc, const struct ddp_err *err)
{
    if (rc == 0 || w->broken)
        return rc;
    w->broken = true;
    w->why = *err;
    return rc;
}

void wire_abort(struct wire *w)
{
    atomic_store(&w->aborted, true);
}

struct wire *comm_cpu_wire(struct ddp_comm *c)
{
    return &((struct control *)c)->wire;
}

/* A collective of the control: the other rank, on a node of its own, does what
 * we do, or is dead. What it had enqueued before may never be done. */
static int meet(struct ddp_comm *c, struct ddp_err *err)
{
    struct wire *w = comm_cpu_wire(c);
    if (wire_attend(w, c->timeout_us, err) != 0)
        return -1;
    bool dead = other.gives == 0 && other.unnoticed-- <= 0;
    return wire_end(w, dead ? died(w, err) : 0, err);
}

static int
meet_call(struct ddp_comm *c, const struct comm_call *call, struct ddp_err *err)
{
    size_t len = comm_call_len(call);
    for (int r = 0; call->kind == WIRE_ALLGATHER && r < c->world; r++)
        memcpy((uint8_t *)call->out + (size_t)r * len, call->in, len);
    if (call->kind == WIRE_ALLGATHER && len == HEAD_LEN)
        ((int64_t *)call->out)[HEAD_LEN / sizeof(int64_t) + HEAD_NODE] = 1;
    return meet(c, err);
}

static void control_leave(struct ddp_comm *c)
{
    (void)c;
}

static void control_del(struct ddp_comm *c)
{
    free(c);
}

static const struct comm_ops control_ops = {
    .call = meet_call,
    .barrier = meet,
    .leave = control_leave,
    .del = control_del,
};

struct ddp_comm *comm_cpu_new(const struct comm_place *place,
                              struct store_client *store,
                              int64_t deadline_us,
                              struct ddp_err *err)
{
    struct control *c = calloc(1, sizeof(*c));
    (void)store, (void)deadline_us, (void)err;
    ck_assert_ptr_nonnull(c);
    c->base = (struct ddp_comm){.ops = &control_ops,
                                .rank = place->rank,
                                .world = place->world,
                                .timeout_us = MONO_NEVER};
    return &c->base;
}

/* -- the device ------------------------------------------------------------ */

static void *function(const char *lib, const char *name)
{
    void *handle = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(handle);
    void *found = dlsym(handle, name);
    ck_assert_ptr_nonnull(found);
    return found;
}

#define LOAD(lib, to, name)                                                    \
    do {                                                                       \
        void *found_ = function(lib, name);                                    \
        memcpy(&(to), &found_, sizeof(found_));                                \
    } while (0)

static struct fake_cuda *cuda;
static struct fake_nccl *nccl;
static void *(*shadow)(const void *);
static void (*push)(void *, fake_op_fn *, void *);
static int (*alloc)(uintptr_t *, size_t);
static void (*reset)(void);

static void load_device(void)
{
    struct fake_cuda *(*get_cuda)(void);
    struct fake_nccl *(*get_nccl)(void);
    LOAD("libcuda.so.1", get_cuda, "fake_cuda");
    LOAD("libnccl.so.2", get_nccl, "fake_nccl");
    LOAD("libcuda.so.1", shadow, "fake_shadow");
    LOAD("libcuda.so.1", push, "fake_stream_push");
    LOAD("libcuda.so.1", alloc, "cuMemAlloc_v2");
    LOAD("libcuda.so.1", reset, "fake_cuda_reset");
    cuda = get_cuda();
    nccl = get_nccl();
}

static float *on_device(size_t n)
{
    uintptr_t p = 0;
    ck_assert_int_eq(alloc(&p, n * sizeof(float)), 0);
    memset(shadow((void *)p), 0, n * sizeof(float));
    return (float *)p;
}

/* -- the program ----------------------------------------------------------- */

struct program {
    struct rng rng;
    struct ddp *d;
    struct ddp_comm *first, *second; /* `second` NULL: one does */
    struct ddp_keeper *keeper;
    float *w, *sum, *more; /* on the device */
    int64_t step;          /* a tensor in host memory */
    struct ddp_tensor state[2];
    bool careless;
    bool failed;
    bool disk;
    int memory;       /* memfd */
    int64_t last;     /* saved; 0: none */
    int64_t floor;    /* the step that a resume must reach; 0: none */
    int64_t kill_at;  /* calls until this worker is killed; -1: never */
    int64_t abort_at; /* until the program aborts; -1: never */
};

/* A kernel. */
struct kernel {
    struct program *p;
    int step;
};

static bool run_grad(void *arg)
{
    const struct kernel *k = arg;
    grad_of(shadow(k->p->sum), shadow(k->p->w), 0, k->step);
    return true;
}

static bool run_more(void *arg)
{
    const struct kernel *k = arg;
    more_of(shadow(k->p->more), shadow(k->p->sum), 0, k->step);
    return true;
}

static bool run_optimizer(void *arg)
{
    const struct kernel *k = arg;
    optimize(shadow(k->p->w), shadow(k->p->sum), shadow(k->p->more));
    return true;
}

static void launch(struct program *p, fake_op_fn *fn)
{
    struct kernel *k = malloc(sizeof(*k));
    ck_assert_ptr_nonnull(k);
    *k = (struct kernel){p, (int)p->step};
    push(NULL, fn, k);
}

static bool chance(struct program *p, uint32_t of_100)
{
    return rng_below(&p->rng, 100) < of_100;
}

/* Between any two calls: whether the program goes on. */
static bool goes_on(struct program *p, int rc)
{
    if (rc != 0)
        p->failed = true;
    if (p->abort_at >= 0 && p->abort_at-- == 0)
        ddp_comm_abort(p->first);
    if (p->kill_at >= 0 && p->kill_at-- == 0)
        return false;
    return !p->failed || p->careless;
}

static bool sum_up(struct program *p, struct ddp_comm *c, float *data, int n)
{
    struct ddp_error e;
    return goes_on(p, ddp_comm_allreduce(c, data, (size_t)n, DDP_F32, &e)) &&
           (!chance(p, 20) || goes_on(p, ddp_comm_wait(c, &e)));
}

static bool save(struct program *p)
{
    struct ddp_error e;
    bool to_disk = p->disk && chance(p, 50);
    int rc =
        ddp_keeper_save(p->keeper, p->step, p->state, 2, NULL, 0, to_disk, &e);
    if (rc == 0 && p->last > p->floor)
        p->floor = p->last;
    p->last = rc == 0 ? p->step : p->floor;
    if (!goes_on(p, rc))
        return false;
    if (chance(p, 40))
        ddp_keeper_settle(p->keeper);
    if (!chance(p, 15))
        return goes_on(p, 0);
    rc = ddp_keeper_wait(p->keeper, &e);
    if (rc == 0 && p->last > 0)
        p->floor = p->last;
    p->last = p->floor;
    return goes_on(p, rc);
}

static bool take_step(struct program *p)
{
    struct ddp_error e;
    launch(p, run_grad);
    if (!sum_up(p, p->first, p->sum, A))
        return false;
    if (p->second != NULL) {
        launch(p, run_more);
        if (!sum_up(p, p->second, p->more, B))
            return false;
    }
    launch(p, run_optimizer);
    if (chance(p, 20) && !goes_on(p, ddp_comm_wait(p->first, &e)))
        return false;
    return !chance(p, 85) || save(p);
}

static struct ddp_comm *join(struct program *p)
{
    struct ddp_error e;
    struct ddp_comm_opts opts = {
        .kind = DDP_COMM_NCCL, .async = true, .timeout_ms = 2000};
    struct ddp_comm *c = ddp_comm_new(p->d, &opts, &e);
    ck_assert_msg(c != NULL, "%s", c == NULL ? e.text : "");
    return c;
}

static void give_memory(int fd)
{
    char path[48];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(),
                   fd); /* fits */
    ck_assert_int_eq(setenv("DDP_SNAPSHOT_MEMORY", path, 1), 0);
}

static int make_memory(void)
{
    int fd = memfd_create(MEMFD_SNAPSHOTS, MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, MEMORY), 0);
    give_memory(fd);
    return fd;
}

static void start(struct program *p, bool two)
{
    struct ddp_error e;
    static const size_t rooms[] = {0, 0, 64, 4 * A - 4};
    struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                   .gpu = true,
                                   .room_len = rooms[rng_below(&p->rng, 4)],
                                   .folder = p->disk ? "snap" : NULL};
    nccl->peer = other_adds;
    rt_place(0, 2, 1, 1);
    ck_assert_int_eq(setenv("LOCAL_WORLD_SIZE", "1", 1), 0);
    p->memory = make_memory();
    p->d = ddp_init(&e);
    ck_assert_ptr_nonnull(p->d);
    p->first = join(p);
    p->second = two ? join(p) : NULL;
    p->keeper = ddp_keeper_new(p->d, p->first, &conf, &e);
    ck_assert_ptr_nonnull(p->keeper);
    p->w = on_device(A);
    p->sum = on_device(A);
    p->more = on_device(B);
    p->state[0] = (struct ddp_tensor){"w", DDP_F32, 1, {A}, p->w};
    p->state[1] = (struct ddp_tensor){"step", DDP_I64, 0, {0}, &p->step};
}

/* -- what is left of it ---------------------------------------------------- */

/* The memory as a kill leaves it at this moment. A label is put there when its
 * image is whole, and both stay until this thread saves again: so labels are
 * copied first. */
static int copy_memory(const struct program *p)
{
    int to = make_memory();
    uint8_t *from = mmap(NULL, MEMORY, PROT_READ, MAP_SHARED, p->memory, 0);
    uint8_t *copy =
        mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0);
    ck_assert(from != MAP_FAILED && copy != MAP_FAILED);
    for (size_t i = 0; i < SNAPSHOT_SLOTS; i++)
        memcpy(copy + i * SLOT, from + i * SLOT, 4096);
    for (size_t i = 0; i < SNAPSHOT_SLOTS; i++)
        memcpy(copy + i * SLOT + 4096, from + i * SLOT + 4096, SLOT - 4096);
    ck_assert_int_eq(munmap(from, MEMORY), 0);
    ck_assert_int_eq(munmap(copy, MEMORY), 0);
    return to;
}

/* The step from which the next round goes on; 0: from the beginning. */
static int64_t resume(const struct program *p, uint32_t seed)
{
    float w[A];
    int64_t step = 0;
    struct ddp_error e;
    struct ddp_keeper_conf conf = {.folder = p->disk ? "snap" : NULL,
                                   .load_only = true};
    struct ddp_tensor state[2] = {{"w", DDP_F32, 1, {A}, w},
                                  {"step", DDP_I64, 0, {0}, &step}};
    struct ddp_comm_opts opts = {.kind = DDP_COMM_CPU};
    rt_place(0, 1, 1, 2);
    struct ddp *d = ddp_init(&e);
    struct ddp_comm *comm = ddp_comm_new(d, &opts, &e);
    struct ddp_keeper *k = ddp_keeper_new(d, comm, &conf, &e);
    ck_assert_ptr_nonnull(k);
    if (ddp_keeper_load(k, state, 2, NULL, 0, NULL, &e) != 0) {
        ck_assert_msg(e.code == DDP_ERR_NOINPUT, "seed %u: %s", seed, e.text);
        step = 0;
    }
    ddp_keeper_free(k);
    ddp_comm_free(comm);
    ddp_free(d);
    ck_assert_msg(step >= 0 && step <= STEPS, "seed %u: step %d", seed,
                  (int)step);
    for (int i = 0; step > 0 && i < A; i++)
        ck_assert_msg(memcmp(&w[i], &true_state[step][i], sizeof(w[i])) == 0,
                      "seed %u: after step %d w[%d] is %g, should be %g", seed,
                      (int)step, i, (double)w[i], (double)true_state[step][i]);
    return step;
}

static void stop(struct program *p)
{
    ddp_keeper_free(p->keeper);
    nccl->abort_blocks = nccl->abort_stuck = false;
    ddp_comm_free(p->second);
    ddp_comm_free(p->first);
    ddp_free(p->d);
}

static void clean_up(const struct program *p)
{
    ck_assert_int_eq(close(p->memory), 0);
    reset();
    while (nccl->in_abort > 0) /* it was given up, and ends now */
        (void)usleep(1000);
    *nccl = (struct fake_nccl){0};
    if (p->disk)
        ck_assert_int_eq(system("rm -rf snap"), 0);
}

/* -- one schedule ---------------------------------------------------------- */

enum trouble {
    NOTHING,
    OTHER_DIES,
    GPU_FAULTS,
    NCCL_FAILS,
    KILLED,
    NODE_LOST,
    ABORTED,
    TROUBLES
};

static struct counts {
    int resumed, lost, refused, stuck, from_disk;
    int kinds[TROUBLES];
} counts;

static void plan(struct program *p, enum trouble t)
{
    struct rng *r = &p->rng;
    int sums = STEPS * (p->second != NULL ? 2 : 1);
    p->kill_at = p->abort_at = -1;
    cuda->pace = (int)rng_below(r, 3);
    cuda->no_memory = chance(p, 20);
    cuda->late = (int)rng_below(r, 12);
    nccl->abort_blocks = chance(p, 5);
    nccl->abort_stuck = chance(p, 3);
    other.gives = -1;
    other.unnoticed = (int)rng_below(r, 20);
    switch (t) {
    case OTHER_DIES:
        other.gives = (int)rng_below(r, (uint32_t)sums);
        break;
    case GPU_FAULTS:
        cuda->fault_at = 1 + (int)rng_below(r, STEPS * 8);
        break;
    case NCCL_FAILS:
        nccl->error_at = 1 + (int)rng_below(r, STEPS);
        if (!chance(p, 10)) /* mostly it is a peer's death that NCCL sees */
            other.gives = nccl->error_at - 1;
        break;
    case KILLED:
    case NODE_LOST:
        p->kill_at = rng_below(r, STEPS * 4);
        break;
    case ABORTED:
        p->abort_at = rng_below(r, STEPS * 4);
        break;
    case NOTHING:
    case TROUBLES:
        break;
    }
}

static void play(uint32_t seed)
{
    static struct program p;
    p = (struct program){.w = NULL};
    rng_init(&p.rng, seed);
    enum trouble t = (enum trouble)rng_below(&p.rng, TROUBLES);
    bool two = chance(&p, 50);
    p.careless = chance(&p, 50);
    p.disk = t == NODE_LOST || chance(&p, 10);
    find_truth(two);
    other = (struct other){.gives = -1};
    start(&p, two);
    plan(&p, t);
    bool goes = true;
    for (p.step = 1; goes && p.step <= STEPS; p.step++)
        goes = take_step(&p);
    /* Without a kill it is what is there in the end. */
    int left = t == KILLED ? copy_memory(&p) : -1;
    int64_t floor = p.floor;
    if (t == NODE_LOST) {
        left = make_memory();
        floor = ddp_keeper_saved(p.keeper);
    }
    counts.refused += p.failed;
    counts.stuck += nccl->abort_stuck && nccl->aborts > 0;
    stop(&p);
    if (left < 0)
        left = copy_memory(&p);
    give_memory(left);
    other = (struct other){.gives = -1};
    int64_t step = resume(&p, seed);
    ck_assert_msg(step >= floor, "seed %u: step %d is lost, resumed from %d",
                  seed, (int)floor, (int)step);
    ck_assert_int_eq(close(left), 0);
    counts.resumed += step > 0;
    counts.from_disk += t == NODE_LOST && floor > 0;
    counts.lost += step < p.last;
    counts.kinds[t]++;
    clean_up(&p);
}

static void enter(void)
{
    scratch_enter();
    load_device();
    comm_nccl_abort_us = 3000;
    keeper_lost_us = 10000;
}

TEST(test_label_is_of_a_step_that_was)
{
    const char *only = getenv("SEED"), *many = getenv("SCHEDULES");
    uint32_t n = many == NULL ? SCHEDULES : (uint32_t)atoi(many);
    int64_t since_us = mono_now_us();
    if (only != NULL) {
        play((uint32_t)atoi(only));
        return;
    }
    for (uint32_t seed = 1; seed <= n; seed++)
        play(seed);
    printf("check_label: %u schedules in %.1f s, %d resumed, %d lost the step "
           "saved last, %d programs failed, %d with NCCL stuck\n",
           n, (double)(mono_now_us() - since_us) / 1e6, counts.resumed,
           counts.lost, counts.refused, counts.stuck);
    for (int t = 0; t < TROUBLES; t++)
        ck_assert_int_gt(counts.kinds[t], (int)n / TROUBLES / 2);
    ck_assert_int_gt(counts.resumed, (int)n / 2);
    ck_assert_int_gt(counts.lost, 0);
    ck_assert_int_gt(counts.from_disk, 0);
}

/* The story that the law is for: all is enqueued, the other rank dies, NCCL is
 * aborted, and the stream goes on with what was never summed. */
TEST(test_label_unsummed_gradients_are_no_step)
{
    static struct program p;
    struct ddp_error e;
    p = (struct program){.kill_at = -1, .abort_at = -1};
    find_truth(false);
    other = (struct other){.gives = 2, .unnoticed = 20};
    start(&p, false);
    for (p.step = 1; p.step <= 3; p.step++) {
        launch(&p, run_grad);
        ck_assert_int_eq(ddp_comm_allreduce(p.first, p.sum, A, DDP_F32, &e), 0);
        launch(&p, run_optimizer);
        ck_assert_int_eq(
            ddp_keeper_save(p.keeper, p.step, p.state, 2, NULL, 0, false, &e),
            0);
    }
    ck_assert_int_eq(ddp_comm_wait(p.first, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_PEER);
    ck_assert_int_eq(ddp_keeper_wait(p.keeper, &e), -1);
    ck_assert_str_eq(e.text,
                     "snapshot of step 3 in 'memory': a collective that it "
                     "rests on failed: rank 1 died");
    ck_assert_int_eq(e.code, DDP_ERR_PEER);
    p.step = 4;
    ck_assert_int_eq(
        ddp_keeper_save(p.keeper, 4, p.state, 2, NULL, 0, false, &e), -1);
    stop(&p);
    other.gives = -1;
    ck_assert_int_eq(resume(&p, 0), 2);
    clean_up(&p);
}

SUITE("label", "law", .limit_s = 600, FIXTURE(enter, scratch_leave))
